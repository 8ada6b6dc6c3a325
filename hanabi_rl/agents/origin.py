"""Where an agent comes from, as far as its card (of one that ships or was exported) or its run's
config says: with whom, and from which games it learnt."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from hanabi_rl.agents.hub import hub_card
from hanabi_rl.agents.names import HUB, SHIPPED, parse_name, spread_names
from hanabi_rl.agents.one_file import SUFFIX, read_card, shipped
from hanabi_rl.storage.files import read_json

NOT_NOTED = "not noted"
"""What a card says of the data where nobody told `hanabi-rl export`."""


def trained_with(name: str) -> tuple[str, ...]:
    """The partners that an agent was trained with."""
    card, config = _card_and_config(name)
    return tuple(card["met"]) if "met" in card else tuple(spread_names(config.get("partners", ())))


def acquaintance(name: str, file: Path) -> str | None:
    """What is known of an agent and a file of games, in a few words; None where nothing is, as of a
    bot. Files are told by their names."""
    card, config = _card_and_config(name)
    clone = config.get("bc") or config
    learnt = [*clone.get("data", ()), *_files_after("data", card.get("command", ""))]
    chosen = [*clone.get("val", ()), *_files_after("val", card.get("command", ""))]
    if file.name in {Path(path).name for path in learnt}:
        return f"learnt from {file.name} itself, so that its prediction flatters it"
    if file.name in {Path(path).name for path in chosen}:
        return f"did not learn from {file.name}, by which an epoch was chosen"
    if card.get("data", "").startswith("none"):
        return "learnt from no recorded games, as far as its card says"
    if card.get("data", NOT_NOTED) != NOT_NOTED:
        return f"learnt from {card['data']}; whether {file.name} is of them its card does not say"
    if learnt:
        return f"learnt from {', '.join(map(str, learnt))}, not from {file.name} by its name"
    return None


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
            taking = word.removeprefix("--").removeprefix("bc.") == flag
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
        return read_card(shipped()[parsed.place])
    if parsed.source == HUB:
        return hub_card(parsed.plain)
    if parsed.source or Path(parsed.place).suffix != SUFFIX:
        return {}
    return read_card(Path(parsed.place))  # empty of a run's own


def _card_and_config(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of an agent by any of its names; empty where there is none."""
    if card := card_of(name):
        return card, {}
    parsed = parse_name(name)
    if parsed.source:
        return {}, {}
    place = Path(parsed.place)
    for folder in (place, *place.resolve().parents[:2]):
        if (config := _run_config(folder)) is not None:
            return {}, config
    return {}, {}


def _run_config(folder: Path) -> dict[str, Any] | None:
    """The config of a run's folder; None of another, where a config.json may be of any program."""
    try:
        record = read_json(folder / "config.json")
    except (OSError, ValueError):
        return None
    config = record.get("config") if isinstance(record, dict) else None
    return config if isinstance(config, dict) else None
