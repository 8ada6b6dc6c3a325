"""The move that is sent for an agent's response, its delay, and its notes."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.people.live.observed_game import ObservedGame
from hanabi_rl.people.serve.partner_protocol import PartnerAction

MIN_NOTE_PROB = 0.05
"""Minimum probability of a play or discard that is noted on its card."""
CLOCK_DIVISOR = 20
"""A delay takes at most 1 / `CLOCK_DIVISOR` of the remaining time."""


def best_allowed(response: PartnerAction, refused: Collection[int]) -> int | None:
    """The agent's move, or the most probable one not refused by the server; None: all refused."""
    if response.action not in refused:
        return response.action
    for action in np.argsort(-response.probabilities, kind="stable"):
        if response.probabilities[action] > 0 and int(action) not in refused:
            return int(action)
    return None


def move_delay_s(usual: float, options: Mapping[str, Any], clock_s: float | None) -> float:
    """Seconds before a move; `clock_s`: remaining time of the bot, if known."""
    if options.get("speedrun"):
        return 0.0
    if options.get("timed") and clock_s is not None:
        return max(0.0, min(usual, clock_s / CLOCK_DIVISOR))
    return usual


def clock_s(times: Any, seat: int, previous: float | None) -> float | None:
    """Remaining seconds of the bot from the `times` (ms, by seat) of a message: `previous` if the
    message has no entry for it, None if the entry is not a number."""
    if not isinstance(times, list) or not 0 <= seat < len(times):
        return previous
    return times[seat] / 1000 if isinstance(times[seat], int | float) else None


def notes(observed: ObservedGame, response: PartnerAction) -> list[dict[str, Any]]:
    """Notes with the probabilities of plays and discards: `order` and `note` per own card."""
    texts_by_slot: dict[int, list[str]] = {}
    for action, prob in enumerate(response.probabilities):
        move = decode_action(observed.rules, action)
        if prob >= MIN_NOTE_PROB and move.slot >= 0:
            texts_by_slot.setdefault(move.slot, []).append(f"{move.kind} {prob:.0%}")
    orders = observed.own_orders()
    return [
        {"order": orders[slot], "note": f"turn {observed.turn + 1}: {', '.join(texts)}"}
        for slot, texts in texts_by_slot.items()
    ]
