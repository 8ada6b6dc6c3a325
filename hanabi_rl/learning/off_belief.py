"""Off-belief learning (Hu et al. 2021, arXiv 2103.04000): what a move is worth to whoever reads the
past as if another policy had made it, and takes the future from its own.

At every turn the mover's hand is drawn anew from the belief under the level below. Of level 1 that
is the grounded belief (`games/hanabi/belief.py`: the rules alone, so that nothing is read into why
a move was chosen), above it a learnt one (`beliefs.py`). The mover's real move is made in that
fictitious game, everybody answers there with the policy as it is, and when the turn has come round
k times

    G_k = r_0 + gamma r_1 + ... + gamma^(kP-1) r_(kP-1) + gamma^(kP) V(o_kP).

The target is G_1, or over more `max_rounds` the mean of G_1 .. G_R that lambda gives them. It is
both what the critic learns and, minus the critic's estimate, the move's advantage (the paper's
value of a policy from now on under the belief of another, here by PPO where the paper learns Q).
The paper's learner stops at G_1, where the critic's V has the hand drawn anew once more; further
rounds go on in the game that was drawn, so that less of the target is the critic's guess. Either
way a move is judged by later moves alone, and those by what is still later: since nothing can be
read out of a convention that the level below does not have, none comes up, and independent runs
come to play alike.

The networks must remember nothing of a hand that is drawn anew: what structured ones keep of a game
is public (`agents/structured/hint_memory.py`).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.games.hanabi.belief import resample_hand
from hanabi_rl.games.hanabi.dynamics import State, current_player, step
from hanabi_rl.games.hanabi.prng import gumbel, random_words
from hanabi_rl.learning.beliefs import belief_log_weights
from hanabi_rl.learning.ppo import PPO, Experience, LearnerState
from hanabi_rl.learning.rewards import shaped_score_reward
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Rollout, RunnerState, TrainContext
from hanabi_rl.nn.config import AnyNetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig

PyTree = Any


def check_network(network: AnyNetworkConfig) -> None:
    """Raises ValueError for a network that remembers more than what is public."""
    if network.kind != "structured":
        raise ValueError(
            "network.kind: expected structured, whose memory does not depend on the hand that is "
            f"drawn anew, got {network.kind}"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class PreviousLevel:
    """The level below, as parameters: by identity, so that no two are one program."""

    actor: PyTree
    """What the learner begins as."""
    belief: PyTree
    """Of the belief network that was taught by that level's games."""


@dataclasses.dataclass(frozen=True)
class OffBeliefPPO(PPO):
    """PPO whose returns are of fictitious games. For networks that read for the mover and keep
    public memories alone; in self-play, every seat the learner's."""

    num_hands: int = 1
    """Drawn anew for a decision, each with answers of its own; the target is their mean."""
    max_rounds: int = 1
    """Played in a fictitious game at most before the critic says what the rest is worth; with more
    than one their returns are weighed by `gae_lambda`."""
    previous_level: PreviousLevel | None = None
    """None: level 1, whose belief is the grounded one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_network(self.network)

    def init(
        self, key: jax.Array, given: TrainContext = EMPTY_CONTEXT, actor: PyTree = None
    ) -> tuple[LearnerState, RunnerState]:
        """See `PPO.init`; above level 1 the actor is that of the level below."""
        return super().init(
            key, given, actor if self.previous_level is None else self.previous_level.actor
        )

    def make_experience(
        self,
        learner: LearnerState,
        before: RunnerState,
        given: TrainContext,
        key: jax.Array,
        rollout: Rollout,
        last_value: jax.Array,
    ) -> Experience:
        """See `PPO.experience`: the rollout with fictitious targets. Environment e's hands and
        answers depend on (key, e) alone."""
        del given, last_value
        assert isinstance(self.network, StructuredConfig), "check_network"
        feature_set, rules = self.network.features, self.env.rules
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
        """The target of one move in each of N games, float32 [N]: one hand drawn, `max_rounds`
        played.

        Args:
            params: of the actor-critic.
            state: before the move, [N], without the deck; the mover's hand is not read.
            memory: of the view, after it looked at `state`.
            action: int32 [N], the move.
            key, index: see `make_experience`; progress: see `training_reward`.
            tilt: of the hands that are drawn, see `games.hanabi.belief.sample_hand`.
        """
        rules, gamma = self.env.rules, self.config.gamma
        plies = self.max_rounds * rules.num_players
        cards = rules.hand_size + plies
        words = random_words(key, index, cards + plies * rules.num_moves)
        noise = gumbel(words[:, cards:]).reshape(-1, plies, rules.num_moves)
        drawn = resample_hand(rules, state, current_player(state), words[:, :cards].T, tilt)

        def ply(now: tuple[Any, ...], noise: jax.Array) -> tuple[tuple[Any, ...], jax.Array]:
            """A move; also what its return would be by the critic's word on what follows."""
            game, memory, action, total, weight = now
            after, reward, done = step(rules, game, action)
            lives = game.life_tokens, after.life_tokens
            total += weight * shaped_score_reward(self.config, reward, *lives, progress)
            weight = jnp.where(done, 0.0, weight * gamma)
            game = after.materialized()
            memory, seen = self.view.encode_step(memory, game, jnp.zeros_like(done), None)
            reads = jax.tree.map(lambda x: x[:, 0], (seen.inputs, seen.legal))
            _, logits, value = self.apply(params, (), *reads, seen.reset)
            answer = jnp.argmax(logits + noise, axis=-1).astype(jnp.int32)
            return (game, memory, answer, total, weight), total + weight * value

        begun = jnp.zeros(action.shape), jnp.ones(action.shape)
        now = (drawn.materialized(), memory, action, *begun)
        _, estimates = jax.lax.scan(ply, now, jnp.moveaxis(noise, 1, 0))
        own_turns = slice(rules.num_players - 1, None, rules.num_players)
        return lambda_return(estimates[own_turns], self.config.gae_lambda)


def lambda_return(estimates: jax.Array, gae_lambda: float) -> jax.Array:
    """The mean of returns by number of rounds, float32 [R, N] -> [N]: each has `gae_lambda` times
    the weight of the one before, the last all that is left (Sutton and Barto 2018, eq. 12.3)."""
    total = estimates[-1]
    for estimate in estimates[-2::-1]:
        total = (1.0 - gae_lambda) * estimate + gae_lambda * total
    return total
