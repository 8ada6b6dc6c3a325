"""Export of a study: files for trainers (`export_study`, `read_export`), and the data of each
participant with each agent for statistics (`person_agent_data`).

games.safetensors         the games, as `load_games` and `train/bc.py` read them
games.jsonl               a line for each of them: whose, with whom, times, answers, marks, and
                          `earlier`, the games of its series from which the agent knew the person
games.participants.jsonl  a line for each person: order, answers before, of partners, at the end
games.study.json          what everybody was asked
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import Games, concatenate_games
from hanabi_rl.evaluation.measure.study import PersonAgentData, SharedGame
from hanabi_rl.people.serve.folder import as_games
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.study.design import SCALE, Question, Study, saved_study
from hanabi_rl.people.study.folder import StudyFolder, study_to_json
from hanabi_rl.people.study.participant import Participant, PlayedGame, Step, is_warm_up
from hanabi_rl.storage.files import check_writable, read_text, write_json, write_text

FORMAT_VERSION = 1
SUFFIX = ".safetensors"
"""Of the games: hanab.live's formats end a game where no more points can be reached, so that a last
life that was lost after that is not in them, and the score is another."""


@dataclasses.dataclass(frozen=True, eq=False)
class Export:
    """The games of a study, and in the same order the lines that say whose they are."""

    study: Study
    games: Games
    lines: Sequence[dict[str, Any]]
    people: Sequence[dict[str, Any]]

    def by_person(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(row of the game, line) of every person in every game."""
        for row, line in enumerate(self.lines):
            yield row, line
            if "other" in line:
                yield row, line["other"]


def export_study(folder: StudyFolder, out: Path, *, unfinished: bool = False) -> int:
    """Writes `out` (.safetensors) and the files beside it; returns the number of games.

    Finished games alone, or with `unfinished` also those that were left or go on. The file of games
    is read back and replayed before it takes its place. Raises ValueError where there is none, and
    for another suffix.
    """
    check_writable("--out", out, (SUFFIX,))
    export = gather(folder, unfinished=unfinished)
    temporary = out.with_name(f".{out.stem}.new{out.suffix}")
    try:
        save_games(temporary, export.games)
        load_games(temporary)  # by full replay
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    _write_lines(out.with_suffix(".jsonl"), export.lines)
    _write_lines(out.with_suffix(".participants.jsonl"), export.people)
    study = {"format_version": FORMAT_VERSION, "study": study_to_json(export.study)}
    write_json(out.with_suffix(".study.json"), study)
    return len(export.lines)


def gather(folder: StudyFolder, *, unfinished: bool = False) -> Export:
    """What `export_study` writes. Raises ValueError where there is no game."""
    people = folder.participants()
    chosen = [
        (person, place, played)
        for person in people
        for place, played in enumerate(person.games)
        if played.game.moves and (unfinished or played.game.end_reason == "finished")
    ]
    if not chosen:
        raise ValueError(f"{folder.path}: expected a game to export, got none of {len(people)}")
    by_id = {each[2].game.game_id: each for each in chosen}
    shared_games = [  # two people have a copy each of what is one game
        [each, *([by_id[pair]] if (pair := each[2].paired_game) in by_id else [])]
        for each in chosen
        if each[2].paired_game not in by_id or each[2].paired_game > each[2].game.game_id
    ]
    games = concatenate_games([as_games(_shared_game(table)) for table in shared_games])
    return Export(
        folder.study,
        dataclasses.replace(games, players=_seat_players(folder.study, shared_games)),
        [_game_line(folder.study, table) for table in shared_games],
        [_person_line(folder.study, each) for each in people],
    )


def read_export(path: Path) -> Export:
    """What `export_study` wrote to `path`. Raises FileNotFoundError; ValueError where the files do
    not belong together, or `path` is no `.safetensors`."""
    if path.suffix != SUFFIX:
        raise ValueError(
            f"expected the {SUFFIX} file that `hanabi-rl games export` wrote, got {path}: other "
            "formats do not hold every game to its end"
        )
    study_file = path.with_suffix(".study.json")
    if not study_file.is_file():
        raise FileNotFoundError(f"expected {study_file} beside {path}: export the study again")
    games, lines = load_games(path), _read_lines(path.with_suffix(".jsonl"))
    found = [line.get("game_id") for line in lines]
    if found != games.game_ids.tolist():
        raise ValueError(
            f"{path.with_suffix('.jsonl')}: expected a line for each of the {len(games)} games of "
            f"{path}, in their order, got {len(found)} of other ones"
        )
    people = _read_lines(path.with_suffix(".participants.jsonl"))
    return Export(saved_study(study_file), games, lines, people)


_GameOf = tuple[Participant, int, PlayedGame]
"""A person, the place of the game among theirs, and the game."""


def _shared_game(table: Sequence[_GameOf]) -> Game:
    """The game with all of its people; one that goes on as one that was left now."""
    game = table[0][2].game
    people = frozenset().union(*(played.game.people for _, _, played in table))
    game = dataclasses.replace(game, people=people)
    return game if game.status == "done" else dataclasses.replace(game, end_reason="left")


def _seat_players(study: Study, shared_games: Sequence[Sequence[_GameOf]]) -> np.ndarray:
    """int32[N, P], who sat where: a person is its number in the study, the study's agents are -1,
    -2, ..., in the order of their names."""
    agents = sorted({*(agent.name for agent in study.agents), *study.policies})
    rows = []
    for table in shared_games:
        played = table[0][2]
        row = [-1 - agents.index(played.agent)] * played.game.rules.num_players
        for person, _, their_game in table:
            row[min(their_game.game.people)] = person.number
        rows.append(row)
    return np.array(rows, np.int32)


def _game_line(study: Study, table: Sequence[_GameOf]) -> dict[str, Any]:
    """The line of a game; where two people played it, `other` is the second one's."""
    first, *others = (_player_line(study, *each) for each in table)
    return first | ({"other": others[0]} if others else {})


def _player_line(
    study: Study, person: Participant, place: int, played: PlayedGame
) -> dict[str, Any]:
    game = played.game
    return {
        "game_id": game.game_id,
        "participant": person.number,
        "number": place + 1,
        "warm_up": is_warm_up(study, person, place),
        "seat": min(game.people),
        "agent": played.agent,
        "policy_hash": played.policy,
        "instead": played.replaced_by_agent,
        "earlier": [each.game_id for each in game.previous_games],
        "end_reason": game.end_reason,
        "started_at": round(played.started_at),
        "times_ms": played.times_ms,
        "questioned": played.flagged,
        "answers": person.answers.get(Step("after", place).name, {}),
        "consent_version": person.consent_version,
    }


def _person_line(study: Study, person: Participant) -> dict[str, Any]:
    order = [study.agents[agent].name for agent in dict.fromkeys(a for a, _ in person.plan)]
    return {
        "participant": person.number,
        "consent_version": person.consent_version,
        "consented_at": round(person.consented_at),
        "order": order,
        "games": len(person.games),
        "stopped": person.stopped,
        "may_play": person.may_play(study),
        "before": person.answers.get("before", {}),
        "check": person.answers.get("check", {}),
        "partners": {
            agent: person.answers[name]
            for number, agent in enumerate(order)
            if (name := Step("partner", number).name) in person.answers
        },
        "end": person.answers.get("end", {}),
    }


def _write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in read_text(path).splitlines()]
    except ValueError as error:  # JSON's and Unicode's errors name no file
        raise ValueError(f"{path}: expected a line of JSON for each: {error}") from error


_Line = Mapping[str, Any]


def person_agent_data(export: Export) -> list[PersonAgentData]:
    """Every person with every agent that the person played a game with that counts, in the order of
    the study's agents; games of an agent that took a person's place do not. A rating is what the
    form of the partner says, or the mean of the games' forms where the study has none for
    partners."""
    people = {person["participant"]: person for person in export.people}
    lines_by_row = counted_lines(export)
    rows: dict[tuple[int, str], list[tuple[int, _Line]]] = {}
    for row, lines in lines_by_row.items():
        for line in lines:
            rows.setdefault((line["participant"], line["agent"]), []).append((row, line))
    shared = {row for row, lines in lines_by_row.items() if len(lines) > 1}
    names = [agent.name for agent in export.study.agents]
    return [
        _block(export, people[person], agent, rows, shared)
        for agent in names
        for person in people
        if (person, agent) in rows
    ]


def counted_lines(export: Export) -> dict[int, list[_Line]]:
    """The row of every game that counts, and the lines of the people for whom it does: the first
    game of one of two people may be a warm-up where the other's is none."""
    lines_by_row: dict[int, list[_Line]] = {}
    for row, line in export.by_person():
        if not line["warm_up"] and not line["instead"]:
            lines_by_row.setdefault(row, []).append(line)
    return lines_by_row


def rating_of(questions: Sequence[Question], answers: Mapping[str, Any]) -> float | None:
    """The mean of the scales that make up the rating; None where fewer than half were answered."""
    scales = [question for question in questions if question.kind == "scale"]
    chosen = [question for question in scales if question.rating] or scales
    answered = [answers[question.name] for question in chosen if question.name in answers]
    return float(np.mean(answered)) if answered and 2 * len(answered) >= len(chosen) else None


def _block(
    export: Export,
    person: Mapping[str, Any],
    agent: str,
    rows_of: Mapping[tuple[int, str], Sequence[tuple[int, _Line]]],
    shared: Collection[int],
) -> PersonAgentData:
    """`shared`: the rows of games that two people have in a block each."""
    study, rows = export.study, rows_of[person["participant"], agent]
    scores = {row: _score(export, row) for row, _ in rows}
    finished = [(row, line) for row, line in rows if scores[row] is not None]
    if study.after_partner:
        rating = rating_of(study.after_partner, person["partners"].get(agent, {}))
    else:
        of_games = [rating_of(study.after_game, line["answers"]) for _, line in rows]
        answered = [rating for rating in of_games if rating is not None]
        rating = float(np.mean(answered)) if answered else None
    ranking = person["end"].get("ranking", {})  # among those whose games count
    ranking = {a: rank for a, rank in ranking.items() if (person["participant"], a) in rows_of}
    better = [rank for rank in ranking.values() if rank < ranking.get(agent, 0)]
    ranked = agent in ranking and len(ranking) > 1
    return PersonAgentData(
        person=person["participant"],
        agent=agent,
        scores=tuple(score for score in scores.values() if score is not None),
        abandoned=len(rows) - len(finished),
        shared=tuple(SharedGame(row, score) for row, score in scores.items() if row in shared),
        rating=rating,
        rank=1 + len(better) if ranked else None,
        preference=_preference(study, person, agent),
        partner_moves=sum(_partner_moves(export, *each) for each in finished)
        if study.flag_moves
        else 0,
        flagged_moves=sum(len(line["questioned"]) for _, line in finished),
    )


def _score(export: Export, row: int) -> int | None:
    """Of a game that was finished; it is one for both of its people."""
    finished = export.lines[row]["end_reason"] == "finished"
    return int(export.games.scores[row]) if finished else None


def _preference(study: Study, person: Mapping[str, Any], agent: str) -> float | None:
    """How much rather this agent of two, by the scales at the end: low is the first partner met,
    high the second."""
    marked = [question for question in study.at_end if question.rating]
    value = rating_of(marked, person["end"]) if marked else None
    if value is None:
        return None
    middle = (1 + SCALE) / 2
    return value - middle if person["order"].index(agent) == 1 else middle - value


def _partner_moves(export: Export, row: int, line: _Line) -> int:
    players = export.games.rules.num_players
    players_of_moves = np.arange(export.games.num_actions[row]) % players
    return int((players_of_moves != line["seat"]).sum())
