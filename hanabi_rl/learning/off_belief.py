"""Off-belief learning (Hu et al. 2021, arXiv 2103.04000): value moves under another policy's
belief.

At every turn the current player's hand is resampled from the belief under the previous level. For
level 1 that is the grounded belief (`games/hanabi/belief.py`: the rules alone, so the reason for a
move carries no information); for higher levels it is learned (`beliefs.py`). The real move is made
in this fictitious game, all seats continue with the current policy, and after k rounds

    G_k = r_0 + gamma r_1 + ... + gamma^(kP-1) r_(kP-1) + gamma^(kP) V(o_kP).

The target is G_1, or with `max_rounds` above 1 the lambda-weighted mean of G_1 .. G_R. It is the
critic's target and, minus the critic's estimate, the advantage of the move. The paper learns the
value of a policy under another policy's belief as Q; here PPO uses it. The paper stops at G_1, so
the hand is resampled once per round; further rounds continue in the sampled game, and less of the
target is the critic's estimate. In both forms a move is valued by later moves only. No convention
that the previous level lacks can be read from a move, so none emerges, and independent runs learn
to play alike.

Networks must not store information about a resampled hand: structured networks store only public
information (`agents/structured/hint_memory.py`).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.belief import resample_hand
from hanabi_rl.games.hanabi.dynamics import State, current_player, step
from hanabi_rl.games.prng import gumbel, random_words
from hanabi_rl.learning.beliefs import belief_log_weights
from hanabi_rl.learning.ppo import PPO, Experience
from hanabi_rl.learning.rewards import HanabiShaping
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, RunnerState, TrainContext
from hanabi_rl.learning.rollout_learner import LearnerState
from hanabi_rl.nn.structured_network import structured_config

PyTree = Any


@dataclasses.dataclass(frozen=True, eq=False)
class PreviousLevel:
    """Parameters of the previous level; compared by identity, so that each has a program of its
    own."""

    actor: PyTree
    """Initial parameters of the learner."""
    belief: PyTree
    """Parameters of the belief network trained on that level's games."""


@dataclasses.dataclass(frozen=True)
class OffBeliefPPO(PPO):
    """PPO with returns of fictitious games; for current-player networks with public memory, in
    self-play."""

    num_hands: int = 1
    """Sampled hands per decision; the target is the mean of their returns."""
    max_rounds: int = 1
    """Maximum rounds in a fictitious game before the critic's estimate; returns of several rounds
    are weighted by `gae_lambda`."""
    previous_level: PreviousLevel | None = None
    """None: level 1, with the grounded belief."""

    def __post_init__(self) -> None:
        super().__post_init__()
        structured_config(self.network)

    def init(
        self, key: jax.Array, context: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[LearnerState, RunnerState]:
        """See `RolloutLearner.init`; above level 1 the actor starts from the previous level."""
        return super().init(
            key, context, actor if self.previous_level is None else self.previous_level.actor
        )

    def make_experience(
        self,
        learner: LearnerState,
        before: RunnerState,
        context: TrainContext,
        key: jax.Array,
        rollout: Rollout,
        last_value: jax.Array,
    ) -> Experience:
        """See `PPO.make_experience`: the rollout with targets of fictitious games.

        The hands and moves of environment e depend only on (key, e).
        """
        del context, last_value
        feature_set, rules = structured_config(self.network).features, self.env.rules
        progress = self.progress(self.env_steps(learner))

        def look_back(memory: PyTree, now: tuple[State, jax.Array]) -> tuple[PyTree, PyTree]:
            memory, _ = self.view.encode_step(memory, *now, None)
            return memory, memory

        _, memories = jax.lax.scan(look_back, before.memory, (rollout.state, rollout.reset))
        steps = jnp.arange(self.config.num_steps, dtype=jnp.uint32)

        def of_step(now: tuple[jax.Array, State, PyTree, PyTree, jax.Array]) -> jax.Array:
            t, state, memory, view, action = now
            tilt = None
            if self.previous_level is not None:
                tilt = belief_log_weights(
                    rules, feature_set, self.previous_level.belief, view, memory, state
                )

            def of_hand(number: jax.Array) -> jax.Array:
                return self.fictitious_return(
                    learner.params,
                    state,
                    memory,
                    action,
                    jax.random.fold_in(key, t * self.num_hands + number + 1),
                    before.index,
                    progress,
                    tilt,
                )

            numbers = jnp.arange(self.num_hands, dtype=jnp.uint32)
            return jnp.mean(jax.lax.map(of_hand, numbers), axis=0)

        views = jax.tree.map(lambda x: x[:, :, 0], rollout.inputs)
        moves = rollout.action[..., 0]
        target = jax.lax.map(of_step, (steps, rollout.state, memories, views, moves))[..., None]
        return Experience(
            rollout=rollout,
            advantage=target - rollout.value,
            target=target,
            carry=before.carry,
        )

    def fictitious_return(
        self,
        params: PyTree,
        state: State,
        memory: PyTree,
        action: jax.Array,
        key: jax.Array,
        index: jax.Array,
        progress: jax.Array,
        tilt: jax.Array | None = None,
    ) -> jax.Array:
        """Target of one move in each of N games, float32 [N]: one sampled hand, `max_rounds`
        rounds.

        Args:
            params: of the actor-critic.
            state: games [N] before the move, without the deck; the current player's hand is not
                read.
            memory: of the view, after `encode_step` on `state`.
            action: int32 [N], the move.
            key, index: see `make_experience`; progress: see `Shaping.reward`.
            tilt: log weights of the sampled hands, see `games.hanabi.belief.sample_hand`.
        """
        rules, gamma, shaping = self.env.rules, self.config.gamma, self.config.shaping
        assert isinstance(shaping, HanabiShaping), "the game is Hanabi"
        plies = self.max_rounds * rules.num_players
        cards = rules.hand_size + plies
        words = random_words(key, index, cards + plies * rules.num_actions)
        noise = gumbel(words[:, cards:]).reshape(-1, plies, rules.num_actions)
        sampled = resample_hand(rules, state, current_player(state), words[:, :cards].T, tilt)

        def ply(now: tuple[Any, ...], noise: jax.Array) -> tuple[tuple[Any, ...], jax.Array]:
            """One move; also the return if the critic's estimate followed it."""
            game, memory, action, total, weight = now
            after, reward, done = step(rules, game, action)
            lives = game.life_tokens, after.life_tokens
            total += weight * shaping.score_reward(reward, *lives, progress)
            weight = jnp.where(done, 0.0, weight * gamma)
            game = after.materialized()
            memory, seen = self.view.encode_step(memory, game, jnp.zeros_like(done), None)
            reads = jax.tree.map(lambda x: x[:, 0], (seen.inputs, seen.legal))
            _, logits, value = self.apply(params, (), *reads, seen.reset)
            answer = jnp.argmax(logits + noise, axis=-1).astype(jnp.int32)
            return (game, memory, answer, total, weight), total + weight * value

        begun = jnp.zeros(action.shape), jnp.ones(action.shape)
        now = (sampled.materialized(), memory, action, *begun)
        _, estimates = jax.lax.scan(ply, now, jnp.moveaxis(noise, 1, 0))
        own_turns = slice(rules.num_players - 1, None, rules.num_players)
        return lambda_return(estimates[own_turns], self.config.gae_lambda)


def lambda_return(estimates: jax.Array, gae_lambda: float) -> jax.Array:
    """Lambda-weighted mean of returns by number of rounds, float32 [R, N] -> [N].

    Each return has `gae_lambda` times the weight of the one before; the last takes the remainder
    (Sutton and Barto 2018, eq. 12.3).
    """
    total = estimates[-1]
    for estimate in estimates[-2::-1]:
        total = (1.0 - gae_lambda) * estimate + gae_lambda * total
    return total
