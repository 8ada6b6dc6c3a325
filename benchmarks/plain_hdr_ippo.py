"""Baseline: the cost of one plain HDR-IPPO update, structured like published trainers.

Recurrent PPO on jaxmarl's Hanabi: collect with one network call per timestep, then 4 epochs x 4
minibatches, each re-running the policy and the BC network (for the KL) over the chunk in float32.
No evaluation, no logging. Learning quality is not its purpose. It runs within a tenth of the
published AH2AC2 trainer's speed on the same core, so `ours / this` is a fair ratio. It shares no
code with `hanabi_rl` or docs/tutorials/hdr_ippo.ipynb, which explains the algorithm: a baseline
must not become faster with the code that it measures.

    taskset -c 0 python benchmarks/plain_hdr_ippo.py --envs 64 --steps 128 --updates 3

Prints environment steps per second (median over updates after the first two). `update.py` compares
it with ours.
"""

import argparse
import statistics
import time
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import jaxmarl
import optax


class Cell(nn.OptimizedLSTMCell):
    """An LSTM cell whose carry is cleared where a game begins."""

    def __call__(self, carry: Any, inputs: Any) -> Any:
        """carry: (cell, hidden); inputs: (x [B, D], reset bool [B])."""
        x, reset = inputs
        zero = self.initialize_carry(jax.random.PRNGKey(0), x.shape)
        carry = jax.tree.map(lambda z, c: jnp.where(reset[:, None], z, c), zero, carry)
        return super().__call__(carry, x)


class ActorCritic(nn.Module):
    """The paper's network, scanned whole over time."""

    actions: int

    @nn.compact
    def __call__(self, carry: Any, obs: jax.Array, reset: jax.Array, legal: jax.Array) -> Any:
        """Time first: (carry, obs [T, B, O], reset [T, B], legal [T, B, A]) -> (carry, logits,
        value)."""
        x = nn.gelu(nn.LayerNorm()(nn.Dense(1024)(obs)))
        lstm = nn.scan(
            Cell, variable_broadcast="params", in_axes=0, out_axes=0, split_rngs={"params": False}
        )
        carry, x = lstm(512)(carry, (x, reset))
        logits = nn.Dense(self.actions)(nn.gelu(nn.Dense(256)(x))) - 1e10 * (1 - legal)
        value = nn.Dense(1)(nn.relu(nn.Dense(512)(x)))[..., 0]
        return carry, logits, value


def build(players: int, envs: int, steps: int) -> tuple[Any, Any]:
    """The jitted update, which returns what it takes, and its first arguments."""
    env: Any = jaxmarl.make("hanabi", num_agents=players)
    net: Any = ActorCritic(int(env.num_actions))
    agents, n = env.agents, players * envs

    def stack(d: dict[str, jax.Array]) -> jax.Array:
        return jnp.concatenate([d[k] for k in agents])

    key = jax.random.PRNGKey(0)
    obs, state = jax.vmap(env.reset)(jax.random.split(key, envs))
    carry = (jnp.zeros((n, 512)), jnp.zeros((n, 512)))
    legal0 = stack(jax.vmap(env.get_legal_moves)(state))
    params = net.init(key, carry, stack(obs)[None], jnp.zeros((1, n), bool), legal0[None])
    bc_params = jax.tree.map(jnp.copy, params)
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(5e-4, eps=1e-5))

    def act(c: Any, _: None) -> Any:
        params, state, obs, reset, carry, key = c
        key, k1, k2 = jax.random.split(key, 3)
        legal, o = stack(jax.vmap(env.get_legal_moves)(state)), stack(obs)
        carry, logits, value = net.apply(params, carry, o[None], reset[None], legal[None])
        action = jax.random.categorical(k1, logits[0])
        logp = jnp.take_along_axis(jax.nn.log_softmax(logits[0]), action[:, None], 1)[:, 0]
        acts = {k: action.reshape(players, envs)[i] for i, k in enumerate(agents)}
        obs, state, rew, done, _ = jax.vmap(env.step)(jax.random.split(k2, envs), state, acts)
        d = jnp.tile(done["__all__"], players)
        out = (o, reset, legal, action, logp, value[0], jnp.tile(rew["__all__"], players), d)
        return (params, state, obs, d, carry, key), out

    @jax.jit
    def update(
        params: Any, opt: Any, state: Any, obs: Any, reset: Any, carry: Any, key: Any
    ) -> Any:
        start = carry
        (_, state, obs, reset, carry, key), traj = jax.lax.scan(
            act, (params, state, obs, reset, carry, key), None, steps
        )
        o, r, legal, action, logp, value, rew, done = traj

        def gae(c: Any, x: Any) -> Any:
            adv, nxt = c
            v, w, d = x
            adv = w + 0.99 * nxt * (1 - d) - v + 0.99 * 0.95 * (1 - d) * adv
            return (adv, v), adv

        _, adv = jax.lax.scan(
            gae, (jnp.zeros(n), value[-1]), (value, rew, done.astype(jnp.float32)), reverse=True
        )
        target = adv + value

        def loss(params: Any, b: Any) -> Any:
            start, o, r, legal, action, logp, value, adv, target = b
            _, logits, v = net.apply(params, start, o, r, legal)
            _, bc_logits, _ = net.apply(bc_params, start, o, r, legal)
            lp, lq = jax.nn.log_softmax(logits), jax.nn.log_softmax(bc_logits)
            ratio = jnp.exp(jnp.take_along_axis(lp, action[..., None], -1)[..., 0] - logp)
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg = -jnp.minimum(ratio * adv, jnp.clip(ratio, 0.8, 1.2) * adv).mean()
            vc = value + jnp.clip(v - value, -0.2, 0.2)
            vl = 0.5 * jnp.maximum((v - target) ** 2, (vc - target) ** 2).mean()
            ent = -(jnp.exp(lp) * lp).sum(-1).mean()
            kl = (jnp.exp(lq) * (lq - lp)).sum(-1).mean()
            return 0.75 * (pg + 0.5 * vl - 0.001 * ent) + 0.25 * kl

        def epoch(c: Any, k: jax.Array) -> Any:
            perm = jax.random.permutation(k, n)

            def split(x: jax.Array, axis: int) -> jax.Array:
                shape = (*x.shape[:axis], 4, n // 4, *x.shape[axis + 1 :])
                return jnp.moveaxis(jnp.take(x, perm, axis).reshape(shape), axis, 0)

            batch = (o, r, legal, action, logp, value, adv, target)
            mb = (jax.tree.map(lambda x: split(x, 0), start), *(split(x, 1) for x in batch))

            def step(c: Any, b: Any) -> Any:
                params, opt = c
                g = jax.grad(loss)(params, b)
                u, opt = tx.update(g, opt, params)
                return (optax.apply_updates(params, u), opt), None

            return jax.lax.scan(step, c, mb)[0], None

        (params, opt), _ = jax.lax.scan(epoch, (params, opt), jax.random.split(key, 4))
        return params, opt, state, obs, reset, carry, key

    return update, (params, tx.init(params), state, obs, jnp.zeros(n, bool), carry, key)


def main() -> None:
    """Times a few updates."""
    p = argparse.ArgumentParser()
    p.add_argument("--players", type=int, default=2)
    p.add_argument("--envs", type=int, default=64)
    p.add_argument("--steps", type=int, default=128)
    p.add_argument("--updates", type=int, default=3)
    a = p.parse_args()
    update, c = build(a.players, a.envs, a.steps)
    times = []
    for _ in range(a.updates + 2):
        t = time.perf_counter()
        c = jax.block_until_ready(update(*c))
        times.append(time.perf_counter() - t)
    rate = a.envs * a.steps / statistics.median(times[2:])
    print(
        f"plain HDR-IPPO {a.players}p {a.envs}x{a.steps}: {rate:,.0f} env steps/s (first call "
        f"{times[0]:.1f} s)"
    )


if __name__ == "__main__":
    main()
