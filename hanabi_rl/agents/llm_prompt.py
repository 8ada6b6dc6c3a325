"""Prompts for a language model at a seat, from a program's question, and its answers. No JAX.

A prompt states the rules, the position and all moves so far, so that each move takes one request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from hanabi_rl.data.formats.openspiel import move_text, observation_text
from hanabi_rl.games.hanabi.actions import Move
from hanabi_rl.games.hanabi.view_json import Frame

Notation = Literal["words", "openspiel"]

_RULES = """\
You play Hanabi, a cooperative card game, with {players} players. All win or lose together.
Each card has one of {colors} colours ({letters}) and a rank from 1 to {ranks}. Each colour has \
three copies of rank 1, one of rank {ranks} and two of the others. You see the other players' \
cards, never your own. The team builds one firework per colour by playing its cards in ascending \
order, starting with 1. The score is the number of cards on the fireworks, at most {best}, but 0 \
once all {lives} lives are lost.
On its turn a player does one of these:
- Play a card of its own hand. The next card of a firework is added to it. Any other card is \
discarded and a life is lost. Completing a firework returns a hint token.
- Discard a card of its own hand, which returns a hint token; not allowed with all {hints} tokens.
- Give a hint, which takes a hint token: name a colour or a rank to one other player. All cards \
of that colour or rank in that hand are pointed out, at least one.
After a play or a discard the player draws a card, its newest. Once the deck is empty, every \
player has one more turn.
"""
_CARD_NUMBERS = {
    "words": "Slots of a hand count from 1, the oldest card.\n",
    "openspiel": """\
Cards of a hand count from 0, the oldest, but from 1 in the list of moves so far. The hands begin \
with yours and go around the table. `R1 || X1|RG1` is a red 1 of which its owner knows by hints \
that its rank is 1 (a colour hint would replace the X) and that it is red or green. XX is a card \
that you do not see.
""",
}
_ANSWER = """\
Think briefly. End your answer with one line that repeats one of the legal moves, for example:
MOVE: {example}"""
H_GROUP = """\
The players follow the H-Group conventions for beginners:
- The chop is a player's oldest card without a hint. It is discarded first.
- Every hint has a focus: the chop if the hint points it out, otherwise the newest of the cards \
that had no hint before, otherwise the newest card pointed out.
- A hint without the chop is a play clue: its focus can be played now, or after cards that other \
players already know. A hint with the chop is a play clue or a save clue.
- A save clue keeps its focus from being discarded: the last copy of a useful card (by colour or \
rank), a 5 (by rank only), or a 2 of which no other copy is in sight (by rank only).
- Do not hint cards that are already played or already hinted in another hand. So every hinted \
card will be playable at some time.
- Play the focus of a play clue at once. Of several 1s play the oldest first.
- A play clue to another player can skip a card. If you have a hinted card that can be the skipped \
card, play it (prompt). Otherwise play your newest card without a hint (finesse).
- In order of urgency: save what the next player would lose by discarding; play; give a play clue; \
discard the chop.
"""


def make_messages(
    question: Mapping[str, Any], notation: Notation = "words", conventions: str = ""
) -> list[dict[str, str]]:
    """Chat messages for a question of `agents/process.py`: rules with `conventions`, then the
    position with all moves so far and the legal moves."""
    view, options = question["view"], list(option_texts(question, notation))
    letters = zip(view["letters"], view["colors"], strict=True)
    rules = _RULES.format(
        players=len(view["names"]),
        colors=len(view["colors"]),
        letters=", ".join(f"{letter} {color}" for letter, color in letters),
        ranks=view["ranks"],
        best=view["max_score"],
        lives=view["max_lives"],
        hints=view["max_hints"],
    )
    system = [rules + _CARD_NUMBERS[notation], conventions, _ANSWER.format(example=options[-1])]
    position = observation_text(view) if notation == "openspiel" else position_text(view)
    moves = [f"{turn}. {text}" for turn, text in enumerate(view["log"], start=1)] or ["none"]
    user = [position, "Moves so far:", *moves, "Legal moves:", *options]
    return [
        {"role": "system", "content": "\n".join(filter(None, system))},
        {"role": "user", "content": "\n".join(user)},
    ]


def option_texts(question: Mapping[str, Any], notation: Notation) -> Iterator[str]:
    """Text of each legal move, in order: `Play slot 1` or `(Play 0)`."""
    view = question["view"]
    for option in question["legal"]:
        if notation == "words":
            yield option["text"]
        elif option["target"] is None:
            yield move_text(Move(option["kind"], slot=option["slot"] - 1))
        else:
            offset = (option["target"] - view["you"]) % len(view["names"])
            value = option["value"] - (option["kind"] == "rank")
            yield move_text(Move(option["kind"], offset=offset, value=value))


def position_text(view: Frame) -> str:
    """Position in words, without the moves so far."""
    letters, colors = view["letters"], view["colors"]
    fireworks = zip(colors, view["fireworks"], strict=True)
    lines = [
        f"Turn {view['turn'] + 1}. Hint tokens: {view['hints']} of {view['max_hints']}. Lives: "
        f"{view['lives']} of {view['max_lives']}. Cards in the deck: {view['deck']}.",
        "Fireworks: " + ", ".join(f"{color} {height}" for color, height in fireworks),
        "Discarded: "
        + (" ".join(f"{letters[color]}{rank}" for color, rank in view["discards"]) or "none"),
    ]
    if view["turns_left"] is not None:
        lines.append(f"The deck is empty: {view['turns_left']} turns are left, with yours.")
    players = len(view["hands"])
    for seat in ((view["you"] + offset) % players for offset in range(players)):
        name, own = view["names"][seat], seat == view["you"]
        lines.append("Your hand:" if own else f"{name}'s hand, and what {name} knows of it:")
        for slot, card in enumerate(view["hands"][seat], start=1):
            face = "" if own else f"{letters[card['card'][0]]}{card['card'][1]}, "
            lines.append(f"  slot {slot}: {face}{_knowledge_text(card, letters)}")
    return "\n".join(lines)


def _knowledge_text(card: Frame, letters: list[str]) -> str:
    """`hinted red, can be R, 1 2 3`."""
    named = [letters[card["color"]]] if card["color"] is not None else []
    named += [str(card["rank"])] if card["rank"] is not None else []
    hinted = f"hinted {' and '.join(named)}" if named else "no hint"
    possible = "".join(letters[color] for color in card["colors"])
    return f"{hinted}, can be {possible} {''.join(map(str, card['ranks']))}"


def parse_answer(text: str, options: Sequence[str]) -> int | None:
    """Index of the move in the last line `MOVE: ...` of `text`, or of `text` that is one move;
    None if it names none of `options`. Case, brackets and other punctuation do not count."""
    _, found, after = text.casefold().rpartition("move:")
    lines = (after if found else text).strip().splitlines() or [""]
    if not found and len(lines) > 1:
        return None
    words = _words(lines[0])
    return next((i for i, option in enumerate(options) if _words(option) == words), None)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9+]+", text.casefold())


def fallback_move(question: Mapping[str, Any]) -> int:
    """Action for a model without a legal answer: discard the oldest card without a hint, otherwise
    give the first legal hint, otherwise discard the oldest card. It plays a card only if no
    discard and no hint is legal."""
    view, legal = question["view"], question["legal"]
    hand = view["hands"][view["you"]]
    discards = [option for option in legal if option["kind"] == "discard"]
    unhinted = [
        option
        for option in discards
        if hand[option["slot"] - 1]["color"] is hand[option["slot"] - 1]["rank"] is None
    ]
    hints = [option for option in legal if option["target"] is not None]
    return int(next(iter(unhinted + hints + discards + list(legal)))["action"])
