"""`hanabi-rl leaderboard`: candidates among human proxies, as AH2AC2 ranks them."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hanabi_rl.cli.agents import Flag, Groups, load_agents, parse_groups
from hanabi_rl.storage.validation import BoundedCount, Seed
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.leaderboard import LeaderboardEntry
    from hanabi_rl.games.hanabi.rules import Rules


class Candidate(NamedTuple):
    """A row of the table: an agent, or the chosen one of several seeds."""

    label: str
    policy: Policy
    seeds: dict[str, float]
    """Label -> nats per timestep on the validation games, where seeds are compared."""
    chosen: str
    """The label of the agent that plays."""


def leaderboard(
    agents: tuple[str, ...],
    proxies: tuple[str, ...] = (),
    players: int | None = None,
    games: BoundedCount = 1000,
    seed: Seed = 0,
    group: Groups = (),
    val: Path | None = None,
    data: Path | None = None,
    out: Path | None = None,
    board: Path | None = None,
    by: str = "",
    json: Flag = False,
) -> None:
    """Play each agent among the proxies in every mixed line-up, and the proxies with themselves,
    and print AH2AC2's leaderboard (its Table 4): mean and median over the games, and cross-entropy.

    Args:
        agents: candidates, any agents (`hanabi-rl agents` lists what can be named).
        proxies: the human-like partners, named as the agents.
        players: 2 to 5; needed for bots alone (default 2).
        games: how many for each agent, each on a deck of its own, spread evenly over the line-ups.
        seed: of the decks.
        group: which agents are seeds of one method: of them the one with the least cross-entropy on
            --val plays, under the method's name.
        val: recorded games to choose seeds by.
        data: other recorded human games to predict, for the cross-entropy that is shown.
        out: a folder for leaderboard.json.
        board: a leaderboard's file to add the agents to: it says with which proxies, how many games
            and which decks, and takes no other of these flags.
        by: who adds them.
        json: print one line of JSON on stdout and the tables on stderr.
    """
    from hanabi_rl.agents.identity import check_distinct
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.leaderboard import (
        check_candidate,
        play_leaderboard,
        play_proxy_self_play,
    )
    from hanabi_rl.evaluation.measure.prediction import predict
    from hanabi_rl.evaluation.reporting.matrix import short_labels
    from hanabi_rl.storage.files import check_writable, to_json, write_json

    if board is not None:
        given = (proxies, players, games, seed, group, val, data, out, json)
        if given != ((), None, 1000, 0, (), None, None, None, False):
            raise ValueError("--board: expected no other flags than --agents and --by")
        _add(board, agents, by)
        return
    if not proxies or not agents:
        raise ValueError(f"expected --proxies and --agents, got {len(proxies)} and {len(agents)}")
    check_writable("--out", out)
    everyone = list(dict.fromkeys((*proxies, *agents)))  # an agent may be one of the proxies
    label_of = dict(zip(everyone, short_labels(everyone), strict=True))
    policy_of = dict(zip(everyone, load_agents(everyone, players), strict=True))
    partners, names = (
        [policy_of[proxy] for proxy in proxies],
        [label_of[proxy] for proxy in proxies],
    )
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
        "proxies_with_themselves": own.as_dict(names),
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "leaderboard.json", record)
    text = _text(entries, names, partners[0].rules, games, own, rows)
    print(text, file=sys.stderr if json else sys.stdout)
    if json:
        print(json_format.dumps(to_json(record)))


def _add(file: Path, agents: Sequence[str], by: str) -> None:
    """Plays the games of a board's file for each agent, and writes its row there."""
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
    if not agents or not by:
        raise ValueError("--board: expected --agents and --by, who adds them")
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
        row = row_of(entry, agent, policy.identity(), by, version("hanabi-rl"))
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
            group called as an agent beside it.
    """
    from hanabi_rl.evaluation.measure.leaderboard import best_seed, is_same_policy
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
        for place, member in enumerate(members):
            twin = next(
                (m for m in members[:place] if is_same_policy(policies[m], policies[member])), None
            )
            if twin is not None:
                raise ValueError(
                    f"--group {name}: expected seeds that differ, got one policy as "
                    f"{labels[twin]} and {labels[member]}"
                )
        assert val is not None, "checked by the command"
        read = [predict(policies[member], val) for member in members]
        best = members[best_seed(read)]
        losses = [prediction.cross_entropy_per_timestep().mean for prediction in read]
        seeds = {labels[member]: loss for member, loss in zip(members, losses, strict=True)}
        rows[members[0]] = Candidate(name, policies[best], seeds, labels[best])
    for place, (label, policy) in enumerate(zip(labels, policies, strict=True)):
        if place not in taken:
            if label in groups:
                raise ValueError(f"--group {label}: expected another name than that of an agent")
            rows[place] = Candidate(label, policy, {}, label)
    return [rows[place] for place in sorted(rows)]


def _seeds(row: Candidate) -> dict[str, Any]:
    """The JSON of how a seed was chosen; nothing where none was."""
    if not row.seeds:
        return {}
    return {"chosen": row.chosen, "val_cross_entropy_per_timestep": row.seeds}


def _text(
    entries: Mapping[str, LeaderboardEntry],
    proxies: Sequence[str],
    rules: Rules,
    games: int,
    own: LeaderboardEntry | None = None,
    rows: Sequence[Candidate] = (),
) -> str:
    from hanabi_rl.evaluation.papers.ah2ac2 import LEADERBOARD
    from hanabi_rl.play.lineups import seat_names

    players = rules.num_players
    published = LEADERBOARD.get(players, ()) if rules.is_standard else ()
    itself = "the proxies themselves" if len(proxies) > 1 else "the proxy itself"
    width = max(map(len, [*entries, itself, *(row.method for row in published)]))
    lines = [
        f"{players} players, {count(games, 'game')} with {', '.join(proxies)}",
        f"{'':<{width}}  {'mean':<21} {'median':<17} cross-entropy per timestep",
    ]
    ranked = sorted(entries.items(), key=lambda item: -item[1].summary.mean.mean)
    lines += [_line(label, entry, width) for label, entry in ranked]
    if own is not None:
        lines.append(_line(itself, own, width))
    if published:
        lines.append("published (AH2AC2, Table 4; the authors' proxies and games)")
        lines += [
            f"{r.method:<{width}}  {r.mean:<21.2f} {r.median:<17.0f} {r.cross_entropy:.2f}"
            for r in published
        ]
    for row in rows:
        if row.seeds:
            losses = ", ".join(f"{label} {loss:.4f}" for label, loss in row.seeds.items())
            lines += ["", f"{row.label}: {row.chosen} of seeds with nats per timestep {losses}"]
    for label, entry in entries.items():
        lines += ["", f"{label}: mean of each line-up"]
        for seats, mean in zip(entry.lineups, entry.lineup_means(), strict=True):
            lines.append(f"  {mean.mean:6.2f}  {', '.join(seat_names(seats, proxies))}")
    lines.append("95% intervals over games.")
    return "\n".join(lines)


def _line(label: str, entry: LeaderboardEntry, width: int) -> str:
    entropy = "-"
    if entry.prediction is not None:
        entropy = f"{entry.prediction.cross_entropy_per_timestep():.3f}"
    mean, median = f"{entry.summary.mean:.2f}", f"{entry.median:.1f}"
    return f"{label:<{width}}  {mean:<21} {median:<17} {entropy}"
