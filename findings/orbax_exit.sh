#!/usr/bin/env bash
# orbax-checkpoint 0.12.8, jax 0.10.2, CPU backend (Python 3.11).
#
# Behaviour: a program that saves with `CheckpointManager.save` (in the background by default) and
# then ends normally, without `wait_until_finished` or `close`, loses the checkpoint and exits with
# code 0. Its threads are not daemons, so Python waits for them, but shuts down their executors
# first: they fail with "cannot schedule new futures after shutdown" on stderr. A temporary folder
# remains, which the next manager does not list. The size of the checkpoint does not matter.
#
# Guess beforehand: Python waits for the threads, and the checkpoint is complete.
#
# Output seen:
#   10 numbers:      exit code 0, steps for the next program: [], left: ['1.orbax-checkpoint-tmp']
#   10000000 numbers: exit code 0, steps for the next program: [], left: ['1.orbax-checkpoint-tmp']
#   10 numbers, closed: exit code 0, steps for the next program: [1], left: ['1']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2
cat > "$folder/saves.py" <<'PYTHON'
import sys

import numpy as np
import orbax.checkpoint as ocp

folder, size, closes = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "closed"
manager = ocp.CheckpointManager(folder)
manager.save(1, args=ocp.args.StandardSave({"x": np.ones(size)}))
if closes:
    manager.close()
PYTHON
cat > "$folder/seen.py" <<'PYTHON'
import os
import subprocess
import sys
import tempfile

import orbax.checkpoint as ocp

lost = []
for size, how in ((10, ""), (10_000_000, ""), (10, "closed")):
    folder = tempfile.mkdtemp(dir=os.environ["WITHIN"])
    saves = os.path.join(os.environ["WITHIN"], "saves.py")
    command = [sys.executable, saves, folder, str(size), how]
    code = subprocess.run(command, stderr=subprocess.DEVNULL).returncode
    left = sorted(os.listdir(folder))
    steps = sorted(ocp.CheckpointManager(folder).all_steps())
    name = f"{size} numbers{', ' if how else ''}{how}:"
    print(f"{name:<16} exit code {code}, steps for the next program: {list(steps)}, left: {left}")
    lost.append(code == 0 and not steps)
sys.exit(0 if lost == [True, True, False] else 1)
PYTHON
JAX_PLATFORMS=cpu WITHIN="$folder" "$folder/venv/bin/python" -W ignore "$folder/seen.py"
