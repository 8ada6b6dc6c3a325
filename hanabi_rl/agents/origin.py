"""Where an agent comes from, as far as its card (of one that ships or was exported) or its run's
config says: as whom it began, with whom and from which games it learnt."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, NamedTuple

from hanabi_rl.agents.folder import FILE, REFERENCE, run_config
from hanabi_rl.agents.hub import hub_card
from hanabi_rl.agents.names import HUB, SHIPPED, parse_name, spread_names
from hanabi_rl.agents.one_file import SUFFIX, read_card, shipped_file
from hanabi_rl.agents.policy import NetworkPolicy

NOT_NOTED = "not noted"
"""What a card says of the data where nobody told `hanabi-rl export`."""


class _Origin(NamedTuple):
    """What a card or a config says of one agent alone."""

    start: str | None = None
    """As whom it began; a card does not say. Of BR-BC whom its clone began as, or the clone."""
    beside: bool = False
    """Whether it is BR-BC, which began as nobody and met its clone."""
    met: tuple[str, ...] = ()
    learnt: tuple[str, ...] = ()
    """Files of games."""
    chosen: tuple[str, ...] = ()
    """Files of games by which an epoch was chosen."""
    data: str | None = None
    """What it learnt from, in the words of its card."""

    def may_have_learnt_from(self, file: Path) -> bool:
        """Whether it may have, by what is noted; as whom it began aside."""
        if file.name in _names(self.learnt) or file.name in _names(self.chosen):
            return file.name in _names(self.learnt)
        if self.data is not None:
            return not self.data.startswith("none")
        return not self.learnt and self.start is None

    def words(self, file: Path, deny: bool) -> str | None:
        """What it and a file are to each other; None where nothing is noted. `deny`: nobody it
        began as may have learnt from the file, so it may be said that it did not."""
        if file.name in _names(self.learnt):
            return f"learnt from {file.name} itself, so that its prediction flatters it"
        if file.name in _names(self.chosen):
            by = f"did not learn from {file.name}, by which an epoch was chosen"
            return by if deny else f"had an epoch chosen by {file.name}"
        if self.data is not None and self.data.startswith("none"):
            return "learnt from no recorded games, as far as its card says"
        if self.data is not None:
            return f"learnt from {self.data}; whether {file.name} is of them its card does not say"
        if self.learnt:
            words = f"learnt from {', '.join(self.learnt)}"
            return f"{words}, not from {file.name} by its name" if deny else words
        return None


def trained_with(name: str) -> tuple[str, ...]:
    """Whom an agent met in training: its partners, the agent that it began as (`--start-from`, the
    clone of HDR-IPPO, the level below of OBL), and whom that one met; of BR-BC its clone, and as
    whom that began. Each once."""
    met, itself = list[str](), True
    for origin in _lineage(name).values():
        met += origin.met if itself else ()
        met += [origin.start] if origin.start is not None else []
        itself &= not origin.beside
    return tuple(dict.fromkeys(met))


def acquaintance(name: str, file: Path) -> str | None:
    """What is known of an agent, those it began as and a file of games, in a few words; None where
    nothing is, as of a bot. Files are told by their names."""
    deny, lineage = True, _lineage(name)
    origins = [*lineage.values()]
    said: list[str] = []
    for age, (agent, origin) in reversed([*enumerate(lineage.items())]):
        phrase = words = origin.words(file, deny)
        if age > 0:
            unknown = ", whose data is not noted" if origin.start is None else ""
            which = unknown if words is None else f", which {words}"
            if origins[age - 1].beside:
                began = f"{'its' if age == 1 else 'the'} clone is, or began as,"
            else:
                began = f"{'began' if age == 1 else 'that one began'} as"
            phrase = f"{began} {agent}{which}"
        if file.name in _names(origin.learnt):  # that settles it, whoever went before
            said = []
        said += [phrase] if phrase else []
        deny = deny and not origin.may_have_learnt_from(file)
    return "; ".join(reversed(said)) or None


def _names(files: tuple[str, ...]) -> set[str]:
    return {Path(file).name for file in files}


def _lineage(name: str) -> dict[str, _Origin]:
    """The agent, whom it began as, whom that one began as, ...; of whom is gone nothing is known.

    Raises:
        ValueError, PermissionError, ConnectionError: as `card_of`, of the agent itself.
    """
    lineage = {name: _origin(name)}
    start = lineage[name].start
    while start is not None and start not in lineage:
        lineage[start] = _origin_if_there(start)
        start = lineage[start].start
    return lineage


def _origin_if_there(name: str) -> _Origin:
    try:
        return _origin(name)
    except (ValueError, OSError):
        return _Origin()


def _origin(name: str) -> _Origin:
    if card := card_of(name):
        command, data = card.get("command", ""), card.get("data", NOT_NOTED)
        return _Origin(
            met=tuple(card.get("met", ())),
            learnt=tuple(_files_after("data", command)),
            chosen=tuple(_files_after("val", command)),
            data=None if data == NOT_NOTED else data,
        )
    if clone_of := _clone_of(name):
        return _origin_if_there(clone_of)
    algorithm, config = _config(name)
    # the settings to train a clone are not read where one was given
    clone = {} if config.get("bc_policy") else config.get("bc") or config
    starts = (config.get(key) for key in ("start_from", "previous", "bc_policy"))
    return _Origin(
        start=next(filter(None, starts), clone.get("start_from")),
        beside=algorithm == "br_bc",
        met=tuple(spread_names(config.get("partners", ()))),
        learnt=tuple(map(str, clone.get("data", ()))),
        chosen=tuple(map(str, clone.get("val", ()))),
    )


def _files_after(flag: str, command: str) -> list[str]:
    """The arguments of --data (or --bc.data) in the commands of a card."""
    files, taking = [], False
    text = command.replace(";", " - ")  # one ends there
    try:
        words = shlex.split(text)
    except ValueError:  # an apostrophe in what somebody wrote
        words = text.split()
    for word in words:
        if word.startswith("-"):
            name, equals, file = word.partition("=")
            named = name.removeprefix("--").removeprefix("bc.") == flag
            files += [file] if named and equals else []
            taking = named and not equals
        elif taking:
            files.append(word)
    return files


def card_of(name: str) -> dict[str, Any]:
    """The model card of an agent; empty where it has none, as bots and the policies of a run.

    Raises:
        ValueError: there is no such agent, or its file is damaged.
    """
    parsed = parse_name(name)
    if parsed.source == SHIPPED:
        return read_card(shipped_file(parsed.plain))
    if parsed.source == HUB:
        return hub_card(parsed.plain)
    if parsed.source:
        return {}
    place = Path(parsed.place)
    inside = (place / FILE, place / "policy" / FILE)  # of a folder
    files = [place] if place.suffix == SUFFIX else [file for file in inside if file.exists()]
    return read_card(files[0]) if files else {}  # empty of a run's own


def known_of(name: str, policy: NetworkPolicy) -> dict[str, Any]:
    """What is known of a trained agent without its card and without playing, by the keys that a
    card has; its data are the files of those it began as, too. Raises as `trained_with`."""
    files = [file for origin in _lineage(name).values() for file in origin.learnt]
    return {
        "players": policy.rules.num_players,
        "algorithm": policy.info.algorithm,
        "tier": getattr(policy.network, "level", policy.network.kind),
        "data": ", ".join(dict.fromkeys(files)) or NOT_NOTED,
        "met": list(trained_with(name)),
        "steps": policy.info.steps,
        "unit": policy.info.unit,
    }


def _clone_of(name: str) -> str | None:
    """The clone that a run keeps as `REFERENCE`, where that is what is named: the one it was given,
    else its own."""
    parsed = parse_name(name)
    if parsed.source:
        return None
    place = Path(parsed.place).resolve()
    folder = place if place.name == REFERENCE else place.parent  # of the policy's file
    found = run_config(folder.parent) if folder.name == REFERENCE else None
    return None if found is None else found[1].get("bc_policy") or str(folder.parent / "bc")


def _config(name: str) -> tuple[str | None, dict[str, Any]]:
    """The algorithm and the config of the run that an agent is of; empty where it is of none."""
    parsed = parse_name(name)
    if parsed.source:
        return None, {}
    place = Path(parsed.place)
    for folder in (place, *place.resolve().parents[:2]):
        if (found := run_config(folder)) is not None:
            return found
    return None, {}
