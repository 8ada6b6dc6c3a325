"""The bots that come with the package, by name: `bot:random` and `bot:convention`."""

from __future__ import annotations

from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.agents.bots.convention import ConventionBot
from hanabi_rl.agents.bots.random import RandomBot
from hanabi_rl.env.game import Rules

BOTS: dict[str, type[Bot]] = {bot.name: bot for bot in (RandomBot, ConventionBot)}
"""Every bot; a new one is its class and its place in this line."""


def make_bot(name: str, rules: Rules) -> Bot:
    """The bot ``random`` or ``convention`` (with or without the prefix ``bot:``) for a game.

    Raises:
        ValueError: no bot of that name.
    """
    return _find(name)(rules)


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
