"""Behaviour-preferring pairs in Overcooked: rewards, partner features and a run, against a plain
game's log of events."""

import dataclasses
import functools
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.overcooked import actions_with_soups
from support.pairs import LITTLE, PAIRS
from support.plain_overcooked import PlainOvercooked
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms.behaviour_preferring import BehaviourPreferringConfig
from hanabi_rl.algorithms.registry import run
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.events import mean_event_counts
from hanabi_rl.evaluation.measure.matrix import EvalSetting
from hanabi_rl.evaluation.measure.partner_set import (
    EvalPartner,
    behaviour_features,
    measured,
    play_pair,
    read_partners,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.overcooked.events import EVENTS, FEATURE_EVENTS
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.learning.biased_rewards import (
    BiasedReward,
    EventWeights,
    OvercookedEventWeights,
    biased_reward_space,
    weighted_events,
)
from hanabi_rl.learning.rewards import GameShaping
from hanabi_rl.storage.dataclass_io import from_dict, to_dict

RING = Overcooked("coordination_ring", horizon=200)
PREFERRED = {"take_onion_from_dispenser": 10.0, "serve_soup": -20.0, "stay": 0.1}


def plain_games(count: int) -> list[PlainOvercooked]:
    return [PlainOvercooked(RING.layout.rows, RING.layout.start("humans")) for _ in range(count)]


@pytest.fixture(scope="module")
def recorded() -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Rollout of 4 games of 200 steps by the package; points [T, N], shaping and preferred events'
    worth [T, N, P] by the plain game."""
    games = plain_games(4)
    actions = actions_with_soups(games, 200, seed=3)
    points, shaped = np.zeros(actions.shape[:2]), np.zeros(actions.shape)
    worth = np.zeros(actions.shape)
    for (t, g), _ in np.ndenumerate(points):
        points[t, g], shaped[t, g] = games[g].step(actions[t, g])
        for p in (0, 1):
            worth[t, g, p] = sum(PREFERRED.get(event, 0.0) for event in games[g].events[p])

    def step(state: Any, action: jax.Array) -> Any:
        after, outcome = RING.step(state, action, keys)
        return after, (state, outcome)

    keys = np.zeros((4, 2), np.uint32)
    _, (states, outcomes) = jax.jit(lambda: jax.lax.scan(step, RING.start(keys), actions))()
    assert points.sum() > 0 and (shaped.sum(axis=(0, 1)) > 0).all()
    rollout: Any = SimpleNamespace(state=states, transition=outcomes, actions=actions)
    return rollout, points, shaped, worth


@pytest.mark.parametrize("seats", [None, "drawn"])
def test_biased_reward_is_that_of_own_seat(recorded: Any, seats: str | None) -> None:
    """u points + shaping that does not fade + w events of the seat's own actions."""
    rollout, points, shaped, worth = recorded
    learns = np.ones(worth.shape, bool)
    if seats:
        learns = np.random.default_rng(0).random(worth.shape) < 0.5
    rollout.episode = SimpleNamespace(is_learner=learns if seats else None)
    weights = np.array([PREFERRED.get(event, 0.0) for event in EVENTS], np.float32)
    late = np.float32(0.75)

    @functools.partial(jax.jit, static_argnums=0)
    def rewards(shaping: GameShaping, weights: jax.Array) -> Any:
        preference = BiasedReward(weights, jnp.float32(0.1), RING)
        biased = shaping.reward(rollout, rollout.actions, late, preference)
        return biased, shaping.reward(rollout, rollout.actions, late)

    for weight in (0.0, 0.5):
        found, plain = rewards(GameShaping(shaping_weight=weight), weights)
        expected = 0.1 * points[..., None] + weight * shaped + np.where(learns, worth, 0.0)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        # the response's: three quarters off
        expected = points[..., None] + weight * 0.25 * shaped if weight else points
        np.testing.assert_allclose(plain, expected, atol=1e-5)


def test_preferences_are_those_of_zsc_eval() -> None:
    """shared/reference/overcooked.md (d); 46 vectors: 1 + 7 + 18 + 20 with 0 to 3 events."""
    weights = OvercookedEventWeights()
    assert weighted_events(weights) == EVENTS
    given = {name: of for name in EVENTS if (of := getattr(weights, name))}
    assert given == {
        "take_onion_from_dispenser": (-20.0, 10.0),
        "take_dish_from_dispenser": (-20.0, 10.0),
        "serve_soup": (-20.0,),
        "stay": (-0.1, 0.1),
    }
    assert [len(biased_reward_space(weights, most)) for most in range(4)] == [1, 8, 26, 46]
    preset = preset_config("behaviour_preferring", "overcooked")
    assert (preset.max_events, preset.score_weights) == (3, (0.1, 1.0))
    assert preset.event_weights == weights


def test_weights_belong_to_the_game() -> None:
    config = BehaviourPreferringConfig(game=Overcooked())
    assert config.event_weights == OvercookedEventWeights()
    changed = dataclasses.replace(config, event_weights=OvercookedEventWeights(move=(1.0,)))
    assert from_dict(BehaviourPreferringConfig, to_dict(changed)) == changed
    assert BehaviourPreferringConfig().event_weights == EventWeights()
    with pytest.raises(ValueError, match="event_weights: expected those of hint_color, "):
        BehaviourPreferringConfig(game=Rules(), event_weights=OvercookedEventWeights())
    with pytest.raises(ValueError, match="events of overcooked, got EventWeights; start from"):
        BehaviourPreferringConfig(game=Overcooked(), event_weights=EventWeights(misplay=(1.0,)))


def test_pair_features_are_those_of_the_plain_game() -> None:
    """Events of the response and the partner at both seats, and the response's own soups."""
    game = RING.replace(horizon=30)
    response, partner = network_policy(game, 1), network_policy(game, 2)
    pairing = play_pair(response, partner, EvalSetting(5, 3), with_events=True)
    played = evaluate_pair(response, partner, 5, 3)
    means = {}
    for seating, episodes in zip(played.seatings, played.records, strict=True):
        counts = [Counter[str](), Counter[str]()]
        for game_of, actions in zip(plain_games(5), episodes.actions, strict=True):
            for action in actions:
                game_of.step(action)
                for seat in (0, 1):
                    counts[seat].update(filter(None, game_of.events[seat]))
        means[seating[0]] = [[of[event] / 5 for event in EVENTS] for of in counts]
    np.testing.assert_allclose(pairing.agent_events, [means[0][0], means[1][1]])
    np.testing.assert_allclose(pairing.partner_events, [means[0][1], means[1][0]])
    assert pairing.agent_events.sum() > 0 and not np.array_equal(*pairing.agent_events)

    shorter = played.records[0]._replace(lengths=np.full(5, 12))  # later steps do not count
    moves = (shorter.actions[:, :12] < 4).sum(axis=(0, 1)) / 5
    np.testing.assert_allclose(mean_event_counts(game, shorter)[:, EVENTS.index("move")], moves)

    found = measured(EvalPartner("a", "b"), pairing)
    assert found.score == tuple(pairing.scores.mean(axis=1)) == found.points
    numbered = (tuple(map(float, range(17))),) * 2
    soups = dataclasses.replace(found, score=(40.0, 60.0), response_events=numbered)
    rows = behaviour_features([soups], "br-div", game)
    assert EVENTS[11:14] == ("serve_soup", "stay", "move") and len(FEATURE_EVENTS) == 13
    expected = np.array([*range(13), 20 * 11])
    np.testing.assert_allclose(rows, [[*(expected / (expected + 1e-3))] * 2])


@pytest.mark.slow  # learns
def test_preferred_event_of_own_seat_becomes_more_frequent(tmp_path: Path) -> None:
    """One of two pairs is paid for staying; an interrupted run continues."""
    nothing: Any = dict.fromkeys(EVENTS, ())
    config = dataclasses.replace(
        PAIRS,
        game=Overcooked("forced_coordination", horizon=20),
        network=dataclasses.replace(LITTLE, decoder=(), critic=()),
        event_weights=OvercookedEventWeights(**(nothing | {"stay": (1.0,)})),
        score_weights=(1.0,),
        max_events=1,
        total_steps=30 * 64 * 16,
        run_dir=str(tmp_path),
    )
    run("behaviour_preferring", config)
    partners = read_partners(tmp_path / "candidates.json").partners
    assert sorted(partner.note for partner in partners) == ["1 r", "1 r + 1 stay"]
    stays = {}
    for partner in partners:
        policies = load_policy(partner.best_response), load_policy(partner.agent)
        pairing = play_pair(*policies, EvalSetting(50), with_events=True)
        both = pairing.agent_events, pairing.partner_events
        stays[partner.note] = [of[:, EVENTS.index("stay")].min() for of in both]
    assert stays["1 r + 1 stay"][1] > 15 and max(stays["1 r + 1 stay"][0], *stays["1 r"]) < 8

    first, second = (load_policy(partner.agent).identity() for partner in partners)
    (tmp_path / "pair-001" / "pair.json").unlink()
    run("behaviour_preferring", dataclasses.replace(config, resume=True))
    again = read_partners(tmp_path / "candidates.json").partners
    assert [load_policy(partner.agent).identity() for partner in again] == [first, second]
