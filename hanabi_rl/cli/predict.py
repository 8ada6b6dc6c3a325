"""`hanabi-rl predict`: an agent as a reader of recorded games."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from typing import Annotated

from hanabi_rl.cli.agents import Agent, File, Flag
from hanabi_rl.storage.validation import INT32_MAX, Range
from hanabi_rl.storage.words import count

_PLOT = "prediction.png"
_FIGURES = "prediction.json"
NOTES = {  # of agents whose logits are no distribution
    "bot:": "A bot has no distribution of its own (but `bot:random`): it is given one, what its "
    "rules play but for a share `smoothing` that is spread over all legal moves.",
    "obl:": "An OBL agent has no distribution: these are the nats under a softmax of its "
    "advantages, a choice of ours. "
    "Only its accuracy says something.",
}


def predict(
    agent: Agent,
    file: File,
    surprising: Annotated[int, Range(0, INT32_MAX)] = 10,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Print how well an agent predicts recorded games, by kind of move and by turn, and the moves
    it expected least.

    Args:
        agent: any agent (`hanabi-rl agents` lists what can be named): agent:NAME, bot:NAME, a run's
            folder, a policy folder or file, a checkpoints/<step>, hf:OWNER/NAME, ...
        file: .safetensors (AH2AC2), or .json or .jsonl (hanab.live); only its human seats count
            where it names them.
        surprising: how many of the most surprising moves to show.
        out: a folder for a plot and the figures as JSON.
        json: print one line of JSON on stdout and the table on stderr.
    """
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.surprise import prediction_figures, prediction_table
    from hanabi_rl.evaluation.reporting.plots import plot_prediction
    from hanabi_rl.storage.files import check_writable, to_json, write_json

    check_writable("--out", out)
    games = load_distinct_games([file])
    policy = load_policy(agent, games.rules)
    figures = prediction_figures(GameAnalysis(games, policy), surprising)
    seats = "every seat" if games.human_seats is None else "human seats"
    if not figures["decisions"]:
        raise ValueError(f"{file}: expected a turn of its {seats} to predict, got none")
    number = count(len(games), "game")
    title = f"{agent} on {file}: {number} of {games.rules.num_players} players, {seats}"
    screen = sys.stderr if json else sys.stdout
    print(f"{title}\n{prediction_table(figures)}", file=screen)
    for prefix, note in NOTES.items():
        if agent.startswith(prefix):
            print(note, file=screen)
    record = to_json(
        {"agent": agent, "policy_hash": policy.identity(), "file": str(file)} | figures
    )
    if out is not None:
        plot_prediction(figures, out / _PLOT, title)
        write_json(out / _FIGURES, record)
        print(f"Written: {out / _PLOT}, {out / _FIGURES}", file=screen)
    if json:
        print(json_format.dumps(record))
