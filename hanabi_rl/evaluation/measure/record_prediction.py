"""Prediction of recorded games of a `Game`, and the KL divergence of policies along its games."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.data.game_records import GameRecords
from hanabi_rl.evaluation.measure.intervals import group_sums
from hanabi_rl.evaluation.measure.ratio import Ratio, ratios_dict
from hanabi_rl.games.game import step_words
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.play.game_episodes import play_episodes, records_of
from hanabi_rl.storage.jax_settings import with_fixed_settings

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

_CHUNK = 64
"""Games at once."""
RULED_OUT = -ILLEGAL_LOGIT / 2
"""Minimum nats of a legal move that a policy treats as illegal (`?safe`, `?gullible`)."""


@with_fixed_settings
def record_logits(policy: Policy, records: GameRecords) -> np.ndarray:
    """Logits of `policy` at every seat before every step, float32[N, T, P, A]. Raises ValueError
    for games of other rules."""
    records.check_rules(policy.rules)
    parts = []
    for first in range(0, len(records), _CHUNK):
        index = np.arange(first, first + min(_CHUNK, len(records))) % len(records)
        chunk = records.select(index)
        starts = jax.tree.map(jnp.asarray, chunk.starts)
        steps = chunk.actions, chunk.words
        logits = jax.device_get(_logits(policy, starts, *steps, chunk.replay_rules))
        parts.append(logits[: len(records) - first])
    return np.concatenate(parts)


@functools.partial(jax.jit, static_argnums=4)
def _logits(
    policy: Policy, starts: Any, actions: jax.Array, keys: jax.Array, rules: Any
) -> jax.Array:
    num_games, _, players = actions.shape

    def flat(x: jax.Array) -> jax.Array:
        return x.reshape(num_games * players, *x.shape[2:])

    def step(carry: Any, now: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        (state, memory), (action, t) = carry, now
        reset = jnp.full(num_games * players, t == 0)
        memory, logits = policy.step(
            memory, flat(rules.observe(state)), flat(rules.legal(state)), reset
        )
        after = rules.step(state, action.astype(jnp.int32), step_words(keys, t))[0]
        return (after, memory), logits.reshape(num_games, players, -1)

    begin = starts, policy.init_carry(num_games * players)
    steps = jnp.swapaxes(actions, 0, 1), jnp.arange(actions.shape[1])
    _, logits = jax.lax.scan(step, begin, steps)
    return jnp.swapaxes(logits, 0, 1)


def prediction_sums(
    logits: np.ndarray, records: GameRecords, where: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    """Sums of each group of players, [G]: correct predictions, nats, decisions, and decisions among
    the 10% and the 20% most likely legal actions. Nats are infinite if an action is ruled out.

    Args:
        logits: float[N, T, P, A], as of `record_logits`; read at the decisions that count.
        where: bool[N, T, P], True for decisions that count; default: `GameRecords.is_counted`.

    Raises ValueError for a counted logit that is NaN.
    """
    logits = logits.astype(np.float64)
    counted = records.is_counted if where is None else records.is_counted & where
    if np.isnan(logits[counted]).any():
        raise ValueError("expected logits that are numbers, got NaN")
    peak = logits.max(axis=-1, keepdims=True)
    log_sum = peak[..., 0] + np.log(np.exp(logits - peak).sum(axis=-1))
    actions = records.actions.astype(np.int64)
    chosen = np.take_along_axis(logits, actions[..., None], axis=-1)
    nats = log_sum - chosen[..., 0]
    nats = np.where(nats >= RULED_OUT, np.inf, nats)
    ties = (logits == chosen) & (np.arange(logits.shape[-1]) < actions[..., None])
    before = ((logits > chosen) | ties).sum(axis=-1)  # as in `Prediction.top_10_accuracy`
    correct = counted & (logits.argmax(axis=-1) == actions)

    def total(values: np.ndarray) -> np.ndarray:
        return group_sums(values.sum(axis=(1, 2)), records.groups)

    top = [counted & (100 * before < percent * records.num_legal) for percent in (10, 20)]
    counts = [total(which.astype(np.float64)) for which in (correct, *top)]
    return counts[0], total(np.where(counted, nats, 0.0)), total(counted), *counts[1:]


def constant_logits(records: GameRecords) -> np.ndarray:
    """Best constant prediction of the games, logits float64[A]: the logarithm of the frequency of
    each action. Its cross-entropy is the chance level of clones."""
    chosen = records.actions[records.is_counted]
    counts = np.bincount(chosen, minlength=records.rules.num_actions)
    return np.log(np.maximum(counts / counts.sum(), 1e-300))


def prediction_ratios(logits: np.ndarray, records: GameRecords) -> dict[str, Ratio]:
    """Accuracy and cross-entropy of logits float[N, T, P, A], over groups of players:
    `accuracy_of_moves` without the game's idle action; `constant_...` of `constant_logits`."""
    idle = records.rules.idle_action
    constant = np.broadcast_to(constant_logits(records), logits.shape)
    ratios = {}
    for prefix, of in (("", logits), ("constant_", constant)):
        correct, nats, decisions, *_ = prediction_sums(of, records)
        ratios[f"{prefix}accuracy"] = Ratio(correct, decisions, is_proportion=True)
        if idle is not None:
            correct, _, moves, *_ = prediction_sums(of, records, records.actions != idle)
            ratios[f"{prefix}accuracy_of_moves"] = Ratio(correct, moves, is_proportion=True)
        ratios[f"{prefix}cross_entropy"] = Ratio(nats, decisions)
    return ratios


def prediction_slices(
    logits: np.ndarray, records: GameRecords, action_names: Sequence[str], steps: int = 200
) -> dict[str, dict[str, dict[str, Any]]]:
    """JSON-ready accuracy and cross-entropy `by_step`, in bins of `steps`, and `by_action`, the
    recorded one; without empty slices."""
    shape = records.actions.shape
    at = np.broadcast_to(np.arange(shape[1])[:, None] // steps, shape)
    masks = {
        "by_step": {
            f"{steps * bin + 1}-{steps * (bin + 1)}": at == bin for bin in range(at.max() + 1)
        },
        "by_action": {name: records.actions == action for action, name in enumerate(action_names)},
    }
    return {
        part: {name: of for name, mask in slices.items() if (of := _slice(logits, records, mask))}
        for part, slices in masks.items()
    }


def _slice(logits: np.ndarray, records: GameRecords, mask: np.ndarray) -> dict[str, Any]:
    """Empty without decisions."""
    correct, nats, decisions, *_ = prediction_sums(logits, records, mask)
    if not decisions.any():
        return {}
    accuracy = Ratio(correct, decisions, is_proportion=True)
    of = ratios_dict({"accuracy": accuracy, "cross_entropy": Ratio(nats, decisions)})
    return {"decisions": int(decisions.sum()), **of}


@jax.jit
def rules_out(reference: jax.Array, policy: jax.Array) -> jax.Array:
    """True where the policy rules out a possible move of the reference; logits [..., A]."""
    may = jax.nn.softmax(reference, axis=-1) > 0
    never = jax.nn.log_softmax(policy, axis=-1) <= -RULED_OUT
    return jnp.any(may & never, axis=-1)


def kl_along_play(
    reference: Policy, policy: Policy, num_games: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """KL(reference || policy) along sampled self-play games of `policy`: nats float64[N], as in
    `Divergence`, decisions of acting players and seat-timesteps int64[N]."""
    rules = policy.rules
    from hanabi_rl.learning.losses import kl_to_reference  # imports distrax, half a second

    team = (policy,) * rules.num_players
    played = play_episodes(team, num_games, seed, sample=True, purpose="kl")
    records = records_of(rules, played)
    expected, got = (jnp.asarray(record_logits(of, records)) for of in (reference, policy))
    kl = np.asarray(kl_to_reference(expected, got), np.float64)
    kl = np.where(rules_out(expected, got), np.inf, kl)
    counted = records.is_counted
    nats = np.where(counted, kl, 0).sum(axis=(1, 2))
    return nats, counted.sum(axis=(1, 2)), records.seat_timesteps
