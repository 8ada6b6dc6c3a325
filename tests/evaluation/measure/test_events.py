"""The 14 events, against their definitions on one plain-Python game at a time, and a `Game`'s."""

import dataclasses
from typing import ClassVar

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import permute_actions, permute_decks
from support.games import TINY, TINY_3P, deck_of, one_game, random_games, shared_data, teacher_games
from support.tiny_games import Dice

from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.events import event_counts, mean_event_counts
from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.events import EVENTS
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.game_episodes import play_episodes


def by_definition(games):
    """Event counts int[N, P, 14], card by card."""
    rules, counts = games.rules, np.zeros((len(games), games.rules.num_players, 14), int)
    for game in range(len(games)):
        table, hint = PythonGame(rules, games.decks[game]), None
        for action in games.moves(game):
            move = decode_action(rules, action)
            counts[game, table.player] += list(facts(table, move, hint))
            hint = table.touched(move) if move.kind in ("color", "rank") else None
            hint = hint if move.offset == 1 else None  # for the next player
            table.apply(action)
    return counts


def facts(table, move, hint):
    """True for each event of `EVENTS`; `hint`: slots of the current player touched by the last
    move."""
    rules = table.rules

    def playable(card):
        return table.fireworks[card // rules.num_ranks] == card % rules.num_ranks

    def last_copy(card):
        color, rank = divmod(card, rules.num_ranks)
        lost = [table.deck[order] for order in table.discards]

        def left(r):
            return rules.num_cards_of_rank[r] - lost.count(color * rules.num_ranks + r)

        height = table.fireworks[color]
        return rank >= height and left(rank) == 1 and all(left(r) for r in range(height, rank))

    def hinted(order):
        knowledge = table.knowledge[order]
        return knowledge.hinted_color is not None or knowledge.hinted_rank is not None

    def chop(hand):
        return next((order for order in hand if not hinted(order)), None)

    yield move.kind == "color"
    yield move.kind == "rank"
    is_hint = move.kind in ("color", "rank")
    hand = table.hands[(table.player + move.offset) % rules.num_players] if is_hint else []
    touched = [hand[slot] for slot in table.touched(move)] if is_hint else []
    yield any(playable(table.deck[order]) and not hinted(order) for order in touched)
    on_chop = [table.deck[order] for order in touched if order == chop(hand)]
    yield any(last_copy(card) and not playable(card) for card in on_chop)
    yield is_hint and all(hinted(order) for order in touched)

    order = table.hands[table.player][move.slot] if move.slot >= 0 else None
    play, discard = move.kind == "play", move.kind == "discard"
    knowledge = table.knowledge[order] if order is not None else None
    yield play and all(
        playable(c * rules.num_ranks + r) for c in knowledge.colors for r in knowledge.ranks
    )
    yield play and not hinted(order)
    yield play and hint is not None and move.slot in hint
    yield play and hint is not None and move.slot == max(hint)
    yield play and not playable(table.deck[order])
    yield discard and order == chop(table.hands[table.player])
    yield discard and hinted(order)
    yield discard and table.info_tokens >= rules.max_info_tokens / 2
    yield discard and last_copy(table.deck[order])


@pytest.mark.parametrize("rules", [TINY, TINY_3P, Rules(num_colors=3, num_players=3)])
def test_event_counts_match_definitions(rules):
    games = random_games(rules, 60)
    counts, expected = event_counts(games), by_definition(games)
    np.testing.assert_array_equal(counts, expected)
    assert (expected.sum(axis=(0, 1)) > 0).all()  # every event occurs
    teacher = teacher_games(TINY, 60)
    np.testing.assert_array_equal(event_counts(teacher), by_definition(teacher))


def test_hint_events_ignore_colour_names():
    games = random_games(TINY_3P, 60, seed=1)
    counts = event_counts(games)
    moves = [[decode_action(TINY_3P, a).kind for a in games.moves(g)] for g in range(60)]
    hints = [sum(kind in ("color", "rank") for kind in of_game) for of_game in moves]
    np.testing.assert_array_equal(counts[..., :2].sum(axis=(1, 2)), hints)
    perm = np.array([1, 0], np.int32)
    other = games.select(slice(None))
    other.decks[:] = permute_decks(TINY_3P, games.decks, perm)
    other.actions[:] = permute_actions(TINY_3P, games.actions, perm[None, None])
    assert (other.decks != random_games(TINY_3P, 60, seed=1).decks).any()
    np.testing.assert_array_equal(event_counts(other), counts)


def test_a_game_by_hand():
    """Standard game; seat 0 holds R5 R1 G1 Y3 B4, seat 1 B5 Y1 W1 R2 R3, slot 0 the oldest."""
    deck = deck_of("R5 R1 G1 Y3 B4 B5 Y1 W1 R2 R3 W2 W3 G2 G3")
    moves = [
        (Move("rank", offset=1, value=4), "hint_rank hint_save"),  # the 5 on the chop
        (Move("rank", offset=1, value=0), "hint_rank hint_playable"),  # R1 and G1
        (Move("play", slot=2), "play_known play_after_hint play_newest"),  # G1: no 1 is played yet
        (
            Move("discard", slot=1),
            "discard_chop discard_many_tokens",
        ),  # Y1; slot 0, the 5, is hinted
        (Move("play", slot=0), "play_blind misplay"),  # R5
        (Move("play", slot=0), "misplay"),  # B5, hinted; all its colours are possible
        # B5, hinted; every colour is possible
        (Move("rank", offset=1, value=0), "hint_rank hint_playable"),
        (Move("color", offset=1, value=0), "hint_color hint_repeated"),  # only R1 is red
    ]
    games = one_game(deck, [encode_action(Rules(), move) for move, _ in moves])
    expected = np.zeros((2, 14), int)
    for turn, (_, names) in enumerate(moves):
        expected[turn % 2, [EVENTS.index(name) for name in names.split()]] += 1
    np.testing.assert_array_equal(event_counts(games)[0], expected)


@dataclasses.dataclass(frozen=True)
class EchoDice(Dice):
    events: ClassVar[tuple[str, ...]] = ("echo",)

    def detect_events(self, state, action):
        return (action == state.values % 4)[..., None]


@flax.struct.dataclass
class Echo:
    """Plays its own value."""

    rules: EchoDice = flax.struct.field(pytree_node=False)

    def init_carry(self, batch):
        return jnp.zeros(batch)

    def step(self, carry, obs, legal, reset, key=None):
        value = jnp.round(8 * obs[:, 0]).astype(int)
        return carry, 50 * jax.nn.one_hot(value % 4, 4)


def test_events_of_a_game_with_chance():
    """Every step has the event, if the games are replayed with their own random words."""
    game = EchoDice()
    played = play_episodes((Echo(game),) * 3, 20, sample=False)
    expected = np.full((3, 1), played.lengths.mean())
    np.testing.assert_allclose(mean_event_counts(game, played), expected)


TOTALS = {
    "2p_hgroup_bot_val": "1017 1356 1647 233 248 538 17 1530 1345 124 1490 200 755 80",
    "3p_human_val_41": "418 394 445 64 58 186 135 214 167 33 351 81 117 3",
    "2p_human_with_ai": "14893 18466 15941 1141 5894 11163 507 17450 12220 3589 5515 11476 3291 "
    "3179",
}
"""From an independent plain-Python count: shared/reference/zsc-eval.md, C6."""
BY_ROLE = {
    False: "7791 8412 8125 373 2703 7241 8 8957 5629 607 2523 6651 2270 1793",
    True: "7102 10054 7816 768 3191 3922 499 8493 6591 2982 2992 4825 1021 1386",
}


@pytest.mark.slow  # recorded games
@pytest.mark.parametrize("name", TOTALS)
def test_recorded_games_have_known_counts(name):
    games = load_games(shared_data(f"{name}.safetensors"))
    counts = event_counts(games)
    assert counts.sum(axis=(0, 1)).tolist() == [int(text) for text in TOTALS[name].split()]
    if name == "2p_human_with_ai":
        for person, totals in BY_ROLE.items():
            of_role = counts[games.human_seats == person].sum(axis=0)
            assert of_role.tolist() == [int(text) for text in totals.split()]
