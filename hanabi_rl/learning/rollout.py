"""Rollout collection: one jitted scan over environment timesteps.

A rollout separates three properties of a seat: the policy that *plays* it, the learner or a
partner, sampled per game (`EpisodeSetup.is_learner`); the *reference* that the learner is
regularised towards, which observes every row and plays none; and the *observation view*: the seat's
colours, sampled per game, and the rows that networks read (`ObservationView`).

Shapes: `T` timesteps, `N` environments, `P` seats, `R` rows per environment (see
`observation_views.py`).
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import Policy
from hanabi_rl.games.batching import select_games
from hanabi_rl.games.game import Environment
from hanabi_rl.games.hanabi.symmetry import invert_permutations, permute_actions
from hanabi_rl.games.prng import gumbel, random_words
from hanabi_rl.learning.biased_rewards import BiasedReward
from hanabi_rl.learning.observation_views import (
    ObservationView,
    ViewOutput,
    flatten_rows,
    rotate_seats,
    unflatten_rows,
)
from hanabi_rl.learning.partner_population import (
    PartnerPopulation,
    apply_policy,
    init_carry,
    next_game_carries,
)

PyTree = Any


class EpisodeSetup(flax.struct.PyTreeNode):
    """Sampled properties of the current game, constant until its end; P seats, C colours."""

    # bool [..., P], seats of the learner; the partner holds the others; None: all
    is_learner: jax.Array | None = None
    # uint8 [..., P, C], seat sees colour c as colors[c]; None: no permutation
    colors: jax.Array | None = None
    # bool [...], True if the next game is a rematch: it keeps this setup, with seats shifted by
    # `seat_shift` int32 [...]; None: never
    is_rematch: jax.Array | None = None
    seat_shift: jax.Array | None = None


SampleEpisode = Callable[[jax.Array, jax.Array], EpisodeSetup]
"""(key, environment timesteps of training so far float32 []) -> setup of one game."""


def self_play(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
    """Self-play: the learner holds every seat, without colour permutation."""
    del key, timesteps
    return EpisodeSetup()


PrivilegedInputFn = Callable[[Any, PyTree, jax.Array, jax.Array | None], jax.Array]
"""(game, its states [...], seats int32 [..., R], their colours uint8 [..., R, C] or None) -> critic
input float32 [..., R, X] from the whole state."""


class TrainContext(flax.struct.PyTreeNode):
    """Read-only inputs of an update in addition to its state; replicated as one pytree."""

    # KL reference, whose logits are stored
    reference: Policy | None = None
    # policies of the seats that the learner does not hold
    partners: Policy | PartnerPopulation | None = None
    # states in which a part of the games starts; carries and memories start empty there
    start_states: PyTree = None
    # biased reward of the learner's own seats
    biased_reward: BiasedReward | None = None


EMPTY_CONTEXT = TrainContext()
"""Self-play for the score, from the start of every game."""


class RunnerState(flax.struct.PyTreeNode):
    """State between rollouts; every leaf has a leading environment axis, so it can be sharded."""

    env: PyTree  # state of the environments
    memory: PyTree  # memory of the view, [N, ...]; None if rows have their own
    carry: PyTree  # carry of the learner, [N, R, ...]
    reference_carry: PyTree  # carry of the reference, [N, ...]; None without one
    partner_carry: PyTree  # carry of the partners, [N, ...]; None without any
    reset: jax.Array  # bool [N], True if a game starts at the next timestep
    episode: EpisodeSetup  # [N, ...], setup of the current game
    index: jax.Array  # int32 [N], global number of the environment
    # bool [N], True if that game is a rematch and `memory` describes its players; None: no
    # rematches
    rematch: jax.Array | None = None


class Rollout(flax.struct.PyTreeNode):
    """Experience, time first."""

    state: PyTree  # games [T, N], before each action: `Environment.stored`
    reset: jax.Array  # bool [T, N], True at the first timestep of a game
    episode: EpisodeSetup  # [T, N, ...]
    action: jax.Array  # int32 [T, N, R], the no-op on idle turns; in the seat's colours
    log_prob: jax.Array  # float32 [T, N, R], of that action under the learner
    value: jax.Array  # float32 [T, N, R]
    transition: Any  # timestep [T, N], result of the action
    reference_logits: jax.Array | None  # float32 [T, N, R, A]
    inputs: PyTree = None  # [T, N, R, ...], network inputs if the view stores them
    extra: jax.Array | None = None  # [T, N, R, ...], fourth output of the network


@dataclasses.dataclass(frozen=True)
class Collector:
    """Collects rollouts with a network."""

    env: Environment
    view: ObservationView
    """Observation view of the network."""
    apply: Callable[..., Any]
    """Actor-critic (params, carry, inputs, legal, reset) -> (carry, logits, value), time first, and
    optionally a fourth output for `Rollout.extra`; with `privileged` the critic's
    input is one more argument."""
    network_carry: Callable[[int], PyTree]
    """rows -> initial carry of the network."""
    sample_episode: SampleEpisode = self_play
    privileged: PrivilegedInputFn | None = None
    """Critic's input from the whole state, in addition to the view."""
    acted: Callable[[PyTree, jax.Array], PyTree] | None = None
    """(carry [N, R, ...], actions int32 [N, R]) -> carry that knows the actions; None: as it is."""

    def init(
        self, key: jax.Array, num_envs: int, context: TrainContext = EMPTY_CONTEXT
    ) -> RunnerState:
        """Fresh games and zero carries for `num_envs` environments. key: seeds decks and episode
        setups; those of environment e depend only on (key, e)."""
        env_key, episode_key = jax.random.split(key)
        index = jnp.arange(num_envs, dtype=jnp.int32)
        episode = jax.vmap(
            lambda i: self.sample_episode(jax.random.fold_in(episode_key, i), jnp.zeros(()))
        )(index)
        return RunnerState(
            env=self.env.reset(env_key, num_envs),
            memory=self.view.memory(num_envs),
            carry=unflatten_rows(self.network_carry(num_envs * self.view.rows), num_envs),
            reference_carry=init_carry(self.view, context.reference, num_envs),
            partner_carry=init_carry(self.view, context.partners, num_envs),
            reset=jnp.ones(num_envs, bool),
            episode=episode,
            index=index,
            rematch=None if episode.is_rematch is None else jnp.zeros(num_envs, bool),
        )

    def collect(
        self,
        params: PyTree,
        actors: RunnerState,
        context: TrainContext,
        key: jax.Array,
        num_steps: int,
        timesteps: jax.Array | float = 0.0,
    ) -> tuple[RunnerState, Rollout, jax.Array]:
        """Play `num_steps` timesteps per environment; each seat samples from its policy. Random
        numbers of environment e depend only on (key, e); `timesteps` of training so far are for
        `sample_episode`.

        Returns:
            The runner state afterwards, the rollout, and the next value, float32 [N, R].
        """
        rules, view, num_envs = self.env.rules, self.view, actors.reset.shape[0]
        timesteps = jnp.asarray(timesteps, jnp.float32)
        episode_keys = jax.random.wrap_key_data(
            random_words(key, 2 * actors.index + 1, 2), impl="threefry2x32"
        )
        shape = num_steps + 1, view.noise_rows, rules.num_actions
        words = random_words(key, 2 * actors.index, math.prod(shape))
        noise = gumbel(words).reshape(num_envs, *shape).swapaxes(0, 1)

        def step(
            actors: RunnerState, now: tuple[jax.Array, jax.Array]
        ) -> tuple[RunnerState, Rollout]:
            t, noise = now
            game, episode = actors.env.game, actors.episode
            new_series = actors.reset if actors.rematch is None else actors.reset & ~actors.rematch
            memory, seen = view.encode_step(actors.memory, game, new_series, episode.colors)
            seen = seen.replace(reset=actors.reset)
            carry, logits, value, *extra = self.evaluate(params, actors.carry, seen)
            reference_carry, reference_logits = apply_policy(
                view, context.reference, actors.reference_carry, seen
            )
            partner_carry, partner_logits = apply_policy(
                view, context.partners, actors.partner_carry, seen.replace(reset=new_series)
            )
            played = played_logits(view, episode, game, logits, partner_logits)
            action = jnp.argmax(played + noise, axis=-1).astype(jnp.int32)
            carry = carry if self.acted is None else self.acted(carry, action)
            log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)
            move = view.joint_action(true_colors(view, episode, game, action), game)
            env_state, transition = self.env.step(actors.env, move, context.start_states)
            record = Rollout(
                state=self.env.stored(game),
                reset=actors.reset,
                episode=episode,
                action=action,
                log_prob=log_prob[..., 0],
                value=value,
                transition=transition,
                reference_logits=reference_logits,
                inputs=view.stored_inputs(seen),
                extra=extra[0] if extra else None,
            )
            sampled = jax.vmap(lambda k: self.sample_episode(jax.random.fold_in(k, t), timesteps))(
                episode_keys
            )
            after = actors.replace(
                env=env_state,
                memory=memory,
                carry=carry,
                reference_carry=reference_carry,
                partner_carry=partner_carry,
                reset=transition.done,
                episode=select_games(transition.done, sampled, episode),
            )
            if sampled.is_rematch is not None:
                after = apply_rematches(view, context, after, game, episode, sampled)
            # the step after the last only encodes; outside the loop it would compile again
            return jax.lax.cond(t < num_steps, lambda: after, lambda: actors), record

        actors, records = jax.lax.scan(
            step, actors, (jnp.arange(num_steps + 1, dtype=jnp.int32), noise)
        )
        return actors, jax.tree.map(lambda x: x[:-1], records), records.value[-1]

    def evaluate(self, params: PyTree, carry: PyTree, seen: ViewOutput) -> Any:
        """The network on every row: (carry [N, R, ...], logits [N, R, A], value [N, R], ...)."""
        num_envs, view = seen.reset.shape[0], self.view
        reads = [*flatten_rows((seen.inputs, seen.legal)), jnp.repeat(seen.reset, view.rows)]
        if self.privileged is not None:
            seat = jnp.broadcast_to(view.seats(seen.state), (num_envs, view.rows))
            colors = None if seen.colors is None else view.select_rows(seen.colors, seen.state)
            reads.append(flatten_rows(self.privileged(self.env.rules, seen.state, seat, colors)))
        reads = jax.tree.map(lambda x: x[None], reads)
        carry, *outputs = self.apply(params, flatten_rows(carry), *reads)
        return unflatten_rows((carry, *(x[0] for x in outputs)), num_envs)


def played_logits(
    view: ObservationView,
    episode: EpisodeSetup,
    game: PyTree,
    own: jax.Array,
    partners: jax.Array | None,
) -> jax.Array:
    """Logits [N, R, A] of the policy that plays each row: the learner's own or a partner's."""
    if episode.is_learner is None:
        return own
    assert partners is not None, "seats of others need partners"
    return jnp.where(view.select_rows(episode.is_learner, game)[..., None], own, partners)


def true_colors(
    view: ObservationView, episode: EpisodeSetup, game: PyTree, action: jax.Array
) -> jax.Array:
    """Convert actions int32 [N, R] from the rows' colours to the game's colours."""
    if episode.colors is None:
        return action
    colors = view.select_rows(episode.colors, game)
    return permute_actions(view.rules, action, invert_permutations(colors))


def apply_rematches(
    view: ObservationView,
    context: TrainContext,
    after: RunnerState,
    game: PyTree,
    episode: EpisodeSetup,
    sampled: EpisodeSetup,
) -> RunnerState:
    """Runner state `after` a move, adjusted where the next game continues with the same players.

    Args:
        game: games before that move, [N].
        episode: their setups.
        sampled: setups of the next games.
    """
    shift, again = sampled.seat_shift, sampled.is_rematch
    assert shift is not None and again is not None, "rematches need a seat shift"
    rematch = after.reset & again
    known = view.next_game(after.memory, game, after.env.game, shift)
    return after.replace(
        memory=select_games(rematch, known, after.memory),
        partner_carry=next_game_carries(
            view, context.partners, after.partner_carry, rematch, shift
        ),
        episode=select_games(rematch, rotate_seats_in_episode(episode, shift), after.episode),
        rematch=rematch,
    )


def rotate_seats_in_episode(episode: EpisodeSetup, shift: jax.Array) -> EpisodeSetup:
    """Setup of N games after all players moved int32 [N] `seat_shift` seats further."""
    learns, colors = rotate_seats((episode.is_learner, episode.colors), shift)
    return episode.replace(is_learner=learns, colors=colors)
