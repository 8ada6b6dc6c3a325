"""Unit tests of robustness: situations in which the right action is clear.

Sixteen tests in three categories, after Knott et al. 2021 (arXiv 2101.05507, section 4): *SR*,
states, where the right action is the same for all partners (`state_tests`); *AR* and *A+MR*,
partners, where it depends on the partners, in A+MR on memory of their moves (`partner_tests`).
Situations (`situation_builder`), partners (`scripted_players`) and criteria are ours. Categories
are never averaged into one number. Standard game of two or three players.
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
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.prng import categorical

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games

TESTS: tuple[UnitTest, ...] = (*STATE_TESTS, *PARTNER_TESTS)


class UnitTestResult(NamedTuple):
    """Result of one test."""

    test: UnitTest
    attempts: list[tuple[Attempt, ...]]  # N instances, each of S situations: one, or a pair
    outcomes: np.ndarray  # bool[N, S], True if the agent acted right
    chance: float
    """Pass rate of a uniformly random player."""

    @property
    def passed(self) -> np.ndarray:
        """True if every situation of the instance was passed, bool[N]."""
        return np.asarray(self.outcomes.all(axis=1))

    @property
    def share(self) -> float:
        """Fraction of instances passed."""
        return float(self.passed.mean())

    @property
    def corrected(self) -> float:
        """Chance-corrected pass rate, (share - chance) / (1 - chance): 0 for a random player, 1 for
        a perfect one; NaN if a random player passes everything."""
        left = 1 - self.chance
        return (self.share - self.chance) / left if left else float("nan")

    @property
    def rate_by_history(self) -> dict[str, float]:
        """For a test of pairs: rate of right actions by history of the partners."""
        return dict(zip(self.test.histories, self.outcomes.mean(axis=0).tolist(), strict=False))

    def failures(self) -> list[Attempt]:
        """Attempts that failed."""
        return [
            attempt
            for instance, right in zip(self.attempts, self.outcomes, strict=True)
            for attempt, fine in zip(instance, right, strict=True)
            if not fine
        ]


class _PendingSituation(NamedTuple):
    """Situation to play. Both situations of a pair have the same number, so that random numbers
    agree and only memory can make a difference."""

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
    """Run every test, with `instances` instances each (fewer if `games` have fewer to mine).

    Args:
        agent: a policy, or a script.
        games: recorded games from which S2 and S8 are mined; their rules apply to all tests.
        instances: instances per test, each a situation or a pair.
        seed: seed of situations and random actions.
        sample: sample the policy's actions instead of the most likely ones.
        chances: result of `chance_levels`; None: 0 everywhere.

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
    """Run tests on given instances; arguments as for `run_tests`."""
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
            f"expected an agent for the rules of the games, {rules.difference_from(agent.rules)}, "
            f"got {agent.rules.difference_from(rules)}"
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
    """Pass rate of a random player in each test; 0 for pairs, where it acts alike in both."""
    results = run_tests(scripted_players.random_move, games, instances, seed)
    return {result.test.name: result.share for result in results}


def category_means(
    results: Sequence[UnitTestResult], *, corrected: bool = False
) -> dict[str, float]:
    """Mean over the tests of each category."""
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
    """Raise ValueError for a game without unit tests."""
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
        raise ValueError(f"{test.name}: no matching position in {len(games)} games")
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
    """Play all situations at once; the policy observes every turn from the first on."""
    rules, found = policy.rules, [one.situation for one in pending]
    plays = [_Play(one, PythonGame(rules, one.situation.deck), seed) for one in pending]
    state = _deal(rules, np.array([situation.deck for situation in found], np.uint8))
    seats = np.array([situation.seat for situation in found], np.int32)
    numbers = np.array([one.number for one in pending], np.int32)
    carry, turn, key = policy.init_carry(len(plays)), 0, jax.random.key(seed)
    while any(play.waits_for_agent() is not None for play in plays):
        keys = _keys(key, np.int32(turn), numbers)
        carry, chosen = _policy_actions(policy, carry, state, seats, turn == 0, keys, sample=sample)
        actions = [
            play.next_action(int(own)) for play, own in zip(plays, np.asarray(chosen), strict=True)
        ]
        state = _advance(rules, state, np.array(actions, np.int32))
        turn += 1
    return [tuple(play.table.actions) for play in plays]


@functools.partial(jax.jit, static_argnames="rules")
def _deal(rules: Rules, decks: jax.Array) -> State:
    return game.deal(rules, decks)


@jax.jit
def _keys(key: jax.Array, turn: jax.Array, numbers: jax.Array) -> jax.Array:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.fold_in(key, turn), numbers)


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
    """Actions of the policy in `seats` int32[N] of each game, as if on turn: int32[N]."""
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
    """Situation in play, up to the limit of the agent's turns or the end of the game."""

    def __init__(self, pending: _PendingSituation, table: PythonGame, seed: int) -> None:
        self._test, self._situation, self.table = pending.test, pending.situation, table
        self.rng = purpose_rng("partner", seed, pending.number)
        self._own = 0

    def waits_for_agent(self) -> bool | None:
        """True if the agent moves next; None at the end."""
        if self.table.over or self._own == self._test.max_turns:
            return None
        return self.table.player == self._situation.seat

    def partner_action(self) -> int:
        return self._test.partner(self.table, self.rng)

    def take(self, action: int) -> None:
        self._own += self.table.player == self._situation.seat
        self.table.apply(action)

    def next_action(self, own: int) -> int:
        """Apply and return the next move: prefix, partner or `own`; no-op at the end."""
        if self.table.turn < len(self._situation.prefix):
            self.table.apply(self._situation.prefix[self.table.turn])
        elif (mine := self.waits_for_agent()) is None:
            return self.table.rules.noop
        else:
            self.take(own if mine else self.partner_action())
        return self.table.actions[-1]
