"""Collecting experience: one jitted scan over environment timesteps.

The rollout keeps the compact game states, not observations: a minibatch encodes its own (`encode`), which costs far
less than storing and
reading back 658 floats a seat.

Shapes: `T` timesteps, `N` environments, `P` seats. A *row* is one seat of one environment; networks see `N * P` rows.
"""

from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import Policy
from hanabi_rl.env.hanabi import EnvState, HanabiEnv, TimeStep
from hanabi_rl.env.observe import observe, observe_seat
from hanabi_rl.env.rules import Rules, State, current_player, legal_actions, legal_for_seat

PyTree = Any


class ActorState(flax.struct.PyTreeNode):
    """What continues from one rollout to the next; every leaf has a leading environment axis, so it shards."""

    env: EnvState
    carry: PyTree  # of the learner, [N, P, ...]
    reference_carry: PyTree  # of the reference policy, [N, P, ...]; None without one
    reset: jax.Array  # bool [N], a game begins at the next timestep
    index: jax.Array  # int32 [N], the environment's place among all of them, on whichever device


class Rollout(flax.struct.PyTreeNode):
    """Experience, time first."""

    state: State  # [T, N], before each action, without the deck
    reset: jax.Array  # bool [T, N], a game begins at this timestep
    action: jax.Array  # int32 [T, N, P], the no-op where idle
    log_prob: jax.Array  # float32 [T, N, P], of that action
    value: jax.Array  # float32 [T, N, P]
    transition: TimeStep  # [T, N], what the action brought
    reference_logits: jax.Array | None  # float32 [T, N, P, A]


def initial_actors(
    env: HanabiEnv, key: jax.Array, num_envs: int, initial_carry: Any, reference: Policy | None = None
) -> ActorState:
    """Fresh games and zero carries for `num_envs` environments.

    Args:
        key: seeds the decks; environment e's depend on (key, e) alone.
        initial_carry: rows -> carry, of the learner.
        reference: a policy that watches every seat with a carry of its own.
    """
    players = env.rules.num_players

    def zero(carry: PyTree) -> PyTree:
        return jax.tree.map(lambda x: _seats(x, num_envs, players), carry)

    return ActorState(
        env=env.reset(key, num_envs),
        carry=zero(initial_carry(num_envs * players)),
        reference_carry=None if reference is None else zero(reference.init_carry(num_envs * players)),
        reset=jnp.ones(num_envs, bool),
        index=jnp.arange(num_envs, dtype=jnp.int32),
    )


def collect(
    env: HanabiEnv,
    apply: Callable[..., Any],
    params: PyTree,
    reference: Policy | None,
    actors: ActorState,
    key: jax.Array,
    num_steps: int,
) -> tuple[ActorState, Rollout, jax.Array]:
    """Plays `num_steps` timesteps in every environment, every seat sampling from the network.

    Args:
        apply: an actor-critic, `apply(params, carry, obs, legal, reset) -> (carry, logits, value)`, time first.
        reference: a policy whose logits are stored, or None.
        key: environment e samples at timestep t with a key folded from (key, e, t).

    Returns:
        The actors' state afterwards, the rollout, and the value of what comes after it, float32 [N, P].
    """
    rules = env.rules
    num_envs, players = actors.reset.shape[0], rules.num_players
    env_keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(actors.index)

    def view(actors: ActorState) -> tuple[jax.Array, jax.Array, jax.Array]:
        obs, legal = observe(rules, actors.env.game), legal_actions(rules, actors.env.game)
        return _rows(obs), _rows(legal), jnp.repeat(actors.reset, players)

    def seats(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda x: _seats(x, num_envs, players), tree)

    def evaluate(actors: ActorState, seen: tuple[jax.Array, ...]) -> tuple[PyTree, jax.Array, jax.Array]:
        carry, logits, value = apply(params, jax.tree.map(_rows, actors.carry), *(x[None] for x in seen))
        return seats((carry, logits[0], value[0]))

    def consult_reference(actors: ActorState, seen: tuple[jax.Array, ...]) -> tuple[PyTree, jax.Array | None]:
        if reference is None:
            return None, None
        return seats(reference.step(jax.tree.map(_rows, actors.reference_carry), *seen))

    def step(actors: ActorState, t: jax.Array) -> tuple[ActorState, Rollout]:
        seen = view(actors)
        carry, logits, value = evaluate(actors, seen)
        reference_carry, reference_logits = consult_reference(actors, seen)
        act_keys = jax.vmap(lambda k: jax.random.fold_in(k, t))(env_keys)
        action = jax.vmap(jax.random.categorical)(act_keys, logits).astype(jnp.int32)
        log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[..., 0]
        game = actors.env.game
        env_state, transition = env.step(actors.env, _of_mover(action, current_player(game)))
        record = Rollout(
            state=game.without_deck(),
            reset=actors.reset,
            action=action,
            log_prob=log_prob,
            value=value,
            transition=transition,
            reference_logits=reference_logits,
        )
        actors = actors.replace(env=env_state, carry=carry, reference_carry=reference_carry, reset=transition.done)
        return actors, record

    actors, rollout = jax.lax.scan(step, actors, jnp.arange(num_steps, dtype=jnp.int32))
    last_value = evaluate(actors, view(actors))[2]
    return actors, rollout, last_value


def encode(rules: Rules, state: State, seat: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What one seat of each game sees.

    Args:
        state: games [T, B], possibly without their decks.
        seat: int32 [B].

    Returns:
        obs float32 [T, B, O] and legal bool [T, B, A].
    """
    steps, batch = state.turn.shape
    flat = jax.tree.map(lambda x: x.reshape(steps * batch, *x.shape[2:]), state)
    seats = jnp.tile(seat, steps)
    obs = observe_seat(rules, flat, seats)
    legal = legal_for_seat(rules, flat, seats)
    return obs.reshape(steps, batch, -1), legal.reshape(steps, batch, -1)


def _of_mover(action: jax.Array, player: jax.Array) -> jax.Array:
    """int32 [N, P], int32 [N] -> action[n, player[n]], without a gather."""
    return jnp.sum(jnp.where(jnp.arange(action.shape[1]) == player[:, None], action, 0), axis=1)


def _rows(x: jax.Array) -> jax.Array:
    """[N, P, ...] -> [N * P, ...]"""
    return x.reshape(-1, *x.shape[2:])


def _seats(x: jax.Array, num_envs: int, players: int) -> jax.Array:
    """[N * P, ...] -> [N, P, ...]"""
    return x.reshape(num_envs, players, *x.shape[1:])
