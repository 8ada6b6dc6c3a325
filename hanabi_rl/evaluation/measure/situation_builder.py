"""Situations of the unit tests: a deck, and the moves from the first turn on, so that agents with
memory observe them.

Built situations (`SituationBuilder`) fix some cards and sample the rest; mined ones are positions
of recorded games. Colours and slots vary between instances. Standard game of two or three players.
After Knott et al. 2021 (arXiv 2101.05507), section 4; the situations are ours. Ranks count from 0,
slots from 0, the oldest. *Plain* cards are 2s, 3s and 4s.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hanabi_rl.evaluation.measure.scripted_players import chop, legal_hints
from hanabi_rl.games.hanabi.actions import Kind, Move, decode, decode_action, encode, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games

PLAYERS = (2, 3)
HAND, COLORS, RANKS = Rules().hand_size, Rules().num_colors, Rules().num_ranks
PLAIN_RANKS = (1, 2, 3)
_TRIES = 1000


class Situation(NamedTuple):
    """Position to play from."""

    rules: Rules
    deck: tuple[int, ...]
    """Card ids, top first."""
    prefix: tuple[int, ...]
    """Actions from the first turn on; the tested seat moves next."""
    seat: int
    """Seat of the tested agent."""
    target_card: int = -1
    """Order (index in the deck) of the card that the test is about; -1: no card."""

    def table(self) -> PythonGame:
        """The position."""
        table = PythonGame(self.rules, self.deck)
        for action in self.prefix:
            table.apply(action)
        return table


Build = Callable[[np.random.Generator, int, Rules], tuple[Situation, ...]]
"""(random generator, instance number, rules) -> a situation, or a pair. May raise `Rejected`."""


class Rejected(Exception):  # noqa: N818 - no error: the caller samples again
    """The sampled cards do not make the situation."""


def instances(
    purpose: str, build: Build, count: int, seed: int, rules: Rules
) -> list[tuple[Situation, ...]]:
    """Build `count` instances, each on its own deck, a function of purpose, seed and its number."""
    return [_build_instance(purpose, build, seed, number, rules) for number in range(count)]


def purpose_rng(purpose: str, *numbers: int) -> np.random.Generator:
    """Random generator for one purpose, independent of other purposes."""
    return np.random.default_rng([zlib.crc32(purpose.encode()), len(numbers), *numbers])


def mine(
    games: Games, matches: Callable[[PythonGame], bool], count: int, seed: int
) -> list[tuple[Situation]]:
    """Positions of recorded games that match, at most one per game, with permuted colours; fewer
    than `count` if the games have no more."""
    found: list[tuple[Situation]] = []
    for game in range(len(games)):
        rng = purpose_rng("mined", seed, game)
        position = _position(games, game, matches)
        if position is not None:
            found.append((permute_colors(position, rng.permutation(games.rules.num_colors)),))
        if len(found) == count:
            break
    return found


def permute_colors(situation: Situation, colors: np.ndarray) -> Situation:
    """Replace each colour c by `colors[c]`."""
    rules = situation.rules
    color, rank = np.divmod(np.array(situation.deck), rules.num_ranks)
    moves = decode(rules, np.array(situation.prefix, int))
    value = np.where(moves.is_color_hint, colors[moves.value % rules.num_colors], moves.value)
    return situation._replace(
        deck=tuple((colors[color] * rules.num_ranks + rank).tolist()),
        prefix=tuple(encode(rules, moves._replace(value=value)).tolist()),
    )


class SituationBuilder:
    """Deal with some fixed cards, and moves made on it. Raises `Rejected` if the remaining cards do
    not suffice, or a move is illegal.

    Args:
        rng: samples all other cards.
        rules: the game.
        fixed_cards: (seat, n) -> (colour, rank) of the n-th card of the seat: its hand, oldest
            first, then its draws.
        plain: cards per seat that are plain unless fixed.
        colors: seat -> colours excluded from its plain cards.
        ranks: seat -> ranks excluded from its plain cards.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        rules: Rules,
        fixed_cards: Mapping[tuple[int, int], tuple[int, int]],
        *,
        plain: int = HAND,
        colors: Mapping[int, Sequence[int]] | None = None,
        ranks: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        left = [int(card) for card in rng.permutation(np.array(full_deck(rules)))]
        cards = {
            place: color * rules.num_ranks + rank for place, (color, rank) in fixed_cards.items()
        }
        for card in cards.values():
            left.remove(card)
        for seat in range(rules.num_players):
            banned = (colors or {}).get(seat, ()), (ranks or {}).get(seat, ())
            for place in ((seat, number) for number in range(plain)):
                if place not in cards:
                    cards[place] = next((card for card in left if _allowed(card, *banned)), -1)
                    if cards[place] < 0:
                        raise Rejected
                    left.remove(cards[place])
        self._draws = [
            [cards[seat, number] for number in range(HAND, plain)]
            for seat in range(rules.num_players)
        ]
        hands = [cards[seat, n] for seat in range(rules.num_players) for n in range(HAND)]
        self.rng = rng
        self.table = PythonGame(
            rules, [*hands, *left, *(card for draws in self._draws for card in draws)]
        )

    def slot(self, color: int, rank: int) -> int:
        """Oldest slot of the current player with this card; raises `Rejected` without one."""
        hand = [self.table.deck[order] for order in self.table.hands[self.table.player]]
        card = color * self.table.rules.num_ranks + rank
        if card not in hand:
            raise Rejected
        return hand.index(card)

    def play(self, slot: int) -> SituationBuilder:
        """Play a card of the current player."""
        return self._do(Move("play", slot=slot))

    def discard(self, slot: int) -> SituationBuilder:
        """Discard a card of the current player."""
        return self._do(Move("discard", slot=slot))

    def discard_chop(self) -> SituationBuilder:
        """Discard the current player's oldest unhinted card."""
        return self.discard(chop(self.table, self.table.player))

    def hint(self, seat: int, *, color: int = -1, rank: int = -1) -> SituationBuilder:
        """Hint a colour or a rank to a seat."""
        offset = (seat - self.table.player) % self.table.rules.num_players
        if rank >= 0:
            return self._do(Move("rank", offset=offset, value=rank))
        return self._do(Move("color", offset=offset, value=color))

    def uninformative_hint(
        self, *kinds: Kind, after: int = 1, but: tuple[int, int] = (-1, -1)
    ) -> SituationBuilder:
        """Hint at random to the seat `after` seats on, any of `kinds` but `but`."""
        values = dict(zip(("color", "rank"), but, strict=True))
        moves = [decode_action(self.table.rules, hint) for hint in legal_hints(self.table)]
        fit = [
            move
            for move in moves
            if move.offset == after
            and move.kind in (kinds or values)
            and move.value != values[move.kind]
        ]
        if not fit:
            raise Rejected
        return self._do(fit[int(self.rng.integers(len(fit)))])

    def pass_turns(self, until: int) -> SituationBuilder:
        """Pass the turn to seat `until` without information to the tested seat: each seat discards
        its oldest card or, with all tokens available, hints a rank to the next seat."""
        while self.table.player != until:
            full = self.table.info_tokens == self.table.rules.max_info_tokens
            self.uninformative_hint("rank") if full else self.discard(0)
        return self

    def situation(self, target_card: int = -1) -> Situation:
        """The current position, with the current player as tested agent."""
        table = self.table
        return Situation(
            table.rules, tuple(table.deck), tuple(table.actions), table.player, target_card
        )

    def _do(self, move: Move) -> SituationBuilder:
        table, action = self.table, encode_action(self.table.rules, move)
        if table.illegal_reason(action) is not None:
            raise Rejected
        draws = self._draws[table.player]
        if move.kind in ("play", "discard") and draws:
            place = len(table.deck) - 1 - table.deck[::-1].index(draws.pop(0))
            table.deck.insert(table.drawn, table.deck.pop(place))
        table.apply(action)
        return self


def all_colors(rng: np.random.Generator) -> list[int]:
    """All colours in random order."""
    return [int(color) for color in rng.permutation(COLORS)]


def _build_instance(
    purpose: str, build: Build, seed: int, number: int, rules: Rules
) -> tuple[Situation, ...]:
    for attempt in range(_TRIES):
        try:
            return build(purpose_rng(purpose, seed, number, attempt), number, rules)
        except Rejected:
            continue
    raise AssertionError(f"{purpose}: no valid situation in {_TRIES} samples")


def _position(games: Games, game: int, matches: Callable[[PythonGame], bool]) -> Situation | None:
    table = PythonGame(games.rules, games.decks[game])
    for action in games.actions[game, : games.num_actions[game]].tolist():
        if matches(table):
            return Situation(games.rules, tuple(table.deck), tuple(table.actions), table.player)
        table.apply(action)
    return None


def _allowed(card: int, colors: Sequence[int], ranks: Sequence[int]) -> bool:
    color, rank = divmod(card, RANKS)
    return rank in PLAIN_RANKS and color not in colors and rank not in ranks
