"""`check_env`: conformance tests for the environments of any game."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.games.game import Game
from hanabi_rl.games.hanabi.check import check_hanabi_env
from hanabi_rl.storage.jax_settings import with_fixed_settings

PyTree = Any


def check_env(env: Any, num_envs: int = 64, steps: int = 120, seed: int = 0) -> None:
    """Play `steps` random legal steps in `num_envs` environments and check them: for a `Game` by
    `check_game_env`, for Hanabi by `check_hanabi_env`.

    Raises:
        AssertionError: the fault, with step, expected and actual value.
    """
    check = check_game_env if isinstance(env.rules, Game) else check_hanabi_env
    check(env, num_envs, steps, seed)


@with_fixed_settings(prng=True)
def check_game_env(env: Any, num_envs: int = 64, steps: int = 120, seed: int = 0) -> None:
    """Check a `GameEnv`: shapes and types; legal actions; the end within `max_steps`; auto-reset;
    games that depend only on (key, environment, actions), also in shards; the start of a game, only
    on (key, environment, game); `stored` and `observe_seat` against `observe`; jit and vmap.

    Raises:
        AssertionError: see `check_env`.
    """
    rules, half, key = env.rules, num_envs // 2, jax.random.key(seed)
    look, step = jax.jit(lambda s: _look(env, s)), jax.jit(env.step)
    step_parts = jax.jit(jax.vmap(env.step))
    reset = jax.jit(lambda size, first: env.reset(key, size, first), static_argnums=(0, 1))

    def of_shard(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda x: np.asarray(x)[half:], tree)

    def in_parts(tree: PyTree) -> PyTree:
        return jax.tree.map(
            lambda x: np.asarray(x)[: 2 * half].reshape(2, half, *x.shape[1:]), tree
        )

    starts: dict[tuple[int, int], PyTree] = {}
    for run in range(2):  # of different actions
        rng = np.random.default_rng([seed, run])
        state, shard = reset(num_envs, 0), reset(num_envs - half, half)
        length = np.zeros(num_envs, int)
        for t in range(steps + 1):
            _same("shard", t, of_shard(state), shard)
            seen = jax.device_get(look(state))
            _check_look(rules, t, num_envs, seen)
            index = np.asarray(state.game_index)
            for i in np.flatnonzero(length == 0):
                start = jax.tree.map(lambda x, i=i: x[i], seen["game"])
                place = int(i), int(index[i])
                _same(f"start of game {place[1]}", t, starts.setdefault(place, start), start)
            noise = rng.gumbel(size=seen["legal"].shape)
            action = jnp.asarray(np.where(seen["legal"], noise, -np.inf).argmax(-1), jnp.int32)
            after, timestep = step(state, action)
            shard, own = step(shard, of_shard(action))
            _same("timestep of a shard", t, of_shard(timestep), own)
            if t == 0:
                _same("step without jit", t, env.step(state, action), (after, timestep))
                together = step_parts(*in_parts((state, action)))
                _same("step under vmap", t, in_parts((after, timestep)), together)
            length += 1
            _check_timestep(rules, t, state, after, timestep, length)
            state, length = after, np.where(timestep.done, 0, length)


def _look(env: Any, state: PyTree) -> dict[str, Any]:
    rules, game = env.rules, state.game
    num_envs, kept = state.steps.shape[0], env.stored(game)
    seats = [jnp.full(num_envs, seat, jnp.int32) for seat in range(rules.num_players)]
    return {
        "game": game,
        "obs": env.observe(state),
        "legal": env.legal_actions(state),
        "acting": env.acting(state),
        "stored": (rules.observe(kept), rules.legal(kept), rules.acting(kept)),
        "by_seat": jnp.stack([rules.observe_seat(kept, seat) for seat in seats], axis=1),
    }


def _check_look(rules: Any, t: int, num_envs: int, seen: dict[str, Any]) -> None:
    rows = num_envs, rules.num_players
    _expect("shape of observations", t, seen["obs"].shape, (*rows, *rules.obs_shape))
    for name, shape in (("legal", (*rows, rules.num_actions)), ("acting", rows)):
        _expect(f"{name}: type and shape", t, (seen[name].dtype, seen[name].shape), (bool, shape))
    _expect("a legal action in every row", t, bool(seen["legal"].any(axis=-1).all()), True)
    whole = seen["obs"], seen["legal"], seen["acting"]
    for name, kept, full in zip(("observe", "legal", "acting"), seen["stored"], whole, strict=True):
        _same(f"{name} of the stored state", t, full, kept)
    _same("observe_seat", t, seen["obs"], seen["by_seat"])


def _check_timestep(
    rules: Any, t: int, state: PyTree, after: PyTree, timestep: Any, length: np.ndarray
) -> None:
    num_envs, done = len(length), np.asarray(timestep.done)
    for name, dtype in (("reward", np.float32), ("done", bool)):
        value = getattr(timestep, name)
        _expect(f"{name}: type and shape", t, (value.dtype, value.shape), (dtype, (num_envs,)))
    _expect("shape of score", t, timestep.score.shape, (num_envs,))
    if timestep.shaped is not None:
        got = timestep.shaped.dtype, timestep.shaped.shape
        _expect("shaped: type and shape", t, got, (np.float32, (num_envs, rules.num_players)))
    late = not (done | (length < rules.max_steps)).all()
    _expect(f"a game of over {rules.max_steps} steps (max_steps)", t, late, False)
    _same("game_index", t, np.asarray(state.game_index) + done, after.game_index)
    _same(
        "rewards of the current game",
        t,
        np.where(done, 0, np.asarray(state.score) + np.asarray(timestep.reward)),
        after.score,
    )


def _expect(what: str, t: int, got: Any, expected: Any) -> None:
    if got != expected:
        raise AssertionError(f"{what}: step {t}: expected {expected}, got {got}")


def _same(what: str, t: int, expected: PyTree, got: PyTree) -> None:
    """Raise AssertionError unless the trees have equal arrays, up to rounding of floats."""
    _expect(f"structure of {what}", t, jax.tree.structure(got), jax.tree.structure(expected))
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or not np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True):
            raise AssertionError(f"{what}: step {t}: expected {a}, got {b}")
