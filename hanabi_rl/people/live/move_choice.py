"""What becomes of an agent's answer: the move, its delay, and what is noted on cards."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.people.live.observed_game import ObservedGame
from hanabi_rl.people.serve.partner_protocol import PartnerAction

MIN_NOTE_PROB = 0.05
"""Plays and discards at least so likely are noted on the card."""
CLOCK_DIVISOR = 20
"""A delay takes no more than this part of the time that is left."""


def best(answer: PartnerAction, refused: Collection[int]) -> int | None:
    """The agent's move, or the likeliest that the server did not refuse; None: it did all."""
    if answer.action not in refused:
        return answer.action
    for action in np.argsort(-answer.probabilities, kind="stable"):
        if answer.probabilities[action] > 0 and int(action) not in refused:
            return int(action)
    return None


def move_delay_s(usual: float, options: Mapping[str, Any], clock_s: float | None) -> float:
    """Seconds before a move at a table of these options; `clock_s` is what our clock shows."""
    if options.get("speedrun"):
        return 0.0
    if options.get("timed") and clock_s is not None:
        return max(0.0, min(usual, clock_s / CLOCK_DIVISOR))
    return usual


def clock_s(times: Any, seat: int, previous: float | None) -> float | None:
    """What our clock shows by the `times` (ms, by seat) of a message; None for what is none, and
    `previous` where the message has none of ours."""
    if not isinstance(times, list) or not 0 <= seat < len(times):
        return previous
    return times[seat] / 1000 if isinstance(times[seat], int | float) else None


def notes(observed: ObservedGame, answer: PartnerAction) -> list[dict[str, Any]]:
    """What the agent weighs, card by card of its own: `order` and `note` of each."""
    texts_by_slot: dict[int, list[str]] = {}
    for action, prob in enumerate(answer.probabilities):
        move = decode_action(observed.rules, action)
        if prob >= MIN_NOTE_PROB and move.slot >= 0:
            texts_by_slot.setdefault(move.slot, []).append(f"{move.kind} {prob:.0%}")
    orders = observed.own_orders()
    return [
        {"order": orders[slot], "note": f"turn {observed.turn + 1}: {', '.join(texts)}"}
        for slot, texts in texts_by_slot.items()
    ]
