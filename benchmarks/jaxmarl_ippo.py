"""IPPO on an environment of jaxmarl: `hanabi-rl train ippo --preset jaxmarl` against jaxmarl's own.

jaxmarl's package lacks its baselines, so its loop is written here with the settings of its MPE
script: feed-forward 64-64 tanh actor and critic, 16 environments x 128 steps, 4 epochs of 4
minibatches, Adam with a falling rate of 2.5e-4. Our preset differs in a ReLU critic, no value
clipping, initial weights, and the team's mean reward for every agent. Returns are of sampled play
in training (last tenth of the updates); jaxmarl logs the sum over agents, here divided by their
number.

    python benchmarks/jaxmarl_ippo.py --env MPE_simple_spread_v3 --steps 1000000 --seeds 3
"""

import argparse
import dataclasses
import time
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from hanabi_rl.games.jaxmarl import JaxMARLGame, quiet_import
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.learning import parallel
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT

ENVS, STEPS, EPOCHS, MINIBATCHES = 16, 128, 4, 4
RATE, GAMMA, LAMBDA, CLIP, ENTROPY, VALUE, NORM = 2.5e-4, 0.99, 0.95, 0.2, 0.01, 0.5, 0.5


class _ActorCritic(nn.Module):
    actions: int

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def layers(x: jax.Array, size: int, scale: float) -> jax.Array:
            for _ in range(2):
                x = jnp.tanh(nn.Dense(64, kernel_init=nn.initializers.orthogonal(2**0.5))(x))
            return nn.Dense(size, kernel_init=nn.initializers.orthogonal(scale))(x)

        return layers(x, self.actions, 0.01), layers(x, 1, 1.0)[..., 0]


def jaxmarl_curve(name: str, steps: int, seed: int) -> tuple[np.ndarray, float]:
    """Return per game in each update, [U], and timesteps per second."""
    with quiet_import():
        import jaxmarl
        from jaxmarl.wrappers.baselines import LogWrapper

    env = LogWrapper(jaxmarl.make(name))
    agents, actions = env.agents, env.action_space(env.agents[0]).n
    updates, net = steps // (ENVS * STEPS), _ActorCritic(int(actions))

    def rows(values: dict[str, jax.Array]) -> jax.Array:
        return jnp.concatenate([values[agent] for agent in agents])

    key, start_key, param_key = jax.random.split(jax.random.key(seed), 3)
    obs, state = jax.vmap(env.reset)(jax.random.split(start_key, ENVS))
    params = net.init(param_key, rows(obs))
    per_update = EPOCHS * MINIBATCHES
    rate = optax.linear_schedule(RATE, 0.0, updates)
    adam = optax.adam(lambda count: rate(count // per_update), eps=1e-5)
    optimizer = optax.chain(optax.clip_by_global_norm(NORM), adam)

    def play(carry: Any, key: jax.Array) -> Any:
        params, obs, state = carry
        act_key, step_key = jax.random.split(key)
        x = rows(obs)
        logits, value = net.apply(params, x)
        action = jax.random.categorical(act_key, logits)
        chosen = dict(zip(agents, action.reshape(len(agents), ENVS), strict=True))
        obs, state, reward, done, info = jax.vmap(env.step)(
            jax.random.split(step_key, ENVS), state, chosen
        )
        log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
        ended = jnp.tile(done["__all__"], len(agents))
        returned = info["returned_episode_returns"], info["returned_episode"]
        return (params, obs, state), (x, action, log_prob, value, rows(reward), ended, returned)

    def loss(params: Any, batch: Any) -> jax.Array:
        x, action, old, old_value, advantage, target = batch
        logits, value = net.apply(params, x)
        log_probs = jax.nn.log_softmax(logits)
        ratio = jnp.exp(jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0] - old)
        gain = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        surrogate = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * gain).mean()
        near = old_value + jnp.clip(value - old_value, -CLIP, CLIP)
        error = 0.5 * jnp.maximum((value - target) ** 2, (near - target) ** 2).mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
        return -surrogate + VALUE * error - ENTROPY * entropy

    def learn(carry: Any, batch: Any) -> Any:
        params, opt_state = carry
        changes, opt_state = optimizer.update(jax.grad(loss)(params, batch), opt_state)
        return (optax.apply_updates(params, changes), opt_state), None

    def update(carry: Any, key: jax.Array) -> Any:
        params, opt_state, obs, state = carry
        play_key, *epoch_keys = jax.random.split(key, 1 + EPOCHS)
        (_, obs, state), steps = jax.lax.scan(
            play, (params, obs, state), jax.random.split(play_key, STEPS)
        )
        x, action, log_prob, value, reward, ended, (returns, finished) = steps
        last = jnp.asarray(net.apply(params, rows(obs))[1])

        def back(carry: Any, now: Any) -> Any:
            running, following = carry
            reward, value, ended = now
            delta = reward + GAMMA * following * (1 - ended) - value
            running = delta + GAMMA * LAMBDA * (1 - ended) * running
            return (running, value), running

        _, advantage = jax.lax.scan(
            back, (jnp.zeros(last.shape), last), (reward, value, ended), reverse=True
        )
        batch = (x, action, log_prob, value, advantage, advantage + value)
        flat = jax.tree.map(lambda v: v.reshape(-1, *v.shape[2:]), batch)
        for epoch_key in epoch_keys:
            order = jax.random.permutation(epoch_key, flat[1].shape[0]).reshape(MINIBATCHES, -1)
            mixed = jax.tree.map(lambda v, order=order: v[order], flat)
            (params, opt_state), _ = jax.lax.scan(learn, (params, opt_state), mixed)
        # LogWrapper adds the rewards of each agent
        mean = jnp.sum(returns * finished) / jnp.sum(finished)
        return (params, opt_state, obs, state), mean

    run = jax.jit(lambda carry, keys: jax.lax.scan(update, carry, keys))
    begin = params, optimizer.init(params), obs, state
    compiled = run.lower(begin, jax.random.split(key, updates)).compile()
    started = time.perf_counter()
    _, curve = jax.block_until_ready(compiled(begin, jax.random.split(key, updates)))
    return np.asarray(curve), updates * ENVS * STEPS / (time.perf_counter() - started)


def our_curve(name: str, steps: int, seed: int) -> tuple[np.ndarray, float]:
    """See `jaxmarl_curve`."""
    config: Any = preset_config("ippo", "jaxmarl")
    config = dataclasses.replace(config, game=JaxMARLGame(env=name), total_steps=steps, seed=seed)
    ppo = PPO(config, config.network)
    learner, actors = jax.jit(ppo.init)(jax.random.key(seed))
    learner, actors = parallel.replicate(learner), parallel.shard(actors)
    update, curve = ppo.compile_update(), []
    for _ in range(config.num_updates):
        learner, actors, metrics = update(learner, actors, EMPTY_CONTEXT)
        curve.append(metrics["train_score"])
        if len(curve) == 1:  # compiled
            jax.block_until_ready(curve)
            started = time.perf_counter()
    scores = np.array([float(score) for score in curve])
    made = (config.num_updates - 1) * config.num_envs * config.num_steps
    return scores, made / (time.perf_counter() - started)


def main() -> None:
    """Print returns and speeds of both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="MPE_simple_spread_v3")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    for title, curve_of in (("jaxmarl's", jaxmarl_curve), ("ours", our_curve)):
        for seed in range(args.seeds):
            curve, speed = curve_of(args.env, args.steps, seed)
            last = np.nanmean(curve[-max(1, len(curve) // 10) :])
            first = np.nanmean(curve[:3])
            print(
                f"{title:10} seed {seed}: {first:8.2f} -> {last:8.2f}, {speed:9,.0f} steps/s",
                flush=True,
            )


if __name__ == "__main__":
    main()
