"""`hanabi-rl predict`: action prediction on recorded games."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from hanabi_rl.cli import overcooked
from hanabi_rl.cli.agents import Agent, File, GameName, load_agent, seats_text
from hanabi_rl.cli.output import Parts, measure_command
from hanabi_rl.storage.validation import INT32_MAX, Range
from hanabi_rl.storage.words import count, game_name

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
    game: GameName = None,
    surprising: Annotated[int, Range(0, INT32_MAX)] = 10,
    out: Path | None = None,
) -> Parts:
    """Print how well an agent predicts the moves of recorded games.

    The tables have accuracy and cross-entropy by kind of move and by turn, and the moves with the
    highest cross-entropy. In Overcooked: accuracy, accuracy of moves (decisions other than stay)
    and cross-entropy, with intervals over pairs of players; the same of the best constant
    prediction.

    Args:
        file: .safetensors (AH2AC2, or games of Overcooked, also FILE?part=train or FILE?part=test),
            .json or .jsonl (hanab.live), .openspiel; only human seats count if the file names them.
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

    if overcooked.is_source(str(file).partition("?")[0]):
        yield from _predict_records(agent, str(file), game, out)
        return
    if game is not None and game_name(game) != "hanabi":
        raise ValueError(f"--game {game}: expected games of it, got {file}")
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


def _predict_records(agent: str, file: str, game: str | None, out: Path | None) -> Parts:
    """The command for a file of `GameRecords`."""
    from hanabi_rl.data.game_records import load_game_records
    from hanabi_rl.evaluation.measure.ratio import ratios_dict
    from hanabi_rl.evaluation.measure.record_prediction import (
        prediction_ratios,
        prediction_slices,
        record_logits,
    )
    from hanabi_rl.evaluation.reporting.measures import record_prediction_table
    from hanabi_rl.evaluation.reporting.plots import BY_STEP, plot_prediction
    from hanabi_rl.games.overcooked.transitions import ACTION_NAMES
    from hanabi_rl.games.registry import game_to_text
    from hanabi_rl.storage.files import write_json

    policy = load_agent(agent, None, game)
    if policy.rules.name != "overcooked":
        raise ValueError(
            f"{file}: expected an agent of overcooked, or a bot with --game overcooked:KITCHEN, "
            f"got {agent} of {policy.rules.name}"
        )
    records = load_game_records([file], policy.rules, "FILE")
    logits = record_logits(policy, records)
    ratios = prediction_ratios(logits, records)
    figures = {
        "games": len(records),
        "groups": len(set(records.groups.tolist())),
        "decisions": int(records.is_counted.sum()),
        **ratios_dict(ratios),
        **prediction_slices(logits, records, ACTION_NAMES),
    }
    seats = "every seat" if records.human_seats is None else "human seats"
    title = (
        f"{agent} on {file}: {count(len(records), 'game')} of {game_to_text(policy.rules)}, "
        f"{figures['decisions']:,} decisions of {count(figures['groups'], 'pair')} of players, "
        f"{seats}"
    )
    yield title
    yield record_prediction_table(agent, ratios)
    yield "95% intervals resample pairs of players. A move is any action but stay."
    record = {"agent": agent, "policy_hash": policy.identity(), "file": file} | figures
    if out is not None:
        plot_prediction(figures, out / "prediction.png", title, BY_STEP)
        write_json(out / "prediction.json", record)
    yield record
