"""Prioritized partners: rule, running means, env groups."""

from types import SimpleNamespace
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.policies import network_policy
from support.small_ppo import NETWORK, make_ppo

from hanabi_rl.learning import parallel
from hanabi_rl.learning.partner_population import PartnerPopulation, stack_policies
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.prioritized_partners import (
    PrioritizedPartnerPPO,
    PrioritizedPartnerState,
    moving_averages,
    rank_priorities,
)
from hanabi_rl.learning.rollout import TrainContext


@pytest.mark.parametrize(
    ("beta", "expected"),
    [
        (0.0, (0.25, 0.25, 0.25, 0.25)),
        (0.5, (0.2406, 0.2947, 0.2947, 0.1701)),
        (1.0, (2 / 9, 3 / 9, 3 / 9, 1 / 9)),
        (1.5, (0.1989, 0.3654, 0.3654, 0.0703)),
    ],
)
def test_priority_rule_matches_specification(beta, expected):
    found = ranked(np.array([4.0, 2.0, 2.0, 8.0]), beta)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_untried_partner_ranks_first():
    found = ranked(np.array([4.0, np.nan, 0.0]), 1.0)
    np.testing.assert_allclose(found, np.array([1, 3, 2]) / 6, atol=1e-6)


def test_running_means_are_per_partner():
    """Groups 0 and 2: partner 2, 3 games with 12 points; group 1: partner 0, no game."""
    before = np.array([5.0, 6.0, np.nan, 1.0])
    members, scores = np.array([2, 0, 2, 3]), np.array([8.0, 0.0, 4.0, 10.0])
    found = jax.jit(moving_averages)(before, members, scores, np.array([2.0, 0.0, 1.0, 5.0]))
    np.testing.assert_allclose(found, [5.0, 6.0, 4.0, 0.95 * 1.0 + 0.05 * 2.0], rtol=1e-6)


def test_game_counts_for_seated_partner():
    """Two env groups; of five games that end, one was the learner's alone."""
    done = np.array([[True, True, False, True], [True, False, False, True]])
    score = np.array([[3.0, 4.0, 9.0, 5.0], [7.0, 9.0, 9.0, 6.0]])
    learns = np.ones((2, 4, 2), bool)
    learns[:, :, 1], learns[1, 0] = False, True
    rollout: Any = SimpleNamespace(
        transition=SimpleNamespace(done=done, score=score),
        episode=SimpleNamespace(is_learner=learns),
    )
    ppo = PrioritizedPartnerPPO(
        make_ppo().config, NETWORK, num_env_groups=2, beta=1.0, resample_every=3
    )
    metrics = jax.vmap(lambda _: ppo.env_group_metrics(rollout), axis_name=parallel.AXIS)
    found = jax.device_get(jax.jit(metrics)(np.zeros(1)))
    np.testing.assert_array_equal(found["env_group_scores"][0], [3.0, 4.0 + 5.0 + 6.0])
    np.testing.assert_array_equal(found["env_group_games"][0], [1, 3])


def test_missing_return_uses_lowest_or_mean():
    """The mean of 9 and 1 is 5: rank 2 of 9, 5, 1."""
    returns = np.array([9.0, np.nan, 1.0])
    np.testing.assert_allclose(ranked(returns, 1.0, "lowest"), np.array([1, 3, 2]) / 6, rtol=1e-6)
    np.testing.assert_allclose(ranked(returns, 1.0, "mean"), np.array([1, 2, 3]) / 6, rtol=1e-6)
    two = np.array([np.nan, 4.0, np.nan])
    np.testing.assert_allclose(ranked(two, 1.0, "mean"), np.full(3, 1 / 3), rtol=1e-6)
    for unseen in ("lowest", "mean"):  # no returns at the start
        none = ranked(np.full(3, np.nan), 1.0, unseen)
        np.testing.assert_allclose(none, np.full(3, 1 / 3), rtol=1e-6)


ranked = jax.jit(rank_priorities, static_argnums=(1, 2))


def population(
    groups: int, **options: Any
) -> tuple[PrioritizedPartnerPPO, PrioritizedPartnerState]:
    """Learner with one env group per partner, with returns 9, 1, 8, ..."""
    ppo = PrioritizedPartnerPPO(make_ppo().config, NETWORK, num_env_groups=groups, **options)
    learner = PrioritizedPartnerState(
        params={},
        opt_state=(),
        update=jnp.int32(5),
        key=jax.random.key(3),
        returns=jnp.array([9.0, 1.0, 8.0, 7.0])[:groups],
        group_partner=jnp.arange(groups),
    )
    return ppo, learner


def test_env_group_plays_with_sampled_partner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups 0 and 3 hold partner 2, group 1 partner 0, group 2 partner 3; scores count for
    them."""
    weights = np.random.default_rng(0).normal(size=(4, 3))
    partners = PartnerPopulation(stacks=({"weights": jnp.asarray(weights)},), stack_sizes=(4,))
    ppo, learner = population(4, beta=1.0)
    members = np.array([2, 0, 3, 2])
    unseen_ids: list[Any] = []

    def plain_update(self: Any, learner: Any, actors: Any, context: Any):
        unseen_ids.append(context.partners)
        by_group = {
            "env_group_scores": jnp.array([4.0, 3.0, 0.0, 8.0]),
            "env_group_games": jnp.ones(4),
        }
        return learner.replace(update=learner.update + 1), actors, {"loss": 0.5} | by_group

    monkeypatch.setattr(PPO, "update", plain_update)
    monkeypatch.setattr(
        PrioritizedPartnerPPO,
        "resample_partners",
        lambda self, *both: (unseen_ids.append(both), both)[1],
    )
    learner = learner.replace(group_partner=jnp.asarray(members))
    after, _, metrics = ppo.update(learner, None, TrainContext(partners=partners))  # type: ignore[arg-type]
    partner, (redrawn, _) = unseen_ids
    np.testing.assert_allclose(partner.stacks[0]["weights"], weights[members], rtol=1e-6)
    assert partner.stack_sizes == partners.stack_sizes and int(after.update) == 6
    expected = [0.95 * 9 + 0.05 * 3, 1.0, 0.95 * 8 + 0.05 * 6, 0.95 * 7]
    np.testing.assert_allclose(after.returns, expected, rtol=1e-6)
    np.testing.assert_allclose(redrawn.returns, expected, rtol=1e-6)  # by the new returns
    assert metrics.keys() == {"loss", "min_partner_score"}
    assert float(metrics["min_partner_score"]) == 1.0


class EnvGroups(flax.struct.PyTreeNode):
    """The part of the actors that resampling reads."""

    env: Any
    reset: jax.Array
    rematch: jax.Array


def test_resampling_happens_on_its_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight environments: e plays with the partner of env group e % 4."""
    (ppo, learner), (steep, _) = (population(4, beta=b, resample_every=3) for b in (0.0, 20.0))
    restart = SimpleNamespace(skip_to_next_game=lambda env, changed: env + changed)
    monkeypatch.setattr(PPO, "env", property(lambda self: restart))
    on_the_way = np.arange(8) == 5
    again = np.arange(8) < 4  # rematches: of a new partner there is none
    actors: Any = EnvGroups(env=np.zeros(8, int), reset=on_the_way, rematch=again)
    drawn, redraw = [], jax.jit(ppo.resample_partners)
    for update in range(1, 13):
        after, fresh = redraw(learner.replace(update=np.int32(update)), actors)
        members = np.asarray(after.group_partner)
        changed = np.tile(members != np.arange(4), 2)
        np.testing.assert_array_equal(fresh.env, changed.astype(int))
        np.testing.assert_array_equal(fresh.reset, changed | (np.arange(8) == 5))
        np.testing.assert_array_equal(fresh.rematch, (np.arange(8) < 4) & ~changed)
        assert update % 3 == 0 or not changed.any()
        drawn += [tuple(members)] if update % 3 == 0 else []
    assert len(set(drawn)) == 4 and (0, 1, 2, 3) not in drawn
    after, _ = jax.jit(steep.resample_partners)(learner.replace(update=np.int32(3)), actors)
    np.testing.assert_array_equal(after.group_partner, 1)  # the lowest return; (4/3)^20 = 315 to 1
    for known, changes in ((0, False), (1, True)):
        returns = jnp.where(jnp.arange(4) < known, 3.0, jnp.nan)
        unknown = learner.replace(update=np.int32(3), returns=returns)
        after, fresh = redraw(unknown, actors)
        assert (np.asarray(after.group_partner) != np.arange(4)).any() == changes
        assert (np.asarray(fresh.reset) != on_the_way).any() == changes


@pytest.mark.parametrize("unseen", ["lowest", "mean"])
def test_unknown_returns_have_equal_priorities(unseen: str) -> None:
    of_unknown = ranked(jnp.full(5, jnp.nan), 20.0, unseen)
    np.testing.assert_allclose(of_unknown, np.full(5, 0.2), rtol=1e-6)


@pytest.mark.slow
def test_resampled_env_groups_start_new_games():
    plain = make_ppo()
    ppo = PrioritizedPartnerPPO(
        plain.config, NETWORK, num_env_groups=4, beta=20.0, resample_every=3
    )
    population = stack_policies([network_policy(ppo.env.rules, seed=seed) for seed in range(4)])
    learner, actors = jax.jit(ppo.init)(jax.random.key(0), TrainContext(partners=population))
    np.testing.assert_array_equal(learner.group_partner, range(4))
    actors = actors.replace(reset=jnp.zeros_like(actors.reset))
    learner = learner.replace(returns=jnp.array([9.0, 1.0, 8.0, 7.0]))
    redraw = jax.jit(ppo.resample_partners)

    same, untouched = redraw(learner.replace(update=jnp.int32(4)), actors)
    np.testing.assert_array_equal(same.group_partner, learner.group_partner)
    assert not np.asarray(untouched.reset).any()
    np.testing.assert_array_equal(untouched.env.game_index, actors.env.game_index)

    other, fresh = redraw(learner.replace(update=jnp.int32(3)), actors)
    np.testing.assert_array_equal(other.group_partner, 1)  # (4/3)^20 = 315 to 1
    changed = np.arange(ppo.config.num_envs) % 4 != 1
    np.testing.assert_array_equal(fresh.reset, changed)
    np.testing.assert_array_equal(fresh.env.game_index, np.where(changed, 1, 0))
    dealt = np.asarray(fresh.env.game.deck != actors.env.game.deck).reshape(len(changed), -1)
    np.testing.assert_array_equal(dealt.any(axis=1), changed)
