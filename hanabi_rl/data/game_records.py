"""`GameRecords`: recorded games of a `Game` as first states and actions, and files of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.game import Game, StartStates, step_words
from hanabi_rl.games.hanabi.start_states import MAX_STATES
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import load_recorded_games, start_states
from hanabi_rl.storage.jax_settings import with_fixed_settings

PyTree = Any
PARTS = ("train", "test")
"""Parts of a file, `FILE?part=test`, as its source divides it."""


@dataclasses.dataclass(frozen=True, eq=False)
class GameRecords:
    """``N`` games of at most ``T`` steps and ``P`` players, as NumPy arrays."""

    rules: Game
    """The game, for policies."""
    replay_rules: Game
    """The same game with the length of the records, by which they are replayed and observed."""
    starts: PyTree
    """[N]: first states."""
    actions: np.ndarray
    """uint8 or uint16 [N, T, P]; any action after the end of a game."""
    lengths: np.ndarray
    """int32[N]: steps of each game."""
    groups: np.ndarray
    """int32[N]: players; games of one group are not independent."""
    human_seats: np.ndarray | None = None
    """bool[N, P]: only these seats are cloned and predicted; None: every seat."""
    keys: np.ndarray | None = None
    """uint32[N, 2]: random words of each game, see `step_words`; None: of a game whose steps are
    deterministic."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def is_played(self) -> np.ndarray:
        """bool[N, T]: the step is before the end of the game."""
        return np.arange(self.actions.shape[1]) < self.lengths[:, None]

    @functools.cached_property
    def is_counted(self) -> np.ndarray:
        """bool[N, T, P]: decisions that are cloned and predicted, those of acting players."""
        played = self.is_played[:, :, None] & self.read(_acting).swapaxes(0, 1)
        return played if self.human_seats is None else played & self.human_seats[:, None]

    @functools.cached_property
    def num_legal(self) -> np.ndarray:
        """int32[N, T, P]: number of legal actions."""
        return np.asarray(self.read(_num_legal)).swapaxes(0, 1)

    @property
    def seat_timesteps(self) -> np.ndarray:
        """int64[N]: timesteps of each game, summed over its counted seats, acting or not."""
        seats = self.actions.shape[2] if self.human_seats is None else self.human_seats.sum(axis=1)
        return self.lengths.astype(np.int64) * seats

    def select(self, index: Sequence[int] | np.ndarray) -> GameRecords:
        """Games at `index` (integers or booleans), in that order."""
        chosen = np.arange(len(self))[np.asarray(index)]
        return dataclasses.replace(
            self,
            starts=jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], self.starts),
            actions=self.actions[chosen],
            lengths=self.lengths[chosen],
            groups=self.groups[chosen],
            human_seats=None if self.human_seats is None else self.human_seats[chosen],
            keys=None if self.keys is None else self.keys[chosen],
        )

    @property
    def words(self) -> np.ndarray:
        """`keys`, zeros if the steps are deterministic."""
        return np.zeros((len(self), 2), np.uint32) if self.keys is None else self.keys

    def check_rules(self, rules: Any, where: str = "") -> None:
        """Raise ValueError for games of other rules."""
        if self.rules != rules:
            raise ValueError(
                f"{where}expected games of {rules.difference_from(self.rules)}, got games of "
                f"{self.rules.difference_from(rules)}"
            )

    @with_fixed_settings
    def read(self, function: Callable[[Game, PyTree, jax.Array], Any]) -> Any:
        """Replay the games: `function(game, states [N], actions [N, P])` before every step, leaves
        [T, N, ...]. It is compiled, so it must be a function of a module or cached."""
        return jax.device_get(
            _read(function, self.replay_rules, self.starts, self.actions, self.words)
        )

    def states(self) -> PyTree:
        """States before every step, leaves [T, N, ...]."""
        return self.read(_state)

    def content(self) -> tuple[Any, ...]:
        """Arrays that identify the games."""
        seats = () if self.human_seats is None else (self.human_seats,)
        return self.starts, self.actions, self.lengths, self.groups, *seats


def _state(rules: Game, state: PyTree, action: jax.Array) -> PyTree:
    del action
    return rules.stored(state)


def _acting(rules: Game, state: PyTree, action: jax.Array) -> jax.Array:
    del action
    return rules.acting(state)


def _num_legal(rules: Game, state: PyTree, action: jax.Array) -> jax.Array:
    del action
    return rules.legal(state).sum(axis=-1)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _read(
    function: Callable[..., Any], rules: Game, starts: PyTree, actions: jax.Array, keys: jax.Array
) -> Any:
    def one_step(state: PyTree, now: tuple[jax.Array, jax.Array]) -> tuple[PyTree, Any]:
        t, action = now
        after = rules.step(state, action.astype(jnp.int32), step_words(keys, t))[0]
        return after, function(rules, state, action)

    first = jax.tree.map(jnp.asarray, starts)
    steps = jnp.arange(actions.shape[1]), jnp.swapaxes(jnp.asarray(actions), 0, 1)
    return jax.lax.scan(one_step, first, steps)[1]


def load_game_records(names: Sequence[str], rules: Any, flag: str = "--data") -> GameRecords:
    """Load the games of `rules` in files, each `FILE` or `FILE?part=train|test`.

    Raises:
        ValueError: no games of this game in a file, an unknown part, or a game for which there is
            no format of files (`OvercookedDataError`: invalid games).
    """
    if not isinstance(rules, Overcooked):
        raise ValueError(
            f"{flag}: expected Hanabi or overcooked, of which there are files, got {rules.name}"
        )
    return join_records([_load(name, rules, flag) for name in names])


def _load(name: str, rules: Overcooked, flag: str) -> GameRecords:
    path, _, option = name.partition("?")
    part = option.removeprefix("part=")
    if option and part not in PARTS:
        raise ValueError(f"{flag} {name}: expected ?part=train or ?part=test, got ?{option}")
    games = load_recorded_games(Path(path).expanduser())
    chosen = np.array([games.kitchen_of(game).name == rules.kitchen for game in range(len(games))])
    if option:
        chosen &= games.is_test == (part == "test")
    if not chosen.any():
        raise ValueError(f"{flag} {name}: expected games in {rules.kitchen}, got none")
    games = games.select(chosen)
    longest = int(games.lengths.max())
    actions = np.zeros((len(games), longest, rules.num_players), np.uint8)
    for game, length in enumerate(games.lengths):
        actions[game, :length] = games.actions[games.steps_of(game)]
    return GameRecords(
        rules=rules,
        replay_rules=rules.replace(horizon=longest),
        starts=rules.of_core(start_states(rules.layout, games.starts)),
        actions=actions,
        lengths=games.lengths,
        groups=games.pairs,
        human_seats=games.human_seats,
    )


def join_records(parts: Sequence[GameRecords]) -> GameRecords:
    """All games of several sources of one kind; groups of different sources are different."""
    longest = max(part.actions.shape[1] for part in parts)
    pad = [((0, 0), (0, longest - part.actions.shape[1]), (0, 0)) for part in parts]
    actions = [np.pad(part.actions, edges) for part, edges in zip(parts, pad, strict=True)]
    offsets = np.cumsum([0, *(int(part.groups.max()) + 1 for part in parts[:-1])])
    horizons = [part.replay_rules for part in parts]
    seats = [part.human_seats for part in parts]
    if any(of_part is not None for of_part in seats):
        every = [np.ones((len(part), part.rules.num_players), bool) for part in parts]
        pairs = zip(seats, every, strict=True)
        human_seats = np.concatenate([own if own is not None else all_of for own, all_of in pairs])
    else:
        human_seats = None
    return GameRecords(
        rules=parts[0].rules,
        replay_rules=max(horizons, key=lambda rules: rules.max_steps),
        starts=jax.tree.map(lambda *x: np.concatenate(x), *(part.starts for part in parts)),
        actions=np.concatenate(actions),
        lengths=np.concatenate([part.lengths for part in parts]),
        groups=np.concatenate(
            [part.groups + offset for part, offset in zip(parts, offsets, strict=True)]
        ).astype(np.int32),
        human_seats=human_seats,
        keys=None if parts[0].keys is None else np.concatenate([part.words for part in parts]),
    )


def split_by_group(
    records: GameRecords, fraction: float, seed: int
) -> tuple[GameRecords, GameRecords]:
    """Random parts of the games, the second with about `fraction` of the groups, at least one; no
    group is in both. Raises ValueError for fewer than two groups."""
    groups = np.random.default_rng(seed).permutation(np.unique(records.groups))
    if len(groups) < 2:
        raise ValueError(f"expected games of at least two groups of players, got {len(groups)}")
    held = groups[: max(1, round(fraction * len(groups)))]
    is_held = np.isin(records.groups, held)
    return records.select(~is_held), records.select(is_held)


def start_states_from_records(
    records: GameRecords, share: float, *, min_steps_left: int = 4, seed: int = 0
) -> StartStates:
    """Positions of recorded games with at least `min_steps_left` further steps in the record and
    in the game.

    Args:
        share: see `StartStates.prob`.
        seed: selects `MAX_STATES` of more positions.

    Raises:
        ValueError: no game is that long.
    """
    ends = np.minimum(records.lengths, records.rules.max_steps) - min_steps_left
    steps, games = np.nonzero(np.arange(records.actions.shape[1])[:, None] <= ends)
    if not len(steps):
        raise ValueError(
            f"starts: expected games of {min_steps_left} steps or more, got {len(records)} of less"
        )
    if len(steps) > MAX_STATES:
        chosen = np.random.default_rng(seed).choice(len(steps), MAX_STATES, replace=False)
        steps, games = steps[np.sort(chosen)], games[np.sort(chosen)]
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf[steps, games]), records.states())
    return StartStates(states=states, prob=jnp.float32(share))
