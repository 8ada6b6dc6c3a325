"""The people of a study, and where what they did is kept: `StudyFolder`.

    study.json                what was asked of everybody
    participants/NUMBER.json  everything of one person: consent, order, games with their moves and
                              times, answers; replaced after every move
    audit.jsonl               who withdrew, and when

One file a person, so that who withdraws is deleted with it: there is no table, log or index that
anything could be left in. A person is known by a code alone, of which the file holds the SHA-256:
its first part is the random number, the rest a secret of 59 bits. No name and no address is kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import hmac
import json
import random
import re
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hanabi_rl.serve.folder import game_from_json, game_to_json
from hanabi_rl.serve.lifecycle import Game, RefusedError
from hanabi_rl.serve.study import Study, orders, study_of
from hanabi_rl.storage.files import finish_replacements, fsync_path, read_json, write_json
from hanabi_rl.storage.records import to_dict

FORMAT_VERSION = 2
_READ_VERSIONS = (1, 2)  # 1: before moves could be marked
_RANDOM = random.SystemRandom()
_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # none that is taken for another
_CODE = re.compile(r"\s*(\d{6})((?:-[0-9A-Za-z]{4}){3})\s*")

Answers = dict[str, Any]


class WithdrawnError(RefusedError):
    """This person's games and answers were deleted; nothing more is kept."""


@dataclasses.dataclass(frozen=True)
class Played:
    """One game of a person."""

    game: Game
    agent: str
    policy: str  # its identity
    started_at: float  # seconds since the epoch
    times_ms: tuple[int, ...] = ()
    """Of each move, since the deal."""
    questioned: tuple[int, ...] = ()
    """The partners' moves, by their numbers, that the person found questionable, in order."""


@dataclasses.dataclass(frozen=True)
class Participant:
    """Everything that is kept of one person."""

    number: int
    code_hash: str
    consent_version: str
    consented_at: float
    order: int
    """Which of the study's orders; -1 where it was drawn."""
    plan: tuple[tuple[int, int], ...]
    """The agent (of the study's) and the person's seat in each game."""
    games: tuple[Played, ...] = ()
    answers: dict[str, Answers] = dataclasses.field(default_factory=dict)
    """By step (`study_steps.py`): `before`, `check`, `game 1`, ..., `partner 1`, ..., `end`."""
    stopped: bool = False

    def with_game(self, place: int, played: Played) -> Participant:
        """Game number `place` (from 0) as it is now."""
        games = (*self.games[:place], played, *self.games[place + 1 :])
        return dataclasses.replace(self, games=games)

    def with_answers(self, step: str, answers: Answers) -> Participant:
        """A form filled in. What was answered once stands."""
        return dataclasses.replace(self, answers={step: answers} | self.answers)

    def with_stop(self) -> Participant:
        """No more games."""
        return dataclasses.replace(self, stopped=True)

    def met(self, study: Study) -> list[int]:
        """The agents (of the study's) that this person made a move with, in their order."""
        games = zip(self.plan, self.games, strict=False)
        return list(dict.fromkeys(agent for (agent, _), each in games if each.game.moves))

    def number_right(self, study: Study) -> int:
        """How many questions of the check were answered right."""
        given = self.answers.get("check", {})
        return sum(given.get(question.name) == question.right for question in study.check)

    def may_play(self, study: Study) -> bool:
        """Whether they are enough, or were not asked yet."""
        return "check" not in self.answers or self.number_right(study) >= study.check_right


class StudyFolder:
    """The folder `path` of `study`, made where it is missing. For one server at a time; commands
    beside it are safe. Raises ValueError for a folder of another study."""

    def __init__(self, path: Path, study: Study, clock: Callable[[], float] = time.time) -> None:
        self.path, self.study, self.clock = path, study, clock
        self._people = path / "participants"
        self._people.mkdir(parents=True, exist_ok=True)
        kept = path / "study.json"
        if not kept.exists():
            write_json(kept, {"format_version": FORMAT_VERSION, "study": to_json_dict(study)})
        elif read_study_of(path) != study:
            raise ValueError(
                f"{path}: expected the study that the folder was made for ({kept}): a study that "
                "changes is another one; give it another --state"
            )

    def join(self) -> tuple[Participant, str]:
        """A new person, who has agreed; and the code, which is returned this once. Raises
        RefusedError where the study is complete."""
        with self._locked():
            everyone = self.everyone()
            if self.complete(everyone):
                raise RefusedError("the study is complete: nobody else is needed")
            taken = {person.number for person in everyone}
            number = secrets.randbelow(1_000_000)
            while number in taken:
                number = secrets.randbelow(1_000_000)
            code = f"{number:06d}" + "".join(f"-{_word()}" for _ in range(3))
            order, agents = _order(self.study, self._who_play(everyone))
            person = Participant(
                number=number,
                code_hash=_hash(code),
                consent_version=self.study.consent.version,
                consented_at=self.clock(),
                order=order,
                plan=_plan(self.study, agents),
            )
            self._write(person)
        return person, code

    def complete(self, everyone: list[Participant]) -> bool:
        """Whether nobody else is needed; who may not play after the check takes nobody's place."""
        return len(self._who_play(everyone)) >= self.study.participants

    def _who_play(self, everyone: list[Participant]) -> list[Participant]:
        return [person for person in everyone if person.may_play(self.study)]

    def find(self, code: str) -> Participant | None:
        """Who holds this code; None where nobody does (any more)."""
        found = _CODE.fullmatch(code)
        if not found:
            return None
        person = self.get(int(found[1]))
        given = _hash(found[1] + found[2].upper())
        return person if person and hmac.compare_digest(given, person.code_hash) else None

    def get(self, number: int) -> Participant | None:
        """The person with this number; None where there is none (any more)."""
        try:
            return _read(self._file(number))
        except FileNotFoundError:
            return None

    def everyone(self) -> list[Participant]:
        """All who have not withdrawn, in the order in which they agreed."""
        people = [_read(path) for path in self._people.glob("[0-9]*.json")]
        return sorted(people, key=lambda person: (person.consented_at, person.number))

    def change(self, number: int, change: Callable[[Participant], Participant]) -> Participant:
        """Writes what became of a person. Raises WithdrawnError."""
        with self._locked():
            person = self.get(number)
            if person is None:
                raise WithdrawnError("this participant has withdrawn: nothing more is kept")
            changed = change(person)
            self._write(changed)
            return changed

    def withdraw(self, number: int, by: str) -> bool:
        """Deletes everything of a person but a line of audit; False where there was nobody."""
        with self._locked():
            if not self._file(number).exists():
                return False
            finish_replacements(self._people)  # what a killed server left half written
            self._file(number).unlink()
            fsync_path(self._people)
            line = {"at": round(self.clock()), "what": "withdrawn", "participant": number, "by": by}
            with (self.path / "audit.jsonl").open("a") as audit:
                audit.write(json.dumps(line) + "\n")
            return True

    def _write(self, person: Participant) -> None:
        write_json(self._file(person.number), _to_json(person))

    def _file(self, number: int) -> Path:
        return self._people / f"{number:06d}.json"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.path / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def read_study_of(folder: Path) -> Study:
    """The study of a folder. Raises ValueError; FileNotFoundError."""
    return study_of(read_json(folder / "study.json")["study"], str(folder / "study.json"))


def to_json_dict(study: Study) -> dict[str, Any]:
    """The content of the TOML file that says this study."""
    lists = {
        name: [to_dict(item) for item in items]
        for name, items in {"agents": study.agents, **study.forms()}.items()
    }
    return to_dict(study) | lists


def _order(study: Study, everyone: list[Participant]) -> tuple[int, tuple[int, ...]]:
    """The next person's order of the agents: the one of the square that fewest have, or a draw."""
    if study.order == "random":
        return -1, tuple(_RANDOM.sample(range(len(study.agents)), len(study.agents)))
    square = orders(len(study.agents))
    taken = [person.order for person in everyone]
    row = min(range(len(square)), key=taken.count)
    return row, square[row]


def _plan(study: Study, order: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Each agent's games in a row; the person's seat begins anywhere and moves on."""
    plan = []
    for agent in order:
        first = secrets.randbelow(study.players)
        games = range(study.agents[agent].games)
        plan += [(agent, (first + game) % study.players) for game in games]
    return tuple(plan)


def _word() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(4))


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _to_json(person: Participant) -> dict[str, Any]:
    games = [
        {
            **game_to_json(played.game),
            "status": played.game.status,
            "end_reason": played.game.end_reason,
            "agent": played.agent,
            "policy": played.policy,
            "started_at": played.started_at,
            "times_ms": played.times_ms,
            "questioned": played.questioned,
        }
        for played in person.games
    ]
    fields = {f.name: getattr(person, f.name) for f in dataclasses.fields(person)}
    return {"format_version": FORMAT_VERSION} | fields | {"games": games}


def _read(path: Path) -> Participant:
    """Raises ValueError naming a file that is none of ours."""
    content: Any = read_json(path)
    try:
        if content.pop("format_version") not in _READ_VERSIONS:
            raise ValueError(f"expected a format_version up to {FORMAT_VERSION}")
        games = tuple(_played(game) for game in content.pop("games"))
        plan = tuple((agent, seat) for agent, seat in content.pop("plan"))
        return Participant(plan=plan, games=games, **content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{path}: no participant of a study: {type(error).__name__}: {error}"
        ) from error


def _played(content: dict[str, Any]) -> Played:
    game = dataclasses.replace(
        game_from_json(content), status=content["status"], end_reason=content["end_reason"]
    )
    return Played(
        game=game,
        agent=content["agent"],
        policy=content["policy"],
        started_at=content["started_at"],
        times_ms=tuple(content["times_ms"]),
        questioned=tuple(content.get("questioned", ())),
    )
