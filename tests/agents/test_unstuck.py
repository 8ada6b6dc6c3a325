"""`?unstuck=3` against a record of places, directions and actions kept in plain Python."""

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.agents.loading import WRAPPER_OPTIONS
from hanabi_rl.agents.unstuck import Unstuck
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.games.overcooked.state import unpack_scene

GAME = Overcooked(horizon=40, last_action=True)
LOGITS = np.array([0.1, 0.2, 0.3, 0.4, 2.0, 0.5], np.float32)

ENV = GAME.make_env()
reset_games, move = jax.jit(ENV.reset, static_argnums=1), jax.jit(ENV.step)
observe = jax.jit(lambda state: GAME.observe(state)[:, 1])


class Fixed(flax.struct.PyTreeNode):
    """The same logits at every step; its carry counts the steps of the game."""

    rules: Overcooked = flax.struct.field(pytree_node=False, default=GAME)

    def init_carry(self, batch: int) -> jax.Array:
        return jnp.zeros(batch, jnp.int32)

    def step(
        self, carry: jax.Array, obs: jax.Array, legal: jax.Array, reset: jax.Array, key: None = None
    ) -> tuple[jax.Array, jax.Array]:
        return jnp.where(reset, 1, carry + 1), jnp.broadcast_to(jnp.asarray(LOGITS), legal.shape)


@pytest.mark.parametrize("steps", [2, 3])
def test_actions_of_a_standing_player_are_excluded(steps: int) -> None:
    games, rng = 16, np.random.default_rng(steps)
    state = reset_games(jax.random.key(0), games)
    policy = Unstuck(Fixed(), steps=steps)
    ask = jax.jit(policy.step)
    carry = jax.jit(policy.init_carry, static_argnums=0)(games)
    legal = np.ones((games, 6), bool)
    history: list[list[tuple[object, int]]] = [[] for _ in range(games)]
    excluded = 0
    for step in range(60):  # the second game begins after 40
        reset = np.full(games, step % 40 == 0)
        if step == 40:
            history = [[] for _ in range(games)]
        carry, logits = ask(carry, observe(state.game), legal, reset)
        # mostly stay and walls, so that the player often stands
        actions = rng.choice(6, p=[0.2, 0.05, 0.05, 0.05, 0.55, 0.1], size=(games, 2))
        for game, past in enumerate(history):
            scene = unpack_scene(GAME.layout, state.game, game)
            pose = scene.places[1], scene.directions[1]
            recent = past[-steps:]
            expected = LOGITS.copy()
            if len(recent) == steps and all(before == pose for before, _ in recent):
                expected[[action for _, action in recent]] = -1e10
                excluded += 1
            np.testing.assert_array_equal(np.asarray(logits)[game], expected)
            past.append((pose, int(actions[game, 1])))
        state, _ = move(state, actions)
    assert 50 < excluded < games * 55
    np.testing.assert_array_equal(carry.inner, 20)


def test_refused_values() -> None:
    wrap = WRAPPER_OPTIONS["unstuck"].wrap
    assert wrap(Fixed(), 3) == Unstuck(Fixed(), steps=3)
    for steps in (0, 6):
        with pytest.raises(ValueError, match=r"expected a number of steps from 1 to 5"):
            wrap(Fixed(), steps)
    with pytest.raises(ValueError, match=r"observes its last action"):
        wrap(Fixed(rules=GAME.replace(last_action=False)), 3)
