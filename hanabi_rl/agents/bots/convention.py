"""`bot:convention`: a human-style convention bot for 2 to 5 players.

Its conventions, implemented in `hanabi_rl.agents.bots.hint_inference`:

- *Chop.* A player discards known trash first, otherwise its oldest unhinted card.
- *Focus.* A hint is about one card: the chop if it is newly touched, otherwise the newest newly
  touched card. A focus off the chop is playable, now or after cards already known; a focus on the
  chop may instead need saving (5s and 2s by rank, last copies by either).
- *Good touch.* Hinted cards are useful and not known elsewhere, unless their owner can tell.

On its turn a seat plays a card that it knows to be playable, unless a hint is urgent: the next
player would discard a valuable card or misplay, or is idle and a hint would change that. Otherwise
it gives the best hint, if that is worth a token, and otherwise discards. The value of a hint
follows from the receiver's inference, compared with the true cards. Colours are symmetric:
permuting the colours of an observation permutes the logits.
"""

from typing import ClassVar

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.active_rows import compute_active_rows
from hanabi_rl.agents.bots.base import SMOOTHING, Bot, check_smoothing, smoothed
from hanabi_rl.agents.bots.hint_inference import (
    CardFacts,
    CommonKnowledge,
    HandInference,
    card_facts,
    infer_hands,
    unseen_copies,
    update_common_knowledge,
)
from hanabi_rl.agents.bots.hints import score_hints
from hanabi_rl.games.hanabi.actions import action_slices
from hanabi_rl.games.hanabi.bits import last_true, members, tally, to_set
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation, decode_observation


class ConventionBot(Bot):
    """Common human conventions; the carry is the `CommonKnowledge`, `[B, P, H]`."""

    name: ClassVar[str] = "convention"
    version: ClassVar[str] = "2"
    smoothing: float = flax.struct.field(pytree_node=False, default=SMOOTHING)

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def init_carry(self, batch: int) -> CommonKnowledge:
        """See `Policy.init_carry`."""
        return _nothing_known(self.rules, (batch,))

    def step(
        self,
        carry: CommonKnowledge,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[CommonKnowledge, jax.Array]:
        """See `Policy.step`; the logits are log-probabilities, see `smoothed`."""
        rules = self.rules
        seen = jax.vmap(lambda o: decode_observation(rules, o))(obs)
        start = _nothing_known(rules, reset.shape)
        carry = jax.tree.map(
            lambda old, new: jnp.where(reset[:, None, None], new, old), carry, start
        )
        public = jax.vmap(lambda p, s: update_common_knowledge(rules, p, s))(carry, seen)
        idle = legal[:, rules.noop]
        action = compute_active_rows(
            rules, ~idle, jax.vmap(lambda row: choose_action(rules, *row)), (public, seen)
        )
        action = jnp.where(idle, rules.noop, action)
        return public, smoothed(action, legal, self.smoothing)


def _nothing_known(rules: Rules, batch: tuple[int, ...]) -> CommonKnowledge:
    shape = (*batch, rules.num_players, rules.hand_size)
    everything = jnp.full(shape, rules.all_cards, jnp.uint32)
    return CommonKnowledge(
        knowledge=everything, inferred=everything, hinted=jnp.zeros(shape, jnp.bool_)
    )


class _Thresholds:
    """Thresholds of actions, in units of `hints.HintValues` and tuned with them."""

    URGENT_DANGER = 5.0  # minimum discard loss of the next player for a hint before a play ...
    URGENT = 6.0  # ... if the hint has at least this value
    IDLE = 15.0  # minimum value of a hint before a play if the next player is idle
    NEVER = 60.0  # minimum value of other hints before a play
    TOKEN = 7.0  # minimum value of a hint without a play, at half the information tokens
    PER_TOKEN = 1.0  # reduction per additional token
    SPARE = 2  # with at most this many spare discards ...
    STALL = 7.0  # ... the minimum is reduced by this
    LOCKED = -43.0  # minimum value of a hint if every card is hinted and none is trash
    NO_GUESS = 11.0  # minimum value of a hint that replaces a guess
    GUESS = 0.05  # minimum success probability of a guess
    # ranks that a card gains in priority per hinted card of others that waits for it
    WAITED_FOR = 3.0


def choose_action(rules: Rules, public: CommonKnowledge, seen: SeatObservation) -> jax.Array:
    """Action ``int32[]`` of the observer on its turn."""
    board, limit = card_facts(rules, seen), _Thresholds
    everyone = infer_hands(board, public)
    unseen = unseen_copies(rules, seen)
    mine_known = public._replace(
        knowledge=public.knowledge.at[0].set(public.knowledge[0] & to_set(unseen > 0))
    )
    own_inference = infer_hands(board, mine_known)

    hint, worth, danger = score_hints(rules, board, public, everyone, own_inference, seen)
    play, has_play = _best_play(rules, board, mine_known, own_inference, seen)
    guess, has_guess = _last_guess(board, own_inference, unseen, seen)
    discard, has_discard = _best_discard(board, own_inference)

    next_wrong = jnp.any(everyone.playable[1] & ((seen.hands[1] & board.playable) == 0))
    next_idle = ~jnp.any(everyone.playable[1] | everyone.trash[1])
    hint_first = jnp.where((danger >= limit.URGENT_DANGER) | next_wrong, limit.URGENT, limit.NEVER)
    hint_first = jnp.where(next_idle, jnp.minimum(hint_first, limit.IDLE), hint_first)

    stall = (_spare_discards(rules, board, seen) <= limit.SPARE) | (seen.deck == 0)
    needed = (
        limit.TOKEN
        - limit.PER_TOKEN * (seen.info - rules.max_info_tokens // 2)
        - jnp.where(stall, limit.STALL, 0.0)
    )
    needed = jnp.where(has_discard, needed, limit.LOCKED)
    needed = jnp.where(seen.info == rules.max_info_tokens, -jnp.inf, needed)

    plays, hints = action_slices(rules)["play"].start, action_slices(rules)["color"].start
    gives_hint = worth >= jnp.where(has_play, hint_first, needed)
    guesses = ~has_play & has_guess & (worth < limit.NO_GUESS)
    otherwise = jnp.where(has_play, plays + play, discard)
    action = jnp.where(guesses, plays + guess, jnp.where(gives_hint, hints + hint, otherwise))
    return action.astype(jnp.int32)


def _spare_discards(rules: Rules, board: CardFacts, seen: SeatObservation) -> jax.Array:
    """Number of discards that still allow the maximum reachable score, int32[]."""
    to_play = jax.lax.population_count(~board.useless & rules.all_cards).astype(jnp.int32)
    return seen.deck + rules.num_players - to_play


def _best_play(
    rules: Rules,
    board: CardFacts,
    public: CommonKnowledge,
    own_inference: HandInference,
    seen: SeatObservation,
) -> tuple[jax.Array, jax.Array]:
    """Slot to play ``int32[]``, and True if there is one.

    Low ranks and cards that others' hinted cards wait for come first. On the last life, only cards
    that are playable without assuming good touch.
    """
    ranks = jnp.arange(rules.num_cards) % rules.num_ranks
    waiting = tally(rules, jnp.where(public.hinted, seen.hands, 0))
    leads_to = jnp.where(ranks < rules.num_ranks - 1, jnp.roll(waiting, -1), 0)
    value = (rules.num_ranks - 1.0 - ranks) + _Thresholds.WAITED_FOR * leads_to
    can_be = members(rules, own_inference.candidates[0])
    value = jnp.sum(can_be * value, axis=-1) / jnp.maximum(jnp.sum(can_be, axis=-1), 1)

    possible = public.knowledge[0] & public.inferred[0]
    possible = jnp.where(possible != 0, possible, public.knowledge[0])
    safe = (seen.lives > 1) | ((possible & ~board.playable) == 0)
    playable = own_inference.playable[0] & safe
    value = jnp.where(playable, value, -jnp.inf)
    newest_best = last_true(playable & (value == jnp.max(value)))
    return jnp.argmax(newest_best), jnp.any(playable)


def _last_guess(
    board: CardFacts, own_inference: HandInference, unseen: jax.Array, seen: SeatObservation
) -> tuple[jax.Array, jax.Array]:
    """Slot most likely playable, and True to try it: with an empty deck and a spare life."""
    bits = jnp.left_shift(jnp.uint32(1), jnp.arange(unseen.shape[0], dtype=jnp.uint32))
    copies = jnp.where((own_inference.candidates[0][:, None] & bits) != 0, unseen, 0)
    good = jnp.sum(jnp.where((board.playable & bits) != 0, copies, 0), axis=-1)
    prob = good / jnp.maximum(jnp.sum(copies, axis=-1), 1)
    best = jnp.max(prob)
    tries = (seen.deck == 0) & (seen.lives > 1) & (best > _Thresholds.GUESS)
    return jnp.argmax(prob == best), tries


def _best_discard(board: CardFacts, own_inference: HandInference) -> tuple[jax.Array, jax.Array]:
    """Slot to discard ``int32[]`` and True if there is trash or a chop: the newest known trash,
    otherwise the chop, otherwise the hinted card least likely to be critical."""
    trash, chop = own_inference.trash[0], own_inference.chop[0]
    size = jax.lax.population_count(own_inference.candidates[0]).astype(jnp.float32)
    risk = jax.lax.population_count(own_inference.candidates[0] & board.critical) / jnp.maximum(
        size, 1.0
    )
    risk = jnp.where(own_inference.candidates[0] == 0, jnp.inf, risk)
    least = last_true(risk == jnp.min(risk))
    choice = jnp.where(jnp.any(trash), last_true(trash), jnp.where(jnp.any(chop), chop, least))
    return jnp.argmax(choice), jnp.any(trash | chop)
