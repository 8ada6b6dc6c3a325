"""`hanabi-rl evaluate`: an agent with copies of itself."""

from __future__ import annotations

import json as json_format
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hanabi_rl.cli.agents import Agent, Flag, SeedNames, chosen_decks, load_agent
from hanabi_rl.storage.validation import BoundedCount, Seed
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.evaluation.measure.selfplay import SelfPlayResult

_BARS = " ▁▂▃▄▅▆▇█"


def evaluate(
    agent: Agent,
    players: int | None = None,
    games: BoundedCount | None = None,
    seed: Seed | None = None,
    seed_names: SeedNames = None,
    sample: Flag = False,
    json: Flag = False,
) -> None:
    """Play an agent with copies of itself and print how well it does, with replay links.

    Args:
        agent: any agent (`hanabi-rl agents` lists what can be named): agent:NAME, bot:NAME, a run's
            folder, a policy folder or file, a checkpoints/<step>, hf:OWNER/NAME, ...
        players: 2 to 5; a bot plays 2 unless told otherwise, a trained agent only what it was
            trained for.
        games: number of games, each on a deck of its own; None: 5000.
        seed: seed of the decks, and of sampled actions; None: 0.
        seed_names: hanab.live deals to play in place of random decks, by the site's seeds:
            p2v0s1..200, p2v0s7 p2v0s12.
        sample: draw actions from the agent's distribution instead of taking the most likely one.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.registry import efficiency_figures
    from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
    from hanabi_rl.play.decks import seed_decks
    from hanabi_rl.storage.files import to_json

    games, seed, named = chosen_decks(seed_names, games, seed)
    policy = load_agent(agent, players)
    decks = seed_decks(policy.rules, named) if named else None
    started = time.perf_counter()
    result = evaluate_selfplay(policy, games, seed, sample=sample, decks=decks)
    wall_s = time.perf_counter() - started
    dealt = f"hanab.live deals {' '.join(named)}" if named else f"seed {seed}"
    efficiency = efficiency_figures(GameAnalysis(result.records))
    title = (
        f"{agent}: {'sampled' if sample else 'greedy'} self-play, {policy.rules.num_players} "
        f"players, {dealt}"
    )
    print(
        _selfplay_text(title, result, efficiency, wall_s), file=sys.stderr if json else sys.stdout
    )
    if json:
        record = {
            "agent": agent,
            "policy_hash": policy.identity(),
            "players": policy.rules.num_players,
            "seed": seed,
            "seed_names": list(named),
            "sampled": sample,
            **result.as_dict(),
            **efficiency,
            "histogram": result.histogram(),
            "wall_s": wall_s,
            "games_per_s": games / wall_s,
        }
        print(json_format.dumps(to_json(record)))


def _selfplay_text(
    title: str, result: SelfPlayResult, efficiency: Mapping[str, Any], wall_s: float
) -> str:
    from hanabi_rl.evaluation.reporting.measures import efficiency_line
    from hanabi_rl.evaluation.reporting.report import link_lines, score_table

    counts = result.histogram()
    bars = "".join(_BARS[-(-count * (len(_BARS) - 1) // max(counts))] for count in counts)
    games = sum(counts)
    rate = games / wall_s
    return "\n".join(
        [
            title,
            score_table([("self-play", result.summary)]),
            efficiency_line(efficiency, result.rules),
            f"scores 0 to {len(counts) - 1}: |{bars}|",
            f"{count(games, 'game')} in {wall_s:.1f} s, compilation included "
            f"({rate:{',.0f' if rate >= 10 else '.2g'}} games/s)",
            *link_lines(result),
        ]
    )
