"""`hanabi-rl leaderboard`: candidates among human proxies, as AH2AC2 ranks them."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hanabi_rl.cli.agents import Flag, load_agents
from hanabi_rl.storage.ranges import Count, Seed

if TYPE_CHECKING:
    from hanabi_rl.env.game import Rules
    from hanabi_rl.measure.leaderboard import LeaderboardEntry


def leaderboard(
    proxies: tuple[str, ...],
    agents: tuple[str, ...],
    players: int | None = None,
    games: Count = 1000,
    seed: Seed = 0,
    data: Path | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Play each agent among the proxies in every mixed line-up and print AH2AC2's leaderboard (its
    Table 4).

    Args:
        proxies: the human-like partners, named as the agents.
        agents: candidates, any agents (`hanabi-rl agents` lists what can be named).
        players: 2 to 5; needed for bots alone (default 2).
        games: how many for each agent, each on a deck of its own, spread evenly over the line-ups.
        seed: of the decks.
        data: recorded human games to predict, for the cross-entropy.
        out: a folder for leaderboard.json.
        json: print one line of JSON on stdout and the tables on stderr.
    """
    from hanabi_rl.data.files import load_games
    from hanabi_rl.measure.leaderboard import play_leaderboard
    from hanabi_rl.measure.prediction import predict
    from hanabi_rl.show.matrix import short_labels
    from hanabi_rl.storage.files import to_json, write_json

    if not proxies or not agents:
        raise ValueError(f"expected --proxies and --agents, got {len(proxies)} and {len(agents)}")
    everyone = list(dict.fromkeys((*proxies, *agents)))  # an agent may be one of the proxies
    label_of = dict(zip(everyone, short_labels(everyone), strict=True))
    policy_of = dict(zip(everyone, load_agents(everyone, players), strict=True))
    partners, names = (
        [policy_of[proxy] for proxy in proxies],
        [label_of[proxy] for proxy in proxies],
    )
    human = None if data is None else load_games(data)
    entries: dict[str, LeaderboardEntry] = {}
    for agent in agents:
        prediction = None if human is None else predict(policy_of[agent], human)
        entries[label_of[agent]] = play_leaderboard(
            policy_of[agent], partners, games, seed, prediction
        )
        print(f"{label_of[agent]}: {games:,} games played", file=sys.stderr)
    record = {
        "players": partners[0].rules.num_players,
        "seed": seed,
        "data": data,
        "proxies": [
            {"label": name, "hash": policy.identity()}
            for name, policy in zip(names, partners, strict=True)
        ],
        "agents": [{"agent": label, **entry.as_dict(names)} for label, entry in entries.items()],
    }
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "leaderboard.json", record)
    text = _text(entries, names, partners[0].rules, games)
    print(text, file=sys.stderr if json else sys.stdout)
    if json:
        print(json_format.dumps(to_json(record)))


def _text(
    entries: Mapping[str, LeaderboardEntry], proxies: Sequence[str], rules: Rules, games: int
) -> str:
    from hanabi_rl.papers.ah2ac2 import LEADERBOARD
    from hanabi_rl.play.line_ups import seat_names

    players = rules.num_players
    published = LEADERBOARD.get(players, ()) if rules.is_standard else ()
    width = max(map(len, [*entries, *(row.method for row in published)]))
    lines = [
        f"{players} players, {games:,} games with {', '.join(proxies)}",
        f"{'':<{width}}  {'mean':<21} {'median':<17} cross-entropy per timestep",
    ]
    for label, entry in sorted(entries.items(), key=lambda item: -item[1].summary.mean.mean):
        entropy = (
            "-"
            if entry.prediction is None
            else f"{entry.prediction.cross_entropy_per_timestep():.3f}"
        )
        lines.append(
            f"{label:<{width}}  {f'{entry.summary.mean:.2f}':<21} {f'{entry.median:.1f}':<17} "
            f"{entropy}"
        )
    if published:
        lines.append("published (AH2AC2, Table 4; the authors' proxies and games)")
        lines += [
            f"{r.method:<{width}}  {r.mean:<21.2f} {r.median:<17.0f} {r.cross_entropy:.2f}"
            for r in published
        ]
    for label, entry in entries.items():
        lines += ["", f"{label}: mean of each line-up"]
        for seats, mean in zip(entry.line_ups, entry.line_up_means(), strict=True):
            lines.append(f"  {mean.mean:6.2f}  {', '.join(seat_names(seats, proxies))}")
    lines.append("95% intervals over games.")
    return "\n".join(lines)
