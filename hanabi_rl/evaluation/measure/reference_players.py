"""Reference players of the unit tests, in plain Python on a `PythonGame`.

Both play certain cards, save critical cards, hint playable cards and discard useless ones. They
infer the partners' style from past moves: `memoryless_reference` from the last move, which every
observation contains, `memory_reference` from the whole game. They prove that the tests can be
passed, and which of them need memory; their scores are low.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure import scripted_players
from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame


class PartnerStyle(NamedTuple):
    """Style of the partners, inferred from their moves."""

    newest_first: bool = False
    """True if they discard their newest unhinted card, otherwise their oldest."""
    points_at_playable: bool = True
    """False after a hint to the current player that touched only unplayable cards."""
    plays: bool | None = None
    """True if they played the last hinted card, False if they discarded it; None: neither. Without
    memory of hints, any card counts as hinted."""


def memoryless_reference(table: PythonGame, rng: np.random.Generator) -> int:
    """Reference player that reads only the last move."""
    del rng
    return _choose_action(table, infer_partner_style(table, table.turn - 1))


def memory_reference(table: PythonGame, rng: np.random.Generator) -> int:
    """Reference player that reads every move."""
    del rng
    return _choose_action(table, infer_partner_style(table, 0))


def infer_partner_style(table: PythonGame, since: int) -> PartnerStyle:
    """Infer the partners' style from their moves since turn `since`."""
    style, past = PartnerStyle(), PythonGame(table.rules, table.deck)
    for action in table.actions:
        if past.turn >= since and past.player != table.player:
            style = _update_style(style, table, past, decode_action(table.rules, action), since)
        past.apply(action)
    return style


def _update_style(
    style: PartnerStyle, now: PythonGame, past: PythonGame, move: Move, since: int
) -> PartnerStyle:
    if move.kind in ("play", "discard"):
        if since > 0 or scripted_players.is_hinted(past, past.player, move.slot):
            style = style._replace(plays=move.kind == "play")
        newest = move.slot == len(past.hands[past.player]) - 1
        return style._replace(newest_first=newest) if move.kind == "discard" else style
    if _target(past, move) != now.player:
        return style
    touched = [past.hands[now.player][slot] for slot in past.touched(move)]
    could_be = any(
        scripted_players.is_playable(past, card)
        for order in touched
        for card in _possible_cards(now, order)
    )
    return style._replace(points_at_playable=style.points_at_playable and could_be)


def _possible_cards(now: PythonGame, order: int) -> set[int]:
    hand = now.hands[now.player]
    if order in hand:
        return scripted_players.possible_cards(now, now.player, hand.index(order))
    return {now.deck[order]}


def _choose_action(table: PythonGame, style: PartnerStyle) -> int:
    certain = scripted_players.certain_slots(table, table.player)
    slot = certain[0] if certain else _hinted_slot(table) if style.points_at_playable else None
    if slot is not None:
        return encode_action(table.rules, Move("play", slot=slot))
    hint = _save_hint(table, style)
    hint = _play_hint(table, style) if hint is None else hint
    if hint is not None:
        return hint
    if table.info_tokens < table.rules.max_info_tokens:
        return encode_action(table.rules, Move("discard", slot=_discard(table)))
    harmless = [hint for hint in scripted_players.legal_hints(table) if not _playable(table, hint)]
    new = [hint for hint in harmless if _touches_new_card(table, hint)]
    return (new or harmless or scripted_players.legal_actions(table))[0]


def _hinted_slot(table: PythonGame) -> int | None:
    """Slot touched alone by the last move, a hint, if possibly playable and with lives to spare."""
    before, me = PythonGame(table.rules, table.deck), table.player
    for action in table.actions[:-1]:
        before.apply(action)
    move = decode_action(table.rules, table.actions[-1]) if table.actions else Move("noop")
    if move.kind not in ("color", "rank") or _target(before, move) != me or table.life_tokens == 1:
        return None
    touched = before.touched(move)
    if len(touched) > 1 or touched[0] in scripted_players.impossible_slots(table, me):
        return None
    return touched[0]


def _save_hint(table: PythonGame, style: PartnerStyle) -> int | None:
    """Hint that touches the critical card which the next player would discard; none if the hint
    would make it discard the card."""
    seat = (table.player + 1) % table.rules.num_players
    free = [
        s for s in range(len(table.hands[seat])) if not scripted_players.is_hinted(table, seat, s)
    ]
    place = free[-1] if free and style.newest_first else scripted_players.chop(table, seat)
    card = table.deck[table.hands[seat][place]]
    if scripted_players.certain_slots(table, seat) or not scripted_players.is_critical(table, card):
        return None
    if style.plays is False and scripted_players.is_playable(table, card):
        return None
    hints = [
        hint for hint in scripted_players.legal_hints(table) if place in _touched(table, hint, seat)
    ]
    return hints[0] if hints else None


def _play_hint(table: PythonGame, style: PartnerStyle) -> int | None:
    """The hint that makes the most playable cards certain. None for partners that discard hinted
    cards; for partners that play them, also a hint that touches only playable cards."""
    hints = scripted_players.legal_hints(table)
    if style.plays is False or not hints:
        return None
    worth = [len(_newly_certain(table, hint)) for hint in hints]
    if max(worth) > 0:
        return hints[int(np.argmax(worth))]
    seat = (table.player + 1) % table.rules.num_players
    plain = [
        hint
        for hint in hints
        if set(_touched(table, hint, seat)) == set(_playable(table, hint)) != set()
    ]
    return plain[0] if plain and style.plays else None


def _newly_certain(table: PythonGame, hint: int) -> set[int]:
    """Slots of the target that the hint makes certain to be playable."""
    seat = _target(table, decode_action(table.rules, hint))
    after = copy.deepcopy(table)
    after.apply(hint)
    return set(scripted_players.certain_slots(after, seat)) - set(
        scripted_players.certain_slots(table, seat)
    )


def _playable(table: PythonGame, hint: int) -> list[int]:
    move = decode_action(table.rules, hint)
    hand = table.hands[_target(table, move)]
    return [
        slot
        for slot in table.touched(move)
        if scripted_players.is_playable(table, table.deck[hand[slot]])
    ]


def _discard(table: PythonGame) -> int:
    me = table.player
    useless, critical = (
        scripted_players.useless_slots(table, me),
        scripted_players.critical_slots(table, me),
    )
    if useless:
        return useless[0]
    order = [scripted_players.chop(table, me), *range(len(table.hands[me]))]
    return next((slot for slot in order if slot not in critical), order[0])


def _touches_new_card(table: PythonGame, hint: int) -> bool:
    move = decode_action(table.rules, hint)
    seat = _target(table, move)
    return any(not scripted_players.is_hinted(table, seat, slot) for slot in table.touched(move))


def _touched(table: PythonGame, hint: int, seat: int) -> list[int]:
    move = decode_action(table.rules, hint)
    return table.touched(move) if _target(table, move) == seat else []


def _target(table: PythonGame, move: Move) -> int:
    return (table.player + move.offset) % table.rules.num_players
