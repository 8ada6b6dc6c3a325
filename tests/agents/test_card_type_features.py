"""Card type features against plain Python."""

from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from support.hands import cards_of, unseen_cards
from support.structured import SMALL, first_state, look_at_state, play_random_games

from hanabi_rl.agents.structured.card_type_features import CardTypeFeatures, card_type_features
from hanabi_rl.agents.structured.hint_memory import Memory, next_seat, records, unpack
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.learning.beliefs import belief_log_weights
from hanabi_rl.nn.belief import BeliefNetwork

RANKS, KINDS, HAND = SMALL.num_ranks, SMALL.num_cards, SMALL.hand_size


class Seen:
    """Positions of random 3-player games and their current players' observations."""

    def __init__(self) -> None:
        self.state, before = jax.device_get(
            play_random_games(SMALL, "hint-history", first_state(SMALL), jax.random.key(0))
        )
        looks = [
            look_at_state(SMALL, "hint-history", *_part(i, before, self.state)) for i in range(8)
        ]
        self.memory, self.view = jax.tree.map(lambda *x: np.concatenate(x), *looks)
        self.facts: CardTypeFeatures = facts_of(self.memory, self.state)


@jax.jit
def facts_of(memory: Memory, state: State) -> CardTypeFeatures:
    return card_type_features(SMALL, "hint-history", memory, from_state(SMALL, state))


def _part(i: int, *trees: Any) -> Any:
    return jax.tree.map(lambda x: x[16 * i : 16 * (i + 1)], trees)


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Seen()


def playable_cards(state: State, game: int) -> set[int]:
    played = cards_of(SMALL, state.fireworks[game])
    heights = [sum(card // RANKS == c for card in played) for c in range(SMALL.num_colors)]
    return {c * RANKS + h for c, h in enumerate(heights) if h < RANKS}


def test_card_type_features_match_reference(seen: Seen) -> None:
    kinds, places = np.asarray(seen.facts.kinds), np.asarray(seen.facts.places)
    for game in range(0, 128, 3):
        me = int(seen.state.player[game])
        others = [s for s in range(3) if s != me]
        hands = np.asarray(seen.state.hands)[game]
        unseen = Counter(unseen_cards(SMALL, seen.state, game, me))
        next_ones = playable_cards(seen.state, game)
        visible = {card for s in others for word in hands[s] for card in cards_of(SMALL, word)}
        for kind in range(KINDS):
            row = kinds[game, kind]
            assert row[:RANKS].tolist() == [kind % RANKS == r for r in range(RANKS)]
            if not row[RANKS + 1]:  # useless if no copy of a lower rank is left
                assert row[RANKS] == (kind in next_ones)
            assert row[RANKS + 5 : RANKS + 8].sum() == unseen[kind]
            assert row[RANKS + 8] == (kind in visible)
        allowed = np.asarray(seen.state.knowledge)[game, me]
        for slot in range(HAND):
            fits = [unseen[k] > 0 and k in cards_of(SMALL, allowed[slot]) for k in range(KINDS)]
            assert places[game, slot, :, 0].tolist() == fits


def test_hint_snapshots_are_of_own_cards(seen: Seen) -> None:
    snapshot = records(unpack(seen.memory))
    places, found = np.asarray(seen.facts.places), 0
    for at in range(2):
        for column, sets in ((1, snapshot.playable), (3, snapshot.critical)):
            for slot in range(HAND):
                words = np.asarray(sets)[at, 0, slot]
                bits = (words[:, None] >> np.arange(KINDS)) & 1
                np.testing.assert_array_equal(places[:, slot, :, 3 * at + column], bits)
                found += bits.sum()
    assert found > 100


def test_belief_input_is_current_players(seen: Seen) -> None:
    """From the memory in the frame of the next of three players."""
    params = jax.jit(BeliefNetwork().init)(jax.random.key(1), seen.view, seen.facts)["params"]
    params = jax.tree.map(lambda x: np.asarray(x) + np.float32(0.3), params)
    direct = jax.jit(BeliefNetwork().apply)({"params": params}, seen.view, seen.facts)
    tilt = jax.jit(belief_log_weights, static_argnums=(0, 1))(
        SMALL, "hint-history", params, seen.view, next_seat(seen.memory), seen.state
    )
    np.testing.assert_allclose(tilt, direct, rtol=1e-4, atol=1e-4)
    assert tilt.shape == (HAND, KINDS, 128) and np.std(tilt) > 0.1
