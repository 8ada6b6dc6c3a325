"""MAPPO: the critic's input, its separation from the actor, exact values, whole runs."""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from support.compiled import any_params, deal, learner_params, observe, step
from support.four_devices import assert_four_devices_equal, state_of
from support.games import LENIENT_3P, TINY, TINY_3P, random_games
from support.runs import read_lines, read_state

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms.mappo import ALGORITHM, CentralPPO, MAPPOConfig, whole_state
from hanabi_rl.algorithms.registry import run
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.games.game import Game, Outcome
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.registry import game_from_text
from hanabi_rl.learning import parallel
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT
from hanabi_rl.nn.gru_network import GRUConfig
from hanabi_rl.nn.kitchen_network import KitchenConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.nn.transformer_network import TransformerConfig
from hanabi_rl.runs.session import RunStopped

SMALL: Any = {"embedding": (16,), "decoder": (16,), "critic": (16,)}
FEED_FORWARD = NetworkConfig(lstm=(), **SMALL)
LSTM = NetworkConfig(lstm=(8,), **SMALL)


class Bits(struct.PyTreeNode):
    bits: jax.Array  # int32 [N, P], player p observes its own


@dataclasses.dataclass(frozen=True)
class HiddenBits(Game):
    """One step; the points are the sum of two random bits modulo 2, whatever the actions."""

    name: Literal["hidden-bits"] = "hidden-bits"
    num_players: ClassVar[int] = 2
    num_actions: ClassVar[int] = 2

    @property
    def obs_shape(self) -> tuple[int, ...]:
        return (2,)

    @property
    def max_steps(self) -> int:
        return 1

    def start(self, keys: jax.Array) -> Bits:
        return Bits((keys >> 8 & 1).astype(jnp.int32))

    def step(self, state: Bits, action: jax.Array, keys: jax.Array) -> tuple[Bits, Outcome]:
        reward = (state.bits.sum(axis=1) % 2).astype(jnp.float32)
        return state, Outcome(reward=reward, done=jnp.ones(len(keys), bool))

    def observe(self, state: Bits) -> jax.Array:
        return jax.nn.one_hot(state.bits, 2)


def make_ppo(game: Any, network: Any, cls: type[PPO] = CentralPPO, **changes: Any) -> PPO:
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
    return cls(PPOConfig(**(fields | changes)), network)


def updates(ppo: PPO, number: int) -> tuple[Any, Any, list[dict[str, float]]]:
    """State and metrics of compiled updates."""
    learner, actors = jax.jit(ppo.init)(jax.random.key(0))
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    update, metrics = ppo.compile_update(), []
    for _ in range(number):
        learner, actors, found = update(learner, actors, EMPTY_CONTEXT)
        metrics.append({name: float(value) for name, value in found.items()})
    return learner, actors, metrics


def test_state_of_hanabi_is_derived_in_python() -> None:
    """The current player's observation, the hand that the plain game deals it, the moves of the
    last round, and the seat counted from the current player."""
    rules = LENIENT_3P
    games = random_games(rules, 12)
    state = deal(rules, games.decks)
    tables = [PythonGame(rules, deck) for deck in games.decks]
    read = jax.jit(lambda state, seat: whole_state(rules, state.without_deck(), seat))
    last_rounds = set()
    for turn in range(int(games.num_actions.max())):
        seat = np.tile(np.arange(3), (12, 1))
        found, every = np.asarray(read(state, seat)), np.asarray(observe(rules, state))
        for game, table in enumerate(tables):
            if turn > games.num_actions[game] or table.over:
                continue
            hand = np.zeros((rules.hand_size, rules.num_cards))
            for slot, order in enumerate(table.hands[table.player]):
                hand[slot, table.deck[order]] = 1
            moves = 0 if table.turns_left is None else 4 - table.turns_left
            last_rounds.add(moves)
            seen = every[game, table.player], hand.ravel(), np.eye(4)[moves]
            for row in range(3):
                expected = np.concatenate([*seen, np.eye(3)[(row - table.player) % 3]])
                np.testing.assert_array_equal(found[game, row], expected)
        for game, table in enumerate(tables):
            if turn < games.num_actions[game]:
                table.apply(int(games.actions[game, turn]))
        state, _, _ = step(rules, state, games.actions[:, turn].astype(np.int32))
    assert last_rounds == {0, 1, 2, 3}


def test_state_of_other_games_is_all_observations() -> None:
    game = HiddenBits()
    bits = np.array([[[0, 1], [1, 1]], [[1, 0], [0, 0]], [[1, 0], [0, 1]]])  # [T, B, P]
    seat = np.array([[[0], [1]], [[1], [1]], [[0], [0]]])
    found = whole_state(game, Bits(jnp.asarray(bits)), jnp.asarray(seat))
    eye = np.eye(2)
    for t, b in np.ndindex(3, 2):
        expected = np.concatenate([eye[bits[t, b, 0]], eye[bits[t, b, 1]], eye[seat[t, b, 0]]])
        np.testing.assert_array_equal(found[t, b, 0], expected)


def test_all_seats_have_one_value_without_the_seat_input() -> None:
    ppo = make_ppo(TINY_3P, LSTM)
    params = learner_params(ppo, jax.random.key(1))
    without = jax.tree.map(np.array, params)
    without["critic"]["trunk"]["embedding_0"]["kernel"][-3:] = 0
    games = random_games(TINY_3P, 16)
    state = deal(TINY_3P, games.decks)
    for turn in range(4):
        state, _, _ = step(TINY_3P, state, games.actions[:, turn].astype(np.int32))
    carry = jax.tree.map(lambda x: x.reshape(16, 3, *x.shape[1:]), ppo.initial_carry(16 * 3))

    @jax.jit
    def values(params: Any) -> jax.Array:
        _, seen = ppo.view.encode_step(None, state, np.zeros(16, bool), None)
        return ppo.collector.evaluate(params, carry, seen)[2]

    equal, own = np.asarray(values(without)), np.asarray(values(params))
    np.testing.assert_array_equal(equal[:, 1:], equal[:, :1].repeat(2, 1))
    assert equal.std() > 1e-3 and np.abs(own[:, 1:] - own[:, :1]).min() > 1e-6


class Inputs(NamedTuple):
    ppo: PPO
    params: Any
    carry: Any
    obs: np.ndarray
    legal: np.ndarray
    state: np.ndarray


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    """Random inputs [T, B, ...] in the middle of games."""
    ppo, rng = make_ppo(TINY, LSTM), np.random.default_rng(0)
    params = learner_params(ppo, jax.random.key(1))
    width = params["critic"]["trunk"]["embedding_0"]["kernel"].shape[0]
    return Inputs(
        ppo,
        params,
        carry=jax.tree.map(lambda x: x + 0.1, ppo.initial_carry(5)),
        obs=rng.random((4, 5, TINY.obs_size), np.float32),
        legal=np.ones((4, 5, TINY.num_actions), bool),
        state=rng.random((4, 5, width), np.float32),
    )


def test_new_games_clear_both_memories(inputs: Inputs) -> None:
    ppo, params, carry, *rest = inputs
    apply = jax.jit(lambda carry, reset: ppo.apply(params, carry, *rest[:2], reset, rest[2])[1:])
    reset = np.zeros((4, 5), bool)
    kept, cleared = apply(carry, reset), apply(carry, reset | (np.arange(4)[:, None] == 0))
    fresh = apply(ppo.initial_carry(5), reset)
    for a, b, c in zip(kept, cleared, fresh, strict=True):
        np.testing.assert_allclose(b, c, atol=1e-6)
        assert np.abs(a[-1] - b[-1]).max() > 1e-5


def test_actor_and_critic_share_nothing(inputs: Inputs) -> None:
    """Logits do not depend on the state or the critic, values not on the actor or its inputs."""
    ppo, params, carry, obs, legal, state = inputs

    @jax.jit
    def gradient(output: int) -> Any:
        """Gradient of a nonlinear sum of logits (output 1) or values (2)."""

        def total(params: Any, carry: Any, obs: Any, state: Any) -> jax.Array:
            outputs = ppo.apply(params, carry, obs, legal, np.zeros((4, 5), bool), state)
            return jnp.where(output == 1, jnp.sin(outputs[1]).sum(), jnp.sin(outputs[2]).sum())

        return jax.grad(total, argnums=(0, 1, 2, 3))(params, carry, obs, state)

    for output, own, other in ((1, "actor", "critic"), (2, "critic", "actor")):
        by_params, by_carry, *by_inputs = gradient(output)
        halves = {
            name: jax.tree.leaves((by_params[name], by_carry[i], by_inputs[i]))
            for i, name in enumerate(("actor", "critic"))
        }
        assert all((np.asarray(leaf) != 0).any() for leaf in halves[own])
        assert not any((np.asarray(leaf) != 0).any() for leaf in halves[other])


@pytest.mark.parametrize(
    ("game", "network", "changes"),
    [
        (TINY_3P, LSTM, {}),
        pytest.param(TINY, FEED_FORWARD, {"current_player_only": True}, marks=pytest.mark.slow),
        pytest.param(TINY, FEED_FORWARD, {}, marks=pytest.mark.slow),
        pytest.param(
            TINY, TransformerConfig(transformer=(8,), heads=2, **SMALL), {}, marks=pytest.mark.slow
        ),
        pytest.param(
            TINY, StructuredConfig(trunk=(16,), head=8, critic=(16,)), {}, marks=pytest.mark.slow
        ),
        pytest.param("overcooked:cramped_room", FEED_FORWARD, {}, marks=pytest.mark.slow),
        pytest.param("overcooked:cramped_room", LSTM, {}, marks=pytest.mark.slow),
        pytest.param("overcooked:cramped_room", KitchenConfig(**SMALL), {}, marks=pytest.mark.slow),
        pytest.param("jaxmarl:MPE_simple_spread_v3", FEED_FORWARD, {}, marks=pytest.mark.slow),
    ],
)
def test_first_minibatch_has_ratio_one_and_old_values(
    game: Any, network: Any, changes: dict[str, Any]
) -> None:
    """Also in the middle of games, with the carries of both networks."""
    game = game_from_text(game) if isinstance(game, str) else game
    ppo = make_ppo(game, network, num_shuffle_blocks=1, **changes)
    with any_params(ppo):
        learner, actors = jax.jit(ppo.init)(jax.random.key(0))

    key = jax.random.key(3)

    @jax.jit
    def play(params: Any, actors: Any) -> Any:
        return ppo.collector.collect(params, actors, EMPTY_CONTEXT, key, 8)

    before, _, _ = play(learner.params, actors)
    _, rollout, last = play(learner.params, before)

    def first(params: Any, carry: Any, index: Any, rollout: Any, last: Any) -> Any:
        experience = ppo.returns(rollout, last, carry, rollout.transition.reward)
        at = ppo.minibatches(key, index, rollout)
        # with targets equal to the collected values, the value loss is that of recomputed values
        experience = experience.replace(target=rollout.value)
        _, metrics = ppo.gradient(params, experience, *(x[0] for x in at))
        return metrics["max_log_ratio"], metrics["value_loss"]

    given = learner.params, before.carry, before.index, rollout, last
    each = jax.tree.map(lambda x: np.asarray(x)[None], given)
    ratio, error = jax.jit(jax.vmap(first, axis_name=parallel.AXIS))(*each)
    assert ratio.item() <= 1e-4 and error.item() <= 1e-8 and not np.asarray(rollout.reset)[0].all()


def test_only_a_central_critic_has_exact_values() -> None:
    """The sum modulo 2 has mean 1/2 given either bit: the error of a local critic is at least 1/2 *
    1/4 in the mean, the central one's falls to 0."""
    fields = {"clip_value": False, "num_steps": 16, "gae_lambda": 1.0}
    central, local = (
        updates(make_ppo(HiddenBits(), FEED_FORWARD, cls, **fields), 25)[2]
        for cls in (CentralPPO, PPO)
    )
    assert np.mean([m["value_loss"] for m in local[-5:]]) > 0.11
    assert np.mean([m["value_loss"] for m in central[-5:]]) < 0.005


def test_mappo_has_a_central_critic() -> None:
    assert type(ALGORITHM.training(MAPPOConfig(), None).ppo) is CentralPPO
    with pytest.raises(ValueError, match="--privileged-critic: expected none in MAPPO"):
        MAPPOConfig(privileged_critic=True)


@pytest.mark.slow
def test_run_resumes_exactly_and_saves_an_actor(interrupt_at: Any, tmp_path: Path) -> None:
    network = GRUConfig(gru=(8,), **SMALL)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    fields = {
        "num_envs": 16,
        "num_steps": 12,
        "total_steps": 16 * 12 * 3,
        "epochs": 1,
        "num_minibatches": 2,
        "eval_every": 3,
        "eval_games": 64,
        "save_every": 1,
        "report_games": 64,
        "tensorboard": False,
        "game": TINY,
        "network": network,
    }
    run("mappo", MAPPOConfig(**fields, run_dir=str(whole)))
    assert all(line["first_max_log_ratio"] <= 1e-4 for line in read_lines(whole)[1:])
    interrupt_at("hanabi_rl.algorithms.ppo_runner", 2 * 16 * 12)
    with pytest.raises(RunStopped):
        run("mappo", MAPPOConfig(**fields, run_dir=str(parts)))
    run("mappo", MAPPOConfig(**fields, run_dir=str(parts), resume=True))
    assert read_state(parts, 3) == read_state(whole, 3)

    policy: Any = load_policy(str(whole))
    assert policy.info.algorithm == "mappo" and policy.network == network
    played = evaluate_pair(policy, load_policy("bot:simple", TINY), 64, 0).summary
    assert np.isfinite(played.mean.mean)


def state_after_updates() -> dict[str, np.ndarray]:
    learner, actors, _ = updates(make_ppo(TINY, LSTM, num_shuffle_blocks=8, lr=1e-3), 3)
    return state_of(learner, actors)


@pytest.mark.slow
def test_four_devices_equal_one(tmp_path: Path) -> None:
    assert_four_devices_equal(state_after_updates(), "algorithms.test_mappo", tmp_path)
