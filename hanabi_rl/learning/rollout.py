"""Collecting experience: one jitted scan over environment timesteps.

The rollout keeps the compact game states, not observations: a minibatch encodes its own (`encode`),
    which costs far
less than storing and reading back 658 floats a seat.

What a learner draws anew for every game (who sits where, which colour is called what) is its
`Episode`.

Shapes: `T` timesteps, `N` environments, `P` seats. A *row* is one seat of one environment; networks
    see `N * P` rows.
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
from hanabi_rl.env.state import select_games
from hanabi_rl.env.streams import gumbel, random_words
from hanabi_rl.env.symmetry import invert_permutations, permute_actions, permute_state

PyTree = Any


class Episode(flax.struct.PyTreeNode):
    """What was drawn for the game in progress and holds until its end; P seats, C colours."""

    # bool [..., P], seats that the learner holds, the reference the others; None: all
    learns: jax.Array | None = None
    # uint8 [..., P, C], each seat sees colour c as colors[c]; None: as c
    colors: jax.Array | None = None


DrawEpisode = Callable[[jax.Array, jax.Array], Episode]
"""(key, environment timesteps done in training float32 []) -> what holds for one game."""


def self_play(key: jax.Array, timesteps: jax.Array) -> Episode:
    """The learner holds every seat and sees the colours as they are."""
    del key, timesteps
    return Episode()


class ActorState(flax.struct.PyTreeNode):
    """What continues from one rollout to the next; every leaf has a leading environment axis, so it
    shards."""

    env: EnvState
    carry: PyTree  # of the learner, [N, P, ...]
    reference_carry: PyTree  # of the reference policy, [N, P, ...]; None without one
    reset: jax.Array  # bool [N], a game begins at the next timestep
    episode: Episode  # [N, ...], of the game in progress
    index: jax.Array  # int32 [N], the environment's place among all of them, on whichever device


class Rollout(flax.struct.PyTreeNode):
    """Experience, time first."""

    state: State  # [T, N], before each action, without the deck
    reset: jax.Array  # bool [T, N], a game begins at this timestep
    episode: Episode  # [T, N, ...]
    action: jax.Array  # int32 [T, N, P], the no-op where idle; colours as the seat sees them
    log_prob: jax.Array  # float32 [T, N, P], of that action
    value: jax.Array  # float32 [T, N, P]
    transition: TimeStep  # [T, N], what the action brought
    reference_logits: jax.Array | None  # float32 [T, N, P, A]


def initial_actors(
    env: HanabiEnv,
    key: jax.Array,
    num_envs: int,
    initial_carry: Any,
    reference: Policy | None = None,
    draw_episode: DrawEpisode = self_play,
) -> ActorState:
    """Fresh games and zero carries for `num_envs` environments.

    Args:
        key: seeds the decks and episodes; environment e's depend on (key, e) alone.
        initial_carry: rows -> carry, of the learner.
        reference: a policy that watches every seat with a carry of its own.
        draw_episode: draws what holds for a game.
    """
    players = env.rules.num_players
    env_key, episode_key = jax.random.split(key)
    index = jnp.arange(num_envs, dtype=jnp.int32)

    def zero(carry: PyTree) -> PyTree:
        return jax.tree.map(lambda x: _seats(x, num_envs, players), carry)

    return ActorState(
        env=env.reset(env_key, num_envs),
        carry=zero(initial_carry(num_envs * players)),
        reference_carry=None
        if reference is None
        else zero(reference.init_carry(num_envs * players)),
        reset=jnp.ones(num_envs, bool),
        episode=jax.vmap(lambda i: draw_episode(jax.random.fold_in(episode_key, i), jnp.zeros(())))(
            index
        ),
        index=index,
    )


def collect(
    env: HanabiEnv,
    apply: Callable[..., Any],
    params: PyTree,
    reference: Policy | None,
    actors: ActorState,
    key: jax.Array,
    num_steps: int,
    draw_episode: Callable[[jax.Array], Episode] = lambda key: self_play(key, jnp.zeros(())),
) -> tuple[ActorState, Rollout, jax.Array]:
    """Plays `num_steps` timesteps in every environment, every seat sampling from the network that
    holds it.

    Args:
        apply: an actor-critic, `apply(params, carry, obs, legal, reset) -> (carry, logits, value)`,
            time first.
        reference: a policy whose logits are stored, and which holds the seats that the learner does
            not; or None.
        key: environment e's random numbers depend on (key, e) alone.
        draw_episode: key -> what holds for one game.

    Returns:
        The actors' state afterwards, the rollout, and the value of what comes after it, float32 [N,
        P].
    """
    rules = env.rules
    num_envs, players = actors.reset.shape[0], rules.num_players
    episode_keys = jax.random.wrap_key_data(
        random_words(key, 2 * actors.index + 1, 2), impl="threefry2x32"
    )
    # One row of noise for all seats: only the mover has a choice.
    words = random_words(key, 2 * actors.index, (num_steps + 1) * rules.num_moves)
    noise = gumbel(words).reshape(num_envs, num_steps + 1, rules.num_moves).swapaxes(0, 1)

    def view(actors: ActorState) -> tuple[jax.Array, jax.Array, jax.Array]:
        obs, legal = encode_all(rules, actors.env.game, actors.episode.colors)
        return _rows(obs), _rows(legal), jnp.repeat(actors.reset, players)

    def seats(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda x: _seats(x, num_envs, players), tree)

    def evaluate(
        actors: ActorState, seen: tuple[jax.Array, ...]
    ) -> tuple[PyTree, jax.Array, jax.Array]:
        carry, logits, value = apply(
            params, jax.tree.map(_rows, actors.carry), *(x[None] for x in seen)
        )
        return seats((carry, logits[0], value[0]))

    def consult_reference(
        actors: ActorState, seen: tuple[jax.Array, ...]
    ) -> tuple[PyTree, jax.Array | None]:
        if reference is None:
            return None, None
        return seats(reference.step(jax.tree.map(_rows, actors.reference_carry), *seen))

    def step(actors: ActorState, now: tuple[jax.Array, jax.Array]) -> tuple[ActorState, Rollout]:
        t, noise = now
        seen = view(actors)
        carry, logits, value = evaluate(actors, seen)
        reference_carry, reference_logits = consult_reference(actors, seen)
        game, episode = actors.env.game, actors.episode
        played = logits
        if episode.learns is not None:
            assert reference_logits is not None, (
                "seats that the learner does not hold need a reference policy"
            )
            played = jnp.where(episode.learns[..., None], logits, reference_logits)
        action = jnp.argmax(played + noise[:, None], axis=-1).astype(jnp.int32)
        log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[..., 0]
        move = _of_mover(_true_colors(rules, action, episode.colors), current_player(game))
        env_state, transition = env.step(actors.env, move)
        record = Rollout(
            state=game.without_deck(),
            reset=actors.reset,
            episode=episode,
            action=action,
            log_prob=log_prob,
            value=value,
            transition=transition,
            reference_logits=reference_logits,
        )
        drawn = jax.vmap(lambda k: draw_episode(jax.random.fold_in(k, t)))(episode_keys)
        after = actors.replace(
            env=env_state,
            carry=carry,
            reference_carry=reference_carry,
            reset=transition.done,
            episode=select_games(transition.done, drawn, episode),
        )
        # The step after the last only looks. (Looking outside the loop would compile observation
        # and network again.)
        return jax.lax.cond(t < num_steps, lambda: after, lambda: actors), record

    actors, records = jax.lax.scan(
        step, actors, (jnp.arange(num_steps + 1, dtype=jnp.int32), noise)
    )
    return actors, jax.tree.map(lambda x: x[:-1], records), records.value[-1]


def encode_all(rules: Rules, state: State, colors: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """What every seat of N games sees: obs float32 [N, P, O] and legal bool [N, P, A].

    colors: [N, P, C], how each seat sees the colours (None: as they are).
    """
    if colors is None:
        return observe(rules, state), legal_actions(rules, state)
    batch = state.turn.shape[0]
    seen = [
        _encode_seat(rules, state, jnp.full(batch, p, jnp.int32), colors[:, p])
        for p in range(rules.num_players)
    ]
    obs, legal = zip(*seen, strict=True)
    return jnp.stack(obs, axis=1), jnp.stack(legal, axis=1)


def encode(
    rules: Rules, state: State, seat: jax.Array, colors: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """What one seat of each game sees.

    Args:
        state: games [T, B], possibly without their decks.
        seat: int32 [B].
        colors: [T, B, C], how that seat sees the colours (None: as they are).

    Returns:
        obs float32 [T, B, O] and legal bool [T, B, A].
    """
    steps, batch = state.turn.shape
    flat, colors = jax.tree.map(lambda x: x.reshape(steps * batch, *x.shape[2:]), (state, colors))
    obs, legal = _encode_seat(rules, flat, jnp.tile(seat, steps), colors)
    return obs.reshape(steps, batch, -1), legal.reshape(steps, batch, -1)


def _encode_seat(
    rules: Rules, state: State, seat: jax.Array, colors: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """What one seat int32 [B] of each of B games sees, colours renamed by `colors` [B, C]."""
    if colors is not None:
        state = permute_state(rules, state.without_deck(), colors)
    return observe_seat(rules, state, seat), legal_for_seat(rules, state, seat)


def _true_colors(rules: Rules, action: jax.Array, colors: jax.Array | None) -> jax.Array:
    """Actions int32 [N, P] of seats that see the colours as `colors` [N, P, C], as the game knows
    them."""
    return action if colors is None else permute_actions(rules, action, invert_permutations(colors))


def _of_mover(action: jax.Array, player: jax.Array) -> jax.Array:
    """int32 [N, P], int32 [N] -> action[n, player[n]], without a gather."""
    return jnp.sum(jnp.where(jnp.arange(action.shape[1]) == player[:, None], action, 0), axis=1)


def _rows(x: jax.Array) -> jax.Array:
    """[N, P, ...] -> [N * P, ...]"""
    return x.reshape(-1, *x.shape[2:])


def _seats(x: jax.Array, num_envs: int, players: int) -> jax.Array:
    """[N * P, ...] -> [N, P, ...]"""
    return x.reshape(num_envs, players, *x.shape[1:])
