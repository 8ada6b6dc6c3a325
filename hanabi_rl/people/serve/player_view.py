"""One seat's view of a game, the only place where hidden cards are removed.

`player_view` reads the deck and returns a `PlayerView`, in which cards hidden from the seat are
None. All data about active games that leaves the server is made from a `PlayerView`
(`view_json.py`), never from a game, so that it cannot depend on hidden cards.
"""

from __future__ import annotations

from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.seat_view import PlayerView, SeenCard, SeenMove
from hanabi_rl.people.serve.lifecycle import Game


def player_view(game: Game, seat: int | None) -> PlayerView:
    """View of `seat`; once the game is done, all hands are visible."""
    return _view(game, seat, game.turn, open_hands=seat is None or game.status == "done")


def spectator_view(game: Game, turn: int) -> PlayerView:
    """All hands face up after `turn` moves, for spectators and replays.

    Raises ValueError during a person's game.
    """
    if game.people and game.status != "done":
        raise ValueError("a person's game is shown face up only after its end")
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
    """Apply the move to the table; return its public record."""
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
