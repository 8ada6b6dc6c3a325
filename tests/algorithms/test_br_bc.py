"""BR-BC: lineups, the network of each seat, and the training experience."""

import dataclasses
import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import any_params
from support.games import TINY
from support.policies import network_policy
from support.small_ppo import make_ppo

from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.br_bc import ALGORITHM, BRBCConfig, mixed_lineups
from hanabi_rl.algorithms.training_partners import annealing
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.encoding import observe_rows
from hanabi_rl.learning.partner_population import PartnerPopulation
from hanabi_rl.learning.ppo import PPO, Experience
from hanabi_rl.learning.rollout import EpisodeSetup, Rollout, TrainContext
from hanabi_rl.nn.networks import FEED_FORWARD, Actor, NetworkConfig

FREQUENCIES = 20_000


def lineup_frequencies(
    players: int, lineup: Any, timesteps: float
) -> dict[tuple[bool, ...], float]:
    """Lineup -> frequency, with self-play up to 100 timesteps and none from 300."""
    learns = np.asarray(draws(players, lineup)(np.float32(timesteps)))
    lineups, counts = np.unique(learns, axis=0, return_counts=True)
    return {
        tuple(map(bool, row)): count / FREQUENCIES
        for row, count in zip(lineups, counts, strict=True)
    }


@functools.cache
def draws(players: int, lineup: Any) -> Any:
    """timesteps -> learner seats in many games, bool [FREQUENCIES, P]; compiled once."""
    draw = mixed_lineups(players, 100, 300, lineup)
    keys = jax.random.split(jax.random.key(0), FREQUENCIES)
    return jax.jit(lambda timesteps: jax.vmap(lambda key: draw(key, timesteps).is_learner)(keys))


@pytest.mark.parametrize("timesteps", [0, 150, 250, 1000])
def test_two_player_clone_seat_probability(timesteps: int) -> None:
    a = float(np.clip((timesteps - 100) / 200, 0, 1))
    expected = {(True, True): 1 - a, (False, True): a / 2, (True, False): a / 2}
    got = lineup_frequencies(2, "independent", timesteps)
    assert set(got) <= set(expected)
    for lineup, fraction in expected.items():
        assert got.get(lineup, 0.0) == pytest.approx(fraction, abs=0.015), lineup


@pytest.mark.parametrize(
    ("lineup", "none", "one", "two"),
    [
        ("independent", 0.7 * 0.7, 2 * 0.3 * 0.7, 0.3 * 0.3),
        ("some-or-none", 0.7, 0.15, 0.15),
        ("all-or-none", 0.7, 0.0, 0.3),
    ],
)
def test_three_player_lineups_at_a_third(lineup: str, none: float, one: float, two: float) -> None:
    got = lineup_frequencies(3, lineup, 160)  # a = 0.3
    by_clones = [
        sum(fraction for seats, fraction in got.items() if seats.count(False) == n)
        for n in range(4)
    ]
    np.testing.assert_allclose(by_clones, [none, one, two, 0], atol=0.015)
    for seat in range(3):  # no seat is special
        assert sum(fraction for seats, fraction in got.items() if seats[seat]) == pytest.approx(
            (3 - one - 2 * two) / 3, abs=0.02
        )


@pytest.mark.parametrize(
    ("lineup", "none", "one", "two"),
    [("independent", 0, 0, 1), ("some-or-none", 0, 0.5, 0.5), ("all-or-none", 0, 0, 1)],
)
def test_three_player_lineups_after_annealing(
    lineup: str, none: float, one: float, two: float
) -> None:
    got = lineup_frequencies(3, lineup, 1000)
    by_clones = [sum(x for seats, x in got.items() if seats.count(False) == n) for n in range(4)]
    np.testing.assert_allclose(by_clones, [none, one, two, 0], atol=0.015)
    for seat in range(3):
        alone = tuple(i == seat for i in range(3))
        assert got[alone] == pytest.approx(two / 3, abs=0.015)


@pytest.mark.parametrize("lineup", ["some-or-none", "all-or-none"])
def test_two_players_ignore_lineup_option(lineup: str) -> None:
    got = lineup_frequencies(2, lineup, 160)  # a = 0.3
    expected = {(True, True): 0.7, (False, True): 0.15, (True, False): 0.15}
    assert got == {
        seats: pytest.approx(fraction, abs=0.015) for seats, fraction in expected.items()
    }


def test_annealing_factor() -> None:
    got = [float(annealing(jnp.float32(t), 100, 300)) for t in (0, 100, 200, 300, 9e9)]
    np.testing.assert_allclose(got, [0, 0, 0.5, 1, 1])
    assert (
        float(annealing(jnp.float32(5), 5, 5)) == 0 and float(annealing(jnp.float32(6), 5, 5)) == 1
    )


class Played(NamedTuple):
    ppo: PPO
    params: Any
    clone: Any
    rollout: Rollout  # two updates' worth, [2 * T, N, ...]
    experience: Experience  # of the second
    index: jax.Array


@pytest.fixture(scope="module")
def played(small: Any) -> Played:
    """A feed-forward learner with the recurrent clone of the small game, half-way through the
    annealing."""
    network = NetworkConfig(
        **{**vars(FEED_FORWARD), "embedding": (16,), "decoder": (16,), "critic": (16,)}
    )
    # a = 1/2 at timestep 0
    ppo = PPO(make_ppo().config, network, sample_episode=mixed_lineups(2, -1, 1))

    @jax.jit
    def start(clone: Any) -> Any:
        learner, actors = ppo.init(jax.random.key(5), TrainContext(clone, clone))
        return learner.replace(params=jax.tree.map(lambda x: 3 * x, learner.params)), actors

    @jax.jit
    def play(learner: Any, actors: Any, clone: Any, key: jax.Array) -> Any:
        following, rollout, last = ppo.collector.collect(
            learner.params, actors, TrainContext(clone, clone), key, 13
        )
        reward = rollout.transition.reward
        return following, rollout, ppo.returns(rollout, last, actors.carry, reward)

    clone = parallel.fetch(small.clone)
    with any_params(ppo):
        learner, actors = start(clone)
    actors, first, _ = play(learner, actors, clone, jax.random.key(1))
    _, second, experience = play(learner, actors, clone, jax.random.key(2))
    rollout = jax.tree.map(lambda *parts: np.concatenate(parts), first, second)
    return Played(ppo, learner.params, clone, rollout, experience, actors.index)


def test_lineup_is_constant_within_game(played: Played) -> None:
    learns, begins = played.rollout.episode.is_learner, np.asarray(played.rollout.reset)
    assert {tuple(row) for row in learns.reshape(-1, 2).tolist()} == {
        (True, True),
        (True, False),
        (False, True),
    }
    changed = (learns[1:] != learns[:-1]).any(-1)
    assert not changed[~begins[1:]].any() and changed[begins[1:]].any()


def test_seats_play_their_own_network(played: Played) -> None:
    """Known fault: frozen partners that share the learner's carry. The actions of both networks,
    recomputed over whole histories, have their own network's sampled likelihood, far above the
    other's."""
    rollout, rules = played.rollout, played.ppo.env.rules
    envs = rollout.reset.shape[1]
    nll = {"learner": [0.0, 0.0], "clone": [0.0, 0.0]}  # under its own network, under the other one
    entropy = {"learner": 0.0, "clone": 0.0}
    learner_actor = jax.jit(Actor(played.ppo.network, rules.num_actions).apply)
    clone_actor = jax.jit(Actor(played.clone.network, rules.num_actions).apply)
    see = jax.jit(lambda state, seat: observe_rows(rules, state, seat))
    for seat in range(2):
        obs, legal = see(rollout.state, np.full(envs, seat))
        logits = {
            "learner": learner_actor(
                {"params": played.params["actor"]}, (), obs, legal, rollout.reset
            )[1],
            "clone": clone_actor(
                {"params": played.clone.params},
                played.clone.init_carry(envs),
                obs,
                legal,
                rollout.reset,
            )[1],
        }
        np.testing.assert_allclose(
            rollout.reference_logits[:, :, seat], logits["clone"], rtol=1e-4, atol=1e-3
        )
        log_prob = {name: np.asarray(jax.nn.log_softmax(x)) for name, x in logits.items()}
        taken = {
            name: np.take_along_axis(x, rollout.action[:, :, seat, None], -1)[..., 0]
            for name, x in log_prob.items()
        }
        np.testing.assert_allclose(
            rollout.log_prob[:, :, seat], taken["learner"], rtol=1e-4, atol=1e-3
        )
        learns = rollout.episode.is_learner[:, :, seat]
        for name, other, held in (("learner", "clone", learns), ("clone", "learner", ~learns)):
            nll[name][0] -= taken[name][held].sum()
            nll[name][1] -= taken[other][held].sum()
            entropy[name] -= (np.exp(log_prob[name]) * log_prob[name]).sum(-1)[held].sum()
    for name in nll:
        assert nll[name][0] == pytest.approx(entropy[name], rel=0.1)  # sampled from it
        assert nll[name][1] > 1.5 * nll[name][0]  # and not from the other


def test_only_learner_seats_train(played: Played) -> None:
    """Noise in the clone's advantages, targets and log-probabilities changes no parameter; in the
    learner's it does."""
    ppo, experience = played.ppo, jax.device_get(played.experience)
    actors = jax.jit(ppo.minibatches)(jax.random.key(0), played.index)
    env, seat = (np.asarray(x)[0] for x in actors)

    @jax.jit
    def gradient(experience: Experience) -> Any:
        return jax.vmap(
            lambda e: ppo.gradient(played.params, e, env, seat)[0], axis_name="devices"
        )(jax.tree.map(lambda x: x[None], experience))

    def noisy(where: np.ndarray) -> Experience:
        noise = np.random.default_rng(0).normal(size=where.shape).astype(np.float32) * where
        return experience.replace(
            advantage=experience.advantage + noise,
            target=experience.target + noise,
            rollout=experience.rollout.replace(log_prob=experience.rollout.log_prob + noise),
        )

    learns = np.asarray(experience.rollout.episode.is_learner)
    plain = gradient(experience)
    same, other = gradient(noisy(~learns)), gradient(noisy(learns))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), same, plain)
    assert (
        max(np.abs(a - b).max() for a, b in zip(*map(jax.tree.leaves, (other, plain)), strict=True))
        > 1e-3
    )


@pytest.mark.slow  # test_hdr_ippo.py has partners that share the seats
def test_selection_averages_over_partners(tmp_path: Path) -> None:
    """The mean of their scores, each from `evaluate_pair` on a third of the decks."""
    policies = [network_policy(TINY, seed) for seed in range(3)]
    names = [str(tmp_path / str(seed)) for seed in (1, 2)]
    for name, policy in zip(names, policies[1:], strict=True):
        save_policy(Path(name), policy, algorithm="bc", steps=1, score=None)
    config = BRBCConfig(game=TINY, network=policies[0].network, eval_games=64, partners=(*names,))
    plan = ALGORITHM.training(config, policies[0])
    assert isinstance(plan.partners, PartnerPopulation) and plan.partners.size == 3
    for index, policy in enumerate(policies):
        mine = jax.tree.map(lambda leaf, i=index: np.asarray(leaf)[i], plan.partners.stacks[0])
        assert mine.identity() == policy.identity()
    learner = network_policy(TINY, 9)
    measured = plan.evaluate(learner, config)
    means = [
        evaluate_pair(learner, policy, 21, config.seed, purpose="selection").summary.mean.mean
        for policy in policies
    ]
    assert measured["crossplay_with_bc_mean"] == pytest.approx(means[0])
    assert (
        measured[plan.selection_metric] == pytest.approx(np.mean(means)) != pytest.approx(means[0])
    )
    with pytest.raises(ValueError, match="--partners: expected trained policies"):
        ALGORITHM.training(dataclasses.replace(config, partners=("bot:random",)), policies[0])


def test_weights_count_learner_seats_only() -> None:
    rng = np.random.default_rng(0)
    steps, envs, rows = 5, 4, 6
    env, seat = rng.integers(envs, size=rows), rng.integers(2, size=rows)
    decision, learns = rng.random((steps, rows)) < 0.5, rng.random((steps, envs, 2)) < 0.6
    numbers = rng.normal(size=(steps, envs, 2)).astype(np.float32)
    unread: Any = None
    rollout = Rollout(
        state=unread,
        reset=unread,
        episode=EpisodeSetup(is_learner=jnp.asarray(learns)),
        action=numbers,
        log_prob=numbers,
        value=numbers,
        transition=unread,
        reference_logits=None,
    )
    experience = Experience(rollout=rollout, advantage=numbers, target=numbers, carry=None)
    held = np.stack([learns[:, e, s] for e, s in zip(env, seat, strict=True)], axis=1)
    advantage = np.stack([numbers[:, e, s] for e, s in zip(env, seat, strict=True)], axis=1)
    ppo: PPO = make_ppo(game=Rules())
    at = ppo.view.minibatch_index(env, seat)
    batch = jax.tree.map(
        lambda x: x[0],
        jax.jit(jax.vmap(lambda e: ppo.batch(e, at, decision), axis_name="devices"))(
            jax.tree.map(lambda x: np.asarray(x)[None], experience)
        ),
    )
    np.testing.assert_allclose(batch.actor_weight, (held & decision) / held.sum(), rtol=1e-6)
    np.testing.assert_allclose(batch.value_weight, held / held.sum(), rtol=1e-6)
    mean, std = advantage[held].mean(), advantage[held].std()
    np.testing.assert_allclose(batch.advantage, (advantage - mean) / std, rtol=1e-4, atol=1e-5)
