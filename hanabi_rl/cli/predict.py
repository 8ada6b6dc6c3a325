"""`hanabi-rl predict`: action prediction on recorded games."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from hanabi_rl.cli.agents import Agent, File, seats_text
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import INT32_MAX, Range
from hanabi_rl.storage.words import count

NOTES = {  # for agents without an action distribution
    "bot:": "Bots except `bot:random` are deterministic. Their move has probability 1 - "
    "`smoothing`; the rest is uniform over all legal moves.",
    "obl:": "OBL agents have no action distribution. Cross-entropy uses a softmax of the "
    "advantages, which is our choice; only the accuracy is meaningful.",
}


@measure_command
def predict(
    agent: Agent,
    file: File,
    surprising: Annotated[int, Range(0, INT32_MAX)] = 10,
    out: Path | None = None,
) -> Parts:
    """Print how well an agent predicts the moves of recorded games.

    The tables have accuracy and cross-entropy by kind of move and by turn, and the moves with the
    highest cross-entropy.

    Args:
        file: .safetensors (AH2AC2), .json or .jsonl (hanab.live); only human seats count if the
            file names them.
        surprising: number of moves with the highest cross-entropy to print.
        out: folder for prediction.png and prediction.json.
    """
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.surprise import prediction_figures
    from hanabi_rl.evaluation.reporting.measures import prediction_parts
    from hanabi_rl.evaluation.reporting.plots import plot_prediction
    from hanabi_rl.storage.files import write_json

    games = load_distinct_games([file])
    policy = load_policy(agent, games.rules)
    figures = prediction_figures(GameAnalysis(games, policy), surprising)
    seats, number = seats_text(games), count(len(games), "game")
    if not figures["decisions"]:
        raise ValueError(f"{file}: expected at least one turn ({seats}) to predict, got none")
    title = f"{agent} on {file}: {number} of {games.rules.num_players} players, {seats}"
    yield title
    yield from prediction_parts(figures)
    yield from (note for prefix, note in NOTES.items() if agent.startswith(prefix))
    record = {"agent": agent, "policy_hash": policy.identity(), "file": str(file)} | figures
    if out is not None:
        plot_prediction(figures, out / "prediction.png", title)
        write_json(out / "prediction.json", record)
    yield record
