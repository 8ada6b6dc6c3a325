"""What a study brought, as files that trainers and statistics read: `export_study`.

games.safetensors         the games, as `load_games` and `train/bc.py` read them
games.jsonl               a line for each of them: whose, with whom, times, answers
games.participants.jsonl  a line for each person: order, answers before and at the end
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import join_games
from hanabi_rl.serve.folder import as_games
from hanabi_rl.serve.participants import Participant, Played, StudyFolder
from hanabi_rl.storage.files import write_text


def export_study(folder: StudyFolder, out: Path, *, unfinished: bool = False) -> int:
    """Writes `out` (.safetensors or .json) and the lines beside it; returns the number of games.

    Finished games alone, or with `unfinished` also those that were left or go on. The file of games
    is read back and replayed before it takes its place. Raises ValueError where there is none.
    """
    people = folder.everyone()
    chosen = [
        (person, place, played)
        for person in people
        for place, played in enumerate(person.games)
        if played.game.moves and (unfinished or played.game.end_reason == "finished")
    ]
    if not chosen:
        raise ValueError(f"{folder.path}: expected a game to export, got none of {len(people)}")
    beside = out.with_name(f".{out.stem}.new{out.suffix}")
    try:
        games = join_games([as_games(_stopped(each)) for _, _, each in chosen])
        save_games(beside, dataclasses.replace(games, players=_players(chosen)))
        load_games(beside)  # by full replay
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
    _write_lines(out.with_suffix(".jsonl"), [_of_game(*each) for each in chosen])
    _write_lines(
        out.with_suffix(".participants.jsonl"), [_of_person(folder, each) for each in people]
    )
    return len(chosen)


def _stopped(played: Played) -> Any:
    """A game that goes on as one that was left now."""
    game = played.game
    return game if game.status == "done" else dataclasses.replace(game, end_reason="left")


def _players(chosen: Sequence[tuple[Participant, int, Played]]) -> np.ndarray:
    """int32[N, P], who sat where: a person is its number in the study, the agents are -1, -2, ...,
    in the order of their names."""
    agents = sorted({played.agent for _, _, played in chosen})
    rows = [
        [
            person.number if seat in played.game.people else -1 - agents.index(played.agent)
            for seat in range(played.game.rules.num_players)
        ]
        for person, _, played in chosen
    ]
    return np.array(rows, np.int32)


def _of_game(person: Participant, place: int, played: Played) -> dict[str, Any]:
    game = played.game
    return {
        "game_id": game.game_id,
        "participant": person.number,
        "number": place + 1,
        "seat": min(game.people),
        "agent": played.agent,
        "policy_hash": played.policy,
        "end_reason": game.end_reason,
        "started_at": round(played.started_at),
        "times_ms": played.times_ms,
        "answers": person.answers.get(f"game {place + 1}", {}),
        "consent_version": person.consent_version,
    }


def _of_person(folder: StudyFolder, person: Participant) -> dict[str, Any]:
    return {
        "participant": person.number,
        "consent_version": person.consent_version,
        "consented_at": round(person.consented_at),
        "order": [
            folder.study.agents[agent].name for agent in dict.fromkeys(a for a, _ in person.plan)
        ],
        "games": len(person.games),
        "stopped": person.stopped,
        "before": person.answers.get("before", {}),
        "end": person.answers.get("end", {}),
    }


def _write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
