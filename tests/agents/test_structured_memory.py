"""Hint memory against records kept in plain Python."""

import functools
from typing import Any

import jax
import numpy as np
import pytest
from support.games import random_games
from support.structured import SMALL

from hanabi_rl.agents.structured import features, hint_memory
from hanabi_rl.agents.structured.hint_memory import HintSnapshot, init_memory, next_seat
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.games.hanabi.state import State

Note = dict[str, Any]

WIDE = Rules(num_colors=1, num_ranks=2, hand_size=8, num_cards_of_rank=(12, 10))
"""Maximum hand size, and a colour hint touches all of it."""


@functools.partial(jax.jit, static_argnums=0)
def remembered(rules: Rules, states: State) -> tuple[HintSnapshot, jax.Array]:
    """Games [T, N] -> records [T, 2, P, H, N] and ages [T, P, H, N] of each current player."""

    def turn(memory: Any, state: State) -> Any:
        after = features.update_memory(rules, "hint-history", memory, from_state(rules, state))
        bits = hint_memory.unpack(after)
        return next_seat(after), (hint_memory.records(bits), hint_memory.ages(bits))

    start = init_memory(rules, "hint-history", (states.counters.shape[1],))
    return jax.lax.scan(turn, start, states)[1]


def note_hint(table: PythonGame, notes: dict[int, list[Note]], turn: int, action: int) -> None:
    """Record the state of the game for each card that a hint touches."""
    move, rules = decode_action(table.rules, action), table.rules
    if move.kind not in ("color", "rank"):
        return
    owner = (table.player + move.offset) % rules.num_players
    hand, slots = table.hands[owner], table.touched(move)
    free = [slot for slot, order in enumerate(hand) if order not in notes]
    new = [slot for slot in slots if slot in free]
    for slot in slots:
        notes.setdefault(hand[slot], []).append(
            {
                "hinted": True,
                "by_rank": move.kind == "rank",
                "was_new": slot in new,
                "was_oldest": slot in new and slot == free[0],
                "was_newest_new": bool(new) and slot == new[-1],
                "was_newest": slot == slots[-1],
                "touched": len(slots),
                "new": len(new),
                "giver": (table.player - owner) % rules.num_players,
                "turn": turn,
                "playable": cards(table, lambda color, rank: table.fireworks[color] == rank),
                "critical": cards(table, lambda color, rank: copies(table, color, rank) == 1),
            }
        )


def cards(table: PythonGame, which: Any) -> int:
    """Set, as bits, of the reachable unplayed cards (colour, rank) with a property."""
    rules, found = table.rules, 0
    for color, height in enumerate(table.fireworks):
        for rank in range(height, rules.num_ranks):
            if copies(table, color, rank) == 0:
                break
            found |= which(color, rank) << (color * rules.num_ranks + rank)
    return found


def copies(table: PythonGame, color: int, rank: int) -> int:
    """Remaining copies of an unplayed card."""
    lost = [table.deck[order] for order in table.discards]
    card = color * table.rules.num_ranks + rank
    return table.rules.num_cards_of_rank[rank] - lost.count(card)


@pytest.mark.parametrize("rules", [SMALL, WIDE], ids=["small", "wide"])
def test_memory_records_first_and_last_hint(rules: Rules) -> None:
    games: Games = random_games(rules, 12, seed=3)
    states = replay(rules, games.decks, games.actions).state
    records, ages = jax.device_get(remembered(rules, states))
    most = 0
    for game in range(len(games)):
        table, notes = PythonGame(rules, games.decks[game]), {}
        drawn = dict.fromkeys(range(table.drawn), -1)  # the deal counts as a move
        for turn in range(games.num_actions[game]):
            for seat, hand in enumerate(table.hands):
                row = (seat - table.player) % rules.num_players
                for slot, order in enumerate(hand):
                    where = f"game {game}, turn {turn}, seat {seat}, slot {slot}"
                    assert ages[turn, row, slot, game] == turn - drawn[order], where
                    history = notes.get(order, [{}])
                    for which, note in enumerate((history[-1], history[0])):
                        if note:
                            note["age"] = turn - 1 - note["turn"]
                        for field in HintSnapshot._fields:
                            found = getattr(records, field)[turn, which, row, slot, game]
                            assert found == note.get(field, 0), f"{where}: {which} {field}"
                            most = max(most, int(records.new[turn, which, row, slot, game]))
            action = int(games.actions[game, turn])
            note_hint(table, notes, turn, action)
            before = table.drawn
            table.apply(action)
            drawn |= dict.fromkeys(range(before, table.drawn), turn + 1)
    assert most == rules.hand_size and np.ptp(records.age) > rules.num_players
