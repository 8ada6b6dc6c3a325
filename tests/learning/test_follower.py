"""E3T: whom the learner meets, and how its copy follows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY
from support.pairs import LITTLE
from support.small_ppo import make_ppo

from hanabi_rl.agents.noisy import mixed
from hanabi_rl.algorithms.e3t import E3TConfig, training
from hanabi_rl.learning import parallel
from hanabi_rl.learning.follower import FollowedPPO


def test_an_erring_partner_mixes_its_choice_with_all_legal_actions() -> None:
    """softmax(0, ln 3) = (1/4, 3/4); half of the time any of two."""
    logits = jnp.array([0.0, np.log(3.0), -1e10])
    legal = jnp.array([True, True, False])
    chances = jax.nn.softmax(mixed(logits, legal, 0.5))
    np.testing.assert_allclose(chances, [0.375, 0.625, 0.0], atol=1e-6)
    np.testing.assert_allclose(
        jax.nn.softmax(mixed(logits, legal, 0.0)), [0.25, 0.75, 0], atol=1e-6
    )


@pytest.mark.slow
def test_the_copy_moves_a_tenth_of_the_way_after_each_update() -> None:
    config = E3TConfig(
        **(vars(make_ppo(epochs=1).config) | {"network": LITTLE, "only_movers": True}), follow=0.1
    )
    ppo = training(config, None).ppo
    assert isinstance(ppo, FollowedPPO) and ppo.own_share == 1 / TINY.num_players
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    before = jax.device_get(learner)
    jax.tree.map(np.testing.assert_array_equal, before.follower, before.params["actor"])
    after, _, metrics = ppo.compile_update()(
        parallel.replicate(learner), parallel.shard(actors), None, None, None
    )
    assert float(metrics["partner_seats"]) == 1.0 and float(metrics["first_max_log_ratio"]) < 1e-4
    jax.tree.map(
        lambda copy, old, new: np.testing.assert_allclose(copy, 0.9 * old + 0.1 * new, atol=1e-6),
        after.follower,
        before.follower,
        after.params["actor"],
    )
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), after.follower, before.follower)
    assert max(jax.tree.leaves(moved)) > 0
