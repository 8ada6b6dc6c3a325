"""Reconstruction of a seat's `PlayerView` from its observations: `ObservationDecoder`.

A candidate on a remote server has one observation per timestep and no game. The order of discards
and of cards in a hand follows from earlier observations.
"""

from __future__ import annotations

import numpy as np

from hanabi_rl.games.hanabi.actions import Move, encode_action
from hanabi_rl.games.hanabi.observation import observation_slices
from hanabi_rl.games.hanabi.python_game import Knowledge
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_view import PlayerView, SeenCard, SeenMove


class ObservationDecoder:
    """View of `seat` in one game of `rules`, updated at every timestep."""

    def __init__(self, rules: Rules, seat: int) -> None:
        size, players = rules.hand_size, rules.num_players
        self.rules, self.seat = rules, seat
        self._sections = observation_slices(rules)
        self._hands = [list(range(s * size, (s + 1) * size)) for s in range(players)]
        self._drawn = size * players
        self._knowledge = {n: Knowledge.untold(rules) for n in range(self._drawn)}
        self._discards: list[int] = []
        self._moves: list[SeenMove] = []
        self._turns_left: int | None = None
        self._started = False

    def see(self, obs: np.ndarray) -> PlayerView:
        """Read the next observation float32[O] of this seat, one per timestep from the deal on.
        Returns `player_view` of the same position in an active game."""
        self.follow(obs)
        return self.view(obs)

    def follow(self, obs: np.ndarray) -> None:
        """Read the next observation without a view of it, as on the other seats' turns."""
        if self._started:
            self._follow({name: obs[where] for name, where in self._sections.items()})
        self._started = True

    def view(self, obs: np.ndarray) -> PlayerView:
        """View of the observation that was read last."""
        part = {name: obs[where] for name, where in self._sections.items()}
        rules, turn = self.rules, len(self._moves)
        ranks = part["fireworks"].reshape(rules.num_colors, rules.num_ranks)
        return PlayerView(
            rules=rules,
            seat=self.seat,
            turn=turn,
            current_player=turn % rules.num_players,
            over=False,
            left=False,
            hands=self._hands_seen(part["hands"]),
            fireworks=tuple(int(top.argmax()) + 1 if top.any() else 0 for top in ranks),
            discards=tuple(self._discards),
            hints=int(part["info_tokens"].sum()),
            lives=int(part["life_tokens"].sum()),
            deck_left=int(part["deck"].sum()),
            turns_left=self._turns_left,
            moves=tuple(self._moves),
        )

    def next_actor(self) -> int:
        """Player that makes the next move, counted from this seat."""
        return (len(self._moves) - self.seat) % self.rules.num_players

    def over(self, obs: np.ndarray) -> bool:
        """True if the game has ended at the observation that was read last."""
        lives, tops = (obs[self._sections[name]] for name in ("life_tokens", "fireworks"))
        rules = self.rules
        return bool(
            not lives.any()
            or self._turns_left == 0
            or len(self._moves) >= rules.max_turns
            or tops.reshape(rules.num_colors, rules.num_ranks)[:, -1].all()
        )

    def _hands_seen(self, cards: np.ndarray) -> tuple[tuple[SeenCard, ...], ...]:
        rules = self.rules
        cards_by_seat = cards.reshape(rules.num_players - 1, rules.hand_size, rules.num_cards)
        return tuple(
            tuple(
                SeenCard(
                    order,
                    None if offset == 0 else int(cards_by_seat[offset - 1, slot].argmax()),
                    self._knowledge[order].copied(),
                )
                for slot, order in enumerate(self._hands[seat])
            )
            for seat in range(rules.num_players)
            for offset in [(seat - self.seat) % rules.num_players]
        )

    def _follow(self, part: dict[str, np.ndarray]) -> None:
        """Apply the last move, as `PythonGame.apply` does."""
        rules, seat = self.rules, len(self._moves) % self.rules.num_players
        kind = ("play", "discard", "color", "rank")[int(part["last_kind"].argmax())]
        if kind in ("play", "discard"):
            move = Move(kind, slot=int(part["last_slot"].argmax()))  # type: ignore[arg-type]
            seen = self._use_card(seat, move, part)
        else:
            target = (self.seat + int(part["last_target"].argmax())) % rules.num_players
            value = int(part["last_color" if kind == "color" else "last_rank"].argmax())
            offset = (target - seat) % rules.num_players
            move = Move(kind, offset=offset, value=value)  # type: ignore[arg-type]
            seen = self._hint(seat, target, move, np.flatnonzero(part["last_touched"]).tolist())
        self._moves.append(seen)
        if self._turns_left is not None:
            self._turns_left -= 1
        elif self._drawn == rules.deck_size:
            self._turns_left = rules.num_players

    def _use_card(self, seat: int, move: Move, part: dict[str, np.ndarray]) -> SeenMove:
        card, hand = int(part["last_card"].argmax()), self._hands[seat]
        success = move.kind == "discard" or bool(part["last_outcome"][0])
        if move.kind == "discard" or not success:
            self._discards.append(card)
        order = hand.pop(move.slot)
        del self._knowledge[order]
        if self._drawn < self.rules.deck_size:
            hand.append(self._drawn)
            self._knowledge[self._drawn] = Knowledge.untold(self.rules)
            self._drawn += 1
        action = encode_action(self.rules, move)
        return SeenMove(seat, action, move.slot, card, success, None, orders=(order,))

    def _hint(self, seat: int, target: int, move: Move, touched: list[int]) -> SeenMove:
        hand = self._hands[target]
        for slot, order in enumerate(hand):
            self._knowledge[order].tell(move, slot in touched)
        orders = tuple(hand[slot] for slot in touched)
        action = encode_action(self.rules, move)
        return SeenMove(seat, action, None, None, True, target, tuple(touched), orders)
