"""Diversity bonuses of populations, and members that are trained together."""

import itertools
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import ask
from support.conventions import Conventions
from support.four_devices import assert_four_devices_equal, state_of
from support.games import TINY
from support.tiny_games import Dice, DiceState

from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.population import PopulationPPO, TrajeDiBonus, mep_bonus
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig

SMALL: Any = {"embedding": (16,), "decoder": (16,), "critic": (16,)}
FEED_FORWARD = NetworkConfig(lstm=(), **SMALL)
LSTM = NetworkConfig(lstm=(8,), **SMALL)
bonus_of = {
    0.0: jax.jit(TrajeDiBonus(0.0)),
    0.5: jax.jit(TrajeDiBonus(0.5)),
    1.0: jax.jit(TrajeDiBonus(1.0)),
}


def test_mep_pays_surprise_of_the_mean_policy() -> None:
    """ZSC-Eval's alpha 0.01 and probabilities 0.8 and 0.2: 0.01 ln 2; then by hand."""
    bonus = jax.jit(mep_bonus)
    logs = np.log([0.8, 0.2]).reshape(1, 1, 1, 2)
    own = logs[..., 0]
    assert 0.01 * bonus(logs, own, own > 0).item() == pytest.approx(0.00693147, abs=1e-8)
    chances = np.random.default_rng(0).uniform(0.001, 1, (5, 3, 2, 4))
    expected = np.zeros((5, 3))
    for t, n in np.ndindex(5, 3):
        for row in range(2):
            expected[t, n] -= np.log(sum(chances[t, n, row]) / 4)
    found = bonus(np.log(chances), np.log(chances[..., 0]), np.ones((5, 3), bool))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    rare = np.full((1, 1, 1, 4), -1e10)
    assert bonus(rare, rare[..., 0], own > 0).item() == pytest.approx(-np.log(1e-5))


def divergence(own: np.ndarray, members: np.ndarray, discount: float) -> float:
    """Mean over t of log d_i(t) - log mean_j d_j(t), by the paper's products: probabilities of the
    moves of one game, own [T], members' [T, K]."""
    length, total = len(own), 0.0
    for t in range(length):
        powers = [discount ** abs(t - other) for other in range(length)]
        of_own = np.prod([p**power for p, power in zip(own, powers, strict=True)])
        of_each = [
            np.prod([p**power for p, power in zip(column, powers, strict=True)])
            for column in members.T
        ]
        total += np.log(of_own / np.mean(of_each))
    return total / length


@pytest.mark.parametrize("discount", [0.0, 0.5, 1.0])
def test_trajedi_bonuses_of_games_sum_to_their_divergence(discount: float) -> None:
    """Games of several lengths; two seats of one timestep multiply; each bonus is the change made
    by its timestep."""
    rng = np.random.default_rng(1)
    members = rng.uniform(0.05, 1, (9, 2, 2, 3))
    own = rng.uniform(0.05, 1, (9, 2, 2))
    starts = np.zeros((9, 2), bool)
    starts[[0, 4, 5], 0] = True
    starts[3, 1] = True  # the first game of environment 1 began in an earlier rollout
    found = np.asarray(bonus_of[discount](np.log(members), np.log(own), starts))
    for env, games in enumerate([[(0, 4), (4, 5), (5, 9)], [(0, 3), (3, 9)]]):
        for first, end in games:
            before = 0.0
            for until in range(first + 1, end + 1):
                part = slice(first, until)
                after = divergence(
                    own[part, env].prod(axis=1), members[part, env].prod(axis=1), discount
                )
                assert float(found[until - 1, env]) == pytest.approx(after - before, abs=1e-4)
                before = after


def test_divergence_of_one_step_is_between_0_and_log_k() -> None:
    """(1, 0) and (0, 1): ln 2; equal policies: 0."""
    starts = np.ones((1, 1), bool)
    for policies, expected in (([[1, 0], [0, 1]], np.log(2)), ([[0.3, 0.7], [0.3, 0.7]], 0)):
        total = 0.0
        for i, action in np.ndindex(2, 2):
            chances = np.maximum(np.array([policies[0][action], policies[1][action]]), 1e-30)
            logs = np.log(chances).reshape(1, 1, 1, 2)
            bonus = bonus_of[0.5](logs, logs[..., i], starts)
            total += policies[i][action] * bonus.item() / 2
        assert total == pytest.approx(expected, abs=1e-6)


GAMES = np.array(list(itertools.product((0, 1), repeat=2)))
HISTORIES = np.stack([np.zeros(4, int), 1 + GAMES[:, 0]], axis=1)
"""Position before each move, [4, 2]: the start, or one of the two after the first move."""


def log_probs(logits: Any, history: Any, game: Any) -> Any:
    """Of the two moves of a game, [2, K]; logits [K, 3, 2]."""
    return jax.nn.log_softmax(logits)[:, history, game].T


@partial(jax.jit, static_argnums=1)
def exact_divergence(logits: jax.Array, discount: float) -> jax.Array:
    """JSD of K policies of two moves over all games, as in the paper."""
    kernel = jnp.array([[1.0, discount], [discount, 1.0]])

    def of_game(history: jax.Array, game: jax.Array) -> jax.Array:
        logs = log_probs(logits, history, game)
        log_d = kernel @ logs  # [2, K]
        mean = jnp.log(jnp.mean(jnp.exp(log_d), axis=1, keepdims=True))
        return jnp.mean(jnp.exp(logs.sum(axis=0)) * jnp.mean(log_d - mean, axis=0))

    return jax.vmap(of_game)(HISTORIES, GAMES).sum()


@jax.jit
def policy_gradient(logits: jax.Array) -> dict[float, jax.Array]:
    """Expected policy gradient of the bonuses, over all games, at each discount."""

    def of_game(i: jax.Array, history: jax.Array, game: jax.Array) -> dict[float, jax.Array]:
        def score(logits: jax.Array) -> jax.Array:
            return log_probs(logits, history, game).sum(axis=0)[i]

        logs, found = log_probs(logits, history, game)[:, None, None], {}
        chance, direction = jnp.exp(score(logits)), jax.grad(score)(logits)
        for discount in bonus_of:
            bonus = TrajeDiBonus(discount)(logs, logs[..., i], jnp.array([[True], [False]]))
            found[discount] = chance * bonus.sum() * direction
        return found

    members = np.arange(logits.shape[0])
    each = jax.vmap(jax.vmap(of_game, (None, 0, 0)), (0, None, None))(members, HISTORIES, GAMES)
    return jax.tree.map(lambda x: x.sum(axis=(0, 1)) / len(members), each)


def test_trajedi_gradient_on_an_enumerated_game() -> None:
    """Equal to the derivative of the divergence at discount 1; uphill at others."""
    logits = np.random.default_rng(2).normal(size=(3, 3, 2)).astype(np.float32)
    found = jax.device_get(policy_gradient(logits))
    exact_of = jax.jit(jax.grad(exact_divergence), static_argnums=1)
    for discount, gradient in found.items():
        exact = np.asarray(exact_of(logits, discount))
        if discount == 1.0:
            np.testing.assert_allclose(gradient, exact, atol=1e-6)
        cosine = np.vdot(gradient, exact) / np.linalg.norm(gradient) / np.linalg.norm(exact)
        assert cosine > 0.7
        after = exact_divergence(logits + 0.01 * gradient, discount)
        assert after > exact_divergence(logits, discount)


def make_ppo(
    game: Any = TINY, network: Any = FEED_FORWARD, *, size: int = 3, **changes: Any
) -> PopulationPPO:
    fields = {
        "game": game,
        "num_envs": 16,
        "num_steps": 8,
        "total_steps": 16 * 8 * 100,
        "lr": 1e-2,
        "lr_schedule": "constant",
        "epochs": 2,
        "num_minibatches": 2,
        "precision": "float32",
    }
    own = {name: changes.pop(name) for name in ("bonus", "alpha") if name in changes}
    return PopulationPPO(PPOConfig(**(fields | changes)), network, size=size, **own)


def trained(ppo: PPO, number: int, key: jax.Array) -> tuple[Any, Any, Any]:
    """State and last metrics after some updates."""
    learner, actors = jax.jit(ppo.init)(key)
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    update = ppo.compile_update()
    for _ in range(number):
        learner, actors, metrics = update(learner, actors, EMPTY_CONTEXT)
    return learner, actors, jax.device_get(metrics)


@pytest.mark.slow  # compiles for seconds
def test_members_without_bonus_learn_as_alone() -> None:
    """Each with its own key."""
    ppo, key = make_ppo(alpha=0.0, lr=1e-3), jax.random.key(5)
    together, _, metrics = trained(ppo, 2, key)
    alone = PPO(ppo.config, ppo.network)
    for k, own in enumerate(jax.random.split(key, 3)):
        one, _, expected = trained(alone, 2, own)
        pairs = jax.tree.leaves(
            jax.tree.map(lambda x, y, k=k: (x[k], y), together.params, one.params),
            is_leaf=lambda x: isinstance(x, tuple),
        )
        for found, of_one in pairs:
            np.testing.assert_allclose(found, of_one, atol=2e-4)
        assert metrics["train_games"][k] == expected["train_games"]
        assert metrics["entropy"][k] == pytest.approx(expected["entropy"], abs=1e-3)


@pytest.mark.parametrize(
    ("game", "network", "changes"),
    [
        (TINY, LSTM, {}),
        pytest.param(TINY, FEED_FORWARD, {"current_player_only": True}, marks=pytest.mark.slow),
        pytest.param(
            TINY, StructuredConfig(trunk=(16,), head=8, critic=(16,)), {}, marks=pytest.mark.slow
        ),
        pytest.param(Conventions(), FEED_FORWARD, {}, marks=pytest.mark.slow),
    ],
)
def test_bonus_compares_all_members_in_the_own_game(
    game: Any, network: Any, changes: dict[str, Any]
) -> None:
    """In the middle of games, with the carries of all: the own column is the own log-probability,
    the others differ; the bonus is added to the reward with its weight."""

    def bonus(members: jax.Array, own: jax.Array, reset: jax.Array) -> jax.Array:
        return (members[..., 1] + 2.0 * own).sum(axis=-1) + reset

    ppo = make_ppo(game, network, bonus=bonus, alpha=0.5, num_steps=5, lr=1e-3, **changes)
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))

    def rewards(learner: Any, actors: Any) -> Any:
        context = EMPTY_CONTEXT.replace(reference=ppo.members(learner.params["actor"]))

        def of_member(learner: Any, actors: Any) -> Any:
            key = jax.random.key(3)
            for _ in range(2):
                actors, rollout, _ = ppo.collector.collect(
                    learner.params, actors, context, key, ppo.config.num_steps
                )
            logits: Any = rollout.reference_logits
            logits = jnp.take_along_axis(
                jax.nn.log_softmax(logits), rollout.action[..., None, None], axis=-1
            )[..., 0]
            at = jnp.zeros(())
            added = ppo.reward(rollout, at) - PPO.reward(ppo, rollout, at)
            return logits, rollout.log_prob, rollout.reset, added

        return jax.vmap(of_member, (0, 1))(learner, actors)

    members, own, reset, added = (np.asarray(x) for x in jax.jit(rewards)(learner, actors))
    assert members.shape == (3, 5, 16, ppo.view.rows, 3)
    assert reset[:, 0].all() == isinstance(game, Conventions)  # others are in the middle of games
    for k in range(3):
        np.testing.assert_allclose(members[k, ..., k], own[k], atol=1e-5)
        assert np.abs(members[k, ..., (k + 1) % 3] - own[k]).max() > 1e-3
    expected = 0.5 * ((members[..., 1] + 2 * own).sum(axis=-1) + reset)
    np.testing.assert_allclose(added, expected, atol=1e-5)


@pytest.mark.parametrize("rows", [(), (2,)])
def test_every_row_is_paid_the_bonus(rows: tuple[int, ...], monkeypatch: Any) -> None:
    """Also where rows have their own rewards, as in Overcooked."""
    paid = np.arange(6.0).reshape(3, 2)
    ppo = make_ppo(bonus=lambda members, own, reset: paid, alpha=0.5)
    monkeypatch.setattr(PPO, "reward", lambda *arguments: np.ones((3, 2, *rows)))
    rollout: Any = SimpleNamespace(
        action=np.zeros((3, 2, 2), np.int32),
        log_prob=np.zeros((3, 2, 2)),
        reference_logits=np.zeros((3, 2, 2, 3, 4)),
        reset=np.ones((3, 2), bool),
        state=SimpleNamespace(player=np.zeros((3, 2), np.int32)),
    )
    found = np.asarray(ppo.reward(rollout, jnp.zeros(())))
    assert found.shape == (3, 2, *rows)
    for row in found.reshape(3, 2, -1).transpose(2, 0, 1):
        np.testing.assert_allclose(row, 1 + 0.5 * np.arange(6).reshape(3, 2))


def test_members_have_the_precision_of_the_run() -> None:
    ppo = make_ppo(TINY, precision="bfloat16")
    assert ppo.policy_of(None).precision == ppo.members(None).policy.precision == "bfloat16"


def test_bonus_ignores_players_that_do_not_act() -> None:
    """Log-probabilities of an idle player's action are 0, also if it is one of many legal ones."""
    rng, shape = np.random.default_rng(0), (5, 4, 3)
    state = DiceState(rng.integers(0, 8, shape), np.zeros(shape[:2], int), None)
    rollout: Any = SimpleNamespace(
        state=state,
        action=rng.integers(0, 4, shape),
        log_prob=-rng.uniform(1, 2, shape),
        reference_logits=rng.normal(size=(*shape, 2, 4)),
        reset=np.ones(shape[:2], bool),
    )
    ppo = make_ppo(Dice(), size=2, bonus=lambda members, own, reset: (members.max(axis=-1), own))
    acts = np.asarray(state.values) % 4 != 0
    assert acts.any() and not acts.all()
    for logs in ppo.bonus_of(rollout):
        np.testing.assert_array_equal(np.asarray(logs) < 0, acts)


@pytest.mark.parametrize("bonus", [mep_bonus, pytest.param(TrajeDiBonus(), marks=pytest.mark.slow)])
def test_populations_learn_all_conventions(bonus: Any) -> None:
    """Of this seed two members share a convention without the bonus; each has its own with it."""

    def chosen(alpha: float) -> list[int]:
        ppo = make_ppo(
            Conventions(), bonus=bonus, alpha=alpha, num_envs=32, clip_value=False, gae_lambda=1.0
        )
        learner, _, metrics = trained(ppo, 40, jax.random.key(0))
        assert (metrics["train_score"] > 0.9).all()
        policies = ppo.members(learner.params["actor"])
        rows = np.ones((1, 1), np.float32), np.ones((1, 3), bool), np.ones(1, bool)
        logits = ask(policies, policies.init_carry(1), *rows)
        return np.argmax(logits[1][0], axis=-1).tolist()

    assert len(set(chosen(0.5))) == 3 and len(set(chosen(0.0))) == 2


def state_after_updates() -> dict[str, np.ndarray]:
    ppo = make_ppo(TINY, LSTM, bonus=TrajeDiBonus(), alpha=0.5, lr=1e-3)
    learner, actors, _ = trained(ppo, 3, jax.random.key(0))
    return state_of(learner, actors)


@pytest.mark.slow
def test_four_devices_equal_one(tmp_path: Any) -> None:
    assert_four_devices_equal(state_after_updates(), "learning.test_population", tmp_path)
