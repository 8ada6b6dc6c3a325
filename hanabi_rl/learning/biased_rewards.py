"""Biased rewards `u r + w * phi(s, a)` over a game's events (ZSC-Eval, arXiv 2310.05208,
section 4.1).

`rewards.py` defines which moves are paid. The weights are arrays, never static, so learners of all
biased rewards share one compilation.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Annotated, Any, Literal

import flax.struct
import jax
import numpy as np
import tyro

from hanabi_rl.games.hanabi.events import EVENTS
from hanabi_rl.games.hanabi.rules import Rules

Weights = tuple[float, ...]


class BiasedReward(flax.struct.PyTreeNode):
    """Reward for the moves in the learner's own seats."""

    event_weights: jax.Array  # w, float32 [E]
    score_weight: jax.Array  # u, float32 []
    rules: Any = flax.struct.field(pytree_node=False)
    """Game of the events."""


@dataclasses.dataclass(frozen=True)
class EventWeights:
    """Hanabi: candidate weights of each event besides 0; empty for events that are not rewarded."""

    hint_color: Weights = (-0.5, 0.5)
    hint_rank: Weights = (-0.5, 0.5)
    hint_playable: Weights = (0.5,)
    hint_save: Weights = (0.5,)
    hint_repeated: Weights = (-0.5,)
    play_known: Weights = (0.5,)
    play_blind: Weights = (-1.0, 1.0)
    play_after_hint: Weights = (-1.0, 1.0)
    play_newest: Weights = (-1.0, 1.0)
    misplay: Weights = ()
    discard_chop: Weights = (-0.5, 0.5)
    discard_hinted: Weights = (-1.0, 1.0)
    discard_many_tokens: Weights = (-0.5, 0.5)
    discard_last_copy: Weights = ()


@dataclasses.dataclass(frozen=True)
class OvercookedEventWeights:
    """Overcooked: as `EventWeights`, the preferences of ZSC-Eval's code for Carroll's kitchens."""

    kind: Annotated[Literal["overcooked"], tyro.conf.Suppress] = "overcooked"
    put_onion_on_counter: Weights = ()
    put_dish_on_counter: Weights = ()
    put_soup_on_counter: Weights = ()
    take_onion_from_counter: Weights = ()
    take_onion_from_dispenser: Weights = (-20.0, 10.0)
    take_dish_from_counter: Weights = ()
    take_dish_from_dispenser: Weights = (-20.0, 10.0)
    take_soup_from_counter: Weights = ()
    take_useful_dish: Weights = ()
    take_soup_from_pot: Weights = ()
    put_onion_in_pot: Weights = ()
    serve_soup: Weights = (-20.0,)
    stay: Weights = (-0.1, 0.1)
    move: Weights = ()
    idle_move: Weights = ()
    idle_interact_counter: Weights = ()
    idle_interact_nothing: Weights = ()


AnyEventWeights = EventWeights | OvercookedEventWeights
"""Weights of all games."""


def events_of_game(rules: Any) -> tuple[str, ...]:
    """Names of a game's events, E."""
    return EVENTS if isinstance(rules, Rules) else rules.events


def weighted_events(choices: AnyEventWeights) -> tuple[str, ...]:
    """Names of the events that `choices` gives weights, E."""
    return tuple(f.name for f in dataclasses.fields(choices) if f.name != "kind")


def biased_reward_space(choices: AnyEventWeights, at_most: int) -> list[Weights]:
    """All vectors w over the game's events with at most `at_most` non-zero weights; those with only
    zeros first."""
    names, found = weighted_events(choices), []
    for count in range(at_most + 1):
        for events in itertools.combinations(names, count):
            for values in itertools.product(*(getattr(choices, event) for event in events)):
                chosen = dict(zip(events, values, strict=True))
                found.append(tuple(chosen.get(event, 0.0) for event in names))
    return found


def sample_biased_rewards(
    choices: AnyEventWeights, at_most: int, score_weights: Weights, count: int, seed: int
) -> list[tuple[Weights, float]]:
    """Sample `count` different pairs (w, u) uniformly.

    Raises:
        ValueError: fewer than `count` pairs exist.
    """
    space = list(itertools.product(biased_reward_space(choices, at_most), score_weights))
    if not 1 <= count <= len(space):
        raise ValueError(
            f"num_pairs: expected 1 to {len(space)}, the rewards there are, got {count}"
        )
    order = np.random.default_rng(seed).permutation(len(space))
    return [space[place] for place in order[:count]]
