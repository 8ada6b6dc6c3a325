"""`bot:errand`: runs errands for soups in Overcooked; and `bot:still`, which stays."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from hanabi_rl.agents.bots.base import SMOOTHING, Bot, check_smoothing, smoothed
from hanabi_rl.games.overcooked import kitchens
from hanabi_rl.games.overcooked.kitchens import Kitchen
from hanabi_rl.games.overcooked.paths import UNREACHABLE, shortest_paths
from hanabi_rl.games.overcooked.state import DISH, FULL, NOTHING, ONION, SOUP
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS, OFFSETS, STAY
from hanabi_rl.games.prng import categorical

ERRANDS = ("soup", "onions", "dishes")

_DUE = 12  # steps until a soup is ready from which on its dish goes before onions
_PRIORITY = 1000  # more than any number of steps
_NONE = 10 * _PRIORITY  # cost of a place without a purpose
_BLOCKED = 30  # steps that a path through the other player is charged


class View(NamedTuple):
    """An observation in numbers; ``K`` places as in `paths.Paths`."""

    poses: jax.Array  # int32[B, 2], own and the partner's
    hands: jax.Array  # int32[B, 2]
    things: jax.Array  # int32[B, K], on a counter
    onions: jax.Array  # int32[B, K], in a pot; FULL from the third on
    remaining: jax.Array  # int32[B, K], steps until a soup in a pot is ready


def read_observation(kitchen: Kitchen, obs: jax.Array) -> View:
    """Decode observations uint8[B, H, W, C], see `games/overcooked/observation.py`; channels after
    its 26 are not read."""
    cells = obs.reshape(obs.shape[0], kitchen.height * kitchen.width, -1).astype(jnp.int32)
    at_floor, at_place = (
        np.array([y * kitchen.width + x for x, y in found])
        for found in (kitchen.floor, shortest_paths(kitchen).places)
    )
    floor, places = cells[:, at_floor], cells[:, at_place]
    here = [jnp.argmax(floor[..., player], axis=1) for player in range(2)]
    turns = [jnp.argmax(floor[..., 2 + 4 * p : 6 + 4 * p].sum(axis=1), axis=1) for p in range(2)]
    held = [jnp.take_along_axis(_things(floor), cell[:, None], axis=1)[:, 0] for cell in here]
    soups = places[..., 18] // FULL * places[..., 10]
    return View(
        poses=jnp.stack([4 * cell + turn for cell, turn in zip(here, turns, strict=True)], axis=1),
        hands=jnp.stack(held, axis=1),
        things=_things(places) * places[..., 11],
        onions=places[..., 16] + FULL * soups,
        remaining=places[..., 20],
    )


def _things(cells: jax.Array) -> jax.Array:
    """int32[B, C]: the thing in each cell that is no pot."""
    return SOUP * cells[..., 21] + DISH * cells[..., 22] + ONION * cells[..., 23]


class ErrandBot(Bot):
    """Fetches onions and dishes, fills pots, takes out and serves soups, each by a shortest path
    around its partner.

    It leaves an errand to a nearer partner with the same thing, puts down a thing without use, and
    takes things from counters where that is nearer. A thing whose goal it cannot reach goes to a
    counter that both reach. If the partner is in its way, it detours or insists, each with
    probability 1/2. Without an errand it walks at random, so that it blocks nothing for long.
    """

    name: ClassVar[str] = "errand"
    version: ClassVar[str] = "1"
    game: ClassVar[str | None] = "overcooked"
    is_stochastic: ClassVar[bool] = True

    errand: str = struct.field(pytree_node=False, default="soup")
    """One of `ERRANDS`: all; only onions to pots; only dishes and soups."""
    is_stubborn: bool = struct.field(pytree_node=False, default=False)
    """True: it walks as if there were no partner."""
    smoothing: float = struct.field(pytree_node=False, default=SMOOTHING)
    """Probability of a random action."""

    @classmethod
    def make(cls, rules: Any, **parameters: Any) -> ErrandBot:
        """See `Bot.make`."""
        bot = cls(rules=rules, **parameters)
        if bot.errand not in ERRANDS:
            raise ValueError(f"errand: expected one of {', '.join(ERRANDS)}, got {bot.errand}")
        check_smoothing(bot.smoothing)
        return bot

    def init_carry(self, batch: int) -> jax.Array:
        """See `Policy.init_carry`; int32[B, 3]: cell and hand before, and the cell that it left
        last with that hand (-1: none)."""
        return jnp.full((batch, 3), -1)

    def step(
        self,
        carry: jax.Array,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        """See `Policy.step`; obs: uint8[B, H, W, 26] or 32 channels."""
        view = read_observation(self.rules.layout, obs)
        cell, hand = view.poses[:, 0] >> 2, view.hands[:, 0]
        before, held, left = jnp.where(reset[:, None], -1, carry).T
        left = jnp.where(hand != held, -1, jnp.where(cell != before, before, left))
        probs = _errand_probs(self, view, left)
        carry = jnp.stack([cell, hand, left], axis=1)
        if key is not None:
            drawn = categorical(key, jnp.log(probs))
            return carry, smoothed(drawn, legal, self.smoothing)
        spread = self.smoothing / NUM_ACTIONS
        return carry, jnp.log(spread + (1 - self.smoothing) * probs)


class StillBot(Bot):
    """Stays where it is."""

    name: ClassVar[str] = "still"
    version: ClassVar[str] = "1"
    game: ClassVar[str | None] = "overcooked"

    smoothing: float = struct.field(pytree_node=False, default=SMOOTHING)
    """Probability of a random action where actions are sampled."""

    @classmethod
    def make(cls, rules: Any, **parameters: Any) -> StillBot:
        """See `Bot.make`."""
        bot = cls(rules=rules, **parameters)
        check_smoothing(bot.smoothing)
        return bot

    def init_carry(self, batch: int) -> tuple[()]:
        """See `Policy.init_carry`; empty."""
        del batch
        return ()

    def step(
        self,
        carry: tuple[()],
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[tuple[()], jax.Array]:
        """See `Policy.step`."""
        del obs, key
        return carry, smoothed(jnp.full(reset.shape, STAY), legal, self.smoothing)


def _errand_probs(bot: ErrandBot, view: View, left: jax.Array) -> jax.Array:
    """Probability of each action, float32[B, A]. left: int32[B], as in the carry."""
    kitchen: Kitchen = bot.rules.layout
    paths = shortest_paths(kitchen)
    alone = len(kitchen.floor)
    pose, partner_pose = view.poses[:, 0], view.poses[:, 1]
    steps, actions = jnp.asarray(paths.steps, jnp.int32), jnp.asarray(paths.actions, jnp.int32)
    direct = steps[alone, pose]
    around = direct if bot.is_stubborn else steps[partner_pose >> 2, pose]
    is_cut_off = around == UNREACHABLE
    cost = _costs(bot, view, direct, steps[alone, partner_pose])
    cost += jnp.where(is_cut_off, direct + _BLOCKED, around)
    goal = jnp.argmin(cost, axis=1)[:, None]

    def at_goal(values: jax.Array) -> jax.Array:
        return jnp.take_along_axis(values, goal, axis=1)

    straight, detour = (
        jax.nn.one_hot(at_goal(of_pose)[:, 0], NUM_ACTIONS)
        for of_pose in (actions[alone, pose], actions[partner_pose >> 2, pose])
    )
    walk = jnp.where(np.arange(NUM_ACTIONS) <= STAY, 1 / (STAY + 1), 0.0)
    detour = straight if bot.is_stubborn else jnp.where(at_goal(is_cut_off), walk, detour)
    in_the_way = at_goal(around) > at_goal(direct) + 2
    chosen = jnp.where(in_the_way, (straight + detour) / 2, detour)
    chosen = jnp.where(at_goal(cost) >= _NONE, walk, chosen)
    if bot.is_stubborn:
        return chosen
    # hesitate where both would enter one cell, and before a step back
    ahead = jnp.asarray(_cells_ahead(kitchen))
    entered = ahead[pose >> 2]
    contested = entered == ahead[partner_pose >> 2, partner_pose & 3][:, None]
    hesitates = (contested & (entered < alone)) | (entered == left[:, None])
    kept = jnp.where(jnp.pad(hesitates, ((0, 0), (0, NUM_ACTIONS - 4))), chosen / 2, chosen)
    rest = 1 - kept.sum(axis=1, keepdims=True)
    return kept + rest * jax.nn.one_hot(STAY, NUM_ACTIONS)


def _cells_ahead(kitchen: Kitchen) -> np.ndarray:
    """Number of the floor cell next to each cell in each direction, int64[F, 4]; F: none."""
    cells = {place: number for number, place in enumerate(kitchen.floor)}
    ahead = [[cells.get((x + dx, y + dy), len(cells)) for dx, dy in OFFSETS] for x, y in cells]
    return np.array(ahead)


def _costs(bot: ErrandBot, view: View, direct: jax.Array, partner: jax.Array) -> jax.Array:
    """Priority of each place times `_PRIORITY`, int32[B, K]; `_NONE` for places without a purpose.

    Args:
        bot: the bot.
        view: what it sees.
        direct: int32[B, K], its own steps to each place, without the partner.
        partner: int32[B, K], the partner's.
    """
    kitchen = bot.rules.layout
    letters = np.array([kitchen.letter(place) for place in shortest_paths(kitchen).places])
    counter, onions, dishes, pot, serving = (
        jnp.asarray(letters == letter) for letter in (kitchens.COUNTER, *"ODPS")
    )
    hand, partner_hand = view.hands[:, :1], view.hands[:, 1:]
    reached = direct < UNREACHABLE
    shared = reached & (partner < UNREACHABLE)
    cooks, serves = (_any(reached & kind) for kind in (pot, serving))

    pot = pot & (reached | ~cooks)  # a giver serves its partner's pots
    full, room = pot & (view.onions == FULL), pot & (view.onions < FULL)
    due = full & (view.remaining <= _DUE)
    missing = jnp.where(room, FULL - view.onions, 0).sum(axis=1, keepdims=True)

    def on_its_way(thing: int) -> jax.Array:
        """int32[B, 1]: in the partner's hand and, for a giver, where the partner can take it."""
        lying = _count(shared & (view.things == thing))
        return (partner_hand == thing) + jnp.where(cooks, 0, lying)

    def may_use(thing: int, places: jax.Array) -> jax.Array:
        """bool[B, 1]: there is such a place, and no nearer partner with the same thing."""
        nearer = _nearest(partner, places) < _nearest(direct, places)
        return _any(places) & ~((partner_hand == thing) & nearer)

    brings_onions, brings_dishes = bot.errand != "dishes", bot.errand != "onions"
    needs_onion = brings_onions & (missing > on_its_way(ONION))
    needs_dish = brings_dishes & (_count(full) > on_its_way(DISH))
    needs_dish_now = brings_dishes & (_count(due) > on_its_way(DISH))
    uses_onion = brings_onions & cooks & (needs_onion | may_use(ONION, room))
    uses_dish = brings_dishes & cooks & (needs_dish | may_use(DISH, full))

    def lying(thing: int, useful: jax.Array) -> jax.Array:
        return counter & (view.things == thing) & useful

    free = counter & (view.things == NOTHING)
    down = free & (cooks | shared)
    cases: list[tuple[int, jax.Array, int, Any]] = [
        # hand, place, priority, extra steps
        (SOUP, serving, 0, 0),
        (SOUP, free & shared & ~serves, 1, 0),
        (DISH, full & uses_dish, 0, jnp.maximum(view.remaining - direct, 0)),
        (DISH, down & ~uses_dish, 1, 0),
        (ONION, room & uses_onion, 0, 2 * (FULL - view.onions)),
        (ONION, down & ~uses_onion, 1, 0),
        (NOTHING, lying(SOUP, serves), 0, 0),
        (NOTHING, (dishes | lying(DISH, cooks)) & needs_dish_now, 1, 0),
        (NOTHING, (onions | lying(ONION, cooks)) & needs_onion, 2, 0),
        (NOTHING, (dishes | lying(DISH, cooks)) & needs_dish, 3, 0),
    ]
    cost = jnp.full(direct.shape, _NONE)
    for holds, places, priority, extra in cases:
        fits = (hand == holds) & places & reached
        cost = jnp.minimum(cost, jnp.where(fits, priority * _PRIORITY + extra, _NONE))
    return cost


def _count(which: jax.Array) -> jax.Array:
    return which.sum(axis=1, keepdims=True)


def _any(which: jax.Array) -> jax.Array:
    return which.any(axis=1, keepdims=True)


def _nearest(steps: jax.Array, places: jax.Array) -> jax.Array:
    return jnp.where(places, steps, UNREACHABLE).min(axis=1, keepdims=True)
