"""Baseline: IPPO in Overcooked with the structure and settings of jaxmarl's own scripts.

jaxmarl 0.2.0's package lacks its `baselines` folder. This trainer repeats the work of
`ippo_ff_overcooked.py` and `ippo_cnn_overcooked.py` there: `LogWrapper`, one network call per
timestep on stacked observations, stored observations, a permutation and a copy of the whole rollout
per epoch, shaped rewards annealed over half of the run. It shares no code with `hanabi_rl`, so that
it does not become faster with the code that it is compared with. `overcooked_update.py` runs it.
"""

import dataclasses
import math
import warnings
from typing import Any

import distrax
import flax.linen as nn
import jax
import jax.numpy as jnp
import jaxmarl
import optax
from jaxmarl.environments.overcooked import overcooked_layouts
from jaxmarl.wrappers.baselines import LogWrapper


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a run; defaults: jaxmarl's `ippo_ff_overcooked.yaml`."""

    layout: str = "cramped_room"
    network: str = "mlp"
    num_envs: int = 16
    num_steps: int = 128
    num_minibatches: int = 4
    total_steps: int = 5_000_000
    lr: float = 2.5e-4
    gae_lambda: float = 0.95
    clip_eps: float = 0.2
    entropy_coef: float = 0.01
    max_grad_norm: float = 0.5
    epochs: int = 4
    gamma: float = 0.99
    value_coef: float = 0.5
    shaping_steps: int = 2_500_000
    activation: str = "tanh"


CNN = Settings(
    network="cnn",
    num_envs=32,
    lr=6e-4,
    gae_lambda=0.98,
    clip_eps=0.05,
    entropy_coef=0.1,
    max_grad_norm=0.1,
    activation="relu",
)
"""jaxmarl's `ippo_cnn_overcooked.yaml`."""


class ActorCritic(nn.Module):
    """Two networks of 64-64 (`mlp`), or two heads of 64 on three convolutions and 64 units."""

    num_actions: int
    network: str
    activation: str
    kernel: int = 5
    """Size of the first convolution."""

    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        """x: [B, H, W, C] -> (distribution over actions, value [B])."""
        act = {"tanh": nn.tanh, "relu": nn.relu}[self.activation]

        def layer(width: int, scale: float = math.sqrt(2)) -> nn.Dense:
            return nn.Dense(width, kernel_init=nn.initializers.orthogonal(scale))

        hidden: tuple[int, ...] = (64, 64)
        if self.network == "cnn":
            for size in (self.kernel, 3, 3):
                orthogonal = nn.initializers.orthogonal(math.sqrt(2))
                x = act(nn.Conv(32, (size, size), kernel_init=orthogonal)(x))
            hidden = (64,)
        x = x.reshape(x.shape[0], -1)
        if self.network == "cnn":
            x = act(layer(64)(x))
        heads = []
        for outputs, scale in ((self.num_actions, 0.01), (1, 1.0)):
            y = x
            for width in hidden:
                y = act(layer(width)(y))
            heads.append(layer(outputs, scale)(y))
        return distrax.Categorical(logits=heads[0]), heads[1][..., 0]


def build(settings: Settings, kernel: int = 5, seed: int = 0) -> tuple[Any, tuple[Any, ...]]:
    """The jitted update (arguments) -> (arguments of the next, (number of the games that ended,
    their mean points)), and its first arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of v1
        made = jaxmarl.make("overcooked", layout=overcooked_layouts[settings.layout])
    env: Any = LogWrapper(made, replace_info=False)
    c, agents, num_envs = settings, env.agents, settings.num_envs
    actors, size = 2 * num_envs, 2 * num_envs * settings.num_steps
    num_updates = c.total_steps // (c.num_steps * num_envs)
    shape = env.observation_space("agent_0").shape
    net: Any = ActorCritic(6, c.network, c.activation, kernel)

    def lr(count: jax.Array) -> jax.Array:
        return c.lr * (1.0 - (count // (c.num_minibatches * c.epochs)) / num_updates)

    tx = optax.chain(optax.clip_by_global_norm(c.max_grad_norm), optax.adam(lr, eps=1e-5))
    shaping = optax.linear_schedule(1.0, 0.0, c.shaping_steps)

    def stack(d: dict[str, jax.Array], *rest: int) -> jax.Array:
        return jnp.stack([d[agent] for agent in agents]).reshape(actors, *rest)

    def act(carry: Any, _: None) -> Any:
        params, state, obs, update, key = carry
        key, act_key, env_key = jax.random.split(key, 3)
        seen = stack(obs, *shape)
        policy, value = net.apply(params, seen)
        action = policy.sample(seed=act_key)
        log_prob = policy.log_prob(action)
        by_agent = dict(zip(agents, action.reshape(2, num_envs), strict=True))
        keys = jax.random.split(env_key, num_envs)
        obs, state, reward, done, info = jax.vmap(env.step)(keys, state, by_agent)
        weight = shaping(update * c.num_steps * num_envs)
        shaped = stack(info["shaped_reward"])
        out = {
            "done": stack(done),
            "action": action,
            "value": value,
            "reward": stack(reward) + weight * shaped,
            "log_prob": log_prob,
            "obs": seen,
        }
        ended = (info["returned_episode"], info["returned_episode_returns"])
        return (params, state, obs, update, key), (out, ended)

    def gae(carry: Any, now: Any) -> Any:
        advantage, following = carry
        delta = now["reward"] + c.gamma * following * (1 - now["done"]) - now["value"]
        advantage = delta + c.gamma * c.gae_lambda * (1 - now["done"]) * advantage
        return (advantage, now["value"]), advantage

    def loss(params: Any, b: Any, advantage: jax.Array, target: jax.Array) -> jax.Array:
        policy, value = net.apply(params, b["obs"])
        clipped = b["value"] + (value - b["value"]).clip(-c.clip_eps, c.clip_eps)
        value_loss = jnp.maximum((value - target) ** 2, (clipped - target) ** 2).mean() / 2
        ratio = jnp.exp(policy.log_prob(b["action"]) - b["log_prob"])
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        bounded = jnp.clip(ratio, 1 - c.clip_eps, 1 + c.clip_eps)
        actor_loss = -jnp.minimum(ratio * advantage, bounded * advantage).mean()
        return actor_loss + c.value_coef * value_loss - c.entropy_coef * policy.entropy().mean()

    def step(carry: Any, batch: Any) -> Any:
        params, opt = carry
        _, gradient = jax.value_and_grad(loss)(params, *batch)
        change, opt = tx.update(gradient, opt, params)
        return (optax.apply_updates(params, change), opt), None

    @jax.jit
    def update(params: Any, opt: Any, state: Any, obs: Any, count: Any, key: Any) -> Any:
        (_, state, obs, _, key), (rollout, (ended, points)) = jax.lax.scan(
            act, (params, state, obs, count, key), None, c.num_steps
        )
        _, last = net.apply(params, stack(obs, *shape))
        _, advantage = jax.lax.scan(
            gae, (jnp.zeros_like(last), last), rollout, reverse=True, unroll=16
        )
        batch = (rollout, advantage, advantage + rollout["value"])

        def epoch(carry: Any, _: None) -> Any:
            key, epoch_key = jax.random.split(carry[2])
            order = jax.random.permutation(epoch_key, size)

            def shuffled(x: jax.Array) -> jax.Array:
                x = jnp.take(x.reshape(size, *x.shape[2:]), order, axis=0)
                return x.reshape(c.num_minibatches, -1, *x.shape[1:])

            (params, opt), _ = jax.lax.scan(step, carry[:2], jax.tree.map(shuffled, batch))
            return (params, opt, key), None

        (params, opt, key), _ = jax.lax.scan(epoch, (params, opt, key), None, c.epochs)
        mean = (ended * points).sum() / ended.sum()
        return (params, opt, state, obs, count + 1, key), (ended.sum() / 2, mean)

    key, net_key, env_key = jax.random.split(jax.random.key(seed), 3)
    obs, state = jax.vmap(env.reset)(jax.random.split(env_key, num_envs))
    params = net.init(net_key, jnp.zeros((1, *shape)))
    return update, (params, tx.init(params), state, obs, jnp.int32(0), key)
