"""Annotation of each move by the conventions of hanab.live's H-Group, in plain Python.

After AH2AC2, appendix A.5, which annotates one game by hand. Covers the first levels: chop, focus
(for several 1s of the starting hand: the oldest), play and save hints, good touch, fix and stall
hints, prompts, finesses and bluffs of one card. Prompts, finesses and bluffs count only if certain:
the missing card (for a bluff, another playable card) is where the convention expects it. The
promise of a hint (the possible cards of its focus) is computed from the receiver's view, which
includes the giver's hand; its truth from the giver's view.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from hanabi_rl.evaluation.measure.convention_state import ConventionState, HintMemory
from hanabi_rl.games.hanabi.actions import Move, decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame

if TYPE_CHECKING:
    from hanabi_rl.games.hanabi.rules import Rules

AnnotationKind = Literal[
    "play hint",
    "save hint",
    "fix hint",
    "prompt",
    "finesse",
    "bluff",
    "stall hint",
    "other hint",
    "known play",
    "hinted play",
    "finesse play",
    "other play",
    "known useless",
    "chop",
    "other discard",
]
"""Type of a move: hint, play (`hinted play`: promised by a hint or a prompt) or discard."""
ANNOTATION_KINDS: tuple[AnnotationKind, ...] = get_args(AnnotationKind)

Violation = Literal[
    "focus",
    "good touch",
    "misleads",
    "unsupported play",
    "blind play",
    "discards hinted card",
    "not from chop",
    "missed play",
    "missed save",
]
"""Violations of the conventions:

- `focus`: a hint of no convention above (`other hint`);
- `good touch`: a hint touches a useless card, or a second copy, and its owner cannot tell;
- `misleads`: a hint's receiver mistakes the focus for another card, or will misplay a card;
- `unsupported play`: play of a hinted card that may be unplayable; `blind play`: of an unhinted
  card;
- `discards hinted card`: discard of a hinted card not known to be useless; `not from chop`: of an
  unhinted card that is not the oldest;
- `missed play`: a discard or a stall hint although a card is known or promised playable;
- `missed save`: the next player discards from its chop a card that a hint would have saved.
"""
VIOLATIONS: tuple[Violation, ...] = get_args(Violation)


class MoveAnnotation(NamedTuple):
    """Annotation of one move."""

    kind: AnnotationKind
    violations: tuple[Violation, ...] = ()
    focus: int | None = None
    """Order (index in the deck) of the focus of a hint."""

    def __str__(self) -> str:
        return f"{self.kind}, but {', '.join(self.violations)}" if self.violations else self.kind


def annotate(
    rules: Rules, deck: Sequence[int] | np.ndarray, actions: Iterable[int]
) -> list[MoveAnnotation]:
    """Annotate every move of a game, up to a no-op. deck: card ids, top first. Raises ValueError
    for an illegal move, with its turn and reason."""
    now, then, memory = PythonGame(rules, deck), PythonGame(rules, deck), HintMemory()
    notes: list[MoveAnnotation] = []
    unsaved: int | None = None  # card on the next player's chop that a hint would save
    for action in map(int, actions):
        if action == rules.noop:
            break
        then.apply(action)
        move, before = decode_action(rules, action), ConventionState(now, memory)
        if move.kind in ("color", "rank"):
            note, memory = _hint(before, move, then)
        else:
            order = now.hands[now.player][move.slot]
            note = (_play if move.kind == "play" else _discard)(before, order)
            memory = memory.without(order, chop=note.kind == "chop")
            if note.kind == "chop" and order == unsaved:
                notes[-1] = notes[-1]._replace(violations=(*notes[-1].violations, "missed save"))
        unsaved = _unsaved_card(before)
        notes.append(note)
        now.apply(action)
    return notes


def _hint(
    before: ConventionState, move: Move, then: PythonGame
) -> tuple[MoveAnnotation, HintMemory]:
    """Annotate a hint; also return the updated memory. `then`: the game after the hint."""
    rules, giver = before.rules, before.player
    seat = (giver + move.offset) % rules.num_players
    hand, by_rank = before.hands[seat], move.kind == "rank"
    named = (rules.rank_cards if by_rank else rules.color_cards)[move.value]
    touched = [order for order in hand if before.card(order) & named]
    new = [order for order in touched if order not in before.hinted]
    chop = before.chop(seat)
    on_chop = chop in new
    focus = chop if chop is not None and on_chop else _focus_off_chop(rules, move, new, touched)
    memory, indirect = before.memory, _indirect_play(before, seat, focus, touched)
    if new:
        memory = memory.with_promise(
            focus, _promise(ConventionState(then, memory), focus, by_rank, on_chop)
        )
    after = ConventionState(then, memory)

    def is_playable(order: int) -> bool:
        return bool(before.card(order) & before.playable)

    def is_fixed(order: int) -> bool:
        """True if the hint prevents a misplay or reveals a useless card."""
        stopped = before.is_owed(order) and not after.is_owed(order) and not is_playable(order)
        return stopped or (after.is_known_useless(order) and not before.is_known_useless(order))

    newly_due = [order for order in hand if after.is_owed(order) and not before.is_owed(order)]
    violations: list[Violation] = []
    kind: AnnotationKind
    if new and before.card(focus) & ConventionState(then, before.memory).soon_playable(giver):
        kind = "play hint"
    elif on_chop and before.needs_saving(focus, by_rank):
        kind = "save hint"
    elif indirect is not None and new:
        kind = indirect[0]
    elif any(map(is_playable, newly_due)):
        kind = "play hint"
    elif any(is_fixed(order) for order in touched if order not in new):
        kind = "fix hint"
    elif indirect is not None:
        kind = indirect[0]
    elif _is_stall(before, move, bool(new), on_chop):
        kind = "stall hint"
    else:
        kind, violations = "other hint", ["focus"]
    if indirect is not None and kind == indirect[0]:
        memory = memory.with_promise(indirect[1], before.card(indirect[1]))
        promise = _promise(ConventionState(then, memory), focus, by_rank, on_chop)
        memory = memory.with_promise(focus, promise | before.card(focus))  # the receiver waits
        newly_due = [order for order in newly_due if order != focus]
    useful = [order for order in new if not after.is_known_useless(order)]
    if any(_is_bad_touch(before, order, useful) for order in useful):
        violations.append("good touch")
    is_lie = bool(new) and not memory.promised[focus] & before.card(focus)
    if is_lie or not all(is_playable(o) for o in newly_due if o == focus or o not in new):
        violations.append("misleads")
    if kind in ("stall hint", "other hint") and before.has_play(giver):
        violations.append("missed play")
    return MoveAnnotation(kind, tuple(violations), focus), memory


def _focus_off_chop(rules: Rules, move: Move, new: Sequence[int], touched: Sequence[int]) -> int:
    """Focus of a hint that does not touch the chop: the newest new card, or the newest card without
    new ones.

    Of new 1s that were all dealt, it is the oldest: 1s of the starting hand are played from the
    oldest on, after any 1 drawn since.
    """
    ones = move.kind == "rank" and move.value == 0
    if new and ones and max(new) < rules.hand_size * rules.num_players:
        return min(new)
    return max(new or touched)


def _promise(after: ConventionState, focus: int, by_rank: bool, on_chop: bool) -> int:
    """Set of cards that the receiver assumes for the focus: cards playable now or after expected
    plays, and on the chop also cards to save."""
    rules, last = after.rules, after.rules.rank_cards[-1]
    could = after.soon_playable(after.holder[focus], possibly=True)
    if on_chop:
        could |= after.critical & ~last
    if on_chop and by_rank:
        twos = rules.rank_cards[1] if rules.num_ranks > 1 else 0
        could |= (last | twos) & ~after.useless
    return after.known[focus] & could or after.known[focus]


def _indirect_play(
    state: ConventionState, seat: int, focus: int, touched: list[int]
) -> tuple[AnnotationKind, int] | None:
    """Prompt, finesse or bluff that makes the focus playable, with the order of the card to be
    played.

    The focus must be playable after one missing card, which no hint has promised and this hint does
    not touch; the returned card is the one that its holder will play as the missing card. The first
    player after the giver with a candidate plays; the receiver, which does not see its own cards,
    comes last. Candidates are the newest hinted card that can be the missing one (prompt),
    otherwise the newest unhinted card (finesse). If none is the missing card, but the newest card
    of the player after the giver is playable, that card is played instead (bluff).
    """
    rank = state.deck[focus] % state.rules.num_ranks
    needed = state.card(focus) >> 1
    if (
        rank == 0
        or state.card(focus) & state.useless
        or not needed & state.soon_playable(state.player)
    ):
        return None
    players = state.rules.num_players
    after = [(state.player + step) % players for step in range(1, players)]
    bluff: tuple[AnnotationKind, int] | None = None
    for other in sorted(after, key=lambda other: other == seat):
        hand = [order for order in state.hands[other] if order not in touched]
        fitting = [
            order for order in hand if order in state.hinted and state.inferred[order] & needed
        ]
        fresh = [o for o in hand if o not in state.hinted and o not in state.memory.promised]
        expected = (fitting or fresh)[-1:]
        if expected and state.card(expected[0]) == needed:
            return ("prompt" if fitting else "finesse"), expected[0]
        if fitting:
            return None  # the wrong card would be played
        if other == after[0] != seat and expected and state.card(expected[0]) & state.playable:
            bluff = ("bluff", expected[0])
    return bluff


def _is_stall(before: ConventionState, move: Move, new: bool, on_chop: bool) -> bool:
    """True for a hint that is allowed to have no purpose: no discard is possible or safe, the deck
    is empty, or, in the early game, the hint touches nothing new or 5s off the chop."""
    hand, rules = before.hands[before.player], before.rules
    locked = before.chop(before.player) is None and not any(map(before.is_known_useless, hand))
    fives = move.kind == "rank" and move.value == rules.num_ranks - 1 and not on_chop
    return (
        before.tokens == rules.max_info_tokens
        or locked
        or (not before.memory.chop_discarded and (fives or not new))
        or before.drawn == rules.deck_size
    )


def _is_bad_touch(before: ConventionState, order: int, new: list[int]) -> bool:
    """True if the card is useless, or another copy that the giver sees or holds is hinted."""
    card = before.card(order)
    seen = [o for o in {*before.hinted, *new} - {order} if before.holder[o] != before.player]
    own = [o for o in before.hands[before.player] if o in before.hinted]
    return (
        bool(card & before.useless)
        or any(before.card(o) == card for o in seen)
        or any(before.inferred[o] == card for o in own)
    )


def _play(before: ConventionState, order: int) -> MoveAnnotation:
    if before.known[order] & ~before.playable == 0:
        return MoveAnnotation("known play")
    if before.is_owed(order):
        return MoveAnnotation("hinted play" if order in before.hinted else "finesse play")
    if before.drawn == before.rules.deck_size:
        return MoveAnnotation("other play")  # the deck is empty: nothing to lose
    return MoveAnnotation(
        "other play", ("unsupported play" if order in before.hinted else "blind play",)
    )


def _discard(before: ConventionState, order: int) -> MoveAnnotation:
    violations: list[Violation] = []
    kind: AnnotationKind = "other discard"
    if before.is_known_useless(order):
        kind = "known useless"
    elif order == before.chop(before.player):
        kind = "chop"
    else:
        violations.append("discards hinted card" if order in before.hinted else "not from chop")
    if before.has_play(before.player):
        violations.append("missed play")
    return MoveAnnotation(kind, tuple(violations))


def _unsaved_card(state: ConventionState) -> int | None:
    """Next player's chop card that a hint can save; None if that player has a safe move."""
    seat = (state.player + 1) % state.rules.num_players
    chop = state.chop(seat)
    busy = state.has_play(seat) or any(map(state.is_known_useless, state.hands[seat]))
    if chop is None or busy or not state.tokens or not state.needs_saving(chop):
        return None
    return chop
