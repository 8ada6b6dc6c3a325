"""Teacher-forced evaluation: policies read recorded games without playing them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.data.trajectories import Trajectory, replay
from hanabi_rl.env.game import Rules
from hanabi_rl.env.observe import observe
from hanabi_rl.evaluate.episodes import DEFAULT_CHUNK, evaluation_decks, play_games, step_seats
from hanabi_rl.evaluate.intervals import Interval, bootstrap_ratio
from hanabi_rl.losses import kl_to_reference

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games

_CHUNK = 256  # games read at once


class Prediction(NamedTuple):
    """How a policy predicts recorded games: sums for each of N games, so that intervals can resample whole games.

    correct, nll: float64[N], right greedy guesses and nats of cross-entropy, summed over the counted decisions.
    decisions: int64[N] counted decisions. seat_timesteps: int64[N] timesteps times counted seats, idle ones included.
    """

    correct: np.ndarray
    nll: np.ndarray
    decisions: np.ndarray
    seat_timesteps: np.ndarray

    def accuracy(self) -> Interval:
        """Share of decisions guessed right."""
        return bootstrap_ratio(self.correct, self.decisions)

    def cross_entropy(self) -> Interval:
        """Nats per decision."""
        return bootstrap_ratio(self.nll, self.decisions)

    def cross_entropy_per_timestep(self) -> Interval:
        """Nats per seat and timestep, as AH2AC2 prints it: idle turns add 0 to the sum and 1 to the count."""
        return bootstrap_ratio(self.nll, self.seat_timesteps)


class Divergence(NamedTuple):
    """KL(reference || policy) in nats, sums for each of N games: kl float64[N]; decisions, seat_timesteps int64[N]."""

    kl: np.ndarray
    decisions: np.ndarray
    seat_timesteps: np.ndarray

    def per_decision(self) -> Interval:
        """Mean nats per decision."""
        return bootstrap_ratio(self.kl, self.decisions)

    def per_timestep(self) -> Interval:
        """Mean nats per seat and timestep (= per decision / players)."""
        return bootstrap_ratio(self.kl, self.seat_timesteps)


def predict(policy: Policy, games: Games, chunk_size: int = _CHUNK) -> Prediction:
    """Accuracy and cross-entropy of `policy` on `games`; only the `human_seats` count where the games name them.

    Raises ValueError when the games are of other rules than the policy's.
    """
    if games.rules != policy.rules:
        raise ValueError(f"expected games of {policy.rules}, got {games.rules}")
    seats = (
        np.ones((len(games.decks), games.rules.num_players), bool) if games.human_seats is None else games.human_seats
    )
    chunks = _in_chunks(chunk_size, games.decks, games.actions, seats)
    parts = [_predict_chunk(policy, *chunk, rules=games.rules) for chunk in chunks]
    correct, nll, decisions, seat_timesteps = _join(parts, len(games.decks))
    return Prediction(correct=correct, nll=nll, decisions=decisions, seat_timesteps=seat_timesteps)


def kl_between(
    reference: Policy, policy: Policy, num_games: int = 1000, seed: int = 0, chunk_size: int = _CHUNK
) -> Divergence:
    """KL(reference || policy) along `num_games` sampled self-play games of `policy` (design: `kl_to_bc`)."""
    rules = policy.rules
    decks = evaluation_decks(rules, num_games, seed, "kl")
    lineup = (policy,) * rules.num_players
    records = play_games(lineup, rules, decks, jax.random.key(seed), chunk_size=DEFAULT_CHUNK)
    return kl_on_games(reference, policy, records.decks, records.actions, chunk_size)


def kl_on_games(
    reference: Policy, policy: Policy, decks: np.ndarray, actions: np.ndarray, chunk_size: int = _CHUNK
) -> Divergence:
    """KL(reference || policy) along recorded games: decks [N, D] and the mover's actions [N, T], no-op after the end.

    Raises ValueError when the policies play different games.
    """
    if reference.rules != policy.rules:
        raise ValueError(f"expected a reference for {policy.rules}, got {reference.rules}")
    chunks = _in_chunks(chunk_size, decks, actions)
    parts = [_kl_chunk(reference, policy, *chunk, rules=policy.rules) for chunk in chunks]
    kl, decisions, seat_timesteps = _join(parts, len(decks))
    return Divergence(kl=kl, decisions=decisions, seat_timesteps=seat_timesteps)


@functools.partial(jax.jit, static_argnames=("rules",))
def _predict_chunk(
    policy: Policy, decks: jax.Array, actions: jax.Array, seats: jax.Array, *, rules: Rules
) -> tuple[jax.Array, ...]:
    """Sums of n games over their timesteps: correct, nll, decisions, seat_timesteps, each [n]."""

    def read(carry: Any, now: Trajectory, obs: jax.Array, reset: jax.Array) -> tuple[Any, tuple[jax.Array, ...]]:
        carry, logits = step_seats(policy, carry, obs, now.legal, reset)
        taken = jnp.take_along_axis(jax.nn.log_softmax(logits), now.action[..., None], axis=-1)[..., 0]
        right = jnp.argmax(logits, axis=-1) == now.action
        counted = now.decision & seats
        return carry, (
            (right & counted).sum(axis=1),
            -jnp.where(counted, taken, 0).sum(axis=1),
            counted.sum(axis=1),
            (now.valid[:, None] & seats).sum(axis=1),
        )

    return _sum_over_time(rules, replay(rules, decks, actions), read, _init_all_seats(policy, len(decks)))


@functools.partial(jax.jit, static_argnames=("rules",))
def _kl_chunk(
    reference: Policy, policy: Policy, decks: jax.Array, actions: jax.Array, *, rules: Rules
) -> tuple[jax.Array, ...]:
    """Sums of n games over their timesteps: KL, decisions, seat_timesteps, each [n]."""

    def read(carry: Any, now: Trajectory, obs: jax.Array, reset: jax.Array) -> tuple[Any, tuple[jax.Array, ...]]:
        reference_carry, reference_logits = step_seats(reference, carry[0], obs, now.legal, reset)
        policy_carry, logits = step_seats(policy, carry[1], obs, now.legal, reset)
        kl = jnp.where(now.decision, kl_to_reference(reference_logits, logits), 0).sum(axis=1)
        seat_timesteps = now.valid * rules.num_players
        return (reference_carry, policy_carry), (kl, now.decision.sum(axis=1), seat_timesteps)

    carry = tuple(_init_all_seats(p, len(decks)) for p in (reference, policy))
    return _sum_over_time(rules, replay(rules, decks, actions), read, carry)


def _sum_over_time(
    rules: Rules, games: Trajectory, read: Callable[..., tuple[Any, tuple[jax.Array, ...]]], carry: Any
) -> tuple[jax.Array, ...]:
    """Scans `read` over the timesteps, encoding one observation batch at a time, and sums what it returns."""

    def read_timestep(carry: Any, timestep: tuple[Trajectory, jax.Array]) -> tuple[Any, tuple[jax.Array, ...]]:
        now, reset = timestep
        return read(carry, now, observe(rules, now.state), reset)

    first = jnp.arange(games.valid.shape[0]) == 0
    _, terms = jax.lax.scan(read_timestep, carry, (games, first))
    return tuple(term.sum(axis=0) for term in terms)


def _init_all_seats(policy: Policy, num_games: int) -> Any:
    return policy.init_carry(num_games * policy.rules.num_players)


def _in_chunks(size: int, *arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Slices of `size` games; the last one wraps around to keep its shape, `_join` cuts the repeated games off."""
    total = len(arrays[0])
    size = min(size, total)
    for first in range(0, total, size):
        index = np.arange(first, first + size) % total
        yield tuple(array[index] for array in arrays)


def _join(parts: list[tuple[jax.Array, ...]], total: int) -> tuple[np.ndarray, ...]:
    """One array a sum, over all games: counts as int64, sums of floats as float64."""
    joined = (np.concatenate([np.asarray(part) for part in column])[:total] for column in zip(*parts, strict=True))
    return tuple(a.astype(np.float64 if a.dtype.kind == "f" else np.int64) for a in joined)
