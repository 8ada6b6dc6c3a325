"""`Overcooked`: the game as learners use it, and `OvercookedEnv`, many games at once."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import tyro

from hanabi_rl.games.game import Game, GameEnv, Outcome
from hanabi_rl.games.overcooked import dynamics
from hanabi_rl.games.overcooked.kitchens import Kitchen, load_kitchen
from hanabi_rl.games.overcooked.observation import NUM_CHANNELS, observe, observe_seat
from hanabi_rl.games.overcooked.state import MAX_STEPS, State, pack_scenes, start_scene
from hanabi_rl.games.overcooked.transitions import NUM_ACTIONS


@dataclasses.dataclass(frozen=True)
class Overcooked(Game):
    """Overcooked in one kitchen. Both players act in every step, and every action is legal.

    Raises:
        ValueError: an unknown kitchen or source of starts, or a horizon outside 1 to 4095.
    """

    name: Annotated[Literal["overcooked"], tyro.conf.Suppress] = "overcooked"
    kitchen: str = "cramped_room"
    """Kitchen by its name or an alias, see `KITCHENS` and `ALIASES`."""
    starts: str | None = None
    """Source of the start positions, see `Kitchen.starts`. None: humans', otherwise the kitchen's
    first."""
    horizon: int = 400
    """Steps of a game."""
    num_players: ClassVar[int] = 2
    num_actions: ClassVar[int] = NUM_ACTIONS
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
        return self.layout.height, self.layout.width, NUM_CHANNELS

    @property
    def max_steps(self) -> int:
        """Steps of every game."""
        return self.horizon

    def start(self, keys: jax.Array) -> State:
        """See `Game`; all games start alike."""
        scene = start_scene(self.layout, self.starts)
        start = pack_scenes(self.layout, [scene])
        return jax.tree.map(lambda word: jnp.broadcast_to(word, keys.shape[0]), start)

    def step(self, state: State, action: jax.Array, keys: jax.Array) -> tuple[State, Outcome]:
        """See `Game`."""
        del keys
        after, rewards = dynamics.step(self.layout, state, action)
        outcome = Outcome(
            reward=rewards.reward, done=after.steps >= self.horizon, shaped=rewards.shaped
        )
        return after, outcome

    def observe(self, state: State) -> jax.Array:
        """Observations uint8[N, P, H, W, 26], see `observation.observe`."""
        return observe(self.layout, state, self.horizon)

    def observe_seat(self, state: State, seat: jax.Array) -> jax.Array:
        """See `Game`."""
        return observe_seat(self.layout, state, seat, self.horizon)

    def score(self, state: State, total: jax.Array) -> jax.Array:
        """Points int32[N], those before a recorded start included."""
        del total
        return dynamics.score(state)


class OvercookedEnv(GameEnv):
    """`GameEnv` of `Overcooked`, whose parameters are the arguments."""

    def __init__(self, kitchen: str = "cramped_room", **game: Any) -> None:
        super().__init__(Overcooked(kitchen=kitchen, **game))
        self.kitchen = load_kitchen(kitchen)
