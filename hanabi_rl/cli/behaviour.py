"""`hanabi-rl behaviour`: how an agent plays with itself, or how the players of recorded games
did."""

from __future__ import annotations

import json as json_format
import sys
from typing import Any

from hanabi_rl.cli.agents import AgentOrFile, Flag, load_agent, names_games
from hanabi_rl.storage.validation import BoundedCount, Seed


def behaviour(
    source: AgentOrFile,
    players: int | None = None,
    games: BoundedCount = 1000,
    seed: Seed = 0,
    sample: Flag = False,
    json: Flag = False,
) -> None:
    """Print information per play and communicativeness, beside the figures of AH2AC2's Table 10.

    Args:
        source: any agent (`hanabi-rl agents` lists what can be named), which plays with copies of
            itself; or a file of games (.safetensors, .json or .jsonl), of which the human seats
            count.
        players: of an agent, 2 to 5; a bot plays 2 unless told otherwise.
        games: of an agent, how many.
        seed: of the decks, and of the actions where they are sampled.
        sample: draw actions from the agent's distribution instead of taking the most likely one.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.registry import behaviour_figures
    from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
    from hanabi_rl.evaluation.reporting.measures import behaviour_table
    from hanabi_rl.storage.files import to_json

    about: dict[str, Any]
    if names_games(source):
        recorded = load_distinct_games([source])
        rules, record = recorded.rules, GameAnalysis(recorded)
        seats = "every seat" if recorded.human_seats is None else "human seats"
        title = f"{source}: {rules.num_players} players, {seats}"
        about = {"file": source}
    else:
        policy = load_agent(source, players)
        rules = policy.rules
        record = GameAnalysis(evaluate_selfplay(policy, games, seed, sample=sample).records)
        title = (
            f"{source}: {'sampled' if sample else 'greedy'} self-play, {rules.num_players} "
            f"players, seed {seed}"
        )
        about = {
            "agent": source,
            "policy_hash": policy.identity(),
            "seed": seed,
            "sampled": sample,
        }
    figures = behaviour_figures(record)
    print(
        f"{title}\n{behaviour_table(figures, rules)}",
        file=sys.stderr if json else sys.stdout,
    )
    if json:
        print(json_format.dumps(to_json(about | {"players": rules.num_players} | figures)))
