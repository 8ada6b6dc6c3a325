"""`Games`, the record of games played or recorded, and `GameDataError`, what is wrong with one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hanabi_rl.games.hanabi.rules import Rules

PADDED_TURNS = 89  # AH2AC2 pads the games of every file to this length, and so do we


class GameDataError(ValueError):
    """Recorded games that are not what they should be: names file, game, turn and field, what was
    expected and got."""

    def __init__(
        self,
        problem: str,
        *,
        source: str = "games",
        field: str | None = None,
        game: int | None = None,
        game_id: int | None = None,
        turn: int | None = None,
    ) -> None:
        self.source, self.field, self.game, self.game_id, self.turn = (
            source,
            field,
            game,
            game_id,
            turn,
        )
        self.ended: str | None = None
        """How the game ended (`data.endings.Ending`), None where that is unknown."""
        where = [source]
        if game is not None:
            where.append(f"game {game}" + ("" if game_id is None else f" (game_id {game_id})"))
        if turn is not None:
            where.append(f"turn {turn}")
        if field is not None:
            where.append(field)
        super().__init__(f"{', '.join(where)}: {problem}")


def raise_invalid(error: GameDataError) -> None:
    """Raises it: what readers do with a game that is not what it should be, unless told."""
    raise error


OnInvalid = Callable[[GameDataError], None]
"""Is handed every such game's error; where it returns, that game alone is left out."""


class FinalStates(NamedTuple):
    """How N games ended."""

    points: np.ndarray  # int32[N], cards on the fireworks whether or not the lives were lost
    lives: np.ndarray  # int32[N], left


@dataclasses.dataclass(frozen=True, eq=False)
class Games:
    """N games of one set of rules, played here or recorded, as NumPy arrays. Seat 0 moves first;
    turns, games and slots count from 0.

    `unfinished` games stop, legally, before the rules end them and while points could still be
    scored: hanab.live ends a game itself where none can. `human_seats` says whose moves are
    worth cloning (None: everyone's), `players` who sat where (None: nobody knows), `seeds` the
    names that hanab.live's exports give the deals (empty: no name; None: no game has one).
    """

    rules: Rules
    decks: np.ndarray  # uint8[N, deck_size] card ids, top card first
    actions: np.ndarray  # int32[N, T] the mover's action; the no-op after the end
    num_actions: np.ndarray  # int32[N]
    scores: np.ndarray  # int32[N], 0 when all lives were lost
    game_ids: np.ndarray  # int32|int64[N]
    unfinished: np.ndarray  # bool[N]
    human_seats: np.ndarray | None = None  # bool[N, P]
    players: np.ndarray | None = None  # int32[N, P], the same number for the same player
    ends: FinalStates | None = (
        None  # where they are known; else `points` and `lives` replay the games
    )
    seeds: np.ndarray | None = None  # str[N], as exported: `data/seeds.py` compares the decks

    def __len__(self) -> int:
        return len(self.decks)

    def select(self, index: Sequence[int] | np.ndarray | slice) -> Games:
        """The games at `index` (integers, booleans or a slice), in that order."""
        if not isinstance(index, slice):
            index = np.asarray(index, None if len(index) else np.intp)  # no number has no kind
        ends = self.ends
        return dataclasses.replace(
            self,
            decks=self.decks[index],
            actions=self.actions[index],
            num_actions=self.num_actions[index],
            scores=self.scores[index],
            game_ids=self.game_ids[index],
            unfinished=self.unfinished[index],
            human_seats=None if self.human_seats is None else self.human_seats[index],
            players=None if self.players is None else self.players[index],
            seeds=None if self.seeds is None else self.seeds[index],
            ends=None if ends is None else FinalStates(ends.points[index], ends.lives[index]),
        )

    def check_rules(self, rules: Rules, where: str = "") -> None:
        """Raises ValueError where these are games of other rules; `where` they come from is said
        first (`--val: `, `FILE: `)."""
        if self.rules != rules:
            expected, got = rules.difference_from(self.rules), self.rules.difference_from(rules)
            raise ValueError(f"{where}expected games of {expected}, got {got}")

    def check_disjoint(self, others: Games, flag: str, other_flag: str) -> None:
        """Raises ValueError where one of these games is there among `others`, too: what is chosen
        by games is not to be learnt from or reported on them. The flags say which are which."""
        if known := len({*self.content_keys()} & {*others.content_keys()}):
            raise ValueError(
                f"{flag}: expected games that are not in {other_flag}, got {known} that are"
            )

    @property
    def points(self) -> np.ndarray:
        """int32[N]: cards on the fireworks at the end, whether or not the lives were lost."""
        return self._ended.points

    @property
    def lives(self) -> np.ndarray:
        """int32[N]: left at the end."""
        return self._ended.lives

    @cached_property
    def _ended(self) -> FinalStates:
        if self.ends is not None:
            return self.ends
        # Here alone, so that web workers read and write records without JAX.
        from hanabi_rl.games.hanabi.replay import replay_moves

        outcomes = replay_moves(self.rules, self.decks, self.actions, validate=False)
        at_end = np.arange(len(self)), self.num_actions - 1
        return FinalStates(
            np.asarray(outcomes.points)[at_end], np.asarray(outcomes.life_tokens)[at_end]
        )

    @cached_property
    def deck_ids(self) -> np.ndarray:
        """int64[N]: which of the different decks each game was dealt, in the order in which they
        first come; 0 to N - 1 where no deck comes twice. Decks that differ only in the seat that
        begins are one (`canonical_decks`). Games on one deck (its seatings, a site's seed that many
        play) are not independent: intervals count them as one."""
        dealt = canonical_decks(self.rules, self.decks)
        _, first, which = np.unique(dealt, axis=0, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[which.reshape(-1)]

    @property
    def num_decks(self) -> int:
        """Number of different decks, see `deck_ids`."""
        return int(self.deck_ids.max(initial=-1)) + 1

    def on_decks_of(self, others: Games) -> np.ndarray:
        """bool[N]: the game's deck is one of those of `others`, games of the same rules."""
        known = {deck.tobytes() for deck in canonical_decks(others.rules, others.decks)}
        mine = canonical_decks(self.rules, self.decks)
        return np.array([deck.tobytes() in known for deck in mine], bool)

    def content_keys(self) -> list[bytes]:
        """What makes each game the one it is: its deck and its moves, not its number.

        The seat that begins is part of it: of one deal dealt to other seats the same moves are
        another game, as seat 0 moves first and moves name slots and seats from the mover's.
        """
        return [
            self.decks[game].tobytes() + self.moves(game).astype(np.int32).tobytes()
            for game in range(len(self))
        ]

    def moves(self, game: int) -> np.ndarray:
        """int32[num_actions]: the actions of one game, without the padding."""
        return self.actions[game, : self.num_actions[game]]


def rotated_orders(rules: Rules, start: int) -> list[int]:
    """New deck index of each old one once seat `start` is seat 0, int[deck_size]: whole hands are
    dealt from seat 0 on."""
    size, players = rules.hand_size, rules.num_players
    dealt = size * players
    return [
        (order - start * size) % dealt if order < dealt else order
        for order in range(rules.deck_size)
    ]


def rotated_decks(rules: Rules, decks: np.ndarray) -> np.ndarray:
    """Return `decks` [N, deck_size] with each seat in turn as seat 0, [N, P, deck_size]."""
    return decks[:, _rotations(rules)]


def _rotations(rules: Rules) -> np.ndarray:
    """Old deck index of each new one, with each seat in turn as seat 0, int[P, deck_size]."""
    seats = range(rules.num_players)
    return np.array([np.argsort(rotated_orders(rules, start)) for start in seats])


def canonical_decks(rules: Rules, decks: np.ndarray) -> np.ndarray:
    """Return one deck for all that differ only in the seat that begins, [N, deck_size].

    It is the rotation of the dealt hands that sorts first. hanab.live deals from its own seat 0,
    whichever seat begins, and here seat 0 begins: one deal of the site is up to P decks.
    """
    least, rows = decks, np.arange(len(decks))
    for order in _rotations(rules)[1:]:
        deck = decks[:, order]
        place = np.argmax(deck != least, axis=1)  # the first card that differs
        least = np.where((deck[rows, place] < least[rows, place])[:, None], deck, least)
    return least


def concatenate_games(parts: Sequence[Games]) -> Games:
    """All games of several records of one set of rules, in order, padded to the longest; unmarked
    seats count as human, and nobody of one record is anybody of another.

    Raises ValueError where there is nothing to join or the rules differ.
    """
    if not parts:
        raise ValueError("expected games to join, got none")
    first = parts[0]
    for part in parts:
        if part.rules != first.rules:
            raise ValueError(
                "expected games of one set of rules, got games of "
                f"{first.rules.difference_from(part.rules)} and of "
                f"{part.rules.difference_from(first.rules)}"
            )
    longest = max(part.actions.shape[1] for part in parts)
    noop, players = first.rules.noop, first.rules.num_players
    padded = [
        np.pad(part.actions, ((0, 0), (0, longest - part.actions.shape[1])), constant_values=noop)
        for part in parts
    ]
    seats = [
        np.ones((len(part), players), bool) if part.human_seats is None else part.human_seats
        for part in parts
    ]
    ends = [part.ends for part in parts if part.ends is not None]
    return Games(
        rules=first.rules,
        decks=np.concatenate([part.decks for part in parts]),
        actions=np.concatenate(padded),
        num_actions=np.concatenate([part.num_actions for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
        game_ids=np.concatenate([part.game_ids for part in parts]),
        unfinished=np.concatenate([part.unfinished for part in parts]),
        human_seats=None
        if all(part.human_seats is None for part in parts)
        else np.concatenate(seats),
        players=_join_players(parts),
        seeds=None
        if all(part.seeds is None for part in parts)
        else np.concatenate(
            [np.full(len(part), "") if part.seeds is None else part.seeds for part in parts]
        ),
        ends=None
        if len(ends) < len(parts)
        else FinalStates(*(np.concatenate(column) for column in zip(*ends, strict=True))),
    )


def _join_players(parts: Sequence[Games]) -> np.ndarray | None:
    """int32[N, P]: numbers of every record's own, those of one that does not know them of every
    game's; None where none knows them."""
    if all(part.players is None for part in parts):
        return None
    rows, free = [], 0
    for part in parts:
        row = part.players
        if row is None:
            row = np.arange(part.actions.shape[0] * part.rules.num_players)
            row = row.reshape(-1, part.rules.num_players)
        _, numbers = np.unique(row, return_inverse=True)
        rows.append(numbers.reshape(row.shape) + free)
        free += int(numbers.max(initial=-1)) + 1
    return np.concatenate(rows).astype(np.int32)


def pad_moves(rules: Rules, moves: Sequence[np.ndarray]) -> np.ndarray:
    """int32[N, T]: the games' moves, padded with the no-op to `PADDED_TURNS` or to a longer game's
    length."""
    longest = max((len(game) for game in moves), default=0)
    padded = np.full((len(moves), max(PADDED_TURNS, longest)), rules.noop, np.int32)
    for row, game in zip(padded, moves, strict=True):
        row[: len(game)] = game
    return padded
