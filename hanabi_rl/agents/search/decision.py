"""One decision of a searching seat (Lerer et al. 2020, "Improving Policies via Search in
Cooperative Partially Observable Games", arXiv 1912.02318; regularised as in Jacob et al. 2022,
arXiv 2112.07544).

1. Compute the policy's distribution tau over the moves, and select candidate moves.
2. Sample `K` own hands from the grounded belief (at the end of the deck, enumerate all), assign
    each one a model of the others in turn, and compute the likelihood of their last moves,

       L(hand, model) = prod over their last moves of (1 - epsilon) pi(move | hand, model) +
       epsilon / |legal|.

3. Resample hands with their models by that weight, each with an order of the deck; if there is a
    game for every hand, take each once, and the values are exact. Every candidate is played on the
    same samples, and the policy (for the others: their model) plays to the end.
4. Return logits log tau(a) + gain(a) / lambda, with the gain over the policy's most likely move.

The networks occur in the program once, which shortens compilation: a loop queries them for all `R`
rows at a time, first for the decision, then for the others' last moves, then ply by ply.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hanabi_rl.agents.search.config import SearchConfig
from hanabi_rl.agents.search.determinization import (
    Determinizations,
    HandSamples,
    apply_determinizations,
    determinize,
    normalized_weights,
    sample_hands,
    with_hands,
)
from hanabi_rl.agents.search.history import FeatureSpec, MoveHistory, Position
from hanabi_rl.agents.search.models import SearchModels, model_logits
from hanabi_rl.agents.structured.features import features_of, update_memory
from hanabi_rl.agents.structured.hint_memory import Memory, next_seat
from hanabi_rl.games.hanabi.dynamics import finished, legal_for_current_player, score, step
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.games.hanabi.state import State
from hanabi_rl.nn.networks import ILLEGAL_LOGIT


class Decision(NamedTuple):
    """Result of a search in one game."""

    logits: jax.Array  # float32[A]: logits of the searching agent
    policy: jax.Array  # float32[A]: log-probabilities of the policy without search
    candidates: jax.Array  # int32[M]: candidate moves, the policy's most likely first
    num_tried: jax.Array  # int32[]: number of `candidates` in use; 1 if there was no choice
    gain: jax.Array  # float32[M]: gain in points over the policy's most likely move
    error: jax.Array  # float32[M]: standard errors of the gains, with common hands and decks
    value: jax.Array  # float32[M]: mean scores
    num_network_calls: jax.Array  # int32[]: number of network calls, each for all rows
    effective_sample_size: jax.Array  # float32[]: effective number of hands
    loglik: jax.Array  # float32[K]: log-likelihood of the others' last moves, per hand
    # int32[K, H]: the hands; hand k is used with model k mod M of the others. At the end of the
    # deck, unused hands have zero likelihood (`determinization.sample_hands`)
    hands: jax.Array


class _Work(NamedTuple):
    """Carry of the loop (R rows, M moves)."""

    time: jax.Array  # int32[], network calls so far
    stop: jax.Array  # bool[]
    policy: jax.Array  # float32[A], log-probabilities
    tried: jax.Array  # int32[M]
    num_tried: jax.Array  # int32[]
    loglik: jax.Array  # float32[K]
    effective: jax.Array  # float32[]
    deals: Determinizations  # [R], of the games that are played
    state: State  # [R]
    before: Memory  # [R]


def decide(
    rules: Rules,
    spec: FeatureSpec,
    settings: SearchConfig,
    players: SearchModels,
    now: Position,
    past: MoveHistory,
    length: jax.Array,
    key: jax.Array,
) -> Decision:
    """Search for one decision.

    Args:
        now: position [1] at the seat's turn.
        past: the others' last moves, leaves [W, ...], newest first; `length` int32[] are valid.
        key: one typed key.
    """
    rows = settings.num_rollouts
    hand_key, *deal_keys = jax.random.split(key, 3)
    hands = sample_hands(rules, settings.num_sampled, players.number, now.state, hand_key)
    reads = length * settings.num_blocks

    def repeated(tree: Any) -> Any:
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (rows, *x.shape[1:])), tree)

    def ask(work: _Work) -> _Work:
        playing = work.time > reads
        index = jnp.maximum(work.time - 1, 0)
        which, block = index % jnp.maximum(length, 1), index // jnp.maximum(length, 1)

        def look_back() -> tuple[State, Memory]:
            """Position of the decision or of a past move, with the hands of a block."""
            cards = jax.lax.dynamic_slice_in_dim(hands.cards, block * rows, rows, axis=1)
            then, slot, card = jax.tree.map(
                lambda x: x[which], (past.position, past.slot, past.card)
            )
            gone = jnp.broadcast_to(card[:, None], cards.shape)
            held = jnp.where(slot[:, None] < 0, gone, cards[jnp.maximum(slot, 0)])
            own = work.time == 0
            place = jax.tree.map(lambda a, b: jnp.where(own, a, b[None]), now, then)
            held = jnp.where(own, cards, held)
            state = with_hands(rules, repeated(place.state), held)
            return state, repeated(place.before)

        def model_read() -> jax.Array:
            return (block * rows + jnp.arange(rows)) % players.number

        state, before = jax.lax.cond(playing, lambda: (work.state, work.before), look_back)
        model = jax.lax.cond(playing, lambda: work.deals.hand % players.number, model_read)
        seat_obs, legal = from_state(rules, state), legal_for_current_player(rules, state)
        memory = before
        if spec.features != "facts" or spec.profile:
            memory = update_memory(rules, spec.features, before, seat_obs)
        features = features_of(rules, spec.features, memory, seat_obs)
        logits = model_logits(rules, spec, players, state.player[0] == 0, model, features, legal)

        def decided() -> _Work:
            policy = jax.nn.log_softmax(logits[0])
            tried, count = select_candidates(settings, policy, legal[0])
            after = next_seat(memory)
            return work._replace(
                policy=policy, tried=tried, num_tried=count, before=after, stop=count < 2
            )

        def read() -> _Work:
            probs = jax.nn.softmax(logits, axis=-1)[:, past.action[which]]
            at_random = 1.0 / jnp.maximum(jnp.sum(legal, axis=-1), 1)
            likely = jnp.log((1 - settings.epsilon) * probs + settings.epsilon * at_random)
            so_far = jax.lax.dynamic_slice(work.loglik, (block * rows,), (rows,))
            loglik = jax.lax.dynamic_update_slice(work.loglik, so_far + likely, (block * rows,))
            return work._replace(loglik=loglik)

        def played() -> _Work:
            return work._replace(before=next_seat(memory))

        stage = jnp.where(playing, 2, jnp.minimum(work.time, 1))
        work = jax.lax.switch(stage, [decided, read, played])
        begins = (work.time == reads) & ~work.stop
        action = jnp.argmax(logits, axis=-1).astype(jnp.int32)

        def begin() -> tuple[_Work, jax.Array]:
            effective = normalized_weights(work.loglik)[1] * settings.num_sampled / hands.num_valid
            enough = effective >= settings.min_ess_fraction * settings.num_sampled
            deals = determinize(rows, hands, work.loglik, work.num_tried, deal_keys[0])
            state = apply_determinizations(rules, repeated(now.state), hands, deals, deal_keys[1])
            begun = work._replace(effective=effective, stop=~enough, deals=deals, state=state)
            return begun, work.tried[jnp.arange(rows) % work.num_tried]

        work, action = jax.lax.cond(begins, begin, lambda: (work, action))
        work = jax.lax.cond(
            (begins | playing) & ~work.stop, lambda: _played(rules, work, action), lambda: work
        )
        return work._replace(time=work.time + 1)

    start = _Work(
        time=jnp.int32(0),
        stop=jnp.bool_(False),
        policy=jnp.zeros(rules.num_actions),
        tried=jnp.zeros(settings.max_moves, jnp.int32),
        num_tried=jnp.int32(1),
        loglik=hands.loglik,
        effective=jnp.float32(0),
        deals=determinize(rows, hands, hands.loglik, jnp.int32(1), deal_keys[0]),  # not read
        state=repeated(now.state),
        before=repeated(now.before),
    )
    work = jax.lax.while_loop(lambda work: ~work.stop, ask, start)
    return _decision(rules, settings, work, hands)


def select_candidates(
    settings: SearchConfig, policy: jax.Array, legal: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Candidate moves int32[M], most likely first, and their number int32[] (1: no choice), given
    the policy's log-probabilities float32[A]."""
    log_probs, tried = jax.lax.top_k(jnp.where(legal, policy, ILLEGAL_LOGIT), settings.max_moves)
    likely = (jnp.exp(log_probs) >= settings.min_prob) & (log_probs > ILLEGAL_LOGIT / 2)
    return tried.astype(jnp.int32), jnp.maximum(jnp.sum(likely), 1)


def regularized_logits(
    settings: SearchConfig, policy: jax.Array, tried: jax.Array, gain: jax.Array, error: jax.Array
) -> jax.Array:
    """log tau(a) + gain(a) / lambda, float32[A]: the maximiser of E[gain] - lambda KL(pi, tau)
    (Jacob et al. 2022, section 3); other moves have gain 0.

    policy: float32[A], log tau; tried, gain, error: [M], gain 0 for unused candidates.
    """
    surely = jnp.sign(gain) * jnp.maximum(jnp.abs(gain) - settings.gain_std_errors * error, 0.0)
    return policy.at[tried].add(surely / settings.lam)


def _played(rules: Rules, work: _Work, action: jax.Array) -> _Work:
    state = step(rules, work.state, action)[0].materialized()
    return work._replace(state=state, stop=jnp.all(finished(rules, state)))


def _decision(rules: Rules, settings: SearchConfig, work: _Work, hands: HandSamples) -> Decision:
    rows, count, deals = settings.num_rollouts, work.num_tried, work.deals
    number = rows // count
    counted = jnp.arange(rows) < number * count
    mine = counted & (jnp.arange(rows) % count == jnp.arange(settings.max_moves)[:, None])  # [M, R]
    scores = score(rules, work.state).astype(jnp.float32)
    more = scores - scores[deals.deal * count]
    value = jnp.sum(jnp.where(mine, scores * deals.weight, 0), axis=1)
    gain = jnp.sum(jnp.where(mine, more * deals.weight, 0), axis=1)
    spread = jnp.sum(jnp.where(mine, (more - gain[:, None]) ** 2, 0), axis=1)
    error = jnp.sqrt(spread / jnp.maximum(number - 1, 1) / number)
    used = (jnp.arange(settings.max_moves) < count) & (count > 1)
    used &= work.effective >= settings.min_ess_fraction * settings.num_sampled
    gain = jnp.where(used, gain, 0)
    error = jnp.where(used & ~deals.exact, error, 0)
    return Decision(
        logits=regularized_logits(settings, work.policy, work.tried, gain, error),
        policy=work.policy,
        candidates=work.tried,
        num_tried=count,
        gain=gain,
        error=error,
        value=jnp.where(used, value, 0),
        num_network_calls=work.time,
        effective_sample_size=work.effective,
        loglik=work.loglik,
        hands=hands.cards.T,
    )
