"""SimpleBot, ValueBot, HolmesBot and SmartBot in positions with a known move."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import compiled as game
from support.compiled import observe

from hanabi_rl.agents.bots import holmes, odwyer_common, smart
from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.agents.bots.registry import make_bot
from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation, decode_observation
from hanabi_rl.games.hanabi.state import State

RULES = Rules()
JUNK = "R4 R4 Y4 Y4 G4"


def cards(text: str) -> list[int]:
    return ["RYGBP".index(name[0]) * 5 + int(name[1]) - 1 for name in text.split()]


def as_set(text: str) -> int:
    return sum(1 << card for card in cards(text))


def board(played: str = "", discarded: str = "") -> SeatObservation:
    gone = cards(discarded)
    planes = [sum(1 << card for card in set(gone) if gone.count(card) > j) for j in range(3)]
    seen = look(game.deal(RULES, np.array([full_deck(RULES)], np.int32)))
    discards = np.array(planes, np.uint32)
    return seen._replace(played=np.uint32(as_set(played)), discards=discards)


@jax.jit
def look(state: State) -> SeatObservation:
    return decode_observation(RULES, observe(RULES, state)[0, 0])


@jax.jit
def _step(bot: Bot, memory: object, state: State, first: jax.Array) -> tuple:
    obs, legal = observe(RULES, state)[0], game.legal_actions(RULES, state)[0]
    memory, logits = bot.step(memory, obs, legal, jnp.full(2, first))
    return memory, jnp.argmax(logits, axis=-1)


class Duo:
    """Self-play of a bot on a constructed deck."""

    def __init__(self, name: str, first: str, second: str) -> None:
        """Hands of seats 0 and 1, oldest card first; then the remaining cards by colour."""
        hands, rest = cards(first) + cards(second), full_deck(RULES)
        for card in hands:
            rest.remove(card)
        self.state = game.deal(RULES, np.array([hands + rest], np.int32))
        self.bot = make_bot(name, RULES)
        self.memory, self.first = self.bot.init_carry(2), True

    def play(self, instead: Move | None = None) -> Move:
        """Return the bot's move, and make it, or `instead`."""
        self.memory, actions = _step(self.bot, self.memory, self.state, self.first)
        self.first = False
        choice = decode_action(RULES, int(np.asarray(actions)[np.asarray(self.state.player)[0]]))
        action = np.array([encode_action(RULES, instead or choice)], np.int32)
        self.state = game.step(RULES, self.state, action)[0]
        return choice


@pytest.mark.parametrize("name", ["simple", "value", "holmes"])
def test_simple_bot_hints_most_playable_cards(name: str) -> None:
    duo = Duo(name, JUNK, "R3 R1 Y1 B3 G1")
    # rank 1 touches three playable cards, yellow and green one; red and blue would mislead
    assert duo.play() == Move("rank", offset=1, value=0)
    assert duo.play() == Move("play", slot=1)


def test_simple_bot_clears_flag_after_play() -> None:
    duo = Duo("simple", "R1 Y4 Y4 G4 B4", "R1 Y1 B3 G3 P3")
    duo.play(Move("rank", offset=1, value=0))
    duo.play(Move("play", slot=0))  # R1: for its owner, the other 1 could be red
    assert duo.play() == Move("color", offset=1, value=1)  # so Y1 is hinted again, colours first


def test_value_bot_warns_and_heeds_warnings() -> None:
    duo = Duo("value", JUNK, "R5 R3 Y3 B3 G4")
    duo.play(Move("rank", offset=1, value=4))  # with all tokens it only passes the turn
    duo.play(Move("rank", offset=1, value=3))
    # seat 1 would discard its 5 next: a warning precedes the 4s that seat 0 assumes playable
    assert duo.play() == Move("rank", offset=1, value=4)
    assert duo.play() == Move("discard", slot=1)


def test_smart_bot_hint_means_newest_card() -> None:
    duo = Duo("smart", JUNK, "R3 Y3 B3 G4 R1")
    # red: 2 cards 25 -> 5 possibilities, 3 cards 25 -> 20, 55 in all; rank 1 excludes only 40
    assert duo.play() == Move("color", offset=1, value=0)
    assert duo.play() == Move("play", slot=4)


def test_smart_bot_card_classes() -> None:
    kinds = jax.jit(smart.card_classes, static_argnums=0)(
        RULES, board(played="R1 Y1", discarded="R3 R3 B2 G1 G1")
    )
    assert int(kinds.playable) == as_set("R2 Y2 G1 B1 P1")
    assert int(kinds.worthless) == as_set("R1 Y1 R4 R5")
    # R5 is above R3, which has no copy left
    assert int(kinds.valuable) == as_set("B2 G1 Y5 G5 B5 P5")


def test_holmes_bot_locates_cards() -> None:
    """A red 5 in one hand implies that the other 5 is yellow; a card whose candidates were all
    played is worthless."""
    notes = holmes.nothing_known(RULES)
    possible = notes.possible.at[0, 0].set(as_set("R5")).at[1, 2].set(as_set("R5 Y5"))
    possible = possible.at[1, 3].set(as_set("R1 Y1"))
    notes = notes._replace(possible=possible)
    after = jax.device_get(
        jax.jit(holmes.deduce, static_argnums=0)(RULES, notes, board(played="R1 Y1"))
    )
    assert (int(after.color[0, 0]), int(after.rank[0, 0])) == (0, 4)
    assert (int(after.color[1, 2]), int(after.rank[1, 2])) == (1, 4)
    assert bool(after.valuable[1, 2]) and not bool(after.worthless[1, 2])
    assert np.argwhere(np.array(after.worthless)).tolist() == [[1, 3]]


def test_board_before_last_move() -> None:
    """The board is reconstructed after every type of move, over a whole game."""
    decks = np.array([np.random.default_rng(5).permutation(full_deck(RULES))], np.int32)
    state, rng = game.deal(RULES, decks), np.random.default_rng(7)
    back = jax.jit(odwyer_common.board_before)
    table = operator.attrgetter("played", "discards", "info", "deck")
    before, turns = look(state), 0
    while not np.asarray(game.finished(RULES, state))[0]:
        seat = np.asarray(state.player)[0]
        legal = np.flatnonzero(np.array(game.legal_actions(RULES, state))[0, seat])
        right = [a for a in legal if 5 <= a < 10 and turns % 3]
        kind = right or [a for a in legal if a < 5] or list(legal)
        state = game.step(RULES, state, np.array([rng.choice(kind)], np.int32))[0]
        seen = look(state)
        jax.tree.map(np.testing.assert_array_equal, table(back(seen)), table(before))
        before, turns = seen, turns + 1
    assert turns >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("value", Rules(num_colors=3)),
        ("holmes", Rules(num_players=3)),
        ("smart", Rules(num_players=5)),
        ("simple", Rules(num_players=4)),
        ("piers", Rules(num_players=4)),
    ],
)
def test_bots_are_legal_with_random_partner(name: str, rules: Rules) -> None:
    """The bot holds seat 0, the others move at random; an illegal choice would have no logit near
    0."""
    games, bot = 16, make_bot(name, rules)
    rng = np.random.default_rng(1)
    decks = np.stack([rng.permutation(full_deck(rules)) for _ in range(games)]).astype(np.int32)

    @jax.jit
    def play(decks: jax.Array, key: jax.Array) -> jax.Array:
        def turn(carry: tuple, inputs: tuple) -> tuple:
            state, memory = carry
            key, first = inputs
            legal = game.legal_actions(rules, state)[:, 0]
            obs = observe(rules, state)[:, 0]
            keys = jax.random.split(key, games)
            memory, logits = bot.step(memory, obs, legal, jnp.full(games, first), keys)
            is_current = jnp.take_along_axis(
                game.legal_actions(rules, state), state.player[:, None, None], axis=1
            )[:, 0]
            drawn = jax.random.categorical(key, jnp.where(is_current, 0.0, -jnp.inf))
            action = jnp.where(state.player == 0, jnp.argmax(logits, axis=-1), drawn)
            sure = (jnp.max(logits, axis=-1) > jnp.log(0.9)) | game.finished(rules, state)
            return (game.step(rules, state, action.astype(jnp.int32))[0], memory), sure

        keys = jax.random.split(key, rules.max_turns)
        start = (game.deal(rules, decks), bot.init_carry(games))
        return jax.lax.scan(turn, start, (keys, jnp.arange(rules.max_turns) == 0))[1]

    assert play(decks, jax.random.key(0)).all()
