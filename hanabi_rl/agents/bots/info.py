"""`bot:info`: InfoBot of O'Dwyer (Quuxplusone/Hanabi, 2018), after Wu's hanabi.rs; hat guessing.

A hint, or the discard of one of several useless cards, is a number: the sum of every partner's
answer to public questions about its hand, modulo the number of such moves (Cox et al. 2015). Each
partner subtracts the answers that it sees and is left with its own. The notes are the public sets
of possible cards, equal for all seats.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots import odwyer_common as common
from hanabi_rl.games.hanabi.actions import action_slices
from hanabi_rl.games.hanabi.bits import count, members, tally, to_set
from hanabi_rl.games.hanabi.cards import (
    exhausted_cards,
    last_copies,
    next_cards,
    successors,
    useless_cards,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation

ASKED_FROM = 5
"""A card is asked to be playable from a probability of 1 / `ASKED_FROM`."""
RISKED_ABOVE = 3 / 4
"""A card that is playable or useless is played above this probability of being playable."""
LARGEST_BASIC = 4
"""Hint classes of a hand that need no knowledge of its cards."""


_HOLDERS = 60
"""Divisible by any number of holders of a card."""


class Table(NamedTuple):
    """Public facts about cards."""

    playable: jax.Array  # uint32[]
    useless: jax.Array  # uint32[]: played, or above a card without copies left
    remaining: jax.Array  # int32[K]: copies of each card neither played nor discarded


class Questions(NamedTuple):
    """Questions about one hand; the answers are the digits of a number, most significant first."""

    play_base: jax.Array  # int32[H]: 2 if the slot is asked to be playable, otherwise 1
    play_unit: jax.Array  # int32[H]: place value of that digit
    group_base: jax.Array  # int32[H]: number of groups of cards to choose from; 1 if not asked
    group_unit: jax.Array  # int32[H]
    group: jax.Array  # int32[H, K]: group of each card
    numbers: jax.Array  # int32[]: number of combinations of answers


class HintCode(NamedTuple):
    """Classes of hints to one hand."""

    classes: jax.Array  # int32[]: number of classes
    slot: jax.Array  # int32[]: with 3 or 4 classes, the slot that a hint touches or not
    packed: jax.Array  # int32[V]: with more, the class of each hint value


def table_of(rules: Rules, board: SeatObservation) -> Table:
    """Public facts of a table."""
    exhausted = exhausted_cards(rules, board.discards)
    return Table(
        playable=next_cards(rules, board.played),
        useless=useless_cards(rules, board.played, successors(rules, exhausted)),
        remaining=common.copies_left(rules, board),
    )


def _scale(rules: Rules) -> int:
    """Unit of averages as integers, exact enough that only equal fractions are equal."""
    return 2**30 // (2 * rules.num_ranks * _HOLDERS * rules.deck_size)


def nothing_known(rules: Rules) -> jax.Array:
    """Notes at the deal, uint32[P, H]."""
    return jnp.full((rules.num_players, rules.hand_size), rules.all_cards, jnp.uint32)


def ask(rules: Rules, notes: jax.Array, table: Table, numbers: jax.Array | int) -> Questions:
    """Questions about a hand ``uint32[H]`` with at most `numbers` combinations of answers: slots
    from the most likely playable one, first for playability unless a card is known playable, then
    for a group of cards."""
    weights = members(rules, notes) * table.remaining
    total, playable = jnp.sum(weights, axis=1), weights @ members(rules, table.playable)
    live, useless = count(notes & ~table.useless), common.in_set(notes, table.useless)
    open_ = (count(notes) > 1) & (live > 0)
    settled = jnp.any((notes != 0) & common.subset(notes, table.playable))
    doubtful = open_ & ~settled & (ASKED_FROM * playable >= total)
    chance = playable * _scale(rules) // jnp.maximum(total, 1)
    slots = jnp.arange(len(notes))
    before = (chance[:, None] < chance) | ((chance[:, None] == chance) & (slots[:, None] > slots))
    place = jnp.sum(before, axis=1)
    order = jnp.sum(jnp.where(place == slots[:, None], slots, 0), axis=1)

    def next_base(
        left: jax.Array, question: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        asked, live, useless = question
        base = jnp.minimum(live, left - useless) + useless
        base = jnp.where(asked & (left > 1), base, 1)
        return left // base, base

    once = jnp.ones_like(live)
    sequence = (
        jnp.concatenate([doubtful[order], open_[order]]),
        jnp.concatenate([once, live[order]]),
        jnp.concatenate([once, useless[order].astype(jnp.int32)]),
    )
    _, bases = jax.lax.scan(next_base, jnp.int32(numbers), sequence)
    product = jnp.cumprod(bases)
    units = product[-1] // product
    (play_base, group_base), (play_unit, group_unit) = (
        (field[: len(place)][place], field[len(place) :][place]) for field in (bases, units)
    )
    live_groups = jnp.maximum(group_base - useless, 1)[:, None]
    is_live = members(rules, notes & ~table.useless)
    group = jnp.where(
        members(rules, table.useless) != 0,
        live_groups,
        (jnp.cumsum(is_live, axis=1) - 1) % live_groups,
    )
    return Questions(play_base, play_unit, group_base, group_unit, group, product[-1])


def answer(rules: Rules, questions: Questions, hand: jax.Array, table: Table) -> jax.Array:
    """Number that answers the questions for a visible hand ``uint32[H]``: int32[]."""
    plays = common.in_set(hand, table.playable)
    group = jnp.sum(members(rules, hand) * questions.group, axis=1)
    return jnp.sum(
        jnp.where(questions.play_base > 1, plays * questions.play_unit, 0)
        + jnp.where(questions.group_base > 1, group * questions.group_unit, 0)
    )


def narrow(notes: jax.Array, questions: Questions, number: jax.Array, table: Table) -> jax.Array:
    """Notes of a hand after the answers that a number encodes: uint32[H]; inverse of `answer`."""
    plays = number // questions.play_unit % questions.play_base > 0
    group = number // questions.group_unit % questions.group_base
    by_play = jnp.where(plays, table.playable, ~table.playable)
    by_group = to_set(questions.group == group[:, None])
    notes = jnp.where(questions.play_base > 1, notes & by_play, notes)
    return jnp.where(questions.group_base > 1, notes & by_group, notes)


def hint_code(rules: Rules, notes: jax.Array, table: Table) -> HintCode:
    """Classes of hints to a hand with public notes ``uint32[H]``.

    Basic classes: the rank or the colour of one slot, and hints that do not touch it, of both
    kinds together or apart. If more are found, a class per slot and kind: slots whose possible
    cards all differ in colour (or rank), so that a hint touches one at most.
    """
    present = notes != 0
    possible = [  # cards per slot and value
        count(notes[:, None] & jnp.array(of_kind, jnp.uint32))
        for of_kind in (rules.color_cards, rules.rank_cards)
    ]
    colors, ranks = (cards > 0 for cards in possible)
    apart = jnp.stack([_disjoint(cards, present) for cards in possible], axis=1)
    place = (jnp.cumsum(apart) - 1).reshape(apart.shape)  # of each slot and kind
    classes = jnp.sum(apart)

    def class_of_values(kind: int, can_be: jax.Array) -> tuple[jax.Array, jax.Array]:
        is_it = apart[:, kind, None] & can_be
        return jnp.any(is_it, axis=0), jnp.sum(jnp.where(is_it, place[:, kind, None], 0), axis=0)

    taken, packed = (
        jnp.concatenate(both)
        for both in zip(class_of_values(0, colors), class_of_values(1, ranks), strict=True)
    )
    packed = jnp.where(taken, packed, (jnp.cumsum(~taken) - 1) % classes)

    alike = [jnp.any(jnp.all(kind | ~present[:, None], axis=0)) for kind in (colors, ranks)]
    spread = jnp.sum(colors, axis=1) + jnp.sum(ranks, axis=1)
    matters = (count(notes) > 1) & ~common.subset(notes, table.useless)
    basic = jnp.where(alike[0] | alike[1], LARGEST_BASIC - 1, LARGEST_BASIC)
    return HintCode(
        classes=jnp.where(classes > LARGEST_BASIC, classes, basic),
        slot=jnp.argmax(jnp.where(matters, spread, 0)),
        packed=packed,
    )


def _disjoint(possible: jax.Array, present: jax.Array) -> jax.Array:
    """Largest set of slots, bool[H], of which no two possible cards, of one slot neither, share a
    value, given their numbers ``int32[H, V]``; otherwise the oldest slot."""
    slots = possible.shape[0]
    subsets = (np.arange(2**slots)[:, None] >> np.arange(slots)) & 1
    size = subsets.sum(axis=1)
    fits = jnp.all(subsets @ possible <= 1, axis=1) | (size == 1)
    fits &= ~jnp.any((subsets != 0) & ~present, axis=1)
    return jnp.array(subsets != 0)[jnp.argmax(jnp.where(fits, size, 0))]


def hint_class(rules: Rules, code: HintCode, touches_slot: jax.Array) -> jax.Array:
    """Class of each hint, int32[V], given whether it touches the slot of the code, bool[V]."""
    is_color = jnp.arange(len(code.packed)) < rules.num_colors
    untouched = 2 + is_color * (code.classes == LARGEST_BASIC)
    basic = jnp.where(touches_slot, is_color, untouched)
    return jnp.where(code.classes > LARGEST_BASIC, code.packed, basic)


def first_numbers(classes: jax.Array, mover: jax.Array | int) -> tuple[jax.Array, jax.Array]:
    """First number of the hints to each seat, int32[P], and number of all hints, for classes
    ``int32[P]`` of each hand."""
    players = classes.shape[0]
    after = (jnp.arange(players) - mover) % players
    nearer = (after[:, None] > after) & (after > 0)
    return nearer @ classes, jnp.sum(jnp.where(after > 0, classes, 0))


def useless_slots(cards: jax.Array, table: Table) -> jax.Array:
    """Slots of a hand ``uint32[H]`` known to be useless, or known duplicates: bool[H]."""
    useless = (cards != 0) & common.subset(cards, table.useless)
    known = (count(cards) == 1) & ~useless
    twins = (cards[:, None] == cards) & known[:, None] & ~jnp.eye(len(cards), dtype=bool)
    return useless | jnp.any(twins, axis=1)


def observe(rules: Rules, notes: jax.Array, seen: SeatObservation) -> jax.Array:
    """Notes after the last move. Moves that break the code are read by their rules only."""
    last, table = seen.last, table_of(rules, common.board_before(seen))
    actor, target = jnp.argmax(last.actor), jnp.argmax(last.target)
    codes = jax.vmap(lambda hand: hint_code(rules, hand, table))(notes)
    first, hints = first_numbers(codes.classes, actor)
    code = jax.tree.map(lambda field: field[target], codes)
    by_value = hint_class(rules, code, last.touched[code.slot])
    value = jnp.argmax(jnp.array(rules.hint_cards, jnp.uint32) == last.hinted)

    useless = useless_slots(notes[actor], table)
    is_discard = jnp.any(last.slot & useless) & ~last.is_play
    number = jnp.where(last.is_hint, first[target] + by_value[value], 0)
    number += jnp.where(is_discard, jnp.sum(useless & (jnp.cumsum(last.slot) == 0)), 0)
    numbers = jnp.where(last.is_hint, hints, jnp.where(is_discard, jnp.sum(useless), 1))

    questions = jax.vmap(lambda hand: ask(rules, hand, table, numbers))(notes)
    answers = jax.vmap(lambda asked, hand: answer(rules, asked, hand, table))(questions, seen.hands)
    partner = ~last.actor & (jnp.arange(rules.num_players) > 0)
    mine = (number - jnp.sum(jnp.where(partner, answers, 0))) % numbers
    answers = answers.at[0].set(mine)
    told = jax.vmap(lambda hand, asked, said: narrow(hand, asked, said, table))(
        notes, questions, answers
    )
    notes = jnp.where((~last.actor & (answers < questions.numbers))[:, None], told, notes)
    notes = last.shifted(notes, rules.all_cards) & seen.knowledge
    return jnp.where(notes == 0, seen.knowledge, notes)


def choose(rules: Rules, notes: jax.Array, seen: SeatObservation) -> jax.Array:
    """Action of the observer, int32[]."""
    table = table_of(rules, seen)
    held = tally(rules, seen.hands)
    weights = members(rules, notes[0]) * jnp.maximum(table.remaining - held, 0)
    # only contradictions of other partners exclude all cards
    weights = jnp.where(
        jnp.any(weights, axis=1, keepdims=True), weights, members(rules, seen.knowledge[0])
    )
    cards, present = to_set(weights != 0), notes[0] != 0

    def expected(worth: jax.Array) -> jax.Array:
        return weights @ worth * _scale(rules) // jnp.maximum(jnp.sum(weights, axis=1), 1)

    ranks = jnp.arange(rules.num_cards) % rules.num_ranks + 1
    holders = jnp.sum(jnp.any(members(rules, seen.hands), axis=1), axis=0) * (seen.deck > 0)
    urgency = expected((2 * rules.num_ranks - ranks) * (_HOLDERS // (1 + holders)))
    playable = present & common.subset(cards, table.playable)
    first_to_play = jnp.argmax(jnp.where(playable, urgency, -1))
    early = jnp.sum(count(seen.discards)) <= (
        rules.deck_size - rules.max_score - rules.num_players * rules.hand_size
    )
    harmless = common.subset(cards, table.playable | table.useless)
    chance = jnp.where(present & harmless, expected(members(rules, table.playable)), 0)
    risks = early & (seen.lives > 1) & (chance > RISKED_ABOVE * _scale(rules))

    public, useless = useless_slots(notes[0], table), useless_slots(cards, table)
    coded = jnp.sum(public) > 1
    trash = coded | jnp.any(useless)
    helps = jnp.any(common.in_set(seen.hands, table.playable)) & (seen.info > 0)
    hints = (seen.info == rules.max_info_tokens) | (helps & ~(early & trash))

    codes = jax.vmap(lambda hand: hint_code(rules, hand, table))(notes)
    first, all_hints = first_numbers(codes.classes, 0)
    numbers = jnp.where(hints, all_hints, jnp.maximum(jnp.sum(public), 1))
    questions = jax.vmap(lambda hand: ask(rules, hand, table, numbers))(notes)
    answers = jax.vmap(lambda asked, hand: answer(rules, asked, hand, table))(questions, seen.hands)
    number = jnp.sum(answers[1:]) % numbers

    critical = members(rules, last_copies(rules, seen.discards) & ~table.useless)
    spare = expected(20 * (held > 0) + 10 * (1 - critical) + ranks)
    throw = jnp.where(coded, jnp.argmax(jnp.cumsum(public) > number), jnp.argmax(useless))
    discard = action_slices(rules)["discard"].start
    return common.pick(
        (jnp.any(playable), common.play_action(rules, first_to_play)),
        (jnp.any(risks), common.play_action(rules, jnp.argmax(chance))),
        (hints, _hint(rules, notes, seen, table, codes, number, first)),
        (trash, discard + throw),
        otherwise=discard + jnp.argmax(jnp.where(present, spare, -1)),
    )


def _hint(
    rules: Rules,
    notes: jax.Array,
    seen: SeatObservation,
    table: Table,
    codes: HintCode,
    number: jax.Array,
    first: jax.Array,
) -> jax.Array:
    """Hint that encodes a number: of its class, the hint that tells its target most."""
    seat = jnp.sum(first[1:] <= number)  # numbers of hints ascend from the next player
    code = jax.tree.map(lambda field: field[seat], codes)
    touched = common.touches(rules, seen)[seat - 1]
    classes = hint_class(rules, code, touched[:, code.slot])

    hand = seen.hands[seat]
    asked = ask(rules, notes[seat], table, 3 * (rules.num_players - 1))  # fewer than the code has
    before = narrow(notes[seat], asked, answer(rules, asked, hand, table), table)
    cards = jnp.array(rules.hint_cards, jnp.uint32)[:, None]
    after = jnp.where(touched, before & cards, before & ~cards)
    size = [jnp.sum(members(rules, sets) * table.remaining, axis=-1) for sets in (before, after)]
    done = (count(after) == 1) | common.subset(after, table.useless)
    gain = jnp.where(done, 2.0, 1.0) * size[0] / jnp.maximum(size[1], 1)
    open_ = (count(before) > 1) & ~common.subset(before, table.useless)
    gain = jnp.prod(jnp.where(open_, gain, 1.0), axis=1)
    gain = jnp.where(classes == number - first[seat], gain, 0.0)
    gain = jnp.where(jnp.any(touched, axis=1), gain, -1.0)
    # of equal hints, the first: by the first card that it touches, colours before ranks
    order = jnp.argmax(touched, axis=1) * 2 + (jnp.arange(len(gain)) >= rules.num_colors)
    best = gain >= jnp.max(gain) * (1 - 1e-6)
    value = jnp.argmin(jnp.where(best, order, 2 * rules.hand_size))
    return common.hint_action(rules, seat - 1, value)
