#!/usr/bin/env bash
# flashbax 0.1.3, jax 0.10.2 (Python 3.11).
#
# Behaviour: a prioritised buffer rounds the priority of new items down to a whole number. They are
# documented to get the largest recorded priority; its array is made with the integer dtype of the
# indices. With a largest priority of 2.75 a new item gets 2, so it is sampled less often than an
# old one; the recorded priority starts at 1, so no new item gets 0.
#
# Guess beforehand: 2.75, the largest priority so far.
#
# Output seen:
#   trajectory buffer: priorities 2.75 2.0, largest recorded 2.75
#   item buffer: priorities 2.75 2.0, largest recorded 2.75
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet flashbax==0.1.3 jax==0.10.2 jaxlib==0.10.2 flax==0.12.8
cat > "$folder/seen.py" <<'PYTHON'
import sys

import flashbax
import jax.numpy as jnp

trajectory = flashbax.make_prioritised_trajectory_buffer(
    add_batch_size=1,
    sample_batch_size=1,
    sample_sequence_length=1,
    period=1,
    min_length_time_axis=1,
    max_length_time_axis=4,
    priority_exponent=1.0,
)
item = flashbax.make_prioritised_item_buffer(
    max_length=4, min_length=1, sample_batch_size=1, priority_exponent=1.0
)
lines = []
for name, buffer, one in (
    ("trajectory", trajectory, {"x": jnp.zeros((1, 1))}),
    ("item", item, {"x": jnp.zeros(())}),
):
    state = buffer.add(buffer.init({"x": jnp.zeros(())}), one)
    state = buffer.set_priorities(state, jnp.array([0]), jnp.array([2.75]))
    tree = buffer.add(state, one).sum_tree_state
    first = 2**tree.tree_depth - 1
    old, new = (float(tree.nodes[first + i]) for i in (0, 1))
    lines.append(
        f"{name} buffer: priorities {old} {new}, largest recorded {tree.max_recorded_priority}"
    )
print("\n".join(lines))
if not all("priorities 2.75 2.0, largest recorded 2.75" in line for line in lines):
    sys.exit("the behaviour changed")
PYTHON
"$folder/venv/bin/python" "$folder/seen.py"
