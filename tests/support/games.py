"""Games for tests: tiny, random, teacher and (if available) recorded games."""

import collections
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from hanabi_rl.data.games import Games, pad_moves
from hanabi_rl.games.hanabi.actions import Move, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

ROOT = Path(__file__).resolve().parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"

TINY = Rules(
    num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_info_tokens=3, max_life_tokens=2
)
"""Default rules where the game does not matter."""
TINY_3P = dataclasses.replace(TINY, num_players=3)
LENIENT = dataclasses.replace(TINY, max_life_tokens=5)
"""Rules with more lives, so that random games last longer."""
LENIENT_3P = dataclasses.replace(LENIENT, num_players=3)


def shared_data(name: str) -> Path:
    """Path of a file of recorded games; skips the test if it is missing."""
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"recorded games are missing: {path}")
    return path


def random_games(rules: Rules, num_games: int, seed: int = 0) -> Games:
    """Random legal games; every second one stops after 9 moves, unfinished."""
    rng = np.random.default_rng(seed)
    tables, moves = [], []
    for game in range(num_games):
        table, played = PythonGame(rules, rng.permutation(full_deck(rules))), []
        while not table.over and (game % 2 == 0 or len(played) < 9):
            legal = [
                action
                for action in range(rules.num_actions)
                if table.illegal_reason(action) is None
            ]
            played.append(int(rng.choice(legal)))
            table.apply(played[-1])
        tables.append(table)
        moves.append(np.array(played, np.int32))
    return as_games(rules, tables, moves, first_id=100)


def as_games(
    rules: Rules, tables: list[PythonGame], moves: list[np.ndarray], first_id: int = 0
) -> Games:
    """Games played on `tables`, with ids from `first_id`."""
    return Games(
        rules=rules,
        decks=np.array([table.deck for table in tables], np.uint8),
        actions=pad_moves(rules, moves),
        num_actions=np.array([len(played) for played in moves], np.int32),
        scores=np.array([table.score for table in tables], np.int32),
        game_ids=np.arange(first_id, first_id + len(tables), dtype=np.int32),
        unfinished=np.array([not table.over for table in tables]),
    )


def teacher_games(rules: Rules, num_games: int, seed: int = 0, newest: bool = False) -> Games:
    """Two-player games of a simple, clonable teacher on random decks.

    The teacher plays the first card that the last hint touched, otherwise hints a playable card,
    otherwise discards its oldest (or `newest`) card.
    """
    rng = np.random.default_rng(seed)
    tables, moves = [], []
    for _ in range(num_games):
        table, played, hinted = PythonGame(rules, rng.permutation(full_deck(rules))), [], []
        while not table.over:
            action, hinted = teacher_action(table, hinted, newest)
            played.append(action)
            table.apply(action)
        tables.append(table)
        moves.append(np.array(played, np.int32))
    return as_games(rules, tables, moves)


def teacher_action(
    table: PythonGame, hinted: list[int], newest: bool = False
) -> tuple[int, list[int]]:
    """The teacher's move after a hint on slots `hinted`, and the slots that its move touches."""
    rules = table.rules
    if hinted:
        return encode_action(rules, Move("play", slot=hinted[0])), []
    other = [divmod(table.deck[order], rules.num_ranks) for order in table.hands[1 - table.player]]
    playable = [slot for slot, (color, rank) in enumerate(other) if table.fireworks[color] == rank]
    must_tell = table.info_tokens == rules.max_info_tokens
    if table.info_tokens > 0 and (playable or must_tell):
        move = Move("rank", offset=1, value=other[playable[0] if playable else 0][1])
        return encode_action(rules, move), table.touched(move)
    slot = len(table.hands[table.player]) - 1 if newest else 0
    return encode_action(rules, Move("discard", slot=slot)), []


def deck_of(cards: str) -> list[int]:
    """Card ids of a standard deck that begins with these cards (`R1 B2`), the rest in order."""
    top = ["RYGWB".index(card[0]) * 5 + int(card[1]) - 1 for card in cards.split()]
    rest = collections.Counter(full_deck(Rules())) - collections.Counter(top)
    return top + sorted(rest.elements())


def one_game(deck: list[int], actions: list[int]) -> Games:
    """A two-player game that stops after these actions."""
    table = PythonGame(Rules(), deck)
    for action in actions:
        table.apply(action)
    return as_games(Rules(), [table], [np.array(actions, np.int32)])


def eight_turns() -> Games:
    """Seat 0 hints 1s, seat 1 plays R1; seat 0 hints red, seat 1 plays R2; seat 0 discards; seat 1
    hints blue, seat 0 discards its oldest card, a blue one; seat 1 hints 2s."""
    deck = deck_of("B2 B3 G4 W4 Y3 R1 R2 Y1 G3 W2 W3 G2 B4 Y2 R3 G1")
    return one_game(deck, [15, 5, 10, 5, 0, 14, 0, 16])


def red_alone(lose: bool = False) -> tuple[PythonGame, list[int]]:
    """A two-player game and its moves: red is complete and all other 1s are discarded, so that no
    card is playable. With `lose`, players then misplay their first card."""
    ones = [f"{color}1" for color in "YGWB" for _ in range(3)]
    table = PythonGame(Rules(), deck_of(" ".join(["R1 R2 R3 R4 R5", *ones])))
    moves: list[int] = []
    while not table.over:
        hand = list(enumerate(table.hands[table.player]))
        reds = [slot for slot, order in hand if order < 5]
        lost = [slot for slot, order in hand if 5 <= order < 17]
        wishes = [5 + slot for slot in reds] + lost + [*range(10, 20), 0]
        wishes = [5] if lose and not table.can_score() else wishes
        moves.append(next(move for move in wishes if table.illegal_reason(move) is None))
        table.apply(moves[-1])
    return table, moves
