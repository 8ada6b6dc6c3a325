"""A game rebuilt from the actions that the server sends to one seat: `ObservedGame`.

Other players' cards are known by their order (index in the deck), own cards after they are played
or discarded. An agent needs a whole game, so unknown cards are guessed: the deck is consistent with
all observations, including the hints on the own hand, and the agent sees no guessed card. All
actions are checked against the rules; after a `DesyncError` the game must be requested again.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from hanabi_rl.data.formats.hanab_live import COLOR_HINT, DISCARD, PLAY, RANK_HINT
from hanabi_rl.data.games import rotated_orders
from hanabi_rl.games.hanabi.actions import Move, decode_action, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.live.deck_completion import DesyncError, complete_deck
from hanabi_rl.people.live.protocol import FrameError, read_int
from hanabi_rl.people.serve.lifecycle import Game

_COLOR, _RANK = 0, 1  # types of a clue that was given


class ObservedGame:
    """A game as observed from the site's seat `seat`; the site's seat `start` begins. Internally,
    seat 0 moves first and is dealt the first cards, as everywhere in this package."""

    def __init__(self, players: int, seat: int, start: int = 0) -> None:
        if not 2 <= players <= 5 or not 0 <= seat < players or not 0 <= start < players:
            raise DesyncError(f"invalid game: seat {seat} of {players}, seat {start} starts")
        self.rules = Rules(num_players=players)
        self.start = start
        self.seat = self._our_seat(seat)
        self._orders = rotated_orders(self.rules, start)  # the site's order -> internal order
        self._cards: dict[int, int] = {}  # order -> card id of revealed cards
        self._possible = [set(range(self.rules.num_cards)) for _ in range(self.rules.deck_size)]
        self._drawn: set[int] = set()
        self._moves: list[int] = []
        self._mid_move = False  # between the first action of a move and its `turn`
        self._deck = full_deck(self.rules)
        self._table: PythonGame | None = None
        self.ended: int | None = None
        """The site's end condition; None before the end."""

    @property
    def turn(self) -> int:
        """Number of moves made."""
        return len(self._moves)

    @property
    def my_turn(self) -> bool:
        """True if the last move was observed completely and the bot is the current player."""
        table = self._known_table()
        complete = len(self._drawn) == table.drawn and not self._mid_move
        return complete and self.ended is None and not table.over and table.player == self.seat

    def apply(self, action: Any) -> None:
        """Apply the next action; ignore unknown types. Raises DesyncError."""
        kind = action.get("type") if isinstance(action, Mapping) else None
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is None:
            return
        try:
            handler(self, action)
        except FrameError as error:
            raise DesyncError(f"{kind}: {error}") from error

    def game(self, number: int) -> Game:
        """The game for the agent; all other seats are human. Raises DesyncError."""
        table = self._known_table()
        others = frozenset(range(self.rules.num_players)) - {self.seat}
        return Game(number, self.rules, tuple(table.deck), others, tuple(self._moves))

    def site_action(self, action: int) -> dict[str, int]:
        """Convert an action to the site's `type`, `target`, `value`. Raises ValueError if
        illegal."""
        table = self._known_table()
        if reason := table.illegal_reason(action):
            raise ValueError(f"turn {self.turn}: {reason}")
        move = decode_action(self.rules, action)
        if move.kind in ("play", "discard"):
            order = table.hands[self.seat][move.slot]
            kind = PLAY if move.kind == "play" else DISCARD
            return {"type": kind, "target": self.site_order(order)}
        players = self.rules.num_players
        target = (self.seat + move.offset + self.start) % players
        if move.kind == "color":
            return {"type": COLOR_HINT, "target": target, "value": move.value}
        return {"type": RANK_HINT, "target": target, "value": move.value + 1}

    def own_orders(self) -> list[int]:
        """The site's orders of the bot's cards, oldest first."""
        return [self.site_order(order) for order in self._known_table().hands[self.seat]]

    def site_order(self, order: int) -> int:
        """Convert an internal order to the site's."""
        return self._orders.index(order)

    def whole_game(self, number: int, identities: Any, bots: Sequence[int]) -> Game:
        """The finished game, with the deck that the site reveals. `bots`: the site's seats that are
        not human. Raises DesyncError if the deck is invalid or inconsistent with the game."""
        deck = _read_deck(self.rules, identities)
        deck = [deck[site] for site in np.argsort(self._orders)]
        for order, card in self._cards.items():
            if deck[order] != card:
                raise DesyncError(
                    f"card {order} was revealed as {card}, the deck has {deck[order]}"
                )
        people = set(range(self.rules.num_players)) - {self._our_seat(seat) for seat in bots}
        try:
            return finished_game(number, self.rules, deck, self._moves, people)
        except ValueError as error:
            raise DesyncError(str(error)) from error

    @property
    def is_blank(self) -> bool:
        """True before the deal."""
        return not self._drawn

    def is_prefix_of(self, deck: list[int], moves: list[int]) -> bool:
        """True if a whole game (internal orders and actions) begins with everything observed."""
        same_cards = all(deck[order] == card for order, card in self._cards.items())
        return same_cards and moves[: self.turn] == self._moves

    def _our_seat(self, site: int) -> int:
        return (site - self.start) % self.rules.num_players

    def _seat(self, action: Mapping[str, Any], name: str) -> int:
        site = read_int(action, name)
        if not 0 <= site < self.rules.num_players:
            raise DesyncError(f"{name}: invalid seat {site}")
        return self._our_seat(site)

    def _order(self, value: Any) -> int:
        if type(value) is not int or not 0 <= value < self.rules.deck_size:
            raise DesyncError(f"order: invalid card {value!r}")
        return self._orders[value]

    def _draw(self, action: Mapping[str, Any]) -> None:
        order, seat = self._order(action.get("order")), self._seat(action, "playerIndex")
        if order in self._drawn or order not in self._known_table().hands[seat]:
            raise DesyncError(f"card {order} cannot be drawn by seat {seat} now")
        self._drawn.add(order)
        if (read_int(action, "suitIndex"), read_int(action, "rank")) != (-1, -1):
            self._reveal(order, action)
        elif seat != self.seat:
            raise DesyncError(f"card {order} of another seat was not revealed")

    def _remove_card(self, action: Mapping[str, Any], kind: str) -> None:
        order, seat = self._order(action.get("order")), self._seat(action, "playerIndex")
        hand = self._known_table().hands[seat]
        if order not in hand:
            raise DesyncError(f"seat {seat} does not hold card {order}")
        slot = hand.index(order)
        self._reveal(order, action)
        self._move(seat, Move("play" if kind == "play" else "discard", slot=slot))

    def _play(self, action: Mapping[str, Any]) -> None:
        before = self._known_table().points
        self._remove_card(action, "play")
        if self._known_table().points == before:
            raise DesyncError("a successful play scores no point")

    def _discard(self, action: Mapping[str, Any]) -> None:
        failed, before = action.get("failed") is True, self._known_table().points
        self._remove_card(action, "play" if failed else "discard")
        if self._known_table().points != before:
            raise DesyncError("a failed play scores a point")

    def _clue(self, action: Mapping[str, Any]) -> None:
        giver, target = self._seat(action, "giver"), self._seat(action, "target")
        clue, orders = action.get("clue"), action.get("list")
        kind, value = read_int(clue, "type"), read_int(clue, "value")
        value -= kind == _RANK
        if kind not in (_COLOR, _RANK) or not 0 <= value < 5 or not isinstance(orders, list):
            raise DesyncError(f"invalid clue: type {kind}, value {value}")
        touched = {self._order(order) for order in orders}
        move = Move(
            "color" if kind == _COLOR else "rank",
            offset=(target - giver) % self.rules.num_players,
            value=value,
        )
        hand = self._known_table().hands[target]
        if target == self.seat:
            for order in hand:
                cards = self._possible[order]
                matching = {card for card in cards if divmod(card, 5)[kind] == value}
                self._narrow(order, matching if order in touched else cards - matching)
        observed = [hand[slot] for slot in self._known_table().touched(move)] if move.offset else []
        if set(observed) != touched:
            raise DesyncError(f"the hint touches cards {observed}, not {sorted(touched)}")
        self._move(giver, move)

    def _status(self, action: Mapping[str, Any]) -> None:
        table = self._known_table()
        if read_int(action, "clues") != table.info_tokens:
            raise DesyncError(f"{action['clues']} information tokens, expected {table.info_tokens}")
        if table.life_tokens and read_int(action, "score") != table.points:
            raise DesyncError(f"{action['score']} points, expected {table.points}")

    def _strike(self, action: Mapping[str, Any]) -> None:
        self._mid_move = True  # comes before the card's discard

    def _turn(self, action: Mapping[str, Any]) -> None:
        if read_int(action, "currentPlayerIndex") >= 0:
            seat = self._seat(action, "currentPlayerIndex")
            if seat != (player := self._known_table().player):
                raise DesyncError(f"it is seat {seat}'s turn, expected seat {player}'s")
        self._mid_move = False

    def _game_over(self, action: Mapping[str, Any]) -> None:
        self.ended = read_int(action, "endCondition")

    def _reveal(self, order: int, action: Mapping[str, Any]) -> None:
        suit, rank = read_int(action, "suitIndex"), read_int(action, "rank")
        if not (0 <= suit < 5 and 1 <= rank <= 5):
            raise DesyncError(f"invalid card: suit {suit}, rank {rank}")
        card = suit * 5 + rank - 1
        if card not in self._possible[order]:
            raise DesyncError(f"card {order} cannot be {card} according to its hints")
        self._cards[order] = card
        self._narrow(order, {card})

    def _narrow(self, order: int, possible: set[int]) -> None:
        self._possible[order] = possible
        if self._deck[order] not in possible:
            self._table = None

    def _move(self, seat: int, move: Move) -> None:
        table = self._known_table()
        if self.ended is not None or seat != table.player:
            raise DesyncError(f"seat {seat} moves, it is seat {table.player}'s turn")
        try:
            action = encode_action(self.rules, move)
            table.apply(action)
        except ValueError as error:
            raise DesyncError(str(error)) from error
        self._moves.append(action)
        self._mid_move = True

    def _known_table(self) -> PythonGame:
        """The position; unknown cards are guessed again if they contradict new observations."""
        if self._table is None:
            self._deck = complete_deck(self.rules, self._possible, self._deck)
            self._table = self._replay(self._deck)
        return self._table

    def _replay(self, deck: Sequence[int]) -> PythonGame:
        try:
            table = PythonGame(self.rules, deck)
            for action in self._moves:
                table.apply(action)
        except ValueError as error:
            raise DesyncError(str(error)) from error
        return table


def finished_game(
    number: int, rules: Rules, deck: Sequence[int], moves: Sequence[int], people: Collection[int]
) -> Game:
    """A finished game, to be saved. Raises ValueError for an illegal move."""
    game = Game(number, rules, tuple(deck), frozenset(people), tuple(moves), status="done")
    table = game.table()
    finished = table.over or not table.can_score()
    return dataclasses.replace(game, end_reason="finished" if finished else "left")


_HANDLERS: dict[str, Any] = {
    "draw": ObservedGame._draw,
    "play": ObservedGame._play,
    "discard": ObservedGame._discard,
    "clue": ObservedGame._clue,
    "strike": ObservedGame._strike,
    "status": ObservedGame._status,
    "turn": ObservedGame._turn,
    "gameOver": ObservedGame._game_over,
}


def _read_deck(rules: Rules, identities: Any) -> list[int]:
    if not isinstance(identities, list) or len(identities) != rules.deck_size:
        raise DesyncError(f"expected the {rules.deck_size} cards of the deck")
    try:
        faces = [(read_int(card, "suitIndex"), read_int(card, "rank")) for card in identities]
    except FrameError as error:
        raise DesyncError(str(error)) from error
    if not all(0 <= suit < 5 and 1 <= rank <= 5 for suit, rank in faces):
        raise DesyncError("expected suits 0-4 and ranks 1-5 in the deck")
    return [suit * 5 + rank - 1 for suit, rank in faces]
