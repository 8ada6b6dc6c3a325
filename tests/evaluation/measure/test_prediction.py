"""Prediction against a NumPy loop over games, turns and seats; KL against its definition."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from support import compiled
from support.games import LENIENT
from support.policies import recurrent_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.evaluation.measure.intervals import bootstrap_ratio
from hanabi_rl.evaluation.measure.prediction import (
    kl_at_temperatures,
    kl_between,
    kl_on_games,
    predict,
    predict_decisions,
)
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

GAMES = 16


@pytest.fixture(scope="module")
def rules() -> Rules:
    return LENIENT


@pytest.fixture(scope="module")
def records(rules):
    policy = recurrent_policy(rules, 1)
    return play_games((policy,) * 2, rules, evaluation_decks(rules, GAMES, 0), 0, sample=True)


def as_games(records, human_seats=None):
    return dataclasses.replace(records, human_seats=human_seats)


def log_probabilities(policy, rules, records):
    """log pi [T, N, P, A] of every seat at every timestep, one seat at a time, in float64 NumPy."""
    state = compiled.deal(rules, records.decks)
    carries = [policy.init_carry(GAMES) for _ in range(2)]
    rows = []
    for turn in range(records.num_actions.max()):
        obs, legal = jax.device_get(
            (compiled.observe(rules, state), compiled.legal_actions(rules, state))
        )
        seats = []
        for seat in range(2):
            carries[seat], logits = compiled.ask(
                policy, carries[seat], obs[:, seat], legal[:, seat], np.full(GAMES, turn == 0)
            )
            logits = np.asarray(logits, np.float64)
            shifted = logits - logits.max(axis=1, keepdims=True)
            seats.append(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
        rows.append(np.stack(seats, axis=1))
        state, _, _ = compiled.step(rules, state, records.actions[:, turn])
    return np.stack(rows)


def test_random_bot_costs_log_legal_actions(rules, records):
    """Its distribution is uniform: every decision costs exactly ln(number of legal actions)
    nats."""
    found = predict_decisions(load_policy("bot:random", rules), records)
    for n in range(GAMES):
        table = PythonGame(rules, records.decks[n])
        for t, action in enumerate(records.actions[n, : records.num_actions[n]]):
            legal = sum(table.illegal_reason(a) is None for a in range(rules.num_actions))
            assert found.nll[n, t] == pytest.approx(np.log(legal), abs=1e-5)
            table.apply(action)


@pytest.mark.parametrize("copies", [1, 2])  # 16 games: a jackknife; 32: a bootstrap
def test_ruled_out_move_costs_infinite_nats(rules, records, copies):
    """The bot plays no card that may be unplayable."""
    games = records.select(np.tile(np.arange(GAMES), copies))
    careful = load_policy("bot:random?safe=1,1", rules)
    found = predict_decisions(careful, games)
    assert np.isinf(found.nll[found.counted]).any() and np.isfinite(found.nll[found.counted]).any()
    nats = found.summed().cross_entropy().interval
    assert nats.mean == np.inf and nats.bounds == [-np.inf, np.inf]
    assert 0 < found.summed().accuracy().mean < 1


@pytest.mark.parametrize("options", ["safe=1,1&temperature=4", "safe=1,1&noise=0"])
def test_options_keep_ruled_out_moves(rules, records, options):
    plain, changed = (
        predict_decisions(load_policy(f"bot:random?{text}", rules), records).nll
        for text in ("safe=1,1", options)
    )
    assert np.isinf(plain).any()
    np.testing.assert_array_equal(np.isinf(changed), np.isinf(plain))


def test_kl_is_infinite_for_ruled_out_moves(rules, records):
    """`?safe=1,1` rules out plays in some games; the other direction stays finite."""
    free, careful = (load_policy(f"bot:random{text}", rules) for text in ("", "?safe=1,1"))
    games = records.decks, records.actions
    forward, backward = kl_on_games(free, careful, *games), kl_on_games(careful, free, *games)
    assert np.isinf(forward.kl).all() and np.isfinite(backward.kl).all()
    assert (backward.kl > 0).all()
    interval = forward.per_decision().interval
    assert interval.mean == np.inf and interval.bounds == [-np.inf, np.inf]
    same = kl_on_games(careful, careful, *games)
    np.testing.assert_allclose(same.kl, 0, atol=1e-5)
    at = kl_at_temperatures(free, careful, *games, np.array([0.5, 2.0]))
    assert np.isinf(at).all()


@pytest.mark.slow  # the random bot also has a closed form
def test_convention_bot_costs_match_smoothing(rules, records):
    """A correct prediction has probability 1 - eps + eps / A, a wrong one eps / A, for A legal
    actions."""
    eps = 0.1
    bot = load_policy(f"bot:convention?smoothing={eps}", rules)
    found = predict_decisions(bot, records)
    right = found.guess == found.action
    for n in range(GAMES):
        table = PythonGame(rules, records.decks[n])
        for t, action in enumerate(records.actions[n, : records.num_actions[n]]):
            legal = sum(table.illegal_reason(a) is None for a in range(rules.num_actions))
            expected = -np.log(eps / legal + (1 - eps) * right[n, t])
            assert found.nll[n, t] == pytest.approx(expected, abs=1e-5)
            table.apply(action)
    assert right[found.counted].any() and not right[found.counted].all()


def test_prediction_matches_numpy_loop(rules, records):
    other = recurrent_policy(rules, 2)
    human = np.random.default_rng(0).random((GAMES, 2)) < 0.6
    log_pi = log_probabilities(other, rules, records)
    for seats in (None, human):
        correct, nll, decisions, seat_timesteps, top_10, top_20 = np.zeros((6, GAMES))
        for n in range(GAMES):
            for t in range(records.num_actions[n]):
                for seat in range(2):
                    if seats is not None and not seats[n, seat]:
                        continue
                    seat_timesteps[n] += 1
                    if t % 2 == seat:
                        action = records.actions[n, t]
                        correct[n] += log_pi[t, n, seat].argmax() == action
                        nll[n] -= log_pi[t, n, seat, action]
                        likely = np.argsort(-log_pi[t, n, seat], kind="stable")
                        legal = int((log_pi[t, n, seat] > -1e6).sum())
                        top_10[n] += action in likely[: math.ceil(legal / 10)]
                        top_20[n] += action in likely[: math.ceil(legal / 5)]
                        decisions[n] += 1
        prediction = predict(other, as_games(records, seats), chunk_size=5)
        np.testing.assert_array_equal(prediction.correct, correct)
        np.testing.assert_array_equal(prediction.top_10, top_10)
        np.testing.assert_array_equal(prediction.top_20, top_20)
        np.testing.assert_array_equal(prediction.decisions, decisions)
        np.testing.assert_array_equal(prediction.seat_timesteps, seat_timesteps)
        np.testing.assert_allclose(prediction.nll, nll, rtol=1e-4, atol=1e-4)
        assert prediction.accuracy().mean == pytest.approx(correct.sum() / decisions.sum())
        assert prediction.cross_entropy().mean == pytest.approx(
            nll.sum() / decisions.sum(), rel=1e-4
        )
        assert prediction.cross_entropy_per_timestep().mean == pytest.approx(
            nll.sum() / seat_timesteps.sum(), rel=1e-4
        )


def test_decisions_have_guess_and_nats(rules, records):
    other = recurrent_policy(rules, 2)
    human = np.random.default_rng(0).random((GAMES, 2)) < 0.6
    log_pi = log_probabilities(other, rules, records)
    decisions = predict_decisions(other, as_games(records, human), chunk_size=5)
    for n in range(GAMES):
        for t in range(records.num_actions[n]):
            assert decisions.counted[n, t] == human[n, t % 2]
            assert decisions.guess[n, t] == log_pi[t, n, t % 2].argmax()
            expected = -log_pi[t, n, t % 2, records.actions[n, t]]
            assert decisions.nll[n, t] == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert not decisions.counted[n, records.num_actions[n] :].any()
    assert decisions.summed().accuracy_per_timestep().mean == pytest.approx(
        1
        - (decisions.counted & (decisions.guess != decisions.action)).sum()
        / decisions.seat_timesteps.sum()
    )


def test_per_timestep_is_per_decision_over_players(rules, records):
    prediction = predict(recurrent_policy(rules, 2), records, chunk_size=5)
    ratio = prediction.cross_entropy().mean / prediction.cross_entropy_per_timestep().mean
    assert ratio == pytest.approx(2)


def test_policy_predicts_own_greedy_games(rules):
    policy = recurrent_policy(rules, 1)
    records = play_games((policy,) * 2, rules, evaluation_decks(rules, GAMES, 0))
    assert predict(policy, records, chunk_size=5).accuracy().mean == 1


def test_kl_matches_definition(rules, records):
    reference, policy = recurrent_policy(rules, 2), recurrent_policy(rules, 1)
    log_p, log_q = (log_probabilities(p, rules, records) for p in (reference, policy))
    per_seat = (np.exp(log_p) * (log_p - log_q)).sum(axis=-1)  # [T, N, P]
    expected = [
        sum(per_seat[t, n, t % 2] for t in range(records.num_actions[n])) for n in range(GAMES)
    ]
    divergence = kl_on_games(reference, policy, records.decks, records.actions, chunk_size=5)
    np.testing.assert_allclose(divergence.kl, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(divergence.decisions, records.num_actions)
    assert divergence.per_decision().interval == bootstrap_ratio(divergence.kl, records.num_actions)
    assert divergence.per_timestep().mean == pytest.approx(divergence.per_decision().mean / 2)


def test_kl_to_itself_is_zero(rules):
    policy, other = recurrent_policy(rules, 1), recurrent_policy(rules, 2)
    copy = policy.replace(weights=dict(policy.weights))
    assert kl_between(
        copy, policy, num_games=GAMES, chunk_size=5
    ).per_decision().mean == pytest.approx(0, abs=1e-6)
    forward, backward = (
        kl_between(a, b, num_games=GAMES, chunk_size=5)
        for a, b in ((other, policy), (policy, other))
    )
    assert min(forward.per_decision().interval.low, backward.per_decision().interval.low) > 0.1
    # KL(reference || policy)
    assert forward.per_decision().mean != pytest.approx(backward.per_decision().mean, rel=0.01)


def test_errors_name_both_rules(rules, records):
    policy = recurrent_policy(Rules(), 1)
    with pytest.raises(ValueError, match="expected games of 5 colours, .*, got 2 colours"):
        predict(policy, records)
    with pytest.raises(
        ValueError, match="expected a reference for 5 colours, .*, got one for 2 colours"
    ):
        kl_on_games(recurrent_policy(rules, 1), policy, records.decks, records.actions)


def test_nan_logits_are_rejected(rules, records):
    policy = recurrent_policy(rules, 0)
    broken = dataclasses.replace(
        policy, weights=jax.tree.map(lambda leaf: leaf * np.nan, policy.weights)
    )
    with pytest.raises(ValueError, match="expected logits that are numbers, got NaN in game 0"):
        predict(broken, records)
    for pair in ((broken, policy), (policy, broken)):
        with pytest.raises(ValueError, match="expected logits that are numbers, got NaN in game"):
            kl_on_games(*pair, records.decks, records.actions)
