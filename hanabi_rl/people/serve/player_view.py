"""What one seat may know of a game, cut out of the whole: the one place where hidden cards are left
out.

`player_view` reads the deck and returns a `PlayerView`, in which a card that the seat may not know
is None. Whatever leaves the server about a game in progress is made from a `PlayerView`
(`view_json.py`), never from a game: no order, size or number in a frame can depend on a card that
is not in it.
"""

from __future__ import annotations

import dataclasses

from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import Knowledge, PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game


@dataclasses.dataclass(frozen=True)
class SeenCard:
    """A card in a hand: `order` is its place in the deck (public: when it was drawn)."""

    order: int
    card: int | None  # card id; None where the seat may not know it
    knowledge: Knowledge


@dataclasses.dataclass(frozen=True)
class SeenMove:
    """A move that was made, which everyone saw."""

    seat: int
    action: int
    slot: int | None  # of a play or discard
    card: int | None  # played or discarded: face up now
    success: bool  # a play that scored, or a move that is no play
    target: int | None  # the seat a hint went to
    touched: tuple[int, ...] = ()  # its slots that the hint points at
    orders: tuple[int, ...] = ()  # by their place in the deck: the same cards, or the one moved


@dataclasses.dataclass(frozen=True)
class PlayerView:
    """One seat's view of a game, or a spectator's (`seat` None), who sees every hand."""

    rules: Rules
    seat: int | None
    turn: int
    current_player: int | None
    over: bool
    left: bool
    hands: tuple[tuple[SeenCard, ...], ...]
    fireworks: tuple[int, ...]
    discards: tuple[int, ...]  # card ids, in their order
    hints: int
    lives: int
    deck_left: int
    turns_left: int | None
    moves: tuple[SeenMove, ...]

    @property
    def points(self) -> int:
        """Cards on the fireworks."""
        return sum(self.fireworks)

    @property
    def score(self) -> int:
        """`points`, or 0 once all lives are lost."""
        return self.points if self.lives > 0 else 0


def player_view(game: Game, seat: int | None) -> PlayerView:
    """What `seat` may know now; once the game is done, everything but the rest of the deck."""
    return _view(game, seat, game.turn, open_hands=seat is None or game.status == "done")


def spectator_view(game: Game, turn: int) -> PlayerView:
    """All hands face up after `turn` moves: for spectators, and replays of games that are done.

    Raises ValueError while persons play: they may not see their hands.
    """
    if game.people and game.status != "done":
        raise ValueError("a game that persons play is shown face up only once it is done")
    return _view(game, None, turn, open_hands=True)


def _view(game: Game, seat: int | None, turn: int, open_hands: bool) -> PlayerView:
    table = PythonGame(game.rules, game.deck)
    moves = [_apply(table, action) for action in game.moves[:turn]]
    hands = tuple(
        tuple(
            SeenCard(
                order=order,
                card=table.deck[order] if open_hands or owner != seat else None,
                knowledge=table.knowledge[order],
            )
            for order in hand
        )
        for owner, hand in enumerate(table.hands)
    )
    last = turn == game.turn
    return PlayerView(
        rules=game.rules,
        seat=seat,
        turn=turn,
        current_player=game.current_player if last else turn % game.rules.num_players,
        over=last and game.status == "done",
        left=last and game.end_reason == "left",
        hands=hands,
        fireworks=tuple(table.fireworks),
        discards=tuple(table.deck[order] for order in table.discards),
        hints=table.info_tokens,
        lives=table.life_tokens,
        deck_left=game.rules.deck_size - table.drawn,
        turns_left=table.turns_left,
        moves=tuple(moves),
    )


def _apply(table: PythonGame, action: int) -> SeenMove:
    """Takes the move on the table and says what everyone saw of it."""
    rules, seat, move = table.rules, table.player, decode_action(table.rules, action)
    if move.kind in ("play", "discard"):
        order, points = table.hands[seat][move.slot], table.points
        table.apply(action)
        success = move.kind == "discard" or table.points > points
        card = table.deck[order]
        return SeenMove(seat, action, move.slot, card, success, None, orders=(order,))
    target, touched = (seat + move.offset) % rules.num_players, tuple(table.touched(move))
    orders = tuple(table.hands[target][slot] for slot in touched)
    table.apply(action)
    return SeenMove(seat, action, None, None, True, target, touched, orders)
