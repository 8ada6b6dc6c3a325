"""`hanabi-rl evaluate`: self-play of an agent."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hanabi_rl.cli.agents import (
    Agent,
    Players,
    Sample,
    SeedNames,
    chosen_decks,
    load_agent,
    selfplay_title,
)
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import BoundedCount, Seed
from hanabi_rl.storage.words import count

_BARS = " ▁▂▃▄▅▆▇█"


@measure_command
def evaluate(
    agent: Agent,
    players: Players = None,
    games: BoundedCount | None = None,
    seed: Seed | None = None,
    seed_names: SeedNames = None,
    sample: Sample = False,
) -> Parts:
    """Play an agent in self-play and print its scores, with replay links.

    Args:
        games: number of games, one per deck; None: 5000.
        seed: seed of the decks and of sampled actions; None: 0.
    """
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.registry import efficiency_figures
    from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
    from hanabi_rl.evaluation.reporting.measures import efficiency_line
    from hanabi_rl.evaluation.reporting.training_report import link_lines, score_table
    from hanabi_rl.games.hanabi.rules import Rules
    from hanabi_rl.play.decks import seed_decks

    games, seed, named = chosen_decks(seed_names, games, seed)
    policy = load_agent(agent, players)
    decks = seed_decks(policy.rules, named) if named else None
    started = time.perf_counter()
    result = evaluate_selfplay(policy, games, seed, sample=sample, decks=decks)
    wall_s = time.perf_counter() - started
    is_hanabi = isinstance(policy.rules, Rules)
    efficiency = efficiency_figures(GameAnalysis(result.records)) if is_hanabi else {}
    dealt = f"hanab.live deals {' '.join(named)}" if named else f"seed {seed}"
    is_sampled = sample or not policy.rules.is_greedy
    yield selfplay_title(agent, policy, is_sampled, dealt)
    yield score_table([("self-play", result.summary)])
    histogram = result.histogram() if is_hanabi else None
    if histogram is not None:
        yield efficiency_line(efficiency, result.rules)
        yield from count_lines(histogram, wall_s)
    yield from link_lines(result)
    yield {
        "agent": agent,
        "policy_hash": policy.identity(),
        "players": policy.rules.num_players,
        "seed": seed,
        "seed_names": list(named),
        "sampled": is_sampled,
        **result.as_dict(),
        **efficiency,
        "histogram": histogram,
        "wall_s": wall_s,
        "games_per_s": games / wall_s,
    }


def count_lines(counts: Sequence[int], wall_s: float) -> list[str]:
    """Histogram of scores as bars, and games per second."""
    bars = "".join(_BARS[-(-number * (len(_BARS) - 1) // max(counts))] for number in counts)
    rate = sum(counts) / wall_s
    return [
        f"scores 0 to {len(counts) - 1}: |{bars}|",
        f"{count(sum(counts), 'game')} in {wall_s:.1f} s, compilation included "
        f"({rate:{',.0f' if rate >= 10 else '.2g'}} games/s)",
    ]
