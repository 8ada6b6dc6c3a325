"""Teacher-forced evaluation: policies read recorded games without playing them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hanabi_rl.evaluation.measure.chunks import in_chunks, join_chunks
from hanabi_rl.evaluation.measure.intervals import group_sums
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.replay import Trajectory, replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.losses import kl_to_reference
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games, step_seats
from hanabi_rl.storage.jax_settings import with_our_settings
from hanabi_rl.storage.progress import SOON_S, Progress

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games
    from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis

_CHUNK = 256  # games read at once
_RULED_OUT = -ILLEGAL_LOGIT / 2
"""Nats of a legal move that a policy treats as an illegal one (`?safe`, `?gullible`)."""


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
        return Ratio(self.correct, self.decisions, is_proportion=True)

    def cross_entropy(self) -> Ratio:
        """Nats per decision."""
        return Ratio(self.nll, self.decisions)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: accuracy and cross-entropy [nats per decision], each with `*_ci95`."""
        accuracy, cross_entropy = self.accuracy().interval, self.cross_entropy().interval
        return {
            "accuracy": accuracy.mean,
            "accuracy_ci95": accuracy.bounds,
            "cross_entropy": cross_entropy.mean,
            "cross_entropy_ci95": cross_entropy.bounds,
        }

    def accuracy_per_timestep(self) -> Ratio:
        """Share of seat-timesteps guessed right: on an idle turn the no-op is the only legal
        action, a sure guess."""
        right = self.correct + self.seat_timesteps - self.decisions
        return Ratio(right, self.seat_timesteps, is_proportion=True)

    def cross_entropy_per_timestep(self) -> Ratio:
        """Nats per seat and timestep, as AH2AC2 prints it: idle turns add 0 to the sum and 1 to the
        count."""
        return Ratio(self.nll, self.seat_timesteps)


class Decisions(NamedTuple):
    """What a policy expected at every decision of N recorded games, T timesteps long; one seat
    decides at a timestep.

    action, guess: int32[N, T], the recorded move and the policy's most likely one. nll: float64[N,
    T], nats of the recorded move; infinite where the policy rules it out. counted: bool[N, T], a
    decision of a counted seat. seat_timesteps: int64[N] as in `Prediction`.
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
    """KL(reference || policy) in nats, sums for each of N games: kl float64[N], infinite where the
    policy rules out a move that the reference may make; decisions, seat_timesteps int64[N]."""

    kl: np.ndarray
    decisions: np.ndarray
    seat_timesteps: np.ndarray

    def per_decision(self) -> Ratio:
        """Mean nats per decision."""
        return Ratio(self.kl, self.decisions)

    def per_timestep(self) -> Ratio:
        """Mean nats per seat and timestep (= per decision / players)."""
        return Ratio(self.kl, self.seat_timesteps)


def accuracy(record: GameAnalysis) -> Ratio:
    """Share of decisions guessed right."""
    return record.prediction.accuracy()


def cross_entropy(record: GameAnalysis) -> Ratio:
    """Nats per decision."""
    return record.prediction.cross_entropy()


def accuracy_per_timestep(record: GameAnalysis) -> Ratio:
    """Share of seat-timesteps guessed right, idle ones included."""
    return record.prediction.accuracy_per_timestep()


def cross_entropy_per_timestep(record: GameAnalysis) -> Ratio:
    """Nats per seat and timestep."""
    return record.prediction.cross_entropy_per_timestep()


def predict(policy: Policy, games: Games, chunk_size: int = _CHUNK) -> Prediction:
    """Accuracy and cross-entropy of `policy` on `games`, sums for each deck of theirs; only the
    `human_seats` count where the games name them.

    Raises ValueError when the games are of other rules than the policy's, or the policy answers
    with NaN.
    """
    of_games, decks = predict_decisions(policy, games, chunk_size).summed(), games.deck_ids
    return Prediction(*(group_sums(column, decks) for column in of_games))


@with_our_settings
def predict_decisions(policy: Policy, games: Games, chunk_size: int = _CHUNK) -> Decisions:
    """What `policy` expected at every single decision; arguments and errors as in `predict`."""
    games.check_rules(policy.rules)
    num_games, num_turns = games.actions.shape
    players = games.rules.num_players
    seats = np.ones((num_games, players), bool) if games.human_seats is None else games.human_seats
    parts = []
    with Progress("prediction", total=num_games, unit="games", quiet_s=SOON_S) as progress:
        for chunk in in_chunks(chunk_size, games.decks, games.actions):
            logits = movers_logits(policy, *chunk, rules=games.rules)
            parts.append(jax.device_get(_guesses(logits, chunk[1])))
            progress.update(min(len(parts) * chunk_size, num_games))
    guess, nll = join_chunks(parts, num_games)
    played = np.arange(num_turns) < games.num_actions[:, None]
    _check_numbers(np.where(played, nll, 0.0).sum(axis=1))
    return Decisions(
        action=games.actions,
        guess=guess,
        nll=np.where(nll >= _RULED_OUT, np.inf, nll).astype(np.float64),
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
    records = play_games(lineup, rules, decks, seed, sample=True)
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


@with_our_settings
def _kl(
    reference: Policy,
    policy: Policy,
    decks: np.ndarray,
    actions: np.ndarray,
    temperatures: np.ndarray,
    chunk_size: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Of N games the sums of KL at each temperature, [N, K], and their decisions [N]."""
    rules = policy.rules
    if reference.rules != rules:
        raise ValueError(
            f"expected a reference for {rules.difference_from(reference.rules)}, got one for "
            f"{reference.rules.difference_from(rules)}"
        )
    at = jnp.asarray(temperatures, jnp.float32)
    parts = []
    with Progress("KL", total=len(decks), unit="games", quiet_s=SOON_S) as progress:
        for chunk in in_chunks(chunk_size, decks, actions):
            expected, got = (movers_logits(p, *chunk, rules=rules) for p in (reference, policy))
            valid = chunk[1] != rules.noop
            sums = _kl_sums(expected, got, valid, at), _rules_out(expected, got, valid)
            parts.append(jax.device_get(sums))
            progress.update(min(len(parts) * chunk_size, len(decks)))
    kl, infinite = join_chunks(parts, len(decks))
    kl = np.where(infinite[:, None], np.inf, kl)
    _check_numbers(kl.sum(axis=1))
    return kl, np.asarray(actions != rules.noop).sum(axis=1)


def _check_numbers(nats: np.ndarray) -> None:
    """Raises ValueError if a sum over a game, of `nats` [N], is NaN, whose largest logit would
    count as a guess."""
    if len(games := np.flatnonzero(np.isnan(nats))):
        raise ValueError(f"expected logits that are numbers, got NaN in game {games[0]}")


@functools.partial(jax.jit, static_argnames=("rules",))
def movers_logits(
    policy: Policy, decks: jax.Array, actions: jax.Array, *, rules: Rules
) -> jax.Array:
    """What `policy` answers at every position of n recorded games, in the mover's seat.

    One compiled program a policy's structure: predictions and divergences are sums over what it
    returns, logits float32[n, T, A], zeros after a game's end.
    """

    def read(carry: Any, timestep: tuple[Trajectory, jax.Array]) -> tuple[Any, jax.Array]:
        now, reset = timestep
        obs = observe(rules, now.state)
        carry, logits = step_seats(policy, carry, obs, now.legal, reset)
        return carry, jnp.where(now.decision[..., None], logits, 0).sum(axis=1)

    games = replay(rules, decks, actions)
    first = jnp.arange(games.valid.shape[0]) == 0
    carry = policy.init_carry(len(decks) * rules.num_players)
    _, logits = jax.lax.scan(read, carry, (games, first))
    return jnp.swapaxes(logits, 0, 1)


@jax.jit
def _guesses(logits: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The most likely move int32[n, T] and the nats of the recorded one float32[n, T]."""
    nats = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.asarray(actions, jnp.int32))
    return jnp.argmax(logits, axis=-1).astype(jnp.int32), nats


@jax.jit
def _rules_out(reference: jax.Array, policy: jax.Array, valid: jax.Array) -> jax.Array:
    """Games, bool[n], with a `valid` bool[n, T] timestep at which the policy rules out a move to
    which the reference gives a probability above 0."""
    may = jax.nn.softmax(reference, axis=-1) > 0
    never = jax.nn.log_softmax(policy, axis=-1) <= -_RULED_OUT
    return jnp.any(jnp.any(may & never, axis=-1) & valid, axis=1)


@jax.jit
def _kl_sums(
    reference: jax.Array, policy: jax.Array, valid: jax.Array, temperatures: jax.Array
) -> jax.Array:
    """Sums over the `valid` bool[n, T] timesteps of n games of the KL at each temperature, [n,
    K]."""

    def at(temperature: jax.Array) -> jax.Array:
        return jnp.where(valid, kl_to_reference(reference, policy / temperature), 0).sum(axis=1)

    return jax.lax.map(at, temperatures).T
