"""`Games`, the container of recorded games, and `GameDataError`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hanabi_rl.games.hanabi.rules import Rules

PADDED_TURNS = 89  # AH2AC2 pads all games to this length


class GameDataError(ValueError):
    """Invalid recorded games; names file, game, turn, field, and the expected and actual value."""

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
        self.source, self.field, self.turn = source, field, turn
        self.game, self.game_id = game, game_id
        self.ended: str | None = None
        """Ending of the game (`data.endings.Ending`), None if unknown."""
        where = [source]
        if game is not None:
            where.append(f"game {game}" + ("" if game_id is None else f" (game_id {game_id})"))
        if turn is not None:
            where.append(f"turn {turn}")
        if field is not None:
            where.append(field)
        super().__init__(f"{', '.join(where)}: {problem}")


def raise_invalid(error: GameDataError) -> None:
    """Default of `on_invalid`: raise the error."""
    raise error


OnInvalid = Callable[[GameDataError], None]
"""Receives the error of each invalid game; if it returns, that game is skipped."""


class FinalStates(NamedTuple):
    """Final states of N games."""

    points: np.ndarray  # int32[N], cards on the fireworks, even if all lives were lost
    lives: np.ndarray  # int32[N], lives left


@dataclasses.dataclass(frozen=True, eq=False)
class Games:
    """N games of one set of rules, as NumPy arrays; turns, games and slots count from 0.

    Seat 0 moves first. An `unfinished` game stops, legally, before the rules end it and while
    points can still be scored (hanab.live ends a game when none can). `human_seats` marks the seats
    to clone (None: all), `players` identifies the players (None: unknown), `seeds` holds
    hanab.live's names of the deals ("": none; None: no game has one).
    """

    rules: Rules
    decks: np.ndarray  # uint8[N, deck_size] card ids, top card first
    actions: np.ndarray  # int32[N, T], action of the current player; the no-op after the end
    num_actions: np.ndarray  # int32[N]
    scores: np.ndarray  # int32[N], 0 if all lives were lost
    game_ids: np.ndarray  # int32 or int64 [N]
    unfinished: np.ndarray  # bool[N]
    human_seats: np.ndarray | None = None  # bool[N, P]
    players: np.ndarray | None = None  # int32[N, P], equal numbers for the same player
    ends: FinalStates | None = None  # None: `points` and `lives` replay the games
    seeds: np.ndarray | None = None  # str[N], as exported; `data/seeds.py` verifies them

    def __len__(self) -> int:
        return len(self.decks)

    def select(self, index: Sequence[int] | np.ndarray | slice) -> Games:
        """Games at `index` (integers, booleans or a slice), in that order."""
        if not isinstance(index, slice):
            # an empty list has no integer dtype
            index = np.asarray(index, None if len(index) else np.intp)
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
        """Raise ValueError for other rules; `where` starts the message (`--val: `, `FILE: `)."""
        if self.rules != rules:
            expected, got = rules.difference_from(self.rules), self.rules.difference_from(rules)
            raise ValueError(f"{where}expected games of {expected}, got {got}")

    def check_disjoint(self, others: Games, flag: str, other_flag: str) -> None:
        """Raise ValueError if any of these games is also in `others`. Games used for model
        selection must not be used for training or evaluation."""
        if known := len({*self.content_keys()} & {*others.content_keys()}):
            raise ValueError(f"{flag}: expected games not in {other_flag}, got {known} of them")

    @property
    def points(self) -> np.ndarray:
        """Cards on the fireworks at the end, even if all lives were lost, int32[N]."""
        return self._ended.points

    @property
    def lives(self) -> np.ndarray:
        """Lives left at the end, int32[N]."""
        return self._ended.lives

    @cached_property
    def _ended(self) -> FinalStates:
        if self.ends is not None:
            return self.ends
        # local import: web workers read and write records without JAX
        from hanabi_rl.games.hanabi.replay import replay_moves

        outcomes = replay_moves(self.rules, self.decks, self.actions, validate=False)
        at_end = np.arange(len(self)), self.num_actions - 1
        return FinalStates(
            np.asarray(outcomes.points)[at_end], np.asarray(outcomes.life_tokens)[at_end]
        )

    @cached_property
    def deck_ids(self) -> np.ndarray:
        """Index of each game's deck among the different decks, by first occurrence, int64[N].

        Decks that differ only in the starting seat are equal (`canonical_decks`). Games on one deck
        are not independent: intervals count them as one.
        """
        dealt = canonical_decks(self.rules, self.decks)
        _, first, which = np.unique(dealt, axis=0, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[which.reshape(-1)]

    @property
    def num_decks(self) -> int:
        """Number of different decks, see `deck_ids`."""
        return int(self.deck_ids.max(initial=-1)) + 1

    def on_decks_of(self, others: Games) -> np.ndarray:
        """bool[N], True if the game's deck occurs in `others`, games of the same rules."""
        known = {deck.tobytes() for deck in canonical_decks(others.rules, others.decks)}
        mine = canonical_decks(self.rules, self.decks)
        return np.array([deck.tobytes() in known for deck in mine], bool)

    def content(self) -> tuple[Any, ...]:
        """Arrays that identify the games."""
        return self.decks, self.actions, self.human_seats, self.players

    def content_keys(self) -> list[bytes]:
        """Key of each game's deck and moves, without its id.

        The starting seat counts: the same moves on a deal dealt to other seats are another game,
        because moves name slots and seats relative to the current player.
        """
        return [
            self.decks[game].tobytes() + self.moves(game).astype(np.int32).tobytes()
            for game in range(len(self))
        ]

    def moves(self, game: int) -> np.ndarray:
        """Actions of one game without padding, int32[num_actions]."""
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
    """`decks` [N, deck_size] with each seat in turn as seat 0, [N, P, deck_size]."""
    return decks[:, _rotations(rules)]


def _rotations(rules: Rules) -> np.ndarray:
    """Old deck index of each new one, with each seat in turn as seat 0, int[P, deck_size]."""
    seats = range(rules.num_players)
    return np.array([np.argsort(rotated_orders(rules, start)) for start in seats])


def canonical_decks(rules: Rules, decks: np.ndarray) -> np.ndarray:
    """One representative of all decks that differ only in the starting seat, [N, deck_size].

    It is the rotation of the dealt hands that sorts first. hanab.live deals from its seat 0 even if
    another seat starts; here seat 0 starts, so one deal of the site gives up to P decks.
    """
    lowest, rows = decks, np.arange(len(decks))
    for order in _rotations(rules)[1:]:
        deck = decks[:, order]
        place = np.argmax(deck != lowest, axis=1)  # first card that differs
        lowest = np.where((deck[rows, place] < lowest[rows, place])[:, None], deck, lowest)
    return lowest


def concatenate_games(parts: Sequence[Games]) -> Games:
    """Concatenate games of one set of rules, padded to the longest.

    Seats without `human_seats` count as human; players of different parts count as different.
    Raises ValueError for no parts or different rules.
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
    """int32[N, P], numbers disjoint between parts; unknown players get a number per game and seat;
    None if all parts lack players."""
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
    """Moves of N games, int32[N, T], padded with the no-op to `PADDED_TURNS` or the longest
    game."""
    longest = max((len(game) for game in moves), default=0)
    padded = np.full((len(moves), max(PADDED_TURNS, longest)), rules.noop, np.int32)
    for row, game in zip(padded, moves, strict=True):
        row[: len(game)] = game
    return padded
