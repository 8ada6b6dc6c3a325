"""Positions and whole games as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.python_game import (
    COLORS,
    PLAYER_NAMES,
    Knowledge,
    PythonGame,
    card_name,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.words import count


@dataclasses.dataclass(frozen=True)
class _View:
    """One position as a spectator sees it."""

    rules: Rules
    hands: list[list[tuple[int, Knowledge]]]  # card id and its owner's knowledge, oldest first
    fireworks: list[int]
    discards: list[int]  # card ids
    info_tokens: int
    life_tokens: int
    deck_left: int
    turn: int
    player: int


def render_state(rules: Rules, state: State, game: int = 0) -> str:
    """Format one position of a batch of states: tokens, fireworks, discards, hands and hints."""
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[game], state)
    full = _bits(int(one.fireworks))
    discards = sorted(card for plane in one.discards for card in _bits(int(plane)))
    hands = [
        [
            (_bits(int(card))[0], _knowledge(rules, int(known), int(hints)))
            for card, known, hints in zip(*rows, strict=True)
            if card
        ]
        for rows in zip(one.hands, one.knowledge, one.hints, strict=True)
    ]
    view = _View(
        rules=rules,
        hands=hands,
        fireworks=[
            sum(card // rules.num_ranks == color for card in full)
            for color in range(rules.num_colors)
        ],
        discards=discards,
        info_tokens=int(one.info_tokens),
        life_tokens=int(one.life_tokens),
        deck_left=int(one.deck_left),
        turn=int(one.turn),
        player=int(one.player),
    )
    return "\n".join(_lines(view))


def render_game(
    rules: Rules,
    deck: Sequence[int] | np.ndarray,
    actions: Sequence[int] | np.ndarray,
    turn: int | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Format a game turn by turn, or only its `turn` (from 1, as in a replay link), with `notes` on
    moves.

    Raises ValueError for an illegal move or a missing turn.
    """
    table = PythonGame(rules, deck)
    moves = [int(action) for action in actions]
    moves = moves[: moves.index(rules.noop)] if rules.noop in moves else moves
    if turn is not None and not 1 <= turn <= len(moves):
        raise ValueError(f"expected a turn in 1..{len(moves)}, got {turn}")
    blocks = []
    for number, action in enumerate(moves, start=1):
        if turn in (None, number):
            said = f"  {table.describe(action)}" + (f" ({notes[number - 1]})" if notes else "")
            blocks.append("\n".join([*_lines(_table_view(table)), said]))
        table.apply(action)
    if turn is None:
        ending = ", unfinished" if not table.over and table.can_score() else ""
        lives = f"{table.life_tokens} of {count(rules.max_life_tokens, 'life', 'lives')} left"
        blocks.append(
            f"End: score {table.score} of {rules.max_score} after {count(len(moves), 'move')}, "
            f"{lives}{ending}"
        )
    return "\n\n".join(blocks)


def _table_view(table: PythonGame) -> _View:
    return _View(
        rules=table.rules,
        hands=[
            [(table.deck[order], table.knowledge[order]) for order in hand] for hand in table.hands
        ],
        fireworks=table.fireworks,
        discards=sorted(table.deck[order] for order in table.discards),
        info_tokens=table.info_tokens,
        life_tokens=table.life_tokens,
        deck_left=table.rules.deck_size - table.drawn,
        turn=table.turn,
        player=table.player,
    )


def _lines(view: _View) -> Iterator[str]:
    rules = view.rules
    yield (
        f"Turn {view.turn + 1}, {PLAYER_NAMES[view.player]} to move. Score {sum(view.fireworks)}, "
        f"hints {view.info_tokens}/{rules.max_info_tokens}, lives "
        f"{view.life_tokens}/{rules.max_life_tokens}, "
        f"deck {view.deck_left}"
    )
    yield "  Fireworks  " + " ".join(
        f"{COLORS[color]}{height}" for color, height in enumerate(view.fireworks)
    )
    yield "  Discards   " + (" ".join(card_name(rules, card) for card in view.discards) or "none")
    for seat, hand in enumerate(view.hands):
        told = [_told(rules, known) for _, known in hand]
        widths = [max(len(cell), 2) for cell in told]
        mark = ">" if seat == view.player else " "
        cards = [
            card_name(rules, card).ljust(width)
            for (card, _), width in zip(hand, widths, strict=True)
        ]
        yield f"{mark} {PLAYER_NAMES[seat]:<8}   " + "  ".join(cards).rstrip()
        yield (
            " " * 13
            + "  ".join(
                cell.ljust(width) for cell, width in zip(told, widths, strict=True)
            ).rstrip()
        )


def _told(rules: Rules, known: Knowledge) -> str:
    """Hints on a card: `R?` hinted red, `?3` hinted 3, `??!RY1` known not to be red, yellow or a
    1."""
    color = "?" if known.hinted_color is None else COLORS[known.hinted_color]
    rank = "?" if known.hinted_rank is None else str(known.hinted_rank + 1)
    excluded = ""
    if known.hinted_color is None:
        excluded += "".join(COLORS[c] for c in range(rules.num_colors) if c not in known.colors)
    if known.hinted_rank is None:
        excluded += "".join(str(r + 1) for r in range(rules.num_ranks) if r not in known.ranks)
    return color + rank + (f"!{excluded}" if excluded else "")


def _knowledge(rules: Rules, possible: int, hints: int) -> Knowledge:
    cards = _bits(possible)
    told = _bits(hints)
    return Knowledge(
        colors={card // rules.num_ranks for card in cards},
        ranks={card % rules.num_ranks for card in cards},
        hinted_color=next((bit for bit in told if bit < rules.num_colors), None),
        hinted_rank=next((bit - rules.num_colors for bit in told if bit >= rules.num_colors), None),
    )


def _bits(word: int) -> list[int]:
    return [bit for bit in range(word.bit_length()) if word >> bit & 1]
