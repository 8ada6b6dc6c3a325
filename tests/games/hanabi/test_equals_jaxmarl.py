"""`HanabiEnv` and jaxmarl 0.2 on the same decks with the same moves, auto-reset included.

Each step compares observations of all seats, legal moves, reward, end and current player; at the
end of a game, both its last state and the first of the next game. The comparison runs inside one
compiled scan per game and returns its verdicts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import shuffled_decks
from support.players import play_mixed

from hanabi_rl.games.hanabi import HanabiEnv, Rules, legal_actions
from hanabi_rl.games.hanabi import step as rules_step
from hanabi_rl.games.hanabi.observation import observe

STEPS = 230
DECKS = 3  # per environment, dealt cyclically
EXPLORE = np.repeat([1.0, 0.05, 0.0], [16, 8, 40])
"""Fraction of random moves per environment: random play, good play with mistakes, good play."""
RANDOM, GOOD = EXPLORE == 1.0, EXPLORE == 0.0


class Verdict(NamedTuple):
    """Result of one step, ``[N]`` each; after the scan ``[T, N]``."""

    # largest difference in any seat's observation, before and after auto-reset
    obs_error: jax.Array
    legal_differs: jax.Array
    reward_differs: jax.Array
    done_differs: jax.Array
    player_differs: jax.Array
    done: jax.Array
    score: jax.Array
    points: jax.Array
    last_round: jax.Array  # moves since the deck ran out, as in `State.last_round`


class JaxmarlGame:
    """jaxmarl's HanabiEnv for `rules`, for ``N`` parallel games, with arrays instead of agent
    dicts."""

    def __init__(self, rules: Rules) -> None:
        # takes 7 seconds: only where needed
        from jaxmarl.environments.hanabi.hanabi import (
            HanabiEnv as JaxmarlHanabi,
        )

        self.rules = rules
        self.env = JaxmarlHanabi(
            num_agents=rules.num_players,
            num_colors=rules.num_colors,
            num_ranks=rules.num_ranks,
            hand_size=rules.hand_size,
            max_info_tokens=rules.max_info_tokens,
            max_life_tokens=rules.max_life_tokens,
            num_cards_of_rank=np.array(rules.num_cards_of_rank),
        )

    def _by_seat(self, of_agents: dict[str, jax.Array]) -> jax.Array:
        return jnp.stack([of_agents[agent] for agent in self.env.agents], axis=-2)

    def reset(self, decks: jax.Array) -> tuple[jax.Array, jax.Array, Any]:
        """(observations [N, P, O], legal moves [N, P, A], states) of games on card ids [N,
        deck_size]."""
        pairs = jnp.stack(
            [decks // self.rules.num_ranks, decks % self.rules.num_ranks], axis=-1
        ).astype(jnp.int32)
        obs, state = jax.vmap(self.env.reset_from_deck_of_pairs)(pairs)
        return self._by_seat(obs), self.legal(state), state

    def legal(self, state: Any) -> jax.Array:
        return self._by_seat(jax.vmap(self.env.get_legal_moves)(state)) != 0

    def step(self, state: Any, action: jax.Array) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """(observations [N, P, O], states, reward [N], done [N]) without auto-reset."""
        key = jax.random.key(0)  # its step is deterministic
        step = jax.vmap(lambda s, a: self.env.step_env(key, s, dict.fromkeys(self.env.agents, a)))
        obs, state, reward, done, _ = step(state, action)
        return self._by_seat(obs), state, reward["__all__"], done["__all__"]


def play_both(rules: Rules, play_mixed: Callable[..., jax.Array], seed: int) -> Verdict:
    """Play `STEPS` moves in every environment on both sides; assert equality."""
    key = jax.random.key(seed)
    games = len(EXPLORE)
    decks = shuffled_decks(rules, key, games * DECKS).reshape(games, DECKS, rules.deck_size)
    play = both_games(rules, play_mixed)
    verdicts, first_error = jax.tree.map(
        np.asarray, play(decks, EXPLORE, jax.random.fold_in(key, 1))
    )
    assert first_error.max() <= 1e-6
    wrong = np.argwhere(~(verdicts.obs_error <= 1e-6))
    assert not wrong.size, (
        f"observations differ by {verdicts.obs_error.max()} at (step, game) {wrong[:5].tolist()}"
    )
    for name in ("legal_differs", "reward_differs", "done_differs", "player_differs"):
        wrong = np.argwhere(getattr(verdicts, name))
        assert not wrong.size, f"{name} at (step, game) {wrong[:5].tolist()}, {len(wrong)} in all"
    return verdicts


def both_games(
    rules: Rules, play_mixed: Callable[..., jax.Array]
) -> Callable[..., tuple[Verdict, jax.Array]]:
    """Compiled ``(decks uint8[N, K, D], explore [N], key) -> (verdicts, error of first
    observations)``."""
    env = HanabiEnv(**dataclasses.asdict(rules))
    theirs = JaxmarlGame(rules)

    def worst(ours: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.max(jnp.abs(ours - other), axis=(1, 2))

    def differ(ours: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.any((ours != other).reshape(ours.shape[0], -1), axis=1)

    @jax.jit
    def play(decks: jax.Array, explore: jax.Array, key: jax.Array) -> tuple[Verdict, jax.Array]:
        games = jnp.arange(decks.shape[0])
        starts = jax.tree.map(
            lambda x: x.reshape(*decks.shape[:2], *x.shape[1:]),
            theirs.reset(decks.reshape(-1, decks.shape[-1])),
        )

        def one_step(
            carry: tuple[Any, Any], step_key: jax.Array
        ) -> tuple[tuple[Any, Any], Verdict]:
            env_state, their_state = carry
            action = play_mixed(rules, env_state.game, step_key, explore)
            last, _, _ = rules_step(rules, env_state.game, action)
            next_state, timestep = env.step(env_state, action)
            end_obs, after, reward, done = theirs.step(their_state, action)
            end_legal = theirs.legal(after)

            def restart(start: jax.Array, going: jax.Array) -> jax.Array:
                fresh = start[games, next_state.game_index % DECKS]
                return jnp.where(done.reshape(-1, *(1,) * (fresh.ndim - 1)), fresh, going)

            obs, legal, after = jax.tree.map(restart, starts, (end_obs, end_legal, after))
            # before and after auto-reset in one batch: half the compilation
            states = jax.tree.map(lambda *both: jnp.concatenate(both), last, next_state.game)
            error = worst(observe(rules, states), jnp.concatenate([end_obs, obs]))
            legal_differs = differ(
                legal_actions(rules, states), jnp.concatenate([end_legal, legal])
            )
            verdict = Verdict(
                obs_error=jnp.max(error.reshape(2, -1), axis=0),
                legal_differs=jnp.any(legal_differs.reshape(2, -1), axis=0),
                reward_differs=timestep.reward != reward,
                done_differs=timestep.done != done,
                player_differs=next_state.game.player != jnp.argmax(after.cur_player_idx, axis=-1),
                done=timestep.done,
                score=timestep.score,
                points=timestep.points,
                last_round=last.last_round,
            )
            return (next_state, after), verdict

        first = env.reset_from_decks(decks)
        first_obs, _, their_first = jax.tree.map(lambda x: x[:, 0], starts)
        _, verdicts = jax.lax.scan(one_step, (first, their_first), jax.random.split(key, STEPS))
        return verdicts, worst(env.observe(first), first_obs)

    return play


@pytest.mark.parametrize(
    "players", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 4, 5))]
)
def test_standard_game_equals_jaxmarl(players):
    rules = Rules(num_players=players)
    seen = play_both(rules, play_mixed, seed=players)
    good_done, good_scores = seen.done[:, GOOD], seen.score[:, GOOD]
    assert seen.done[:, RANDOM].sum() >= 100 and good_done.sum() >= 100, "too few games"
    assert good_scores[good_done].mean() > 24, "good play is expected to score 24.6 and more"
    assert (good_done & (good_scores == rules.max_score)).sum() > 50, "too few perfect games"
    assert (seen.last_round == players + 1).sum() > 5, "too few games until the last turn"
    assert seen.done.sum(axis=0).max() > DECKS, "no environment dealt its first deck again"


# random play of the standard game also loses all lives, and good play completes it
@pytest.mark.slow
def test_small_game_equals_jaxmarl():
    players = 3
    rules = Rules(
        num_players=players,
        num_colors=3,
        num_ranks=3,
        hand_size=2,
        max_info_tokens=2,
        max_life_tokens=2,
    )
    seen = play_both(rules, play_mixed, seed=10 + players)
    bombed = seen.done & (seen.score == 0) & (seen.points > 0)
    assert bombed.sum() > 100, "too few games that lost points with the last life"
    assert (seen.last_round == players + 1).sum() > 50, "too few games until the last turn"
    assert (seen.done & (seen.score == rules.max_score)).sum() > 50, "too few perfect games"
