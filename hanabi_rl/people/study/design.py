"""Design of a study, read from a TOML file: `read_study`.

title = "Hanabi with computer partners"     # and run_by, contact, language, players, order,
participants = 40                           # seat, completion_code
game = "overcooked:cramped_room"            # default: hanabi; and steps, steps_per_s
[consent]                                   # version, text
remember_people = true                      # agents keep their memory of a participant
flag_moves = true                           # button to mark the partner's last move
min_check_correct = 3                       # required correct answers in [[check]]
wait_s = 120                                # if an agent is `person`: seconds to wait for one,
fallback_agent = "bot:convention"           # and the agent that plays if no participant comes
[[agents]]                                  # name, games, warm_up, game; `person`: a participant
[[before]]                                  # questions: name, text, kind, low, high, choices,
[[check]]                                   # rating; those of a check also: correct, explanation
[[after_game]]                              # default: AFTER_GAME; `after_game = []`: no questions
[[after_partner]]                           # after the last game with each partner
[[at_end]]                                  # together with a ranking of the partners
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from hanabi_rl.people.serve.overcooked.record import STEPS_PER_S
from hanabi_rl.storage.dataclass_io import from_dict
from hanabi_rl.storage.files import read_json, read_toml
from hanabi_rl.storage.renamed_fields import current_name

T = TypeVar("T")

SCALE = 7
PERSON = "person"  # agent name of another participant
MAX_TEXT = 2000  # characters per answer


@dataclasses.dataclass(frozen=True)
class Question:
    """One question of a form; all are optional. `low` and `high` label 1 and 7."""

    name: str = ""
    text: str = ""
    kind: Literal["scale", "choice", "text"] = "scale"
    low: str = "not at all"
    high: str = "very much"
    choices: tuple[str, ...] = ()
    rating: bool = False
    """This scale counts towards the rating of a partner; if no scale of the form is marked, all
    count. At the end of a study of two agents it compares the first partner (1) with the second
    (7)."""
    correct: str = ""
    """Correct choice of a check question."""
    explanation: str = ""
    """Text shown with the correct choice after the check."""

    def read(self, answer: str) -> str | int | None:
        """Parse the content of a form field; None if it is empty or invalid."""
        if self.kind == "text":
            # browsers count a line break as one character but send two
            return answer.replace("\r\n", "\n").strip()[:MAX_TEXT] or None
        if self.kind == "choice":
            return answer if answer in self.choices else None
        return int(answer) if answer in map(str, range(1, SCALE + 1)) else None


AFTER_GAME = (
    Question("meant", "I could tell what my partner meant."),
    Question("understood", "My partner understood my hints."),
    Question("predictable", "My partner's moves were predictable."),
    Question("trust", "I trusted my partner."),
    Question("human", "My partner plays like a person."),
    Question("again", "I would play with this partner again."),
    Question("remarks", "Anything you would like to say about this game?", "text"),
)
_OF_HANABI = ("understood",)  # questions about hints


@dataclasses.dataclass(frozen=True)
class StudyAgent:
    """A partner and the number of consecutive games with it."""

    name: str = ""
    games: int = 1
    warm_up: int = 0
    """Number of initial games for familiarisation: announced as such, without questions, excluded
    from reports."""
    game: str = ""
    """Game with this partner, if not the study's: another kitchen of Overcooked."""

    @property
    def label(self) -> str:
        """Name in data and reports: the agent's, with the kitchen if that is its own."""
        kitchen = self.game.partition(":")[2] or self.game
        return f"{self.name} in {kitchen}" if kitchen else self.name


@dataclasses.dataclass(frozen=True)
class Consent:
    """Consent text and its version, which is saved with every participant."""

    version: str = ""
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Study:
    """Design of a study. The researcher is responsible for the consent text."""

    title: str = ""
    run_by: str = ""
    contact: str = ""
    language: str = "en"
    """Language of the texts in this file, as an HTML code; the table's own texts are English."""
    game: str = "hanabi"
    """`hanabi`, or a kitchen of Overcooked: `overcooked:cramped_room`."""
    steps: int = 400
    """Steps of a game of Overcooked."""
    steps_per_s: float = STEPS_PER_S
    """Steps per second of a game of Overcooked."""
    players: int = 2
    seat: Literal["alternate", "random", "0", "1", "2", "3", "4"] = "alternate"
    """Participant's seat: with each agent in turn from a random one, random, or fixed."""
    order: Literal["latin", "random"] = "latin"
    participants: int = 100
    """Maximum number of participants."""
    completion_code: str = ""
    remember_people: bool = False
    """An agent that remembers its partners (`agents/preloaded_profile.py`) keeps its memory of a
    participant between games; if False, every game is a first meeting."""
    flag_moves: bool = False
    """Participants can mark their partner's last move as questionable."""
    min_check_correct: int = 0
    """Minimum number of correct answers to the check; with fewer a participant plays no game."""
    wait_s: int = 120
    """Seconds that a participant waits for another one before `fallback_agent` plays."""
    fallback_agent: str = ""
    """Agent that plays if no participant comes; it need not be one of `agents`."""
    consent: Consent = Consent()
    agents: tuple[StudyAgent, ...] = ()
    before: tuple[Question, ...] = ()
    check: tuple[Question, ...] = ()
    after_game: tuple[Question, ...] = AFTER_GAME
    after_partner: tuple[Question, ...] = ()
    at_end: tuple[Question, ...] = ()

    @property
    def is_hanabi(self) -> bool:
        """True for Hanabi, False for Overcooked."""
        return self.game == "hanabi"

    def game_of(self, agent: StudyAgent) -> str:
        """Name of the game with an agent."""
        return agent.game or self.game

    @property
    def with_people(self) -> bool:
        """True if participants play with each other."""
        return PERSON in [agent.name for agent in self.agents]

    @property
    def policies(self) -> list[str]:
        """Names of all agents that are not participants."""
        names = [agent.name for agent in self.agents if agent.name != PERSON]
        return list(dict.fromkeys([*names, *([self.fallback_agent] if self.with_people else [])]))

    def forms(self) -> dict[str, tuple[Question, ...]]:
        """All lists of questions, by their names in the file."""
        return {name: getattr(self, name) for name in _FORMS}


_FORMS = ("before", "check", "after_game", "after_partner", "at_end")
_LISTS = {"agents": StudyAgent} | dict.fromkeys(_FORMS, Question)
_RENAMED = {
    "instead": "fallback_agent",
    "questionable": "flag_moves",
    "wait": "wait_s",
    "check_right": "min_check_correct",
    "series": "remember_people",
    "right": "correct",
    "why": "explanation",
}
"""Earlier key -> key. A saved study may have earlier keys, a TOML file must not."""


def read_study(path: Path) -> Study:
    """Read a study from a TOML file. Raises ValueError naming the field; FileNotFoundError."""
    study = study_of(read_toml(path), str(path))
    for name in study.policies:
        if (new := current_name(name)) != name:
            raise ValueError(f"{path}: {name} was renamed to {new}")
    return study


def study_of(content: dict[str, Any], where: str = "study") -> Study:
    """Parse the content of a TOML file. Raises ValueError."""
    lists: dict[str, Any] = {
        name: tuple(_items(cls, content[name], f"{where}: {name}"))
        for name, cls in _LISTS.items()
        if name in content
    }
    rest = {name: value for name, value in content.items() if name not in _LISTS}
    study = _from_table(Study, rest, where)
    if not study.is_hanabi:
        lists.setdefault("after_game", tuple(q for q in AFTER_GAME if q.name not in _OF_HANABI))
    study = dataclasses.replace(study, **lists)
    _check(study, where)
    return study


def saved_study(path: Path) -> Study:
    """Read a study saved by a server or an export. Raises ValueError; FileNotFoundError."""
    return study_of(_with_new_keys(read_json(path)["study"]), str(path))


def orders(agents: int) -> list[tuple[int, ...]]:
    """Orders of a Latin square balanced for first-order carryover (Williams 1949): each agent is
    equally often at each place and after each other agent. Odd numbers add the mirrored square."""
    first = [(place + 1) // 2 * (1 if place % 2 else -1) % agents for place in range(agents)]
    square = [tuple((agent + row) % agents for agent in first) for row in range(agents)]
    return square + [order[::-1] for order in square] if agents % 2 and agents > 1 else square


def _with_new_keys(saved: Any) -> Any:
    if isinstance(saved, list):
        return [_with_new_keys(item) for item in saved]
    if isinstance(saved, dict):
        return {_RENAMED.get(name, name): _with_new_keys(item) for name, item in saved.items()}
    return saved


def _from_table(cls: type[T], table: dict[str, Any], where: str) -> T:
    for name in filter(_RENAMED.get, table):
        raise ValueError(f"{where}: {name} was renamed to {_RENAMED[name]}")
    return from_dict(cls, table, where=where)


def _items(cls: type[Any], tables: Any, where: str) -> list[Any]:
    if not isinstance(tables, list):
        raise ValueError(f"{where}: expected a list of tables, got {tables!r:.60}")
    items = []
    for i, item in enumerate(tables):
        if not isinstance(item, dict):
            raise ValueError(f"{where}[{i}]: expected a table, got {item!r:.60}")
        items.append(_from_table(cls, item, f"{where}[{i}]"))
    return items


def _check(study: Study, where: str) -> None:
    for name in ("title", "run_by", "contact", "language"):
        _check_text(getattr(study, name), f"{where}: {name}")
    for name in ("version", "text"):
        _check_text(getattr(study.consent, name), f"{where}: consent.{name}")
    _check_range(study.players, 2, 5, f"{where}: players")
    if study.seat.isdigit():
        _check_range(int(study.seat), 0, study.players - 1, f"{where}: seat")
    _check_range(study.participants, 1, None, f"{where}: participants")
    if not study.agents:
        raise ValueError(f"{where}: agents: expected one [[agents]] or more, got none")
    for i, agent in enumerate(study.agents):
        _check_text(agent.name, f"{where}: agents[{i}].name")
        _check_range(agent.games, 1, None, f"{where}: agents[{i}].games")
        _check_range(agent.warm_up, 0, agent.games - 1, f"{where}: agents[{i}].warm_up")
    _check_unique([agent.label for agent in study.agents], f"{where}: agents", "agent")
    (_check_hanabi if study.is_hanabi else _check_overcooked)(study, where)
    if study.with_people:
        if study.players != 2:
            raise ValueError(f"{where}: players: expected 2 with a person, got {study.players}")
        _check_range(study.wait_s, 1, None, f"{where}: wait_s")
        _check_text(study.fallback_agent, f"{where}: fallback_agent")
        if study.fallback_agent == PERSON:
            raise ValueError(f"{where}: fallback_agent: expected an agent, got {PERSON!r}")
    for form, questions in study.forms().items():
        _check_questions(questions, f"{where}: {form}")
    if any(question.rating for question in study.at_end) and len(study.agents) != 2:
        raise ValueError(
            f"{where}: at_end: rating: expected two agents to compare, got {len(study.agents)}"
        )
    for i, question in enumerate(study.check):
        if question.correct not in question.choices:
            raise ValueError(
                f"{where}: check[{i}].correct: expected one of the choices, got "
                f"{question.correct!r}"
            )
    _check_range(study.min_check_correct, 0, len(study.check), f"{where}: min_check_correct")


def _check_hanabi(study: Study, where: str) -> None:
    for i, agent in enumerate(study.agents):
        if agent.game:
            raise ValueError(
                f"{where}: agents[{i}].game: expected none in a study of hanabi, got {agent.game}"
            )


def _check_overcooked(study: Study, where: str) -> None:
    from hanabi_rl.games.registry import game_from_text  # imports JAX

    texts = {f"{where}: game": study.game}
    texts |= {f"{where}: agents[{i}].game": study.game_of(of) for i, of in enumerate(study.agents)}
    for place, text in texts.items():
        if "?" in text:
            raise ValueError(f"{place}: expected overcooked:KITCHEN without parameters, got {text}")
        try:
            rules = game_from_text(text)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        if rules.name != "overcooked":
            raise ValueError(
                f"{place}: expected overcooked:KITCHEN (or hanabi for all agents), got {text}"
            )
    _check_range(study.steps, 1, 4095, f"{where}: steps")
    _check_range(study.steps_per_s, 0.5, 100, f"{where}: steps_per_s")
    of_hanabi = {
        "players": study.players != 2,
        "flag_moves": study.flag_moves,
        "remember_people": study.remember_people,
        f"agents: {PERSON}": study.with_people,
    }
    for name, used in of_hanabi.items():
        if used:
            raise ValueError(f"{where}: {name}: only in studies of hanabi, got {study.game}")


def _check_range(value: float, low: float, high: float | None, where: str) -> None:
    if value < low or (high is not None and value > high):
        expected = f"{low} or more" if high is None else f"{low} to {high}"
        raise ValueError(f"{where}: expected {expected}, got {value}")


def _check_questions(questions: Sequence[Question], where: str) -> None:
    for i, question in enumerate(questions):
        _check_text(question.text, f"{where}[{i}].text")
        if not question.name.isidentifier():
            raise ValueError(
                f"{where}[{i}].name: expected a name of letters, digits and _, got "
                f"{question.name!r}"
            )
        if (question.kind == "choice") != (len(question.choices) > 1):
            raise ValueError(
                f"{where}[{i}].choices: expected two or more for a choice and none for another "
                f"kind, got {len(question.choices)} for kind {question.kind!r}"
            )
    _check_unique([question.name for question in questions], where, "question")


def _check_text(text: str, where: str) -> None:
    if not text.strip():
        raise ValueError(f"{where}: expected a text, got {text!r}")


def _check_unique(names: Sequence[str], where: str, kind_of_item: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where}: expected every {kind_of_item} once, got {name!r} twice")
