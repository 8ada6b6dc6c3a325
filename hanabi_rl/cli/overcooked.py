"""`hanabi-rl data ...`, `replay` and `play` for games of Overcooked."""

from __future__ import annotations

import dataclasses
import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hanabi_rl.storage.files import home_path
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.games.overcooked.recorded_games import RecordedGames


def is_source(source: str | Path) -> bool:
    """True for games of Overcooked: a file of them, or where humans' games can be read from."""
    path = home_path(source)
    if not path.exists():
        return False
    from hanabi_rl.games.overcooked.human_games import is_human_games_source
    from hanabi_rl.games.overcooked.recorded_games import is_overcooked_file

    return is_overcooked_file(path) or is_human_games_source(path)


def _read(source: str | Path) -> RecordedGames:
    """The games, every one replayed."""
    from hanabi_rl.games.overcooked.human_games import read_human_games
    from hanabi_rl.games.overcooked.recorded_games import is_overcooked_file, load_recorded_games

    path = home_path(source)
    return load_recorded_games(path) if is_overcooked_file(path) else read_human_games(path)


def print_info(sources: Sequence[str], json: bool) -> None:
    """Validate games and print the statistics of each kitchen."""
    from hanabi_rl.games.overcooked.recorded_games import describe_statistics, game_statistics

    for source in sources:
        if not is_source(source):
            raise ValueError(f"{source}: expected games of Overcooked, as the other sources are")
        games = _read(source)
        rows = game_statistics(games)
        if json:
            record = {"file": source, "kitchens": [dataclasses.asdict(row) for row in rows]}
            print(json_format.dumps(record))
        else:
            print(f"{source}: {_replayed(games)}\n{describe_statistics(rows)}")


def convert(source: str, target: Path) -> None:
    """Write games as .safetensors and read them back."""
    from hanabi_rl.games.overcooked.recorded_games import load_recorded_games, save_recorded_games

    if target.suffix != ".safetensors":
        raise ValueError(f"target: expected a file ending in .safetensors, got {target}")
    save_recorded_games(target, _read(source))
    print(f"{target}: {_replayed(load_recorded_games(target))}")


def split(file: Path, fractions: tuple[float, ...], seed: int, out: Path) -> None:
    """Divide a file of games by pair of players."""
    from hanabi_rl.data.split import part_names
    from hanabi_rl.games.overcooked.recorded_games import save_recorded_games, split_by_pair

    if not fractions:
        raise ValueError("--fractions: expected fractions of the pairs of players, got none")
    parts = split_by_pair(_read(file), fractions, seed)
    for name, part in zip(part_names(len(parts)), parts, strict=True):
        path = out / f"{file.name.split('.')[0]}_{name}.safetensors"
        save_recorded_games(path, part)
        print(f"{path}: {count(len(part), 'game')} of {count(len(set(part.pairs)), 'pair')}")


def print_replay(source: str | Path, game: int, step: int | None) -> None:
    """Print one game as text, every step or one."""
    from hanabi_rl.games.overcooked.recorded_games import replay_games
    from hanabi_rl.games.overcooked.render import render_text
    from hanabi_rl.games.overcooked.transitions import ACTION_NAMES

    games = _one_game(source, game)
    kitchen, states = games.kitchen_of(0), replay_games(games)[0].states
    length = int(games.lengths[0])
    if step is not None and not 1 <= step <= length + 1:
        raise ValueError(f"--turn: expected 1 to {length + 1}, got {step}")
    for number in range(length + 1) if step is None else [step - 1]:
        print(render_text(kitchen, states, number))
        if number < length:
            first, second = games.actions[number].tolist()
            print(f"player 0: {ACTION_NAMES[first]}, player 1: {ACTION_NAMES[second]}\n")


def replay_app(source: str | Path, game: int) -> Starlette:
    """Page of the replays of a file."""
    from hanabi_rl.people.serve.overcooked.play import games_in
    from hanabi_rl.people.serve.overcooked.web import make_app

    games = _read(source)
    _check_game(len(games), game)
    return make_app(games_in(games), num_games=len(games))


def kitchen_app(
    agent: Policy,
    name: str,
    out: Path,
    *,
    seat: int | None,
    seed: int | None,
    steps_per_s: float | None,
    horizon: int | None,
) -> Starlette:
    """Page of games with an agent."""
    from hanabi_rl.people.serve.overcooked.play import KitchenPlay
    from hanabi_rl.people.serve.overcooked.web import make_app

    play = KitchenPlay(
        agent,
        name,
        out,
        seat=seat,
        seed=seed,
        horizon=horizon,
        steps_per_s=6.67 if steps_per_s is None else steps_per_s,
    )
    return make_app(play.find, play)


def _one_game(source: str | Path, game: int) -> RecordedGames:
    games = _read(source)
    _check_game(len(games), game)
    return games.select([game])


def _check_game(num_games: int, game: int) -> None:
    if not 0 <= game < num_games:
        raise ValueError(f"expected --game in 0..{num_games - 1}, got {game}")


def _replayed(games: RecordedGames) -> str:
    steps = count(int(games.lengths.sum()), "step")
    return f"{count(len(games), 'game')}, {steps}; every game replayed to its score"
