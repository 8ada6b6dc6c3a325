"""Unit tests of robustness to states (SR): the right action is the same for all partners.

Criteria follow from the rules and card counts, read only the agent's own moves, and depend on no
convention. In built situations the agent is in seat 1 (S10: seat 0), next to its partner; a third
seat gives it no information. `x`, `a` to `d` are different colours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hanabi_rl.evaluation.measure import scripted_players
from hanabi_rl.evaluation.measure.scripted_players import Script
from hanabi_rl.evaluation.measure.situation_builder import (
    HAND,
    Build,
    Rejected,
    Situation,
    SituationBuilder,
    all_colors,
)
from hanabi_rl.evaluation.measure.unit_test_types import (
    AgentMove,
    Attempt,
    Criterion,
    UnitTest,
    plays_target,
)
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules

PARTNER, AGENT = 0, 1


def a_play_scores(attempt: Attempt) -> bool:
    """True if a card that the agent plays scores."""
    return any(own.scored for own in attempt.own())


def discards_known_useless(attempt: Attempt) -> bool:
    """True if the agent discards a card that it knows to be useless."""
    return any(
        own.move.kind == "discard"
        and own.move.slot in _of_current_player(scripted_players.useless_slots, own)
        for own in attempt.own()
    )


def keeps_critical_cards(attempt: Attempt) -> bool:
    """True if no card that the agent knows to be critical is discarded or misplayed."""
    return not any(
        own.move.kind in ("play", "discard")
        and not own.scored
        and own.move.slot in _of_current_player(scripted_players.critical_slots, own)
        for own in attempt.own()
    )


def plays_certain_cards_only(attempt: Attempt) -> bool:
    """True if every card that the agent plays is known to be playable."""
    return all(
        own.move.kind != "play"
        or own.move.slot in _of_current_player(scripted_players.certain_slots, own)
        for own in attempt.own()
    )


def plays_no_known_unplayable(attempt: Attempt) -> bool:
    """True if no card that the agent plays is known to be unplayable."""
    return not any(
        own.move.kind == "play"
        and own.move.slot in _of_current_player(scripted_players.impossible_slots, own)
        for own in attempt.own()
    )


def has_late_play(table: PythonGame) -> bool:
    """S2: late in the game, with deck and lives left, the current player has a certain play, and
    the others' next discards are neither critical nor 2s."""
    others = [seat for seat in range(table.rules.num_players) if seat != table.player]
    lost = [table.deck[table.hands[seat][scripted_players.chop(table, seat)]] for seat in others]
    return (
        table.turn >= 20
        and table.drawn < table.rules.deck_size
        and table.life_tokens >= 2
        and bool(scripted_players.certain_slots(table, table.player))
        and not any(scripted_players.is_critical(table, card) for card in lost)
        and not any(card % table.rules.num_ranks == 1 for card in lost)
    )


def last_turn(table: PythonGame) -> bool:
    """S8: last turn of the game, and the current player has a certain play."""
    return table.turns_left == 1 and bool(scripted_players.certain_slots(table, table.player))


def play_known_card(rng: np.random.Generator, number: int, rules: Rules) -> tuple[Situation]:
    """S1: the agent's 1 is hinted by colour and by rank."""
    x, slot = all_colors(rng)[0], number % HAND
    deal = SituationBuilder(rng, rules, {(AGENT, slot): (x, 0)}, colors={AGENT: [x]})
    deal.hint(AGENT, color=x).uninformative_hint("rank").pass_turns(PARTNER).hint(AGENT, rank=0)
    return (deal.situation(deal.table.hands[AGENT][slot]),)


def opening_ones(rng: np.random.Generator, number: int, rules: Rules) -> tuple[Situation]:
    """S3: one to three 1s of different colours, hinted by rank."""
    colors = all_colors(rng)[: 1 + number % 3]
    slots = rng.permutation(HAND)[: len(colors)].tolist()
    fixed = {(AGENT, slot): (color, 0) for slot, color in zip(slots, colors, strict=True)}
    return (SituationBuilder(rng, rules, fixed).hint(AGENT, rank=0).situation(),)


def discard_known_useless(rng: np.random.Generator, number: int, rules: Rules) -> tuple[Situation]:
    """S4: the partner plays the twin of the agent's card, which is then hinted fully."""
    x, slot = all_colors(rng)[0], number % HAND
    fixed = {(PARTNER, 0): (x, 0), (AGENT, slot): (x, 0)}
    deal = SituationBuilder(rng, rules, fixed, plain=HAND + 3, colors={AGENT: [x]}).play(0)
    situation = _hint_until_no_tokens(deal, x, 0).situation()
    return _accept_if(0 < len(scripted_players.useless_slots(deal.table, AGENT)) < HAND, situation)


def keep_critical_card(rng: np.random.Generator, number: int, rules: Rules) -> tuple[Situation]:
    """S5: the agent's 5 is hinted by colour and rank, and no tokens are left."""
    (x, y, *_), slot = all_colors(rng), number % HAND
    fixed = {(PARTNER, 0): (y, 0), (AGENT, slot): (x, 4)}
    deal = SituationBuilder(rng, rules, fixed, plain=HAND + 3, colors={AGENT: [x]}).play(0)
    situation = _hint_until_no_tokens(deal, x, 4).situation(deal.table.hands[AGENT][slot])
    return _accept_if(0 < len(scripted_players.critical_slots(deal.table, AGENT)) < HAND, situation)


def last_life(rng: np.random.Generator, number: int, rules: Rules) -> tuple[Situation]:
    """S6: the partner has lost two lives; the agent has received no hint."""
    x, slot = all_colors(rng)[0], number % HAND
    first, second = sorted(rng.permutation(HAND)[:2].tolist())
    fours = dict(zip(((PARTNER, first), (PARTNER, second)), all_colors(rng), strict=False))
    fixed = {place: (color, 3) for place, color in fours.items()} | {(AGENT, slot): (x, 0)}
    deal = SituationBuilder(rng, rules, fixed, plain=HAND + 3)
    if rules.num_players == 2:
        deal.play(first).uninformative_hint().play(second - 1).play(slot).discard(0)
    else:  # spend tokens: with all available, a partner would have to hint the agent
        deal.uninformative_hint(after=2).uninformative_hint().uninformative_hint().play(
            first
        ).uninformative_hint().uninformative_hint()
        deal.play(second - 1).play(slot).uninformative_hint().uninformative_hint(after=2)
    return (deal.situation(),)


def never_play_unplayable(rng: np.random.Generator, number: int, rules: Rules) -> tuple[Situation]:
    """S7: the agent's only 3, or 4, is hinted by rank before any firework has begun."""
    rank, slot, x = 2 + number % 2, int(rng.integers(HAND)), all_colors(rng)[0]
    deal = SituationBuilder(rng, rules, {(AGENT, slot): (x, rank)}, ranks={AGENT: [rank]})
    return (deal.hint(AGENT, rank=rank).situation(),)


def off_distribution_state(rng: np.random.Generator, number: int, rules: Rules) -> tuple[Situation]:
    """S9: four 1s were played without hints; the agent's 2 is hinted."""
    (a, b, c, d, *_), slot = all_colors(rng), number % 3
    fixed = {(PARTNER, 0): (a, 0), (PARTNER, 1): (b, 0), (AGENT, 3): (c, 0), (AGENT, 4): (d, 0)}
    deal = SituationBuilder(
        rng,
        rules,
        fixed | {(AGENT, slot): (a, 1)},
        plain=HAND + 3,
        colors={AGENT: [a]},
        ranks={AGENT: [1], PARTNER: [1]},
    )
    target = deal.table.hands[AGENT][slot]
    for _ in range(2):
        deal.play(0).play(3).pass_turns(PARTNER)
    deal.hint(AGENT, color=a).uninformative_hint().pass_turns(PARTNER).hint(AGENT, rank=1)
    return (deal.situation(target),)


def plan_already_fulfilled(rng: np.random.Generator, number: int, rules: Rules) -> tuple[Situation]:
    """S10: both know that they hold the same 1; the partner, after the agent, has played it."""
    x, slot, me, other = all_colors(rng)[0], number % HAND, 0, 1
    fixed = {(me, 2): (x, 0), (other, slot): (x, 0)}
    deal = SituationBuilder(rng, rules, fixed, plain=HAND + 1, colors={me: [x], other: [x]})
    deal.hint(other, color=x).hint(me, color=x).pass_turns(me)
    deal.hint(other, rank=0).hint(me, rank=0).pass_turns(me)
    deal.uninformative_hint(but=(x, 0)).play(slot).pass_turns(me)
    return (deal.situation(deal.table.hands[me][2]),)


def _hint_until_no_tokens(deal: SituationBuilder, color: int, rank: int) -> SituationBuilder:
    """Spend all tokens before the agent's turn: the agent gives uninformative hints, the partner
    hints colour and rank in turn; a third seat also hints if the tokens are a multiple of three."""
    hints = 0
    while tokens := deal.table.info_tokens:
        deal.uninformative_hint("rank")
        if tokens % 3 == 0 and deal.table.player != PARTNER:
            deal.uninformative_hint("rank")
        deal.pass_turns(PARTNER)
        deal.hint(AGENT, color=color) if hints % 2 == 0 else deal.hint(AGENT, rank=rank)
        hints += 1
    return deal


def _of_current_player(slots: Callable[[PythonGame, int], list[int]], own: AgentMove) -> list[int]:
    return slots(own.before, own.before.player)


def _accept_if(holds: bool, situation: Situation) -> tuple[Situation]:
    if not holds:
        raise Rejected
    return (situation,)


def _test(
    name: str,
    title: str,
    failure_meaning: str,
    max_turns: int,
    criterion: Criterion,
    *,
    partner: Script = scripted_players.discarder,
    build: Build | None = None,
    matches: Callable[[PythonGame], bool] | None = None,
) -> UnitTest:
    return UnitTest(
        name, "SR", title, failure_meaning, max_turns, (criterion,), partner, build, matches
    )


STATE_TESTS: tuple[UnitTest, ...] = (
    _test(
        "S1",
        "play known card",
        "does not play a fully known card",
        2,
        plays_target,
        build=play_known_card,
    ),
    _test(
        "S2",
        "play known card, late",
        "the same, late in the game",
        2,
        a_play_scores,
        partner=scripted_players.player,
        matches=has_late_play,
    ),
    _test(
        "S3",
        "opening ones",
        "misses that every 1 is playable",
        2,
        a_play_scores,
        build=opening_ones,
    ),
    _test(
        "S4",
        "discard known-useless card",
        "discards unknown cards while holding a known-useless one",
        1,
        discards_known_useless,
        build=discard_known_useless,
    ),
    _test(
        "S5",
        "keep the last copy",
        "discards or misplays critical cards",
        3,
        keeps_critical_cards,
        build=keep_critical_card,
    ),
    _test("S6", "last life", "risks the last life", 3, plays_certain_cards_only, build=last_life),
    _test(
        "S7",
        "never play an unplayable card",
        "plays any hinted card",
        3,
        plays_no_known_unplayable,
        build=never_play_unplayable,
    ),
    _test("S8", "last turn", "ignores the end of the game", 1, a_play_scores, matches=last_turn),
    _test(
        "S9",
        "off-distribution state",
        "fails in states that self-play never visits",
        3,
        a_play_scores,
        build=off_distribution_state,
    ),
    _test(
        "S10",
        "plan already fulfilled",
        "misses that the partner already played the card",
        3,
        plays_no_known_unplayable,
        build=plan_already_fulfilled,
    ),
)
