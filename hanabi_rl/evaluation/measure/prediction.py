"""Teacher-forced evaluation: policies predict recorded games without playing them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hanabi_rl.data.game_records import GameRecords
from hanabi_rl.evaluation.measure.chunks import in_chunks, join_chunks
from hanabi_rl.evaluation.measure.intervals import group_sums, interval_dict
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.measure.record_prediction import (
    RULED_OUT,
    kl_along_play,
    prediction_sums,
    record_logits,
    rules_out,
)
from hanabi_rl.games.hanabi.observation import observe
from hanabi_rl.games.hanabi.replay import Trajectory, replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games, step_seats
from hanabi_rl.storage.jax_settings import with_fixed_settings
from hanabi_rl.storage.program_cache import CachedJit
from hanabi_rl.storage.progress import SOON_S, Progress

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games

_CHUNK = 256  # games per chunk


class Prediction(NamedTuple):
    """Prediction of recorded games: sums per game (or per deck), N in number.

    correct: float64[N], correct greedy predictions of counted decisions. nll: float64[N], negative
    log-likelihood of counted decisions in nats. decisions: int64[N], counted decisions.
    seat_timesteps: int64[N], timesteps times counted seats, idle ones included. top_10, top_20:
    float64[N], counted decisions among the 10% and 20% most likely legal moves.
    """

    correct: np.ndarray
    nll: np.ndarray
    decisions: np.ndarray
    seat_timesteps: np.ndarray
    top_10: np.ndarray
    top_20: np.ndarray

    def accuracy(self) -> Ratio:
        """Fraction of decisions predicted correctly."""
        return Ratio(self.correct, self.decisions, is_proportion=True)

    def top_10_accuracy(self) -> Ratio:
        """Fraction of decisions with fewer than 10% of the legal moves before the recorded one, by
        probability, ties by action id as in the greedy choice. Up to ten legal moves: `accuracy`.
        """
        return Ratio(self.top_10, self.decisions, is_proportion=True)

    def top_20_accuracy(self) -> Ratio:
        """As `top_10_accuracy`, with 20% of the legal moves."""
        return Ratio(self.top_20, self.decisions, is_proportion=True)

    def cross_entropy(self) -> Ratio:
        """Nats per decision."""
        return Ratio(self.nll, self.decisions)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready: accuracy and cross-entropy (nats per decision), each with `*_ci95`."""
        accuracy = interval_dict("accuracy", self.accuracy().interval)
        return accuracy | interval_dict("cross_entropy", self.cross_entropy().interval)

    def accuracy_per_timestep(self) -> Ratio:
        """Fraction of seat-timesteps predicted correctly; an idle turn, where the no-op is the only
        legal action, is always correct."""
        right = self.correct + self.seat_timesteps - self.decisions
        return Ratio(right, self.seat_timesteps, is_proportion=True)

    def cross_entropy_per_timestep(self) -> Ratio:
        """Nats per seat-timestep, as in AH2AC2: idle turns add 0 to the sum and 1 to the count."""
        return Ratio(self.nll, self.seat_timesteps)


class Decisions(NamedTuple):
    """Predictions of a policy at every decision of N recorded games of T timesteps, one per
    timestep.

    action, guess: int32[N, T], the recorded action and the policy's most likely one. nll:
    float64[N, T], nats of the recorded action; infinite if the policy rules it out. counted:
    bool[N, T], True for decisions of counted seats. seat_timesteps: int64[N], as in `Prediction`.
    rank: int32[N, T], number of actions before the recorded one, by logit, then by id. num_legal:
    int32[N, T], number of legal actions.
    """

    action: np.ndarray
    guess: np.ndarray
    nll: np.ndarray
    counted: np.ndarray
    seat_timesteps: np.ndarray
    rank: np.ndarray
    num_legal: np.ndarray

    def summed(self, where: np.ndarray | None = None) -> Prediction:
        """Sums per game over the counted decisions, optionally only those in `where` bool[N, T]."""
        counted = self.counted if where is None else self.counted & where
        return Prediction(
            correct=((self.guess == self.action) & counted).sum(axis=1).astype(np.float64),
            nll=np.where(counted, self.nll, 0).sum(axis=1),
            decisions=counted.sum(axis=1),
            seat_timesteps=self.seat_timesteps,
            top_10=self._in_top(10, counted),
            top_20=self._in_top(20, counted),
        )

    def _in_top(self, percent: int, counted: np.ndarray) -> np.ndarray:
        """Counted decisions among the most likely `percent` of the legal moves, float64[N]."""
        top = 100 * self.rank.astype(np.int64) < percent * self.num_legal
        return (top & counted).sum(axis=1).astype(np.float64)


class Divergence(NamedTuple):
    """KL(reference || policy) in nats, sums per game. kl: float64[N], infinite if the policy rules
    out a possible move of the reference; decisions, seat_timesteps: int64[N]."""

    kl: np.ndarray
    decisions: np.ndarray
    seat_timesteps: np.ndarray

    def per_decision(self) -> Ratio:
        """Nats per decision."""
        return Ratio(self.kl, self.decisions)

    def per_timestep(self) -> Ratio:
        """Nats per seat-timestep (= per decision / players)."""
        return Ratio(self.kl, self.seat_timesteps)


def predict(policy: Policy, games: Games | GameRecords, chunk_size: int = _CHUNK) -> Prediction:
    """Accuracy and cross-entropy of `policy` on `games`, sums per deck; only `human_seats` count if
    the games have them.

    Games of other games than Hanabi are summed per group of players. Raises ValueError for games of
    other rules, or if the policy returns NaN.
    """
    if isinstance(games, GameRecords):
        sums = prediction_sums(record_logits(policy, games), games)
        correct, nll, decisions, top_10, top_20 = sums
        timesteps = group_sums(games.seat_timesteps, games.groups)
        return Prediction(correct, nll, decisions, timesteps, top_10, top_20)
    of_games, decks = predict_decisions(policy, games, chunk_size).summed(), games.deck_ids
    return Prediction(*(group_sums(column, decks) for column in of_games))


@with_fixed_settings
def predict_decisions(policy: Policy, games: Games, chunk_size: int = _CHUNK) -> Decisions:
    """Predictions at every decision; arguments and errors as in `predict`."""
    games.check_rules(policy.rules)
    num_games, num_turns = games.actions.shape
    players = games.rules.num_players
    seats = np.ones((num_games, players), bool) if games.human_seats is None else games.human_seats
    parts = []
    with Progress("prediction", total=num_games, unit="games", quiet_s=SOON_S) as progress:
        for chunk in in_chunks(chunk_size, games.decks, games.actions):
            logits, num_legal = current_player_logits(policy, *chunk, rules=games.rules)
            parts.append(jax.device_get((*_guesses(logits, chunk[1]), num_legal)))
            progress.update(min(len(parts) * chunk_size, num_games))
    guess, nll, rank, num_legal = join_chunks(parts, num_games)
    played = np.arange(num_turns) < games.num_actions[:, None]
    _check_not_nan(np.where(played, nll, 0.0).sum(axis=1))
    return Decisions(
        action=games.actions,
        guess=guess,
        nll=np.where(nll >= RULED_OUT, np.inf, nll).astype(np.float64),
        counted=played & seats[:, np.arange(num_turns) % players],
        seat_timesteps=games.num_actions.astype(np.int64) * seats.sum(axis=1),
        rank=rank,
        num_legal=num_legal,
    )


def kl_between(
    reference: Policy,
    policy: Policy,
    num_games: int = 1000,
    seed: int = 0,
    chunk_size: int = _CHUNK,
) -> Divergence:
    """KL(reference || policy) along sampled self-play games of `policy` (`kl_to_bc`)."""
    rules = policy.rules
    if not isinstance(rules, Rules):
        return Divergence(*kl_along_play(reference, policy, num_games, seed))
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
    """KL(reference || policy) along recorded games.

    Args:
        decks: [N, D].
        actions: [N, T], the current player's action; the no-op after the end.

    Raises:
        ValueError: policies of different games, or NaN.
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
    """KL(reference || policy) along recorded games, nats per decision, float64[K], with the
    policy's logits divided by each of `temperatures` [K]. Otherwise as `kl_on_games`."""
    kl, decisions = _kl(reference, policy, decks, actions, temperatures, _CHUNK)
    return np.asarray(kl.sum(axis=0, dtype=np.float64) / decisions.sum())


@with_fixed_settings
def _kl(
    reference: Policy,
    policy: Policy,
    decks: np.ndarray,
    actions: np.ndarray,
    temperatures: np.ndarray,
    chunk_size: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of KL per game and temperature [N, K], and decisions per game [N]."""
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
            expected, got = (
                current_player_logits(p, *chunk, rules=rules)[0] for p in (reference, policy)
            )
            valid = chunk[1] != rules.noop
            sums = _kl_sums(expected, got, valid, at), _rules_out(expected, got, valid)
            parts.append(jax.device_get(sums))
            progress.update(min(len(parts) * chunk_size, len(decks)))
    kl, infinite = join_chunks(parts, len(decks))
    kl = np.where(infinite[:, None], np.inf, kl)
    _check_not_nan(kl.sum(axis=1))
    return kl, np.asarray(actions != rules.noop).sum(axis=1)


def _check_not_nan(nats: np.ndarray) -> None:
    """Raise ValueError if a game's sum in `nats` [N] is NaN, which argmax treats as the largest."""
    if len(games := np.flatnonzero(np.isnan(nats))):
        raise ValueError(f"expected logits that are numbers, got NaN in game {games[0]}")


@functools.partial(CachedJit, static_argnames="rules")
def current_player_logits(
    policy: Policy, decks: jax.Array, actions: jax.Array, *, rules: Rules
) -> tuple[jax.Array, jax.Array]:
    """The current player at every position of n recorded games: logits of `policy` in its seat,
    float32[n, T, A], zeros after the end, and number of legal actions, int32[n, T]. One compiled
    program per policy structure serves all callers."""

    def read(carry: Any, timestep: tuple[Trajectory, jax.Array]) -> tuple[Any, jax.Array]:
        now, reset = timestep
        obs = observe(rules, now.state)
        carry, logits = step_seats(policy, carry, obs, now.legal, reset)
        return carry, jnp.where(now.decision[..., None], logits, 0).sum(axis=1)

    games = replay(rules, decks, actions)
    first = jnp.arange(games.valid.shape[0]) == 0
    carry = policy.init_carry(len(decks) * rules.num_players)
    _, logits = jax.lax.scan(read, carry, (games, first))
    num_legal = jnp.sum(games.legal & games.decision[..., None], axis=(2, 3))
    return jnp.swapaxes(logits, 0, 1), num_legal.T


@jax.jit
def _guesses(logits: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Most likely action int32[n, T]; nats float32[n, T] and rank int32[n, T] of the recorded
    one."""
    actions = jnp.asarray(actions, jnp.int32)
    nats = optax.softmax_cross_entropy_with_integer_labels(logits, actions)
    own = jnp.take_along_axis(logits, actions[..., None], axis=-1)
    earlier = jnp.arange(logits.shape[-1]) < actions[..., None]
    rank = jnp.sum((logits > own) | ((logits == own) & earlier), axis=-1)
    return jnp.argmax(logits, axis=-1).astype(jnp.int32), nats, rank


@jax.jit
def _rules_out(reference: jax.Array, policy: jax.Array, valid: jax.Array) -> jax.Array:
    """Games bool[n] in which the policy rules out a possible move of the reference."""
    return jnp.any(rules_out(reference, policy) & valid, axis=1)


@jax.jit
def _kl_sums(
    reference: jax.Array, policy: jax.Array, valid: jax.Array, temperatures: jax.Array
) -> jax.Array:
    from hanabi_rl.learning.losses import kl_to_reference  # imports distrax, half a second

    def at(temperature: jax.Array) -> jax.Array:
        return jnp.where(valid, kl_to_reference(reference, policy / temperature), 0).sum(axis=1)

    return jax.lax.map(at, temperatures).T
