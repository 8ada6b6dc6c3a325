"""`PythonGame` against the batched rules: legal moves, tokens, scores, hands and knowledge."""

from functools import partial

import jax
import numpy as np
import pytest
from support.games import TINY

from hanabi_rl.games.hanabi import dynamics as core
from hanabi_rl.games.hanabi.actions import decode_action, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.render import render_game, render_state
from hanabi_rl.games.hanabi.rules import Rules

GAMES = 6
ALL_RULES = [
    *[Rules(num_players=players) for players in (2, 3, 5)],
    TINY,
    Rules(5, 2, 2, hand_size=8, max_info_tokens=32, num_cards_of_rank=(20, 9)),
]
PLAYED = [
    pytest.param(rules, marks=pytest.mark.slow) if rules in ALL_RULES[1:3] else rules
    for rules in ALL_RULES
]


def play(rules: Rules, seed: int, careful: bool) -> PythonGame:
    """A random game; a `careful` player sees its cards and plays only playable ones, for long
    games."""
    rng = np.random.default_rng(seed)
    table = PythonGame(rules, rng.permutation(full_deck(rules)))
    table.moves = []
    while not table.over:
        legal = [
            action for action in range(rules.num_actions) if table.illegal_reason(action) is None
        ]
        if careful:
            hand = [
                divmod(table.deck[order], rules.num_ranks) for order in table.hands[table.player]
            ]
            fits = [
                rules.hand_size + slot
                for slot, (c, r) in enumerate(hand)
                if table.fireworks[c] == r
            ]
            safe = [
                action for action in legal if not rules.hand_size <= action < 2 * rules.hand_size
            ]
            legal = fits or safe or legal
        table.moves.append(int(rng.choice(legal)))
        table.apply(table.moves[-1])
    return table


@partial(jax.jit, static_argnums=0)
def replayed(rules: Rules, decks: np.ndarray, moves: np.ndarray):
    """By the core, time first: states and legal masks before each move; over, score and lives after
    it."""

    def turn(state, action):
        after, _, over = core.step(rules, state, action)
        outcome = (over, core.score(rules, after), after.life_tokens)
        return after, (state, core.legal_actions(rules, state), outcome)

    return jax.lax.scan(turn, core.deal(rules, decks), moves.T)[1]


@pytest.fixture(scope="module", params=PLAYED, ids=lambda r: f"{r.num_players}p{r.num_colors}c")
def played(request: pytest.FixtureRequest):
    """Rules, finished games, and the core's states and legal masks before each of their moves."""
    rules = request.param
    tables = [play(rules, seed, careful=seed % 3 > 0) for seed in range(GAMES)]
    length = max(table.turn for table in tables)
    decks = np.array([table.deck for table in tables], np.uint8)
    moves = np.array(
        [table.moves + [rules.noop] * (length - table.turn) for table in tables], np.int32
    )
    states, masks, outcomes = jax.device_get(replayed(rules, decks, moves))
    return rules, tables, states, masks, outcomes


def test_python_game_matches_core(played):
    rules, tables, _, masks, outcomes = played
    for game, finished in enumerate(tables):
        table = PythonGame(rules, finished.deck)
        for turn, action in enumerate(finished.moves):
            legal = [table.illegal_reason(a) is None for a in range(rules.num_actions)]
            np.testing.assert_array_equal(masks[turn, game, table.player], legal)
            table.apply(action)
            over, score, lives = (field[turn, game] for field in outcomes)
            assert (table.over, table.score, table.life_tokens) == (over, score, lives)


def test_games_cover_both_endings(played):
    _, tables, _, _, _ = played
    assert any(table.life_tokens == 0 for table in tables)
    assert any(table.life_tokens > 0 for table in tables)


def test_state_and_python_game_render_equally(played):
    """Hands, knowledge, fireworks, discards and tokens, each turn; `PythonGame` also prints the
    move."""
    rules, tables, states, _, _ = played
    for game, table in enumerate(tables[:3]):
        for turn in range(0, table.turn, 7):
            expected = render_game(rules, table.deck, table.moves, turn=turn + 1).rpartition("\n")[
                0
            ]
            state = jax.tree.map(lambda leaf: leaf[turn], states)  # noqa: B023 - used at once
            assert render_state(rules, state, game) == expected


@pytest.mark.parametrize("rules", ALL_RULES, ids=str)
def test_decoding_actions_is_bijective(rules):
    moves = [decode_action(rules, action) for action in range(rules.num_actions)]
    assert [encode_action(rules, move) for move in moves] == list(range(rules.num_actions))
    with pytest.raises(
        ValueError,
        match=f"expected an action in 0..{rules.num_actions - 1}, got {rules.num_actions}",
    ):
        decode_action(rules, rules.num_actions)


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        (
            [0],
            "turn 0: illegal move 0 .Alice discards slot 1 .R1..: a discard while all 8 "
            "information tokens are there",
        ),
        ([20], "a no-op on the player's own turn"),
        ([12], "Alice hints Bob green.: a hint that touches no card"),
        ([99], "expected an action in 0..20, got 99"),
        ([-1], "expected an action in 0..20, got -1"),
        (
            [10] * 9,
            "turn 8: .* a hint without an information token",
        ),  # red marks all cards of both
    ],
)
def test_illegal_move_error_gives_reason(actions, reason):
    table = PythonGame(
        Rules(), full_deck(Rules())
    )  # Alice holds R1 R1 R1 R2 R2, Bob R3 R3 R4 R4 R5
    for action in actions[:-1]:
        table.apply(action)
    with pytest.raises(ValueError, match=reason):
        table.apply(actions[-1])


def test_empty_slot_and_finished_game_are_rejected():
    rules = Rules(num_colors=1, num_ranks=5, hand_size=4, num_cards_of_rank=(3, 2, 1, 1, 1))
    table = PythonGame(rules, [0, 0, 0, 1, 1, 2, 3, 4])  # dealt to the last card
    table.apply(rules.hand_size)
    table.apply(2 * rules.hand_size)
    assert table.illegal_reason(3) == "slot 3 is empty, the hand has 3 cards"
    table.life_tokens = 0
    assert table.illegal_reason(4) == "the game is over"


def test_wrong_deck_is_rejected():
    with pytest.raises(ValueError, match="expected a deck of 50 cards, got 49"):
        PythonGame(Rules(), full_deck(Rules())[:-1])
    with pytest.raises(ValueError, match="expected 3 of card id 0, got 2"):
        PythonGame(Rules(), [1, *full_deck(Rules())[1:]])


def test_can_score_by_hand():
    """Only the red 5, the tenth card of a sorted deck, is missing."""
    table = PythonGame(Rules(), full_deck(Rules()))
    assert table.deck.index(4) == 9 and table.can_score()
    table.fireworks, table.hands, table.drawn = [4, 5, 5, 5, 5], [[0], [1]], 9
    assert table.can_score(), "it is in the deck"
    table.drawn = 10
    assert not table.can_score(), "it is discarded"
    table.hands, table.drawn, table.turn = [[9], [1]], 50, 40
    assert table.player == 0 and table.can_score(), "it is in a hand"
    for turn, turns_left, left in ((40, 2, True), (41, 2, True), (42, 1, True), (41, 1, False)):
        table.turn, table.turns_left = turn, turns_left
        assert table.can_score() == left, "its player moves again, or has moved for the last time"
    table.turn, table.turns_left, table.fireworks = 40, 2, [3, 5, 5, 5, 5]
    assert not table.can_score(), "the red 4 before it is gone"
    table.fireworks = [5] * 5
    assert not table.can_score()
