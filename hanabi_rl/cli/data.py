"""`hanabi-rl data ...` and `hanabi-rl replay`: functions with typed arguments for tyro.

Each imports what it needs when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import dataclasses
import json as json_format
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli import overcooked
from hanabi_rl.cli.agents import File, Flag
from hanabi_rl.data.download import Split
from hanabi_rl.data.download import download as fetch
from hanabi_rl.data.seeds import MAX_NUMBER
from hanabi_rl.storage.validation import BoundedCount, Seed, UnitInterval
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games
    from hanabi_rl.data.seeds import SiteSeed
    from hanabi_rl.games.hanabi.rules import Rules

Source = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PATH|LINK")]
Sources = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PATH|LINK [PATH|LINK ...]")
]
PART_NAMES = ("train", "val", "test")
MOST_REASONS = 5  # shown, of games that are left out


def info(
    sources: Sources,
    skip_bad: Flag = False,
    seeds: Flag = False,
    max_seed: BoundedCount = MAX_NUMBER,
    json: Flag = False,
) -> None:
    """Validate games and print their statistics (scores and lengths as in AH2AC2's Table 1), and
    how many of their decks are deals of hanab.live, one file after the other.

    Args:
        sources: .safetensors (AH2AC2), .json or .jsonl (hanab.live), replay links, or games of
            Overcooked as for `convert`.
        skip_bad: leave out, and count, the games that are not what they should be (another variant,
            no move, another number of players than most), instead of refusing the file.
        seeds: list each game's seed on hanab.live and the site's seat that began (0: the first).
        max_seed: highest number of a seed that is compared (300000 takes seconds); seeds named in
            hanab.live's exports are compared in any case.
        json: print one line of JSON for each file, with all seeds.
    """
    from hanabi_rl.data.seeds import describe_seeds
    from hanabi_rl.data.statistics import describe, statistics
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.intervals import explained
    from hanabi_rl.evaluation.measure.registry import efficiency_figures
    from hanabi_rl.evaluation.reporting.measures import efficiency_line
    from hanabi_rl.storage.files import to_json

    if not sources:
        raise ValueError("PATH|LINK: expected at least one file or link, got none")
    if any(map(overcooked.is_source, sources)):
        overcooked.print_info(sources, json)
        return
    read = [(source, *_read(source, skip_bad)) for source in sources]
    for source, games, skipped in read:
        if not len(games):
            raise ValueError(f"{source}: expected at least one game, got none")
        stats, found = statistics(games), _find_seeds(games, max_seed)
        efficiency = efficiency_figures(GameAnalysis(games))
        if json:
            left_out = {"skipped": skipped.total(), "skipped_endings": skipped}
            rows = [
                {"game_id": game_id, "seed": seed.name, "rotation": seed.rotation}
                for game_id, seed in zip(games.game_ids.tolist(), found, strict=True)
                if seed is not None
            ]
            record = {"file": source, **dataclasses.asdict(stats), **left_out}
            print(json_format.dumps(record | to_json(efficiency) | {"seeds": rows}))
            continue
        print(explained(f"{source}: {describe(stats)}\n{efficiency_line(efficiency, games.rules)}"))
        if seeds or any(found):
            print(describe_seeds(games, found, listed=seeds))


def _find_seeds(games: Games, max_seed: int) -> list[SiteSeed | None]:
    from hanabi_rl.data.seeds import find_seeds
    from hanabi_rl.runs.progress import SOON_S, Progress

    with Progress("seeds", total=max_seed, unit="deals", quiet_s=SOON_S) as progress:
        return find_seeds(games, max_seed, progress.update)


def _read(source: str | Path, skip_bad: bool) -> tuple[Games, Counter[str]]:
    """The games of a file or a link, and how those left out ended; stderr gets the reasons."""
    from hanabi_rl.data.files import load_games
    from hanabi_rl.data.games import GameDataError, raise_invalid

    bad: list[GameDataError] = []
    on_bad = bad.append if skip_bad else raise_invalid
    try:
        games = load_games(source, on_bad=on_bad, on_change=_say)
    except GameDataError as error:
        if error.game is None or skip_bad:
            raise
        raise ValueError(f"{error} (--skip-bad leaves such games out)") from error
    for reason in bad[:MOST_REASONS]:
        _say(f"left out: {reason}")
    if len(bad) > MOST_REASONS:
        _say(f"... and {len(bad) - MOST_REASONS:,} more")
    ends = Counter(error.ended or "unknown" for error in bad)
    if bad:  # leaving out lost games alone would raise every mean
        counts = ", ".join(f"{number:,} {end}" for end, number in ends.most_common())
        total = count(len(bad) + len(games), "game")
        _say(f"{source}: {len(bad):,} of {total} left out; how they ended: {counts}")
    return games, ends


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def convert(source: Source, target: File, skip_bad: Flag = False) -> None:
    """Write games in another format and read them back.

    Args:
        source: .safetensors (AH2AC2), .json or .jsonl (hanab.live), or a replay link. Overcooked:
            .safetensors, or overcooked-ai 1.1.0's source distribution (.tar.gz).
        target: the file to write; its suffix says the format.
        skip_bad: leave out, and count, the games that are not what they should be.
    """
    if overcooked.is_source(source):
        overcooked.convert(source, target)
        return
    games, _ = _read(source, skip_bad)
    _write(target, games, lambda written: count(len(written), "game"))


def _write(target: Path, games: Games, about: Callable[[Games], str]) -> None:
    """Writes the games, reads them back, and prints what `about` says of what is in the file, and
    what of the games is not."""
    from hanabi_rl.data.files import load_games, save_games

    save_games(target, games)
    written = load_games(target)
    cut = int((written.num_actions < games.num_actions).sum())
    print(f"{target}: {about(written)}")
    if games.players is not None and written.players is None:
        print(f"Who sat where is not in it: {target.suffix} has no place for that")
    if cut:
        changed = int((written.scores != games.scores).sum())
        print(
            f"{cut:,} of them now end where no more points could be reached, as on hanab.live; "
            f"{changed:,} had lost their last life after that and score more"
        )


def split(
    file: File,
    fractions: tuple[UnitInterval, ...] = (),
    sizes: tuple[BoundedCount, ...] = (),
    seed: Seed = 0,
    out: Path = Path(),
    skip_bad: Flag = False,
) -> None:
    """Divide a file of games at random into <name>_train, _val and _test; games of one deck,
    whichever seat begins, stay in one part. Games of Overcooked are divided by pair of players.

    Args:
        file: the games.
        fractions: the parts' shares, adding to 1.
        sizes: or the parts' games.
        seed: of the random choice.
        out: the folder to write to.
        skip_bad: leave out, and count, the games that are not what they should be.
    """
    from hanabi_rl.data.files import save_games
    from hanabi_rl.data.split import split_games, split_games_by_size
    from hanabi_rl.storage.files import check_writable

    check_writable("--out", out)
    if bool(fractions) == bool(sizes):
        raise ValueError(f"expected either --fractions or --sizes, got {fractions} and {sizes}")
    if overcooked.is_source(file):
        overcooked.split(file, fractions, seed, out)
        return
    games, _ = _read(file, skip_bad)
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
        print(
            f"{path}: {count(len(part), 'game')} on {count(part.num_decks, 'deck')}, mean score "
            f"{part.scores.mean():.2f}"
        )


def download(split: Split = "train", players: int = 2, dest: Path = Path("data")) -> None:
    """Fetch human games of AH2AC2 from the Hugging Face Hub and validate them.

    Args:
        split: train (1,000 games), val, or all.
        players: 2 or 3.
        dest: the folder to write to.
    """
    info((str(fetch(split, players, dest)),))


def demos(
    players: int = 2,
    games: BoundedCount = 1000,
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
            where they take turns around the seats; one that searches with partner=C+D comes last.
        out: the file to write (.safetensors, .json or .jsonl); without it the games are only
            cached.
    """
    from hanabi_rl.data.statistics import describe, statistics
    from hanabi_rl.games.hanabi.rules import Rules
    from hanabi_rl.play.demos import demo_games, demo_path

    rules = Rules(num_players=players)
    played = demo_games(rules, bot, games, seed)
    if out is None:
        print(f"{demo_path(rules, bot, games, seed)}: {describe(statistics(played))}")
    else:
        _write(out, played, lambda written: describe(statistics(written)))


def replay_command(
    source: Source, game: int = 0, turn: int | None = None, conventions: Flag = False
) -> None:
    """Print a recorded game turn by turn, and its hanab.live link.

    Args:
        source: .safetensors (AH2AC2), .json or .jsonl (hanab.live), or a replay link.
        game: which game of the file, from 0.
        turn: only this turn, from 1 (the deal).
        conventions: say of each move what it is by the common conventions, and what it breaks.
    """
    from hanabi_rl.data.files import load_some_games
    from hanabi_rl.data.formats.hanab_live import decode_link, is_link, replay_link
    from hanabi_rl.evaluation.measure.annotate import annotate
    from hanabi_rl.games.hanabi.render import render_game

    def text(rules: Rules, deck: Any, moves: Any) -> str:
        notes = [str(note) for note in annotate(rules, deck, moves)] if conventions else ()
        return render_game(rules, deck, moves, turn, notes)

    if is_link(source):
        linked = decode_link(source)
        print(text(linked.rules, linked.deck, linked.actions.tolist()))
        return
    games = load_some_games(source)
    if not 0 <= game < len(games):
        raise ValueError(f"expected --game in 0..{len(games) - 1}, got {game}")
    deck, moves = games.decks[game], games.moves(game)
    print(text(games.rules, deck, moves))
    try:
        print(f"\n{replay_link(games.rules, deck, moves, turn or 1)}")
    except ValueError as error:  # a game the site does not have
        print(f"\nNo replay link: {error}", file=sys.stderr)


DATA_COMMANDS: dict[str, Callable[..., Any]] = {
    "info": info,
    "convert": convert,
    "split": split,
    "download": download,
    "demos": demos,
}
