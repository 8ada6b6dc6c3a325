"""Equal results for equal seeds in another process, in another folder, on other device counts."""

import contextlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes import run_python
from support.training import Run

PLAY = """
import hashlib
from pathlib import Path
import numpy as np
from hanabi_rl.agents.loading import load_policy
from hanabi_rl.games.hanabi.python_game import full_deck
from hanabi_rl.play.episodes import play_games
policy = load_policy(Path({folder!r}))
ordered = np.array(full_deck(policy.rules), np.uint8)
decks = np.random.default_rng(14).permuted(np.tile(ordered, (100, 1)), axis=1)
games = play_games((policy, policy), policy.rules, decks)
fields = (games.actions, games.num_actions, games.scores)
played = b"".join(np.asarray(field).tobytes() for field in fields)
print("DIGEST", hashlib.sha256(played).hexdigest())
"""

RESTORED = """
import contextlib
import io
import json
from pathlib import Path
import jax
from hanabi_rl.learning import parallel
from hanabi_rl.storage import checkpoint, trees
from hanabi_rl.storage.checkpoint import Checkpointer, read_documents
folder = Path({folder!r})
assert parallel.num_devices() == {devices}
leaves = read_documents(folder / "checkpoints" / "{step}").leaves

def empty(leaf):
    key = jax.random.key(0).dtype
    dtype = key if leaf["dtype"] == "key<fry>" else leaf["dtype"]
    return jax.ShapeDtypeStruct(tuple(leaf["shape"]), dtype)

template = trees.unflatten({{path: empty(leaf) for path, leaf in leaves.items()}})
with Checkpointer(folder / "checkpoints") as checkpoints:
    state = checkpoints.restore(template).state
learner, actors = parallel.replicate(state["0"]), parallel.shard(state["1"])
back = {{"0": learner, "1": parallel.unshard(actors)}}
assert len(learner["update"].sharding.device_set) == {devices}
print("DIGEST", checkpoint._digest(0, trees.to_host(back)[1]))
"""


def run_here(code: str) -> str:
    """Run code in this process; return its output."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {})
    return output.getvalue()


def digest(output: str) -> str:
    return next(line.split()[1] for line in output.splitlines() if line.startswith("DIGEST"))


@pytest.mark.parametrize("algo", ["bc", "hdr_ippo", "br_bc"])
def test_same_seed_gives_identical_run(
    algo: str,
    uninterrupted: Callable[[str], Run],
    injections: Callable[..., int],
    tally: Callable,
    tmp_path: Path,
) -> None:
    """Parameters, optimiser, keys, environments, metrics and summary, from another process."""
    if not injections(0, 1):
        pytest.skip("short form: killed runs in test_signals.py")
    first, row = uninterrupted(algo), tally("determinism")
    again = Run(algo, tmp_path / "again", *first.flags)
    assert again.finish() == 0, again.output()
    row.add(algo, None if again.result() == first.result() else "another result")


@pytest.mark.slow  # a separate process
@pytest.mark.parametrize("algo", ["bc", "hdr_ippo", "br_bc"])
def test_policy_folder_is_self_contained(
    algo: str,
    uninterrupted: Callable[[str], Run],
    injections: Callable[..., int],
    tally: Callable,
    tmp_path: Path,
) -> None:
    """Copied and loaded by another process, it plays the same 100 games."""
    if algo != "bc" and not injections(0, 1):
        pytest.skip("short form: one learner")
    row, original = tally("self-contained policy"), uninterrupted(algo).folder / "policy"
    here = digest(run_here(PLAY.format(folder=str(original))))
    shutil.copytree(original, tmp_path / "elsewhere")
    original.rename(original.with_name("hidden"))
    try:
        there = digest(run_python(PLAY.format(folder=str(tmp_path / "elsewhere"))))
    finally:
        original.with_name("hidden").rename(original)
    row.add(algo, None if here == there else "other games")


def test_state_resumes_on_any_number_of_devices(
    clone: Run, injections: Callable[..., int], tally: Callable, tmp_path: Path
) -> None:
    if not injections(0, 1):
        pytest.skip("short form: tests/learning/test_devices.py, from four devices to one")
    row, update = tally("devices"), 16 * 12
    run = Run(
        "hdr_ippo", tmp_path / "four", "--bc-policy", str(clone.folder), "--lr-schedule", "constant"
    )
    assert run.finish("--total-steps", str(6 * update), devices=4) == 0, run.output()
    manifest = json.loads((run.folder / "checkpoints" / "6" / "manifest" / "metadata").read_text())
    ends = []
    for devices in (1, 2, 4):
        other = Run("hdr_ippo", tmp_path / f"on-{devices}")
        shutil.copytree(run.folder, other.folder)
        code = RESTORED.format(folder=str(other.folder), devices=devices, step=6)
        restored = digest(run_python(code, devices=devices))
        finished = other.finish("--total-steps", str(9 * update), devices=devices) == 0
        ends.append((restored, finished, other.logged()))
        row.add(
            f"on {devices}",
            None if ends[-1] == (ends[0][0], True, 9) else f"{ends}\n{other.output()[-500:]}",
        )
    assert manifest["leaves"], "the digest covers no leaves"
