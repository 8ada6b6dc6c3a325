"""Data of a study and its participants on disk: `StudyFolder`.

    study.json                design of the study, tag of the folder
    participants/NUMBER.json  all data of one participant: consent, order, games with moves and
                              times, answers; replaced after every move
    audit.jsonl               withdrawals with their times

All data of a participant are in one file, with no other table, log or index, so that a withdrawal
deletes everything. A participant is identified only by a code: a random number and a secret of
59 bits. The file contains the SHA-256 of the code, no name and no address.
"""

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import hmac
import json
import random
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hanabi_rl.people.serve.lifecycle import Game, RefusedError
from hanabi_rl.people.study.design import Study, orders, saved_study
from hanabi_rl.people.study.participant import Participant, participant_to_json, read_participant
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.files import fsync_path, read_json, remove_partial_writes, write_json
from hanabi_rl.storage.renamed_fields import current_name

FORMAT_VERSION = 1
_RANDOM = random.SystemRandom()
_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # no characters that are easily confused
_CODE = re.compile(r"\s*(\d{6})((?:-[0-9A-Za-z]{4}){3})\s*")
SECRET = re.compile(f"(-[{_LETTERS}]{{4}}){{3}}")
"""Secret part of a code, after the number."""


class WithdrawnError(RefusedError):
    """The participant's data were deleted; nothing more is saved."""


class StudyFolder:
    """Folder of a study, created if it is missing. One server at a time may use it; commands can
    run concurrently. Raises ValueError for another study than the folder's; a server, which may
    `change` it, replaces the study of a folder without participants."""

    def __init__(
        self,
        path: Path,
        study: Study,
        clock: Callable[[], float] = time.time,
        change: bool = False,
    ) -> None:
        self.path, self.study, self.clock = path, study, clock
        self._people = path / "participants"
        self._people.mkdir(parents=True, exist_ok=True)
        file = path / "study.json"
        saved = read_study_of(path) if file.exists() else None
        if saved not in (None, study) and (not change or self.participants()):
            raise ValueError(
                f"{path}: the study differs from the folder's ({file}): use another --state for a "
                "changed study"
            )
        if saved != study:
            tag = secrets.token_hex(4) if saved is None else self.tag
            header = {"format_version": FORMAT_VERSION, "tag": tag}
            write_json(file, header | {"study": study_to_json(study)})

    @functools.cached_property
    def tag(self) -> str:
        """Random name of this folder, 8 hexadecimal digits; written to study.json once."""
        file = self.path / "study.json"
        content: Any = read_json(file)
        if "tag" not in content:  # written by an earlier version
            content["tag"] = secrets.token_hex(4)
            write_json(file, content)
        return str(content["tag"])

    def join(self, secret: str | None = None) -> tuple[Participant, str]:
        """Add a participant after the consent; return it and its code, which is not saved.

        `secret`: secret part of the code, or None to generate one; the same secret returns the same
        participant. Raises RefusedError if the study is complete.
        """
        secret = secret or new_secret()
        with self._locked():
            participants = self.participants()
            for person in participants:
                if person.code_hash == _hash(code := f"{person.number:06d}{secret}"):
                    return person, code
            if self.complete(participants):
                raise RefusedError("the study is complete: it needs no more participants")
            taken = {person.number for person in participants}
            number = secrets.randbelow(1_000_000)
            while number in taken:
                number = secrets.randbelow(1_000_000)
            code = f"{number:06d}{secret}"
            order, agents = _order(self.study, self._eligible(participants))
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

    def complete(self, participants: list[Participant]) -> bool:
        """True if the study has enough participants; those who failed the check do not count."""
        return len(self._eligible(participants)) >= self.study.participants

    def _eligible(self, participants: list[Participant]) -> list[Participant]:
        return [person for person in participants if person.may_play(self.study)]

    def find(self, code: str) -> Participant | None:
        """The participant with this code; None if there is none or it has withdrawn."""
        found = _CODE.fullmatch(code)
        if not found:
            return None
        person = self.get(int(found[1]))
        code_hash = _hash(found[1] + found[2].upper())
        return person if person and hmac.compare_digest(code_hash, person.code_hash) else None

    def get(self, number: int) -> Participant | None:
        """The participant with this number; None if there is none or it has withdrawn."""
        try:
            return read_participant(self._file(number))
        except FileNotFoundError:
            return None

    def participants(self) -> list[Participant]:
        """All participants who have not withdrawn, in order of consent."""
        found = (self.get(int(path.stem)) for path in self._people.glob("[0-9]" * 6 + ".json"))
        people = [person for person in found if person]  # None: withdrawn in the meantime
        return sorted(people, key=lambda person: (person.consented_at, person.number))

    def check_agents(self, policies: Mapping[str, str]) -> None:
        """Check that no agent has changed. `policies`: agent -> identity. Raises ValueError if a
        game was played with another agent of the same name."""
        for person in self.participants():
            for number, played in enumerate(person.games, start=1):
                now = policies.get(played.agent, played.policy)
                if now != played.policy:
                    raise ValueError(
                        f"{self._file(person.number)}: {played.agent} has changed since game "
                        f"{number} ({played.policy}, now {now}): use another --state, or the "
                        "original agent"
                    )

    def change(self, number: int, change: Callable[[Participant], Participant]) -> Participant:
        """Apply a change to a participant and save it. Raises WithdrawnError."""
        with self._locked():
            person = self.get(number)
            if person is None:
                raise WithdrawnError("this participant has withdrawn: nothing more is saved")
            changed = change(person)
            self._write(changed)
            return changed

    def withdraw(self, number: int, by: str) -> bool:
        """Delete all data of a participant except a line in the audit log; False if absent."""
        with self._locked():
            if not self._file(number).exists():
                return False
            remove_partial_writes(self._people)
            self._forget_moves(number)
            self._file(number).unlink()
            fsync_path(self._people)
            line = {"at": round(self.clock()), "what": "withdrawn", "participant": number, "by": by}
            with (self.path / "audit.jsonl").open("a") as audit:
                audit.write(json.dumps(line) + "\n")
            return True

    def _forget_moves(self, number: int) -> None:
        """Delete the moves of games with this participant from the other participants' files."""
        withdrawn = self.get(number)
        games = withdrawn.games if withdrawn else ()
        paired = {played.paired_game for played in games if played.paired_game}
        for person in self.participants() if paired else []:
            for place, played in enumerate(person.games):
                if isinstance(played.game, Game) and played.game.game_id in paired:
                    game = dataclasses.replace(
                        played.game, moves=(), status="done", end_reason="left"
                    )
                    without_moves = dataclasses.replace(played, game=game, times_ms=(), flagged=())
                    person = person.with_game(place, without_moves)
            if any(played.game.game_id in paired for played in person.games):
                self._write(person)

    def _write(self, person: Participant) -> None:
        write_json(self._file(person.number), participant_to_json(person))

    def _file(self, number: int) -> Path:
        return self._people / f"{number:06d}.json"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.path / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def read_study_of(folder: Path) -> Study:
    """Read the study of a folder, with current names of its agents. Raises ValueError;
    FileNotFoundError."""
    study = saved_study(folder / "study.json")
    agents = tuple(
        dataclasses.replace(agent, name=current_name(agent.name)) for agent in study.agents
    )
    fallback = current_name(study.fallback_agent)
    return dataclasses.replace(study, agents=agents, fallback_agent=fallback)


def study_to_json(study: Study) -> dict[str, Any]:
    """Convert a study to the content of its TOML file."""
    lists = {
        name: [to_dict(item) for item in items]
        for name, items in {"agents": study.agents, **study.forms()}.items()
    }
    return to_dict(study) | lists


def _order(study: Study, participants: list[Participant]) -> tuple[int, tuple[int, ...]]:
    """Order of the agents for the next participant: the least used of the square, or random."""
    if study.order == "random":
        return -1, tuple(_RANDOM.sample(range(len(study.agents)), len(study.agents)))
    square = orders(len(study.agents))
    taken = [person.order for person in participants]
    row = min(range(len(square)), key=taken.count)
    return row, square[row]


def _plan(study: Study, order: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(agent, participant's seat) of each game, see `Study.seat`."""
    plan = []
    for agent in order:
        first = secrets.randbelow(study.players)
        for game in range(study.agents[agent].games):
            if study.seat == "alternate":
                seat = (first + game) % study.players
            else:
                random_seat = secrets.randbelow(study.players)
                seat = random_seat if study.seat == "random" else int(study.seat)
            plan.append((agent, seat))
    return tuple(plan)


def new_secret() -> str:
    """Generate the secret part of a code: three groups, each after a `-`."""
    return "".join("-" + "".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(3))


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
