"""Single games on top of the batched core, for adapters to one-game interfaces.

`call_batched` runs batched functions for single games without losing the batch under `jax.vmap`;
`to_python_game` converts a state to a `PythonGame` that can explain moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.hanabi.bits import unpack_deck
from hanabi_rl.games.hanabi.dynamics import State
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules


def call_batched(function: Callable[..., Any], *one_game: Any) -> Any:
    """Apply a function of batches ``[N, ...]`` to one game; under `jax.vmap`, once to all games.

    The game becomes a batch of one. Each `jax.vmap` around the call adds an axis, which the rule
    below folds into the batch. `function` itself is never vmapped: a scalar `lax.while_loop` or
    `lax.cond` in it stays scalar.

    Args:
        function: takes and returns pytrees whose leaves have a leading axis of ``N`` games.
        *one_game: its arguments for one game, leaves without that axis.

    Returns:
        Result of `function` for that game, leaves without that axis.
    """
    batched = jax.custom_batching.custom_vmap(function)

    @batched.def_vmap
    def fold_axis(axis_size: int, in_batched: Any, *args: Any) -> tuple[Any, Any]:
        def fold(leaf: jax.Array, is_batched: bool) -> jax.Array:
            if not is_batched:
                leaf = jnp.broadcast_to(leaf, (axis_size, *leaf.shape))
            return leaf.reshape(-1, *leaf.shape[2:])

        out = batched(*jax.tree.map(fold, args, tuple(in_batched)))
        unfolded = jax.tree.map(lambda leaf: leaf.reshape(axis_size, -1, *leaf.shape[1:]), out)
        return unfolded, jax.tree.map(lambda _: True, out)

    return jax.tree.map(
        lambda leaf: leaf[0], batched(*jax.tree.map(lambda leaf: leaf[None], one_game))
    )


def to_python_game(rules: Rules, game: State) -> PythonGame:
    """Convert one game (leaves without the leading axis, concrete) to a `PythonGame` that can
    explain its next move.

    It omits hints, discards, and which of several copies of a card a player holds.
    """
    table = PythonGame(rules, np.asarray(unpack_deck(game.deck, rules.deck_size)))
    table.drawn = rules.deck_size - int(game.deck_left)
    unheld = list(range(table.drawn))
    for seat, hand in enumerate(np.asarray(game.hands)):
        table.hands[seat] = []
        for card in (int(word).bit_length() - 1 for word in hand if word):
            order = next(order for order in unheld if table.deck[order] == card)
            unheld.remove(order)
            table.hands[seat].append(order)
    fireworks = int(game.fireworks)
    table.fireworks = [(fireworks & cards).bit_count() for cards in rules.color_cards]
    table.info_tokens, table.life_tokens, table.turn = (
        int(game.info_tokens),
        int(game.life_tokens),
        int(game.turn),
    )
    last_round = int(game.last_round)
    table.turns_left = rules.num_players + 1 - last_round if last_round else None
    return table
