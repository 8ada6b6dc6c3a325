"""Policy step of a structured network: memory, features, logits, parameters."""

from typing import Any

import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots.active_rows import compute_active_rows
from hanabi_rl.agents.structured import hint_memory
from hanabi_rl.agents.structured.features import Features, features_of, sizes, update_memory
from hanabi_rl.agents.structured.hint_memory import Memory, init_memory, reset_memory
from hanabi_rl.agents.structured.profile import init_profile
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import from_observation
from hanabi_rl.nn.networks import ILLEGAL_LOGIT
from hanabi_rl.nn.precision import Precision
from hanabi_rl.nn.structured_network import StructuredConfig

PyTree = Any


def initial_carry(rules: Rules, network: StructuredConfig, batch: int) -> Memory:
    """Memory of `batch` seats before the first timestep of their games."""
    profile = init_profile(rules, (batch,)) if network.profile else None
    return init_memory(rules, network.features, (batch,), profile)


def step(
    rules: Rules,
    network: StructuredConfig,
    params: PyTree,
    carry: Memory,
    obs: jax.Array,
    legal: jax.Array,
    reset: jax.Array,
    precision: Precision = "float32",
) -> tuple[Memory, jax.Array]:
    """See `Policy.step`."""
    known = reset_memory(rules, network.features, carry, reset)
    if network.features != "facts" or network.profile:  # otherwise there is no memory
        known = update_memory(rules, network.features, known, from_observation(rules, obs))

    def active_logits(rows: tuple[Memory, jax.Array, jax.Array]) -> jax.Array:
        known, obs, legal = rows
        view = features_of(rules, network.features, known, from_observation(rules, obs))
        return logits(network, params, view, legal, precision)

    my_turn = ~legal[:, rules.noop]
    answer = compute_active_rows(rules, my_turn, active_logits, (known, obs, legal))
    return known, jnp.where(legal, answer, ILLEGAL_LOGIT)


def next_game(rules: Rules, network: StructuredConfig, carry: Memory, batch: int) -> Memory:
    """See `Policy.next_game`: the profile is kept."""
    del batch
    return hint_memory.next_game(rules, network.features, carry)


def own_inputs(rules: Rules, network: StructuredConfig, view: Features) -> Features:
    """Select the features that this network reads: with or without the profile."""
    width = sizes(rules, network.features, network.profile).table.shape[-1]
    return view._replace(table=view.table[..., :width])


def logits(
    network: StructuredConfig,
    params: PyTree,
    view: PyTree,
    legal: jax.Array,
    precision: Precision = "float32",
) -> jax.Array:
    """Apply the network: features `view` of any float type, legal bool[B, A] -> logits [B, A]."""
    out: Any = network.actor(precision=precision).apply({"params": params}, view, legal)
    return out


def init_params(rules: Rules, network: StructuredConfig, key: jax.Array) -> PyTree:
    """Initial parameters of the actor."""
    blank = jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype), sizes(rules, network.features, network.profile)
    )
    legal = jnp.ones((1, rules.num_actions), jnp.bool_)
    return network.actor().init(key, blank, legal)["params"]


def widen_params(
    rules: Rules, network: StructuredConfig, params: PyTree, to: StructuredConfig
) -> PyTree:
    """Convert actor parameters to a network of the same widths with more features.

    Outputs are unchanged: the weights of additional features are 0. Raises ValueError for fewer
    features or other widths.
    """
    narrow, wide = (sizes(rules, net.features, net.profile) for net in (network, to))
    width = {name: getattr(wide, name).shape[-1] for name in ("own", "others", "hints")}
    has_fewer = width["own"] < narrow.own.shape[-1] or (network.profile and not to.profile)
    if has_fewer or (network.trunk, network.head, network.card) != (to.trunk, to.head, to.card):
        raise ValueError(
            f"expected a network with the same widths and at least the features of {network}, "
            f"got {to}"
        )
    game = sizes(rules, network.features).table.shape[-1]  # global features without a profile
    more_of_game = sizes(rules, to.features).table.shape[-1] - game
    of_profile = wide.table.shape[-1] - narrow.table.shape[-1] - more_of_game

    def padded(rows: jax.Array, name: str) -> jax.Array:
        """Pad rows of a kernel [..., F, width] for one card or hint."""
        return _with_zeros(rows, width[name] - rows.shape[-2])

    def table(rows: jax.Array) -> jax.Array:
        """Pad rows for the global features, the last of which are the profile."""
        facts, profile = jnp.split(rows, [game])
        return jnp.concatenate([_with_zeros(facts, more_of_game), _with_zeros(profile, of_profile)])

    def own(rows: jax.Array) -> jax.Array:
        """Pad rows for an own card, followed by its encoding."""
        features, encoded = jnp.split(rows, [narrow.own.shape[-1]], axis=-2)
        return jnp.concatenate([padded(features, "own"), encoded], axis=-2)

    def card(rows: jax.Array) -> jax.Array:
        """Pad rows for an own card, followed by the global features."""
        features, rest = jnp.split(rows, [narrow.own.shape[-1]])
        return jnp.concatenate([padded(features, "own"), table(rest)])

    def trunk(kernel: jax.Array) -> jax.Array:
        encoded = network.card[-1] if network.card else 0
        others, hand, out = narrow.others.shape[1], rules.hand_size, kernel.shape[-1]
        of_table = narrow.table.shape[-1]
        of_cards = hand * (narrow.own.shape[-1] + encoded)
        ends = [of_table, of_table + of_cards, len(kernel) - 2 * network.head]
        game_rows, cards, theirs, hints = jnp.split(kernel, ends)
        cards = own(cards.reshape(hand, -1, out)).reshape(-1, out)
        theirs = padded(theirs.reshape(others, hand, -1, out), "others").reshape(-1, out)
        return jnp.concatenate([table(game_rows), cards, theirs, hints])

    change = {
        "trunk_0": trunk,
        "own": own,
        "card_0": card,
        "hint": lambda rows: padded(rows, "hints"),
    }
    return {
        name: {**layer, "kernel": change[name](layer["kernel"])} if name in change else layer
        for name, layer in params.items()
    }


def _with_zeros(rows: jax.Array, number: int) -> jax.Array:
    """[..., F, width] -> [..., F + number, width]."""
    return jnp.pad(rows, [*[(0, 0)] * (rows.ndim - 2), (0, number), (0, 0)])
