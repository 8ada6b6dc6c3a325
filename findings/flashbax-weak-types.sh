#!/usr/bin/env bash
# flashbax 0.1.3, jax 0.10.2 (Python 3.11).
#
# Behaviour: the fresh state of a prioritised buffer holds its largest priority as a weakly typed
# array, and after `set_priorities` as a strongly typed one. So a compiled training step that adds
# items and sets priorities compiles again at its second call. A step that only adds does not.
#
# Guess beforehand: one program each.
#
# Output seen:
#   prioritised trajectory buffer: programs of add 1, of add and set_priorities 2
#   prioritised item buffer: programs of add 1, of add and set_priorities 2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet flashbax==0.1.3 jax==0.10.2 jaxlib==0.10.2 flax==0.12.8
cat > "$folder/seen.py" <<'PYTHON'
import sys

import flashbax
import jax
import jax.numpy as jnp

sizes = {
    "add_batch_size": 1,
    "sample_batch_size": 1,
    "sample_sequence_length": 1,
    "period": 1,
    "min_length_time_axis": 1,
    "max_length_time_axis": 4,
}
buffers = {
    "prioritised trajectory buffer": (
        flashbax.make_prioritised_trajectory_buffer(**sizes, priority_exponent=1.0),
        jnp.zeros((1, 1)),
    ),
    "prioritised item buffer": (
        flashbax.make_prioritised_item_buffer(
            max_length=4, min_length=1, sample_batch_size=1, priority_exponent=1.0
        ),
        jnp.zeros(()),
    ),
}
found = []
for name, (buffer, item) in buffers.items():
    def train(state, item):
        state = buffer.add(state, item)
        return buffer.set_priorities(state, jnp.array([0]), jnp.array([2.0]))

    programs = []
    for step in (buffer.add, train):
        step = jax.jit(step)
        state = buffer.init({"x": jnp.zeros(())})
        for _ in range(3):
            state = step(state, {"x": item})
        programs.append(step._cache_size())
    found.append(programs)
    print(f"{name}: programs of add {programs[0]}, of add and set_priorities {programs[1]}")
if found != [[1, 2], [1, 2]]:
    sys.exit("the behaviour changed")
PYTHON
"$folder/venv/bin/python" "$folder/seen.py"
