"""Features of the `reading` level: what `bots/inference.py` makes of the hints given, and what it
says that each hint to give would gain and lose, component by component."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import hints as judging
from hanabi_rl.agents.bots.inference import (
    CardFacts,
    Public,
    Reading,
    card_facts,
    last_true,
    read_hands,
    read_hint,
    soon_playable,
)
from hanabi_rl.agents.bots.obs_view import ObsView
from hanabi_rl.agents.structured.board import Counts, copies
from hanabi_rl.agents.structured.cards import Chance
from hanabi_rl.agents.structured.columns import Columns
from hanabi_rl.agents.structured.sight import Sight
from hanabi_rl.env.cards import is_single
from hanabi_rl.env.game import Rules

_SUMS = 15
_SIGNED = [False] * 12 + [True, False, True]


def features(rules: Rules, sight: Sight, counts: Counts, public: Public) -> list[Columns]:
    """The columns that this level adds to the table, own cards, others' cards and hints."""
    read = jax.vmap(
        lambda public, seen, mine: _read(rules, public, seen, mine), in_axes=-1, out_axes=-1
    )
    everyone, mine, board, danger, worth = read(public, sight.seen, counts.unseen[0])
    own = Chance(mine.candidates[0] & counts.unseen[0], counts.unseen)
    theirs = Chance(everyone.candidates[1:], counts.left)
    soon = _last_axis(lambda b, r: soon_playable(rules, b, r.claimed), board, everyone)
    held = sight.seen.hands[1:]
    next_wrong = jnp.any(everyone.playable[1] & ((sight.seen.hands[1] & counts.playable) == 0), 0)
    next_idle = ~jnp.any(everyone.playable[1] | everyone.trash[1], axis=0)
    best = jnp.maximum(jnp.max(worth[-1], axis=0), -50.0)
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
    # Sums over a hand go through 0.2 a card; what can be negative is centred.
    *parts, worth = worth
    hint_columns: Columns = [
        part * 0.2 + (0.5 if signed else 0.0)
        for part, signed in zip(parts[:_SUMS], _SIGNED, strict=True)
    ]
    hint_columns += [part > 0 for part in parts[_SUMS:]]
    hint_columns += [0.5 + worth / 100, 1.0 + (worth - best) / 50, (worth == best) & (best > -50)]
    hints = [_by_target(rules, column) for column in hint_columns]
    return [table_columns, own_columns, other_columns, hints]


def _last_axis(function, *args):  # type: ignore[no-untyped-def]
    return jax.vmap(function, in_axes=-1, out_axes=-1)(*args)


def _by_target(rules: Rules, column: jax.Array) -> jax.Array:
    """[A, N] in the order of the actions -> [P - 1, C + R, N]."""
    targets, games = rules.num_players - 1, column.shape[-1]
    split = targets * rules.num_colors
    parts = [column[:split].reshape(targets, -1, games), column[split:].reshape(targets, -1, games)]
    return jnp.concatenate(parts, axis=1)


def _read(
    rules: Rules, public: Public, seen: ObsView, unseen: jax.Array
) -> tuple[Reading, Reading, CardFacts, jax.Array, jax.Array]:
    """One game: everyone's reading, the observer's own, the board, what the next player would
    lose, and the components [X, A] of each hint, the last its worth to `bot:convention`."""
    board = card_facts(rules, seen)
    everyone = read_hands(board, public)
    known = public.knowledge.at[0].set(public.knowledge[0] & unseen)
    mine = read_hands(board, public._replace(knowledge=known))
    danger = judging._next_loses(rules, board, everyone, seen)
    facts = judging._facts(board, public, mine, seen)
    every = judging.all_hints(rules)

    def judge(target: jax.Array, cards: jax.Array, is_rank: jax.Array) -> jax.Array:
        return _components(
            rules, board, public, everyone, facts, danger, seen, target, cards, is_rank
        )

    columns = jax.vmap(judge, out_axes=-1)(
        jnp.array(every.target), jnp.array(every.cards), jnp.array(every.is_rank)
    )
    return everyone, mine, board, danger, columns


def _components(rules, board, public, before, facts, danger, seen, target, cards, is_rank):  # type: ignore
    v = judging.Values
    touched = ((seen.hands & cards) != 0) & target[:, None]
    told = read_hint(rules, board, public, before, target, touched, cards, is_rank)
    after = read_hands(board, told)
    new, useful = touched & ~public.hinted, facts.useful
    taken = facts.taken | judging._repeats_earlier(jnp.where(new, seen.hands, 0))
    kept = (after.candidates & seen.hands) != 0
    had = (before.candidates & seen.hands) != 0
    was_wrong, is_wrong = before.playable & ~facts.playable, after.playable & ~facts.playable
    first_copy = new & useful & ~taken
    size = jax.lax.population_count
    narrowed = (size(before.candidates).astype(jnp.float32) - size(after.candidates)) / jnp.maximum(
        size(before.candidates), 1
    )
    of_target = (seen.hands != 0) & target[:, None]

    def total(where: jax.Array, value: jax.Array | float = 1.0) -> jax.Array:
        return jnp.sum(jnp.where(where & of_target, value, 0.0))

    def waits(known: Public, reading: Reading) -> jax.Array:
        late = reading.candidates & ~soon_playable(rules, board, reading.claimed)
        return (
            known.hinted
            & (late == 0)
            & ~reading.trash
            & ~reading.playable
            & ((reading.candidates & seen.hands) != 0)
        )

    weighted = [
        (v.PLAY, total(after.playable & facts.playable & ~before.playable)),
        (v.FIXED, total(was_wrong & ~is_wrong)),
        (-v.MISPLAY, total(is_wrong & ~was_wrong)),
        (v.TOUCH, total(first_copy)),
        (-v.MAYBE_MINE, total(first_copy, facts.maybe_mine)),
        (v.CRITICAL, total(first_copy & facts.critical)),
        (-v.WRONG, total(~kept & (first_copy | (told.hinted & useful & ~new & had)))),
        (-v.HARMLESS, total(new & ~useful & after.trash)),
        (-v.TRASH, total(new & ~useful & ~after.trash)),
        (-v.HARMLESS, total(new & useful & taken & after.trash)),
        (-v.DUPLICATE, total(new & useful & taken & ~after.trash)),
        (v.KNOWN_TRASH, total(after.trash & ~before.trash & ~useful)),
        (v.NARROWED, total(told.hinted & useful, narrowed)),
        (v.SOON, total(waits(told, after) & ~waits(public, before))),
        (6.0, (danger - judging._next_loses(rules, board, after, seen)) / 6.0),
    ]
    worth = sum(weight * component for weight, component in weighted)
    chop = new & before.chop
    saved, any_new = jnp.any(chop), jnp.any(new)
    focus = jnp.where(saved, chop, last_true(jnp.where(any_new, new, touched)))
    card = jnp.sum(jnp.where(focus, seen.hands, 0), dtype=jnp.uint32)
    soon = soon_playable(rules, board, before.claimed)
    flags = [
        saved,
        *[(card & jnp.uint32(r)) != 0 for r in rules.rank_cards],
        *[(card & cards) != 0 for cards in (board.playable, soon, board.useless, board.critical)],
        jnp.any(told.hinted & focus & facts.taken),
        *[jnp.any(focus[:, s]) for s in range(rules.hand_size)],
    ]
    columns = [component for _, component in weighted]
    columns += [flag.astype(jnp.float32) for flag in flags]
    some = jnp.any(touched)
    columns = [jnp.where(some, column, 0.0) for column in columns]
    return jnp.stack([*columns, jnp.where(some, worth, -100.0)])
