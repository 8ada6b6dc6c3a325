"""JSON-ready form of a `PlayerView` for pages and terminals: `table_frame`.

It never receives a game or a deck, so it cannot reveal hidden cards. Colours are numbers from 0,
ranks from 1, slots from 1 with 1 the oldest card, seats from 0; a card is `[colour, rank]`.
"""

from __future__ import annotations

from typing import Any

from hanabi_rl.games.hanabi.actions import Move, decode_action
from hanabi_rl.games.hanabi.python_game import COLOR_NAMES, COLORS, PLAYER_NAMES
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_view import PlayerView, SeenCard, SeenMove

FRAME_VERSION = 1

Frame = dict[str, Any]


def table_frame(view: PlayerView, agents: dict[int, str]) -> Frame:
    """Frame of a position. agents: names at the partners' seats."""
    rules, you = view.rules, view.seat
    names = seat_names(rules, you)
    return {
        "version": FRAME_VERSION,
        "turn": view.turn,
        "you": you,
        "to_move": view.current_player,
        "over": view.over,
        "left": view.left,
        "names": names,
        "agents": [agents.get(seat, "") for seat in range(rules.num_players)],
        "colors": list(COLOR_NAMES[: rules.num_colors]),
        "letters": list(COLORS[: rules.num_colors]),
        "ranks": rules.num_ranks,
        "hand_size": rules.hand_size,
        "hands": [[_card(rules, card) for card in hand] for hand in view.hands],
        "fireworks": list(view.fireworks),
        "discards": [_face(rules, card) for card in view.discards],
        "hints": view.hints,
        "max_hints": rules.max_info_tokens,
        "lives": view.lives,
        "max_lives": rules.max_life_tokens,
        "deck": view.deck_left,
        "turns_left": view.turns_left,
        "score": view.score,
        "points": view.points,
        "max_score": rules.max_score,
        "last": _last(rules, view.moves[-1]) if view.moves else None,
        "log": [move_text(rules, move, names) for move in view.moves],
        "actions": actions_of(view, names),
    }


def seat_names(rules: Rules, you: int | None) -> list[str]:
    """`You` at the viewer's seat, first names at the others."""
    return ["You" if seat == you else PLAYER_NAMES[seat] for seat in range(rules.num_players)]


def move_text(rules: Rules, move: SeenMove, names: list[str]) -> str:
    """Text of a past move: `Bob hints you red: slots 2, 4`."""
    own = names[move.seat] == "You"
    what = decode_action(rules, move.action)
    if what.kind in ("play", "discard"):
        verb = what.kind if own else f"{what.kind}s"
        failed = "" if move.success else ", not playable: a life is lost"
        return f"{names[move.seat]} {verb} slot {what.slot + 1}: {card_text(rules, move.card)}" + (
            failed
        )
    target = names[move.target or 0]
    slots = ", ".join(str(slot + 1) for slot in move.touched)
    return (
        f"{names[move.seat]} {'hint' if own else 'hints'} {'you' if target == 'You' else target} "
        f"{_value(what)}: slot{'s' if len(move.touched) > 1 else ''} {slots}"
    )


def action_text(rules: Rules, action: int, seat: int, names: list[str]) -> str:
    """Text of an action of `seat`, without the card's identity: `Hint Bob red`."""
    what = decode_action(rules, action)
    if what.kind in ("play", "discard"):
        return f"{what.kind.capitalize()} slot {what.slot + 1}"
    target = names[(seat + what.offset) % rules.num_players]
    return f"Hint {'you' if target == 'You' else target} {_value(what)}"


def card_text(rules: Rules, card: int | None) -> str:
    """`R1`, or `?` for a hidden card."""
    if card is None:
        return "?"
    color, rank = divmod(card, rules.num_ranks)
    return f"{COLORS[color]}{rank + 1}"


def _value(what: Move) -> str:
    return COLOR_NAMES[what.value] if what.kind == "color" else str(what.value + 1)


def _face(rules: Rules, card: int) -> list[int]:
    color, rank = divmod(card, rules.num_ranks)
    return [color, rank + 1]


def _card(rules: Rules, card: SeenCard) -> Frame:
    knowledge = card.knowledge
    return {
        "order": card.order,
        "card": None if card.card is None else _face(rules, card.card),
        "color": knowledge.hinted_color,
        "rank": None if knowledge.hinted_rank is None else knowledge.hinted_rank + 1,
        "colors": sorted(knowledge.colors),
        "ranks": [rank + 1 for rank in sorted(knowledge.ranks)],
    }


def _last(rules: Rules, move: SeenMove) -> Frame:
    """Last move with the deck positions of its cards, for highlighting."""
    what = decode_action(rules, move.action)
    return {
        "seat": move.seat,
        "target": move.target,
        "orders": list(move.orders),
        "kind": what.kind,
        "value": what.value + (what.kind == "rank") if move.target is not None else None,
        "card": None if move.card is None else _face(rules, move.card),
        "success": move.success,
    }


def actions_of(view: PlayerView, names: list[str]) -> list[Frame]:
    """Moves of the viewer on its turn, each with the reason if it is not allowed."""
    if view.over or view.seat is None or view.current_player != view.seat:
        return []
    result = []
    for action in range(view.rules.noop):
        what = decode_action(view.rules, action)
        target = None if what.offset < 0 else (view.seat + what.offset) % view.rules.num_players
        result.append(
            {
                "id": action,
                "kind": what.kind,
                "slot": None if what.slot < 0 else what.slot + 1,
                "target": target,
                "value": what.value + (what.kind == "rank") if target is not None else None,
                "text": action_text(view.rules, action, view.seat, names),
                "why_not": _why_not(view, what, target),
            }
        )
    return result


def _why_not(view: PlayerView, what: Move, target: int | None) -> str | None:
    if target is None:
        hand_size = len(view.hands[view.seat or 0])
        if what.slot >= hand_size:
            return f"you hold only {hand_size} cards"
        if what.kind == "discard" and view.hints == view.rules.max_info_tokens:
            return "all hints are available: a discard would gain none"
        return None
    if view.hints == 0:
        return "no hint is left: a discard gains one"
    faces = [
        divmod(card.card, view.rules.num_ranks)
        for card in view.hands[target]
        if card.card is not None
    ]
    if all(face[0 if what.kind == "color" else 1] != what.value for face in faces):
        return "a hint must touch at least one card"
    return None
