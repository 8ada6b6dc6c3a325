"""The human games of Carroll et al. (2019), read from overcooked-ai 1.1.0's source distribution.

Its two pickles hold one row per step of a pandas table. They are read without pandas, and without
calling any code that a pickle names: classes other than NumPy's arrays become inert objects.
Reading checks every recorded state and reward against a replay by the rules.
"""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.games.overcooked.kitchens import load_kitchen
from hanabi_rl.games.overcooked.recorded_games import (
    OvercookedDataError,
    RecordedGames,
    replay_games,
)
from hanabi_rl.games.overcooked.state import (
    COOK_TIME,
    DISH,
    FULL,
    ONION,
    SOUP,
    SOUPS_SHIFT,
    Scene,
    pack_scenes,
    unpack_scene,
)
from hanabi_rl.games.overcooked.transitions import INTERACT, OFFSETS

PARTS = {"clean_train_trials.pickle": False, "clean_test_trials.pickle": True}
"""The two files, and whether each is the test part."""
POINTS_PER_REWARD = 4
"""The table records 5 for a soup that scores 20."""
COLUMNS = (
    "cur_gameloop",
    "joint_action",
    "layout_name",
    "next_state",
    "reward",
    "state",
    "workerid_num",
)

_THINGS = {"onion": ONION, "dish": DISH, "soup": SOUP}
Table = dict[str, np.ndarray]


def is_human_games_source(path: Path) -> bool:
    """True for a source distribution (``.tar.gz``), a pickle, or a folder with the pickles."""
    return path.name.endswith((".tar.gz", ".pickle")) or any(
        (path / name).is_file() for name in PARTS
    )


def read_human_games(path: Path) -> RecordedGames:
    """Read and validate the games of a source distribution, of a folder with its pickles, or of one
    pickle; ordered by part, kitchen and pair.

    Raises:
        OvercookedDataError: a file that is not one of these, or the first game and step that the
            rules do not reproduce.
        FileNotFoundError: no such file.
    """
    source = str(path)
    if not path.exists():
        raise FileNotFoundError(f"expected human games, got {path}, which does not exist")
    tables = {name: _read_table(data, name) for name, data in _pickles(path).items()}
    if not tables:
        raise OvercookedDataError(f"expected {' and '.join(PARTS)}, got neither", source)
    rows_of: dict[tuple[bool, str, int], list[int]] = {}
    for name, table in tables.items():
        for row in range(len(table["state"])):
            key = PARTS[name], str(table["layout_name"][row]), int(table["workerid_num"][row])
            rows_of.setdefault(key, []).append(row)
    keys = sorted(rows_of)
    workers = sorted({worker for _, _, worker in keys})
    layouts = sorted({layout for _, layout, _ in keys})
    played = []
    for game, key in enumerate(keys):
        table = tables[next(name for name in tables if PARTS[name] == key[0])]
        played.append(_Recording(source, game, key[1], table, rows_of[key]))
    games = RecordedGames(
        kitchens=tuple(load_kitchen(layout).name for layout in layouts),
        layout=np.array([layouts.index(layout) for _, layout, _ in keys], np.uint8),
        starts=np.array([game.scene(0).places for game in played], np.uint8),
        lengths=np.array([len(game.actions) for game in played], np.int32),
        actions=np.concatenate([game.actions for game in played]),
        scores=np.array([game.rewards.sum() for game in played], np.int32),
        pairs=np.array([workers.index(worker) for _, _, worker in keys], np.int32),
        is_test=np.array([is_test for is_test, _, _ in keys]),
        rewards=np.concatenate([game.rewards for game in played]).astype(np.uint8),
    )
    for recording, replay in zip(played, replay_games(games), strict=True):
        recording.check(replay.states, replay.rewards)
    return games


class _Recording:
    """One game of the table."""

    def __init__(self, source: str, game: int, layout: str, table: Table, rows: list[int]) -> None:
        self.source, self.game, self.layout = source, game, layout
        try:
            self.kitchen = load_kitchen(layout)
        except ValueError as error:
            raise self._error(str(error)) from error
        order = np.argsort(table["cur_gameloop"][rows], kind="stable")
        self.rows = np.array(rows)[order]
        loops = table["cur_gameloop"][self.rows].astype(int)
        for step in np.flatnonzero(loops != np.arange(len(loops)))[:1]:
            raise self._error(f"cur_gameloop: expected {step}, got {loops[step]}", int(step))
        self.table = table
        self.rewards = (POINTS_PER_REWARD * table["reward"][self.rows]).astype(np.int32)
        self.actions = np.array(
            [self._actions(text, t) for t, text in enumerate(table["joint_action"][self.rows])],
            np.uint8,
        ).reshape(-1, 2)

    def _error(self, problem: str, step: int | None = None) -> OvercookedDataError:
        return OvercookedDataError(
            problem, self.source, game=self.game, kitchen=self.layout, step=step
        )

    def _actions(self, text: str, step: int) -> list[int]:
        actions = self._parse("joint_action", text, step)
        try:
            return [
                INTERACT if action == "INTERACT" else (*OFFSETS, (0, 0)).index(tuple(action))
                for action in actions
            ]
        except ValueError as error:
            raise self._error(f"joint_action: expected two actions, got {text}", step) from error

    def _parse(self, column: str, text: str, step: int) -> Any:
        try:
            plain = text.replace("'", '"').replace("False", "false").replace("True", "true")
            return json.loads(plain)
        except (ValueError, AttributeError) as error:
            raise self._error(f"{column}: expected a Python literal, got {text!r}", step) from error

    def scene(self, step: int, column: str = "state") -> Scene:
        """The recorded moment before a step (`next_state`: after it)."""
        record = self._parse(column, self.table[column][self.rows[step]], step)
        try:
            return _scene(record, set(self.kitchen.pots), step + (column == "next_state"))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self._error(f"{column}: expected a state, got {record}", step) from error

    def check(self, states: Any, rewards: np.ndarray) -> None:
        """Raises OvercookedDataError at the first step that the replay does not reproduce."""
        scenes = [self.scene(step) for step in range(len(self.rows))]
        scenes.append(self.scene(len(self.rows) - 1, "next_state"))
        recorded = pack_scenes(self.kitchen, scenes)
        soups = (1 << SOUPS_SHIFT) - 1  # the record does not count them
        same = [
            recorded.players == states.players & soups,
            recorded.pots == states.pots,
            recorded.counters_low == states.counters_low,
            recorded.counters_high == states.counters_high,
            np.append(True, self.rewards == rewards),
        ]
        for step in np.flatnonzero(~np.all(same, axis=0))[:1]:
            expected = vars(unpack_scene(self.kitchen, states, step))
            got = vars(scenes[step])
            names = [name for name in got if name != "soups" and got[name] != expected[name]]
            if names:
                problem = "; ".join(
                    f"{name}: expected {expected[name]} by the rules, got {got[name]}"
                    for name in names
                )
            else:
                problem = (
                    f"expected {rewards[step - 1]} points by the rules for the step before, got "
                    f"{self.rewards[step - 1]}"
                )
            raise self._error(problem, int(step))


def _scene(record: Any, pots: set[tuple[int, int]], step: int) -> Scene:
    players = record["players"]
    contents, things = {}, {}
    for thing in record["objects"].values():
        x, y = thing["position"]
        if (x, y) in pots:
            _, onions, time = thing["state"]
            # the record counts on after the soup is ready
            contents[x, y] = onions if onions < FULL else FULL + min(COOK_TIME, time)
        else:
            things[x, y] = _THINGS[thing["name"]]
    first, second = (tuple(player["position"]) for player in players)
    turns = [OFFSETS.index(tuple(player["orientation"])) for player in players]
    held = [player.get("held_object") for player in players]
    hands = [_THINGS[thing["name"]] if thing else 0 for thing in held]
    return Scene(
        (first, second), (turns[0], turns[1]), (hands[0], hands[1]), contents, things, step
    )


def _pickles(path: Path) -> dict[str, bytes]:
    """The pickles by name."""
    if path.is_dir():
        return {name: (path / name).read_bytes() for name in PARTS if (path / name).is_file()}
    if path.suffix == ".pickle":
        return {path.name: path.read_bytes()} if path.name in PARTS else {}
    found = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = Path(member.name).name
                file = archive.extractfile(member) if name in PARTS else None
                if file is not None:
                    found[name] = file.read()
    except tarfile.TarError as error:
        raise OvercookedDataError(f"expected a .tar.gz archive, got: {error}", str(path)) from error
    return found


class _Inert:
    """An object of a class that is not loaded: it keeps its arguments and state."""

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _TableUnpickler(pickle.Unpickler):
    """Loads NumPy arrays; any other class becomes `_Inert`."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return lambda _, shape, kind: np.ndarray(shape, kind)
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        return _Inert


def _read_table(data: bytes, source: str) -> Table:
    """The columns of a pickled pandas table."""
    try:
        blocks = _TableUnpickler(io.BytesIO(data)).load().state["_data"].state
        table = {
            str(name): values
            for block, items in zip(blocks[1], blocks[2], strict=True)
            for name, values in zip(items.args[1]["data"], block, strict=True)
        }
    except Exception as error:  # whatever damaged bytes make of unpickling
        raise OvercookedDataError(
            f"expected a pickled pandas table, got: {error}", source
        ) from error
    missing = [column for column in COLUMNS if column not in table]
    if missing:
        raise OvercookedDataError(f"expected column {missing[0]!r}, got {sorted(table)}", source)
    return table
