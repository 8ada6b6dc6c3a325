"""hanab.live seeds of recorded decks."""

import dataclasses
import json

import numpy as np
import pytest
from support.games import TINY, as_games, random_games, shared_data

from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.formats.hanab_live_decks import decks_from_seeds
from hanabi_rl.data.games import Games, concatenate_games, rotated_decks
from hanabi_rl.data.seeds import SiteSeed, describe_seeds, find_seeds
from hanabi_rl.games.hanabi.actions import Move, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules


def dealt(players: int, names: list[str], rotations: list[int]) -> Games:
    """Games of one move on the site's decks, started by the seats `rotations`."""
    rules = Rules(num_players=players)
    turned = rotated_decks(rules, decks_from_seeds(names))[np.arange(len(names)), rotations]
    move = encode_action(rules, Move("play", slot=0))
    tables = [PythonGame(rules, deck) for deck in turned]
    for table in tables:
        table.apply(move)
    return as_games(rules, tables, [np.array([move], np.int32)] * len(names), first_id=100)


@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_seeds_are_found_for_any_starting_seat(players):
    rotations = [*range(players), 1, 0]
    names = [f"p{players}v0s{7 + 5 * number}" for number in range(len(rotations) - 1)]
    names.append(f"p{players}v0s1001")  # beyond the search
    games = dealt(players, names, rotations)
    expected = [SiteSeed(*pair) for pair in zip(names, rotations, strict=True)]
    assert find_seeds(games, 1000) == [*expected[:-1], None]
    assert find_seeds(games, 1001) == expected


def test_other_decks_have_no_seed():
    assert find_seeds(random_games(Rules(), 3), 500) == [None] * 3
    assert find_seeds(random_games(TINY, 3)) == [None] * 3
    one, other = dealt(3, ["p3v0s1", "p3v0s2"], [0, 0]).decks
    games = random_games(Rules(num_players=3), 2)
    # same cards after the deal, hands' cards in another order
    swapped = np.concatenate([one[14::-1], one[15:]])
    assert find_seeds(dataclasses.replace(games, decks=np.stack([swapped, other])), 9) == [
        None,
        SiteSeed("p3v0s2", 0),
    ]


def test_games_on_one_deal_share_seed():
    games = dealt(3, ["p3v0s4"] * 3, [2, 0, 2])
    assert find_seeds(games, 9) == [SiteSeed("p3v0s4", rotation) for rotation in (2, 0, 2)]
    assert games.deck_ids.tolist() == [0, 0, 0]


def test_exported_seeds_are_verified(tmp_path):
    names = ["p3v0scustom", "p3v0s400000", "p3v0s3", "p3v0s4", "p3v0s5"]
    path = tmp_path / "export.json"
    save_games(path, dealt(3, names, [0, 1, 2, 0, 0]))
    records = json.loads(path.read_text())
    exported = ["p3v0scustom", "p3v0s400000", "p3v0s\ud800", "JSON", 7]  # two are valid
    for record, seed in zip(records, exported, strict=True):
        record["seed"] = seed
    path.write_text(json.dumps(records))
    games = load_games(path)
    assert games.seeds.tolist() == [*exported[:4], ""]
    assert find_seeds(games, 4) == [
        SiteSeed("p3v0scustom", 0),
        SiteSeed("p3v0s400000", 1),
        SiteSeed("p3v0s3", 2),
        SiteSeed("p3v0s4", 0),
        None,
    ]
    plain = dataclasses.replace(games, seeds=None)
    assert concatenate_games([plain, games.select([1])]).seeds.tolist() == [""] * 5 + [
        "p3v0s400000"
    ]
    assert concatenate_games([plain, plain]).seeds is None


def test_seed_table_lists_every_game():
    games = dealt(3, ["p3v0s4", "p3v0s900"], [2, 0])
    text = describe_seeds(games, find_seeds(games, 9), listed=True)
    assert text.splitlines() == [
        "2 games: 1 with a hanab.live seed, 1 of them started by a seat other than the site's "
        "first",
        "   game_id  seed          rotation",
        "       100  p3v0s4               2",
        "       101  -                    -",
    ]
    alone = games.select([1])
    assert describe_seeds(alone, find_seeds(alone, 9)).startswith(
        "1 game: 0 with a hanab.live seed"
    )


def test_human_games_have_seeds():
    """Three pairs of AH2AC2's games share a deal: shared/reference/hanab-live-facts.md."""
    games = load_games(shared_data("3_player_games_val.safetensors"), validate=False)
    found = find_seeds(games)
    rotations = [seed.rotation for seed in found if seed is not None]
    assert (len(games), len(rotations), rotations.count(0)) == (221, 198, 94)
    of_id = dict(zip(games.game_ids.tolist(), found, strict=True))
    numbers = dict(zip(games.game_ids.tolist(), games.deck_ids.tolist(), strict=True))
    for one, other in ((102953, 128874), (107527, 114915), (120821, 134957)):
        assert of_id[one].name == of_id[other].name and numbers[one] == numbers[other]
    assert games.num_decks == 218


def test_one_game_summary_is_singular():
    games = dealt(3, ["p3v0s4"], [0])
    assert describe_seeds(games, find_seeds(games, 9)).startswith(
        "1 game: 1 with a hanab.live seed"
    )
