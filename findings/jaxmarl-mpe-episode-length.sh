#!/usr/bin/env bash
# jaxmarl 0.2.0 with jax 0.10.2, CPU.
#
# Behaviour: an episode of an MPE environment has max_steps + 1 steps. `done` compares the number of
# steps before the step with `max_steps` (25), so the 26th step is the first with done, and
# `reset(...)`'s state has step 0. Returns and lengths are those of 26 steps, and a buffer of
# `max_steps` steps loses the last.
#
# Guess beforehand: an episode has `max_steps` steps.
#
# Seen: max_steps 25, done after 26 steps
#
# Exits with 1 if the behaviour changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet jaxmarl==0.2.0 jax==0.10.2 jaxlib==0.10.2
cat > "$work/steps.py" <<'PYTHON'
import jax
import jaxmarl

env = jaxmarl.make("MPE_simple_spread_v3")
_, state = env.reset(jax.random.key(0))
stay = dict.fromkeys(env.agents, 0)
step, count, done = jax.jit(env.step_env), 0, False
while not done and count < 100:
    _, state, _, dones, _ = step(jax.random.key(count), state, stay)
    count, done = count + 1, bool(dones["__all__"])
print(f"max_steps {env.max_steps}, done after {count} steps")
assert env.max_steps == 25 and count == 26, "the behaviour changed"
PYTHON
JAX_PLATFORMS=cpu "$work/venv/bin/python" "$work/steps.py"
