"""`hanabi-rl leaderboard`: AH2AC2's ranking of agents with human proxies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hanabi_rl.cli.agents import DeckSeed, Groups, Json, Players, load_hanabi_agents, parse_groups
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import BoundedCount
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.leaderboard import LeaderboardEntry


class Candidate(NamedTuple):
    """Row of the leaderboard: an agent, or the selected seed of a group."""

    label: str
    policy: Policy
    seeds: dict[str, float]
    """Label -> validation cross-entropy in nats per timestep; empty for a single agent."""
    chosen: str
    """Label of the agent that plays."""


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
    """Print AH2AC2's leaderboard (Table 4) of agents with human proxies.

    Each agent plays with the proxies in every mixed lineup, and the proxies play in self-play. The
    table has mean score, median score and cross-entropy.

    Args:
        agents: agents to evaluate (`hanabi-rl agents` lists names).
        proxies: human proxies, the partners.
        games: games per agent, one per deck, spread evenly over the lineups.
        group: agents that are seeds of one method: the seed with the lowest cross-entropy on --val
            plays, under the name of the method.
        val: recorded games for the selection of seeds.
        data: other recorded human games, for the cross-entropy in the table.
        out: folder for leaderboard.json.
        board: leaderboard file to add the agents to; it fixes proxies, games and decks, and allows
            only the flags --agents and --submitted-by.
        submitted_by: name of the submitter, for --board.
    """
    if board is None:
        _play(agents, proxies, players, games, seed, group, val, data, out, json=json)
        return
    others = (proxies, players, games, seed, group, val, data, out, json)
    if others != ((), None, 1000, 0, (), None, None, None, False):
        raise ValueError("--board: expected only --agents and --submitted-by as other flags")
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
    """The command without --board."""
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure import leaderboard as measure
    from hanabi_rl.evaluation.measure.prediction import predict
    from hanabi_rl.evaluation.reporting.leaderboard import leaderboard_parts
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.storage.files import write_json

    if not proxies:
        raise ValueError(f"expected --proxies and --agents, got 0 and {len(agents)}")
    everyone = list(dict.fromkeys((*proxies, *agents)))  # an agent may be one of the proxies
    label_of = dict(zip(everyone, short_labels(everyone), strict=True))
    policy_of = dict(zip(everyone, load_hanabi_agents(everyone, players), strict=True))
    partners = [policy_of[proxy] for proxy in proxies]
    policies = [policy_of[agent] for agent in agents]
    names, labels = ([label_of[name] for name in group] for group in (proxies, agents))
    check_distinct(partners, proxies, "--proxies: ")
    check_distinct(policies, agents, "--agents: ")
    grouped = parse_groups(group, agents, labels)
    if grouped and val is None:
        raise ValueError("--group: expected --val, recorded games to select a seed, got none")
    human = None if data is None else load_distinct_games([data])
    chosen_by = None if val is None else load_distinct_games([val])
    for flag, recorded in (("--data", human), ("--val", chosen_by)):
        if recorded is not None:
            recorded.check_rules(partners[0].rules, f"{flag}: ")
    if human is not None and chosen_by is not None:
        chosen_by.check_disjoint(human, "--val", "--data")
    rows = candidates(labels, policies, grouped, chosen_by)
    for row in rows:
        measure.check_candidate(row.policy, partners, f"--agents {row.label}: ")
    entries: dict[str, LeaderboardEntry] = {}
    for row in rows:
        prediction = None if human is None else predict(row.policy, human)
        entries[row.label] = measure.play_leaderboard(row.policy, partners, games, seed, prediction)
        print(f"{row.label}: {count(games, 'game')} played", file=sys.stderr)
    guesses = [] if human is None else [predict(partner, human) for partner in partners]
    own = measure.play_proxy_self_play(partners, games, seed, guesses)
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
        f"\n{row.label}: selected {row.chosen} by validation nats per timestep: "
        + ", ".join(f"{label} {loss:.4f}" for label, loss in row.seeds.items())
        for row in rows
        if row.seeds
    ]
    yield from leaderboard_parts(entries, names, partners[0].rules, games, own, chosen)
    yield record


def _add(file: Path, agents: Sequence[str], submitted_by: str) -> None:
    """Play the games of a leaderboard file with each agent and add its row to the file."""
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.evaluation.measure import leaderboard_file
    from hanabi_rl.evaluation.measure.leaderboard import play_leaderboard
    from hanabi_rl.storage.files import check_readable

    check_readable("--board", file, "a leaderboard's file, such as docs/leaderboard/2p.json")
    board = leaderboard_file.read_board(file)
    if not agents or not submitted_by:
        raise ValueError("--board requires --agents and --submitted-by")
    for agent in agents:
        leaderboard_file.check_public(agent, "--agents")
    proxies = load_hanabi_agents([proxy.agent for proxy in board.proxies], board.players)
    for proxy, policy in zip(board.proxies, proxies, strict=True):
        if policy.identity() != proxy.hash:
            raise ValueError(
                f"{file}: expected {proxy.agent} to be {proxy.hash}, got {policy.identity()}"
            )
    candidates = load_hanabi_agents(agents, board.players)
    identities = check_distinct(candidates, agents, "--agents: ")
    for agent, identity in zip(agents, identities, strict=True):
        if identity in [proxy.hash for proxy in board.proxies]:
            raise ValueError(f"--agents: expected no proxy of {file}, got {agent}")
    for agent, identity, policy in zip(agents, identities, candidates, strict=True):
        entry = play_leaderboard(policy, proxies, board.games, board.seed)
        row = leaderboard_file.row_of(entry, agent, identity, submitted_by, version("hanabi-rl"))
        board = leaderboard_file.with_row(board, row)
        leaderboard_file.write_board(file, board)
        print(f"{agent}: {entry.summary.mean:.2f}, row {board.rows.index(row) + 1} of {file}")


def candidates(
    labels: Sequence[str],
    policies: Sequence[Policy],
    groups: Mapping[str, Sequence[int]],
    val: Games | None,
) -> list[Candidate]:
    """Return the rows: agents without a group, and per group the seed that predicts `val` best.

    A group takes the place of its first seed.

    Raises:
        ValueError: an agent is in two groups or twice in one, two seeds are the same policy, or a
            group has the name of another agent.
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
    return {"chosen": row.chosen, "val_cross_entropy_per_timestep": row.seeds} if row.seeds else {}
