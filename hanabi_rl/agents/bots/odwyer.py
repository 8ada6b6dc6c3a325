"""`bot:simple`, `value`, `holmes`, `smart`, `info`: bots of O'Dwyer for 2 to 5 players.

From a description of the rules of https://github.com/Quuxplusone/Hanabi (2019). Each keeps notes on
the assumed knowledge of every card's owner, updates them after every move, and chooses by them and
the visible hands. It makes no assertions, so it can play with any partner.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp

from hanabi_rl.agents.bots import holmes, info, simple, smart, value
from hanabi_rl.agents.bots.active_rows import compute_active_rows
from hanabi_rl.agents.bots.base import SMOOTHING, Bot, check_smoothing, smoothed
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_observation import SeatObservation, decode_observation

PyTree = Any


class BotLogic(NamedTuple):
    """Functions of a bot for one row; the notes are arrays ``[P, H]``."""

    nothing_known: Callable[[Rules], PyTree]
    """Notes at the deal."""
    observe: Callable[[Rules, Any, SeatObservation], PyTree]
    """Notes after the last move."""
    choose: Callable[[Rules, Any, SeatObservation], jax.Array]
    """Action int32[] on the bot's turn."""


class NoteBot(Bot):
    """Bot with notes as its carry, `[B, P, H]`."""

    logic: ClassVar[BotLogic]
    smoothing: float = flax.struct.field(pytree_node=False, default=SMOOTHING)

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def init_carry(self, batch: int) -> PyTree:
        """See `Policy.init_carry`."""
        return jax.tree.map(
            lambda note: jnp.broadcast_to(note, (batch, *note.shape)),
            self.logic.nothing_known(self.rules),
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
        rules, logic = self.rules, self.logic
        seen = jax.vmap(lambda o: decode_observation(rules, o))(obs)
        blank = logic.nothing_known(rules)
        notes = jax.tree.map(
            lambda old, new: jnp.where(reset[:, None, None], new, old), carry, blank
        )
        notes = jax.vmap(lambda n, s: logic.observe(rules, n, s))(notes, seen)
        action = compute_active_rows(
            rules,
            ~legal[:, rules.noop],
            jax.vmap(lambda row: logic.choose(rules, *row)),
            (notes, seen),
        )
        action = jnp.where(legal[:, rules.noop], rules.noop, action)
        return notes, smoothed(action, legal, self.smoothing)


class SimpleBot(NoteBot):
    """Hints mean that the touched cards are playable (`hanabi_rl.agents.bots.simple`)."""

    name: ClassVar[str] = "simple"
    version: ClassVar[str] = "1"
    logic: ClassVar[BotLogic] = BotLogic(simple.nothing_known, simple.observe, simple.choose)


class ValueBot(NoteBot):
    """SimpleBot that also warns before last copies are discarded
    (`hanabi_rl.agents.bots.value`)."""

    name: ClassVar[str] = "value"
    version: ClassVar[str] = "1"
    logic: ClassVar[BotLogic] = BotLogic(value.nothing_known, value.observe, value.choose)


class HolmesBot(NoteBot):
    """ValueBot with deductions from the possible cards of each slot
    (`hanabi_rl.agents.bots.holmes`)."""

    name: ClassVar[str] = "holmes"
    version: ClassVar[str] = "1"
    logic: ClassVar[BotLogic] = BotLogic(holmes.nothing_known, holmes.observe, holmes.choose)


class SmartBot(NoteBot):
    """Deductions from the meaning of hints and from omitted hints
    (`hanabi_rl.agents.bots.smart`)."""

    name: ClassVar[str] = "smart"
    version: ClassVar[str] = "1"
    logic: ClassVar[BotLogic] = BotLogic(smart.nothing_known, smart.observe, smart.choose)


class InfoBot(NoteBot):
    """Hat guessing: a hint tells every partner about its hand (`hanabi_rl.agents.bots.info`)."""

    name: ClassVar[str] = "info"
    version: ClassVar[str] = "1"
    logic: ClassVar[BotLogic] = BotLogic(info.nothing_known, info.observe, info.choose)
