"""Other-Play: permuted colours change only names; each seat has a permutation per game."""

from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from support.compiled import init_network, learner_params
from support.small_ppo import make_ppo

from hanabi_rl.agents.color_permuted import ColorPermuted
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.other_play import OtherPlayConfig, renamed_colors
from hanabi_rl.games.hanabi import Rules, legal_actions, observation_slices
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.symmetry import (
    permute_actions,
    permute_decks,
    permute_legal,
    permute_obs,
)
from hanabi_rl.games.registry import game_from_text
from hanabi_rl.learning.encoding import observe_rows
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout
from hanabi_rl.nn.networks import Actor, NetworkConfig
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

RULES = Rules(
    num_players=3, num_colors=3, num_ranks=3, hand_size=2, max_info_tokens=3, max_life_tokens=2
)
NETWORK = NetworkConfig(embedding=(12,), lstm=(12,), decoder=(12,), critic=(12,), dropout=0.0)


class ColorBlind(flax.struct.PyTreeNode):
    """Plays, discards and hints ranks by random weights on colourless features; never hints a
    colour."""

    weights: jax.Array  # [O, A]
    rules: Rules = flax.struct.field(pytree_node=False, default=RULES)

    def init_carry(self, batch: int) -> Any:
        return jnp.zeros((batch, 1))

    def step(
        self, carry: Any, obs: jax.Array, legal: jax.Array, reset: jax.Array, key: Any = None
    ) -> Any:
        carry = jnp.where(reset[:, None], 0.0, carry) + 1.0
        hint = jnp.arange(RULES.num_actions) - 2 * RULES.hand_size
        color_hint = (hint >= 0) & (hint < (RULES.num_players - 1) * RULES.num_colors)
        return carry, jnp.where(
            legal, obs @ self.weights + jnp.sin(carry) - 1e6 * color_hint, -1e10
        )


def test_other_game_is_rejected() -> None:
    with pytest.raises(ValueError, match="--game: expected Hanabi .*, got overcooked"):
        OtherPlayConfig(game=game_from_text("overcooked"))


COLORLESS = (
    "missing",
    "deck",
    "info_tokens",
    "life_tokens",
    "last_kind",
    "last_rank",
    "last_touched",
    "last_slot",
)


def color_blind(seed: int) -> ColorBlind:
    part = observation_slices(RULES)
    weights = np.random.default_rng(seed).normal(size=(RULES.obs_size, RULES.num_actions))
    seen = np.concatenate([np.arange(part[name].start, part[name].stop) for name in COLORLESS])
    weights[np.setdiff1d(np.arange(RULES.obs_size), seen)] = 0
    return ColorBlind(jnp.asarray(weights, jnp.float32))


@pytest.mark.slow
def test_color_blind_scores_ignore_permutation() -> None:
    decks = evaluation_decks(RULES, 64, seed=0)
    bots = tuple(color_blind(seed) for seed in range(3))
    names = ([2, 0, 1], [1, 0, 2], [0, 2, 1])
    renamed = tuple(
        ColorPermuted(bot, jnp.array(colors)) for bot, colors in zip(bots, names, strict=True)
    )
    plain, wrapped = play_games(bots, RULES, decks), play_games(renamed, RULES, decks)
    np.testing.assert_array_equal(wrapped.points, plain.points)
    np.testing.assert_array_equal(wrapped.actions, plain.actions)
    assert plain.points.std() > 0.3


def network_policy(seed: int) -> NetworkPolicy:
    params = init_network(
        Actor(NETWORK, RULES.num_actions),
        jax.random.key(seed),
        NETWORK,
        RULES.obs_shape,
        RULES.num_actions,
    )
    return NetworkPolicy(params=jax.tree.map(lambda x: 4 * x, params), rules=RULES, network=NETWORK)


@pytest.mark.slow
def test_permuted_policies_play_permuted_games() -> None:
    decks, colors = evaluation_decks(RULES, 64, seed=1), jnp.array([1, 2, 0])
    policies = tuple(network_policy(seed) for seed in range(3))
    renamed = tuple(ColorPermuted(policy, colors) for policy in policies)
    there = play_games(policies, RULES, np.asarray(permute_decks(RULES, decks, colors)))
    # colour c in one is colours[c] in the other, for the policies too
    here = play_games(renamed, RULES, decks)
    np.testing.assert_array_equal(here.num_actions, there.num_actions)
    np.testing.assert_array_equal(
        np.asarray(permute_actions(RULES, here.actions, colors)), there.actions
    )
    assert (here.actions != there.actions).any()
    own = play_games(policies, RULES, decks)
    assert (own.actions != here.actions).any(), "the names matter to these policies"


class Played(NamedTuple):
    ppo: PPO
    params: Any
    rollout: Rollout


@pytest.fixture(scope="module")
def played() -> Played:
    ppo = PPO(
        make_ppo(game=RULES).config,
        NETWORK,
        sample_episode=renamed_colors(RULES),
    )

    params = jax.tree.map(lambda x: 3 * x, learner_params(ppo, jax.random.key(0)))

    @jax.jit
    def play(key: jax.Array) -> Any:
        actors = ppo.collector.init(key, ppo.config.num_envs, EMPTY_CONTEXT)
        return ppo.collector.collect(params, actors, EMPTY_CONTEXT, key, 30)[1]

    return Played(ppo, params, jax.tree.map(np.asarray, play(jax.random.key(0))))


def test_permutations_are_per_game_and_seat(played: Played) -> None:
    colors, begins = played.rollout.episode.colors, played.rollout.reset
    np.testing.assert_array_equal(
        np.sort(colors, axis=-1), np.broadcast_to(np.arange(3), colors.shape)
    )
    changed = (colors[1:] != colors[:-1]).any((-1, -2))
    assert not changed[~begins[1:]].any() and changed[begins[1:]].mean() > 0.9
    first_seat_to_others = (colors[:, :, :1] == colors[:, :, 1:]).all(-1).mean()
    assert 0.05 < first_seat_to_others < 0.35  # 1 in 6
    assert len(np.unique(colors.reshape(-1, 3), axis=0)) == 6


def test_seats_observe_and_act_in_own_colors(played: Played) -> None:
    """Training permutes states; here observations and masks are permuted, with equal results."""
    rollout, rules = played.rollout, RULES
    steps, envs = rollout.reset.shape
    flat = jax.tree.map(lambda x: x.reshape(steps * envs, *x.shape[2:]), rollout.state)
    colors = rollout.episode.colors.astype(np.int32)
    by_game = colors.reshape(steps * envs, 3, 3)
    obs, legal = jax.jit(
        lambda s, c: (
            permute_obs(rules, observe(rules, s), c),
            permute_legal(rules, legal_actions(rules, s), c),
        )
    )(flat, by_game)
    obs, legal = (np.asarray(x).reshape(steps, envs, 3, -1) for x in (obs, legal))
    module = Actor(NETWORK, rules.num_actions)
    encode_seat = jax.jit(lambda s, p, c: observe_rows(rules, s, p, c))
    apply = jax.jit(module.apply)
    for seat in range(3):
        mine = encode_seat(rollout.state, np.full(envs, seat), colors[:, :, seat])
        np.testing.assert_allclose(mine[0], obs[:, :, seat], atol=1e-6)
        np.testing.assert_array_equal(mine[1], legal[:, :, seat])
        carry = tuple((np.zeros((envs, w), np.float32),) * 2 for w in NETWORK.lstm)
        inputs = obs[:, :, seat], legal[:, :, seat], rollout.reset
        _, logits = apply({"params": played.params["actor"]}, carry, *inputs)
        chances = log_softmax(np.asarray(logits), axis=-1)
        taken = np.take_along_axis(chances, rollout.action[:, :, seat, None], -1)[..., 0]
        np.testing.assert_allclose(rollout.log_prob[:, :, seat], taken, rtol=1e-4, atol=1e-3)

    player = np.asarray(rollout.state.player)
    of_player = np.take_along_axis(rollout.action, player[..., None], -1)[..., 0]
    back = np.argsort(np.take_along_axis(colors, player[..., None, None], 2)[:, :, 0], axis=-1)
    true = np.asarray(permute_actions(rules, of_player, back))
    going_on = ~rollout.reset[1:]
    np.testing.assert_array_equal(true[:-1][going_on], rollout.state.last_action[1:][going_on])
    assert (true != of_player).any()
