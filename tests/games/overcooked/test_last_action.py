"""`Overcooked(last_action=True)`: the game without it, and six channels of the own last action."""

import jax
import numpy as np
from support.compiled import Compiled

from hanabi_rl.games.check import check_env
from hanabi_rl.games.overcooked import Overcooked

STAY = 4


def test_channels_follow_the_own_actions() -> None:
    plain, game = (
        Overcooked(kitchen="counter_circuit", horizon=60, last_action=x) for x in (False, True)
    )
    keys = np.zeros((7, 2), np.uint32)
    assert game.obs_shape == (*plain.obs_shape[:2], 32) and plain.obs_shape[2] == 26
    rng, actions = np.random.default_rng(0), np.full((7, 2), STAY)
    both = Compiled(plain), Compiled(game)
    states = [rules.start(keys) for rules in both]
    seats = np.array([0, 1, 1, 0, 1, 0, 1])
    for _ in range(25):
        alone, obs = (np.asarray(rules.observe(s)) for rules, s in zip(both, states, strict=True))
        assert obs.shape == (7, 2, *game.obs_shape) and obs.dtype == np.uint8
        np.testing.assert_array_equal(obs[..., :26], alone)
        expected = np.eye(6, dtype=np.uint8)[actions][:, :, None, None]
        np.testing.assert_array_equal(obs[..., 26:], np.broadcast_to(expected, obs[..., 26:].shape))
        np.testing.assert_array_equal(
            both[1].observe_seat(states[1], seats), obs[np.arange(7), seats]
        )
        actions = rng.integers(6, size=(7, 2))
        after = [rules.step(s, actions, keys) for rules, s in zip(both, states, strict=True)]
        states = [state for state, _ in after]
        np.testing.assert_array_equal(after[0][1].reward, after[1][1].reward)
        np.testing.assert_array_equal(after[0][1].shaped, after[1][1].shaped)


def test_new_games_begin_with_stay() -> None:
    env = Overcooked(horizon=3, last_action=True).make_env()
    check_env(env, num_envs=16, steps=20)
    state = jax.jit(env.reset, static_argnums=1)(jax.random.key(0), 2)
    step = jax.jit(env.step)
    seen = []
    for _ in range(5):
        seen.append(np.asarray(state.game.last))
        state, _ = step(state, np.array([[0, 5], [1, 2]]))
    played = [[0, 5], [1, 2]]
    stay = [[STAY, STAY]] * 2
    np.testing.assert_array_equal(seen, [stay, played, played, stay, played])
