"""Prediction of recorded games by policies with known logits; KL along play, in NumPy."""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.overcooked import recorded_games
from support.tiny_games import Dice, ManyActions

from hanabi_rl.data.game_records import GameRecords, load_game_records
from hanabi_rl.evaluation.measure import record_prediction
from hanabi_rl.evaluation.measure.prediction import kl_between, predict
from hanabi_rl.evaluation.measure.record_prediction import (
    kl_along_play,
    prediction_sums,
    record_logits,
)
from hanabi_rl.games.game import step_words
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import save_recorded_games
from hanabi_rl.play.game_episodes import play_episodes, records_of

RULES = Overcooked(horizon=12, last_action=True)
LENGTHS = [12, 7, 9]


@flax.struct.dataclass
class Known:
    """Logit of action a: `scale` * (3 if a is the own last action) + (steps seen + a) % 5 / 4."""

    scale: jax.Array
    rules: Any = flax.struct.field(pytree_node=False)

    def init_carry(self, batch: int) -> Any:
        return jnp.full(batch, 99)

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        del legal, key
        seen = jnp.where(reset, 0, carry)
        last = obs[:, 0, 0, 26:].astype(jnp.float32)
        return seen + 1, self.scale * 3 * last + (seen[:, None] + jnp.arange(6)) % 5 / 4


def known(scale: float = 1.0, rules: Any = RULES) -> Any:
    return Known(jnp.float32(scale), rules)


def by_hand(actions: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """float64[T, P, 6] of the actions [T, P] of a game."""
    logits = np.zeros((*actions.shape, 6))
    for t in range(len(actions)):
        for seat in (0, 1):
            logits[t, seat] = (t + np.arange(6)) % 5 / 4
            logits[t, seat, actions[t - 1, seat] if t else 4] += 3 * scale
    return logits


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> GameRecords:
    path = tmp_path_factory.mktemp("games") / "games.safetensors"
    save_recorded_games(path, recorded_games(LENGTHS, pairs=[4, 2, 4]))
    return load_game_records([str(path)], RULES)


def test_logits_of_every_seat_with_carry(
    records: GameRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = record_logits(known(), records)
    assert logits.shape == (3, 12, 2, 6) and logits.dtype == np.float32
    for g, length in enumerate(LENGTHS):
        expected = by_hand(records.actions[g])[:length]
        np.testing.assert_allclose(logits[g, :length], expected, atol=1e-6)
    monkeypatch.setattr(record_prediction, "_CHUNK", 2)
    np.testing.assert_array_equal(record_logits(known(), records), logits)
    with pytest.raises(ValueError, match="horizon 12"):
        record_logits(known(rules=RULES.replace(horizon=13)), records)


def test_sums_of_groups(records: GameRecords) -> None:
    expected = {group: np.zeros(5) for group in (2, 4)}
    for g, length in enumerate(LENGTHS):
        logits = by_hand(records.actions[g])
        for t in range(length):
            for seat in (0, 1):
                row, action = logits[t, seat], records.actions[g, t, seat]
                order = sorted(range(6), key=lambda a, row=row: (-row[a], a))
                rank = order.index(action)
                nats = np.log(np.exp(row).sum()) - row[action]
                # 10% and 20% of six actions: 0.6 and 1.2
                values = [rank == 0, nats, 1, rank < 0.6, rank < 1.2]
                expected[int(records.groups[g])] += np.array(values, float)
    sums = np.array(prediction_sums(record_logits(known(), records), records))
    np.testing.assert_allclose(sums, np.array([expected[2], expected[4]]).T, rtol=1e-5)
    assert sums[2].sum() == 2 * sum(LENGTHS) and 0 < sums[0].sum() < sums[4].sum()


def test_logits_that_are_not_numbers(records: GameRecords) -> None:
    with pytest.raises(ValueError, match="expected logits that are numbers, got NaN"):
        prediction_sums(record_logits(known(float("nan")), records), records)


def test_kl_along_play() -> None:
    """The actions are those of the policy, from the divergence of its row to the reference's."""
    policy, reference = known(20.0), known(0.5)
    kl, counts, timesteps = kl_along_play(reference, policy, 3, seed=0)
    # the policy repeats its first action, stay
    actions = np.full((12, 2), 4)
    p, q = (by_hand(actions, scale) for scale in (0.5, 20.0))
    log_p, log_q = (x - np.log(np.exp(x).sum(axis=-1, keepdims=True)) for x in (p, q))
    expected = (np.exp(log_p) * (log_p - log_q)).sum()
    np.testing.assert_allclose(kl, [expected] * 3, rtol=1e-4)
    assert counts.tolist() == timesteps.tolist() == [24] * 3
    same, *_ = kl_along_play(policy, policy, 2, seed=0)
    np.testing.assert_allclose(same, 0, atol=1e-6)


@flax.struct.dataclass
class Fixed:
    """The same logits in every position."""

    logits: jax.Array
    rules: Any = flax.struct.field(pytree_node=False)

    def init_carry(self, batch: int) -> Any:
        return jnp.zeros(batch)

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        del legal, reset, key
        return carry, jnp.broadcast_to(self.logits, (len(obs), len(self.logits)))


def test_only_acting_players_count() -> None:
    """In KL and prediction per decision; timesteps include the others."""
    rules, p, q = Dice(), np.full(4, 0.25), np.array([0.4, 0.3, 0.2, 0.1])
    reference, policy = (Fixed(jnp.log(jnp.float32(prob)), rules) for prob in (p, q))
    played = play_episodes((policy,) * 3, 20, seed=0, sample=True, purpose="kl")
    state, step, acting = jax.tree.map(jnp.asarray, played.starts), jax.jit(rules.step), []
    for t in range(rules.horizon):
        acting.append(rules.acting(state) & (t < played.lengths)[:, None])
        action = jnp.asarray(played.actions[:, t], jnp.int32)
        state, _ = step(state, action, step_words(jnp.asarray(played.keys), t))
    decisions = np.sum(acting, axis=(0, 2))
    divergence = kl_between(reference, policy, 20, seed=0)
    np.testing.assert_array_equal(divergence.decisions, decisions)
    np.testing.assert_allclose(divergence.kl, decisions * (p * np.log(p / q)).sum(), rtol=1e-5)
    np.testing.assert_array_equal(divergence.seat_timesteps, 3 * played.lengths)
    found = predict(reference, records_of(rules, played))
    np.testing.assert_array_equal(found.decisions, decisions)
    np.testing.assert_array_equal(found.seat_timesteps, 3 * played.lengths)
    assert found.cross_entropy().mean == pytest.approx(np.log(4))


def test_top_shares_are_of_legal_actions_and_excluded_ones_infinite() -> None:
    """Five of 300 actions are legal; the policy plays the last, which others rank fourth or rule
    out, as wrappers do."""
    rules, legal = ManyActions(), [59, 119, 179, 239, 299]

    def fixed(*logits: float) -> Any:
        return Fixed(jnp.full(300, -1e10).at[jnp.array(legal)].set(jnp.array(logits)), rules)

    never, last, fourth = -1e10, fixed(0, 0, 0, 0, 50), fixed(4, 3, 2, 0, 1)
    records = records_of(rules, play_episodes((last,) * 3, 4))
    found = predict(fourth, records)
    assert found.decisions.sum() > 0 and not (found.top_10.any() or found.top_20.any())
    first = predict(last, records)
    np.testing.assert_array_equal(first.top_10, first.decisions)
    assert np.isfinite(found.nll).all()
    assert (predict(fixed(4, 3, 2, 0, never), records).nll == np.inf).all()
    short = fixed(0, 0, 0, 0, never)
    assert (kl_between(fourth, short, 4).kl == np.inf).all()
    assert np.isfinite(kl_between(short, fourth, 4).kl).all()
