"""One game in hanab.live's formats: JSON ("Watch Specific Replay") and replay link.

The site identifies a card by its deck index (here: by slot) and a hint's target by its seat (here:
relative to the current player). It ends a game once no more points can be scored, so an exported
game ends there too (`exported_length`).
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import reprlib
import string
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hanabi_rl.data.endings import Ending, ending
from hanabi_rl.data.games import rotated_orders
from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.cards import exhausted_cards
from hanabi_rl.games.hanabi.python_game import PLAYER_NAMES, PythonGame, card_name
from hanabi_rl.games.hanabi.rules import Rules

LINK_PREFIX = "https://hanab.live/shared-replay-json/"
ALPHABET = string.ascii_lowercase + string.digits + string.ascii_uppercase
LINK_CHUNK = 20
VARIANT = "No Variant"
VARIANT_ID = 0
MAX_SEED_LENGTH = 100
"""Maximum characters of a seed's name; longer names are dropped."""
PLAY, DISCARD, COLOR_HINT, RANK_HINT, GAME_OVER, VOTED_OVER = range(6)
ENDS = (GAME_OVER, VOTED_OVER)
"""Entries that are not moves: the game is ended by a player or by a vote."""
FOREIGN_OPTIONS = (
    "cardCycle",
    "deckPlays",
    "emptyClues",
    "oneExtraCard",
    "oneLessCard",
    "allOrNothing",
    "detrimentalCharacters",
)
"""Options that change the rules, or the order of cards in a hand."""
OWN_OPTIONS = (
    *("numPlayers", "startingPlayer", "variant", "variantName", "variantID"),
    *("timed", "timeBase", "timePerTurn", "speedrun", "tableName", "maxPlayers"),
)
"""Options that leave the rules unchanged, except for the end of a speedrun."""
_SITE = re.compile(r"(?:https?:/{1,2})?(?:www\.)?hanab\.live(?![\w.-])/*([^#?]*)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class ImportedGame:
    """A game read from hanab.live: seat 0 moves first, with this package's card and action ids."""

    rules: Rules
    deck: np.ndarray  # uint8[50], top card first
    actions: np.ndarray  # int32[moves]
    score: int  # 0 if all lives were lost
    game_id: int | None = None
    players: tuple[str, ...] = ()
    seed: str = ""  # the site's name of the deal, "" if the export has none
    surplus: bool = False  # a move after the last life was dropped


class SiteGameError(ValueError):
    """A game that cannot be read. `ended`: its ending, None if unknown."""

    def __init__(self, problem: str, ended: Ending | None = None) -> None:
        super().__init__(problem)
        self.ended = ended


def game_to_json(
    rules: Rules,
    deck: Sequence[int] | np.ndarray,
    actions: Iterable[int],
    game_id: int | None = None,
) -> dict[str, Any]:
    """The site's JSON record of a game, up to the first no-op.

    Args:
        deck: card ids [50].
        actions: this package's action ids.

    Raises:
        ValueError: rules that hanab.live lacks, an illegal move, or a game without moves.
    """
    site_actions = _site_actions(rules, deck, actions)
    record = {
        "players": list(PLAYER_NAMES[: rules.num_players]),
        "deck": [{"suitIndex": int(card) // 5, "rank": int(card) % 5 + 1} for card in deck],
        "actions": [
            {"type": kind, "target": target} | ({} if value is None else {"value": value})
            for kind, target, value in site_actions
        ],
        "options": {"variant": VARIANT},
    }
    return record if game_id is None else {"id": int(game_id)} | record


def exported_length(rules: Rules, deck: Sequence[int] | np.ndarray, actions: Iterable[int]) -> int:
    """Number of moves that the site saves: it stops once no remaining card can score."""
    return len(_site_actions(rules, deck, actions))


def game_from_json(record: Mapping[str, Any], failed_speedruns: bool = False) -> ImportedGame:
    """Read the site's JSON record; a starting player other than 0 rotates the seats.

    Args:
        record: one game.
        failed_speedruns: True reads a speedrun that lost a needed card as a game that stops there
            (the site ends it with score 0, the standard rules do not).

    Raises:
        ValueError: names a missing or mistyped key, an option that changes the rules, or an illegal
            move.
    """
    for key in ("players", "deck", "actions"):
        if not isinstance(record.get(key), list):
            raise ValueError(f"expected a list under {key!r}, got {type(record.get(key)).__name__}")
    start = _check_options(record, len(record["players"]))
    rules = Rules(num_players=len(record["players"]))
    deck = [_read_card(card, index) for index, card in enumerate(record["deck"])]
    if len(deck) != rules.deck_size:
        raise ValueError(f"expected a deck of {rules.deck_size} cards, got {len(deck)}")
    new_order = rotated_orders(rules, start)
    table = PythonGame(rules, [deck[old] for old in np.argsort(new_order)])
    moves, actions = _read_moves(record["actions"]), list[int]()
    may_fail = not failed_speedruns and bool((record.get("options") or {}).get("speedrun"))
    for kind, target, value in moves:
        if table.life_tokens == 0 and len(actions) == len(moves) - 1:
            break  # surplus move of some recorders, see `data.endings`
        if kind in (PLAY, DISCARD) and 0 <= target < rules.deck_size:
            target = new_order[target]
        elif kind in (COLOR_HINT, RANK_HINT) and 0 <= target < rules.num_players:
            target = (target - start) % rules.num_players
        try:
            actions.append(_our_action(table, kind, target, value))
            table.apply(actions[-1])
        except ValueError as error:
            raise SiteGameError(str(error), ending(table) if table.over else None) from error
        if may_fail:
            _check_speedrun(table)
    names = [
        str(record["players"][(seat + start) % rules.num_players])
        for seat in range(rules.num_players)
    ]
    game_id, seed = record.get("id"), record.get("seed")
    return ImportedGame(
        rules=rules,
        deck=np.asarray(table.deck, np.uint8),
        actions=np.asarray(actions, np.int32),
        score=table.score,
        game_id=game_id if type(game_id) is int and 0 <= game_id < 2**63 else None,
        players=tuple(names),
        seed=seed if isinstance(seed, str) and len(seed) <= MAX_SEED_LENGTH else "",
        surplus=len(actions) < len(moves),
    )


def replay_link(
    rules: Rules, deck: Sequence[int] | np.ndarray, actions: Iterable[int], turn: int = 1
) -> str:
    """Replay link of a game, opened at `turn` (from 1, the deal). Raises as `game_to_json`."""
    site_actions = _site_actions(rules, deck, actions)
    kinds = [kind for kind, _, _ in site_actions]
    low, high = min(kinds), max(kinds)
    cards = "".join(ALPHABET[int(card)] for card in deck)
    moves = "".join(
        ALPHABET[(0 if value is None else value + 1) * (high - low + 1) + kind - low]
        + ALPHABET[target]
        for kind, target, value in site_actions
    )
    payload = f"{rules.num_players}15{cards},{low}{high}{moves},{VARIANT_ID}"
    chunks = [payload[start : start + LINK_CHUNK] for start in range(0, len(payload), LINK_CHUNK)]
    return f"{LINK_PREFIX}{'-'.join(chunks)}#{turn}"


def is_link(text: str) -> bool:
    """True for an address on hanab.live, in any spelling that browsers accept."""
    return _SITE.match(_unwrapped(text)) is not None


def _unwrapped(text: str) -> str:
    """A pasted link without the characters that chats put around it."""
    return urllib.parse.unquote(text.strip().strip("<>"))


def _payload(link: str) -> str:
    """The game in a replay link; for other text, everything before the turn."""
    text = _unwrapped(link)
    if (site := _SITE.match(text)) is None:
        return text.partition("#")[0]
    page, _, rest = site[1].strip("/").partition("/")
    if page.lower() in ("shared-replay-json", "replay-json") and rest:
        return rest
    wanted = f"expected a link with the game in it, {LINK_PREFIX}..., got {link!r}"
    number = rest.partition("/")[0]
    if page.lower() in ("shared-replay", "replay", "export") and number.isdecimal():
        raise ValueError(
            f"{wanted}: that game is only on the site; save https://hanab.live/export/{number} as "
            f"{number}.json and use that file"
        )
    raise ValueError(wanted)


def decode_link(link: str) -> ImportedGame:
    """The game in a replay link or its bare payload; inverse of `replay_link`. Raises ValueError if
    the text is malformed or the game is only on the site."""
    parts = _payload(link).replace("-", "").split(",")
    if len(parts) != 3 or not all(
        len(part) >= size for part, size in zip(parts, (3, 2, 1), strict=True)
    ):
        raise ValueError(
            f"expected '<players and deck>,<actions>,<variant>' in a hanab.live link, got {link!r}"
        )
    head, body, variant = parts
    if variant != str(VARIANT_ID):
        raise ValueError(
            f"expected variant {VARIANT_ID} ({VARIANT}) in a hanab.live link, got {variant!r}"
        )
    if not (head[:3] + body[:2]).isdecimal():
        raise ValueError(
            f"expected digits before the deck and the actions, got {head[:3]!r} and {body[:2]!r}"
        )
    num_players, min_rank, max_rank = (int(digit) for digit in head[:3])
    low, high = int(body[0]), int(body[1])
    if (min_rank, max_rank) != (1, 5) or not PLAY <= low <= high <= VOTED_OVER:
        raise ValueError(
            f"expected ranks 1-5 and action types within 0-5, got {head[1:3]!r} and {body[:2]!r}"
        )
    if len(body) % 2 or not set(head[3:] + body[2:]) <= set(ALPHABET):
        raise ValueError("expected cards and pairs of action characters from a-z, 0-9, A-Z")
    actions = []
    for first, second in zip(body[2::2], body[3::2], strict=True):
        value, kind = divmod(ALPHABET.index(first), high - low + 1)
        entry = {"type": kind + low, "target": ALPHABET.index(second)}
        actions.append(entry | ({"value": value - 1} if value else {}))
    deck = [
        {"suitIndex": ALPHABET.index(card) // 5, "rank": ALPHABET.index(card) % 5 + 1}
        for card in head[3:]
    ]
    return game_from_json(
        {
            "players": [f"Player {seat}" for seat in range(num_players)],
            "deck": deck,
            "actions": actions,
            "options": {"variant": VARIANT},
        }
    )


def _site_actions(
    rules: Rules, deck: Sequence[int] | np.ndarray, actions: Iterable[int]
) -> list[tuple[int, int, int | None]]:
    """(type, target, value) of each move that the site saves."""
    if not rules.is_standard:
        got = rules.difference_from(Rules(num_players=rules.num_players))
        raise ValueError(f"hanab.live has only the standard 50-card game, got {got}")
    table = PythonGame(rules, deck)
    result: list[tuple[int, int, int | None]] = []
    for action in actions:
        move = decode_action(rules, action)
        if move.kind == "noop" or table.over or not table.can_score():
            break
        if move.kind in ("play", "discard"):
            hand = table.hands[table.player]
            # an empty slot: `apply` reports it
            order = hand[move.slot] if move.slot < len(hand) else -1
            result.append((PLAY if move.kind == "play" else DISCARD, order, None))
        else:
            seat = (table.player + move.offset) % rules.num_players
            result.append(
                (COLOR_HINT, seat, move.value)
                if move.kind == "color"
                else (RANK_HINT, seat, move.value + 1)
            )
        table.apply(action)
    if not result:
        raise ValueError("hanab.live needs a game with at least one move, got none")
    return result


def _our_action(table: PythonGame, kind: int, target: int, value: int | None) -> int:
    """This package's action id of the site's move; ValueError if there is none."""
    rules, where = table.rules, f"turn {table.turn}"
    if kind in (PLAY, DISCARD):
        hand = table.hands[table.player]
        if target not in hand:
            raise ValueError(
                f"{where}: expected a card of seat {table.player} (deck indices {hand}), got "
                f"{target}"
            )
        return encode_action(
            rules, Move("play" if kind == PLAY else "discard", slot=hand.index(target))
        )
    offset = (target - table.player) % rules.num_players
    if not 0 <= target < rules.num_players or offset == 0:
        raise ValueError(
            f"{where}: expected a hint to another of {rules.num_players} seats, got seat {target}"
        )
    value = -1 if value is None else value - (kind == RANK_HINT)
    if not 0 <= value < 5:
        raise ValueError(
            f"{where}: expected a colour 0-4 or a rank 1-5, got {value + (kind == RANK_HINT)}"
        )
    return encode_action(
        rules, Move("color" if kind == COLOR_HINT else "rank", offset=offset, value=value)
    )


def foreign_options(options: Mapping[str, Any]) -> list[str]:
    """Enabled options that change the rules or the card order in a hand. One extra card and one
    card less together give the standard hand."""
    on = [name for name in FOREIGN_OPTIONS if options.get(name)]
    both = {"oneExtraCard", "oneLessCard"}
    return [name for name in on if name not in both] if both <= {*on} else on


def _check_options(record: Mapping[str, Any], num_players: int) -> int:
    """The starting player. Raises ValueError for an option that changes the rules."""
    options = record.get("options") or {}
    if not isinstance(options, Mapping):
        raise ValueError(f"expected an object under 'options', got {type(options).__name__}")
    if not 2 <= num_players <= 5:
        raise ValueError(f"expected 2-5 players, got {num_players}")
    for key, standard in (
        ("variant", VARIANT),
        ("variantName", VARIANT),
        ("variantID", VARIANT_ID),
    ):
        for place in (record, options):
            if place.get(key, standard) not in (standard, None):
                raise ValueError(
                    f"expected option {key} to be {standard!r}, got {reprlib.repr(place[key])}"
                )
    for key in foreign_options(options):
        what = "the order of cards in a hand" if key == "cardCycle" else "the rules"
        raise ValueError(
            f"option {key} changes {what}: expected it off, got {reprlib.repr(options[key])}"
        )
    if record.get("characters"):
        raise ValueError("option detrimentalCharacters changes the rules: expected no characters")
    for key, value in options.items():
        if value and key not in (*OWN_OPTIONS, *FOREIGN_OPTIONS):
            raise ValueError(
                f"option {key}: expected a known option, or off, got {reprlib.repr(value)}"
            )
    start = options.get("startingPlayer", 0)
    if type(start) is not int or not 0 <= start < num_players:
        raise ValueError(
            f"expected startingPlayer in 0..{num_players - 1}, got {reprlib.repr(start)}"
        )
    return start


def _read_card(card: Any, index: int) -> int:
    suit, rank = (
        (card.get("suitIndex"), card.get("rank")) if isinstance(card, Mapping) else (None, None)
    )
    if type(suit) is not int or type(rank) is not int or not (0 <= suit < 5 and 1 <= rank <= 5):
        raise ValueError(
            f"card {index}: expected suitIndex 0-4 and rank 1-5, got {reprlib.repr(card)}"
        )
    return suit * 5 + rank - 1


def _check_speedrun(table: PythonGame) -> None:
    """Raise SiteGameError if the site ended a speedrun: a needed card is lost, lives are left."""
    lost = exhausted_cards(table.rules, table.discard_planes)
    if lost and table.life_tokens > 0:
        card = card_name(table.rules, lost.bit_length() - 1)
        raise SiteGameError(
            f"option speedrun: turn {table.turn - 1} lost the last {card}, so the site ended the "
            "game with score 0; the standard rules continue",
            "failed speedrun",
        )


def _read_moves(entries: Sequence[Any]) -> list[tuple[int, int, int | None]]:
    """(type, target, value) of each entry before an entry that ends the game."""
    read = [_read_action(entry, index) for index, entry in enumerate(entries)]
    moves = list(itertools.takewhile(lambda entry: entry[0] not in ENDS, read))
    if more := sum(kind not in ENDS for kind, _, _ in read[len(moves) :]):
        raise ValueError(f"action {len(moves)} ends the game, but {more} more follow")
    return moves


def _read_action(entry: Any, index: int) -> tuple[int, int, int | None]:
    if not isinstance(entry, Mapping):
        raise ValueError(f"action {index}: expected an object, got {reprlib.repr(entry)}")
    kind, target, value = entry.get("type"), entry.get("target"), entry.get("value")
    if type(kind) is not int or not PLAY <= kind <= VOTED_OVER or type(target) is not int:
        raise ValueError(
            f"action {index}: expected a type 0-5 and a target, got {reprlib.repr(entry)}"
        )
    if value is not None and type(value) is not int:
        raise ValueError(
            f"action {index}: expected a whole number as value, got {reprlib.repr(value)}"
        )
    return kind, target, value
