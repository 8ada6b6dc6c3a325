"""InfoBot: positions with a known number, an independent implementation, equal notes of all seats,
strange partners."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import compiled as game
from support.compiled import observe
from support.plain_hanabi import PlainGame
from support.plain_info import PlainInfo

from hanabi_rl.agents.bots import info
from hanabi_rl.agents.bots.registry import make_bot
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import decode_observation

GAMES = 4
ask, answer, hint_code = (
    jax.jit(of, static_argnums=0) for of in (info.ask, info.answer, info.hint_code)
)
narrow = jax.jit(info.narrow)


@functools.partial(jax.jit, static_argnames="rules")
def follow(rules: Rules, decks: jax.Array, random: jax.Array) -> tuple:
    """Self-play, with random legal moves instead where `random` bool[T, N]: notes of all seats
    uint32[T, N, P, P, H], chosen actions of the current player, their legality, ends and moves."""
    bot, players = make_bot("info", rules), rules.num_players
    num = len(decks)

    def turn(carry: tuple, inputs: tuple) -> tuple:
        state, notes = carry
        first, instead, key = inputs
        legal = game.legal_actions(rules, state)
        obs = observe(rules, state).reshape(num * players, -1)
        reset = jnp.full(num * players, first)
        notes, logits = bot.step(notes, obs, legal.reshape(num * players, -1), reset)
        of_mover = state.player[:, None]
        choice = jnp.take_along_axis(logits.argmax(-1).reshape(num, players), of_mover, 1)[:, 0]
        mine = jnp.take_along_axis(legal, of_mover[..., None], axis=1)[:, 0]
        drawn = jax.random.categorical(key, jnp.where(mine, 0.0, -jnp.inf))
        fine = jnp.exp(logits.max(-1)).reshape(num, players) > 0.9
        action = jnp.where(instead, drawn, choice).astype(jnp.int32)
        known = jax.vmap(lambda row: decode_observation(rules, row).knowledge)(obs)
        shape = (num, players, *notes.shape[1:])
        out = (
            notes.reshape(shape),
            known.reshape(shape),
            action,
            fine,
            game.finished(rules, state),
        )
        return (game.step(rules, state, action)[0], notes), out

    first = jnp.arange(rules.max_turns) == 0
    keys = jax.random.split(jax.random.key(3), rules.max_turns)
    start = (game.deal(rules, decks), bot.init_carry(num * players))
    return jax.lax.scan(turn, start, (first, random, keys))[1]


def games_of(players: int, random_rate: float = 0.0) -> tuple:
    rules, rng = Rules(players), np.random.default_rng(players)
    decks = np.stack([rng.permutation(full_deck(rules)) for _ in range(GAMES)]).astype(np.int32)
    random = rng.random((rules.max_turns, GAMES)) < random_rate
    return decks, *jax.device_get(follow(rules, decks, random))


def seat_order(notes: np.ndarray) -> np.ndarray:
    """Notes [T, N, P, P, H], relative to each observer, in absolute order of hands."""
    players = notes.shape[2]
    return np.stack([np.roll(notes[:, :, s], s, axis=2) for s in range(players)], axis=2)


@pytest.mark.parametrize("players", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_moves_and_notes_of_independent_implementation(players: int) -> None:
    """Every move, and the notes of every seat on every turn."""
    decks, notes, _, actions, fine, over = games_of(players)
    notes = seat_order(notes)
    assert fine[~over].all()
    for number, deck in enumerate(decks):
        plain = PlainInfo(PlainGame(deck.tolist(), players))
        for turn in np.flatnonzero(~over[:, number]):
            expected = [
                [sum(1 << 5 * c + r for c, r in cards) for cards in hand] for hand in plain.notes
            ]
            for seat, hand in enumerate(expected):
                shown = notes[turn, number, :, seat, : len(hand)]
                assert (shown == hand).all(), (number, turn, seat)
            assert plain.choose() == actions[turn, number], (number, turn)
            plain.move(int(actions[turn, number]))
        assert plain.game.over


@pytest.mark.slow
@pytest.mark.parametrize("players", [4, 5])
def test_all_seats_keep_equal_notes(players: int) -> None:
    _, notes, _, _, fine, over = games_of(players)
    notes = seat_order(notes)
    assert fine[~over].all() and (notes == notes[:, :, :1])[~over].all()


def test_strange_moves_keep_notes_possible() -> None:
    """Half of the moves are random: choices stay legal, notes within the hints, none empty."""
    _, notes, known, _, fine, over = games_of(3, random_rate=0.5)
    assert fine[~over].all()
    assert ((notes != 0) == (known != 0))[~over].all() and (notes & ~known == 0).all()


def cards(text: str) -> int:
    return sum(1 << "RYGBP".index(name[0]) * 5 + int(name[1]) - 1 for name in text.split())


def test_numbers_of_first_turn() -> None:
    """Three players, nothing known: 3 + 3 hints. Every slot is playable with probability 15 / 50:
    the oldest slot is asked for it, 6 // 2 = 3 numbers are left, the next slot is asked for it, and
    3 // 2 = 1 number is left for no further question. The numbers are 0 to 3."""
    rules = Rules(3)
    board = info.Table(
        playable=np.uint32(cards("R1 Y1 G1 B1 P1")),
        useless=np.uint32(0),
        remaining=np.tile(np.array([3, 2, 2, 2, 1]), 5),
    )
    blank = np.asarray(info.nothing_known(rules))[0]
    asked = ask(rules, blank, board, 6)
    assert asked.play_base.tolist() == [2, 2, 1, 1, 1] and asked.group_base.tolist() == [1] * 5
    assert asked.play_unit.tolist()[:2] == [2, 1] and int(asked.numbers) == 4
    hand = np.array([cards(name) for name in ("R1", "R4", "Y1", "G2", "B5")], np.uint32)
    assert int(answer(rules, asked, hand, board)) == 2
    told = narrow(blank, asked, np.int32(2), board)
    ones = cards("R1 Y1 G1 B1 P1")
    assert told.tolist() == [ones, rules.all_cards & ~ones, *[rules.all_cards] * 3]
    assert int(hint_code(rules, blank, board).classes) == 3


def test_groups_separate_useless_cards() -> None:
    """Known playable card: only groups are asked. Five numbers for R2 R3 R4 Y1 (Y1 useless): R2, R3
    and R4 are three groups, Y1 the fourth."""
    rules = Rules()
    remaining = np.tile(np.array([3, 2, 2, 2, 1]), 5)
    table = info.Table(np.uint32(cards("R1 Y2")), np.uint32(cards("Y1")), remaining)
    notes = np.array([cards("R1"), cards("R2 R3 R4 Y1"), 0, 0, 0], np.uint32)
    asked = ask(rules, notes, table, 5)
    assert asked.group_base.tolist() == [1, 4, 1, 1, 1] and asked.play_base.tolist() == [1] * 5
    for number, card in enumerate(["R2", "R3", "R4", "Y1"]):
        hand = np.array([cards("R1"), cards(card), 0, 0, 0], np.uint32)
        assert int(answer(rules, asked, hand, table)) == number
        assert int(np.asarray(narrow(notes, asked, np.int32(number), table))[1]) == cards(card)
    # three numbers: R2 and R4 share a group
    asked = ask(rules, notes, table, 3)
    told = narrow(notes, asked, np.int32(0), table)
    assert int(np.asarray(told)[1]) == cards("R2 R4") and int(asked.numbers) == 3


def test_classes_of_disjoint_slots() -> None:
    """Slots R1, G3 and B4 differ in colour and rank: six classes, colour and rank of each slot.
    Yellow, purple, 2 and 5 continue from class 0."""
    rules = Rules()
    notes = np.array([cards(name) for name in ("R1", "G3", "B4", "R1 R3")] + [0], np.uint32)
    table = info.Table(np.uint32(0), np.uint32(0), np.ones(25, np.int32))
    code = hint_code(rules, notes, table)
    assert int(code.classes) == 6
    assert code.packed.tolist() == [0, 0, 2, 4, 1, 1, 2, 3, 5, 3]
