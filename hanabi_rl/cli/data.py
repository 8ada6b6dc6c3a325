"""`hanabi-rl data` and `replay`: inspect, convert, split, download, generate and print games."""

from __future__ import annotations

import contextlib
import dataclasses
import json as json_format
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli import overcooked
from hanabi_rl.cli.agents import File, Flag, Json
from hanabi_rl.cli.play import HOST, check_extra, listen, run_page
from hanabi_rl.data.download import Split
from hanabi_rl.data.download import download as fetch
from hanabi_rl.data.seeds import MAX_NUMBER
from hanabi_rl.storage.validation import BoundedCount, Port, Seed, UnitInterval
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from hanabi_rl.data.games import Games
    from hanabi_rl.games.hanabi.rules import Rules

Source = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PATH|LINK")]
Sources = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PATH|LINK [PATH|LINK ...]")
]
SkipInvalid = Annotated[
    Flag,
    tyro.conf.arg(
        help="skip and count invalid games (other variant, no move, unusual number of players) "
        "instead of rejecting the file"
    ),
]
MAX_REASONS = 5  # printed for skipped games


def info(
    sources: Sources,
    skip_invalid: SkipInvalid = False,
    seeds: Flag = False,
    max_seed: BoundedCount = MAX_NUMBER,
    json: Json = False,
) -> None:
    """Validate games and print their statistics, one file at a time.

    The statistics are scores and lengths as in AH2AC2's Table 1, efficiency, and the number of
    decks that are hanab.live deals.

    Args:
        sources: .safetensors (AH2AC2), .json or .jsonl (hanab.live), .openspiel, or replay links;
            Overcooked games as for `convert`.
        seeds: list each game's seed on hanab.live and the site's index of the first player.
        max_seed: highest seed number to compare (300000 takes seconds); seeds named in hanab.live
            exports are always compared.
        json: print one line of JSON per file, with all seeds.
    """
    from hanabi_rl.data.seeds import describe_seeds, find_seeds
    from hanabi_rl.data.statistics import describe, statistics
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
    from hanabi_rl.evaluation.measure.intervals import explained
    from hanabi_rl.evaluation.measure.registry import efficiency_figures
    from hanabi_rl.evaluation.reporting.measures import efficiency_line
    from hanabi_rl.storage.files import to_json
    from hanabi_rl.storage.progress import SOON_S, Progress

    if not sources:
        raise ValueError("PATH|LINK: expected at least one file or link, got none")
    if any(map(overcooked.is_source, sources)):
        overcooked.print_info(sources, json)
        return
    read = [(source, *_read(source, skip_invalid)) for source in sources]
    for source, games, skipped in read:
        if not len(games):
            raise ValueError(f"{source}: expected at least one game, got none")
        with Progress("seeds", total=max_seed, unit="deals", quiet_s=SOON_S) as progress:
            found = find_seeds(games, max_seed, progress.update)
        stats = statistics(games)
        efficiency = efficiency_figures(GameAnalysis(games))
        if json:
            rows = [
                {"game_id": game_id, "seed": seed.name, "rotation": seed.rotation}
                for game_id, seed in zip(games.game_ids.tolist(), found, strict=True)
                if seed is not None
            ]
            record = {"file": source, **dataclasses.asdict(stats), "skipped": skipped.total()}
            record |= {"skipped_endings": skipped, **to_json(efficiency), "seeds": rows}
            print(json_format.dumps(record))
            continue
        print(explained(f"{source}: {describe(stats)}\n{efficiency_line(efficiency, games.rules)}"))
        if seeds or any(found):
            print(describe_seeds(games, found, listed=seeds))


def _read(source: str | Path, skip_invalid: bool) -> tuple[Games, Counter[str]]:
    """Games of a file or link, and counts of skipped games by ending; prints the reasons."""
    from hanabi_rl.data.files import load_games
    from hanabi_rl.data.games import GameDataError, raise_invalid

    bad: list[GameDataError] = []
    on_invalid = bad.append if skip_invalid else raise_invalid
    try:
        games = load_games(source, on_invalid=on_invalid, on_change=_warn)
    except GameDataError as error:
        if error.game is None or skip_invalid:
            raise
        raise ValueError(f"{error} (--skip-invalid skips such games)") from error
    for reason in bad[:MAX_REASONS]:
        _warn(f"skipped: {reason}")
    if len(bad) > MAX_REASONS:
        _warn(f"... and {len(bad) - MAX_REASONS:,} more")
    ends = Counter(error.ended or "unknown" for error in bad)
    if bad:  # skipping mostly lost games would raise every mean
        counts = ", ".join(f"{number:,} {end}" for end, number in ends.most_common())
        total = count(len(bad) + len(games), "game")
        _warn(f"{source}: {len(bad):,} of {total} skipped; by ending: {counts}")
    return games, ends


def _warn(text: str) -> None:
    print(text, file=sys.stderr)


def convert(source: Source, target: File, skip_invalid: SkipInvalid = False) -> None:
    """Write games in another format and read them back.

    Args:
        source: .safetensors (AH2AC2), .json or .jsonl (hanab.live), .openspiel, or a replay link.
            Overcooked: .safetensors, or overcooked-ai 1.1.0's source distribution (.tar.gz).
        target: output file; the suffix sets the format.
    """
    if overcooked.is_source(source):
        overcooked.convert(source, target)
        return
    games, _ = _read(source, skip_invalid)
    _write(target, games, lambda written: count(len(written), "game"))


def _write(target: Path, games: Games, about: Callable[[Games], str]) -> None:
    """Write the games, read them back, and print `about` of the file and what the file lacks."""
    from hanabi_rl.data.files import load_games, save_games

    save_games(target, games)
    written = load_games(target)
    cut = int((written.num_actions < games.num_actions).sum())
    print(f"{target}: {about(written)}")
    if games.players is not None and written.players is None:
        print(f"{target.suffix} does not store the names of players")
    if cut:
        changed = int((written.scores != games.scores).sum())
        print(
            f"{count(cut, 'game ends', 'games end')} earlier, as on hanab.live: no more points "
            f"were possible; {changed:,} of them had lost the last life later and now score more"
        )


def split(
    file: File,
    fractions: tuple[UnitInterval, ...] = (),
    sizes: tuple[BoundedCount, ...] = (),
    seed: Seed = 0,
    out: Path = Path(),
    skip_invalid: SkipInvalid = False,
) -> None:
    """Split a file of games at random into NAME_train, NAME_val and NAME_test.

    Games on the same deck stay in one part, regardless of the first player. Overcooked
    games are split by pair of players.

    Args:
        file: file of games.
        fractions: fraction of the games in each part, in total 1.
        sizes: number of games in each part, in place of --fractions.
        seed: seed of the random split.
        out: folder for the parts.
    """
    from hanabi_rl.data.files import save_games
    from hanabi_rl.data.split import part_names, split_games, split_games_by_size
    from hanabi_rl.storage.files import check_writable

    check_writable("--out", out)
    if bool(fractions) == bool(sizes):
        raise ValueError(f"expected either --fractions or --sizes, got {fractions} and {sizes}")
    if overcooked.is_source(file):
        overcooked.split(file, fractions, seed, out)
        return
    games, _ = _read(file, skip_invalid)
    if fractions:
        parts = split_games(games, fractions, seed)
    else:
        parts = split_games_by_size(games, sizes, seed)
    for name, part in zip(part_names(len(parts)), parts, strict=True):
        path = out / f"{file.stem}_{name}{file.suffix}"
        save_games(path, part)
        print(
            f"{path}: {count(len(part), 'game')} on {count(part.num_decks, 'deck')}, mean score "
            f"{part.scores.mean():.2f}"
        )


def download(split: Split = "train", players: int = 2, dest: Path = Path("data")) -> None:
    """Download AH2AC2's human games from the Hugging Face Hub and validate them.

    Args:
        split: train (1,000 games), val, or all.
        players: number of players, 2 or 3.
        dest: folder for the file.
    """
    info((str(fetch(split, players, dest)),))


def demos(
    players: int = 2,
    games: BoundedCount = 1000,
    seed: Seed = 0,
    bot: str = "convention",
    out: Path | None = None,
) -> None:
    """Generate games of agents, or take them from the cache.

    Args:
        players: number of players, 2 to 5.
        games: number of games.
        seed: seed of the decks.
        bot: bot (convention, simple, ...) or agent (agent:NAME, a folder); A+B: both, in
            alternating seats. An agent that searches with partner_model=C+D must come last.
        out: output file (.safetensors, .json, .jsonl or .openspiel); None: write only to the cache.
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
    source: Source,
    game: int = 0,
    turn: int | None = None,
    conventions: Flag = False,
    browser: Flag = False,
    port: Port = 8642,
    no_browser: Flag = False,
) -> None:
    """Print a recorded game turn by turn, Hanabi with its hanab.live link, or show it on a page.

    Args:
        source: .safetensors (AH2AC2), .json or .jsonl (hanab.live), .openspiel, or a replay link;
            Overcooked games as for `data convert`.
        game: index of the game in the file, from 0.
        turn: print only this turn; 1: the deal or the start.
        conventions: annotate each move with its meaning and violations by the H-Group conventions.
        browser: replay the games on a page, from `--game` on.
        port: port of that page on this machine; 0: any free port.
        no_browser: print the address of that page without opening a browser.
    """

    def show(app: Starlette, path: str) -> None:
        listening = listen(HOST, port)
        with contextlib.suppress(KeyboardInterrupt):
            run_page(app, listening, source, path, open_browser=not no_browser)

    if browser:
        check_extra()
    if overcooked.is_source(source):
        if browser:
            show(overcooked.replay_app(source, game), f"replay/{game}")
        else:
            overcooked.print_replay(source, game, turn)
        return
    from hanabi_rl.data.files import load_nonempty_games
    from hanabi_rl.data.formats.hanab_live import decode_link, is_link, replay_link
    from hanabi_rl.evaluation.measure.annotate import annotate
    from hanabi_rl.games.hanabi.render import render_game

    def text(rules: Rules, deck: Any, moves: Any) -> str:
        notes = [str(note) for note in annotate(rules, deck, moves)] if conventions else ()
        return render_game(rules, deck, moves, turn, notes)

    if is_link(source) and not browser:
        if game != 0:
            raise ValueError(f"--game: expected 0 for a link, which has one game, got {game}")
        linked = decode_link(source)
        print(text(linked.rules, linked.deck, linked.actions.tolist()))
        return
    games = load_nonempty_games(source)
    if not 0 <= game < len(games):
        raise ValueError(f"expected --game in 0..{len(games) - 1}, got {game}")
    if browser:
        from hanabi_rl.people.serve.recorded import RecordedGames
        from hanabi_rl.people.serve.web import make_app

        show(make_app(RecordedGames(games)), f"game/{game}")
        return
    deck, moves = games.decks[game], games.moves(game)
    print(text(games.rules, deck, moves))
    try:
        print(f"\n{replay_link(games.rules, deck, moves, turn or 1)}")
    except ValueError as error:  # rules that the site does not support
        print(f"\nNo replay link: {error}", file=sys.stderr)


DATA_COMMANDS: dict[str, Callable[..., Any]] = {
    "info": info,
    "convert": convert,
    "split": split,
    "download": download,
    "demos": demos,
}
