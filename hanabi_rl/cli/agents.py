"""What the subcommands share: how an agent is named, and flags; and the list of agents."""

from __future__ import annotations

import json as json_format
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

Agent = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT")]
Agents = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="AGENT [AGENT ...]")
]
File = tyro.conf.Positional[Path]
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
AgentOrFile = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT|FILE")]
Groups = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=AGENT,AGENT [...]")]
SeedNames = Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="SEED|SEED..NUMBER [...]")]
DEFAULT_GAMES = 5000
_GAME_FILES = (".safetensors", ".json", ".jsonl")


def names_games(source: str) -> bool:
    """Whether an argument names a file of games or a replay link, else an agent (which a file may
    be too)."""
    from hanabi_rl.agents.loading import parse_name
    from hanabi_rl.agents.policy_file import is_policy
    from hanabi_rl.data.formats.hanab_live import is_link

    if is_link(source):
        return True
    path, named = Path(source), parse_name(source)
    return path.suffix in _GAME_FILES and not named.scheme and not is_policy(path)


def chosen_decks(
    seed_names: Sequence[str] | None, games: int | None, seed: int | None
) -> tuple[int, int, tuple[str, ...]]:
    """Return the number of decks, their seed, and the names of hanab.live deals, () without.

    Raises ValueError for names that are wrong, or together with `--games` or `--seed`.
    """
    if seed_names is None:
        return DEFAULT_GAMES if games is None else games, seed or 0, ()
    from hanabi_rl.data.formats.hanab_live_decks import parse_seed_names

    for flag, value in (("--games", games), ("--seed", seed)):
        if value is not None:
            raise ValueError(
                f"{flag}: expected no {flag} with --seed-names, which names the deals, got {value}"
            )
    return len(parse_seed_names(seed_names)[0]), 0, tuple(seed_names)


def load_agent(agent: str, players: int | None) -> Policy:
    """`load_agents` of one."""
    return load_agents([agent], players)[0]


def load_agents(agents: Sequence[str], players: int | None) -> list[Policy]:
    """See `hanabi_rl.agents.loading.load_agents`, which is imported where it is needed: `--help` is
    quick."""
    from hanabi_rl.agents import loading

    return loading.load_agents(agents, players)


def algorithms_of(agents: Sequence[str], policies: Sequence[Policy]) -> list[str]:
    """The algorithm of each agent, or the bot's name."""
    from hanabi_rl.agents.policy import NetworkPolicy

    names = []
    for agent, policy in zip(agents, policies, strict=True):
        algorithm = (
            policy.info.algorithm
            if isinstance(policy, NetworkPolicy)
            else agent.removeprefix("bot:")
        )
        names.append(algorithm or "unnamed")
    return names


def assign_groups(
    agents: Sequence[str], labels: Sequence[str], otherwise: Sequence[str], chosen: Sequence[str]
) -> list[str]:
    """The group of each agent: what `--group` says, else that of `otherwise`.

    Raises:
        ValueError: as `parse_groups`; an agent is in two groups; or a group has the name of that of
            an agent which it leaves out.
    """
    groups = list(otherwise)
    named: dict[int, str] = {}
    for name, members in parse_groups(chosen, agents, labels).items():
        for index in members:
            if named.setdefault(index, name) != name:
                raise ValueError(
                    f"--group: expected {labels[index]} in one group, got it in {named[index]} "
                    f"and in {name}"
                )
            groups[index] = name
    for index in set(range(len(agents))) - set(named):
        if groups[index] in named.values():
            raise ValueError(
                f"--group {groups[index]}=...: expected {labels[index]} among its agents, or "
                f"another name: {groups[index]} is what it is called without one"
            )
    return groups


def parse_groups(
    chosen: Sequence[str], agents: Sequence[str], labels: Sequence[str]
) -> dict[str, list[int]]:
    """`--group NAME=AGENT,AGENT ...` -> name -> places of its agents, which are named as they were
    given or by their labels. Raises ValueError for anything else."""
    groups: dict[str, list[int]] = {}
    for text in chosen:
        name, _, members = text.partition("=")
        if not name or not members:
            raise ValueError(f"expected --group NAME=AGENT,AGENT, got {text!r}")
        for member in _members(members, {*agents, *labels}):
            found = [
                i for i, names in enumerate(zip(agents, labels, strict=True)) if member in names
            ]
            if not found:
                raise ValueError(
                    f"--group {text}: expected one of the agents {', '.join(labels)}, got "
                    f"{member!r}"
                )
            groups.setdefault(name, []).extend(found)
    return groups


def _members(text: str, known: Collection[str]) -> list[str]:
    """`A,B?safe=0.6,0.1,C` -> what it names: the longest of `known` where one begins, which may
    have commas in its options, else what is up to the next comma."""
    members = []
    while text:
        begins = [name for name in known if f"{text},".startswith(f"{name},")]
        member = max(begins, key=len, default=text.partition(",")[0])
        members.append(member)
        text = text[len(member) + 1 :]
    return members


def list_agents(name: tyro.conf.Positional[str] = "", json: Flag = False) -> None:
    """List the agents that can be named, their parameters, and the options that every agent takes:
    AGENT?option=value&... With a name, the card of that agent alone.

    Args:
        name: any agent; of one without a card, as a run's, what is known of it.
        json: print one line of JSON.
    """
    from hanabi_rl.agents.loading import agent_catalog

    known = agent_catalog()
    if name:
        known = _one(known["agents"], name)
    if json:
        print(json_format.dumps(known))
    else:
        print(_card(known) if name else _table(known))


def _one(known: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """The card of an agent, or what is known of it, its options aside."""
    from hanabi_rl.agents.loading import load_policy, parse_name
    from hanabi_rl.agents.policy import NetworkPolicy
    from hanabi_rl.agents.provenance import read_model_card, run_metadata

    parsed = parse_name(name)
    plain = parsed.without_options
    if listed := [agent for agent in known if agent["name"] == plain]:
        return listed[0]
    if card := read_model_card(plain):
        return {"name": plain, **card}
    policy = load_policy(plain)
    if parsed.scheme or not isinstance(policy, NetworkPolicy):
        without = {"card": "none: published by others", "players": policy.rules.num_players}
    else:  # a run's
        without = {"card": "none: `hanabi-rl export` writes one", **run_metadata(plain, policy)}
        without["score"] = policy.info.score  # by which it was selected
    return {"name": plain, **without}


def _card(agent: dict[str, Any]) -> str:
    from hanabi_rl.agents.card import in_words

    width = max(len(key) for key in agent)
    return "\n".join(f"{key:<{width}}  {in_words(agent, key)}" for key in agent)


def _table(known: dict[str, Any]) -> str:
    from hanabi_rl.agents.card import in_words

    width = max(len(agent["name"]) for agent in known["agents"])
    lines = []
    for agent in known["agents"]:
        version = f" (version {agent['version']})" if "version" in agent else ""
        lines.append(f"{agent['name']:<{width}}  {agent['about']}{version}")
        if "selfplay" in agent:
            lines.append(f"{'':<{width}}  {_figures(agent)}")
        if agent.get("scores"):
            lines.append(f"{'':<{width}}  self-play: {in_words(agent, 'scores')}")
        for name, parameter in agent.get("parameters", {}).items():
            lines.append(f"{'':<{width}}  ?{name}={parameter['default']} ({parameter['type']})")
    lines.append("options of every agent")
    lines += [f"{'':<{width}}  ?{about}" for about in known["options"].values()]
    return "\n".join(lines)


def _figures(agent: dict[str, Any]) -> str:
    from hanabi_rl.evaluation.measure.intervals import bounds_text

    bounds = bounds_text(agent["selfplay"]["ci95"])
    text = (
        f"{agent['players']} players, {agent['algorithm']}, {agent['features']}; "
        f"data: {agent['data']}; self-play {agent['selfplay']['mean']:.2f} {bounds}"
    )
    if agent["prediction"] is None:
        return text
    prediction = agent["prediction"]
    return f"{text}, predicts {prediction['accuracy']:.3f} of the moves of {prediction['file']}"
