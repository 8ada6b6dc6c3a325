"""`Rules`: the parameters of a game of Hanabi and derived numbers."""

from __future__ import annotations

import dataclasses
import operator
from functools import cached_property
from typing import Any, ClassVar

RULES_VERSION = 1
"""Raised whenever the same deck and actions could score differently: cached games depend on it."""
OBSERVATION_VERSION = 1
"""Version of the layout of observations; a network trained on one cannot read another."""

_WORDS = {
    "num_players": "{} players",
    "num_colors": "{} colours",
    "num_ranks": "{} ranks",
    "hand_size": "hands of {}",
    "max_info_tokens": "{} hint tokens",
    "max_life_tokens": "{} lives",
    "num_cards_of_rank": "copies {} of the ranks",
}


@dataclasses.dataclass(frozen=True)
class Rules:
    """Number of players, cards and tokens of a game. Hashable, so static under `jax.jit`.

    `hand_size` and `num_cards_of_rank` have standard values by default: 5 cards for 2 or 3 players,
    otherwise 4; three copies of the lowest rank, one of the highest, two of the others.

    Raises:
        ValueError: the numbers do not make a game.
    """

    name: ClassVar[str] = "hanabi"
    observation_version: ClassVar[int] = OBSERVATION_VERSION
    is_greedy: ClassVar[bool] = True
    seats_alike: ClassVar[bool] = True

    num_players: int = 2
    """Number of players, 2 to 5."""
    num_colors: int = 5
    """Number of colours."""
    num_ranks: int = 5
    """Number of ranks, which is the maximum score per colour."""
    hand_size: int = None  # type: ignore[assignment]  # never None after __post_init__
    """Cards per hand; default 5 for 2 or 3 players, otherwise 4."""
    max_info_tokens: int = 8
    """Maximum number of hint tokens, which is also the initial number."""
    max_life_tokens: int = 3
    """Number of lives."""
    num_cards_of_rank: tuple[int, ...] = None  # type: ignore[assignment]  # never None after __post_init__
    """Copies of each rank per colour; default 3 of the lowest, 1 of the highest, 2 of the
    others."""

    def __post_init__(self) -> None:
        self._set_numbers()
        copies = self.num_cards_of_rank
        if copies is None:
            copies = _standard_copies(self.num_ranks)
        try:
            copies = tuple(int(operator.index(number)) for number in copies)
        except TypeError:
            raise ValueError(f"num_cards_of_rank must be integers, got {copies!r}") from None
        object.__setattr__(self, "num_cards_of_rank", copies)
        self._check()

    def _set_numbers(self) -> None:
        """Convert integers of any kind (NumPy's) to plain ones, which JSON supports."""
        for field, low, high in (
            ("num_players", 2, 5),
            ("num_colors", 1, 15),
            ("num_ranks", 1, 15),
            ("hand_size", 1, 8),
            ("max_info_tokens", 1, 32),
            ("max_life_tokens", 1, 32),
        ):
            value = getattr(self, field)
            if field == "hand_size" and value is None:
                value = _standard_hand_size(self.num_players)
            try:
                number = int(operator.index(value))
            except TypeError:
                number = low - 1
            if not low <= number <= high:
                raise ValueError(f"{field} must be {low} to {high}, got {value!r}")
            object.__setattr__(self, field, number)

    def _check(self) -> None:
        colors, ranks, copies = self.num_colors, self.num_ranks, self.num_cards_of_rank
        if colors * ranks > 31 or colors + ranks > 16:
            raise ValueError(
                f"num_colors={colors} and num_ranks={ranks} must multiply to at most 31 and add "
                "to at most 16"
            )
        if self.hand_size * (max(colors, ranks) + 1) > 31:
            raise ValueError(
                f"hand_size={self.hand_size} times one more than the larger of "
                f"num_colors={colors} and "
                f"num_ranks={ranks} must be at most 31: a hand is kept in one word of bits"
            )
        if len(copies) != ranks or min(copies) < 1:
            raise ValueError(
                f"num_cards_of_rank must have {ranks} entries of at least 1, got {copies}"
            )
        if not self.num_players * self.hand_size <= self.deck_size <= 255:
            raise ValueError(
                f"the deck must have {self.num_players * self.hand_size} to 255 cards "
                f"({self.num_players} hands of {self.hand_size} at least), got {self.deck_size}"
            )

    def replace(self, **changes: Any) -> Rules:
        """Copy with some fields changed.

        Standard hand sizes and copies of ranks follow the new number of players and ranks; None
        selects the standard values. Raises ValueError as `Rules` does.
        """
        return Rules(**(self._chosen() | changes))

    def differing_fields(self, other: Any) -> tuple[str, ...]:
        """Fields in which this game differs from `other`, without hand sizes and copies of ranks
        that are standard in both; `name` if `other` is not Hanabi."""
        if not isinstance(other, Rules):
            return ("name",)
        ours, theirs = self._chosen(), other._chosen()
        apart = [name for name in ours if ours[name] != theirs[name]]
        return tuple(name for name in apart if getattr(self, name) != getattr(other, name))

    def difference_from(self, other: Any) -> str:
        """Difference from another game as text for errors: `3 players`, `3 players and 4
        colours`."""
        fields = self.differing_fields(other)
        if fields == ("name",):
            return self.name
        *words, last = (_WORDS[name].format(getattr(self, name)) for name in fields)
        return f"{', '.join(words)} and {last}" if words else last

    def _chosen(self) -> dict[str, Any]:
        """Fields; None for those with derived values."""
        fields = dataclasses.asdict(self)
        if self.hand_size == _standard_hand_size(self.num_players):
            fields["hand_size"] = None
        if self.num_cards_of_rank == _standard_copies(self.num_ranks):
            fields["num_cards_of_rank"] = None
        return fields

    @property
    def is_standard(self) -> bool:
        """True for the standard game, as on hanab.live and in papers."""
        return self == Rules(num_players=self.num_players)

    @cached_property
    def deck_size(self) -> int:
        """Cards in the game: 50 in the standard one."""
        return self.num_colors * sum(self.num_cards_of_rank)

    @property
    def num_cards(self) -> int:
        """Number of card types: the highest card id plus one."""
        return self.num_colors * self.num_ranks

    @property
    def max_score(self) -> int:
        """Maximum score: 25 in the standard game."""
        return self.num_cards

    @property
    def min_pair_score(self) -> float:
        """Mean score up to which a partner and its best response count as unable to play."""
        return 0.05 * self.max_score

    @property
    def num_actions(self) -> int:
        """Number of actions, the no-op included: 21, 31, 39 and 49 for 2 to 5 players."""
        return 2 * self.hand_size + (self.num_players - 1) * (self.num_colors + self.num_ranks) + 1

    @property
    def noop(self) -> int:
        """Id of the no-op, the last action: used by idle seats."""
        return self.num_actions - 1

    @property
    def max_turns(self) -> int:
        """Upper bound on the moves of a legal game: 89 in the standard 2-player game.

        Every draw but the last can be a discard that pays for one more hint; after the last draw
        each player moves once.
        """
        draws = self.deck_size - self.num_players * self.hand_size
        return (
            self.max_info_tokens + 2 * draws - 1 + self.num_players
            if draws
            else self.num_players + 1
        )

    @cached_property
    def obs_size(self) -> int:
        """Length of an observation: 658, 956, 1041 and 1280 for 2 to 5 players (see `observe`)."""
        players, hand = self.num_players, self.hand_size
        hands = (players - 1) * hand * self.num_cards + players
        board = (
            self.deck_size
            - players * hand
            + self.num_cards
            + self.max_info_tokens
            + self.max_life_tokens
        )
        last_action = (
            2 * players + 4 + self.num_colors + self.num_ranks + 2 * hand + self.num_cards + 2
        )
        return hands + board + self.deck_size + last_action + players * hand * self.card_features

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one player's observation."""
        return (self.obs_size,)

    @property
    def max_steps(self) -> int:
        """Upper bound on the moves of a game."""
        return self.max_turns

    @property
    def card_features(self) -> int:
        """Length of one card's belief part of an observation: 35 in the standard game."""
        return self.num_cards + self.num_colors + self.num_ranks

    @cached_property
    def all_cards(self) -> int:
        """Set of all card types, as a word of bits."""
        return (1 << self.num_cards) - 1

    @property
    def all_slots(self) -> int:
        """Every slot of a hand, as bits."""
        return (1 << self.hand_size) - 1

    @cached_property
    def color_cards(self) -> tuple[int, ...]:
        """Set of cards of each colour."""
        one_color = (1 << self.num_ranks) - 1
        return tuple(one_color << (color * self.num_ranks) for color in range(self.num_colors))

    @cached_property
    def rank_cards(self) -> tuple[int, ...]:
        """Set of cards of each rank."""
        lowest = sum(1 << (color * self.num_ranks) for color in range(self.num_colors))
        return tuple(lowest << rank for rank in range(self.num_ranks))

    @property
    def hint_cards(self) -> tuple[int, ...]:
        """Set of cards of each colour, then of each rank."""
        return self.color_cards + self.rank_cards

    @cached_property
    def num_copies(self) -> tuple[int, ...]:
        """Copies of each card in the deck, by card id."""
        return self.num_cards_of_rank * self.num_colors

    @cached_property
    def full_planes(self) -> tuple[int, ...]:
        """Plane j is the set of cards with at least j + 1 copies in the deck."""
        return tuple(
            sum(
                cards
                for cards, copies in zip(self.rank_cards, self.num_cards_of_rank, strict=True)
                if copies > plane
            )
            for plane in range(max(self.num_cards_of_rank))
        )


def _standard_hand_size(num_players: int) -> int:
    return 5 if num_players < 4 else 4


def _standard_copies(num_ranks: int) -> tuple[int, ...]:
    last = num_ranks - 1
    return tuple(3 if rank == 0 else 1 if rank == last else 2 for rank in range(num_ranks))
