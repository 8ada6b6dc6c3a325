"""Prioritised partners: the rule, running means, and lanes that change hands."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.policies import network_policy
from support.small_ppo import NETWORK, make_ppo

from hanabi_rl.learning import parallel
from hanabi_rl.learning.partners import stack_policies
from hanabi_rl.learning.population import PopulationPPO, priorities, remembered


@pytest.mark.parametrize(
    ("beta", "expected"),
    [
        (0.0, (0.25, 0.25, 0.25, 0.25)),
        (0.5, (0.2406, 0.2947, 0.2947, 0.1701)),
        (1.0, (2 / 9, 3 / 9, 3 / 9, 1 / 9)),
        (1.5, (0.1989, 0.3654, 0.3654, 0.0703)),
    ],
)
def test_the_rule_on_the_specifications_numbers(beta, expected):
    found = priorities(jnp.array([4.0, 2.0, 2.0, 8.0]), beta)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_partner_that_was_never_met_comes_before_the_worst():
    found = priorities(jnp.array([4.0, jnp.nan, 0.0]), 1.0)
    np.testing.assert_allclose(found, np.array([1, 3, 2]) / 6, atol=1e-6)


def test_running_means_are_of_partners_not_of_lanes():
    """Lanes 0 and 2 play with partner 2: 3 games with 12 points; lane 1 with partner 0: no game."""
    before = jnp.array([5.0, 6.0, jnp.nan, 1.0])
    members, scores = jnp.array([2, 0, 2, 3]), jnp.array([8.0, 0.0, 4.0, 10.0])
    found = remembered(before, members, scores, jnp.array([2.0, 0.0, 1.0, 5.0]))
    np.testing.assert_allclose(found, [5.0, 6.0, 4.0, 0.95 * 1.0 + 0.05 * 2.0], rtol=1e-6)


def test_a_game_counts_for_the_partner_who_held_a_seat_in_it():
    """Two lanes, each its own; of five games that end, one was the learner's alone."""
    done = jnp.array([[True, True, False, True], [True, False, False, True]])
    score = jnp.array([[3.0, 4.0, 9.0, 5.0], [7.0, 9.0, 9.0, 6.0]])
    learns = jnp.ones((2, 4, 2), bool).at[:, :, 1].set(False).at[1, 0].set(True)
    rollout: Any = SimpleNamespace(
        transition=SimpleNamespace(done=done, score=score), episode=SimpleNamespace(learns=learns)
    )
    ppo = PopulationPPO(make_ppo().config, NETWORK, lanes=2, beta=1.0, redraw_every=3)
    found = jax.vmap(lambda _: ppo.team_metrics(rollout), axis_name=parallel.AXIS)(jnp.zeros(1))
    np.testing.assert_array_equal(found["lane_scores"][0], [3.0, 4.0 + 5.0 + 6.0])
    np.testing.assert_array_equal(found["lane_games"][0], [1, 3])


@pytest.mark.slow
def test_lanes_are_drawn_again_now_and_then_and_begin_fresh_games():
    plain = make_ppo()
    ppo = PopulationPPO(plain.config, NETWORK, lanes=4, beta=20.0, redraw_every=3)
    population = stack_policies([network_policy(ppo.env.rules, seed=seed) for seed in range(4)])
    learner, actors = jax.jit(ppo.init)(jax.random.key(0), None, population)
    np.testing.assert_array_equal(learner.members, range(4))
    actors = actors.replace(reset=jnp.zeros_like(actors.reset))
    learner = learner.replace(returns=jnp.array([9.0, 1.0, 8.0, 7.0]))
    redraw = jax.jit(ppo.redraw)

    same, untouched = redraw(learner.replace(update=jnp.int32(4)), actors)
    np.testing.assert_array_equal(same.members, learner.members)
    assert not np.asarray(untouched.reset).any()
    np.testing.assert_array_equal(untouched.env.games, actors.env.games)

    other, fresh = redraw(learner.replace(update=jnp.int32(3)), actors)
    np.testing.assert_array_equal(other.members, 1)  # (4/3)^20 = 315 to 1
    changed = np.arange(ppo.config.num_envs) % 4 != 1
    np.testing.assert_array_equal(fresh.reset, changed)
    np.testing.assert_array_equal(fresh.env.games, np.where(changed, 1, 0))
    dealt = np.asarray(fresh.env.game.deck != actors.env.game.deck).reshape(len(changed), -1)
    np.testing.assert_array_equal(dealt.any(axis=1), changed)
