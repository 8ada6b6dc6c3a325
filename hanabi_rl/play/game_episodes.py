"""Complete games of any `Game` between policies; `episodes.py` plays Hanabi, from given decks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.python_agent import as_pytrees
from hanabi_rl.data.game_records import GameRecords
from hanabi_rl.games.batching import select_games
from hanabi_rl.games.game import step_words
from hanabi_rl.games.prng import gumbel, random_words
from hanabi_rl.play.decks import Purpose
from hanabi_rl.play.episodes import check_lineup, group_identical
from hanabi_rl.storage.jax_settings import with_fixed_settings

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

CHUNK = 512
"""Games at once."""


class Episodes(NamedTuple):
    """N played games of at most T steps."""

    scores: np.ndarray
    """float64[N]."""
    lengths: np.ndarray
    """int32[N]: steps of each game."""
    actions: np.ndarray
    """uint8[N, T, P], by seat, uint16 for games of over 256 actions; 0 after the end."""
    starts: Any
    """[N]: first states."""
    keys: np.ndarray
    """uint32[N, 2]: random words of each game, see `step_words`."""

    @property
    def points(self) -> np.ndarray:
        """float64[N]: the scores; only Hanabi has points apart from them."""
        return self.scores


@with_fixed_settings(prng=True)
def play_episodes(
    policies: Sequence[Policy],
    num_games: int,
    seed: int = 0,
    *,
    sample: bool | None = None,
    seating: Sequence[int] | None = None,
    purpose: Purpose = "report",
    starts: Any = None,
    max_steps: int | None = None,
    chunk_size: int = CHUNK,
) -> Episodes:
    """Play `num_games` games to their end.

    Args:
        policies: one policy per position, of one `Game`. A repeated policy object is called once,
            on the rows of all its seats.
        seed: seed of the games of this purpose.
        sample: sample actions from the policies' distributions; None: as `Game.is_greedy` says.
        seating: policy i holds seat `seating[i]`; default: seat i.
        starts: states [num_games] in which the games start, instead of `Game.start`.
        max_steps: steps after which games stop; None: those of the game.
        chunk_size: games at once.

    Game k depends only on (seed, purpose, k) and on the policies, not on `chunk_size`.

    Raises:
        ValueError: a wrong number of policies, policies of different games, no games, a seating
            that is not a permutation, or a policy that returns NaN.
    """
    rules = policies[0].rules
    policies = as_pytrees(policies, rules)
    check_lineup(policies, rules)
    seats = tuple(range(rules.num_players)) if seating is None else tuple(map(int, seating))
    if sorted(seats) != list(range(rules.num_players)):
        raise ValueError(f"expected a permutation of {rules.num_players} seats, got {seats}")
    if num_games < 1:
        raise ValueError(f"expected at least one game, got num_games={num_games}")
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    distinct, positions = group_identical(policies)
    held = tuple(np.array([seats[i] for i in group], np.int32) for group in positions)
    key = jnp.asarray([get_args(Purpose).index(purpose) + 1, seed % 2**32], jnp.uint32)
    size, parts = min(chunk_size, num_games), []
    steps = rules.max_steps if max_steps is None else min(max_steps, rules.max_steps)
    for first in range(0, num_games, size):
        # equal shapes for all chunks; the surplus of the last is dropped
        index = np.arange(first, first + size) % num_games
        begin = None if starts is None else jax.tree.map(lambda x, i=index: x[i], starts)
        is_sampled = np.bool_(not rules.is_greedy if sample is None else sample)
        played = _play(
            distinct, held, key, index, begin, is_sampled, rules=rules, steps=steps
        )  # fmt: skip
        scores, lengths, actions, is_nan, first_states, keys = jax.device_get(played)
        if is_nan.any():
            raise ValueError("expected policies with finite logits, got NaN")
        count = min(size, num_games - first)
        found = scores.astype(np.float64), lengths, actions.swapaxes(0, 1), first_states, keys
        parts.append(jax.tree.map(lambda x, n=count: x[:n], Episodes(*found)))
    joined: Episodes = jax.tree.map(lambda *of_part: np.concatenate(of_part), *parts)
    return joined


@functools.partial(jax.jit, static_argnames=("rules", "steps"))
def _play(
    policies: tuple[Policy, ...],
    held: tuple[jax.Array, ...],
    key: jax.Array,
    index: jax.Array,
    starts: Any,
    sample: jax.Array,
    *,
    rules: Any,
    steps: int,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, Any, jax.Array]:
    """Scores [n], lengths int32 [n], actions [T, n, P], bool [n], True after NaN, first states
    [n], and each game's random words uint32 [n, 2].

    `held[g]` int32[S] are the seats of policy g, whose rows are ordered seat by seat; all seatings
    share one compiled function. Streams of a game: 0 starts it; 3 t + 1, 3 t + 2 and 3 t + 3 are
    for step t, its samples and the policies.
    """
    num_games, players, num_actions = len(index), rules.num_players, rules.num_actions
    pairs = random_words(key, index, 2)

    def words(stream: jax.Array | int, size: int) -> jax.Array:
        numbers = jnp.full(num_games, stream, jnp.uint32)
        return random_words(pairs, numbers, size)

    def step(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        t, state, carries, total, final, lengths, actions, is_nan = carry
        obs, legal = rules.observe(state), rules.legal(state)
        own = words(3 * t + 3, 2 * players).reshape(num_games, players, 2)
        keys = jax.random.wrap_key_data(own, impl="threefry2x32")
        logits = jnp.zeros((num_games, players, num_actions))
        after = []
        for policy, memory, seats in zip(policies, carries, map(list, held), strict=True):
            rows = [jnp.concatenate([x[:, seat] for seat in seats]) for x in (obs, legal, keys)]
            reset = jnp.full(num_games * len(seats), t == 0)
            memory, of_rows = policy.step(memory, rows[0], rows[1], reset, rows[2])
            after.append(memory)
            for seat, of_seat in zip(seats, jnp.split(of_rows, len(seats)), strict=True):
                logits = logits.at[:, seat].set(of_seat)
        noise = gumbel(words(3 * t + 2, players * num_actions)).reshape(logits.shape)
        chosen = jnp.argmax(logits + jnp.where(sample, noise, 0.0), axis=-1).astype(jnp.int32)
        playing = lengths == 0
        state_after, outcome = rules.step(state, chosen, step_words(pairs, t))
        total = total + outcome.reward
        ended = playing & (outcome.done | (t + 1 == steps))
        return (
            t + 1,
            select_games(playing, state_after, state),
            tuple(after),
            total,
            jnp.where(ended, rules.score(state_after, total), final),
            jnp.where(ended, t + 1, lengths),
            actions.at[t].set(jnp.where(playing[:, None], chosen, 0).astype(actions.dtype)),
            is_nan | (playing & jnp.isnan(logits).any(axis=(1, 2))),
        )

    zeros = jnp.zeros(num_games)
    begin = rules.start(words(0, 2)) if starts is None else jax.tree.map(jnp.asarray, starts)
    _, _, _, _, scores, lengths, actions, is_nan = jax.lax.while_loop(
        lambda carry: (carry[5] == 0).any(),
        step,
        (
            jnp.int32(0),
            begin,
            tuple(
                policy.init_carry(num_games * len(seats))
                for policy, seats in zip(policies, held, strict=True)
            ),
            zeros,
            zeros,
            zeros.astype(jnp.int32),
            jnp.zeros((steps, num_games, players), np.min_scalar_type(num_actions - 1)),
            zeros.astype(bool),
        ),
    )
    return scores, lengths, actions, is_nan, begin, pairs


def records_of(rules: Any, played: Episodes) -> GameRecords:
    """Played games as records, each a group of its own."""
    return GameRecords(
        rules=rules,
        replay_rules=rules,
        starts=played.starts,
        actions=played.actions,
        lengths=played.lengths,
        groups=np.arange(len(played.lengths), dtype=np.int32),
        keys=played.keys,
    )
