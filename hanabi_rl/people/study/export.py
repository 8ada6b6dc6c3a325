"""Export of a study: files for training (`export_study`, `read_export`), and the data of each
participant with each agent for statistics (`person_agent_data`).

games.safetensors         games, in the format of `load_games` and `train/bc.py`, for Overcooked in
                          that of `load_recorded_games`
games.jsonl               one line per game: participants, agent, times, answers, marked moves, and
                          `earlier`, the previous games of the series that the agent remembered
games.participants.jsonl  one line per participant: order of agents, answers
games.study.json          design of the study
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import Games, concatenate_games
from hanabi_rl.evaluation.measure.study import PersonAgentData, SharedGame
from hanabi_rl.people.serve.folder import as_games
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.overcooked.record import KitchenRecord
from hanabi_rl.people.study.design import SCALE, Question, Study, saved_study
from hanabi_rl.people.study.folder import StudyFolder, study_to_json
from hanabi_rl.people.study.participant import Participant, PlayedGame, Step, is_warm_up
from hanabi_rl.storage.files import check_writable, read_text, write_json, write_text

if TYPE_CHECKING:
    from hanabi_rl.games.overcooked.recorded_games import RecordedGames

FORMAT_VERSION = 1
SUFFIX = ".safetensors"
"""Suffix of the games. hanab.live's formats end a game once no more points are possible: a last
life lost after that is missing, and the score differs."""


@dataclasses.dataclass(frozen=True, eq=False)
class Export:
    """The games of a study, and one line of data per game in the same order."""

    study: Study
    games: Games | RecordedGames
    lines: Sequence[dict[str, Any]]
    people: Sequence[dict[str, Any]]

    @property
    def max_score(self) -> float:
        """Maximum score of a game; infinite in Overcooked."""
        return self.games.rules.max_score if isinstance(self.games, Games) else np.inf

    def by_person(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (row of the game, line) for each participant in each game."""
        for row, line in enumerate(self.lines):
            yield row, line
            if "other" in line:
                yield row, line["other"]


def export_study(folder: StudyFolder, out: Path, *, unfinished: bool = False) -> int:
    """Write `out` (.safetensors) and its companion files; return the number of games.

    Exports finished games; with `unfinished` also abandoned games and games in progress. The file
    of games is read back and replayed before it replaces an earlier one. Raises ValueError without
    games and for another suffix.
    """
    check_writable("--out", out, (SUFFIX,))
    export = gather(folder, unfinished=unfinished)
    temporary = out.with_name(f".{out.stem}.new{out.suffix}")
    try:
        save, load = _file_format(folder.study)
        save(temporary, export.games)
        load(temporary)  # validates by full replay
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    _write_lines(out.with_suffix(".jsonl"), export.lines)
    _write_lines(out.with_suffix(".participants.jsonl"), export.people)
    study = {"format_version": FORMAT_VERSION, "study": study_to_json(export.study)}
    write_json(out.with_suffix(".study.json"), study)
    return len(export.lines)


def gather(folder: StudyFolder, *, unfinished: bool = False) -> Export:
    """Collect the data that `export_study` writes. Raises ValueError if there are no games."""
    people = folder.participants()
    chosen = [
        (person, place, played)
        for person in people
        for place, last in enumerate(person.games)
        for played in (*last.interrupted, last)
        if played.game.moves and (unfinished or played.game.end_reason == "finished")
    ]
    if not chosen:
        raise ValueError(f"{folder.path}: no games to export from {len(people)} participants")
    by_id = {each[2].game.game_id: each for each in chosen}
    shared_games = [  # two participants have one copy each of their game
        [each, *([by_id[pair]] if (pair := each[2].paired_game) in by_id else [])]
        for each in chosen
        if each[2].paired_game not in by_id or each[2].paired_game > each[2].game.game_id
    ]
    return Export(
        folder.study,
        _games_of(folder.study, shared_games),
        [_game_line(folder.study, copies) for copies in shared_games],
        [_person_line(folder.study, each) for each in people],
    )


def read_export(path: Path) -> Export:
    """Read what `export_study` wrote to `path`. Raises FileNotFoundError; ValueError for another
    suffix or files that do not belong together."""
    if path.suffix != SUFFIX:
        raise ValueError(
            f"expected the {SUFFIX} file of `hanabi-rl games export`, got {path}: other formats "
            "may omit the end of a game"
        )
    study_file = path.with_suffix(".study.json")
    if not study_file.is_file():
        raise FileNotFoundError(f"{study_file} is missing: export the study again")
    study, lines = saved_study(study_file), _read_lines(path.with_suffix(".jsonl"))
    found = [line.get("game_id") for line in lines]
    games = _file_format(study)[1](path)
    if found != (
        games.game_ids.tolist() if study.is_hanabi else [each.game_id for each in games.origins]
    ):
        raise ValueError(
            f"{path.with_suffix('.jsonl')}: expected one line per game of {path}, in order "
            f"({len(games)} games), got {len(found)} lines that do not match"
        )
    people = _read_lines(path.with_suffix(".participants.jsonl"))
    return Export(study, games, lines, people)


_GameOf = tuple[Participant, int, PlayedGame]
"""(participant, index of the game among the participant's games, game)."""


def _file_format(study: Study) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Functions that save and load the games of a study."""
    if study.is_hanabi:
        return save_games, load_games
    from hanabi_rl.games.overcooked.recorded_games import load_recorded_games, save_recorded_games

    return save_recorded_games, load_recorded_games


def _games_of(study: Study, shared_games: Sequence[Sequence[_GameOf]]) -> Games | RecordedGames:
    """Games for the file; each of Overcooked is of one participant."""
    if study.is_hanabi:
        joined = concatenate_games([as_games(_shared_game(copies)) for copies in shared_games])
        return dataclasses.replace(joined, players=_seat_players(study, shared_games))
    from hanabi_rl.people.serve.overcooked.play import recorded_games

    names = {agent.label: agent.name for agent in study.agents}
    games = [(person, played) for ((person, _, played),) in shared_games]
    return recorded_games(
        [played.game for _, played in games if isinstance(played.game, KitchenRecord)],
        [(names[played.agent], played.policy) for _, played in games],
        [person.number for person, _ in games],
    )


def _shared_game(copies: Sequence[_GameOf]) -> Game:
    """The game with all of its participants; a game in progress counts as abandoned."""
    game = copies[0][2].game
    assert isinstance(game, Game)
    people = frozenset().union(*(played.game.people for _, _, played in copies))
    game = dataclasses.replace(game, people=people)
    return game if game.status == "done" else dataclasses.replace(game, end_reason="left")


def _seat_players(study: Study, shared_games: Sequence[Sequence[_GameOf]]) -> np.ndarray:
    """Player in each seat, int32[N, P]: a participant's number, or -1, -2, ... for the study's
    agents in alphabetical order."""
    agents = sorted({*(agent.name for agent in study.agents), *study.policies})
    rows = []
    for copies in shared_games:
        played = copies[0][2]
        row = [-1 - agents.index(played.agent)] * study.players
        for person, _, their_game in copies:
            row[min(their_game.game.people)] = person.number
        rows.append(row)
    return np.array(rows, np.int32)


def _game_line(study: Study, copies: Sequence[_GameOf]) -> dict[str, Any]:
    """The line of a game; `other` holds the second participant's line, if any."""
    first, *others = (_player_line(study, *each) for each in copies)
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
        "answers": {}
        if game.end_reason == "interrupted"
        else person.answers.get(Step("after", place).name, {}),
        "consent_version": person.consent_version,
    }


def _person_line(study: Study, person: Participant) -> dict[str, Any]:
    order = [study.agents[agent].label for agent in dict.fromkeys(a for a, _ in person.plan)]
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
    except ValueError as error:  # JSON and Unicode errors do not name the file
        raise ValueError(f"{path}: expected JSON lines: {error}") from error


_Line = Mapping[str, Any]


def person_agent_data(export: Export) -> list[PersonAgentData]:
    """Return the data of each participant with each agent, in the order of the study's agents.

    Games that do not count are excluded (`counted_lines`). The rating is that of the partner's form
    or, if the study has none, the mean rating of the games' forms.
    """
    people = {person["participant"]: person for person in export.people}
    lines_by_row = counted_lines(export)
    rows: dict[tuple[int, str], list[tuple[int, _Line]]] = {}
    for row, lines in lines_by_row.items():
        for line in lines:
            rows.setdefault((line["participant"], line["agent"]), []).append((row, line))
    shared = {row for row, lines in lines_by_row.items() if len(lines) > 1}
    names = [agent.label for agent in export.study.agents]
    return [
        _block(export, people[person], agent, rows, shared)
        for agent in names
        for person in people
        if (person, agent) in rows
    ]


def counted_lines(export: Export) -> dict[int, list[_Line]]:
    """The lines that count, by row of the game: no warm-ups, no fallback agents. The same game can
    be a warm-up for only one of its two participants."""
    lines_by_row: dict[int, list[_Line]] = {}
    for row, line in export.by_person():
        if not line["warm_up"] and not line["instead"]:
            lines_by_row.setdefault(row, []).append(line)
    return lines_by_row


def rating_of(questions: Sequence[Question], answers: Mapping[str, Any]) -> float | None:
    """Mean of the scales that form the rating; None if fewer than half were answered."""
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
    study, rows = export.study, rows_of[person["participant"], agent]
    scores = {row: _score(export, row) for row, _ in rows}
    finished = [(row, line) for row, line in rows if scores[row] is not None]
    if study.after_partner:
        rating = rating_of(study.after_partner, person["partners"].get(agent, {}))
    else:
        of_games = [rating_of(study.after_game, line["answers"]) for _, line in rows]
        answered = [rating for rating in of_games if rating is not None]
        rating = float(np.mean(answered)) if answered else None
    ranking = person["end"].get("ranking", {})  # only partners with games that count
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
    """Score of a finished game, or None."""
    finished = export.lines[row]["end_reason"] == "finished"
    return int(export.games.scores[row]) if finished else None


def _preference(study: Study, person: Mapping[str, Any], agent: str) -> float | None:
    """Preference for this agent over the other one, from the scales at the end: low values favour
    the first partner, high values the second."""
    marked = [question for question in study.at_end if question.rating]
    value = rating_of(marked, person["end"]) if marked else None
    if value is None:
        return None
    middle = (1 + SCALE) / 2
    return value - middle if person["order"].index(agent) == 1 else middle - value


def _partner_moves(export: Export, row: int, line: _Line) -> int:
    assert isinstance(export.games, Games)  # moves are flagged only in Hanabi
    players = export.games.rules.num_players
    players_of_moves = np.arange(export.games.num_actions[row]) % players
    return int((players_of_moves != line["seat"]).sum())
