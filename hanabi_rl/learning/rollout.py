"""Collecting experience: one jitted scan over environment timesteps.

Three things about a seat are separate. Who *plays* it: the learner or a partner, drawn for each
game (`EpisodeSetup.learns`); the partner of an environment may be one of several (`partners.py`).
What the learner is *regularised towards*: the reference, which watches every row and plays none.
How the seat *sees* the game: its colours, drawn for each game, and the `ObservationView` of rows
that networks read.

Shapes: `T` timesteps, `N` environments, `P` seats, `R` rows an environment (see
`observation_views.py`).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.policy import Policy
from hanabi_rl.games.hanabi.dynamics import Rules, State
from hanabi_rl.games.hanabi.hanabi import EnvState, HanabiEnv, TimeStep
from hanabi_rl.games.hanabi.prng import gumbel, random_words
from hanabi_rl.games.hanabi.start_states import StartStates
from hanabi_rl.games.hanabi.state import select_games
from hanabi_rl.games.hanabi.symmetry import invert_permutations, permute_actions
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
    """What was drawn for the game in progress and holds until its end; P seats, C colours."""

    # bool [..., P], seats that the learner holds, the environment's partner the others; None: all
    is_learner: jax.Array | None = None
    # uint8 [..., P, C], each seat sees colour c as colors[c]; None: as c
    colors: jax.Array | None = None
    # bool [...], drawn for a game that follows another: whether it is a rematch, with what holds in
    # that one except for the seats, which all move on by `seat_shift` int32 [...]; None: never
    is_rematch: jax.Array | None = None
    seat_shift: jax.Array | None = None


SampleEpisode = Callable[[jax.Array, jax.Array], EpisodeSetup]
"""(key, environment timesteps done in training float32 []) -> what holds for one game."""


def self_play(key: jax.Array, timesteps: jax.Array) -> EpisodeSetup:
    """The learner holds every seat and sees the colours as they are."""
    del key, timesteps
    return EpisodeSetup()


PrivilegedInputFn = Callable[[Rules, State, jax.Array, jax.Array | None], jax.Array]
"""(rules, games [...], seats int32 [..., R], their colours uint8 [..., R, C] or None) -> float32
[..., R, X], from the whole state."""


class TrainContext(flax.struct.PyTreeNode):
    """What an update is given beside its own state and does not change; replicated as one."""

    # whose logits are stored: what the learner is regularised towards
    reference: Policy | None = None
    # who holds the seats that the learner does not
    partners: Policy | PartnerPopulation | None = None
    # where some of the games begin; carries and memories start empty there
    start_states: StartStates | None = None
    # what behaviours are worth to the learner's own seats
    biased_reward: BiasedReward | None = None


EMPTY_CONTEXT = TrainContext()
"""Self-play from the start of every game, for the score."""


class RunnerState(flax.struct.PyTreeNode):
    """What continues from one rollout to the next; every leaf has a leading environment axis, so it
    shards."""

    env: EnvState
    memory: PyTree  # of the view, [N, ...]; None where rows remember by themselves
    carry: PyTree  # of the learner, [N, R, ...]
    reference_carry: PyTree  # of the reference policy, [N, ...]; None without one
    partner_carry: PyTree  # of the partners, [N, ...]; None without any
    reset: jax.Array  # bool [N], a game begins at the next timestep
    episode: EpisodeSetup  # [N, ...], of the game in progress
    index: jax.Array  # int32 [N], the environment's place among all of them, on whichever device
    # bool [N], that game is a rematch, and `memory` knows the players; None: there are none
    rematch: jax.Array | None = None


class Rollout(flax.struct.PyTreeNode):
    """Experience, time first."""

    state: State  # [T, N], before each action, without the deck
    reset: jax.Array  # bool [T, N], a game begins at this timestep
    episode: EpisodeSetup  # [T, N, ...]
    action: jax.Array  # int32 [T, N, R], the no-op where idle; colours as the seat sees them
    log_prob: jax.Array  # float32 [T, N, R], of that action under the learner
    value: jax.Array  # float32 [T, N, R]
    transition: TimeStep  # [T, N], what the action brought
    reference_logits: jax.Array | None  # float32 [T, N, R, A]
    inputs: PyTree = None  # [T, N, R, ...], where the view stores what networks read


@dataclasses.dataclass(frozen=True)
class Collector:
    """A network at its games."""

    env: HanabiEnv
    view: ObservationView
    """What networks read."""
    apply: Callable[..., Any]
    """An actor-critic, (params, carry, inputs, legal, reset) -> (carry, logits, value), time first;
    with `privileged` it takes that as one argument more."""
    network_carry: Callable[[int], PyTree]
    """rows -> what the network carries from one timestep to the next."""
    draw_episode: SampleEpisode = self_play
    privileged: PrivilegedInputFn | None = None
    """What the critic reads of the whole state beside the view."""

    def init(
        self, key: jax.Array, num_envs: int, given: TrainContext = EMPTY_CONTEXT
    ) -> RunnerState:
        """Fresh games and zero carries for `num_envs` environments. key: seeds the decks and
        episodes; environment e's depend on (key, e) alone."""
        env_key, episode_key = jax.random.split(key)
        index = jnp.arange(num_envs, dtype=jnp.int32)
        episode = jax.vmap(
            lambda i: self.draw_episode(jax.random.fold_in(episode_key, i), jnp.zeros(()))
        )(index)
        return RunnerState(
            env=self.env.reset(env_key, num_envs),
            memory=self.view.memory(num_envs),
            carry=unflatten_rows(self.network_carry(num_envs * self.view.rows), num_envs),
            reference_carry=init_carry(self.view, given.reference, num_envs),
            partner_carry=init_carry(self.view, given.partners, num_envs),
            reset=jnp.ones(num_envs, bool),
            episode=episode,
            index=index,
            rematch=None if episode.is_rematch is None else jnp.zeros(num_envs, bool),
        )

    def collect(
        self,
        params: PyTree,
        actors: RunnerState,
        given: TrainContext,
        key: jax.Array,
        num_steps: int,
        timesteps: jax.Array | float = 0.0,
    ) -> tuple[RunnerState, Rollout, jax.Array]:
        """Play `num_steps` timesteps per environment; each seat samples from its network.

        Args:
            key: environment e's random numbers depend on (key, e) alone.
            timesteps: those of training so far, for `draw_episode`.

        Returns:
            The actors' state afterwards, the rollout, and the next value, float32 [N, R].
        """
        rules, view, num_envs = self.env.rules, self.view, actors.reset.shape[0]
        timesteps = jnp.asarray(timesteps, jnp.float32)
        episode_keys = jax.random.wrap_key_data(
            random_words(key, 2 * actors.index + 1, 2), impl="threefry2x32"
        )
        # One row of noise for all seats: only the mover has a choice.
        words = random_words(key, 2 * actors.index, (num_steps + 1) * rules.num_moves)
        noise = gumbel(words).reshape(num_envs, num_steps + 1, rules.num_moves).swapaxes(0, 1)

        def step(
            actors: RunnerState, now: tuple[jax.Array, jax.Array]
        ) -> tuple[RunnerState, Rollout]:
            t, noise = now
            game, episode = actors.env.game, actors.episode
            strange = actors.reset if actors.rematch is None else actors.reset & ~actors.rematch
            memory, seen = view.encode_step(actors.memory, game, strange, episode.colors)
            seen = seen.replace(reset=actors.reset)
            carry, logits, value = self.evaluate(params, actors.carry, seen)
            reference_carry, reference_logits = apply_policy(
                view, given.reference, actors.reference_carry, seen
            )
            partner_carry, partner_logits = apply_policy(
                view, given.partners, actors.partner_carry, seen.replace(reset=strange)
            )
            played = logits
            if episode.is_learner is not None:
                assert partner_logits is not None, "seats of others need partners"
                learns = view.select_rows(episode.is_learner, game)
                played = jnp.where(learns[..., None], logits, partner_logits)
            action = jnp.argmax(played + noise[:, None], axis=-1).astype(jnp.int32)
            log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)
            colors = None if episode.colors is None else view.select_rows(episode.colors, game)
            move = view.select_current_player(_true_colors(rules, action, colors), game)
            env_state, transition = self.env.step(actors.env, move, given.start_states)
            record = Rollout(
                state=game.without_deck(),
                reset=actors.reset,
                episode=episode,
                action=action,
                log_prob=log_prob[..., 0],
                value=value,
                transition=transition,
                reference_logits=reference_logits,
                inputs=view.stored_inputs(seen),
            )
            drawn = jax.vmap(lambda k: self.draw_episode(jax.random.fold_in(k, t), timesteps))(
                episode_keys
            )
            after = actors.replace(
                env=env_state,
                memory=memory,
                carry=carry,
                reference_carry=reference_carry,
                partner_carry=partner_carry,
                reset=transition.done,
                episode=select_games(transition.done, drawn, episode),
            )
            if drawn.is_rematch is not None:
                after = apply_rematches(view, given, after, game, episode, drawn)
            # The step after the last only encodes: outside the loop that would compile again.
            return jax.lax.cond(t < num_steps, lambda: after, lambda: actors), record

        actors, records = jax.lax.scan(
            step, actors, (jnp.arange(num_steps + 1, dtype=jnp.int32), noise)
        )
        return actors, jax.tree.map(lambda x: x[:-1], records), records.value[-1]

    def evaluate(
        self, params: PyTree, carry: PyTree, seen: ViewOutput
    ) -> tuple[PyTree, jax.Array, jax.Array]:
        """The network on every row: (carry [N, R, ...], logits [N, R, A], value [N, R])."""
        num_envs, view = seen.reset.shape[0], self.view
        reads = [
            flatten_rows(seen.inputs),
            flatten_rows(seen.legal),
            jnp.repeat(seen.reset, view.rows),
        ]
        if self.privileged is not None:
            seat = jnp.broadcast_to(view.seats(seen.state), (num_envs, view.rows))
            colors = None if seen.colors is None else view.select_rows(seen.colors, seen.state)
            reads.append(flatten_rows(self.privileged(self.env.rules, seen.state, seat, colors)))
        carry, logits, value = self.apply(
            params, flatten_rows(carry), *jax.tree.map(lambda x: x[None], reads)
        )
        return unflatten_rows((carry, logits[0], value[0]), num_envs)


def apply_rematches(
    view: ObservationView,
    given: TrainContext,
    after: RunnerState,
    game: State,
    episode: EpisodeSetup,
    drawn: EpisodeSetup,
) -> RunnerState:
    """`after` a move, but where another game with the same players follows as they know each other.

    Args:
        game: the games before that move, [N].
        episode: what held in them.
        drawn: what was drawn for the next ones.
    """
    shift, again = drawn.seat_shift, drawn.is_rematch
    assert shift is not None and again is not None, "a rematch says who sits where"
    rematch = after.reset & again
    known = view.next_game(after.memory, game, after.env.game, shift)
    return after.replace(
        memory=select_games(rematch, known, after.memory),
        partner_carry=next_game_carries(view, given.partners, after.partner_carry, rematch, shift),
        episode=select_games(rematch, rotate_seats_in_episode(episode, shift), after.episode),
        rematch=rematch,
    )


def rotate_seats_in_episode(episode: EpisodeSetup, shift: jax.Array) -> EpisodeSetup:
    """What holds in N games when everybody sits int32[N] `seat_shift` seats further."""
    learns, colors = rotate_seats((episode.is_learner, episode.colors), shift)
    return episode.replace(is_learner=learns, colors=colors)


def _true_colors(rules: Rules, action: jax.Array, colors: jax.Array | None) -> jax.Array:
    """Actions int32 [N, R] of rows that see the colours as `colors` [N, R, C], as the game knows
    them."""
    return action if colors is None else permute_actions(rules, action, invert_permutations(colors))
