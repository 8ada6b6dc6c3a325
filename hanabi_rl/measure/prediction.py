"""Teacher-forced evaluation: policies read recorded games without playing them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hanabi_rl.env.game import Rules
from hanabi_rl.env.observe import observe
from hanabi_rl.env.replay import Trajectory, replay
from hanabi_rl.learning.losses import kl_to_reference
from hanabi_rl.measure.chunks import in_chunks, join_chunks
from hanabi_rl.measure.intervals import group_sums
from hanabi_rl.measure.ratio import Ratio
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import DEFAULT_CHUNK, play_games, step_seats

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games
    from hanabi_rl.measure.record import Record

_CHUNK = 256  # games read at once


class Prediction(NamedTuple):
    """How a policy predicts recorded games: sums for each of N games (or of N decks, each with all
    of its games), so that intervals can resample them whole.

    correct, nll: float64[N], right greedy guesses and nats of cross-entropy, summed over the
    counted decisions.
    decisions: int64[N] counted decisions. seat_timesteps: int64[N] timesteps times counted seats,
    idle ones included.
    """

    correct: np.ndarray
    nll: np.ndarray
    decisions: np.ndarray
    seat_timesteps: np.ndarray

    def accuracy(self) -> Ratio:
        """Share of decisions guessed right."""
        return Ratio(self.correct, self.decisions)

    def cross_entropy(self) -> Ratio:
        """Nats per decision."""
        return Ratio(self.nll, self.decisions)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: accuracy and nats per decision, each with its `*_ci95`."""
        accuracy, nats = self.accuracy().interval, self.cross_entropy().interval
        return {
            "accuracy": accuracy.mean,
            "accuracy_ci95": accuracy.bounds,
            "nats": nats.mean,
            "nats_ci95": nats.bounds,
        }

    def accuracy_per_timestep(self) -> Ratio:
        """Share of seat-timesteps guessed right: on an idle turn the no-op is the only legal
        action, a sure guess."""
        return Ratio(self.correct + self.seat_timesteps - self.decisions, self.seat_timesteps)

    def cross_entropy_per_timestep(self) -> Ratio:
        """Nats per seat and timestep, as AH2AC2 prints it: idle turns add 0 to the sum and 1 to the
        count."""
        return Ratio(self.nll, self.seat_timesteps)


class Decisions(NamedTuple):
    """What a policy expected at every decision of N recorded games, T timesteps long; one seat
    decides at a timestep.

    action, guess: int32[N, T], the recorded move and the policy's most likely one. nll: float64[N,
    T], nats of the
    recorded move. counted: bool[N, T], a decision of a counted seat. seat_timesteps: int64[N] as in
    `Prediction`.
    """

    action: np.ndarray
    guess: np.ndarray
    nll: np.ndarray
    counted: np.ndarray
    seat_timesteps: np.ndarray

    def summed(self, where: np.ndarray | None = None) -> Prediction:
        """The sums over the counted decisions of each game, or over those of them in `where`
        bool[N, T]."""
        counted = self.counted if where is None else self.counted & where
        return Prediction(
            correct=((self.guess == self.action) & counted).sum(axis=1).astype(np.float64),
            nll=np.where(counted, self.nll, 0).sum(axis=1),
            decisions=counted.sum(axis=1),
            seat_timesteps=self.seat_timesteps,
        )


class Divergence(NamedTuple):
    """KL(reference || policy) in nats, sums for each of N games: kl float64[N]; decisions,
    seat_timesteps int64[N]."""

    kl: np.ndarray
    decisions: np.ndarray
    seat_timesteps: np.ndarray

    def per_decision(self) -> Ratio:
        """Mean nats per decision."""
        return Ratio(self.kl, self.decisions)

    def per_timestep(self) -> Ratio:
        """Mean nats per seat and timestep (= per decision / players)."""
        return Ratio(self.kl, self.seat_timesteps)


def accuracy(record: Record) -> Ratio:
    """Share of decisions guessed right."""
    return record.prediction.accuracy()


def cross_entropy(record: Record) -> Ratio:
    """Nats per decision."""
    return record.prediction.cross_entropy()


def accuracy_per_timestep(record: Record) -> Ratio:
    """Share of seat-timesteps guessed right, idle ones included."""
    return record.prediction.accuracy_per_timestep()


def cross_entropy_per_timestep(record: Record) -> Ratio:
    """Nats per seat and timestep."""
    return record.prediction.cross_entropy_per_timestep()


def predict(policy: Policy, games: Games, chunk_size: int = _CHUNK) -> Prediction:
    """Accuracy and cross-entropy of `policy` on `games`, sums for each deck of theirs; only the
    `human_seats` count where the games name them.

    Raises ValueError when the games are of other rules than the policy's.
    """
    of_games, decks = predict_decisions(policy, games, chunk_size).summed(), games.deck_numbers
    return Prediction(*(group_sums(column, decks) for column in of_games))


def predict_decisions(policy: Policy, games: Games, chunk_size: int = _CHUNK) -> Decisions:
    """What `policy` expected at every single decision; arguments and errors as in `predict`."""
    if games.rules != policy.rules:
        raise ValueError(f"expected games of {policy.rules}, got {games.rules}")
    num_games, num_turns = games.actions.shape
    players = games.rules.num_players
    seats = np.ones((num_games, players), bool) if games.human_seats is None else games.human_seats
    chunks = in_chunks(chunk_size, games.decks, games.actions)
    guess, nll = join_chunks(
        [_predict_chunk(policy, *chunk, rules=games.rules) for chunk in chunks], num_games
    )
    played = np.arange(num_turns) < games.num_actions[:, None]
    return Decisions(
        action=games.actions,
        guess=guess,
        nll=nll.astype(np.float64),
        counted=played & seats[:, np.arange(num_turns) % players],
        seat_timesteps=games.num_actions.astype(np.int64) * seats.sum(axis=1),
    )


def kl_between(
    reference: Policy,
    policy: Policy,
    num_games: int = 1000,
    seed: int = 0,
    chunk_size: int = _CHUNK,
) -> Divergence:
    """KL(reference || policy) along `num_games` sampled self-play games of `policy` (a
    summary's `kl_to_bc`)."""
    rules = policy.rules
    decks = evaluation_decks(rules, num_games, seed, "kl")
    lineup = (policy,) * rules.num_players
    records = play_games(lineup, rules, decks, seed, sample=True, chunk_size=DEFAULT_CHUNK)
    return kl_on_games(reference, policy, records.decks, records.actions, chunk_size)


def kl_on_games(
    reference: Policy,
    policy: Policy,
    decks: np.ndarray,
    actions: np.ndarray,
    chunk_size: int = _CHUNK,
) -> Divergence:
    """KL(reference || policy) along recorded games: decks [N, D] and the mover's actions [N, T],
    no-op after the end.

    Raises ValueError when the policies play different games.
    """
    kl, decisions = _kl(reference, policy, decks, actions, np.ones(1), chunk_size)
    return Divergence(
        kl=kl[:, 0].astype(np.float64),
        decisions=decisions.astype(np.int64),
        seat_timesteps=decisions.astype(np.int64) * policy.rules.num_players,
    )


def kl_at_temperatures(
    reference: Policy,
    policy: Policy,
    decks: np.ndarray,
    actions: np.ndarray,
    temperatures: np.ndarray,
) -> np.ndarray:
    """Nats per decision float64[K] of KL(reference || policy) along recorded games, with the
    policy's logits divided by each of `temperatures` [K]. As `kl_on_games` otherwise."""
    kl, decisions = _kl(reference, policy, decks, actions, temperatures, _CHUNK)
    return np.asarray(kl.sum(axis=0, dtype=np.float64) / decisions.sum())


def _kl(
    reference: Policy,
    policy: Policy,
    decks: np.ndarray,
    actions: np.ndarray,
    temperatures: np.ndarray,
    chunk_size: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Of N games the sums of KL at each temperature, [N, K], and their decisions [N]."""
    if reference.rules != policy.rules:
        raise ValueError(f"expected a reference for {policy.rules}, got {reference.rules}")
    at = jnp.asarray(temperatures, jnp.float32)
    chunks = in_chunks(chunk_size, decks, actions)
    parts = [_kl_chunk(reference, policy, *chunk, at, rules=policy.rules) for chunk in chunks]
    kl, decisions = join_chunks(parts, len(decks))
    return kl, decisions


@functools.partial(jax.jit, static_argnames=("rules",))
def _predict_chunk(
    policy: Policy, decks: jax.Array, actions: jax.Array, *, rules: Rules
) -> tuple[jax.Array, ...]:
    """The mover's guess int32[n, T] and the nats of its recorded move float32[n, T], in n games."""

    def read(
        carry: Any, now: Trajectory, obs: jax.Array, reset: jax.Array
    ) -> tuple[Any, tuple[jax.Array, ...]]:
        carry, logits = step_seats(policy, carry, obs, now.legal, reset)
        nats = optax.softmax_cross_entropy_with_integer_labels(logits, now.action)
        guess = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        return carry, (
            jnp.where(now.decision, guess, 0).sum(axis=1),
            jnp.where(now.decision, nats, 0).sum(axis=1),
        )

    terms = _over_time(
        rules, replay(rules, decks, actions), read, _init_all_seats(policy, len(decks))
    )
    return tuple(term.T for term in terms)


@functools.partial(jax.jit, static_argnames=("rules",))
def _kl_chunk(
    reference: Policy,
    policy: Policy,
    decks: jax.Array,
    actions: jax.Array,
    temperatures: jax.Array,
    *,
    rules: Rules,
) -> tuple[jax.Array, ...]:
    """Sums of n games over their timesteps: KL [n, K] at each of `temperatures` [K], decisions
    [n]."""

    def read(
        carry: Any, now: Trajectory, obs: jax.Array, reset: jax.Array
    ) -> tuple[Any, tuple[jax.Array, ...]]:
        reference_carry, reference_logits = step_seats(reference, carry[0], obs, now.legal, reset)
        policy_carry, logits = step_seats(policy, carry[1], obs, now.legal, reset)

        def kl(temperature: jax.Array) -> jax.Array:
            nats = kl_to_reference(reference_logits, logits / temperature)
            return jnp.where(now.decision, nats, 0).sum(axis=1)

        sums = jax.lax.map(kl, temperatures).T, now.decision.sum(axis=1)
        return (reference_carry, policy_carry), sums

    carry = tuple(_init_all_seats(p, len(decks)) for p in (reference, policy))
    return tuple(
        term.sum(axis=0) for term in _over_time(rules, replay(rules, decks, actions), read, carry)
    )


def _over_time(
    rules: Rules,
    games: Trajectory,
    read: Callable[..., tuple[Any, tuple[jax.Array, ...]]],
    carry: Any,
) -> tuple[jax.Array, ...]:
    """Scans `read` over the timesteps, encoding one observation batch at a time; what it returns,
    each [T, n]."""

    def read_timestep(
        carry: Any, timestep: tuple[Trajectory, jax.Array]
    ) -> tuple[Any, tuple[jax.Array, ...]]:
        now, reset = timestep
        return read(carry, now, observe(rules, now.state), reset)

    first = jnp.arange(games.valid.shape[0]) == 0
    _, terms = jax.lax.scan(read_timestep, carry, (games, first))
    return terms


def _init_all_seats(policy: Policy, num_games: int) -> Any:
    return policy.init_carry(num_games * policy.rules.num_players)
