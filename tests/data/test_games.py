"""Files of games: human games, round trips, errors."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support.games import TINY, random_games, shared_data

from hanabi_rl.data.files import load_distinct_games, load_games, load_nonempty_games, save_games
from hanabi_rl.data.games import GameDataError, Games, concatenate_games
from hanabi_rl.data.statistics import statistics
from hanabi_rl.data.validation import validate_games
from hanabi_rl.games.hanabi.rules import Rules

FIELDS = [field.name for field in dataclasses.fields(Games) if field.name != "rules"]


def assert_equal(games: Games, expected: Games, skip: tuple[str, ...] = ()) -> None:
    assert games.rules == expected.rules
    for name in FIELDS:
        if name not in skip:
            np.testing.assert_array_equal(
                getattr(games, name), getattr(expected, name), err_msg=name
            )


@pytest.fixture(scope="module")
def games() -> Games:
    return random_games(Rules(), 8)


@pytest.fixture
def path(games, tmp_path):
    save_games(tmp_path / "games.safetensors", games)
    return tmp_path / "games.safetensors"


# games, mean score, unfinished and bombed games: shared/data/README.md
@pytest.mark.parametrize(
    ("name", "count", "mean", "known"),
    [
        # the site ended 34 games
        ("3_player_games_val", 221, 24.19, {"unfinished": 0, "bombed": 0}),
        ("3p_human_train_180", 180, None, {}),
        ("3p_human_val_41", 41, None, {}),
        ("2p_human_hanab_live", 19, None, {"unfinished": 8}),
        ("3p_human_hanab_live", 16, None, {"unfinished": 5}),
        ("2p_human_with_ai", 1576, 6.69, {"bombed": 969, "human_seats": 1576}),
        ("2p_recorded_bot_8k", 8000, 20.82, {"decks": 8000}),
        ("2p_hgroup_bot_train", 1000, 21.51, {"bombed": 76, "decks": 1000}),
        ("2p_hgroup_bot_val", 109, 21.39, {"bombed": 8, "decks": 109}),
    ],
)
def test_human_games_round_trip(tmp_path, name, count, mean, known):
    source = shared_data(f"{name}.safetensors")
    games = load_games(source)
    stats = statistics(games)
    assert stats.games == len(games) == count
    assert mean is None or round(stats.scores.mean, 2) == mean
    assert {key: getattr(stats, key) for key in known} == known
    save_games(tmp_path / "copy.safetensors", games)
    original, copy = load_file(source), load_file(tmp_path / "copy.safetensors")
    assert original.keys() == copy.keys()
    for key, tensor in original.items():
        assert tensor.dtype == copy[key].dtype
        np.testing.assert_array_equal(tensor, copy[key], err_msg=key)


def test_statistics_match_paper_table():
    """AH2AC2 open data: 221 games, scores 19/25/24.19/25/1.20, lengths 46/62/56.16/56/2.86."""
    stats = statistics(load_games(shared_data("3_player_games_val.safetensors")))
    for spread, expected in (
        (stats.scores, (19, 25, 24.19, 25, 1.20)),
        (stats.lengths, (46, 62, 56.16, 56, 2.86)),
    ):
        got = (spread.min, spread.max, round(spread.mean, 2), spread.median, round(spread.std, 2))
        assert got == expected


def test_human_game_splits_cover_all_games():
    parts = [
        load_games(shared_data(f"3p_human_{part}.safetensors")) for part in ("train_180", "val_41")
    ]
    joined = concatenate_games(parts)
    whole = load_games(shared_data("3_player_games_val.safetensors"))
    order = np.argsort(joined.game_ids)
    assert_equal(joined.select(order), whole.select(np.argsort(whole.game_ids)))
    shared = parts[1].on_decks_of(parts[0])  # docs/data.md: 40 validation games
    assert parts[1].game_ids[shared].tolist() == [102953]


@pytest.mark.parametrize("suffix", [".safetensors", ".json", ".jsonl"])
def test_save_and_load_round_trip(games, tmp_path, suffix):
    seats = np.arange(16).reshape(8, 2) % 3 > 0
    games = dataclasses.replace(games, human_seats=seats)
    if suffix == ".safetensors":  # hanab.live has names
        games = dataclasses.replace(games, players=np.arange(16, dtype=np.int32).reshape(8, 2) % 5)
    path = tmp_path / "new" / f"games{suffix}"
    save_games(path, games)
    assert_equal(load_games(path), games)
    assert sorted(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".safetensors", ".json", ".jsonl"])
def test_saved_bytes_ignore_array_layout(games, tmp_path, suffix):
    """Including views and other byte orders; rules other than the standard ones have metadata."""
    whole = games if suffix != ".safetensors" else random_games(TINY, 8)
    arrays = {name: getattr(whole, name) for name in ("actions", "decks", "scores", "game_ids")}
    other = dataclasses.replace(
        whole,
        **{name: np.asfortranarray(array) for name, array in arrays.items()},
        num_actions=whole.num_actions[::-1].copy()[::-1],
    )
    swapped = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in arrays.items()}
    files = set()
    for each in (whole, other, dataclasses.replace(whole, **swapped), whole):
        save_games(path := tmp_path / f"games{suffix}", each)
        files.add(path.read_bytes())
        assert_equal(load_games(path), whole)
    assert len(files) == 1


def test_single_game_is_site_json(games, tmp_path):
    save_games(tmp_path / "one.json", games.select([1]))
    assert json.loads((tmp_path / "one.json").read_text())["id"] == 101
    assert_equal(load_games(tmp_path / "one.json"), games.select([1]))


@pytest.mark.parametrize("game_id", [None, True, "seven", 2**70])
def test_invalid_game_id_becomes_position(games, tmp_path, game_id):
    path = tmp_path / "games.json"
    save_games(path, games)
    records = json.loads(path.read_text())
    records[3]["id"] = game_id
    path.write_text(json.dumps(records))
    assert load_games(path).game_ids.tolist() == [100, 101, 102, 3, 104, 105, 106, 107]


def test_small_rules_need_safetensors(tmp_path):
    small = random_games(TINY, 4)
    save_games(tmp_path / "small.safetensors", small)
    assert_equal(load_games(tmp_path / "small.safetensors"), small)
    with pytest.raises(
        GameDataError,
        match=r"small.jsonl, game 0 \(game_id 100\): hanab.live has only the standard",
    ):
        save_games(tmp_path / "small.jsonl", small)


def test_duplicate_evaluation_games_are_rejected(games, path, tmp_path):
    """Whatever their ids are; the same deck with other moves is another game."""
    assert_equal(load_distinct_games([path]), load_games(path))
    again = dataclasses.replace(games.select([3, 5]), game_ids=np.array([70, 80], np.int32))
    twice, other = tmp_path / "twice.safetensors", tmp_path / "other.safetensors"
    save_games(twice, concatenate_games([games, again]))
    save_games(other, again)
    for paths, message in (
        ([twice], f"{twice}, game 8 (game_id 70): duplicate of game 3 of {twice}"),
        ([path, other], f"{other}, game 0 (game_id 70): duplicate of game 3 of {path}"),
        ([other, other], f"{other}, game 0 (game_id 70): duplicate of game 0 of {other}"),
    ):
        with pytest.raises(GameDataError, match=message.replace("(", r"\(").replace(")", r"\)")):
            load_distinct_games(paths)
    first = games.select([0])
    shorter = dataclasses.replace(first, num_actions=first.num_actions - 1)
    assert shorter.content_keys() != first.content_keys()


def test_concatenate_and_select_games(games):
    long = dataclasses.replace(
        games,
        actions=np.pad(games.actions, ((0, 0), (0, 3)), constant_values=20),
        human_seats=np.zeros((8, 2), bool),
    )
    joined = concatenate_games([games.select(slice(3)), long])
    assert joined.actions.shape == (11, 92)
    assert joined.human_seats.tolist() == [[True, True]] * 3 + [[False, False]] * 8
    validate_games(joined)
    assert_equal(
        joined.select(np.arange(11) < 3), games.select(slice(3)), skip=("actions", "human_seats")
    )
    with pytest.raises(ValueError, match="games to join, got none"):
        concatenate_games([])
    with pytest.raises(
        ValueError, match="one set of rules, got games of 2 players and of 3 players"
    ):
        concatenate_games([games, dataclasses.replace(games, rules=Rules(num_players=3))])


def test_players_of_joined_files_differ(games):
    """Three games, five games without players, and three more."""
    known = dataclasses.replace(
        games.select(slice(3)), players=np.array([[4, 9], [9, 4], [4, 4]], np.int32)
    )
    joined = concatenate_games([known, games.select(slice(3, 8)), known])
    validate_games(joined)
    first, unknown, again = np.split(joined.players, [3, 8])
    for rows in (first, again):
        (a, b), *others = rows.tolist()
        assert a != b and others == [[b, a], [a, a]]
    assert len({*unknown.ravel().tolist()}) == 10
    parts = [{*rows.ravel().tolist()} for rows in (first, unknown, again)]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 14
    assert joined.select([1, 0]).players.tolist() == first[[1, 0]].tolist()
    assert concatenate_games([games, games]).players is None


def swap_cards(t):
    t["decks"][3, 0] = (0, 0) if t["decks"][3, 0].any() else (4, 4)


def illegal_discard(t):
    t["actions"][2, 0, 0] = 0


def go_on_after_the_end(t):
    # a single surplus move is jaxmarl's and is dropped
    for turn in t["num_actions"][4] + np.arange(2):
        t["actions"][4, turn, turn % 2] = 5
    t["num_actions"][4] += 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("scores"), "expected the tensor 'scores'"),
        (lambda t: t.update(extra=t["scores"]), "expected only the tensors .*, got 'extra'"),
        (
            lambda t: t.update(actions=t["actions"].astype(np.float32)),
            "actions: expected integers, got dtype float32",
        ),
        (
            lambda t: t.update(human_seats=np.ones((8, 2), np.int32)),
            "human_seats: expected bool, got dtype int32",
        ),
        (lambda t: t.update(decks=t["decks"][..., 0]), "decks: expected 3 axes, got shape .8, 50."),
        (lambda t: t.update(num_players=np.array(7)), "num_players: .*2 to 5, got 7"),
        (
            lambda t: t.update(num_players=np.array(3)),
            r"actions: expected shape \(8, 89, 3\), got \(8, 89, 2\)",
        ),
        (
            lambda t: t.update(game_ids=t["game_ids"].astype(np.uint64) + 2**63),
            "game 0, game_ids: expected numbers from -9223372036854775808 to 9223372036854775807, "
            "got 9223372036854775908",
        ),
        (lambda t: t.update(scores=t["scores"][:5]), r"scores: expected shape \(8,\), got \(5,\)"),
        (lambda t: t.update(decks=t["decks"][:, :49]), r"decks: expected shape \(8, 50, 2\)"),
        (
            lambda t: t["decks"].__setitem__((6, 49, 1), 5),
            r"game 6 \(game_id 106\), decks: card 49: expected a rank in 0..4",
        ),
        (
            swap_cards,
            r"game 3 \(game_id 103\), decks: expected the 50-card deck with \d of \w\d, got \d",
        ),
        (
            lambda t: t["actions"].__setitem__((5, 2, 0), 21),
            r"game 5 \(game_id 105\), turn 2, actions: seat 0: expected an action in 0..20, got 21",
        ),
        (
            lambda t: t["actions"].__setitem__((5, 3, 0), 4),
            "game 5 .*, turn 3, actions: seat 0: expected the no-op 20 while seat 1 moves, got 4",
        ),
        (
            lambda t: t["num_actions"].__setitem__(1, 0),
            "game 1 .*, num_actions: expected 1..89, got 0",
        ),
        (
            lambda t: t["num_actions"].__setitem__(1, 90),
            "game 1 .*, num_actions: expected 1..89, got 90",
        ),
        (
            lambda t: t["num_actions"].__setitem__(1, 8),
            "game 1 .*, turn 8, actions: expected the no-op 20 after the game's 8 moves",
        ),
        (
            illegal_discard,
            r"game 2 .*, turn 0, actions: expected a legal move, got illegal move 0 \(Alice "
            r"discards .*all 8 inf",
        ),
        (
            go_on_after_the_end,
            r"game 4 .*, turn \d+, actions: expected the no-op after the game's end at turn "
            r"\d+, got 5",
        ),
        (
            lambda t: t["scores"].__setitem__(7, 9),
            "game 7 .*, scores: expected [0-8] as replayed, got 9",
        ),
    ],
)
def test_invalid_file_error_names_location(path, change, message):
    """File, game, turn, field, expected and actual value."""
    tensors = load_file(path)
    change(tensors)
    save_file({name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}, path)
    with pytest.raises(GameDataError, match=f"{path.name}.*{message}"):
        load_games(path)


def test_validation_names_first_invalid_game(path):
    tensors = load_file(path)
    tensors["scores"][[2, 6]] += 1
    save_file(tensors, path)
    with pytest.raises(GameDataError) as caught:
        load_games(path)
    assert (caught.value.game, caught.value.game_id, caught.value.field) == (2, 102, "scores")


@pytest.mark.parametrize("validate", [True, False])
def test_games_without_turns_are_rejected(path, games, validate):
    tensors = load_file(path)
    tensors["actions"] = tensors["actions"][:, :0].copy()
    save_file(tensors, path)
    with pytest.raises(GameDataError, match=f"{path}, actions: expected 1 to 1024 turns, got 0"):
        load_games(path, validate=validate)
    none = dataclasses.replace(games, actions=games.actions[:, :0])
    with pytest.raises(GameDataError, match=r"expected signed integers \[8, 1\], got int32\[8, 0"):
        validate_games(none)


def test_joined_game_ids_are_unchanged(path, games):
    tensors, numbers = load_file(path), np.arange(8) + 2**53
    save_file(tensors | {"game_ids": numbers.astype(np.uint64)}, path)
    loaded = load_games(path)
    joined = concatenate_games([loaded, games])
    assert joined.game_ids.tolist() == [*numbers.tolist(), *games.game_ids.tolist()]
    assert (loaded.game_ids.dtype, joined.game_ids.dtype) == (np.int64, np.int64)
    save_file(tensors | {"game_ids": np.arange(8, dtype=np.uint8)}, path)
    assert load_games(path).game_ids.dtype == np.int32
    with pytest.raises(GameDataError, match="game_ids: expected signed integers"):
        validate_games(dataclasses.replace(games, game_ids=games.game_ids.astype(np.uint64)))


def test_validation_is_optional(path, games):
    tensors = load_file(path)
    tensors["scores"][2] += 1
    save_file(tensors, path)
    loaded = load_games(path, validate=False)
    assert_equal(loaded, games, skip=("scores",))


def test_wrong_unfinished_flag_is_rejected(games):
    flipped = games.unfinished.copy()
    flipped[3] = ~flipped[3]
    with pytest.raises(
        GameDataError, match=f"game 3 .*, unfinished: expected {games.unfinished[3]} as replayed"
    ):
        validate_games(dataclasses.replace(games, unfinished=flipped))
    with pytest.raises(
        GameDataError,
        match=r"games, actions: expected signed integers \[8, 89\], got float64\[8, 89\]",
    ):
        validate_games(dataclasses.replace(games, actions=games.actions.astype(float)))


def test_unreadable_files_are_rejected(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a file of games"):
        load_games(tmp_path / "none.safetensors")
    for name, content, message in [
        ("a.safetensors", b"no tensors", "expected a safetensors file"),
        ("a.json", b"{", "expected JSON"),
        ("a.json", b"\xff", "expected text"),
        ("a.jsonl", b"{}\n[1]\n", "game 0: expected a list under 'players'"),
        ("a.json", b"[1]", "game 0: expected an object, got int"),
        ("a.pickle", b"", "ending in .safetensors, .json, .jsonl"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load_games(tmp_path / name)


def test_load_nonempty_games_rejects_empty_file(tmp_path):
    none = random_games(TINY, 1).select([])
    for name in ("none.safetensors", "none.json"):
        path = tmp_path / name
        if path.suffix == ".json":
            path.write_text("[]")
        else:
            save_games(path, none)
        assert len(load_games(path)) == 0
        for load in (load_nonempty_games, lambda path: load_distinct_games([path])):
            with pytest.raises(GameDataError, match=f"{name}: expected at least one game, got no"):
                load(path)
    with pytest.raises(FileNotFoundError, match="expected a file of games, got .*, a folder"):
        load_games(tmp_path)


def test_hanab_live_error_names_game(games, tmp_path):
    path = tmp_path / "games.jsonl"
    save_games(path, games)
    lines = path.read_text().splitlines()
    save_games(path, random_games(Rules(num_players=3), 2))
    path.write_text("\n".join([*lines[:2], path.read_text()]))
    with pytest.raises(
        GameDataError,
        match=r"game 2 \(game_id 100\), players: expected 2 players as in game 0, got 3",
    ):
        load_games(path)
    broken = json.loads(lines[1])
    broken["options"]["emptyClues"] = True
    path.write_text("\n".join([lines[0], "", json.dumps(broken)]))
    with pytest.raises(GameDataError, match=r"game 1 \(game_id 101\): option emptyClues"):
        load_games(path)
    path.write_text("\n".join([lines[0], "{"]))
    with pytest.raises(GameDataError, match="games.jsonl, line 2: expected JSON"):
        load_games(path)


def no_moves(record):
    record["actions"] = [{"type": 4, "target": 0, "value": 4}]


def another_variant(record):
    record["options"]["variant"] = "Rainbow (6 Suits)"


def three_players(record):
    record.update(json.loads(json.dumps(THREE)))


THREE: dict = {}
ODD = {
    "no moves": (no_moves, "expected at least one move, got none"),
    "no players": (lambda r: r.update(players=[]), "expected 2-5 players, got 0"),
    "a variant": (another_variant, "expected option variant to be 'No Variant'"),
    "an end of another kind": (lambda r: r["actions"].append({"type": 9, "target": 0}), "type 0-5"),
    "no human seats": (lambda r: r.update(humanSeats=[]), "humanSeats: expected 2 times true"),
    "other players": (three_players, "players: expected 2 players as in game"),
}


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [0, 3])
def test_invalid_game_is_rejected_or_skipped(games, tmp_path, suffix, odd, place):
    """At the first place of a file, which sets no standard for the others, and in the middle."""
    path = tmp_path / f"games{suffix}"
    save_games(path, random_games(Rules(num_players=3), 1))
    THREE.update(json.loads(path.read_text()))
    save_games(path, games)
    text = path.read_text()
    records = json.loads(text) if suffix == ".json" else list(map(json.loads, text.splitlines()))
    change, message = ODD[odd]
    change(records[place])
    path.write_text("\n".join(map(json.dumps, [records] if suffix == ".json" else records)))
    with pytest.raises(GameDataError, match=f"game {place}.*{message}"):
        load_games(path)
    skipped: list[GameDataError] = []
    loaded = load_games(path, on_invalid=skipped.append)
    assert [error.game for error in skipped] == [place] and message in str(skipped[0])
    assert_equal(loaded, games.select(np.arange(len(games)) != place))


def test_invalid_json_line_is_skipped(games, tmp_path):
    path = tmp_path / "games.jsonl"
    save_games(path, games)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "{", *lines[2:], "[" * 100_000]))
    skipped: list[GameDataError] = []
    assert_equal(load_games(path, on_invalid=skipped.append), games)
    assert ["line 3" in str(skipped[0]), "line 10" in str(skipped[1])] == [True, True]


def test_invalid_tensor_games_are_skipped_once(path, games):
    """All types of errors, two of them in one game, with positions in the file."""
    tensors = load_file(path)
    tensors["decks"][6, 49, 1] = 5
    tensors["actions"][6, 0, 0] = 99
    swap_cards(tensors)  # game 3
    illegal_discard(tensors)  # game 2
    tensors["num_actions"][1] = 0
    tensors["actions"][5, 3, 0] = 4  # out of turn
    tensors["scores"] = tensors["scores"].astype(np.int64)
    tensors["scores"][7] += 2**32
    save_file(tensors, path)
    skipped: list[GameDataError] = []
    loaded = load_games(path, on_invalid=skipped.append)
    assert sorted(error.game for error in skipped) == [1, 2, 3, 5, 6, 7]
    assert all(f"game {error.game}" in str(error) for error in skipped)
    assert_equal(loaded, games.select([0, 4]))
    tensors["scores"][[0, 4]] += 1
    save_file(tensors, path)
    assert len(load_games(path, on_invalid=skipped.append)) == 0 and len(skipped) == 14


def test_invalid_layout_is_always_rejected(path, tmp_path):
    tensors = load_file(path)
    save_file(tensors | {"num_players": np.array(7)}, path)
    (tmp_path / "a.json").write_text("{")
    for file in (path, tmp_path / "a.json"):
        skipped: list[GameDataError] = []
        with pytest.raises(GameDataError, match="expected"):
            load_games(file, on_invalid=skipped.append)
        assert skipped == []


def test_unsigned_overflow_is_rejected(path):
    tensors = load_file(path)
    tensors["scores"] = tensors["scores"].astype(np.uint32)
    tensors["scores"][4] = 2**32 - 1
    save_file(tensors, path)
    with pytest.raises(GameDataError, match="game 4, scores: expected numbers from -2147483648"):
        load_games(path)


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
def test_unreadable_games_are_not_written(tmp_path, suffix):
    games = random_games(Rules(), 2)
    for name, array in (
        ("human_seats", np.ones((2, 2), int)),
        ("game_ids", np.array([0.5, 1.5])),
        ("game_ids", np.array(["a", "b"])),
    ):
        wrong = dataclasses.replace(games, **{name: array})
        with pytest.raises(GameDataError, match=rf"games{suffix}, {name}: expected .*, got "):
            save_games(tmp_path / f"games{suffix}", wrong)
    assert not list(tmp_path.iterdir())


def test_saved_games_respect_umask(tmp_path):
    """On a shared machine, by other users."""
    (tmp_path / "any").touch()
    for name in ("games.safetensors", "games.json"):
        save_games(tmp_path / name, random_games(Rules(), 2))
        assert (tmp_path / name).stat().st_mode == (tmp_path / "any").stat().st_mode


@pytest.mark.parametrize("path", ["~/games.json", Path("~/a/games.safetensors")])
def test_save_games_expands_home(path, tmp_path, monkeypatch):
    """Python does not expand `~`, which would be a folder of that name."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    games = random_games(Rules(), 2, seed=0)
    save_games(path, games)
    assert [found.name for found in tmp_path.iterdir()] == ["home"]
    assert len(load_games(path)) == 2
