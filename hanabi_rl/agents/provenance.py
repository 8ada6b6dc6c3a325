"""Where an agent comes from, as far as its card (of one that ships or was exported) or its run's
config says: as whom it began, with whom and from which games it learnt."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, NamedTuple

from hanabi_rl.agents.hub import hub_card
from hanabi_rl.agents.loading import (
    BUNDLED,
    HUB,
    current_name,
    expand_seed_ranges,
    parse_name,
)
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_file import SUFFIX, bundled_path, read_card
from hanabi_rl.agents.policy_folder import CLONE_FOLDER, FILE, run_config

NOT_RECORDED = "not noted"
"""What a card says of the data where nobody told `hanabi-rl export`."""


class _Origin(NamedTuple):
    """What a card or a config says of one agent alone."""

    init_from: str | None = None
    """As whom it began; a card does not say. Of BR-BC whom its clone began as, or the clone."""
    is_br_bc: bool = False
    """Whether it is BR-BC, which began as nobody and met its clone."""
    partners: tuple[str, ...] = ()
    train_files: tuple[str, ...] = ()
    """Files of games."""
    val_files: tuple[str, ...] = ()
    """Files of games by which an epoch was chosen."""
    data: str | None = None
    """What it learnt from, in the words of its card."""

    def may_have_trained_on(self, file: Path) -> bool:
        """Whether it may have, by what is noted; as whom it began aside."""
        if file.name in _names(self.train_files) or file.name in _names(self.val_files):
            return file.name in _names(self.train_files)
        if self.data is not None:
            return not self.data.startswith("none")
        return not self.train_files and self.init_from is None

    def describe(self, file: Path, deny: bool) -> str | None:
        """What it and a file are to each other; None where nothing is noted. `deny`: nobody it
        began as may have learnt from the file, so it may be said that it did not."""
        if file.name in _names(self.train_files):
            return f"learnt from {file.name} itself, so that its prediction flatters it"
        if file.name in _names(self.val_files):
            by = f"did not learn from {file.name}, by which an epoch was chosen"
            return by if deny else f"had an epoch chosen by {file.name}"
        if self.data is not None and self.data.startswith("none"):
            return "learnt from no recorded games, as far as its card says"
        if self.data is not None:
            return f"learnt from {self.data}; whether {file.name} is of them its card does not say"
        if self.train_files:
            words = f"learnt from {', '.join(self.train_files)}"
            return f"{words}, not from {file.name} by its name" if deny else words
        return None


def training_partners(name: str) -> tuple[str, ...]:
    """Whom an agent met in training: its partners, the agent that it began as (`--init-from`, the
    clone of HDR-IPPO, the level below of OBL), and whom that one met; of BR-BC its clone, and as
    whom that began. Each once."""
    partner_names, itself = list[str](), True
    for origin in _lineage(name).values():
        partner_names += origin.partners if itself else ()
        partner_names += [origin.init_from] if origin.init_from is not None else []
        itself &= not origin.is_br_bc
    return tuple(dict.fromkeys(partner_names))


def describe_data_overlap(name: str, file: Path) -> str | None:
    """What is known of an agent, those it began as and a file of games, in a few words; None where
    nothing is, as of a bot. Files are told by their names."""
    deny, lineage = True, _lineage(name)
    origins = [*lineage.values()]
    phrases: list[str] = []
    for age, (agent, origin) in reversed([*enumerate(lineage.items())]):
        phrase = words = origin.describe(file, deny)
        if age > 0:
            unknown = ", whose data is not noted" if origin.init_from is None else ""
            which = unknown if words is None else f", which {words}"
            if origins[age - 1].is_br_bc:
                began = f"{'its' if age == 1 else 'the'} clone is, or began as,"
            else:
                began = f"{'began' if age == 1 else 'that one began'} as"
            phrase = f"{began} {agent}{which}"
        if file.name in _names(origin.train_files):  # that settles it, whoever went before
            phrases = []
        phrases += [phrase] if phrase else []
        deny = deny and not origin.may_have_trained_on(file)
    return "; ".join(reversed(phrases)) or None


def _names(files: tuple[str, ...]) -> set[str]:
    return {Path(file).name for file in files}


def _lineage(name: str) -> dict[str, _Origin]:
    """The agent, whom it began as, whom that one began as, ...; of whom is gone nothing is known.

    Raises:
        ValueError, PermissionError, ConnectionError: as `read_model_card`, of the agent itself.
    """
    lineage = {name: _origin(name)}
    start = lineage[name].init_from
    while start is not None and start not in lineage:
        lineage[start] = _origin_if_there(start)
        start = lineage[start].init_from
    return lineage


def _origin_if_there(name: str) -> _Origin:
    try:
        return _origin(name)
    except (ValueError, OSError):
        return _Origin()


def _origin(name: str) -> _Origin:
    if card := read_model_card(name):
        command, data = card.get("command", ""), card.get("data", NOT_RECORDED)
        return _Origin(
            partners=tuple(map(current_name, card.get("training_partners", ()))),
            train_files=tuple(_files_after("data", command)),
            val_files=tuple(_files_after("val", command)),
            data=None if data == NOT_RECORDED else data,
        )
    if clone_of := _clone_of(name):
        return _origin_if_there(clone_of)
    algorithm, config = _config(name)
    # the settings to train a clone are not read where one was given
    clone = {} if config.get("bc_policy") else config.get("bc") or config
    starts = (config.get(key) for key in ("init_from", "previous_level", "bc_policy"))
    init_from = next(filter(None, starts), clone.get("init_from"))
    return _Origin(
        init_from=init_from and current_name(init_from),
        is_br_bc=algorithm == "br_bc",
        partners=tuple(map(current_name, expand_seed_ranges(config.get("partners", ())))),
        train_files=tuple(map(str, clone.get("data", ()))),
        val_files=tuple(map(str, clone.get("val", ()))),
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


def read_model_card(name: str) -> dict[str, Any]:
    """The model card of an agent; empty where it has none, as bots and the policies of a run.

    Raises:
        ValueError: there is no such agent, or its file is damaged.
    """
    parsed = parse_name(name)
    if parsed.scheme == BUNDLED:
        return read_card(bundled_path(parsed.without_options))
    if parsed.scheme == HUB:
        return hub_card(parsed.without_options)
    if parsed.scheme:
        return {}
    place = Path(parsed.path)
    inside = (place / FILE, place / "policy" / FILE)  # of a folder
    files = [place] if place.suffix == SUFFIX else [file for file in inside if file.exists()]
    return read_card(files[0]) if files else {}  # empty of a run's own


def run_metadata(name: str, policy: NetworkPolicy) -> dict[str, Any]:
    """What is known of a trained agent without its card and without playing, by the keys that a
    card has; its data are the files of those it began as, too. Raises as `training_partners`."""
    files = [file for origin in _lineage(name).values() for file in origin.train_files]
    return {
        "players": policy.rules.num_players,
        "algorithm": policy.info.algorithm,
        "features": getattr(policy.network, "features", policy.network.kind),
        "data": ", ".join(dict.fromkeys(files)) or NOT_RECORDED,
        "training_partners": list(training_partners(name)),
        "steps": policy.info.steps,
        "unit": policy.info.unit,
    }


def _clone_of(name: str) -> str | None:
    """The clone that a run keeps as `CLONE_FOLDER`, where that is what is named: the one it was
    given, else its own."""
    parsed = parse_name(name)
    if parsed.scheme:
        return None
    place = Path(parsed.path).resolve()
    folder = place if place.name == CLONE_FOLDER else place.parent  # of the policy's file
    found = run_config(folder.parent) if folder.name == CLONE_FOLDER else None
    return None if found is None else found[1].get("bc_policy") or str(folder.parent / "bc")


def _config(name: str) -> tuple[str | None, dict[str, Any]]:
    """The algorithm and the config of the run that an agent is of; empty where it is of none."""
    parsed = parse_name(name)
    if parsed.scheme:
        return None, {}
    place = Path(parsed.path)
    for folder in (place, *place.resolve().parents[:2]):
        if (found := run_config(folder)) is not None:
            return found
    return None, {}
