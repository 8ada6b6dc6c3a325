"""Our game and jaxmarl 0.2's, played side by side on the same decks with the same moves, auto-reset included.

Every step compares the observation of every seat, the legal moves, the reward, the end and the seat to move; where a game
ends, both its last state and the first of the next game. The comparison runs inside one compiled scan for each game, and hands
back its verdicts.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.env import HanabiEnv, Rules, legal_actions, observe, shuffled_decks
from hanabi_rl.env import step as rules_step

jaxmarl_hanabi = pytest.importorskip("jaxmarl.environments.hanabi.hanabi")

DECKS = 3
EXPLORE = np.repeat([1.0, 0.05, 0.0], [32, 16, 80])
"""Each environment's share of random moves: random play, mostly good play, and good play."""
RANDOM, GOOD = EXPLORE == 1.0, EXPLORE == 0.0


class Verdict(NamedTuple):
    """What one step found, ``[N]`` each; after the scan ``[T, N]``."""

    obs_error: jax.Array  # largest difference of any number any seat sees, before and after auto-reset
    legal_differs: jax.Array
    reward_differs: jax.Array
    done_differs: jax.Array
    player_differs: jax.Array
    done: jax.Array
    score: jax.Array
    last_round: jax.Array  # our count of moves since the deck ran out, when the step was taken


class JaxmarlGame:
    """jaxmarl's HanabiEnv for `rules`, over ``N`` games at once and with arrays where it has dicts of agents."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.env = jaxmarl_hanabi.HanabiEnv(
            num_agents=rules.num_players,
            num_colors=rules.num_colors,
            num_ranks=rules.num_ranks,
            hand_size=rules.hand_size,
            max_info_tokens=rules.max_info_tokens,
            max_life_tokens=rules.max_life_tokens,
            num_cards_of_rank=np.array(rules.num_cards_of_rank),
        )

    def _by_seat(self, of_agents: dict) -> jax.Array:
        return jnp.stack([of_agents[agent] for agent in self.env.agents], axis=-2)

    def reset(self, decks: jax.Array) -> tuple[jax.Array, jax.Array, object]:
        """(observations [N, P, O], legal moves [N, P, A], states) of games on card ids [N, deck_size]."""
        pairs = jnp.stack([decks // self.rules.num_ranks, decks % self.rules.num_ranks], axis=-1).astype(jnp.int32)
        obs, state = jax.vmap(self.env.reset_from_deck_of_pairs)(pairs)
        return self._by_seat(obs), self.legal(state), state

    def legal(self, state) -> jax.Array:
        return self._by_seat(jax.vmap(self.env.get_legal_moves)(state)) != 0

    def step(self, state, action: jax.Array):
        """(observations, state, reward [N], done [N]) without auto-reset."""
        key = jax.random.key(0)  # its step is deterministic
        step = jax.vmap(lambda s, a: self.env.step_env(key, s, {agent: a for agent in self.env.agents}))
        obs, state, reward, done, _ = step(state, action)
        return self._by_seat(obs), state, reward["__all__"], done["__all__"]


def both_games(rules: Rules, mixed_player, steps: int):
    """A compiled function ``(decks uint8[N, K, D], explore [N], key) -> (Verdict[T, N], error of the first observations)``."""
    env = HanabiEnv(**{field: getattr(rules, field) for field in rules.__dataclass_fields__})
    theirs = JaxmarlGame(rules)

    def worst(ours: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.max(jnp.abs(ours - other), axis=(1, 2))

    def differ(ours: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.any((ours != other).reshape(ours.shape[0], -1), axis=1)

    @jax.jit
    def play(decks: jax.Array, explore: jax.Array, key: jax.Array):
        games = jnp.arange(decks.shape[0])
        starts = jax.tree.map(
            lambda x: x.reshape(*decks.shape[:2], *x.shape[1:]), theirs.reset(decks.reshape(-1, decks.shape[-1]))
        )

        def one_step(carry, step_key):
            env_state, their_state = carry
            action = mixed_player(rules, env_state.game, step_key, explore)
            last, _, _ = rules_step(rules, env_state.game, action)
            next_state, timestep = env.step(env_state, action)
            obs, after, reward, done = theirs.step(their_state, action)
            end_error = worst(observe(rules, last), obs)
            end_legal = differ(legal_actions(rules, last), theirs.legal(after))

            def restart(start: jax.Array, going: jax.Array) -> jax.Array:
                fresh = start[games, next_state.games % DECKS]
                return jnp.where(done.reshape(-1, *(1,) * (fresh.ndim - 1)), fresh, going)

            obs, legal, after = jax.tree.map(restart, starts, (obs, theirs.legal(after), after))
            verdict = Verdict(
                obs_error=jnp.maximum(end_error, worst(env.observe(next_state), obs)),
                legal_differs=end_legal | differ(env.legal_actions(next_state), legal),
                reward_differs=timestep.reward != reward,
                done_differs=timestep.done != done,
                player_differs=next_state.game.player != jnp.argmax(after.cur_player_idx, axis=-1),
                done=timestep.done,
                score=timestep.score,
                last_round=last.last_round,
            )
            return (next_state, after), verdict

        first = env.reset_from_decks(decks)
        first_obs, _, their_first = jax.tree.map(lambda x: x[:, 0], starts)
        _, verdicts = jax.lax.scan(one_step, (first, their_first), jax.random.split(key, steps))
        return verdicts, worst(env.observe(first), first_obs)

    return play


def assert_equal(verdicts: Verdict, first_error: np.ndarray) -> None:
    assert first_error.max() <= 1e-6
    worst = verdicts.obs_error.max()
    assert worst <= 1e-6, f"observations differ by {worst} at (step, game) {np.argwhere(~(verdicts.obs_error <= 1e-6))[:5]}"
    for name in ("legal_differs", "reward_differs", "done_differs", "player_differs"):
        wrong = np.argwhere(getattr(verdicts, name))
        assert not wrong.size, f"{name} at (step, game) {wrong[:5].tolist()}, {len(wrong)} in all"


@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_the_standard_game(players, mixed_player):
    rules = Rules(num_players=players)
    games = len(EXPLORE)
    decks = shuffled_decks(rules, jax.random.key(players), games * DECKS).reshape(games, DECKS, -1)
    play = both_games(rules, mixed_player, steps=230)
    verdicts, first_error = jax.tree.map(np.asarray, play(decks, EXPLORE, jax.random.key(players)))
    assert_equal(verdicts, first_error)
    print(report(verdicts))
    assert verdicts.done[:, RANDOM].sum() >= 200 and verdicts.done[:, GOOD].sum() >= 200
    good_done, good_scores = verdicts.done[:, GOOD], verdicts.score[:, GOOD]
    assert good_scores[good_done].mean() > 20
    assert (good_scores == rules.max_score).any(), "no perfect game"
    assert (verdicts.last_round == players + 1).any(), "no game lasted to its last turn"
    assert (verdicts.done & (verdicts.score == 0)).any(), "no game lost its lives"
    assert verdicts.done.sum(axis=0).max() > DECKS, "no environment dealt its first deck again"


def report(v: Verdict) -> dict:
    random, good = v.done[:, RANDOM], v.done[:, GOOD]
    return dict(
        random=int(random.sum()), good=int(good.sum()), all=int(v.done.sum()), err=float(v.obs_error.max()),
        mean=float(v.score[:, GOOD][good].mean()), perfect=int((v.score[:, GOOD][good] == 25).sum()),
        last=int((v.done & (v.last_round > 0)).sum()),
    )
