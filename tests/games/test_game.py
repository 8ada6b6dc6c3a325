"""`Game` and `GameEnv`: auto-reset, streams, starts, scores; `check_env` accepts every game and
names the faults of broken ones."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.tiny_games import Dice, DiceState, Signals

from hanabi_rl.games.check import check_env
from hanabi_rl.games.game import GameEnv, Outcome, StartStates
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.jaxmarl import JaxMARLGame
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.games.registry import game_from_text, game_label, game_to_text

ENV = Dice().make_env()
STEP, RESET = jax.jit(ENV.step), jax.jit(ENV.reset, static_argnums=1)


@pytest.mark.parametrize(
    "game",
    [Dice(), Signals(), Signals(delay=2), Overcooked(horizon=7), JaxMARLGame()],
    ids=lambda game: game.name,
)
def test_check_env_accepts(game: Any) -> None:
    check_env(game.make_env(), num_envs=16, steps=28)


class Late(Dice):
    def step(self, state: Any, action: Any, keys: Any) -> Any:
        after, outcome = super().step(state, action, keys)
        return after, outcome.replace(done=after.time >= self.horizon + 1)


class LocalIndex(GameEnv):
    def reset(self, key: Any, num_envs: int, first_env: Any = 0) -> Any:
        return super().reset(key, num_envs)


class OtherSeat(Dice):
    def observe_seat(self, state: Any, seat: Any) -> Any:
        return super().observe_seat(state, (seat + 1) % 3)


class Forgets(Dice):
    def stored(self, state: Any) -> Any:
        return state.replace(time=0 * state.time)


class NoAction(Dice):
    def legal(self, state: Any) -> Any:
        return super().legal(state) & (state.values[..., None] != 3)


class TeamShaped(Dice):
    def step(self, state: Any, action: Any, keys: Any) -> tuple[Any, Outcome]:
        after, outcome = super().step(state, action, keys)
        return after, outcome.replace(shaped=outcome.reward)


class NoReset(GameEnv):
    def step(self, env_state: Any, action: Any, starts: Any = None) -> Any:
        after, timestep = super().step(env_state, action, starts)
        return after.replace(score=env_state.score + timestep.reward), timestep


class StaleStart(GameEnv):
    """A new game starts from the last actions."""

    def step(self, env_state: Any, action: Any, starts: Any = None) -> Any:
        after, timestep = super().step(env_state, action, starts)
        first = timestep.done[:, None] & (action == 3)
        values = jnp.where(first, action, after.game.values)
        return after.replace(game=after.game.replace(values=values)), timestep


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Late().make_env(), "a game of over 9 steps"),
        (LocalIndex(Dice()), "shard"),
        (OtherSeat().make_env(), "observe_seat"),
        (Forgets().make_env(), "observe of the stored state"),
        (NoAction().make_env(), "a legal action in every row"),
        (TeamShaped().make_env(), "shaped: type and shape"),
        (NoReset(Dice()), "rewards of the current game"),
        (StaleStart(Dice()), "start of game"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_check_env_rejects(env: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_env(env, num_envs=16, steps=20)


def play(starts: Any = None, steps: int = 40, num_envs: int = 64) -> tuple[Any, Any, Any]:
    """States before each step, and timesteps; NumPy leaves [T, N, ...]."""
    state, rng, seen, made = (
        RESET(jax.random.key(5), num_envs),
        np.random.default_rng(1),
        [],
        [],
    )
    for _ in range(steps):
        seen.append(state)
        action = rng.integers(0, 4, (num_envs, 3), np.int32)
        state, timestep = STEP(state, action, starts)
        made.append(timestep)
    return state, *(jax.tree.map(lambda *xs: np.stack(xs), *x) for x in (seen, made))


def test_score_is_the_sum_of_the_rewards_of_a_game() -> None:
    _, states, timesteps = play()
    assert timesteps.done.sum() > 100
    total = np.zeros(64)
    for t in range(40):
        np.testing.assert_array_equal(states.score[t], total)
        total = total + timesteps.reward[t]
        np.testing.assert_array_equal(timesteps.score[t], total)
        total = np.where(timesteps.done[t], 0, total)


def test_auto_reset_starts_different_games() -> None:
    _, states, timesteps = play()
    first = np.concatenate([np.ones((1, 64), bool), timesteps.done[:-1]])
    np.testing.assert_array_equal(states.game.time == 0, first)
    np.testing.assert_array_equal(states.game_index[1:], np.cumsum(timesteps.done, axis=0)[:-1])
    luck = states.game.luck[first]
    assert len(set(luck.tolist())) == len(luck)  # of environments and of games
    counts = np.bincount(states.game.values[first].ravel(), minlength=8)
    assert (abs(counts / counts.sum() - 1 / 8) < 5 * np.sqrt(7 / 64 / counts.sum())).all()


def recorded(values: list[int]) -> DiceState:
    number = np.asarray(values, np.uint32)
    dice = np.full((len(values), 3), 100, np.int32) + number[:, None].astype(np.int32)
    return DiceState(dice, np.full(len(values), 4, np.int32), number)


def test_new_games_start_in_the_current_starts() -> None:
    """One compiled step; the recorded states are arguments."""
    for values in ([1, 2, 3], [7, 8, 9]):
        after, _, timesteps = play(StartStates(recorded(values), jnp.float32(1.0)), steps=1)
        new = timesteps.done[0]
        assert new.any() and set(np.asarray(after.game.luck)[new].tolist()) <= set(values)
        np.testing.assert_array_equal(after.game.time, np.where(new, 4, 1))


def test_starts_are_sampled_at_their_probability() -> None:
    starts = StartStates(recorded([1, 2]), jnp.float32(0.25))
    _, states, timesteps = play(starts, num_envs=512, steps=20)
    new = timesteps.done[:-1]
    luck = states.game.luck[1:][new]
    counts = np.array([(luck == 1).sum(), (luck == 2).sum()])
    assert (abs(counts - new.sum() / 8) < 5 * np.sqrt(new.sum() * 7 / 64)).all()


@pytest.mark.parametrize(
    ("game", "text", "label"),
    [
        (Rules(), "hanabi", "2 players"),
        (Rules(num_players=3), "hanabi", "3 players"),
        (
            Rules(num_players=3, num_ranks=2, hand_size=3, num_cards_of_rank=(2, 2)),
            "hanabi?num_ranks=2&hand_size=3&num_cards_of_rank=[2,2]",
            None,
        ),
        (
            Rules(num_ranks=2, hand_size=3),
            "hanabi?num_ranks=2&hand_size=3",
            "2 players, 2 ranks and hands of 3",
        ),
        (Overcooked(kitchen="large_room"), "overcooked:large_room", "overcooked:large_room"),
    ],
)
def test_text_of_a_game(game: Any, text: str, label: str | None) -> None:
    """The number of players of Hanabi, which commands know from agents, is not in the text."""
    assert game_to_text(game) == text
    default = Rules(num_players=game.num_players) if isinstance(game, Rules) else None
    assert game_from_text(text, default) == game
    assert label is None or game_label(game) == label


def test_games_are_equal_by_their_parameters() -> None:
    assert Dice() == Dice(horizon=9) and Dice().replace(horizon=3) == Dice(horizon=3)
    assert Dice().differing_fields(Dice(horizon=3)) == ("horizon",)
    assert Dice().differing_fields(Signals()) == ("name",)
    assert Dice(horizon=3).difference_from(Dice()) == "dice, horizon 3"
    assert dataclasses.asdict(Dice()) == {"name": "dice", "horizon": 9}


def test_a_fresh_state_can_be_donated() -> None:
    env_state, action = ENV.reset(jax.random.key(0), 4), jnp.zeros((4, 3), jnp.int32)
    expected = STEP(env_state, action)
    donated = jax.jit(ENV.step, donate_argnums=0)(ENV.reset(jax.random.key(0), 4), action)
    jax.tree.map(np.testing.assert_array_equal, expected, donated)
