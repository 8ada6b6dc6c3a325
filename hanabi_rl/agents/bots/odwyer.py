"""`bot:simple`, `bot:value`, `bot:holmes`, `bot:smart`: the bots of O'Dwyer
(https://github.com/Quuxplusone/Hanabi, 2019) for 2 to 5 players.

Each keeps notes on what the owner of every card is taken to know, brings them up to date at every
move, and chooses from them and the hands it sees. Written from a description of their rules, in
which nothing is asserted, so that they play with any partner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import holmes, simple, smart, value
from hanabi_rl.agents.bots.active_rows import compute_active_rows
from hanabi_rl.agents.bots.base import SMOOTHING, Bot, check_smoothing, smoothed
from hanabi_rl.agents.bots.obs_view import DecodedObservation, decode_observation
from hanabi_rl.games.hanabi.rules import Rules

PyTree = Any


class BotLogic(NamedTuple):
    """How a bot thinks, for one row; the notes are arrays ``[P, H]``."""

    nothing_known: Callable[[Rules], PyTree]
    """The notes at the deal."""
    observe: Callable[[Rules, Any, DecodedObservation], PyTree]
    """The notes after the last move."""
    choose: Callable[[Rules, Any, DecodedObservation], jax.Array]
    """The action int32[] on the bot's turn."""


class NoteBot(Bot):
    """A bot that takes notes; the carry is its notes, `[B, P, H]`."""

    mind: ClassVar[BotLogic]
    smoothing: float = flax.struct.field(pytree_node=False, default=SMOOTHING)

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`."""
        return jax.tree.map(
            lambda note: jnp.broadcast_to(note, (batch, *note.shape)),
            self.mind.nothing_known(self.rules),
        )

    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`; the logits are log-probabilities, see `smoothed`."""
        del key
        rules, mind = self.rules, self.mind
        seen = jax.vmap(lambda o: decode_observation(rules, o))(obs)
        blank = mind.nothing_known(rules)
        notes = jax.tree.map(
            lambda old, new: jnp.where(reset[:, None, None], new, old), carry, blank
        )
        notes = jax.vmap(lambda n, s: mind.observe(rules, n, s))(notes, seen)
        action = compute_active_rows(
            rules,
            ~legal[:, rules.noop],
            jax.vmap(lambda row: mind.choose(rules, *row)),
            (notes, seen),
        )
        action = jnp.where(legal[:, rules.noop], rules.noop, action)
        return notes, smoothed(action, legal, self.smoothing)


class SimpleBot(NoteBot):
    """A hint says that the cards it touches can be played now.

    See `hanabi_rl.agents.bots.simple`.
    """

    name: ClassVar[str] = "simple"
    version: ClassVar[str] = "1"
    mind: ClassVar[BotLogic] = BotLogic(simple.nothing_known, simple.observe, simple.choose)


class ValueBot(NoteBot):
    """SimpleBot that also warns of last copies about to be discarded.

    See `hanabi_rl.agents.bots.value`.
    """

    name: ClassVar[str] = "value"
    version: ClassVar[str] = "1"
    mind: ClassVar[BotLogic] = BotLogic(value.nothing_known, value.observe, value.choose)


class HolmesBot(NoteBot):
    """ValueBot that draws conclusions from what each card can be.

    See `hanabi_rl.agents.bots.holmes`.
    """

    name: ClassVar[str] = "holmes"
    version: ClassVar[str] = "1"
    mind: ClassVar[BotLogic] = BotLogic(holmes.nothing_known, holmes.observe, holmes.choose)


class SmartBot(NoteBot):
    """Conclusions from what hints must have meant, and from what was left undone.

    See `hanabi_rl.agents.bots.smart`.
    """

    name: ClassVar[str] = "smart"
    version: ClassVar[str] = "1"
    mind: ClassVar[BotLogic] = BotLogic(smart.nothing_known, smart.observe, smart.choose)
