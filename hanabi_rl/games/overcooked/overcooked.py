"""`Overcooked`: the game as learners use it, and `OvercookedEnv`, many games at once."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from hanabi_rl.games.game import Game, GameEnv, Outcome
from hanabi_rl.games.overcooked import dynamics, entries, events
from hanabi_rl.games.overcooked.kitchens import Kitchen, load_kitchen
from hanabi_rl.games.overcooked.observation import NUM_CHANNELS, observe, observe_seat
from hanabi_rl.games.overcooked.state import MAX_STEPS, State, pack_scenes, start_scene
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS, STAY


class RememberingState(State):
    """`State` with the players' last actions."""

    last: jax.Array
    """uint8[N, P]."""


def _remembering(state: State, last: jax.Array) -> RememberingState:
    return RememberingState(
        players=state.players,
        pots=state.pots,
        counters_low=state.counters_low,
        counters_high=state.counters_high,
        last=last,
    )


def _with_last(obs: jax.Array, last: jax.Array) -> jax.Array:
    """Observations [..., H, W, C] with channels of the last action uint8 [...], one of them 1
    everywhere."""
    channels = (last[..., None] == jnp.arange(NUM_ACTIONS)).astype(obs.dtype)[..., None, None, :]
    shape = (*obs.shape[:-1], NUM_ACTIONS)
    return jnp.concatenate([obs, jnp.broadcast_to(channels, shape)], axis=-1)


@dataclasses.dataclass(frozen=True)
class Overcooked(Game):
    """Overcooked in one kitchen. Both players act in every step, and every action is legal.

    Raises:
        ValueError: an unknown kitchen or source of starts, or a horizon outside 1 to 4095.
    """

    name: Annotated[Literal["overcooked"], tyro.conf.Suppress] = dataclasses.field(
        default="overcooked", kw_only=True
    )
    kitchen: str = "cramped_room"
    """Kitchen by its name or an alias, see `KITCHENS` and `ALIASES`."""
    starts: str | None = None
    """Source of the start positions, see `Kitchen.starts`. None: humans', otherwise the kitchen's
    first."""
    horizon: int = 400
    """Steps of a game."""
    last_action: bool = False
    """Show each player its own last action in six more channels, as human players remember it."""
    num_players: ClassVar[int] = 2
    num_actions: ClassVar[int] = NUM_ACTIONS
    idle_action: ClassVar[int | None] = STAY
    events: ClassVar[tuple[str, ...]] = events.EVENTS
    min_pair_score: ClassVar[float] = 10.0  # as ZSC-Eval
    variant: ClassVar[str] = "kitchen"

    def __post_init__(self) -> None:
        if not 1 <= self.horizon <= MAX_STEPS:
            raise ValueError(f"horizon: expected 1 to {MAX_STEPS}, got {self.horizon}")
        kitchen = load_kitchen(self.kitchen)
        kitchen.start(self.starts)
        object.__setattr__(self, "kitchen", kitchen.name)
        if self.starts == kitchen.starts[0][0]:  # equal games are equal configs
            object.__setattr__(self, "starts", None)

    @property
    def layout(self) -> Kitchen:
        """The kitchen's grid and starts."""
        return load_kitchen(self.kitchen)

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Height, width and channels."""
        channels = NUM_CHANNELS + self.last_action * NUM_ACTIONS
        return self.layout.height, self.layout.width, channels

    @property
    def max_steps(self) -> int:
        """Steps of every game."""
        return self.horizon

    def start(self, keys: jax.Array) -> State:
        """See `Game`; all games start alike."""
        scene = start_scene(self.layout, self.starts)
        start = pack_scenes(self.layout, [scene])
        return self.of_core(jax.tree.map(lambda word: jnp.broadcast_to(word, keys.shape[0]), start))

    def of_core(self, state: State) -> State:
        """The game's states [N] at states of the kitchen; the last actions are stay."""
        if not self.last_action:
            return state
        stay = jnp.full((state.players.shape[0], 2), STAY, jnp.uint8)
        return _remembering(state, stay)

    def step(self, state: State, action: jax.Array, keys: jax.Array) -> tuple[State, Outcome]:
        """See `Game`."""
        del keys
        after, rewards = dynamics.step(self.layout, state, action)
        outcome = Outcome(
            reward=rewards.reward, done=after.steps >= self.horizon, shaped=rewards.shaped
        )
        if isinstance(state, RememberingState):
            after = _remembering(after, action.astype(jnp.uint8))
        return after, outcome

    def observe(self, state: State) -> jax.Array:
        """Observations uint8[N, P, H, W, 26], see `observation.observe`, or with `last_action` 32
        channels."""
        obs = observe(self.layout, state, self.horizon)
        return _with_last(obs, state.last) if isinstance(state, RememberingState) else obs

    @property
    def sufficient_entries(self) -> np.ndarray:
        """See `Game`."""
        return entries.sufficient_entries(self.layout, self.obs_shape[-1])

    def fold_kernel(self, kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
        """See `Game`."""
        return entries.fold_kernel(self.layout, kernel)

    def observe_seat(self, state: State, seat: jax.Array) -> jax.Array:
        """See `Game`."""
        obs = observe_seat(self.layout, state, seat, self.horizon)
        if not isinstance(state, RememberingState):
            return obs
        return _with_last(obs, jnp.where(seat == 0, state.last[:, 0], state.last[:, 1]))

    def detect_events(self, state: State, action: jax.Array) -> jax.Array:
        """See `Game` and `events.detect_events`."""
        return events.detect_events(self.layout, state, action)

    def behaviour_features(self, counts: np.ndarray, score: np.ndarray) -> np.ndarray:
        """See `Game` and `events.behaviour_features`: a player's own soups count, not the score."""
        del score
        return events.behaviour_features(counts)

    def score(self, state: State, total: jax.Array) -> jax.Array:
        """Points int32[N], those before a recorded start included."""
        del total
        return dynamics.score(state)


class OvercookedEnv(GameEnv):
    """`GameEnv` of `Overcooked`, whose parameters are the arguments."""

    def __init__(self, kitchen: str = "cramped_room", **game: Any) -> None:
        super().__init__(Overcooked(kitchen=kitchen, **game))
        self.kitchen = load_kitchen(kitchen)
