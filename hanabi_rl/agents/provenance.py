"""Provenance of an agent, from its model card or run config: initial policy, partners and games."""

import shlex
from pathlib import Path
from typing import Any, NamedTuple

from hanabi_rl.agents.hub import hub_card
from hanabi_rl.agents.loading import BUNDLED, HUB, expand_seed_ranges, parse_name
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_file import SUFFIX, bundled_path, read_card
from hanabi_rl.agents.policy_folder import CLONE_FOLDER, FILE, run_config
from hanabi_rl.games.registry import game_to_text
from hanabi_rl.storage.renamed_fields import current_name

NOT_RECORDED = "not recorded"
"""Value of a card's `data` if `hanabi-rl export` got none."""


class _Origin(NamedTuple):
    """Provenance that a card or a config records for one agent."""

    init_from: str | None = None
    """Initial policy, if recorded (not on cards); for BR-BC, that of its clone, or the clone."""
    is_br_bc: bool = False
    """BR-BC: not initialised from its clone, but trained with it."""
    partners: tuple[str, ...] = ()
    train_files: tuple[str, ...] = ()
    """Files of training games."""
    val_files: tuple[str, ...] = ()
    """Files of games that selected an epoch."""
    data: str | None = None
    """Training data, in the words of the card."""

    def may_have_trained_on(self, file: Path) -> bool:
        """True if the agent, its initial policy aside, may have trained on the file."""
        if file.name in _names(self.train_files) or file.name in _names(self.val_files):
            return file.name in _names(self.train_files)
        if self.data is not None:
            return not self.data.startswith("none")
        return not self.train_files and self.init_from is None

    def describe(self, file: Path, deny: bool) -> str | None:
        """Relation to a file, None if unknown; `deny`: no ancestor may have trained on it."""
        if file.name in _names(self.train_files):
            return f"trained on {file.name}, so its predictions there are optimistic"
        if file.name in _names(self.val_files):
            selected = f"selected an epoch on {file.name}"
            return f"{selected}, not trained on it" if deny else selected
        if self.data is not None and self.data.startswith("none"):
            return "trained on no recorded games, according to its card"
        if self.data is not None:
            return f"trained on {self.data}; its card does not say if that includes {file.name}"
        if self.train_files:
            words = f"trained on {', '.join(self.train_files)}"
            return f"{words}, not on {file.name} (by name)" if deny else words
        return None


def training_partners(name: str) -> tuple[str, ...]:
    """Agents that an agent was trained with, without duplicates.

    They are its partners, its initial policies (`--init-from`, the clone of HDR-IPPO, the previous
    level of OBL) and their partners; for BR-BC its clone and the clone's initial policies.
    """
    partner_names, itself = list[str](), True
    for origin in _lineage(name).values():
        partner_names += origin.partners if itself else ()
        partner_names += [origin.init_from] if origin.init_from is not None else []
        itself &= not origin.is_br_bc
    return tuple(dict.fromkeys(partner_names))


def describe_data_overlap(name: str, file: Path) -> str | None:
    """Describe whether an agent or ancestor trained on a file (by name); None if unknown."""
    deny, lineage = True, _lineage(name)
    origins = [*lineage.values()]
    phrases: list[str] = []
    for age, (agent, origin) in reversed([*enumerate(lineage.items())]):
        phrase = words = origin.describe(file, deny)
        if age > 0:
            unknown = ", with unrecorded data" if origin.init_from is None else ""
            which = unknown if words is None else f", which {words}"
            if origins[age - 1].is_br_bc:
                began = f"{'its' if age == 1 else 'the'} clone is, or was initialised from,"
            else:
                began = f"{'' if age == 1 else 'that agent was '}initialised from"
            phrase = f"{began} {agent}{which}"
        if file.name in _names(origin.train_files):  # conclusive, whatever the ancestors
            phrases = []
        phrases += [phrase] if phrase else []
        deny = deny and not origin.may_have_trained_on(file)
    return "; ".join(reversed(phrases)) or None


def _names(files: tuple[str, ...]) -> set[str]:
    return {Path(file).name for file in files}


def _lineage(name: str) -> dict[str, _Origin]:
    """Origins of the agent, its initial policy, the initial policy of that, ...

    Unreadable ancestors have an empty origin. Raises as `read_model_card` for the agent itself.
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
    # the clone's training settings do not apply if a clone was given
    clone = {} if config.get("bc_policy") else config.get("bc") or config
    starts = (config.get(key) for key in ("init_from", "previous_level", "bc_policy"))
    init_from = next(filter(None, starts), clone.get("init_from"))
    return _Origin(
        init_from=init_from,
        is_br_bc=algorithm == "br_bc",
        partners=tuple(expand_seed_ranges(config.get("partners", ()))),
        train_files=tuple(map(str, clone.get("data", ()))),
        val_files=tuple(map(str, clone.get("val", ()))),
    )


def _files_after(flag: str, command: str) -> list[str]:
    """Arguments of --data (or --bc.data) in the commands of a card."""
    files, taking = [], False
    text = command.replace(";", " - ")  # a semicolon ends a command
    try:
        words = shlex.split(text)
    except ValueError:  # free text with an apostrophe
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
    """Model card of an agent; empty for bots and policies of a run.

    Raises ValueError if there is no such agent or its file is damaged.
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
    return read_card(files[0]) if files else {}  # empty for a run's policy


def run_metadata(name: str, policy: NetworkPolicy) -> dict[str, Any]:
    """Metadata of a trained agent without its card and without playing, by the keys of a card; its
    data include the files of its ancestors. Raises as `training_partners`."""
    files = [file for origin in _lineage(name).values() for file in origin.train_files]
    return {
        "game": game_to_text(policy.rules),
        "players": policy.rules.num_players,
        "algorithm": policy.info.algorithm,
        "features": getattr(policy.network, "features", policy.network.kind),
        "data": ", ".join(dict.fromkeys(files)) or NOT_RECORDED,
        "training_partners": list(training_partners(name)),
        "steps": policy.info.steps,
        "unit": policy.info.unit,
    }


def _clone_of(name: str) -> str | None:
    """Clone of the run if `name` is its `CLONE_FOLDER`: the given clone, or the one it trained."""
    parsed = parse_name(name)
    if parsed.scheme:
        return None
    place = Path(parsed.path).resolve()
    folder = place if place.name == CLONE_FOLDER else place.parent  # parent of the policy's file
    found = run_config(folder.parent) if folder.name == CLONE_FOLDER else None
    return None if found is None else found[1].get("bc_policy") or str(folder.parent / "bc")


def _config(name: str) -> tuple[str | None, dict[str, Any]]:
    """Algorithm and config of the agent's run; empty if it belongs to no run."""
    parsed = parse_name(name)
    if parsed.scheme:
        return None, {}
    place = Path(parsed.path)
    for folder in (place, *place.resolve().parents[:2]):
        if (found := run_config(folder)) is not None:
            return found
    return None, {}
