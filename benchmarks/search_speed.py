"""Time of a search decision, by part, and its lower bound: the network's matrix products.

    python benchmarks/search_speed.py --agent agent:hgroup-2p --search fast --json

The decisions are those of self-play games at which more than one move is tried; one pinned core,
without compilation. A decision applies the network to all its rows once for itself, once for each
move of the others (and block of hands) that it interprets, and once per ply of its playouts. The
parts of such a round are timed separately, at the rows of one position: encoding the position
(`read`), the network (`network`), and applying the moves (`play`).
"""

import statistics
from collections.abc import Callable
from typing import Any

import common

common.pin_one_core()

import jax
import jax.numpy as jnp
from search_prediction import think, turns_of
from structured_update import product, products

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.search.history import SearchCarry
from hanabi_rl.agents.search.search_policy import SearchPolicy
from hanabi_rl.agents.structured.features import features_of, update_memory
from hanabi_rl.games.hanabi.dynamics import legal_for_current_player, step
from hanabi_rl.games.hanabi.seat_observation import from_state
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

CALLS = 20  # of a part, for one figure


def measure(
    agent: str = "agent:hgroup-2p", search: str = "fast", games: int = 2, repeats: int = 5
) -> common.Record:
    """Times the decisions, then the parts of a round in turn.

    Raises:
        ValueError: an agent with another wrapper.
    """
    policy = load_policy(f"{agent}?search={search}")
    if not isinstance(policy, SearchPolicy):
        raise ValueError(f"expected an agent without other wrappers, got {agent}")
    rules, plain = policy.rules, policy.policy
    played = play_games((plain,) * rules.num_players, rules, evaluation_decks(rules, games, 0))
    turns = [
        (carry, seat) for game in range(games) for _, carry, seat in turns_of(policy, played, game)
    ]
    before = common.core_seconds()
    jax.block_until_ready(think(policy, *turns[0]))
    record: common.Record = {"compile_s": round(common.core_seconds() - before, 1)}
    seconds, asked = [], []
    for carry, seat in turns:
        started = common.core_seconds()
        found = jax.block_until_ready(think(policy, carry, seat))
        if int(found.num_tried[0]) > 1:
            seconds.append(common.core_seconds() - started)
            asked.append(int(found.num_network_calls[0]))
    record |= {"moves": len(turns), "searched": len(seconds)}
    record |= common.median_of("decision_s", seconds, 3)
    record |= common.median_of("asked", list(map(float, asked)), 0)
    round_ms = [1e3 * took / number for took, number in zip(seconds, asked, strict=True)]
    record["round_ms"] = round(statistics.median(round_ms), 3)
    sides = parts(policy, *turns[len(turns) // 2])
    for part, values in common.alternate(sides, repeats, " ms").items():
        record |= common.median_of(f"{part}_ms", values, 3)
    record["products_share"] = round(record["products_ms"] / record["round_ms"], 2)
    return record


def parts(policy: SearchPolicy, carry: SearchCarry, seat: int) -> dict[str, Callable[[], float]]:
    """What a round is made of, each as a side that returns its milliseconds."""
    rules, shown, rows = policy.rules, policy.joint_spec, policy.settings.num_rollouts
    now = jax.tree.map(lambda leaf: jnp.stack([leaf[seat]] * rows), carry.now)
    fresh = jnp.zeros(rows, bool)

    def read(state: Any, before: Any) -> Any:
        sight = from_state(rules, state)
        memory = before
        if shown.features != "facts" or shown.profile:
            memory = update_memory(rules, shown.features, before, sight)
        return features_of(rules, shown.features, memory, sight), legal_for_current_player(
            rules, state
        )

    def network(plain: Any, features: Any, legal: jax.Array) -> jax.Array:
        logits: jax.Array = plain.step_features((), features, legal, fresh)[1]
        return logits

    def play(state: Any, action: jax.Array) -> Any:
        return step(rules, state, action)[0].materialized()

    read_out = jax.jit(read)(now.state, now.before)
    action = jnp.argmax(jax.jit(network)(policy.policy, *read_out), axis=-1).astype(jnp.int32)
    trace = jax.make_jaxpr(network)(policy.policy, *read_out)
    todo = [product(equation, 1) for equation in products(trace.jaxpr)]

    def multiply(pairs: Any) -> Any:
        return [work.function(*pair) for work, pair in zip(todo, pairs, strict=True)]

    return {
        "read": side(read, now.state, now.before),
        "network": side(network, policy.policy, *read_out),
        "play": side(play, now.state, action),
        "products": side(multiply, [work.args for work in todo]),
    }


def side(function: Callable[..., Any], *args: Any) -> Callable[[], float]:
    """Milliseconds of one call."""
    call = jax.jit(function)
    jax.block_until_ready(call(*args))

    def advance() -> float:
        started = common.core_seconds()
        for _ in range(CALLS):
            jax.block_until_ready(call(*args))
        return 1e3 * (common.core_seconds() - started) / CALLS

    return advance


if __name__ == "__main__":
    common.run(__doc__, measure)
