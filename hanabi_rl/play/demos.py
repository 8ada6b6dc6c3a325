"""Games of agents with themselves or each other, generated once, then cached: what is cloned where
no data is at hand."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import Policy, runs_search
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import GameDataError, Games, concatenate_games, pad_moves
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import Purpose, evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.storage.compilation_cache import cache_folder
from hanabi_rl.storage.words import count

FORMAT_VERSION = 2  # of the games in the cache: 1 did not say who sat where
_PARTNER_MODELS = re.compile(r"[?&]partner_model=[^&]*")
SAVE_EVERY = 64
"""Games, of somebody who searches: seconds each, so what there is of them is kept on the way."""


def demo_games(
    rules: Rules,
    bot: str = "convention",
    num_games: int = 1000,
    seed: int = 0,
    purpose: Purpose = "demos",
) -> Games:
    """`num_games` games of `bot` (see `demonstrators`), from the cache where it has them; where
    nothing can be written there a warning says so.

    `purpose="demos"` for games to learn from, another one for games that what has learnt is tried
    on: their decks never coincide.

    Raises ValueError for an unknown agent or fewer than one game.
    """
    path = demo_path(rules, bot, num_games, seed, purpose)
    if (cached := _cached(path)) is not None:
        return cached
    slow = any(map(runs_search, demonstrators(rules, bot)))
    unfinished = path.with_suffix(".unfinished.safetensors")
    games = _cached(unfinished)
    while games is None or len(games) < num_games:
        first = 0 if games is None else len(games)
        last = min(first + SAVE_EVERY, num_games) if slow else num_games
        more = generate(rules, bot, last, seed, purpose, first)
        games = more if games is None else _joined(games, more)
        if last < num_games and _keep(unfinished, games):
            print(
                f"{last:,} of {count(num_games, 'game')}: {unfinished}", file=sys.stderr, flush=True
            )
    if _keep(path, games):
        unfinished.unlink(missing_ok=True)
    return games


def _keep(path: Path, games: Games) -> bool:
    """Writes games to the cache, where anything can be written; whether it could."""
    try:
        save_games(path, games)
    except OSError as error:
        warnings.warn(f"the games could not be kept, only used: {error}", stacklevel=3)
        return False
    return True


def _joined(games: Games, more: Games) -> Games:
    """The first games and those after them, of the same agents."""
    players = np.concatenate([games.players, more.players])
    return dataclasses.replace(concatenate_games([games, more]), players=players)


def _cached(path: Path) -> Games | None:
    """The games of a file of the cache, where it is there and whole."""
    if not path.exists():
        return None
    try:
        return load_games(path)
    except GameDataError as error:
        what = f"the cached games are damaged and are generated again: {error}"
        warnings.warn(what, stacklevel=3)
        return None


def demonstrators(rules: Rules, bot: str) -> tuple[Policy, ...]:
    """Who plays: one agent at every seat, or several.

    Args:
        rules: of the game.
        bot: a bot's name (`convention`, `simple`, ...) or that of any agent (`agent:NAME`, a
            folder); `A+B` for tables where they take turns around the seats, as `players_of`
            reads it.

    Raises:
        ValueError: there is no such agent, or there are more of them than seats.
    """
    names = players_of(bot)
    if len(names) > rules.num_players:
        raise ValueError(f"{bot}: expected at most {rules.num_players} agents, got {len(names)}")
    chosen = [load_policy(agent_name(name), rules) for name in names]
    return tuple(chosen[seat % len(chosen)] for seat in range(rules.num_players))


def players_of(bot: str) -> list[str]:
    """The names in `A+B`. What follows `partner_model=` (of `?search=`) up to the next `&` is the
    value of that option, as `load_policy` reads it: `A?search=fast&partner_model=B+C` is one player
    that models the others as B or C. With C at the table it is `C+A?search=fast&partner_model=B`.
    """
    hidden = _PARTNER_MODELS.sub(lambda found: found[0].replace("+", "\0"), bot)
    return [name.replace("\0", "+") for name in hidden.split("+")]


def agent_name(name: str) -> str:
    """`name` as `load_policy` takes it: a bot's may come without `bot:`."""
    return name if ":" in name or Path(name).exists() else f"bot:{name}"


def file_stem(bot: str) -> str:
    """Who plays, as a part of a file's name."""
    return "".join(c if c.isalnum() or c in "-+." else "_" for c in bot)


def demo_path(
    rules: Rules, bot: str, num_games: int, seed: int, purpose: Purpose = "demos"
) -> Path:
    """Where the cache keeps these games: a folder a purpose, and a name by players, games, seed,
    and a hash of the rules and of who plays."""
    who = [policy.identity() for policy in demonstrators(rules, bot)]
    content = json.dumps([dataclasses.asdict(rules), who, FORMAT_VERSION], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    name = f"{file_stem(bot)[-40:]}-{rules.num_players}p-{num_games}-s{seed}-{digest}.safetensors"
    return cache_folder() / purpose / name


def generate(
    rules: Rules,
    bot: str,
    num_games: int,
    seed: int,
    purpose: Purpose = "demos",
    first: int = 0,
) -> Games:
    """Play the games, cached or not, or those of them from number `first` on. Decks depend on the
    seed alone, and a longer list begins with the shorter one. Several agents move on by one seat
    from game to game; the games say who sat where."""
    decks = evaluation_decks(rules, num_games, seed, purpose)[first:]
    players, number = rules.num_players, np.arange(first, num_games)
    seating = (np.arange(players) + number[:, None]) % players
    games = play_games(
        demonstrators(rules, bot), rules, decks, seed, seating=seating, game_index=number
    )
    games = dataclasses.replace(games, game_ids=number.astype(np.int32))
    moves = [games.moves(game) for game in range(len(games))]
    who = np.empty_like(seating)  # the position of a seat's agent in the line-up, then its number
    np.put_along_axis(who, seating, np.arange(players)[None], axis=1)
    who = (who % len(players_of(bot))).astype(np.int32)
    return dataclasses.replace(games, actions=pad_moves(rules, moves), players=who)
