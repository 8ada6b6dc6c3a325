"""Unit tests of robustness: what an agent does where it is plain what should be done.

Sixteen tests in three categories, after Knott et al. 2021 (arXiv 2101.05507, section 4): *SR*, of
states that self-play does not visit; *AR*, of what depends on the partner; *A+MR*, of partners who
must be recognised from what they did. Situations (`situations.py`), partners (`scripts.py`) and
criteria are ours: criteria follow from the rules and the counts of cards alone, look at the agent's
own moves alone, and no convention decides them. Categories are never averaged into one number.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.env import rules as game
from hanabi_rl.env.actions import Move, decode_action
from hanabi_rl.env.observe import observe_seat
from hanabi_rl.env.rules import State
from hanabi_rl.env.table import Table
from hanabi_rl.measure import scripts, situations
from hanabi_rl.measure.scripts import Script
from hanabi_rl.measure.situations import RULES, Build, Situation, stream

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.data.games import Games

Category = Literal["SR", "AR", "A+MR"]
CATEGORIES: tuple[Category, ...] = ("SR", "AR", "A+MR")


class Own(NamedTuple):
    """A move of the tested agent."""

    before: Table
    move: Move
    scored: bool
    """A play that did."""

    @property
    def order(self) -> int:
        """The place in the deck of the card that was played or discarded."""
        return self.before.hands[self.before.player][self.move.slot]

    @property
    def touched(self) -> list[int]:
        """The places in the deck of the cards that a hint touched."""
        if self.move.kind not in ("color", "rank"):
            return []
        hand = self.before.hands[1 - self.before.player]
        return [hand[slot] for slot in self.before.touched(self.move)]


class Attempt(NamedTuple):
    """A situation and all that was done, prefix included."""

    situation: Situation
    actions: tuple[int, ...]

    def own(self) -> Iterator[Own]:
        """The agent's own moves after the prefix; each table is as it was before the move."""
        table = self.situation.table()
        for action in self.actions[table.turn :]:
            mine = table.player == self.situation.seat
            move, points = decode_action(RULES, action), table.points
            before = copy.deepcopy(table) if mine else None
            table.apply(action)
            if before is not None:
                yield Own(before, move, table.points > points)


class UnitTest(NamedTuple):
    """One test: `build` crafts its situations; None where they are mined with `fits`."""

    name: str
    category: Category
    title: str
    means: str
    """What a failure says of the agent."""
    limit: int
    """How many turns of its own the agent has."""
    passed: Callable[[Attempt], bool]
    partner: Script = scripts.discarder
    build: Build | None = None
    fits: Callable[[Table], bool] | None = None


class Result(NamedTuple):
    """What came of one test."""

    test: UnitTest
    attempts: list[Attempt]
    passed: np.ndarray  # bool[N]
    chance: float
    """The share that a player passes who moves at random."""

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

    def failures(self) -> list[Attempt]:
        """What was not passed."""
        return [one for one, passed in zip(self.attempts, self.passed, strict=True) if not passed]


def a_play_scores(attempt: Attempt) -> bool:
    """Some card that the agent plays scores."""
    return any(own.scored for own in attempt.own())


def two_plays_score(attempt: Attempt) -> bool:
    """At least two do."""
    return sum(own.scored for own in attempt.own()) >= 2


def plays_the_marked(attempt: Attempt) -> bool:
    """The agent plays the card that the test is about."""
    return any(
        own.move.kind == "play" and own.order == attempt.situation.marked for own in attempt.own()
    )


def discards_a_dead_card(attempt: Attempt) -> bool:
    """The agent discards a card that it knows to be dead."""
    return any(
        own.move.kind == "discard" and own.move.slot in _of_mover(scripts.dead_slots, own)
        for own in attempt.own()
    )


def keeps_last_copies(attempt: Attempt) -> bool:
    """No card that the agent knows to be a last copy is discarded or misplayed."""
    return not any(
        own.move.kind in ("play", "discard")
        and not own.scored
        and own.move.slot in _of_mover(scripts.last_copy_slots, own)
        for own in attempt.own()
    )


def plays_what_is_certain_only(attempt: Attempt) -> bool:
    """Every card that the agent plays is one that it knows to be playable."""
    return all(
        own.move.kind != "play" or own.move.slot in _of_mover(scripts.certain_slots, own)
        for own in attempt.own()
    )


def plays_nothing_impossible(attempt: Attempt) -> bool:
    """No card that the agent plays is one that it knows not to be playable."""
    return not any(
        own.move.kind == "play" and own.move.slot in _of_mover(scripts.impossible_slots, own)
        for own in attempt.own()
    )


def tells_something_new(attempt: Attempt) -> bool:
    """No hint of the agent touches only cards that were hinted before it began to choose."""
    table = attempt.situation.table()
    other = 1 - attempt.situation.seat
    told = {
        order
        for slot, order in enumerate(table.hands[other])
        if scripts.is_hinted(table, other, slot)
    }
    return not any(own.touched and told.issuperset(own.touched) for own in attempt.own())


def saves_the_marked(attempt: Attempt) -> bool:
    """The agent's move is a hint that touches the card."""
    return any(attempt.situation.marked in own.touched for own in attempt.own())


def tells_before_it_plays(attempt: Attempt) -> bool:
    """The agent hints a playable card before it plays any."""
    for own in attempt.own():
        if own.move.kind == "play":
            return False
        if any(scripts.is_playable(own.before, own.before.deck[order]) for order in own.touched):
            return True
    return False


def loses_no_life(attempt: Attempt) -> bool:
    """Every card that the agent plays scores."""
    return all(own.move.kind != "play" or own.scored for own in attempt.own())


TESTS: tuple[UnitTest, ...] = (
    UnitTest(
        "S1",
        "SR",
        "play the known",
        "told in full, it does not act",
        2,
        plays_the_marked,
        build=situations.play_the_known,
    ),
    UnitTest(
        "S2",
        "SR",
        "play the known, late",
        "the same, far from the opening",
        2,
        a_play_scores,
        scripts.player,
        fits=situations.ripe,
    ),
    UnitTest(
        "S3",
        "SR",
        "ones at the start",
        "misses that every 1 is playable",
        2,
        a_play_scores,
        build=situations.ones_at_the_start,
    ),
    UnitTest(
        "S4",
        "SR",
        "throw the dead card",
        "throws unknown cards while it holds known trash",
        1,
        discards_a_dead_card,
        build=situations.throw_the_dead_card,
    ),
    UnitTest(
        "S5",
        "SR",
        "keep the last copy",
        "no care for what cannot be replaced",
        3,
        keeps_last_copies,
        build=situations.keep_the_last_copy,
    ),
    UnitTest(
        "S6",
        "SR",
        "last life",
        "gambles the game",
        3,
        plays_what_is_certain_only,
        build=situations.last_life,
    ),
    UnitTest(
        "S7",
        "SR",
        "never the impossible",
        "takes any hint for 'play'",
        3,
        plays_nothing_impossible,
        build=situations.never_the_impossible,
    ),
    UnitTest(
        "S8",
        "SR",
        "last turn",
        "ignores the end of the game",
        1,
        a_play_scores,
        fits=situations.last_turn,
    ),
    UnitTest(
        "S9",
        "SR",
        "strange table",
        "lost in states that self-play never visits",
        3,
        a_play_scores,
        build=situations.strange_table,
    ),
    UnitTest(
        "S10",
        "SR",
        "too late",
        "does not notice that its job was done",
        3,
        plays_nothing_impossible,
        build=situations.too_late,
    ),
    UnitTest(
        "A1",
        "AR",
        "the partner knows already",
        "wastes tokens on what the partner knows",
        2,
        tells_something_new,
        scripts.player,
        situations.partner_already_knows,
    ),
    UnitTest(
        "A2",
        "AR",
        "save the next discard",
        "lets the partner throw away what cannot be replaced",
        1,
        saves_the_marked,
        build=situations.save_the_next_discard,
    ),
    UnitTest(
        "A3",
        "AR",
        "tell the blind",
        "does not communicate",
        2,
        tells_before_it_plays,
        scripts.player,
        situations.tell_the_blind,
    ),
    UnitTest(
        "M1",
        "A+MR",
        "ignored hint",
        "keeps shouting at a partner who does not listen",
        4,
        tells_something_new,
        build=situations.ignored_hint,
    ),
    UnitTest(
        "M2",
        "A+MR",
        "random partner",
        "trusts conventions of a partner without any",
        6,
        loses_no_life,
        scripts.at_random,
        situations.random_partner,
    ),
    UnitTest(
        "M3",
        "A+MR",
        "absent partner",
        "waits for a partner who is away",
        5,
        two_plays_score,
        scripts.absent,
        situations.absent_partner,
    ),
)


def run_tests(
    agent: Policy | Script,
    games: Games,
    instances: int = 50,
    seed: int = 0,
    *,
    sample: bool = False,
    chances: Mapping[str, float] | None = None,
) -> list[Result]:
    """Every test, with `instances` situations each (fewer where `games` have no more to mine).

    Args:
        agent: a policy, or a player on the table.
        games: recorded games of two players, which S2 and S8 are mined from.
        instances: situations of each test.
        seed: of the situations and of what is drawn.
        sample: the policy's moves are drawn from its distribution.
        chances: what `chance_levels` found; None: 0 everywhere.

    Raises:
        ValueError: a policy or games of another game.
    """
    _check(games.rules, "games")
    todo = [(test, each) for test in TESTS for each in _situations(test, games, instances, seed)]
    if callable(agent):
        actions = _play_script(agent, todo, seed)
    else:
        _check(agent.rules, "an agent")
        actions = _play_policy(agent, todo, seed, sample)
    results = []
    for test in TESTS:
        attempts = [
            Attempt(situation, done)
            for (of, situation), done in zip(todo, actions, strict=True)
            if of is test
        ]
        passed = np.array([test.passed(attempt) for attempt in attempts], bool)
        results.append(Result(test, attempts, passed, (chances or {}).get(test.name, 0.0)))
    return results


def chance_levels(games: Games, instances: int = 200, seed: int = 0) -> dict[str, float]:
    """What share of each test a player passes who moves at random."""
    results = run_tests(scripts.at_random, games, instances, seed)
    return {result.test.name: result.share for result in results}


def category_means(results: Sequence[Result], *, corrected: bool = False) -> dict[str, float]:
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


def _situations(test: UnitTest, games: Games, count: int, seed: int) -> list[Situation]:
    if test.build is not None:
        return situations.instances(test.build, count, seed)
    assert test.fits is not None, "every test is built or mined"
    found = situations.mined(games, test.fits, count, seed)
    if not found:
        raise ValueError(f"{test.name}: none of the {len(games)} games has such a position")
    return found


Todo = Sequence[tuple[UnitTest, Situation]]


def _play_script(agent: Script, todo: Todo, seed: int) -> list[tuple[int, ...]]:
    plays = [_Play(test, situation, seed, i) for i, (test, situation) in enumerate(todo)]
    for play in plays:
        while (mine := play.waits_for_agent()) is not None:
            play.take(agent(play.table, play.rng) if mine else play.partner_action())
    return [tuple(play.actions) for play in plays]


def _play_policy(policy: Policy, todo: Todo, seed: int, sample: bool) -> list[tuple[int, ...]]:
    """All at once: the policy sees every turn of each from the first, the prefix included."""
    plays = [
        _Play(test, situation, seed, i, from_deal=True) for i, (test, situation) in enumerate(todo)
    ]
    state = game.deal(RULES, jnp.array([situation.deck for _, situation in todo], jnp.uint8))
    seats = jnp.array([situation.seat for _, situation in todo])
    carry, turn, key = policy.init_carry(len(plays)), 0, jax.random.key(seed)
    while any(play.waits_for_agent() is not None for play in plays):
        turn_key = jax.random.fold_in(key, turn)
        carry, chosen = _consult(policy, carry, state, seats, turn == 0, turn_key, sample=sample)
        actions = [
            play.next_action(int(own)) for play, own in zip(plays, np.asarray(chosen), strict=True)
        ]
        state = _advance(state, jnp.array(actions, jnp.int32))
        turn += 1
    return [tuple(play.actions) for play in plays]


@functools.partial(jax.jit, static_argnames="sample")
def _consult(
    policy: Policy,
    carry: Any,
    state: State,
    seats: jax.Array,
    reset: jax.Array | bool,
    key: jax.Array,
    *,
    sample: bool,
) -> tuple[Any, jax.Array]:
    """What the policy at `seats` int32[N] does in each game, were it its turn: int32[N]."""
    rows = jnp.arange(len(seats))
    legal = game.legal_actions(RULES, state)[rows, seats]
    obs = observe_seat(RULES, state.without_deck(), seats)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, rows)
    begins = jnp.broadcast_to(jnp.asarray(reset), rows.shape)
    carry, logits = policy.step(carry, obs, legal, begins, keys)
    if sample:
        draw = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 1)
        return carry, jax.vmap(jax.random.categorical)(draw, logits)
    return carry, jnp.argmax(logits, axis=-1)


@jax.jit
def _advance(state: State, action: jax.Array) -> State:
    return game.step(RULES, state, action)[0]


class _Play:
    """A situation being played, to the limit of the agent's turns or the end of the game."""

    def __init__(
        self,
        test: UnitTest,
        situation: Situation,
        seed: int,
        number: int,
        *,
        from_deal: bool = False,
    ) -> None:
        self._test, self._situation = test, situation
        self.rng = stream("partner", seed, number)
        self.table = Table(RULES, situation.deck) if from_deal else situation.table()
        self.actions = [] if from_deal else list(situation.prefix)
        self._own = 0

    def waits_for_agent(self) -> bool | None:
        """Whether the agent moves next; None where nobody does any more."""
        if self.table.over or self._own == self._test.limit:
            return None
        return self.table.player == self._situation.seat

    def partner_action(self) -> int:
        """What the partner's script says."""
        return self._test.partner(self.table, self.rng)

    def take(self, action: int) -> None:
        """A move after the prefix."""
        self._own += self.table.player == self._situation.seat
        self.table.apply(action)
        self.actions.append(action)

    def next_action(self, own: int) -> int:
        """Makes the next move, the prefix's, the partner's or `own`, and returns it; the no-op
        where nobody moves any more."""
        if len(self.actions) < len(self._situation.prefix):
            action = self._situation.prefix[len(self.actions)]
            self.table.apply(action)
            self.actions.append(action)
            return action
        mine = self.waits_for_agent()
        if mine is None:
            return RULES.noop
        self.take(own if mine else self.partner_action())
        return self.actions[-1]


def _of_mover(slots: Callable[[Table, int], list[int]], own: Own) -> list[int]:
    return slots(own.before, own.before.player)


def _check(rules: Any, what: str) -> None:
    if rules != RULES:
        raise ValueError(f"the unit tests are of {RULES}: expected {what} of it, got {rules}")
