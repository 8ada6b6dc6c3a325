"""Random games and their structured features, compiled once for all tests."""

import functools
from typing import Any

import jax
import numpy as np
from support.compiled import deal, step

from hanabi_rl.agents.structured import features
from hanabi_rl.agents.structured.hint_memory import Memory, init_memory, next_seat
from hanabi_rl.games.hanabi.dynamics import random_legal_action
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_observation, from_state
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.nn.structured_network import FeatureSet

SMALL = Rules(num_players=3, num_colors=3, num_ranks=4, hand_size=3, max_info_tokens=4)
BATCH = 16


def first_state(rules: Rules, seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    return deal(rules, np.array([rng.permutation(full_deck(rules)) for _ in range(BATCH)]))


def play_random_games(rules: Rules, feature_set: FeatureSet, state: State, key: jax.Array) -> Any:
    """States of random games at every 3rd turn, and the current player's memory before each."""
    memory, states, memories = init_memory(rules, feature_set, (BATCH,)), [], []
    for turn in range(24):
        if turn % 3 == 2:
            states.append(state)
            memories.append(memory)
        after, _ = look_at_state(rules, feature_set, memory, state)
        memory = next_seat(after)
        state = random_move(rules, state, jax.random.fold_in(key, turn))
    return tuple(jax.tree.map(lambda *x: np.concatenate(x), *every) for every in (states, memories))


@functools.partial(jax.jit, static_argnums=0)
def random_move(rules: Rules, state: State, key: jax.Array) -> State:
    return step(rules, state, random_legal_action(rules, state, key))[0]


@functools.partial(jax.jit, static_argnums=(0, 1))
def look_at_state(rules: Rules, feature_set: FeatureSet, memory: Memory, state: State) -> Any:
    return features.encode_step(rules, feature_set, memory, from_state(rules, state))


@functools.partial(jax.jit, static_argnums=(0, 1))
def look_at_observation(
    rules: Rules, feature_set: FeatureSet, before: Memory, obs: jax.Array
) -> Any:
    return features.encode_step(rules, feature_set, before, from_observation(rules, obs))
