"""Outcomes of hints against counts kept in plain Python, and their features."""

import functools
from collections import Counter
from typing import Any

import jax
import numpy as np
from support.games import random_games
from support.structured import SMALL

from hanabi_rl.agents.structured import features, hint_memory, hint_outcomes
from hanabi_rl.agents.structured.hint_memory import init_memory, next_seat
from hanabi_rl.agents.structured.hint_outcomes import CARD_COUNTS
from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.games.hanabi.state import State

Words = tuple[jax.Array, jax.Array]


@functools.partial(jax.jit, static_argnums=0)
def remembered(rules: Rules, states: State) -> tuple[Words, Any]:
    """Games [T, N] -> words of cards and hands uint32[T, P, H, N], and the features of each current
    player."""

    def turn(memory: Any, state: State) -> Any:
        seen = from_state(rules, state)
        after, view = features.encode_step(rules, "hint-outcomes", memory, seen)
        return next_seat(after), (hint_memory.outcomes(hint_memory.unpack(after)), view)

    start = init_memory(rules, "hint-outcomes", (states.counters.shape[1],))
    return jax.lax.scan(turn, start, states)[1]


class Notes:
    """What every player can count in one game, by the order numbers of the cards."""

    def __init__(self, table: PythonGame) -> None:
        self.table = table
        self.counts: dict[int, Counter[str]] = {}
        self.hints: dict[int, tuple[int, bool, bool, set[int]]] = {}
        self.revealed: dict[int, Counter[tuple[bool, bool, bool]]] = {
            seat: Counter() for seat in range(table.rules.num_players)
        }

    def note(self, turn: int, action: int) -> None:
        """Count a move, before it is applied."""
        table, move = self.table, decode_action(self.table.rules, action)
        if move.kind in ("color", "rank"):
            hand = table.hands[(table.player + move.offset) % table.rules.num_players]
            slots = table.touched(move)
            ranks = table.rules.num_ranks
            playable = {c * ranks + height for c, height in enumerate(table.fireworks)}
            for slot in slots:
                self.counts.setdefault(hand[slot], Counter())[move.kind] += 1
                is_newest = slot == slots[-1]
                self.hints[hand[slot]] = (turn, move.kind == "rank", is_newest, playable)
        elif move.kind in ("play", "discard"):
            order = table.hands[table.player][move.slot]
            if order not in self.hints:
                return
            card = table.deck[order]
            color, rank = divmod(card, table.rules.num_ranks)
            outcome = "discarded"
            if move.kind == "play":
                outcome = "scored" if table.fireworks[color] == rank else "failed"
            hint, by_rank, is_newest, playable = self.hints[order]
            for mate in table.hands[table.player]:
                if mate != order and mate in self.hints and self.hints[mate][0] == hint:
                    self.counts[mate][outcome] += 1
            self.revealed[table.player][by_rank, is_newest, card in playable] += 1


def test_counts_and_features() -> None:
    games = random_games(SMALL, 24, seed=4)
    states = replay(SMALL, games.decks, games.actions).state
    (of_cards, of_hands), view = jax.device_get(remembered(SMALL, states))
    cards = jax.device_get(hint_outcomes.card_counts(of_cards))
    hands = jax.device_get(hint_outcomes.hand_counts(of_hands))
    before = features.sizes(SMALL, "conventions")
    new_own = view.own[..., before.own.shape[-1] :]
    new_others = view.others[..., before.others.shape[-1] :]
    new_hints = view.hints[..., before.hints.shape[-1] :]
    seen: Counter[str] = Counter()
    for game in range(len(games)):
        table = PythonGame(SMALL, games.decks[game])
        notes = Notes(table)
        for turn in range(games.num_actions[game]):
            for seat, hand in enumerate(table.hands):
                row = (seat - table.player) % SMALL.num_players
                revealed = notes.revealed[seat]
                for kind in range(hint_outcomes.HINT_TYPES):
                    key = bool(kind & 1), bool(kind & 2)
                    found = [int(count[turn, row, 0, game]) for count in hands[kind]]
                    assert found == [revealed[*key, True], revealed[*key, False]]
                for slot, order in enumerate(hand):
                    counts = notes.counts.get(order, Counter())
                    seen += counts
                    for name in CARD_COUNTS:
                        where = f"game {game}, turn {turn}, row {row}, slot {slot}: {name}"
                        assert cards[name][turn, row, slot, game] == counts[name], where
                    columns = new_own if row == 0 else new_others[:, :, row - 1]
                    expected = [min(counts[name] / 3, 1) for name in CARD_COUNTS]
                    expected += [counts["color"] + counts["rank"] > 1, counts["failed"] > 0]
                    good = total = 0
                    if order in notes.hints:
                        _, by_rank, is_newest, _ = notes.hints[order]
                        good = revealed[by_rank, is_newest, True]
                        total = good + revealed[by_rank, is_newest, False]
                    expected += [good / (total + 1), total / (total + 2)]
                    np.testing.assert_allclose(columns[turn, game, slot], expected, atol=1e-3)
                    seen["rates"] += total > 0
            check_hints(table, notes, new_hints[turn, game])
            action = int(games.actions[game, turn])
            notes.note(turn, action)
            table.apply(action)
    assert min(seen[name] for name in (*CARD_COUNTS, "rates")) > 20, seen


def check_hints(table: PythonGame, notes: Notes, found: np.ndarray) -> None:
    """Features of all hints: per slot, whether a card with the same last hint failed, and whether a
    hint of the same type touched it before."""
    targets, colors, ranks = SMALL.num_players - 1, SMALL.num_colors, SMALL.num_ranks
    expected = np.zeros((targets * (colors + ranks), SMALL.hand_size, 2))
    for target in range(targets):
        hand = table.hands[(table.player + 1 + target) % SMALL.num_players]
        for slot, order in enumerate(hand):
            color, rank = divmod(table.deck[order], ranks)
            counts = notes.counts.get(order, Counter())
            failed = counts["failed"] > 0
            expected[target * colors + color, slot] = failed, counts["color"] > 0
            expected[targets * colors + target * ranks + rank, slot] = failed, counts["rank"] > 0
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_counts_end_at_their_maximum() -> None:
    """Eight hints count as seven, and leave the other counts as they are."""
    word = jax.numpy.zeros((), jax.numpy.uint32)
    for _ in range(8):
        word = hint_outcomes._counted(word, 3, 3, jax.numpy.array(True))
    counts = {name: int(count) for name, count in hint_outcomes.card_counts(word).items()}
    assert counts == dict.fromkeys(CARD_COUNTS, 0) | {"rank": 7}


def test_other_sets_keep_no_outcomes() -> None:
    for feature_set in ("facts", "hint-history", "conventions"):
        assert not hint_memory.has_outcomes(feature_set)
    with_outcomes = features.sizes(SMALL, "hint-outcomes")
    without = features.sizes(SMALL, "conventions")
    assert with_outcomes.table == without.table
