"""Features `conventions`: inferences of `bots/hint_inference.py`, and the effects of each hint.

The effects of a hint are the components of its value to `bot:convention`. A hint changes the
knowledge of one hand; for other hands only the set of cards known elsewhere changes. So for each
hint only the hand that it touches and that of the next player to discard are inferred again.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import hints as hint_values
from hanabi_rl.agents.bots.hint_inference import (
    CardFacts,
    CommonKnowledge,
    HandInference,
    card_facts,
    focus_of,
    hand_word,
    highest,
    infer_hands,
    infer_hint,
    known_exactly,
    soon_playable,
    union_and_repeats,
)
from hanabi_rl.agents.structured.card_counts import CardCounts, copies
from hanabi_rl.agents.structured.card_features import CardProbs
from hanabi_rl.agents.structured.packed_features import Columns
from hanabi_rl.games.batching import materialize
from hanabi_rl.games.hanabi.bits import count, union
from hanabi_rl.games.hanabi.cards import is_single
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation

_SIGNED = [False] * 12 + [True, False, True]


class HintEffects(NamedTuple):
    """Effects of each hint; 0 for a hint that touches nothing."""

    parts: list[jax.Array]
    """float32[P - 1, C + R, *B] each: components of the hint's value (`bots/hints.py`)."""
    facts: list[jax.Array]
    """bool[P - 1, C + R, *B] each: properties of the hint's focus."""
    worth: jax.Array
    """float32[A, *B], in action order: value to `bot:convention`, -100 if nothing is touched."""


def features(
    rules: Rules, seat_obs: SeatObservation, counts: CardCounts, public: CommonKnowledge
) -> list[Columns]:
    """Columns that this set adds to the features of table, own cards, others' cards and hints."""
    everyone, mine, board, danger, effects = _read(rules, public, seat_obs, counts.unseen[0])
    own = CardProbs(mine.candidates[0] & counts.unseen[0], counts.unseen)
    theirs = CardProbs(everyone.candidates[1:], counts.left)
    soon = soon_playable(rules, board, everyone.claimed)
    held = seat_obs.hands[1:]
    next_wrong = jnp.any(everyone.playable[1] & ((seat_obs.hands[1] & counts.playable) == 0), 0)
    next_idle = ~jnp.any(everyone.playable[1] | everyone.trash[1], axis=0)
    best = jnp.maximum(jnp.max(effects.worth, axis=0), -50.0)
    table_columns = [
        danger / 12,
        next_wrong,
        next_idle,
        jnp.any(mine.playable[0], axis=0),
        jnp.any(mine.trash[0], axis=0),
        0.5 + best / 100,
    ]
    own_columns = [
        *own.of(
            counts.playable,
            counts.useless,
            counts.critical,
            soon,
            *map(jnp.uint32, rules.rank_cards),
        ),
        copies(own.sets, own.planes) / rules.deck_size,
        mine.chop[0],
        mine.playable[0],
        mine.trash[0],
        is_single(mine.candidates[0]),
    ]
    other_columns = [
        (held & soon) != 0,
        everyone.chop[1:],
        everyone.playable[1:],
        everyone.trash[1:],
        (everyone.candidates[1:] & held) != 0,
        is_single(everyone.candidates[1:]),
        *theirs.of(counts.playable),
    ]
    # sums over a hand are scaled by 0.2 per card; signed components are centred
    worth = _by_target(rules, effects.worth)
    hint_columns: Columns = [
        part * 0.2 + (0.5 if signed else 0.0)
        for part, signed in zip(effects.parts, _SIGNED, strict=True)
    ]
    hint_columns += effects.facts
    hint_columns += [0.5 + worth / 100, 1.0 + (worth - best) / 50, (worth == best) & (best > -50)]
    return [table_columns, own_columns, other_columns, hint_columns]


def _by_target(rules: Rules, column: jax.Array) -> jax.Array:
    """[A, *B] in action order -> [P - 1, C + R, *B]."""
    targets, more = rules.num_players - 1, column.shape[1:]
    split = targets * rules.num_colors
    parts = [column[:split].reshape(targets, -1, *more), column[split:].reshape(targets, -1, *more)]
    return jnp.concatenate(parts, axis=1)


def _by_action(rules: Rules, column: jax.Array) -> jax.Array:
    """The inverse of `_by_target`."""
    more = column.shape[2:]
    parts = column[:, : rules.num_colors], column[:, rules.num_colors :]
    return jnp.concatenate([part.reshape(-1, *more) for part in parts])


def _read(
    rules: Rules, public: CommonKnowledge, seen: SeatObservation, unseen: jax.Array
) -> tuple[HandInference, HandInference, CardFacts, jax.Array, HintEffects]:
    """Return the inferences of all players, those of the observer (row 0 only), the board, the next
    player's discard loss and the hint effects. `unseen` uint32[*B]: possible own cards."""
    board = card_facts(rules, seen)
    everyone, exact = infer_hands(board, public), known_exactly(board, public)
    own = jax.tree.map(lambda x: x[:1], public)
    own = own._replace(knowledge=own.knowledge & unseen)
    mine = infer_hands(board, own, union_and_repeats(exact[1:]))
    danger = hint_values.next_discard_loss(rules, board, everyone, seen)
    facts = hint_values._facts(board, public, mine, seen)
    effects = _hint_effects(rules, board, public, everyone, exact, facts, danger, seen)
    return everyone, mine, board, danger, effects


def _of_targets(hands: jax.Array) -> jax.Array:
    """[P, H, *B] -> [1, H, P - 1, 1, *B]: the hand of each hint's target, as the only row."""
    return jnp.swapaxes(hands[1:], 0, 1)[None, :, :, None]


def _except(exact: jax.Array, *rows: int) -> list[jax.Array]:
    return [hand for row, hand in enumerate(exact) if row not in rows]


def _hint_effects(  # type: ignore[no-untyped-def]
    rules, board, public, everyone, exact, facts, danger, seen
) -> HintEffects:
    """Effects of all hints. Axes: one hand and its slots, then [P - 1, C + R, *B]."""
    v, players = hint_values.HintValues, range(1, rules.num_players)
    more = danger.ndim
    by_hint = (len(rules.hint_cards), *(1,) * more)
    cards = jnp.array(rules.hint_cards, jnp.uint32).reshape(by_hint)
    is_rank = jnp.arange(by_hint[0]).reshape(by_hint) >= rules.num_colors

    known, facts = jax.tree.map(_of_targets, (public, facts))
    before = HandInference(
        candidates=_of_targets(everyone.candidates),
        playable=_of_targets(everyone.playable),
        trash=_of_targets(everyone.trash),
        chop=_of_targets(everyone.chop),
        claimed=everyone.claimed,
    )
    hands = _of_targets(seen.hands)
    touched = (hands & cards) != 0
    rest = [jnp.stack(_except(exact, player)) for player in players]
    others = union_and_repeats(jnp.stack(rest, axis=2)[:, :, :, None])
    target = jnp.ones((1,) * (3 + more), bool)
    after_hint = infer_hint(rules, board, known, before, target, touched, cards, is_rank, others)
    after = infer_hands(board, after_hint, others)

    def word(mask: jax.Array) -> jax.Array:
        return hand_word(mask)[0]

    held, touches = word(hands != 0), word(touched)
    useful, playable, critical, taken = map(word, facts[:4])
    new = touches & ~word(known.hinted)
    hinted = touches | word(known.hinted)
    plays, trash, played, trashed = map(
        word, (after.playable, after.trash, before.playable, before.trash)
    )
    kept, had = (word((reading.candidates & hands) != 0) for reading in (after, before))
    taken |= new & word(hint_values._repeats_earlier(jnp.where(touched & ~known.hinted, hands, 0)))
    was_wrong, is_wrong = played & ~playable, plays & ~playable
    first_copy = new & useful & ~taken
    sizes = [
        jax.lax.population_count(reading.candidates).astype(jnp.float32)
        for reading in (before, after)
    ]
    narrowed = (sizes[0] - sizes[1]) / jnp.maximum(sizes[0], 1)

    def number(where: jax.Array) -> jax.Array:
        return count(where & held).astype(jnp.float32)

    def total(where: jax.Array, value: jax.Array) -> jax.Array:
        slots = enumerate(value[0])
        return sum(jnp.where(((where & held) >> s) & 1 != 0, x, 0.0) for s, x in slots)  # type: ignore

    def waits(reading: HandInference) -> jax.Array:
        late = reading.candidates & ~soon_playable(rules, board, reading.claimed)
        return word((late == 0) & ((reading.candidates & hands) != 0))

    waited = word(known.hinted) & waits(before) & ~trashed & ~played
    danger_then = _danger_after(rules, board, public, exact, after_hint, after, seen)
    weighted = [
        (v.PLAY, number(plays & playable & ~played)),
        (v.FIXED, number(was_wrong & ~is_wrong)),
        (-v.MISPLAY, number(is_wrong & ~was_wrong)),
        (v.TOUCH, number(first_copy)),
        (-v.MAYBE_MINE, total(first_copy, facts.maybe_mine)),
        (v.CRITICAL, number(first_copy & critical)),
        (-v.WRONG, number(~kept & (first_copy | (hinted & useful & ~new & had)))),
        (-v.HARMLESS, number(new & ~useful & trash)),
        (-v.TRASH, number(new & ~useful & ~trash)),
        (-v.HARMLESS, number(new & useful & taken & trash)),
        (-v.DUPLICATE, number(new & useful & taken & ~trash)),
        (v.KNOWN_TRASH, number(trash & ~trashed & ~useful)),
        (v.NARROWED, total(hinted & useful, narrowed)),
        (v.SOON, number(hinted & waits(after) & ~trash & ~plays & ~waited)),
        (6.0, (danger - danger_then) / 6.0),
    ]
    worth = sum(weight * component for weight, component in weighted)
    focus, saved = focus_of(new[None], word(before.chop)[None])
    focus = jnp.where(new != 0, focus[0], highest(touches))
    card = union([jnp.where((focus >> s) & 1 != 0, x, 0) for s, x in enumerate(hands[0])])
    soon = soon_playable(rules, board, before.claimed)
    about = [
        saved,
        *[(card & jnp.uint32(r)) != 0 for r in rules.rank_cards],
        *[(card & cards) != 0 for cards in (board.playable, soon, board.useless, board.critical)],
        (hinted & focus & word(facts.taken)) != 0,
        *[(focus >> s) & 1 != 0 for s in range(rules.hand_size)],
    ]
    some = touches != 0
    return HintEffects(
        [jnp.where(some, component, 0.0) for _, component in weighted],
        [some & fact for fact in about],
        _by_action(rules, _computed_once(jnp.where(some, worth, -100.0))),
    )


def _computed_once(value: jax.Array) -> jax.Array:
    """Force one computation: two in a program may round differently and compare unequal."""
    words = jax.lax.bitcast_convert_type(value, jnp.uint32)
    return jax.lax.bitcast_convert_type(materialize(words), jnp.float32)


def _danger_after(  # type: ignore[no-untyped-def]
    rules, board, public, exact, after_hint, after, seen
) -> jax.Array:
    """Expected loss of the next player's discard after each hint, float32[P - 1, C + R, *B]."""
    chop = union(list(jnp.where(after.chop[0, :, :1], seen.hands[1][:, None, None], 0)))
    busy = hand_word((after.playable | after.trash)[:, :, :1])[0] != 0
    if rules.num_players > 2:  # hints to others change which cards are known elsewhere
        later = range(2, rules.num_players)
        rest = jnp.stack([jnp.stack(_except(exact, 1, player)) for player in later], axis=2)
        others = union_and_repeats(rest[:, :, :, None])
        others = others.union(union_and_repeats(known_exactly(board, after_hint)[:, :, 1:]))
        hand = jax.tree.map(lambda x: x[1:2, :, None, None], public)
        again = infer_hands(board, hand, others)
        same = union(list(jnp.where(again.chop[0], seen.hands[1][:, None, None], 0)))
        chops = jnp.broadcast_to(same, (len(later), *chop.shape[1:]))
        chop = jnp.concatenate([chop, chops])
        busy = jnp.concatenate([busy, hand_word(again.playable | again.trash)[0] != 0])
    return jnp.where(busy, 0.0, hint_values.discard_loss(rules, board, chop, seen))
