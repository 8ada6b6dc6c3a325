"""Situations of the unit tests: a deck and moves that both seats are made to take, from the first
turn, so that whoever remembers has really seen them.

Crafted ones fix some places of the deck and leave the rest to chance; mined ones are positions of
recorded games. Colours are renamed and slots vary from instance to instance. Two players, the
standard game. After Knott et al. 2021 (arXiv 2101.05507), section 4; the situations are ours.

Words: `x`, `a` to `d` are different colours, ranks count from 0, slots from the oldest, 0. *Plain*
is a 2, 3 or 4. Seat 0 is dealt places 0 to 4 of the deck, seat 1 places 5 to 9.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hanabi_rl.env.actions import Move, decode, encode, encode_action
from hanabi_rl.env.game import Rules
from hanabi_rl.env.table import Table, full_deck
from hanabi_rl.measure.scripts import (
    certain_slots,
    chop,
    dead_slots,
    is_last_copy,
    last_copy_slots,
    legal_actions,
    legal_hints,
)

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games

RULES = Rules()
HAND, PLAIN = RULES.hand_size, (1, 2, 3)
_TRIES = 1000


class Situation(NamedTuple):
    """A position that was played out."""

    deck: tuple[int, ...]
    """Card ids, top first."""
    prefix: tuple[int, ...]
    """Actions of both seats in turn, from the first; the tested seat moves next."""
    seat: int
    """Of the tested agent."""
    marked: int = -1
    """The place in the deck of the card that the test is about; -1: of none."""

    def table(self) -> Table:
        """The position."""
        table = Table(RULES, self.deck)
        for action in self.prefix:
            table.apply(action)
        return table


Build = Callable[[np.random.Generator, int], Situation]
"""(chance, the number of the instance) -> a situation. Raises `Unfit` where chance was against
it."""


class Unfit(Exception):  # noqa: N818 - no error: another draw is tried
    """What was drawn does not make the situation."""


def instances(build: Build, count: int, seed: int) -> list[Situation]:
    """`count` situations, each on a deck of its own: a function of the seed and its number."""
    return [_drawn(build, seed, number) for number in range(count)]


def stream(purpose: str, *numbers: int) -> np.random.Generator:
    """Chance for one purpose alone: no two purposes share their numbers."""
    return np.random.default_rng([zlib.crc32(purpose.encode()), len(numbers), *numbers])


def mined(games: Games, fits: Callable[[Table], bool], count: int, seed: int) -> list[Situation]:
    """Positions of recorded games that fit the mover, one a game at most, with the colours renamed.
    Fewer than `count` where the games have no more."""
    found: list[Situation] = []
    for game in range(len(games)):
        rng = stream("mined", seed, game)
        position = _position(games, game, fits)
        if position is not None:
            found.append(renamed(position, rng.permutation(RULES.num_colors)))
        if len(found) == count:
            break
    return found


def renamed(situation: Situation, colors: np.ndarray) -> Situation:
    """The same with colour c called `colors[c]`."""
    color, rank = np.divmod(np.array(situation.deck), RULES.num_ranks)
    moves = decode(RULES, np.array(situation.prefix, int))
    value = np.where(moves.is_color_hint, colors[moves.value % RULES.num_colors], moves.value)
    return situation._replace(
        deck=tuple((colors[color] * RULES.num_ranks + rank).tolist()),
        prefix=tuple(encode(RULES, moves._replace(value=value)).tolist()),
    )


def ripe(table: Table) -> bool:
    """S2: late, deck and lives left, the mover has a certain card, and its partner's chop is no
    great loss."""
    other = 1 - table.player
    lost = table.deck[table.hands[other][chop(table, other)]]
    return (
        table.turn >= 20
        and table.drawn < RULES.deck_size
        and table.life_tokens >= 2
        and bool(certain_slots(table, table.player))
        and not is_last_copy(table, lost)
        and lost % RULES.num_ranks != 1
    )


def last_turn(table: Table) -> bool:
    """S8: nobody moves after the mover, who has a certain card."""
    return table.turns_left == 1 and bool(certain_slots(table, table.player))


def play_the_known(rng: np.random.Generator, number: int) -> Situation:
    """S1: the agent, second, is told its 1 by colour and by rank."""
    x, slot = _colors(rng)[0], number % HAND
    deal = _Deal(rng, {HAND + slot: (x, 0)}, plain=10, colors=_each(range(5, 10), x))
    deal.hint(color=x).any_rank_hint().hint(rank=0)
    return deal.situation(marked=HAND + slot)


def ones_at_the_start(rng: np.random.Generator, number: int) -> Situation:
    """S3: one to three 1s of different colours, told by rank."""
    colors = _colors(rng)[: 1 + number % 3]
    slots = rng.permutation(HAND)[: len(colors)]
    fixed = {HAND + int(slot): (color, 0) for slot, color in zip(slots, colors, strict=True)}
    return _Deal(rng, fixed, plain=10).hint(rank=0).situation()


def throw_the_dead_card(rng: np.random.Generator, number: int) -> Situation:
    """S4: the partner plays the twin of a card that the agent is then told in full."""
    x, slot = _colors(rng)[0], number % HAND
    fixed = {0: (x, 0), HAND + slot: (x, 0)}
    deal = _Deal(rng, fixed, plain=16, colors=_each(range(5, 10), x))
    situation = deal.play(0).tell_to_no_tokens(x, 0).situation()
    dead = dead_slots(situation.table(), situation.seat)
    return _if(0 < len(dead) < HAND, situation)


def keep_the_last_copy(rng: np.random.Generator, number: int) -> Situation:
    """S5: the agent is told its 5 in full, and there are no tokens."""
    (x, y, *_), slot = _colors(rng), number % HAND
    fixed = {0: (y, 0), HAND + slot: (x, 4)}
    deal = _Deal(rng, fixed, plain=16, colors=_each(range(5, 10), x))
    situation = deal.play(0).tell_to_no_tokens(x, 4).situation(marked=HAND + slot)
    kept = last_copy_slots(situation.table(), situation.seat)
    return _if(0 < len(kept) < HAND, situation)


def last_life(rng: np.random.Generator, number: int) -> Situation:
    """S6: the partner has lost two lives; the agent was never told anything."""
    x, slot = _colors(rng)[0], number % HAND
    places = rng.permutation(HAND)[:2]
    fours = _colors(rng)[:2]
    fixed = {int(place): (color, 3) for place, color in zip(places, fours, strict=True)}
    deal = _Deal(rng, fixed | {HAND + slot: (x, 0)}, plain=16)
    first, second = sorted(int(place) for place in places)
    deal.play(first).any_hint().play(second - 1).play(slot).discard(0)
    return deal.situation()


def never_the_impossible(rng: np.random.Generator, number: int) -> Situation:
    """S7: the agent is told the rank of its one 3, or 4, while no firework has begun."""
    rank, slot, x = 2 + number % 2, int(rng.integers(HAND)), _colors(rng)[0]
    others = [i for i in range(HAND) if i != slot]
    deal = _Deal(
        rng, {HAND + slot: (x, rank)}, plain=10, ranks=_each([HAND + i for i in others], rank)
    )
    return deal.hint(rank=rank).situation()


def strange_table(rng: np.random.Generator, number: int) -> Situation:
    """S9: four 1s were played without a word; the agent is told its 2."""
    (a, b, c, d, *_), slot = _colors(rng), number % 3
    fixed = {0: (a, 0), 1: (b, 0), 8: (c, 0), 9: (d, 0), HAND + slot: (a, 1)}
    mine = [place for place in (*range(5, 10), 11, 13) if place != HAND + slot]
    theirs = [*range(5), 10, 12]
    deal = _Deal(
        rng,
        fixed,
        plain=16,
        colors=_each(mine, a),
        ranks=_each((*mine, *theirs), 1),
    )
    deal.play(0).play(3).play(0).play(3).hint(color=a).any_hint().hint(rank=1)
    return deal.situation(marked=HAND + slot)


def too_late(rng: np.random.Generator, number: int) -> Situation:
    """S10: both hold the same 1 and know it; the partner has played its own."""
    x, slot = _colors(rng)[0], number % HAND
    deal = _Deal(rng, {2: (x, 0), HAND + slot: (x, 0)}, plain=12, colors=_each(range(12), x))
    deal.hint(color=x).hint(color=x).hint(rank=0).hint(rank=0).any_hint(other_than=(x, 0))
    return deal.play(slot).situation(marked=2)


def partner_already_knows(rng: np.random.Generator, number: int) -> Situation:
    """A1: the partner was told three 1s and has just played one; another is certain."""
    a, b, c, *_ = _colors(rng)
    slots = rng.permutation(HAND)[:3]
    fixed = {HAND + int(s): (color, 0) for s, color in zip(slots, (a, b, c), strict=True)}
    others = [HAND + i for i in range(HAND) if HAND + i not in fixed]
    deal = _Deal(rng, fixed, plain=14, colors=_each(others, a, b, c))
    deal.hint(color=a).any_rank_hint().hint(color=b).any_rank_hint().hint(rank=0)
    situation = deal.play(int(slots[0])).situation()
    return _if(bool(certain_slots(situation.table(), 1)), situation)


def save_the_next_discard(rng: np.random.Generator, number: int) -> Situation:
    """A2: the partner's oldest card, which it will discard, is a 5, or a 3 whose twin is gone."""
    (x, y, *_), slot = _colors(rng), 1 + number % (HAND - 1)
    no_fours = _each([HAND + i for i in range(HAND) if i != slot], 3)
    if number % 2:
        fixed = {0: (x, 4), HAND + slot: (y, 3)}
        return _Deal(rng, fixed, plain=14, ranks=no_fours).hint(rank=3).situation(marked=0)
    fixed = {0: (x, 2), HAND: (x, 2), HAND + slot: (y, 3)}
    deal = _Deal(rng, fixed, plain=14, ranks=no_fours | {10: (3,)})
    return deal.hint(rank=3).discard(0).hint(rank=3).situation(marked=0)


def tell_the_blind(rng: np.random.Generator, number: int) -> Situation:
    """A3: the opening; the partner has one 1, and nobody knows anything."""
    place = HAND + number % HAND
    return _Deal(rng, {place: (_colors(rng)[0], 0)}, plain=10).situation(marked=place)


def ignored_hint(rng: np.random.Generator, number: int) -> Situation:
    """M1: the partner was told its 1 in full, twice, and has discarded three times since."""
    x, slot = _colors(rng)[0], 2 + number % 3
    deal = _Deal(rng, {HAND + slot: (x, 0)}, plain=16, colors=_each(range(16), x))
    for _ in range(2):
        deal.hint(color=x).any_rank_hint().hint(rank=0)
        deal.any_rank_hint() if deal.table.info_tokens > 1 else None
    for _ in range(2):
        deal.discard_chop().discard(0)
    return deal.discard_chop().situation(marked=HAND + slot)


def random_partner(rng: np.random.Generator, number: int) -> Situation:
    """M2: nine moves of a partner who hints and discards at random."""
    del number
    deal = _Deal(rng, {}, plain=0)
    for turn in range(17):
        deal.discard(0) if turn % 2 else deal.random_hint_or_discard()
    return deal.situation()


def absent_partner(rng: np.random.Generator, number: int) -> Situation:
    """M3: the agent was told 1, 2 and 3 of one colour in full by a partner who then goes away."""
    del number
    x, slots = _colors(rng)[0], rng.permutation(HAND)[:3]
    fixed = {HAND + int(slot): (x, rank) for rank, slot in enumerate(slots)}
    others = [HAND + i for i in range(HAND) if HAND + i not in fixed]
    deal = _Deal(
        rng,
        fixed,
        plain=10,
        colors=_each(others, x),
        ranks=_each(others, 1, 2),
    )
    deal.hint(color=x).any_rank_hint().hint(rank=0).any_rank_hint().hint(rank=1).any_rank_hint()
    return deal.hint(rank=2).situation()


class _Deal:
    """A deck that is partly given, and the moves that are made on it.

    `fixed`: place -> (colour, rank). The first `plain` other places hold plain cards. No card at a
    place is of its `colors` or `ranks`. Raises Unfit where the cards do not suffice, or a move is
    not legal.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        fixed: Mapping[int, tuple[int, int]],
        *,
        plain: int,
        colors: Mapping[int, Sequence[int]] | None = None,
        ranks: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        left = [int(card) for card in rng.permutation(np.array(full_deck(RULES)))]
        deck: dict[int, int] = {}
        for place, (color, rank) in fixed.items():
            deck[place] = color * RULES.num_ranks + rank
            left.remove(deck[place])
        for place in range(plain):
            if place not in deck:
                banned = (colors or {}).get(place, ()), (ranks or {}).get(place, ())
                deck[place] = next((card for card in left if _allowed(card, *banned)), -1)
                if deck[place] < 0:
                    raise Unfit
                left.remove(deck[place])
        rest = iter(left)
        self.rng = rng
        self.table = Table(
            RULES, [deck[i] if i in deck else next(rest) for i in range(RULES.deck_size)]
        )
        self._moves: list[int] = []

    def play(self, slot: int) -> _Deal:
        """The mover plays a card."""
        return self._do(encode_action(RULES, Move("play", slot=slot)))

    def discard(self, slot: int) -> _Deal:
        """The mover discards a card."""
        return self._do(encode_action(RULES, Move("discard", slot=slot)))

    def discard_chop(self) -> _Deal:
        """The mover discards its oldest card that no hint has touched."""
        return self.discard(chop(self.table, self.table.player))

    def hint(self, *, color: int | None = None, rank: int | None = None) -> _Deal:
        """The mover tells the other player a colour or a rank."""
        move = Move("rank", offset=1, value=rank) if rank is not None else None
        move = move or Move("color", offset=1, value=-1 if color is None else color)
        return self._do(encode_action(RULES, move))

    def any_rank_hint(self) -> _Deal:
        """... the rank of some card."""
        return self._one_of(self._hints("rank"))

    def any_hint(self, *, other_than: tuple[int, int] = (-1, -1)) -> _Deal:
        """... anything but this colour and this rank."""
        color, rank = other_than
        colors = [(hint, value) for hint, value in self._valued("color") if value != color]
        ranks = [(hint, value) for hint, value in self._valued("rank") if value != rank]
        return self._one_of([hint for hint, _ in colors + ranks])

    def random_hint_or_discard(self) -> _Deal:
        """The mover hints or discards, all such moves being equally likely."""
        plays = range(HAND, 2 * HAND)
        return self._one_of([a for a in legal_actions(self.table) if a not in plays])

    def tell_to_no_tokens(self, color: int, rank: int) -> _Deal:
        """The second player hints anything, the first this colour and this rank in turn, until the
        second is to move without a token."""
        told = 0
        while self.table.info_tokens:
            self.any_rank_hint()
            self.hint(color=color) if told % 2 == 0 else self.hint(rank=rank)
            told += 1
        return self

    def situation(self, marked: int = -1) -> Situation:
        """The position now, the mover being the tested agent."""
        return Situation(tuple(self.table.deck), tuple(self._moves), self.table.player, marked)

    def _hints(self, kind: str) -> list[int]:
        return [hint for hint, _ in self._valued(kind)]

    def _valued(self, kind: str) -> list[tuple[int, int]]:
        moves = decode(RULES, np.array(legal_hints(self.table), int))
        right = moves.is_color_hint if kind == "color" else moves.is_rank_hint
        found = zip(legal_hints(self.table), moves.value.tolist(), right, strict=True)
        return [(hint, value) for hint, value, is_right in found if is_right]

    def _one_of(self, actions: Sequence[int]) -> _Deal:
        if not actions:
            raise Unfit
        return self._do(int(self.rng.choice(actions)))

    def _do(self, action: int) -> _Deal:
        if self.table.illegal_reason(action) is not None:
            raise Unfit
        self.table.apply(action)
        self._moves.append(action)
        return self


def _drawn(build: Build, seed: int, number: int) -> Situation:
    for attempt in range(_TRIES):
        try:
            return build(stream(build.__name__, seed, number, attempt), number)
        except Unfit:
            continue
    raise AssertionError(f"{build.__name__} does not fit in {_TRIES} draws")


def _position(games: Games, game: int, fits: Callable[[Table], bool]) -> Situation | None:
    """The first position of a recorded game that fits."""
    deck, table = games.decks[game].tolist(), Table(RULES, games.decks[game])
    moves = games.actions[game, : games.num_actions[game]].tolist()
    for turn, action in enumerate(moves):
        if fits(table):
            return Situation(tuple(deck), tuple(moves[:turn]), table.player)
        table.apply(action)
    return None


def _colors(rng: np.random.Generator) -> list[int]:
    """All colours, in a random order."""
    return [int(color) for color in rng.permutation(RULES.num_colors)]


def _each(places: Sequence[int], *values: int) -> dict[int, tuple[int, ...]]:
    return dict.fromkeys(places, values)


def _allowed(card: int, colors: Sequence[int], ranks: Sequence[int]) -> bool:
    color, rank = divmod(card, RULES.num_ranks)
    return rank in PLAIN and color not in colors and rank not in ranks


def _if(holds: bool, situation: Situation) -> Situation:
    if not holds:
        raise Unfit
    return situation
