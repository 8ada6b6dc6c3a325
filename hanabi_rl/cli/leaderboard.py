"""`hanabi-rl leaderboard`: AH2AC2's ranking of candidates with human proxies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hanabi_rl.cli.agents import DeckSeed, Groups, Players, load_agents, parse_groups
from hanabi_rl.cli.output import Json, Parts, measure_command
from hanabi_rl.storage.validation import BoundedCount
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.leaderboard import LeaderboardEntry


class Candidate(NamedTuple):
    """A row: an agent, or the chosen one of several seeds."""

    label: str
    policy: Policy
    seeds: dict[str, float]
    """Label -> nats per timestep on the validation games, where seeds are compared."""
    chosen: str
    """The label of the agent that plays."""


def leaderboard(
    agents: tuple[str, ...],
    proxies: tuple[str, ...] = (),
    players: Players = None,
    games: BoundedCount = 1000,
    seed: DeckSeed = 0,
    group: Groups = (),
    val: Path | None = None,
    data: Path | None = None,
    out: Path | None = None,
    board: Path | None = None,
    submitted_by: str = "",
    json: Json = False,
) -> None:
    """Play each agent with the proxies in every mixed lineup, and the proxies in self-play, and
    print AH2AC2's leaderboard (its Table 4): mean and median score, and cross-entropy.

    Args:
        agents: candidates, any agents (`hanabi-rl agents` lists them).
        proxies: human proxies, the partners.
        games: games of each agent, each on a deck of its own, spread evenly over the lineups.
        group: agents that are seeds of one method: the one with the lowest cross-entropy on --val
            plays, under the method's name.
        val: recorded games to choose seeds by.
        data: other recorded human games to predict, for the cross-entropy that is printed.
        out: folder for leaderboard.json.
        board: leaderboard file to add the agents to; it fixes proxies, games and decks, and takes
            no other flags than --agents and --submitted-by.
        submitted_by: name of the submitter.
    """
    if board is None:
        _play(agents, proxies, players, games, seed, group, val, data, out, json=json)
        return
    others = (proxies, players, games, seed, group, val, data, out, json)
    if others != ((), None, 1000, 0, (), None, None, None, False):
        raise ValueError("--board: expected no other flags than --agents and --submitted-by")
    _add(board, agents, submitted_by)


@measure_command
def _play(
    agents: tuple[str, ...],
    proxies: tuple[str, ...],
    players: int | None,
    games: int,
    seed: int,
    group: Sequence[str],
    val: Path | None,
    data: Path | None,
    out: Path | None,
) -> Parts:
    """The command without a board."""
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.leaderboard import (
        check_candidate,
        play_leaderboard,
        play_proxy_self_play,
    )
    from hanabi_rl.evaluation.measure.prediction import predict
    from hanabi_rl.evaluation.reporting.leaderboard import leaderboard_parts
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.storage.files import write_json

    if not proxies:
        raise ValueError(f"expected --proxies and --agents, got 0 and {len(agents)}")
    everyone = list(dict.fromkeys((*proxies, *agents)))  # an agent may be one of the proxies
    label_of = dict(zip(everyone, short_labels(everyone), strict=True))
    policy_of = dict(zip(everyone, load_agents(everyone, players), strict=True))
    partners = [policy_of[proxy] for proxy in proxies]
    names = [label_of[proxy] for proxy in proxies]
    check_distinct(partners, proxies, "--proxies: ")
    check_distinct([policy_of[agent] for agent in agents], agents, "--agents: ")
    labels = [label_of[agent] for agent in agents]
    grouped = parse_groups(group, agents, labels)
    if grouped and val is None:
        raise ValueError("--group: expected --val, recorded games to choose a seed by, got none")
    human = None if data is None else load_distinct_games([data])
    chosen_by = None if val is None else load_distinct_games([val])
    for flag, recorded in (("--data", human), ("--val", chosen_by)):
        if recorded is not None:
            recorded.check_rules(partners[0].rules, f"{flag}: ")
    if human is not None and chosen_by is not None:
        chosen_by.check_disjoint(human, "--val", "--data")
    rows = candidates(labels, [policy_of[agent] for agent in agents], grouped, chosen_by)
    for row in rows:
        check_candidate(row.policy, partners, f"--agents {row.label}: ")
    entries: dict[str, LeaderboardEntry] = {}
    for row in rows:
        prediction = None if human is None else predict(row.policy, human)
        entries[row.label] = play_leaderboard(row.policy, partners, games, seed, prediction)
        print(f"{row.label}: {count(games, 'game')} played", file=sys.stderr)
    guesses = [] if human is None else [predict(partner, human) for partner in partners]
    own = play_proxy_self_play(partners, games, seed, guesses)
    record = {
        "players": partners[0].rules.num_players,
        "seed": seed,
        "data": data,
        "val": val,
        "proxies": [
            {"label": name, "hash": policy.identity()}
            for name, policy in zip(names, partners, strict=True)
        ],
        "agents": [
            {"agent": row.label, **_seeds(row), **entries[row.label].as_dict(names)} for row in rows
        ],
        "proxy_self_play": own.as_dict(names),
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "leaderboard.json", record)
    chosen = [
        f"\n{row.label}: {row.chosen} of seeds with nats per timestep "
        + ", ".join(f"{label} {loss:.4f}" for label, loss in row.seeds.items())
        for row in rows
        if row.seeds
    ]
    yield from leaderboard_parts(entries, names, partners[0].rules, games, own, chosen)
    yield record


def _add(file: Path, agents: Sequence[str], submitted_by: str) -> None:
    """Play the games of a leaderboard file for each agent, and add its row."""
    from hanabi_rl.evaluation.measure.leaderboard import play_leaderboard
    from hanabi_rl.evaluation.measure.leaderboard_file import (
        check_public,
        read_board,
        row_of,
        with_row,
        write_board,
    )
    from hanabi_rl.storage.files import check_readable

    check_readable("--board", file, "a leaderboard's file, such as docs/leaderboard/2p.json")
    board = read_board(file)
    if not agents or not submitted_by:
        raise ValueError("--board requires --agents and --submitted-by")
    for agent in agents:
        check_public(agent, "--agents")
    proxies = load_agents([proxy.agent for proxy in board.proxies], board.players)
    for proxy, policy in zip(board.proxies, proxies, strict=True):
        if policy.identity() != proxy.hash:
            raise ValueError(
                f"{file}: expected {proxy.agent} to be {proxy.hash}, got {policy.identity()}"
            )
    candidates = load_agents(agents, board.players)
    for agent, policy in zip(agents, candidates, strict=True):
        entry = play_leaderboard(policy, proxies, board.games, board.seed)
        row = row_of(entry, agent, policy.identity(), submitted_by, version("hanabi-rl"))
        board = with_row(board, row)
        write_board(file, board)
        print(f"{agent}: {entry.summary.mean:.2f}, row {board.rows.index(row) + 1} of {file}")


def candidates(
    labels: Sequence[str],
    policies: Sequence[Policy],
    groups: Mapping[str, Sequence[int]],
    val: Games | None,
) -> list[Candidate]:
    """The rows: every agent that is no seed of a group, and of each group the seed that predicts
    `val` best, at the place of its first one.

    Raises:
        ValueError: an agent in two groups or twice in one, two seeds that are one policy, or a
            group with the name of another agent.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.evaluation.measure.leaderboard import best_seed
    from hanabi_rl.evaluation.measure.prediction import predict

    rows: dict[int, Candidate] = {}
    taken: dict[int, str] = {}
    for name, members in groups.items():
        for member in members:
            if member in taken:
                raise ValueError(
                    f"--group {name}: expected every agent once, got {labels[member]} again"
                )
            taken[member] = name
        names = [labels[member] for member in members]
        check_distinct([policies[member] for member in members], names, f"--group {name}: ")
        assert val is not None, "checked by the command"
        read = [predict(policies[member], val) for member in members]
        best = members[best_seed(read)]
        losses = [prediction.cross_entropy_per_timestep().mean for prediction in read]
        seeds = dict(zip(names, losses, strict=True))
        rows[members[0]] = Candidate(name, policies[best], seeds, labels[best])
    for place, (label, policy) in enumerate(zip(labels, policies, strict=True)):
        if place not in taken:
            if label in groups:
                raise ValueError(f"--group {label}: expected another name than that of an agent")
            rows[place] = Candidate(label, policy, {}, label)
    return [rows[place] for place in sorted(rows)]


def _seeds(row: Candidate) -> dict[str, Any]:
    """JSON of the choice of a seed; empty without one."""
    if not row.seeds:
        return {}
    return {"chosen": row.chosen, "val_cross_entropy_per_timestep": row.seeds}
