"""Partners of many games in jitted ticks: `PartnerRunner`.

A runner is a cache. Each query contains whole games (deal, moves and the previous games of a
series). The runner keeps each policy's memory of a game in a slot of fixed arrays and replays the
moves of games without a slot, so it may be killed at any time and games may move to another runner.

A tick advances up to `BATCH_SIZE` games with any partners, then steps each policy on its seats in
them; other seats are not computed. One program for the rules and one per type of policy are
compiled at the start.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from hanabi_rl.agents.policy import Policy, PyTree
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.partner_protocol import PartnerAction, SeatObservations
from hanabi_rl.people.serve.series import PartnerMemories, SeriesMemory, Team, to_seat_order
from hanabi_rl.people.serve.ticks import (
    Moves,
    Run,
    Seats,
    Tick,
    advance,
    compiled,
    init_slots,
    next_game_memory,
    step,
    write_memory,
)
from hanabi_rl.play.episodes import group_identical

BATCH_SIZE = 16
"""Games of a tick and seats of a step. A single size means a single program; a batch of 16 takes 3
times as long as one game, a fifth of 16 separate games."""


@dataclasses.dataclass
class _Slot:
    game: Game
    team: Team
    turn: int = -1  # number of moves made; -1: not dealt
    answer: PartnerAction | None = None  # at that turn
    memory: PartnerMemories | None = None  # before the deal; None: first game

    @property
    def is_behind(self) -> bool:
        """True if moves are missing."""
        return self.turn < self.game.turn

    def is_prefix_of(self, game: Game, team: Team) -> bool:
        """True if the moves made are the first moves of `game`."""
        current = self.game
        return (team, game.deck, game.people) == (self.team, current.deck, current.people) and (
            self.turn < 0 or game.moves[: self.turn] == current.moves[: self.turn]
        )


class PartnerRunner:
    """Partners `policies` in up to `slots` games at once.

    The i-th policy of a game's team holds the i-th seat without a person. Without teams, all
    `policies` play; with one person they sit in this order around the table, the first one after
    the person. Partners are greedy; stochastic ones (`bot:random`) use the keys of
    `play_games(seed=seed)` for game number `game_id`. show: also return the observations of all
    seats; series: folder for the memories of the one person of all games. Raises ValueError for
    policies of other rules.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        rules: Rules,
        slots: int = 4,
        seed: int = 0,
        *,
        show: bool = False,
        run: Run = compiled,
        series: Path | None = None,
    ) -> None:
        for policy in policies:
            if policy.rules != rules:
                raise ValueError(
                    f"expected partners for {rules.difference_from(policy.rules)}, got one for "
                    f"{policy.rules.difference_from(rules)}"
                )
        self.rules, self.size, self.show = rules, slots, show
        self._width = min(BATCH_SIZE, slots)
        self._policies, groups = group_identical(tuple(policies))
        self._group = {place: group for group, places in enumerate(groups) for place in places}
        self._places: collections.OrderedDict[int, int] = collections.OrderedDict()
        """game_id -> slot, least recently used first."""
        self._slots: dict[int, _Slot] = {}
        self._series = SeriesMemory(self._play, self._next_memory, self._fresh_memory, series)
        self._run, self._key = run, jax.random.key(seed)
        self._empty()
        table = self._advance(self._moves([], []))  # compiles
        for group in range(len(self._policies)):
            self._step(group, table, self._padded([]))

    def partner_action(
        self,
        games: Sequence[Game],
        teams: Sequence[Team] | None = None,
        initial_memories: Sequence[PyTree] | None = None,
    ) -> list[PartnerAction]:
        """See `Partners.partner_action`. At most `slots` games advance together.

        Args:
            teams: indices into the policies, per game.
            initial_memories: memory of the one partner before the deal, per game, if the runner
                does not know the game (see `agents/policy.py`, `next_game`; leaves without a batch
                axis); None: no previous games.

        Raises:
            ValueError: a team does not fill the seats.
        """
        teams = teams or [self._full_team(game) for game in games]
        memories = initial_memories or [None] * len(games)
        for game, team, memory in zip(games, teams, memories, strict=True):
            self._check_game(game, team, memory)
        try:
            return self._query(games, teams, memories)
        except BaseException:  # may have stopped during a tick
            self.forget()
            raise

    def _query(
        self, games: Sequence[Game], teams: Sequence[Team], memories: Sequence[PyTree]
    ) -> list[PartnerAction]:
        queries = [
            (game, team, self._series.before(game, team) if memory is None else (memory,))
            for game, team, memory in zip(games, teams, memories, strict=True)
        ]
        answers: dict[int, PartnerAction] = {}
        while len(answers) < len(queries):
            batch: dict[int, int] = {}  # a repeated game takes one turn per repetition
            for i, (game, _, _) in enumerate(queries):
                if i not in answers and len(batch) < self.size:
                    batch.setdefault(game.game_id, i)
            found = self._play_games([queries[i] for i in batch.values()])
            answers |= dict(zip(batch.values(), found, strict=True))
        return [answers[i] for i in range(len(queries))]

    def memory(self, game_id: int) -> PyTree:
        """Memory of a game's one partner after the last query: NumPy leaves without a batch axis.
        Raises KeyError if the game has no slot."""
        (memory,) = self._memories_of(game_id)
        return memory

    def forget(self) -> None:
        """Free all slots, as after a restart."""
        self._places.clear()
        self._slots.clear()
        self._series.forget()
        arrays = jax.tree.leaves((self._state, self._memories))
        if any(
            isinstance(array, jax.Array) and array.is_deleted() for array in arrays
        ):  # donated to a failed call
            self._empty()

    def _empty(self) -> None:
        self._state, self._memories = self._run(
            init_slots, self._policies, rules=self.rules, size=self.size
        )

    def _check_game(self, game: Game, team: Team, memory: PyTree) -> None:
        players = self.rules.num_players
        if memory is not None and len(team) != 1:
            raise ValueError(f"expected one partner with memory, got {len(team)}")
        if game.previous_games and len(game.people) != 1:
            raise ValueError(f"expected one person in a series, got {len(game.people)}")
        if len(team) != players - len(game.people):
            raise ValueError(
                f"expected {len(team)} seats for the partners, got {players - len(game.people)}: "
                f"{players} players, persons at {sorted(game.people)}"
            )

    def _full_team(self, game: Game) -> Team:
        places = tuple(range(len(self._group)))
        one_person = len(game.people) == 1 and len(places) == self.rules.num_players - 1
        return to_seat_order(game, places) if one_person else places

    def _play(self, game: Game, team: Team, memory: PartnerMemories | None) -> PartnerMemories:
        self._play_games([(game, team, memory)])
        return self._memories_of(game.game_id)

    def _next_memory(self, policy: int, memory: PyTree) -> PyTree:
        after = self._run(next_game_memory, self._policies[self._group[policy]], memory)
        return jax.tree.map(np.asarray, after)

    def _fresh_memory(self, policy: int) -> PyTree:
        memory = self._memories[self._group[policy]]
        return jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), memory)

    def _play_games(
        self, queries: Sequence[tuple[Game, Team, PartnerMemories | None]]
    ) -> list[PartnerAction]:
        for game, _, _ in queries:
            if game.game_id in self._places:
                self._places.move_to_end(game.game_id)  # so that no queried game loses its slot
        slots = [self._slot(game, team, memory) for game, team, memory in queries]
        # grouped by team: a tick of one policy's games is one step of it
        slots_by_team = sorted(slots, key=lambda slot: self._slots[slot].team)
        while behind := [slot for slot in slots_by_team if self._slots[slot].is_behind]:
            for first in range(0, len(behind), self._width):
                self._tick(behind[first : first + self._width])
        answers = [self._slots[slot].answer for slot in slots]
        assert all(answer is not None for answer in answers)
        return [answer for answer in answers if answer is not None]

    def _slot(self, game: Game, team: Team, memory: PartnerMemories | None) -> int:
        """Slot of a game: its own, a free one, or the least recently used."""
        place = self._places.get(game.game_id)
        if place is None:
            free = len(self._places) < self.size
            place = len(self._places) if free else self._places.popitem(last=False)[1]
            self._places[game.game_id] = place
            self._slots[place] = _Slot(game, team, memory=memory)
        elif self._slots[place].is_prefix_of(game, team):
            self._slots[place].game = game
        else:
            self._slots[place] = _Slot(game, team, memory=memory)
        return place

    def _tick(self, places: Sequence[int]) -> None:
        slots = [self._slots[place] for place in places]
        for place, slot in zip(places, slots, strict=True):
            if slot.turn < 0 and slot.memory is not None:
                for (group, where), row in zip(self._seats_of(place), slot.memory, strict=True):
                    self._memories[group] = self._run(
                        write_memory, self._memories[group], np.int32(where), row
                    )
        steps = self._seats(places, slots)
        table = self._advance(self._moves(places, slots))
        answers = [self._step(group, table, seats) for group, seats in steps]
        observations, answers = jax.device_get((table[1:] if self.show else None, answers))
        decided = {}
        for (_, seats), (actions, probabilities) in zip(steps, answers, strict=True):
            for i in np.flatnonzero(seats.place < self._unused_place):
                row = int(seats.row[i])
                if seats.seat[i] == (slots[row].turn + 1) % self.rules.num_players:
                    decided[row] = int(actions[i]), probabilities[i].copy()
        no_action = self.rules.noop, np.zeros(self.rules.num_actions, np.float32)  # person to move
        for row, slot in enumerate(slots):
            seats_of_row = None
            if observations is not None:  # copied: a view would keep the arrays of the whole tick
                seats_of_row = SeatObservations(*(rows[row].copy() for rows in observations))
            action, probabilities = decided.get(row, no_action)
            slot.turn += 1
            slot.answer = PartnerAction(action, probabilities, seats_of_row)

    def _moves(self, places: Sequence[int], slots: Sequence[_Slot]) -> Moves:
        moves = Moves(
            slot=np.full(self._width, self.size, np.int32),
            begins=np.zeros(self._width, bool),
            deck=np.zeros((self._width, self.rules.deck_size), np.uint8),
            action=np.full(self._width, self.rules.noop, np.int32),
        )
        for row, (place, slot) in enumerate(zip(places, slots, strict=True)):
            moves.slot[row], moves.begins[row] = place, slot.turn < 0
            if slot.turn < 0:
                moves.deck[row] = slot.game.deck
            else:
                moves.action[row] = slot.game.moves[slot.turn]
        return moves

    def _seats(self, places: Sequence[int], slots: Sequence[_Slot]) -> list[tuple[int, Seats]]:
        """(policy, seats to step) pairs, as many as necessary."""
        players, rows = self.rules.num_players, collections.defaultdict(list)
        for row, (place, slot) in enumerate(zip(places, slots, strict=True)):
            game, begins = slot.game, slot.turn < 0 and slot.memory is None
            queried = slot.turn + 1 == game.turn  # earlier moves are already made
            others = (seat for seat in range(players) if seat not in game.people)
            for policy, seat in zip(slot.team, others, strict=True):
                which = row, seat, place * players + seat, begins, queried, game.game_id % 2**32
                rows[self._group[policy]].append(which)
        return [
            (group, self._padded(of_group[first : first + self._width]))
            for group, of_group in rows.items()
            for first in range(0, len(of_group), self._width)
        ]

    def _memories_of(self, game_id: int) -> PartnerMemories:
        """Memories of the partners of a game in a slot, in seat order."""
        return tuple(
            jax.tree.map(lambda leaf, at=where: np.array(leaf[at]), self._memories[group])
            for group, where in self._seats_of(self._places[game_id])
        )

    def _seats_of(self, slot: int) -> list[tuple[int, int]]:
        """(policy, place of its memory) of each partner in a slot."""
        slot_of_game, players = self._slots[slot], self.rules.num_players
        seats = (seat for seat in range(players) if seat not in slot_of_game.game.people)
        return [
            (self._group[policy], slot * players + seat)
            for policy, seat in zip(slot_of_game.team, seats, strict=True)
        ]

    def _padded(self, rows: Sequence[tuple[int, int, int, bool, bool, int]]) -> Seats:
        unused = (self._width, 0, self._unused_place, False, False, 0)
        columns = zip(*rows, *[unused] * (self._width - len(rows)), strict=True)
        types = (np.int32, np.int32, np.int32, bool, bool, np.uint32)
        return Seats(*map(np.array, columns, types))

    @property
    def _unused_place(self) -> int:
        return self.size * self.rules.num_players

    def _advance(self, moves: Moves) -> Tick:
        self._state, tick = self._run(advance, self._state, moves, rules=self.rules)
        return tick

    def _step(self, group: int, tick: Tick, seats: Seats) -> tuple[jax.Array, jax.Array]:
        self._memories[group], *found = self._run(
            step, self._memories[group], self._policies[group], tick, seats, self._key
        )
        return found[0], found[1]
