"""`hanabi-rl data ...` and `hanabi-rl replay`: functions with typed arguments for tyro.

Each imports what it needs when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import dataclasses
import json as json_format
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from hanabi_rl.cli.agents import File, Flag
from hanabi_rl.data.download import Split
from hanabi_rl.data.download import download as fetch
from hanabi_rl.storage.ranges import Count, Seed, Share

Source = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PATH|LINK")]
PART_NAMES = ("train", "val", "test")


def info(file: File, json: Flag = False) -> None:
    """Validate a file of games and print its statistics (scores and lengths as in AH2AC2's Table
    1).

    Args:
        file: .safetensors (AH2AC2), or .json or .jsonl (hanab.live).
        json: print one line of JSON.
    """
    from hanabi_rl.data.files import load_games
    from hanabi_rl.data.statistics import describe, statistics

    stats = statistics(load_games(file))
    print(
        json_format.dumps({"file": str(file), **dataclasses.asdict(stats)})
        if json
        else f"{file}: {describe(stats)}"
    )


def convert(source: File, target: File) -> None:
    """Write a file of games in another format and read it back.

    Args:
        source: .safetensors (AH2AC2), or .json or .jsonl (hanab.live).
        target: the file to write; its suffix says the format.
    """
    from hanabi_rl.data.files import load_games, save_games

    games = load_games(source)
    save_games(target, games)
    written = load_games(target)
    cut = int((written.num_actions < games.num_actions).sum())
    print(f"{target}: {len(games):,} games")
    if cut:
        changed = int((written.scores != games.scores).sum())
        print(
            f"{cut:,} of them now end where no more points could be reached, as on hanab.live; "
            f"{changed:,} had lost their last life after that and score more"
        )


def split(
    file: File,
    fractions: tuple[Share, ...] = (),
    sizes: tuple[Count, ...] = (),
    seed: Seed = 0,
    out: Path = Path(),
) -> None:
    """Divide a file of games at random into <name>_train, _val and _test; games of one deck stay in
    one part.

    Args:
        file: the games.
        fractions: the parts' shares, adding to 1.
        sizes: or the parts' games.
        seed: of the random choice.
        out: the folder to write to.
    """
    from hanabi_rl.data.files import load_games, save_games
    from hanabi_rl.data.split import split_games, split_games_by_size

    if bool(fractions) == bool(sizes):
        raise ValueError(f"expected either --fractions or --sizes, got {fractions} and {sizes}")
    games = load_games(file)
    parts = (
        split_games(games, fractions, seed)
        if fractions
        else split_games_by_size(games, sizes, seed)
    )
    names = (
        PART_NAMES
        if len(parts) <= len(PART_NAMES)
        else [f"part{number}" for number in range(1, len(parts) + 1)]
    )
    for name, part in zip(names, parts, strict=False):
        path = out / f"{file.stem}_{name}{file.suffix}"
        save_games(path, part)
        decks = len(np.unique(part.decks, axis=0))
        print(
            f"{path}: {len(part):,} games on {decks:,} decks, mean score {part.scores.mean():.2f}"
        )


def download(split: Split = "train", players: int = 2, dest: Path = Path("data")) -> None:
    """Fetch human games of AH2AC2 from the Hugging Face Hub and validate them.

    Args:
        split: train (1,000 games), val, or all.
        players: 2 or 3.
        dest: the folder to write to.
    """
    info(fetch(split, players, dest))


def demos(
    players: int = 2,
    games: Count = 1000,
    seed: Seed = 0,
    bot: str = "convention",
    out: Path | None = None,
) -> None:
    """Generate games of agents with themselves or each other, or take them from the cache.

    Args:
        players: 2 to 5.
        games: how many.
        seed: of the decks.
        bot: a bot (convention, simple, ...), any agent (agent:NAME, a folder), or A+B for tables
            where they take turns around the seats.
        out: the file to write (.safetensors, .json or .jsonl); without it the games are only
            cached.
    """
    from hanabi_rl.data.files import save_games
    from hanabi_rl.data.statistics import describe, statistics
    from hanabi_rl.env.game import Rules
    from hanabi_rl.play.demos import demo_games, demo_path

    rules = Rules(num_players=players)
    played = demo_games(rules, bot, games, seed)
    if out is not None:
        save_games(out, played)
    print(f"{out or demo_path(rules, bot, games, seed)}: {describe(statistics(played))}")


def replay_command(source: Source, game: int = 0, turn: int | None = None) -> None:
    """Print a recorded game turn by turn, and its hanab.live link.

    Args:
        source: .safetensors (AH2AC2), .json or .jsonl (hanab.live), or a replay link.
        game: which game of the file, from 0.
        turn: only this turn, from 1 (the deal).
    """
    from hanabi_rl.data.files import load_games
    from hanabi_rl.data.formats.hanab_live import LINK_PREFIX, decode_link, share_link
    from hanabi_rl.env.render import render_game

    if source.startswith(LINK_PREFIX):
        linked = decode_link(source)
        print(render_game(linked.rules, linked.deck, linked.actions.tolist(), turn))
        return
    games = load_games(Path(source))
    if not 0 <= game < len(games):
        raise ValueError(f"expected --game in 0..{len(games) - 1}, got {game}")
    deck, moves = games.decks[game], games.moves(game)
    print(render_game(games.rules, deck, moves, turn))
    try:
        print(f"\n{share_link(games.rules, deck, moves, turn or 1)}")
    except ValueError as error:  # a game the site does not have
        print(f"\nNo replay link: {error}", file=sys.stderr)


DATA_COMMANDS: dict[str, Callable[..., Any]] = {
    "info": info,
    "convert": convert,
    "split": split,
    "download": download,
    "demos": demos,
}
