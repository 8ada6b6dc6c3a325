"""Argument types and helpers shared by commands; `hanabi-rl agents`."""

from __future__ import annotations

import json as json_format
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.storage.validation import Seed

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games

_NAMES = (
    "agent:NAME, bot:NAME, python:FILE.py:CLASS, process:COMMAND, hf:OWNER/NAME, a run's folder, a "
    "policy folder or file, a checkpoints/<step>, ... (`hanabi-rl agents` lists names)"
)
Agent = Annotated[
    tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT", help=f"agent to evaluate: {_NAMES}")
]
Agents = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="AGENT [AGENT ...]", help=f"agents to evaluate: {_NAMES}"),
]
File = tyro.conf.Positional[Path]
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
AgentOrFile = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT|FILE")]
Groups = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=AGENT,AGENT [...]")]
SeedNames = Annotated[
    tuple[str, ...] | None,
    tyro.conf.arg(
        metavar="SEED|SEED..NUMBER [...]",
        help="hanab.live deals, by their seeds, instead of random decks: p2v0s1..200, or p2v0s7 "
        "p2v0s12",
    ),
]
DeckSeed = Annotated[Seed, tyro.conf.arg(help="seed of the decks and of sampled actions")]
GameName = Annotated[
    str | None,
    tyro.conf.arg(
        metavar="hanabi?KEY=VALUE|overcooked:KITCHEN",
        help="game of the agents; None: that of the trained agents, hanabi for bots",
    ),
]
Players = Annotated[
    int | None,
    tyro.conf.arg(help="number of players, 2 to 5; None: 2 for bots, the trained agent's number"),
]
Sample = Annotated[Flag, tyro.conf.arg(help="sample actions instead of taking the most likely")]
Json = Annotated[Flag, tyro.conf.arg(help="print one line of JSON on stdout, the text on stderr")]
DEFAULT_GAMES = 5000
OTHER_GAMES = 200
"""Default number of games other than Hanabi, whose games are longer."""
_GAME_FILES = (".safetensors", ".json", ".jsonl", ".openspiel")


def play_mode(sample: bool, rules: Any = None) -> str:
    """Name of the way in which actions are chosen; default: in Hanabi."""
    return "sampled" if sample or not (rules is None or rules.is_greedy) else "greedy"


def names_games(source: str) -> bool:
    """True for a file of games or a replay link, False for an agent, including policy files."""
    from hanabi_rl.agents.loading import parse_name
    from hanabi_rl.agents.policy_file import is_policy
    from hanabi_rl.data.formats.hanab_live import is_link

    if is_link(source):
        return True
    path, named = Path(source), parse_name(source)
    return path.suffix in _GAME_FILES and not named.scheme and not is_policy(path)


def chosen_decks(
    seed_names: Sequence[str] | None, games: int | None, seed: int | None, game: str = "hanabi"
) -> tuple[int, int, tuple[str, ...]]:
    """Return the number of decks, their seed, and the names of hanab.live deals (default: ()).

    Raises ValueError for invalid names, names together with `--games` or `--seed`, or names for a
    game other than Hanabi.
    """
    if seed_names is None:
        default = DEFAULT_GAMES if game == "hanabi" else OTHER_GAMES
        return default if games is None else games, seed or 0, ()
    if game != "hanabi":
        raise ValueError(f"--seed-names: expected agents of hanabi, got {game}")
    from hanabi_rl.data.formats.hanab_live_decks import parse_seed_names

    for flag, value in (("--games", games), ("--seed", seed)):
        if value is not None:
            raise ValueError(
                f"{flag}: expected no {flag} with --seed-names, which fixes the deals, got {value}"
            )
    return len(parse_seed_names(seed_names)[0]), 0, tuple(seed_names)


def load_agent(agent: str, players: int | None, game: str | None = None) -> Policy:
    """Load one agent, as `load_agents`."""
    return load_agents([agent], players, game)[0]


def load_agents(
    agents: Sequence[str], players: int | None, game: str | None = None
) -> list[Policy]:
    """Load agents by name; imports `hanabi_rl.agents.loading` late to keep `--help` fast."""
    from hanabi_rl.agents import loading

    return loading.load_agents(agents, players, game)


def load_hanabi_agents(agents: Sequence[str], players: int | None) -> list[Policy]:
    """Load agents for a command of Hanabi; raises ValueError also for agents of another game."""
    from hanabi_rl.agents.loading import plays_any_game
    from hanabi_rl.agents.policy import check_hanabi

    policies = load_agents(agents, players)
    for name, policy in zip(agents, policies, strict=True):
        if not plays_any_game(name):
            check_hanabi(policy, name)
    return policies


def games_of_source(
    source: str, players: int | None, games: int, seed: int, sample: bool = False
) -> tuple[Games, str, dict[str, Any]]:
    """Return recorded games, or an agent's self-play games, with their title and JSON fields."""
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay

    if names_games(source):
        recorded = load_distinct_games([source])
        title = f"{source}: {recorded.rules.num_players} players, {seats_text(recorded)}"
        return recorded, title, {"file": source}
    (policy,) = load_hanabi_agents([source], players)
    figures = {"agent": source, "policy_hash": policy.identity(), "seed": seed, "sampled": sample}
    recorded = evaluate_selfplay(policy, games, seed, sample=sample).records
    return recorded, selfplay_title(source, policy, sample, f"seed {seed}"), figures


def selfplay_title(agent: str, policy: Policy, sample: bool, decks: str) -> str:
    """Title of a table about self-play games."""
    from hanabi_rl.games.registry import game_label

    rules = policy.rules
    return f"{agent}: {play_mode(sample, rules)} self-play, {game_label(rules)}, {decks}"


def seats_text(games: Games) -> str:
    """Name of the seats that are evaluated in recorded games."""
    return "every seat" if games.human_seats is None else "human seats"


def algorithms_of(agents: Sequence[str], policies: Sequence[Policy]) -> list[str]:
    """Return the training algorithm of each agent; for a bot its name."""
    from hanabi_rl.agents.policy import NetworkPolicy

    return [
        (policy.info.algorithm if isinstance(policy, NetworkPolicy) else agent.removeprefix("bot:"))
        or "unnamed"
        for agent, policy in zip(agents, policies, strict=True)
    ]


def assign_groups(
    agents: Sequence[str], labels: Sequence[str], defaults: Sequence[str], chosen: Sequence[str]
) -> list[str]:
    """Return the group of each agent: from `--group`, or its entry in `defaults`.

    Raises:
        ValueError: as `parse_groups`; an agent is in two groups; or a group has the default name of
            an agent outside the group.
    """
    groups = list(defaults)
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
                f"--group {groups[index]}=...: add {labels[index]} or rename the group: "
                f"{groups[index]} is the default group of {labels[index]}"
            )
    return groups


def parse_groups(
    chosen: Sequence[str], agents: Sequence[str], labels: Sequence[str]
) -> dict[str, list[int]]:
    """Parse `--group NAME=AGENT,AGENT ...` to name -> indices of agents.

    Agents are named as on the command line or by label. Raises ValueError for other text.
    """
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


def parse_families(chosen: Sequence[str]) -> dict[str, list[str]]:
    """Parse `--family NAME=AGENT,AGENT ...` to name -> agents.

    Raises ValueError for other text and for an agent named twice.
    """
    families: dict[str, list[str]] = {}
    for text in chosen:
        name, _, members = text.partition("=")
        # an option's value may be numbers with commas: A?safe=0.6,0.1
        agents = [member for member in re.split(r",(?![\d.]+(?:,|&|$))", members) if member]
        if not name or not agents or set(name) & set(":/?"):
            raise ValueError(f"expected --family NAME=AGENT,AGENT, got {text!r}")
        families.setdefault(name, []).extend(agents)
    named = [agent for agents in families.values() for agent in agents]
    if twice := [agent for agent in named if named.count(agent) > 1]:
        raise ValueError(f"--family: expected each agent once, got {twice[0]} twice")
    return families


def _members(text: str, known: Collection[str]) -> list[str]:
    """Split `A,B?safe=0.6,0.1,C` into agents: options of `known` names may contain commas."""
    members = []
    while text:
        matches = [name for name in known if f"{text},".startswith(f"{name},")]
        member = max(matches, key=len, default=text.partition(",")[0])
        members.append(member)
        text = text[len(member) + 1 :]
    return members


def list_agents(name: tyro.conf.Positional[str] = "", json: Flag = False) -> None:
    """List bundled agents and bots, or print the card of one agent.

    The list has the parameters of each bot and the options of every agent, which are added to a
    name as AGENT?option=value&...

    Args:
        name: agent to describe; a run has no card, so its known fields are printed.
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
    """Card of an agent without its options; known fields if the card is missing."""
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
        fields = {"card": "none: external agent", "players": policy.rules.num_players}
    else:  # a run's
        fields = {"card": "none: `hanabi-rl export` writes one", **run_metadata(plain, policy)}
        fields["score"] = policy.info.score  # by which the policy was selected
    return {"name": plain, **fields}


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
    lines.append("options of all agents")
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
    return f"{text}, prediction accuracy {prediction['accuracy']:.3f} on {prediction['file']}"
