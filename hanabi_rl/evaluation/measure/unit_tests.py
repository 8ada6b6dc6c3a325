"""Unit tests of robustness: what an agent does where it is plain what should be done.

Sixteen tests in three categories, after Knott et al. 2021 (arXiv 2101.05507, section 4): *SR*, of
states, where what is right is the same whoever the partners are (`state_tests`); *AR* and *A+MR*,
of partners, where it depends on them, and takes a memory of what they did in the latter
(`partner_tests`). Situations (`situation_builder`), partners (`scripted_players`) and criteria are
ours. Categories are never averaged into one number. The standard game of two or three players.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.evaluation.measure import scripted_players, situation_builder
from hanabi_rl.evaluation.measure.partner_tests import PARTNER_TESTS
from hanabi_rl.evaluation.measure.scripted_players import Script
from hanabi_rl.evaluation.measure.situation_builder import PLAYERS, Situation, purpose_rng
from hanabi_rl.evaluation.measure.state_tests import STATE_TESTS
from hanabi_rl.evaluation.measure.unit_test_types import CATEGORIES, Attempt, UnitTest
from hanabi_rl.games.hanabi import dynamics as game
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.observation import observe_seat
from hanabi_rl.games.hanabi.prng import categorical
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games

TESTS: tuple[UnitTest, ...] = (*STATE_TESTS, *PARTNER_TESTS)


class UnitTestResult(NamedTuple):
    """What came of one test."""

    test: UnitTest
    attempts: list[tuple[Attempt, ...]]  # N instances, each of S situations: one, or a pair
    outcomes: np.ndarray  # bool[N, S], the agent did what is right there
    chance: float
    """The share that a player passes who moves at random."""

    @property
    def passed(self) -> np.ndarray:
        """bool[N]: what is right in every situation of the instance."""
        return np.asarray(self.outcomes.all(axis=1))

    @property
    def share(self) -> float:
        """Of the instances that were passed."""
        return float(self.passed.mean())

    @property
    def corrected(self) -> float:
        """(share - chance) / (1 - chance): 0 is what chance passes, 1 everything; nan where chance
        passes everything."""
        left = 1 - self.chance
        return (self.share - self.chance) / left if left else float("nan")

    @property
    def rate_by_history(self) -> dict[str, float]:
        """Of a test of pairs: how often the agent was right with either kind of partner."""
        return dict(zip(self.test.histories, self.outcomes.mean(axis=0).tolist(), strict=False))

    def failures(self) -> list[Attempt]:
        """Where the agent was not right."""
        return [
            attempt
            for instance, right in zip(self.attempts, self.outcomes, strict=True)
            for attempt, fine in zip(instance, right, strict=True)
            if not fine
        ]


class _PendingSituation(NamedTuple):
    """A situation to be played out. Those of a pair have one number: what is drawn is the same in
    both, so that only what is remembered can make a difference."""

    test: UnitTest
    situation: Situation
    number: int


def run_tests(
    agent: Policy | Script,
    games: Games,
    instances: int = 50,
    seed: int = 0,
    *,
    sample: bool = False,
    chances: Mapping[str, float] | None = None,
) -> list[UnitTestResult]:
    """Every test, with `instances` instances each (fewer where `games` have no more to mine).

    Args:
        agent: a policy, or a player on the table.
        games: recorded games, which S2 and S8 are mined from; their rules are those of all tests.
        instances: of each test, a situation or a pair of them.
        seed: of the situations and of what is drawn.
        sample: the policy's moves are drawn from its distribution.
        chances: what `chance_levels` found; None: 0 everywhere.

    Raises:
        ValueError: a policy or games of another game.
    """
    check_rules(games.rules)
    made = [(test, _instances(test, games, instances, seed)) for test in TESTS]
    return play_instances(agent, made, games.rules, seed, sample=sample, chances=chances)


def play_instances(
    agent: Policy | Script,
    made: Sequence[tuple[UnitTest, Sequence[tuple[Situation, ...]]]],
    rules: Rules,
    seed: int = 0,
    *,
    sample: bool = False,
    chances: Mapping[str, float] | None = None,
) -> list[UnitTestResult]:
    """`run_tests` with instances that are there already."""
    flat = [(test, instance) for test, of_test in made for instance in of_test]
    pending = [
        _PendingSituation(test, each, i)
        for i, (test, instance) in enumerate(flat)
        for each in instance
    ]
    if callable(agent):
        actions = _play_script(agent, pending, seed)
    elif agent.rules != rules:
        raise ValueError(
            f"expected an agent for {rules.difference_from(agent.rules)}, as the games, got one "
            "for "
            f"{agent.rules.difference_from(rules)}"
        )
    else:
        actions = _play_policy(agent, pending, seed, sample)
    done = iter(actions)
    results = []
    for test, of_test in made:
        attempts = [tuple(Attempt(each, next(done)) for each in one) for one in of_test]
        right = np.array(
            [
                [is_right(a) for is_right, a in zip(test.criteria, one, strict=True)]
                for one in attempts
            ],
            bool,
        )
        results.append(UnitTestResult(test, attempts, right, (chances or {}).get(test.name, 0.0)))
    return results


def chance_levels(games: Games, instances: int = 200, seed: int = 0) -> dict[str, float]:
    """What share of each test a player passes who moves at random: of pairs none, since it moves
    alike in both situations."""
    results = run_tests(scripted_players.random_move, games, instances, seed)
    return {result.test.name: result.share for result in results}


def category_means(
    results: Sequence[UnitTestResult], *, corrected: bool = False
) -> dict[str, float]:
    """The mean over the tests of each category."""
    return {
        category: float(
            np.mean(
                [
                    result.corrected if corrected else result.share
                    for result in results
                    if result.test.category == category
                ]
            )
        )
        for category in CATEGORIES
    }


def check_rules(rules: Rules) -> None:
    """Raises ValueError for a game that has no unit tests."""
    if rules not in [Rules(num_players=players) for players in PLAYERS]:
        got = rules.difference_from(Rules())
        raise ValueError(f"expected the standard game of 2 or 3 players, got {got}")


def _instances(
    test: UnitTest, games: Games, count: int, seed: int
) -> Sequence[tuple[Situation, ...]]:
    if test.build is not None:
        return situation_builder.instances(test.name, test.build, count, seed, games.rules)
    assert test.matches is not None, "every test is built or mined"
    found = situation_builder.mine(games, test.matches, count, seed)
    if not found:
        raise ValueError(f"{test.name}: none of the {len(games)} games has such a position")
    return found


def _play_script(
    agent: Script, pending: Sequence[_PendingSituation], seed: int
) -> list[tuple[int, ...]]:
    plays = [_Play(one, one.situation.table(), seed) for one in pending]
    for play in plays:
        while (mine := play.waits_for_agent()) is not None:
            play.take(agent(play.table, play.rng) if mine else play.partner_action())
    return [tuple(play.table.actions) for play in plays]


def _play_policy(
    policy: Policy, pending: Sequence[_PendingSituation], seed: int, sample: bool
) -> list[tuple[int, ...]]:
    """All at once: the policy sees every turn of each from the first, the prefix included."""
    rules, found = policy.rules, [one.situation for one in pending]
    plays = [_Play(one, PythonGame(rules, one.situation.deck), seed) for one in pending]
    state = game.deal(rules, jnp.array([situation.deck for situation in found], jnp.uint8))
    seats = jnp.array([situation.seat for situation in found])
    numbers = jnp.array([one.number for one in pending])
    carry, turn, key = policy.init_carry(len(plays)), 0, jax.random.key(seed)
    while any(play.waits_for_agent() is not None for play in plays):
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(
            jax.random.fold_in(key, turn), numbers
        )
        carry, chosen = _policy_actions(policy, carry, state, seats, turn == 0, keys, sample=sample)
        actions = [
            play.next_action(int(own)) for play, own in zip(plays, np.asarray(chosen), strict=True)
        ]
        state = _advance(rules, state, jnp.array(actions, jnp.int32))
        turn += 1
    return [tuple(play.table.actions) for play in plays]


@functools.partial(jax.jit, static_argnames="sample")
def _policy_actions(
    policy: Policy,
    carry: Any,
    state: State,
    seats: jax.Array,
    reset: jax.Array | bool,
    keys: jax.Array,
    *,
    sample: bool,
) -> tuple[Any, jax.Array]:
    """What the policy at `seats` int32[N] does in each game, were it its turn: int32[N]."""
    rows, rules = jnp.arange(len(seats)), policy.rules
    legal = game.legal_actions(rules, state)[rows, seats]
    obs = observe_seat(rules, state.without_deck(), seats)
    begins = jnp.broadcast_to(jnp.asarray(reset), rows.shape)
    carry, logits = policy.step(carry, obs, legal, begins, keys)
    if sample:
        draw = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 1)
        return carry, categorical(draw, logits)
    return carry, jnp.argmax(logits, axis=-1)


@functools.partial(jax.jit, static_argnames="rules")
def _advance(rules: Rules, state: State, action: jax.Array) -> State:
    return game.step(rules, state, action)[0]


class _Play:
    """A situation being played, to the limit of the agent's turns or the end of the game."""

    def __init__(self, pending: _PendingSituation, table: PythonGame, seed: int) -> None:
        self._test, self._situation, self.table = pending.test, pending.situation, table
        self.rng = purpose_rng("partner", seed, pending.number)
        self._own = 0

    def waits_for_agent(self) -> bool | None:
        """Whether the agent moves next; None where nobody does any more."""
        if self.table.over or self._own == self._test.max_turns:
            return None
        return self.table.player == self._situation.seat

    def partner_action(self) -> int:
        """What the partner's script says."""
        return self._test.partner(self.table, self.rng)

    def take(self, action: int) -> None:
        """A move after the prefix."""
        self._own += self.table.player == self._situation.seat
        self.table.apply(action)

    def next_action(self, own: int) -> int:
        """Makes the next move, the prefix's, the partner's or `own`, and returns it; the no-op
        where nobody moves any more."""
        if self.table.turn < len(self._situation.prefix):
            self.table.apply(self._situation.prefix[self.table.turn])
        elif (mine := self.waits_for_agent()) is None:
            return self.table.rules.noop
        else:
            self.take(own if mine else self.partner_action())
        return self.table.actions[-1]
