"""`hanabi-rl evaluate`: self-play of an agent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from hanabi_rl.cli.agents import (
    Agent,
    GameName,
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
    game: GameName = None,
    players: Players = None,
    games: BoundedCount | None = None,
    seed: Seed | None = None,
    seed_names: SeedNames = None,
    sample: Sample = False,
) -> Parts:
    """Play an agent in self-play and print its scores, with replay links in Hanabi.

    Args:
        games: number of games, one per deck; None: 5000 (other games: 200).
        seed: seed of the decks and of sampled actions; None: 0.
    """
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.registry import efficiency_figures
    from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
    from hanabi_rl.evaluation.reporting.measures import efficiency_line
    from hanabi_rl.evaluation.reporting.training_report import link_lines, score_table
    from hanabi_rl.games.registry import game_to_text
    from hanabi_rl.play.decks import seed_decks

    chosen_decks(seed_names, games, seed)  # fail on invalid names before the agent loads
    policy = load_agent(agent, players, game)
    games, seed, named = chosen_decks(seed_names, games, seed, policy.rules.name)
    decks = seed_decks(policy.rules, named) if named else None
    started = time.perf_counter()
    result = evaluate_selfplay(policy, games, seed, sample=sample, decks=decks)
    wall_s = time.perf_counter() - started
    dealt = f"hanab.live deals {' '.join(named)}" if named else f"seed {seed}"
    is_sampled = sample or not policy.rules.is_greedy
    yield selfplay_title(agent, policy, is_sampled, dealt)
    yield score_table([("self-play", result.summary)])
    of_hanabi: dict[str, Any] = {}
    if policy.rules.name == "hanabi":
        efficiency, histogram = efficiency_figures(GameAnalysis(result.records)), result.histogram()
        of_hanabi = {**efficiency, "histogram": histogram}
        yield efficiency_line(efficiency, result.rules)
        yield histogram_line(histogram)
    yield rate_line(games, wall_s)
    yield from link_lines(result)
    yield {
        "agent": agent,
        "policy_hash": policy.identity(),
        "game": game_to_text(policy.rules),
        "players": policy.rules.num_players,
        "seed": seed,
        "seed_names": list(named),
        "sampled": sample or not policy.rules.is_greedy,
        **result.as_dict(),
        **of_hanabi,
        "wall_s": wall_s,
        "games_per_s": games / wall_s,
    }


def histogram_line(counts: Sequence[int]) -> str:
    """Histogram of scores as bars."""
    bars = "".join(_BARS[-(-number * (len(_BARS) - 1) // max(counts))] for number in counts)
    return f"scores 0 to {len(counts) - 1}: |{bars}|"


def rate_line(games: int, wall_s: float) -> str:
    """Number of games and games per second."""
    rate = games / wall_s
    return (
        f"{count(games, 'game')} in {wall_s:.1f} s, compilation included "
        f"({rate:{',.0f' if rate >= 10 else '.2g'}} games/s)"
    )
