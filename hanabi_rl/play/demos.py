"""Games of our own bots with themselves, generated once, then cached: what is cloned where no data
is at hand."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import warnings
from pathlib import Path

import platformdirs

from hanabi_rl.agents.bots.registry import bot_version, make_bot
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import GameDataError, Games, pad_moves
from hanabi_rl.env.game import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games


def demo_games(
    rules: Rules, bot: str = "convention", num_games: int = 1000, seed: int = 0
) -> Games:
    """`num_games` games of `bot:<bot>` with itself, from the cache where it has them.

    Raises ValueError for an unknown bot or fewer than one game.
    """
    path = demo_path(rules, bot, num_games, seed)
    if path.exists():
        try:
            return load_games(path)
        except GameDataError as error:
            warnings.warn(
                f"the cached games are damaged and are generated again: {error}", stacklevel=2
            )
    games = generate(rules, bot, num_games, seed)
    save_games(path, games)
    return games


def demo_path(rules: Rules, bot: str, num_games: int, seed: int) -> Path:
    """Where the cache keeps these games, by bot, its version, players, games, seed and a hash of
    the rules."""
    as_json = json.dumps(dataclasses.asdict(rules), sort_keys=True)
    rules_hash = hashlib.sha256(as_json.encode()).hexdigest()[:8]
    name = f"{bot_version(bot)}-{rules.num_players}p-{num_games}-s{seed}-{rules_hash}.safetensors"
    return cache_folder() / "demos" / name


def cache_folder() -> Path:
    """`$HANABI_RL_CACHE`, else the user's cache folder for hanabi-rl."""
    chosen = os.environ.get("HANABI_RL_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("hanabi-rl", appauthor=False)


def generate(rules: Rules, bot: str, num_games: int, seed: int) -> Games:
    """Play the games, cached or not. Decks depend on the seed alone, and a longer list begins with
    the shorter one."""
    decks = evaluation_decks(rules, num_games, seed, "demos")
    line_up = (make_bot(bot, rules),) * rules.num_players
    games = play_games(line_up, rules, decks, seed)
    moves = [games.moves(game) for game in range(num_games)]
    return dataclasses.replace(games, actions=pad_moves(rules, moves))
