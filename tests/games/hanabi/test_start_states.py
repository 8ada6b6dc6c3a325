"""Games that start in positions of recorded games."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from support.games import TINY, random_games

from hanabi_rl.games.hanabi.hanabi import HanabiEnv
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.start_states import StartStates, start_states_from_games

RULES = dataclasses.replace(TINY, max_life_tokens=3)
ENV = HanabiEnv(**dataclasses.asdict(RULES))
GAMES, TURNS = 24, 40

reset = jax.jit(ENV.reset, static_argnums=1)


@pytest.fixture(scope="module")
def played() -> tuple[np.ndarray, np.ndarray, list[list[PythonGame]]]:
    """Decks, moves, and the positions before each move, of random games played by the plain
    game."""
    games = random_games(RULES, 2 * GAMES, seed=5).select(slice(None, None, 2))  # complete games
    positions = []
    for game, deck in enumerate(games.decks):
        before = []
        for turn in range(games.num_actions[game]):
            table = PythonGame(RULES, deck)
            for action in games.moves(game)[:turn]:
                table.apply(action)
            before.append(table)
        positions.append(before)
    return games.decks, games.actions, positions


def start_turns(starts: StartStates | None, num_envs: int = 512, steps: int = 60) -> np.ndarray:
    """Turns at which games of random play started, without each environment's first."""

    @jax.jit
    def play(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(state, key):  # type: ignore[no-untyped-def]
            legal = ENV.legal_actions(state)
            moves_legal = jnp.take_along_axis(legal, state.game.player[:, None, None], axis=1)[:, 0]
            action = jax.random.categorical(key, jnp.where(moves_legal, 0.0, -jnp.inf))
            state, transition = ENV.step(state, action.astype(jnp.int32), starts)
            return state, (state.game.turn, transition.done)

        _, out = jax.lax.scan(step, ENV.reset(key, num_envs), jax.random.split(key, steps))
        return out

    turn, done = play(jax.random.key(3))
    return np.asarray(turn)[np.asarray(done)]


def test_start_states_match_game_positions(
    played: tuple[np.ndarray, np.ndarray, list[list[PythonGame]]],
) -> None:
    """All positions with at least four remaining moves, once; hands, tokens and next card match the
    plain game."""
    decks, actions, positions = played
    starts = start_states_from_games(RULES, decks, actions, 0.5)
    expected = [tables[t] for tables in positions for t in range(len(tables) - 3)]
    states = jax.device_get(starts.states)
    assert states.counters.shape == (len(expected),)
    hands = np.asarray(states.hands)
    for k, table in enumerate(expected):
        assert int(states.turn[k]) == table.turn
        assert int(states.info_tokens[k]) == table.info_tokens
        assert int(states.life_tokens[k]) == table.life_tokens
        for seat, hand in enumerate(table.hands):
            cards = [int(card).bit_length() - 1 for card in hands[k, seat] if card]
            assert cards == [table.deck[place] for place in hand]


def test_recorded_moves_finish_start_state(
    played: tuple[np.ndarray, np.ndarray, list[list[PythonGame]]],
) -> None:
    """The recorded moves are legal from there, with the recorded draws, and end the game."""
    decks, actions, positions = played
    states = start_states_from_games(RULES, decks, actions, 1.0).states
    long = [game for game, tables in enumerate(positions) if len(tables) >= 4]
    last = np.cumsum([len(positions[game]) - 3 for game in long]) - 1  # their latest positions
    env_state = reset(jax.random.key(0), len(long))
    env_state = env_state.replace(game=jax.tree.map(lambda x: x[last], jax.device_get(states)))
    step, legal_of = jax.jit(ENV.step), jax.jit(ENV.legal_actions)
    for back in (4, 3, 2, 1):
        turn = np.array([len(positions[game]) - back for game in long])
        np.testing.assert_array_equal(env_state.game.turn, turn)
        move = actions[long, turn]
        legal = np.asarray(legal_of(env_state))
        assert legal[np.arange(len(long)), env_state.game.player, move].all()
        env_state, transition = step(env_state, jnp.asarray(move))
        np.testing.assert_array_equal(transition.done, back == 1)
    scores = []
    for game in long:
        table = PythonGame(RULES, decks[game])
        for action in actions[game, : len(positions[game])]:
            table.apply(action)
        scores.append(table.score)
    np.testing.assert_array_equal(transition.score, scores)


def test_start_states_are_sampled_uniformly(
    played: tuple[np.ndarray, np.ndarray, list[list[PythonGame]]],
) -> None:
    """Chi-square of the start turns against those of the file, at 1%; and the fraction of
    starts."""
    decks, actions, _ = played
    starts = start_states_from_games(RULES, decks, actions, 1.0)
    turns = start_turns(starts)
    of_file = np.bincount(np.asarray(starts.states.turn), minlength=TURNS)
    found = np.bincount(turns, minlength=TURNS)
    expected = of_file / of_file.sum() * len(turns)
    assert not found[expected == 0].any()
    some = expected > 0
    distance = ((found - expected)[some] ** 2 / expected[some]).sum()
    assert distance < stats.chi2.ppf(0.99, some.sum() - 1)
    half = start_turns(starts.replace(prob=jnp.float32(0.5)))
    later_fraction = 1 - of_file[0] / of_file.sum()
    assert np.mean(half > 0) == pytest.approx(0.5 * later_fraction, abs=0.02)


def test_zero_start_probability_deals_normally(
    played: tuple[np.ndarray, np.ndarray, list[list[PythonGame]]],
) -> None:
    decks, actions, _ = played
    none = start_states_from_games(RULES, decks, actions, 0.0)

    @jax.jit
    def hands(starts: StartStates | None) -> jax.Array:
        def step(state, t):  # type: ignore[no-untyped-def]
            legal = ENV.legal_actions(state)
            moves_legal = jnp.take_along_axis(legal, state.game.player[:, None, None], axis=1)[:, 0]
            state, _ = ENV.step(state, jnp.argmax(moves_legal, axis=1).astype(jnp.int32), starts)
            return state, state.game.colors

        return jax.lax.scan(step, ENV.reset(jax.random.key(1), 8), jnp.arange(60))[1]

    np.testing.assert_array_equal(hands(none), hands(None))


def test_short_games_and_fixed_decks_are_rejected(
    played: tuple[np.ndarray, np.ndarray, list[list[PythonGame]]],
) -> None:
    decks, actions, _ = played
    with pytest.raises(ValueError, match="expected games of 41 moves or more"):
        start_states_from_games(RULES, decks, actions, 0.5, min_moves_left=41)
    state = jax.eval_shape(ENV.reset_from_decks, decks[:, None])
    with pytest.raises(ValueError, match="given decks"):
        jax.eval_shape(
            ENV.step,
            state,
            np.zeros(GAMES, np.int32),
            start_states_from_games(RULES, decks, actions, 0.5),
        )
