"""`GameRecords`: files, parts, kitchens, replay, groups, start states, errors."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.overcooked import recorded_games
from support.tiny_games import Dice

from hanabi_rl.data.game_records import (
    GameRecords,
    load_game_records,
    split_by_group,
    start_states_from_records,
)
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import (
    OvercookedDataError,
    RecordedGames,
    replay_games,
    save_recorded_games,
)

KITCHENS = ("cramped_room", "forced_coordination")
STAY = 4


@pytest.fixture(scope="module")
def games() -> RecordedGames:
    """Games 0, 2, 4 and 6 in the first kitchen, all others in the second."""
    return recorded_games(
        [60, 50, 45, 50, 70, 50, 60, 50],
        KITCHENS,
        pairs=[3, 0, 3, 0, 5, 1, 9, 1],
        is_test=[False, False, True, False, False, True, True, False],
    )


@pytest.fixture(scope="module")
def path(games: RecordedGames, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("games") / "games.safetensors"
    save_recorded_games(file, games)
    return file


@pytest.mark.parametrize(
    ("kitchen", "option", "chosen"),
    [
        ("cramped_room", "", [0, 2, 4, 6]),
        ("cramped_room", "?part=train", [0, 4]),
        ("cramped_room", "?part=test", [2, 6]),
        ("forced_coordination", "", [1, 3, 5, 7]),
        ("forced_coordination", "?part=test", [5]),
    ],
)
def test_loads_part_and_kitchen(
    kitchen: str, option: str, chosen: list[int], games: RecordedGames, path: Path
) -> None:
    rules = Overcooked(kitchen=kitchen)
    records = load_game_records([f"{path}{option}"], rules)
    assert len(records) == len(chosen) and records.rules == rules
    assert records.replay_rules == rules.replace(horizon=games.lengths[chosen].max())
    np.testing.assert_array_equal(records.groups, games.pairs[chosen])
    np.testing.assert_array_equal(records.lengths, games.lengths[chosen])
    played = records.is_played
    for row, game in enumerate(chosen):
        np.testing.assert_array_equal(
            records.actions[row, played[row]], games.actions[games.steps_of(game)]
        )


def test_replay_equals_recorded_games(games: RecordedGames, path: Path) -> None:
    records = load_game_records([str(path)], Overcooked(last_action=True))
    states = records.states()
    replays = replay_games(games)
    assert any(replays[game].rewards.any() for game in (0, 4))
    for row, game in enumerate((0, 2, 4, 6)):
        length = games.lengths[game]
        for name in ("players", "pots", "counters_low", "counters_high"):
            np.testing.assert_array_equal(
                getattr(states, name)[:length, row], getattr(replays[game].states, name)[:-1]
            )
        actions = games.actions[games.steps_of(game)]
        np.testing.assert_array_equal(states.last[0, row], STAY)
        np.testing.assert_array_equal(states.last[1:length, row], actions[:-1])


def _observations(rules: Any, state: Any, action: jax.Array) -> jax.Array:
    del action
    return rules.observe(state)


def test_last_steps_are_those_of_the_longest_record(path: Path) -> None:
    seen = load_game_records([str(path)], Overcooked()).read(_observations)
    last = seen[..., 25]  # 1 in the last 40 of 70 steps, not of 400
    assert last.shape[:3] == (70, 4, 2)
    np.testing.assert_array_equal(
        last, np.broadcast_to((70 - np.arange(70) < 40)[:, None, None, None, None], last.shape)
    )


def test_joined_files(games: RecordedGames, path: Path, tmp_path: Path) -> None:
    other = recorded_games([20, 30], pairs=[0, 3], seed=1)
    save_recorded_games(tmp_path / "other.safetensors", other)
    names = [f"{path}?part=train", str(tmp_path / "other.safetensors"), str(path)]
    records = load_game_records(names, Overcooked())
    assert records.lengths.tolist() == [60, 70, 20, 30, 60, 45, 70, 60]
    assert records.groups.tolist() == [3, 5, 6, 9, 10 + 3, 10 + 3, 10 + 5, 10 + 9]
    assert records.actions.shape == (8, 70, 2) and records.replay_rules.horizon == 70
    np.testing.assert_array_equal(records.actions[3, :30], other.actions[other.steps_of(1)])
    assert not records.actions[3, 30:].any()
    states, replays = records.states(), replay_games(other)
    np.testing.assert_array_equal(states.players[:30, 3], replays[1].states.players[:-1])


def test_select_and_content(path: Path) -> None:
    records = load_game_records([str(path)], Overcooked())
    chosen = records.select([2, 0])
    assert chosen.lengths.tolist() == [70, 60] and chosen.groups.tolist() == [5, 3]
    np.testing.assert_array_equal(chosen.actions[0], records.actions[2])
    np.testing.assert_array_equal(chosen.starts.players, records.starts.players[[2, 0]])
    assert records.select(records.lengths == 60).groups.tolist() == [3, 9]


def test_split_by_group(path: Path) -> None:
    records = load_game_records([str(path)], Overcooked())  # groups 3, 3, 5, 9
    held = set()
    for seed in range(20):
        train, validation = split_by_group(records, 0.2, seed)
        (group,) = set(validation.groups.tolist())
        held.add(group)
        assert sorted([*train.groups, *validation.groups]) == [3, 3, 5, 9]
        assert group not in train.groups
    assert held == {3, 5, 9}
    again = split_by_group(records, 0.2, 7)[1]
    assert again.groups.tolist() == split_by_group(records, 0.2, 7)[1].groups.tolist()
    assert len(set(split_by_group(records, 0.67, 0)[1].groups.tolist())) == 2
    with pytest.raises(ValueError, match="at least two groups of players, got 1"):
        split_by_group(records.select([0, 1]), 0.2, 0)


@pytest.mark.parametrize(
    ("suffix", "kitchen", "message"),
    [
        ("?part=val", "cramped_room", r"--val .*part=val: expected \?part=train or \?part=test, "),
        ("?split=test", "cramped_room", r"got \?split=test"),
        ("?", "coordination_ring", "--val .*: expected games in coordination_ring, got none"),
    ],
)
def test_errors_of_names(suffix: str, kitchen: str, message: str, path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        load_game_records([f"{path}{suffix}"], Overcooked(kitchen=kitchen), "--val")


def test_errors_of_files(path: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected a file of games, got .*none"):
        load_game_records([str(tmp_path / "none.safetensors")], Overcooked())
    (tmp_path / "text").write_text("no games")
    with pytest.raises(OvercookedDataError, match="expected a safetensors file"):
        load_game_records([str(tmp_path / "text")], Overcooked())
    with pytest.raises(ValueError, match="expected Hanabi or overcooked, .*, got dice"):
        load_game_records([str(path)], Dice())
    records = load_game_records([str(path)], Overcooked())
    with pytest.raises(ValueError, match=r"x: .*overcooked, horizon 9.*overcooked, horizon 400"):
        records.check_rules(Overcooked(horizon=9), "x: ")


def _short(records: GameRecords, horizon: int) -> GameRecords:
    import dataclasses

    return dataclasses.replace(records, rules=records.rules.replace(horizon=horizon))


def test_start_states(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = load_game_records([str(path)], Overcooked(last_action=True))
    starts: Any = start_states_from_records(records, 0.25)
    assert float(starts.prob) == 0.25
    replayed = records.states()
    expected = [
        (t, game)
        for t in range(70)
        for game, length in enumerate([60, 45, 70, 60])
        if t + 4 <= length
    ]
    steps, rows = np.array(expected).T
    jax.tree.map(
        lambda got, of: np.testing.assert_array_equal(got, of[steps, rows]), starts.states, replayed
    )
    of_short: Any = start_states_from_records(_short(records, 10), 0.5)  # a game of ten steps
    assert sorted(set(of_short.states.steps.tolist())) == list(range(7))
    with pytest.raises(ValueError, match="starts: expected games of 4 steps or more, got 4 of"):
        start_states_from_records(_short(records, 3), 0.5)
    monkeypatch.setattr("hanabi_rl.data.game_records.MAX_STATES", 30)
    few: Any = start_states_from_records(records, 0.5, seed=1)
    assert few.states.players.shape == (30,)
    assert few.states.last.shape == (30, 2)
