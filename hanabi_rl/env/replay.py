"""Recorded games played again: legality and scores of many at once (`replay_moves`), one game as
text (`render_game`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.env import rules as core
from hanabi_rl.env.game import Rules
from hanabi_rl.env.rules import State
from hanabi_rl.env.table import COLORS, PLAYER_NAMES, Knowledge, Table, card_name

Array = np.ndarray | jax.Array
SMALL_CHUNK, CHUNK = 64, 1024  # games replayed at once: two compiled shapes serve files of any size


class Outcomes(NamedTuple):
    """What each move of N games did; every field is [N, T] and about the position after the move,
    but for `legal`."""

    legal: Array  # bool: the rules allowed the move (never once the game is over)
    over: Array  # bool: the game is over
    score: Array  # int32: points, or 0 once all lives are lost
    life_tokens: Array  # int32


def replay_moves(rules: Rules, decks: Array, actions: Array, validate: bool = True) -> Outcomes:
    """Play recorded games again: decks [N, deck_size] card ids, actions [N, T] of the mover, no-op
    after a game's end.

    Raises ValueError naming the first game with an illegal move, its turn (counted from 0), the
    move and the reason; `validate=False` turns that off, and so does a trace (`jax.jit`), where the
    fields are JAX arrays.
    """
    if isinstance(decks, jax.core.Tracer) or isinstance(actions, jax.core.Tracer):
        return _play(rules, jnp.asarray(decks), jnp.asarray(actions))
    decks, actions = np.asarray(decks, np.uint8), np.asarray(actions, np.int32)
    chunk = SMALL_CHUNK if len(decks) <= SMALL_CHUNK else CHUNK
    parts = [
        _play_padded(rules, decks[start : start + chunk], actions[start : start + chunk], chunk)
        for start in range(0, max(len(decks), 1), chunk)
    ]
    outcomes = Outcomes(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    if validate:
        turns = np.arange(actions.shape[1])
        length = np.where(actions != rules.noop, turns + 1, 0).max(axis=1, initial=0)
        for game, turn in np.argwhere(~outcomes.legal & (turns < length[:, None]))[:1]:
            raise ValueError(
                f"game {game}, {explain_illegal(rules, decks[game], actions[game], int(turn))}"
            )
    return outcomes


def explain_illegal(
    rules: Rules, deck: Sequence[int] | np.ndarray, actions: Sequence[int] | np.ndarray, turn: int
) -> str:
    """`turn 7: illegal move 3 (Alice discards slot 4 (R1)): a discard while all 8 information
    tokens are there`."""
    table = Table(rules, deck)
    for action in actions[:turn]:
        table.apply(action)
    reason = table.illegal_reason(actions[turn])
    return (
        f"turn {turn}: illegal move {int(actions[turn])} ({table.describe(actions[turn])}): "
        f"{reason}"
    )


def _play_padded(rules: Rules, decks: np.ndarray, actions: np.ndarray, chunk: int) -> Outcomes:
    missing = chunk - len(decks)
    decks = np.pad(decks, ((0, missing), (0, 0)))
    actions = np.pad(actions, ((0, missing), (0, 0)), constant_values=rules.noop)
    return Outcomes(
        *(np.asarray(field)[: chunk - missing] for field in _play(rules, decks, actions))
    )


@partial(jax.jit, static_argnums=0)
def _play(rules: Rules, decks: jax.Array, actions: jax.Array) -> Outcomes:
    def turn(state: State, action: jax.Array) -> tuple[State, Outcomes]:
        legal = core.is_legal(rules, state, action) & ~core.finished(rules, state)
        after, _, over = core.step(rules, state, action)
        lives = after.life_tokens.astype(jnp.int32)
        return after, Outcomes(
            legal=legal, over=over, score=core.score(rules, after), life_tokens=lives
        )

    _, outcomes = jax.lax.scan(turn, core.deal(rules, decks), jnp.moveaxis(actions, 1, 0))
    return jax.tree.map(lambda field: jnp.moveaxis(field, 0, 1), outcomes)


@dataclasses.dataclass(frozen=True)
class _View:
    """What a spectator sees of one position."""

    rules: Rules
    hands: list[list[tuple[int, Knowledge]]]  # card id and what its owner was told, oldest first
    fireworks: list[int]
    discards: list[int]  # card ids
    info_tokens: int
    life_tokens: int
    deck_left: int
    turn: int
    player: int


def render_state(rules: Rules, state: State, game: int = 0) -> str:
    """One position of a batch of states as text: tokens, fireworks, discards, hands and what their
    owners were told."""
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
) -> str:
    """A game as text, turn by turn, or only its `turn` (counted from 1, as in a replay link).

    Raises ValueError where a move is illegal or there is no such turn.
    """
    table = Table(rules, deck)
    moves = [int(action) for action in actions]
    moves = moves[: moves.index(rules.noop)] if rules.noop in moves else moves
    if turn is not None and not 1 <= turn <= len(moves):
        raise ValueError(f"expected a turn in 1..{len(moves)}, got {turn}")
    blocks = []
    for number, action in enumerate(moves, start=1):
        if turn in (None, number):
            blocks.append("\n".join([*_lines(_table_view(table)), f"  {table.describe(action)}"]))
        table.apply(action)
    if turn is None:
        ending = "" if table.over else ", unfinished"
        lives = f"{table.life_tokens} of {rules.max_life_tokens} lives left"
        blocks.append(
            f"End: score {table.score} of {rules.max_score} after {len(moves)} moves, "
            f"{lives}{ending}"
        )
    return "\n\n".join(blocks)


def _table_view(table: Table) -> _View:
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
        f"clues {view.info_tokens}/{rules.max_info_tokens}, lives "
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
    """`R?` told red, `?3` told 3, `??!RY1` not told anything but that it is not red, not yellow and
    not a 1."""
    color = "?" if known.clued_color is None else COLORS[known.clued_color]
    rank = "?" if known.clued_rank is None else str(known.clued_rank + 1)
    excluded = ""
    if known.clued_color is None:
        excluded += "".join(COLORS[c] for c in range(rules.num_colors) if c not in known.colors)
    if known.clued_rank is None:
        excluded += "".join(str(r + 1) for r in range(rules.num_ranks) if r not in known.ranks)
    return color + rank + (f"!{excluded}" if excluded else "")


def _knowledge(rules: Rules, possible: int, hints: int) -> Knowledge:
    cards = _bits(possible)
    told = _bits(hints)
    return Knowledge(
        colors={card // rules.num_ranks for card in cards},
        ranks={card % rules.num_ranks for card in cards},
        clued_color=next((bit for bit in told if bit < rules.num_colors), None),
        clued_rank=next((bit - rules.num_colors for bit in told if bit >= rules.num_colors), None),
    )


def _bits(word: int) -> list[int]:
    return [bit for bit in range(word.bit_length()) if word >> bit & 1]
