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
    from hanabi_rl.cli.output import Parts
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


def check_overcooked(policies: Sequence[Policy], names: Sequence[str]) -> None:
    """Raise ValueError for agents of another game."""
    for name, policy in zip(names, policies, strict=True):
        if (got := policy.rules.name) != "overcooked":
            raise ValueError(f"{name}: expected an agent of hanabi or overcooked, got one of {got}")


def played_interdependence(
    names: Sequence[str], policies: Sequence[Policy], games: int, seed: int
) -> Parts:
    """`hanabi-rl interdependence` of an agent with itself, or with a partner at each seat."""
    from hanabi_rl.evaluation.measure.ratio import ratios_dict
    from hanabi_rl.evaluation.overcooked.interdependence import count_links, interdependence_ratios
    from hanabi_rl.evaluation.reporting.overcooked import interdependence_parts
    from hanabi_rl.games.overcooked.traces import Traces
    from hanabi_rl.games.registry import game_to_text
    from hanabi_rl.play.game_episodes import play_episodes

    check_overcooked(policies, names)
    rules, agent, partner = policies[0].rules, names[0], names[-1]
    teams = {}
    for seat in range(len(names)):
        lineup = policies[0], policies[-1]
        played = play_episodes(lineup, games, seed, seating=(seat, 1 - seat))
        traces = Traces(rules.layout, played.starts, played.actions, played.lengths)
        title = f"{agent} at seat {seat}" if len(names) > 1 else "self-play"
        teams[title] = interdependence_ratios(count_links(traces))
    played_games = f"{count(games, 'sampled game')} of {game_to_text(rules)}"
    yield f"{' with '.join(names)}: {played_games} per team"
    yield from interdependence_parts(teams)
    yield {
        "game": game_to_text(rules),
        "agent": agent,
        "partner": partner,
        "policy_hash": policies[0].identity(),
        "partner_hash": policies[-1].identity(),
        "games": games,
        "seed": seed,
        "by_seat": [ratios_dict(of) for of in teams.values()],
    }


def recorded_interdependence(source: str, game: str | None) -> Parts:
    """`hanabi-rl interdependence` of the games of one kitchen in a file."""
    from hanabi_rl.data.game_records import load_game_records
    from hanabi_rl.evaluation.measure.ratio import ratios_dict
    from hanabi_rl.evaluation.overcooked.interdependence import count_links, interdependence_ratios
    from hanabi_rl.evaluation.reporting.overcooked import interdependence_parts
    from hanabi_rl.games.overcooked.overcooked import Overcooked
    from hanabi_rl.games.overcooked.traces import Traces
    from hanabi_rl.games.registry import game_from_text, game_to_text

    rules = game_from_text(game or "hanabi")
    if not isinstance(rules, Overcooked):
        raise ValueError(f"{source}: expected --game overcooked:KITCHEN, got {game or 'none'}")
    records = load_game_records([source], rules, "FILE")
    traces = Traces(rules.layout, records.starts, records.actions, records.lengths)
    ratios = interdependence_ratios(count_links(traces))
    of_pairs = {name: ratio.group_by(records.groups) for name, ratio in ratios.items()}
    pairs = len(set(records.groups.tolist()))
    yield (
        f"{source}: {count(len(records), 'game')} of {game_to_text(rules)} by "
        f"{count(pairs, 'pair')} of players, intervals over pairs"
    )
    yield from interdependence_parts({"recorded": of_pairs})
    yield {"game": game_to_text(rules), "file": source, "games": len(records), "pairs": pairs} | (
        ratios_dict(of_pairs)
    )


def unit_tests(
    names: Sequence[str], policies: Sequence[Policy], instances: int, seed: int
) -> Parts:
    """`hanabi-rl unit-tests` of agents of one kitchen."""
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.evaluation.overcooked.unit_tests import run_tests
    from hanabi_rl.evaluation.reporting.overcooked import unit_test_dict, unit_test_parts
    from hanabi_rl.games.registry import game_to_text

    check_overcooked(policies, names)
    rules = policies[0].rules
    chance = run_tests(load_policy("bot:random", rules), instances, seed)
    results = {
        name: run_tests(policy, instances, seed)
        for name, policy in zip(names, policies, strict=True)
    }
    yield f"{game_to_text(rules)}: {instances} situations per test and seat, sampled play"
    yield from unit_test_parts(results, chance)
    yield {
        "game": game_to_text(rules),
        "instances": instances,
        "seed": seed,
        "random_play": unit_test_dict(chance),
        "agents": {name: unit_test_dict(of) for name, of in results.items()},
    }


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
    from hanabi_rl.people.serve.overcooked.record import STEPS_PER_S
    from hanabi_rl.people.serve.overcooked.web import make_app

    play = KitchenPlay(
        agent,
        name,
        out,
        seat=seat,
        seed=seed,
        horizon=horizon,
        steps_per_s=STEPS_PER_S if steps_per_s is None else steps_per_s,
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
