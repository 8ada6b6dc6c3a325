"""The bots that come with the package, by name: `bot:random`, `bot:convention`, those of O'Dwyer
and the rule lists."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, NamedTuple

from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.agents.bots.convention import ConventionBot
from hanabi_rl.agents.bots.odwyer import HolmesBot, SimpleBot, SmartBot, ValueBot
from hanabi_rl.agents.bots.random import RandomBot
from hanabi_rl.agents.bots.rule_lists import (
    Flawed,
    Iggi,
    Internal,
    LegalRandom,
    Outer,
    Piers,
    VanDenBergh,
)
from hanabi_rl.env.game import Rules

_ALL = (
    *(RandomBot, ConventionBot),
    *(SimpleBot, ValueBot, HolmesBot, SmartBot),
    *(Internal, Outer, Iggi, Piers, VanDenBergh, Flawed, LegalRandom),
)
BOTS: dict[str, type[Bot]] = {bot.name: bot for bot in _ALL}
"""Every bot; a new one is its class and its place in this list."""


class Parameter(NamedTuple):
    """A parameter of a bot."""

    type: Any
    default: Any


def make_bot(name: str, rules: Rules, **parameters: Any) -> Bot:
    """A bot for a game: `random` or `convention`, with or without the prefix `bot:`.

    Raises:
        ValueError: no bot of that name, or a parameter that it does not have or take.
    """
    known = bot_parameters(name)
    for key in parameters:
        if key not in known:
            raise ValueError(
                f"{name}: expected one of its parameters ({', '.join(known) or 'none'}), got "
                f"{key!r}"
            )
    try:
        return _find(name)(rules=rules, **parameters)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def bot_parameters(name: str) -> dict[str, Parameter]:
    """The parameters of a bot by name; raises ValueError as `make_bot`."""
    bot = _find(name)
    types = typing.get_type_hints(bot)
    return {
        field.name: Parameter(types[field.name], field.default)
        for field in dataclasses.fields(bot)
        if field.name != "rules"
    }


def bot_version(name: str) -> str:
    """``NAME-vVERSION``, which changes whenever the bot's play does; raises ValueError as
    `make_bot`."""
    return f"{name.removeprefix('bot:')}-v{_find(name).version}"


def _find(name: str) -> type[Bot]:
    bot = BOTS.get(name.removeprefix("bot:"))
    if bot is None:
        raise ValueError(
            f"the name of a bot must be one of {', '.join(f'bot:{known}' for known in BOTS)}, got "
            f"{name!r}"
        )
    return bot
