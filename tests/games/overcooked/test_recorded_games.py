"""Files of recorded games, their replay, splits and statistics; the human games of 2019."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.overcooked import actions_with_soups
from support.plain_overcooked import MOVES, PlainOvercooked

from hanabi_rl.cli import main
from hanabi_rl.games.overcooked.human_games import COLUMNS, read_human_games
from hanabi_rl.games.overcooked.kitchens import load_kitchen
from hanabi_rl.games.overcooked.recorded_games import (
    GameOrigin,
    OvercookedDataError,
    RecordedGames,
    game_statistics,
    load_recorded_games,
    replay_games,
    save_recorded_games,
    split_by_pair,
)
from hanabi_rl.games.overcooked.state import unpack_scene
from hanabi_rl.storage.tensors import read_tensors, write_tensors

SHARED = Path(__file__).parents[4] / "shared" / "data" / "overcooked_human_2019.safetensors"
needs_humans = pytest.mark.skipif(not SHARED.exists(), reason=f"no file {SHARED}")


@dataclasses.dataclass
class Played:
    """A made-up game: a dictionary of text for each moment, actions, and points by step."""

    layout: str
    worker: int
    states: list[str]
    actions: np.ndarray
    points: list[int]


def made_up(layout: str, worker: int, steps: int, seed: int) -> Played:
    kitchen = load_kitchen(layout)
    game = PlainOvercooked(kitchen.rows, kitchen.start("humans"))
    actions = actions_with_soups([game], steps, seed)[:, 0]
    states, points = [as_text(game)], []
    for action in actions:
        points.append(game.step(action)[0])
        states.append(as_text(game))
    return Played(layout, worker, states, actions, points)


def as_text(game: PlainOvercooked) -> str:
    """The state as the human games have it."""
    names = {"o": "onion", "d": "dish", "s": "soup"}
    players, objects = [], {}
    for at, facing, hand in zip(game.places, game.directions, game.hands, strict=True):
        player: dict[str, Any] = {"position": list(at), "orientation": list(facing)}
        if hand:
            player["held_object"] = {"name": names[hand], "position": list(at)}
        players.append(player)
    for at, thing in game.lying.items():
        objects[f"{at[0]},{at[1]}"] = {"name": names[thing], "position": list(at)}
    for at, (onions, cooked) in game.pots.items():
        if onions:
            late = 7 if cooked == 20 else 0  # the record counts on
            state = ["onion", onions, cooked + late]
            objects[f"{at[0]},{at[1]}"] = {"name": "soup", "position": list(at), "state": state}
    return str({"players": players, "objects": objects, "pot_explosion": False})


GAMES = [
    made_up("random3", 5, 150, 0),
    made_up("cramped_room", 2, 120, 1),
    made_up("cramped_room", 5, 90, 2),
]


def rows_of(played: list[Played]) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {column: [] for column in COLUMNS}
    for game in played:
        for t, action in enumerate(game.actions):
            text = ["INTERACT" if a == 5 else list(MOVES[a]) if a < 4 else [0, 0] for a in action]
            rows["cur_gameloop"].append(float(t))
            rows["joint_action"].append(str(text))
            rows["layout_name"].append(game.layout)
            rows["state"].append(game.states[t])
            rows["next_state"].append(game.states[t + 1])
            rows["reward"].append(game.points[t] / 4)
            rows["workerid_num"].append(game.worker)
    return rows


def write_pickle(path: Path, rows: dict[str, list[Any]], monkeypatch: Any) -> None:
    """A table as an old pandas pickled it, by classes of the same names; needs no pandas."""
    homes = {
        "DataFrame": "pandas.core.frame",
        "BlockManager": "pandas.core.internals.managers",
        "Index": "pandas.core.indexes.base",
    }
    classes = {}
    for name, home in homes.items():  # pickled from a module of a name as long, renamed after
        stand_in = types.ModuleType(home.replace(".", "_"))
        reduce = {"__reduce__": lambda self: self.reduced, "__module__": stand_in.__name__}
        classes[name] = type(name, (), reduce)
        setattr(stand_in, name, classes[name])
        monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)

    def pickled(name: str, args: tuple[Any, ...], state: Any) -> Any:
        one = classes[name]()
        one.reduced = classes[name], args, state
        return one

    blocks, items = [], []
    for kind, names in (("f8", ("reward", "cur_gameloop")), ("i8", ("workerid_num",)), ("O", ())):
        chosen = names or [name for name in rows if isinstance(rows[name][0], str)]
        blocks.append(np.array([rows[name] for name in chosen], kind))
        data = {"data": np.array(chosen, object)}
        items.append(pickled("Index", (classes["Index"], data), {}))
    manager = pickled("BlockManager", (), ([], blocks, items))
    data = pickle.dumps(pickled("DataFrame", (), {"_data": manager}), protocol=4)
    for home in homes.values():
        data = data.replace(home.replace(".", "_").encode(), home.encode())
    path.write_bytes(data)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_pickle(tmp_path / "clean_train_trials.pickle", rows_of(GAMES[:2]), monkeypatch)
    write_pickle(tmp_path / "clean_test_trials.pickle", rows_of(GAMES[2:]), monkeypatch)
    return tmp_path


def test_made_up_human_games_are_read_written_and_read_again(folder, capsys):
    assert sum(sum(game.points) for game in GAMES) > 0, "no soup was served"
    games = read_human_games(folder)
    order = [GAMES[1], GAMES[0], GAMES[2]]  # by part, kitchen, pair
    assert [games.kitchen_of(g).name for g in range(3)] == [
        "cramped_room",
        "counter_circuit",
        "cramped_room",
    ]
    assert games.pairs.tolist() == [0, 1, 1] and games.is_test.tolist() == [False, False, True]
    for number, played in enumerate(order):
        rows = games.steps_of(number)
        np.testing.assert_array_equal(games.actions[rows], played.actions)
        np.testing.assert_array_equal(games.rewards[rows], played.points)
    target = folder / "out" / "games.safetensors"
    main(["data", "convert", str(folder), str(target)])
    assert "3 games, 360 steps; every game replayed to its score" in capsys.readouterr().out
    again = load_recorded_games(target)
    assert again.kitchens == games.kitchens
    for field in dataclasses.fields(RecordedGames)[1:]:
        np.testing.assert_array_equal(getattr(again, field.name), getattr(games, field.name))
    main(["data", "info", str(target)])
    out = capsys.readouterr().out.splitlines()
    points = sum(sum(game.points) for game in GAMES[1:]) * 400 / 210
    assert out[2].split()[:4] == ["cramped_room", "2", "2", "210"]
    assert float(out[2].split()[5]) == pytest.approx(points, abs=0.06)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        (
            "state",
            lambda text: text.replace("'orientation': [0, -1]", "'orientation': [1, 0]", 1),
            r"game 0 \(cramped_room\), step 0: directions: expected \(0, 0\) by the rules, got "
            r"\(2, 0\)",
        ),
        (
            "state",
            lambda text: text.replace("}", ", 'held_object': {'name': 'dish'}}", 1),
            r"step 0: hands: expected \(0, 0\) by the rules, got \(2, 0\)$",
        ),
        ("joint_action", lambda _: "[[0, 2], [0, 0]]", r"step 0: joint_action: expected two act"),
        ("joint_action", lambda _: "jump", r"step 0: joint_action: expected a Python literal"),
        ("reward", lambda reward: reward + 5, r"step 1: expected 0 points by the rules for the st"),
        ("cur_gameloop", lambda loop: loop + 500, r"cur_gameloop: expected 0, got 1"),
        ("state", lambda _: "{'players': []}", "step 0: state: expected a state"),
        ("layout_name", lambda _: "diner", r"kitchen: expected one of .*, got 'diner'"),
    ],
)
def test_a_wrong_record_names_game_and_step(tmp_path, monkeypatch, column, change, message):
    rows = rows_of(GAMES[1:2])
    for row in range(len(rows[column]) if column == "layout_name" else 1):
        rows[column][row] = change(rows[column][row])
    path = tmp_path / "clean_test_trials.pickle"
    write_pickle(path, rows, monkeypatch)
    with pytest.raises(OvercookedDataError, match=message):
        read_human_games(path)


def test_a_wrong_state_in_the_middle_and_at_the_end(tmp_path, monkeypatch):
    path = tmp_path / "clean_train_trials.pickle"
    for column, row, step in (("state", 40, 40), ("next_state", -1, 120)):
        rows = rows_of(GAMES[1:2])
        other = rows["state"][0]
        rows[column][row] = other
        write_pickle(path, rows, monkeypatch)
        with pytest.raises(
            OvercookedDataError, match=rf"\(cramped_room\), step {step}: \w+: "
        ) as error:
            read_human_games(path)
        assert "soups" not in str(error.value)  # the record does not count them


def test_a_pickle_runs_no_code(tmp_path):
    class Attack:
        def __reduce__(self):
            return (Path.write_text, (tmp_path / "ran", "code"))

    path = tmp_path / "clean_test_trials.pickle"
    path.write_bytes(pickle.dumps(Attack()))
    with pytest.raises(OvercookedDataError, match="expected a pickled pandas table"):
        read_human_games(path)
    assert not (tmp_path / "ran").exists()


def test_files_that_hold_no_human_games(tmp_path):
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        read_human_games(tmp_path / "nothing.tar.gz")
    with pytest.raises(OvercookedDataError, match="expected clean_train_trials.pickle and"):
        read_human_games(tmp_path)
    (tmp_path / "a.tar.gz").write_bytes(b"no archive")
    with pytest.raises(OvercookedDataError, match="expected a .tar.gz archive"):
        read_human_games(tmp_path / "a.tar.gz")


@pytest.fixture
def games_file(folder):
    path = folder / "games.safetensors"
    save_recorded_games(path, read_human_games(folder))
    return path


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("score", lambda x: x + 20, r"game 0 \(cramped_room\): expected a score of \d+ by the rul"),
        (
            "reward",
            lambda x: x + 1,
            r"game 0 \(cramped_room\), step 0: expected 0 points by th.* 1",
        ),
        ("actions", lambda x: x + 6, r"game 0 \(cramped_room\), step 0: player 0: expected an act"),
        ("start", lambda x: x * 0, r"game 0 \(cramped_room\): start: expected two floor cells"),
        ("layout", lambda x: x + 2, r"game 0: layout: expected 0 to 1, got 2"),
        ("test", lambda x: x.astype(np.int8), "test: expected bool with 1 axes"),
        ("pair", lambda x: x[:2], r"pair: expected shape \(3,\), got \(2,\)"),
        ("length", lambda x: x + 1, r"actions: expected shape \(363, 2\), got \(360, 2\)"),
        ("score", None, "expected tensor 'score', got"),
    ],
)
def test_a_wrong_file_is_refused(games_file, name, change, message):
    tensors, metadata = read_tensors(games_file)
    if change is None:
        del tensors[name]
    else:
        tensors[name] = change(tensors[name])
    write_tensors(games_file, tensors, metadata)
    with pytest.raises(OvercookedDataError, match=message):
        load_recorded_games(games_file)


def test_without_rewards_the_score_is_checked(games_file):
    games = dataclasses.replace(load_recorded_games(games_file), rewards=None)
    save_recorded_games(games_file, games)
    assert load_recorded_games(games_file).rewards is None


def test_a_replay_holds_every_state(games_file):
    replay = replay_games(load_recorded_games(games_file))[0]
    kitchen, played = load_kitchen("cramped_room"), GAMES[1]
    plain = PlainOvercooked(kitchen.rows, kitchen.start("humans"))
    assert len(replay.states.players) == 121
    for step in range(121):
        assert vars(unpack_scene(kitchen, replay.states, step)) == plain.scene()
        if step < 120:
            plain.step(played.actions[step])


def test_selected_games_keep_their_steps(games_file):
    games = load_recorded_games(games_file)
    picked = games.select([2, 0])
    for new, old in ((0, 2), (1, 0)):
        np.testing.assert_array_equal(
            picked.actions[picked.steps_of(new)], games.actions[games.steps_of(old)]
        )
        assert picked.scores[new] == games.scores[old]
    assert len(games.select(games.is_test)) == 1


@pytest.fixture
def played_file(games_file):
    """The same games as if played with agents, the human in seat 0 but for game 1."""
    games = load_recorded_games(games_file)
    seats = np.array([[True, False], [False, True], [True, False]])
    origins = tuple(
        GameOrigin(1000 + g, ("", "a") if seats[g, 0] else ("a", ""), ("x", ""), g, 6.67, late, 2)
        for g, late in enumerate((0, 4, 1))
    )
    save_recorded_games(games_file, dataclasses.replace(games, human_seats=seats, origins=origins))
    return games_file, seats, origins


def test_human_seats_and_origins_are_kept_and_selected(played_file):
    path, seats, origins = played_file
    games = load_recorded_games(path)
    np.testing.assert_array_equal(games.human_seats, seats)
    assert games.origins == origins
    picked = games.select([2, 1])
    np.testing.assert_array_equal(picked.human_seats, seats[[2, 1]])
    assert picked.origins == (origins[2], origins[1])


@pytest.mark.parametrize(
    ("origins", "message"),
    [
        ("{", "metadata 'origins': Expecting"),
        ("[1]", "metadata 'origins': 'int' object"),
        ('[{"name": 1}]', "metadata 'origins': .*name"),
        (None, "metadata 'origins': expected 3 games, got 2"),
    ],
)
def test_wrong_origins_are_refused(played_file, origins, message):
    path, _, _ = played_file
    tensors, metadata = read_tensors(path)
    metadata["origins"] = origins or json.dumps(json.loads(metadata["origins"])[:2])
    write_tensors(path, tensors, metadata)
    with pytest.raises(OvercookedDataError, match=message):
        load_recorded_games(path)


def test_wrong_human_seats_are_refused(played_file):
    path, seats, _ = played_file
    tensors, metadata = read_tensors(path)
    for wrong, message in (
        (seats[:2], r"human_seats: expected shape \(3, 2\), got \(2, 2\)"),
        (seats.astype(np.int8), "human_seats: expected bool with 2 axes"),
    ):
        write_tensors(path, tensors | {"human_seats": wrong}, metadata)
        with pytest.raises(OvercookedDataError, match=message):
            load_recorded_games(path)


def test_a_split_by_pair_shares_no_pair(games_file, capsys):
    games = load_recorded_games(games_file)
    many = games.select(np.arange(30) % 3)
    many = dataclasses.replace(many, pairs=np.arange(30, dtype=np.int32) % 10)
    parts = split_by_pair(many, (0.5, 0.3, 0.2), seed=0)
    assert [len(set(part.pairs)) for part in parts] == [5, 3, 2]
    assert sum(len(part) for part in parts) == 30
    assert len(set().union(*(set(part.pairs) for part in parts))) == 10
    other = split_by_pair(many, (0.5, 0.3, 0.2), seed=1)
    assert set(other[0].pairs) != set(parts[0].pairs)
    with pytest.raises(ValueError, match="expected a pair in every part, got none for 0.1 of 2 p"):
        split_by_pair(games, (0.9, 0.1), seed=0)
    out = games_file.parent
    main(["data", "split", str(games_file), "--fractions", "0.5", "0.5", "--out", str(out)])
    names = ("games_train", "games_val")
    read = [load_recorded_games(out / f"{name}.safetensors") for name in names]
    assert sum(map(len, read)) == 3 and not set(read[0].pairs) & set(read[1].pairs)


@needs_humans
def test_76_of_76_human_games_are_replayed_to_their_scores():
    games = load_recorded_games(SHARED)
    assert len(games) == 76 and games.lengths.sum() == 91_102
    assert len(set(games.pairs)) == 17
    figures = {  # games, mean of the first 400 steps, points per 400 steps, stays: the reference's
        "cramped_room": (16, 95.0, 118.4, 0.717),
        "asymmetric_advantages": (17, 134.1, 175.8, 0.552),
        "coordination_ring": (16, 76.3, 102.2, 0.500),
        "forced_coordination": (12, 83.3, 112.9, 0.601),
        "counter_circuit": (15, 56.0, 81.5, 0.497),
    }
    for row in game_statistics(games):
        number, first, per_400, stay = figures[row.kitchen]
        assert row.games == number
        assert row.first_points == pytest.approx(first, abs=0.06)
        assert row.points_per_400 == pytest.approx(per_400, abs=0.1)
        assert row.stay_fraction == pytest.approx(stay, abs=0.001)


@needs_humans
def test_16_of_17_pairs_are_in_both_shipped_parts_and_a_split_by_pair_ends_that():
    games = load_recorded_games(SHARED, validate=False)
    both = set(games.pairs[games.is_test]) & set(games.pairs[~games.is_test])
    assert len(both) == 16
    train, test = split_by_pair(games, (0.7, 0.3), seed=0)
    assert not set(train.pairs) & set(test.pairs) and len(train) + len(test) == 76


@pytest.mark.slow  # downloads 2.3 MB
@needs_humans
def test_the_source_distribution_gives_the_shared_file(tmp_path):
    command = ["pip", "download", "--no-deps", "--no-binary", ":all:", "overcooked-ai==1.1.0", "-d"]
    done = subprocess.run([sys.executable, "-m", *command, str(tmp_path)], capture_output=True)
    if done.returncode:
        pytest.skip(f"no package index: {done.stderr.decode()[-200:]}")
    games, shared = read_human_games(next(tmp_path.glob("*.tar.gz"))), load_recorded_games(SHARED)
    assert games.kitchens == shared.kitchens
    for name in ("layout", "starts", "lengths", "actions", "scores", "pairs", "is_test"):
        np.testing.assert_array_equal(getattr(games, name), getattr(shared, name))
