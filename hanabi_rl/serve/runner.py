"""The partners of many games, in one jitted tick: `Runner`.

A runner is a cache. It is asked with whole games (deal and moves), keeps what its policies remember
of each in a slot of fixed arrays, and plays the moves again of a game that it does not know or had
to give up: it may be killed at any time, and a game may go on in another one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.policy import Policy
from hanabi_rl.env import rules as core
from hanabi_rl.env.game import Rules
from hanabi_rl.env.observe import observe, observe_seat
from hanabi_rl.env.rules import State
from hanabi_rl.env.state import select_games
from hanabi_rl.play.episodes import OWN_CHANCE, group_identical
from hanabi_rl.serve.lifecycle import Game
from hanabi_rl.serve.partners import Answer, Shown


class _Slots(NamedTuple):
    """S games: the device's side."""

    state: State
    carries: tuple[Any, ...]  # one a distinct policy, leaves [positions held * S, ...]


class _Feed(NamedTuple):
    """What a tick does to each of the S slots; a slot that neither begins nor moves is left. NumPy
    arrays, traced ones inside the tick."""

    deck: Any  # uint8[S, D], of the games that begin
    begins: Any  # bool[S]
    action: Any  # int32[S]
    moves: Any  # bool[S]
    key_index: Any  # uint32[S], the game's number among the streams of chance
    seats: Any  # int32[S, K], the seat of each position of the line-up


class _Known(NamedTuple):
    """What a slot holds: the host's side."""

    game_id: int
    deck: tuple[int, ...]
    people: frozenset[int]
    moves: tuple[int, ...]


class Runner:
    """The partners `policies`, one for each seat that no person holds, in `slots` games at once.

    In a game with persons at seats `people`, position i of the line-up sits at the i-th of the
    other seats. Partners are greedy; those that play by chance of their own (`bot:random`) get the
    keys that `play_games(seed=seed)` gives game number `game_id`. With `show` the answers say what
    every seat sees, for programs that play. Raises ValueError for policies of other rules.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        rules: Rules,
        slots: int = 4,
        seed: int = 0,
        *,
        show: bool = False,
    ) -> None:
        for policy in policies:
            if policy.rules != rules:
                raise ValueError(f"expected partners for {rules}, got one for {policy.rules}")
        self.rules, self.size, self.show = rules, slots, show
        self._policies, self._held = group_identical(tuple(policies))
        self._positions = len(policies)
        self._known: list[_Known | None] = [None] * slots
        self._answers: list[Answer | None] = [None] * slots
        self._used = [0] * slots  # when: the slot used longest ago is given up first
        self._clock = 0
        self._key = jax.random.fold_in(jax.random.key(seed), OWN_CHANCE)
        self._slots: _Slots = _empty_slots(self._policies, rules, self._held, slots)
        self._run(self._feed())  # compiles

    def think(self, games: Sequence[Game]) -> list[Answer]:
        """See `Partners.think`; at most `slots` games are advanced together."""
        answers: list[Answer] = []
        for first in range(0, len(games), self.size):
            answers += self._think(games[first : first + self.size])
        return answers

    def forget(self) -> None:
        """Every slot is free again: as after a kill."""
        self._known = [None] * self.size

    def _think(self, games: Sequence[Game]) -> list[Answer]:
        places = [self._place(game) for game in games]
        while True:
            feed = self._feed()
            for place, game in zip(places, games, strict=True):
                self._next(feed, place, game)
            if not (feed.begins | feed.moves).any():
                break
            self._run(feed)
        answers = [self._answers[place] for place in places]
        assert all(answer is not None for answer in answers)
        return [answer for answer in answers if answer is not None]

    def _place(self, game: Game) -> int:
        """The game's slot: its own, else the one used longest ago."""
        self._clock += 1
        place = next(
            (
                place
                for place, known in enumerate(self._known)
                if known is not None and _is_start_of(known, game)
            ),
            None,
        )
        if place is None:
            place = min(range(self.size), key=self._used.__getitem__)
            self._known[place] = None
        self._used[place] = self._clock
        return place

    def _next(self, feed: _Feed, place: int, game: Game) -> None:
        """One step of slot `place` towards `game`: its deal, or its next move; none once there."""
        known = self._known[place]
        feed.seats[place] = self._seats(game)
        feed.key_index[place] = game.game_id % 2**32
        if known is None:
            feed.begins[place] = True
            feed.deck[place] = game.deck
            self._known[place] = _Known(game.game_id, game.deck, game.people, ())
        elif len(known.moves) < game.turn:
            feed.moves[place] = True
            feed.action[place] = game.moves[len(known.moves)]
            moves = game.moves[: len(known.moves) + 1]
            self._known[place] = known._replace(moves=moves)

    def _seats(self, game: Game) -> list[int]:
        seats = [seat for seat in range(self.rules.num_players) if seat not in game.people]
        if len(seats) != self._positions:
            raise ValueError(
                f"expected {self._positions} seats for the partners, got {len(seats)}: "
                f"{self.rules.num_players} players, persons at {sorted(game.people)}"
            )
        return seats

    def _feed(self) -> _Feed:
        size = self.size
        return _Feed(
            deck=np.zeros((size, self.rules.deck_size), np.uint8),
            begins=np.zeros(size, bool),
            action=np.full(size, self.rules.noop, np.int32),
            moves=np.zeros(size, bool),
            key_index=np.zeros(size, np.uint32),
            seats=np.tile(np.arange(self._positions, dtype=np.int32), (size, 1)),
        )

    def _run(self, feed: _Feed) -> None:
        self._slots, *found = tick(
            self._slots,
            self._policies,
            feed,
            self._key,
            rules=self.rules,
            held=self._held,
            show=self.show,
        )
        actions, probabilities, shown = jax.device_get(found)
        for place in np.flatnonzero(feed.begins | feed.moves):
            seen = None if shown is None else Shown(*(rows[place] for rows in shown))
            self._answers[place] = Answer(int(actions[place]), probabilities[place], seen)


def _is_start_of(known: _Known, game: Game) -> bool:
    return (
        known.game_id == game.game_id
        and known.deck == game.deck
        and known.people == game.people
        and known.moves == game.moves[: len(known.moves)]
    )


def _empty_slots(
    policies: tuple[Policy, ...], rules: Rules, held: tuple[tuple[int, ...], ...], size: int
) -> _Slots:
    decks = np.zeros((size, rules.deck_size), np.uint8)

    @jax.jit  # one small program, and no weak types that `tick` would compile for again
    def make(policies: tuple[Policy, ...]) -> _Slots:
        carries = tuple(
            policy.init_carry(size * len(positions))
            for policy, positions in zip(policies, held, strict=True)
        )
        return _Slots(core.deal(rules, jnp.asarray(decks)), carries)

    return make(policies)


@functools.partial(jax.jit, static_argnames=("rules", "held", "show"), donate_argnums=0)
def tick(
    slots: _Slots,
    policies: tuple[Policy, ...],
    feed: _Feed,
    key: jax.Array,
    *,
    rules: Rules,
    held: tuple[tuple[int, ...], ...],
    show: bool,
) -> tuple[_Slots, jax.Array, jax.Array, tuple[jax.Array, jax.Array] | None]:
    """Deals or moves in every slot that says so, then steps every policy on its seats, idle too.

    `held[g]` are the positions of the line-up that policy g holds, `key` the root of the chance
    that they may play by. Returns the slots; of the seat to move its greedy action int32[S] and its
    probabilities float32[S, A] (of no meaning where a person holds it); and with `show` the
    observations float32[S, P, O] and legal actions bool[S, P, A] of every seat.
    """
    begins, size = feed.begins, len(feed.begins)
    moved, _, _ = core.step(rules, slots.state, feed.action)
    state = select_games(feed.moves, moved, slots.state)
    state = select_games(begins, core.deal(rules, feed.deck), state)
    active = begins | feed.moves
    legal_of_all = core.legal_actions(rules, state)
    player = core.current_player(state)
    hidden = state.without_deck()
    own = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, feed.key_index)
    own = jax.vmap(jax.random.fold_in)(own, state.turn)
    own = jax.vmap(jax.vmap(jax.random.fold_in, in_axes=(None, 0)))(own, feed.seats)  # [S, K]
    logits, carries = jnp.zeros((size, rules.num_moves)), []
    for policy, carry, positions in zip(policies, slots.carries, held, strict=True):
        count = len(positions)
        seats = jnp.concatenate([feed.seats[:, position] for position in positions])
        rows = jax.tree.map(lambda leaf, n=count: jnp.concatenate([leaf] * n), hidden)
        legal = jnp.concatenate([legal_of_all] * count)[jnp.arange(len(seats)), seats]
        obs, chance = observe_seat(rules, rows, seats), own[:, np.array(positions)].T.reshape(-1)
        stepped, of_rows = policy.step(carry, obs, legal, jnp.tile(begins, count), chance)
        carries.append(select_games(jnp.tile(active, count), stepped, carry))
        for position, of_seat in zip(positions, jnp.split(of_rows, count), strict=True):
            logits = jnp.where((feed.seats[:, position] == player)[:, None], of_seat, logits)
    legal_now = core.legal_for_mover(rules, state)
    chances = jax.nn.softmax(jnp.where(legal_now, logits, -jnp.inf), axis=-1)
    action = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    shown = (observe(rules, hidden), legal_of_all) if show else None
    return _Slots(state, tuple(carries)), action, chances, shown
