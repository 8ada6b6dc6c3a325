"""Reference implementation of links over events (preconditions, effects) of any game."""

from collections.abc import Callable, Collection
from typing import NamedTuple

Proposition = tuple  # (name, object, ...), hashable


class Event(NamedTuple):
    """One agent's action: its preconditions, and the propositions that it makes true and false."""

    agent: int
    time: int
    pre: frozenset[Proposition]
    add: frozenset[Proposition]
    delete: frozenset[Proposition] = frozenset()


class Link(NamedTuple):
    """A giving event, a receiving event of another agent, and the propositions between them."""

    giver: Event
    receiver: Event
    given: Proposition

    @property
    def object(self) -> object:
        return self.given[1]


def links_of(events: list[Event]) -> list[Link]:
    """All links of a game in order of time. The givers of a proposition are all events that made it
    true since it was last false, if another agent's action depends on it."""
    links = []
    for now, receiver in enumerate(events):
        for proposition in receiver.pre:
            for giver in reversed(events[:now]):
                if proposition in giver.add and giver.agent != receiver.agent:
                    links.append(Link(giver, receiver, proposition))
                if proposition in giver.delete:
                    break
    return links


def triggers(
    events: list[Event], agents: Collection[int], needed: Callable[[int, Proposition], bool]
) -> list[Event]:
    """Events that make true what another agent could need: `needed(agent, proposition)`."""
    return [
        event
        for event in events
        if any(needed(agent, p) for p in event.add for agent in agents if agent != event.agent)
    ]


def accepts(event: Event, links: list[Link]) -> list[Link]:
    """Links given by an event; empty if the trigger was not accepted."""
    return [link for link in links if link.giver == event]


def is_constructive(link: Link, events: list[Event], goals: Collection[Proposition]) -> bool:
    """True if the object reaches a goal and did not go in a circle."""
    true: set[Proposition] = set()
    for event in events:
        true = (true - event.delete) | event.add
    reached = any(p[1] == link.object for p in true & set(goals))
    return reached and not goes_in_a_circle(link, events)


def goes_in_a_circle(link: Link, events: list[Event]) -> bool:
    """True if the giver gets the object back unchanged, or the receiver had it before."""

    def of_object(propositions: Collection[Proposition], agent: int) -> set[Proposition]:
        return {p for p in propositions if p[1] == link.object and agent in p[2:]}

    def made_true(propositions: set[Proposition], times: range) -> bool:
        return any(propositions & event.add for event in events if event.time in times)

    giver, receiver, _ = link
    later = range(receiver.time + 1, events[-1].time + 1)
    had = of_object(giver.pre, giver.agent)
    gives = of_object(giver.add, receiver.agent)
    takes = of_object(receiver.add, receiver.agent)
    return (
        made_true(had, later)
        or made_true(gives, range(giver.time))
        or made_true(takes, range(receiver.time))
    )
