"""Checkpoints that are corrupt, incomplete, truncated by a full disk, or from another model."""

import dataclasses
import itertools
import math
import os
import random
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from support.processes import run_python
from support.states import make_state, raw

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.cloning import BC, BCTrainConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.runs.trainer import _restored
from hanabi_rl.storage.checkpoint import Checkpointer
from hanabi_rl.storage.trees import IncompatibleError

LIMIT_S = 5  # to fall back by one step; timed in full runs only


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints 1 and 2; tests copy them before they damage them."""
    directory = tmp_path_factory.mktemp("saved") / "checkpoints"
    with Checkpointer(directory) as checkpoints:
        for step in (1, 2):
            checkpoints.save(
                step, make_state(step), host_state={"epoch": step}, metrics={"score": float(step)}
            )
    return directory


def files_of(saved: Path) -> list[Path]:
    """Files of the newest checkpoint, relative to the directory."""
    return sorted(path.relative_to(saved) for path in (saved / "2").rglob("*") if path.is_file())


def harm_of_damage(
    saved: Path, copy: Path, damage: Callable[[Path], None], limit_s: float = math.inf
) -> str | None:
    """Restore a copy with a damaged newest checkpoint. Allowed (None): bit-exact, or one step back
    with a warning that names the step."""
    shutil.copytree(saved, copy)
    damage(copy)
    started = time.monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with Checkpointer(copy) as checkpoints:
                restored = checkpoints.restore(make_state(0))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - started
    if seconds > limit_s:
        return f"took {seconds:.1f} s"
    shutil.rmtree(copy)
    exact = [raw(leaf) for leaf in jax.tree.leaves(make_state(restored.step))]
    if [raw(leaf) for leaf in jax.tree.leaves(restored.state)] != exact or restored.host_state != {
        "epoch": restored.step
    }:
        return f"step {restored.step} was restored wrong without an error"
    named = any("checkpoint 2 " in str(warning.message) for warning in caught)
    return (
        None if restored.step == 2 or named else "one step back without a warning that names step 2"
    )


def test_flipped_bits_never_restore_wrong_values(
    saved: Path, injections: Callable[..., int], tally: Callable, tmp_path: Path
) -> None:
    rng, flips, limit_s = random.Random(2), tally("bit rot"), injections(10**9, LIMIT_S)
    files = [path for path in files_of(saved) if (saved / path).stat().st_size]
    for number in range(injections(12, 200)):
        # every second flip hits the arrays' bytes, which Orbax does not check
        largest = max(files, key=lambda path: (saved / path).stat().st_size)
        path = largest if number % 2 else rng.choice(files)
        bit = rng.randrange(8 * (saved / path).stat().st_size)

        def flip(copy: Path, path: Path = path, bit: int = bit) -> None:
            content = bytearray((copy / path).read_bytes())
            content[bit // 8] ^= 1 << bit % 8
            (copy / path).write_bytes(content)

        flips.add(f"bit {bit} of {path}", harm_of_damage(saved, tmp_path / "copy", flip, limit_s))


def test_missing_files_fall_back(
    saved: Path, injections: Callable[..., int], tally: Callable, tmp_path: Path
) -> None:
    pieces, limit_s = tally("missing pieces"), injections(10**9, LIMIT_S)
    for path in files_of(saved)[:: injections(3, 1)]:
        content = (saved / path).read_bytes()
        for name, rest in (
            ("deleted", None),
            ("emptied", b""),
            ("cut in half", content[: len(content) // 2]),
        ):

            def cut(copy: Path, path: Path = path, rest: bytes | None = rest) -> None:
                (copy / path).unlink() if rest is None else (copy / path).write_bytes(rest)

            pieces.add(f"{path} {name}", harm_of_damage(saved, tmp_path / "copy", cut, limit_s))


def test_half_deleted_step_is_skipped(
    saved: Path,
    injections: Callable[..., int],
    tally: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The deletion of step 2 is cut short after each number of files, as by a kill."""
    deleted, unlink = tally("half-deleted step"), os.unlink

    class Killed(BaseException):
        pass

    for allowed in range(1, len(files_of(saved)), injections(4, 1)):
        copy, calls = tmp_path / str(allowed), itertools.count()
        shutil.copytree(saved, copy)

        def killed_after(
            *args: Any, allowed: int = allowed, calls: Any = calls, **options: Any
        ) -> None:
            if next(calls) == allowed:
                raise Killed
            unlink(*args, **options)

        with Checkpointer(copy) as checkpoints:
            checkpoints.restore(make_state(0), step=1)
            monkeypatch.setattr(os, "unlink", killed_after)
            with pytest.raises(Killed):
                checkpoints.save(2, make_state(2))
            monkeypatch.undo()
        with pytest.warns(RuntimeWarning, match="checkpoint 2 is incomplete"):
            checkpoints = Checkpointer(copy)
        with checkpoints:
            steps = checkpoints.steps()
        deleted.add(f"{allowed} files deleted", None if steps == [1] else f"steps {steps} count")


DISK_FULL = """
import os, resource
from pathlib import Path
import jax.numpy as jnp, numpy as np
from support.states import make_state
from hanabi_rl.storage.checkpoint import Checkpointer
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.cloning import BC
from hanabi_rl.nn.networks import NetworkConfig

def state(seed):
    wide = np.random.default_rng(seed).normal(size=(300, 1000))
    return make_state(seed) | {{"wide": jnp.asarray(wide, jnp.float32)}}

def fill(folder, left):
    space = os.statvfs(folder)
    (folder / "hog").write_bytes(bytes(max(0, space.f_bavail * space.f_frsize - left)))

folder, mounted = Path({folder!r}), {mounted}
with Checkpointer(folder / "checkpoints") as checkpoints:
    checkpoints.save(1, state(1))
    for number, left in enumerate({limits}):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        if mounted:
            fill(folder, left)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (left, before[1]))
        try:
            checkpoints.save(2 + number, state(2))
            outcome = "no error"
        except OSError as error:
            outcome = "cannot be written" in str(error) and "error"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            (folder / "hog").unlink(missing_ok=True)
        intact = checkpoints.steps()[-1] == 1 + number
        checkpoints.save(2 + number, state(2 + number))
        with Checkpointer(folder / "checkpoints") as reader:
            again = reader.restore(state(0))
        same = np.array_equal(again.state["wide"], state(2 + number)["wide"])
        same = same and again.step == 2 + number
        print("RESULT", left, outcome, intact, same)
"""


def works(command: list[str]) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, capture_output=True).returncode == 0
    )


LIMITS = (700_000, 20_000, 1_000, 30, 0)


@pytest.mark.slow  # a separate process
@pytest.mark.parametrize("means", ["RLIMIT_FSIZE", "tmpfs"])
def test_full_disk_is_an_error_without_loss(means: str, tally: Callable, tmp_path: Path) -> None:
    """In a separate process, because Orbax's threads print to stderr. ENOSPC on a tmpfs where one
    can be mounted, EFBIG (limited file size) everywhere."""
    mounted = means == "tmpfs"
    inside = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        f'mount -t tmpfs -o size=8m tmpfs {tmp_path} && exec "$@"',
        "sh",
    ]
    if mounted and (
        shutil.which("unshare") is None
        or subprocess.run([*inside, "true"], capture_output=True).returncode
    ):
        pytest.skip("needs permission to mount a tmpfs in a namespace")
    code = DISK_FULL.format(folder=str(tmp_path), mounted=mounted, limits=LIMITS)
    output = run_python(code, within=inside if mounted else [])
    full = tally("disk full")
    results = [line.split()[1:] for line in output.splitlines() if line.startswith("RESULT")]
    assert len(results) == len(LIMITS), output
    for left, *outcome in results:
        harm = (
            None
            if outcome == ["error", "True", "True"]
            else f"error, last step intact, next save: {outcome}"
        )
        full.add(f"{left} bytes left on {means}", harm)


WRONG_MODELS = {
    "another shape": (
        lambda s: s["params"]["actor"].update(bias=jnp.zeros(6)),
        "bias: expected float32.6., stored float32.5.",
    ),
    "another dtype": (
        lambda s: s["params"]["actor"].update(bias=jnp.zeros(5, jnp.bfloat16)),
        "params/actor/bias: expected bfloat16.5., stored float32.5.",
    ),
    "a leaf more": (
        lambda s: s["params"].update(critic=jnp.zeros(2)),
        "leaf params/critic .float32.2.. is not stored",
    ),
    "a leaf less": (
        lambda s: s.pop("done"),
        "leaf done .bool.4.. is stored but not part of the model",
    ),
    "another kind of key": (
        lambda s: s.update(key=jax.random.key(0, impl="rbg")),
        "leaf key: expected key<rbg>.., stored key<fry>..",
    ),
}


@pytest.mark.parametrize("name", WRONG_MODELS)
def test_different_model_error_names_leaf(name: str, saved: Path, tally: Callable) -> None:
    """No silent cast and no fallback: a warning would fail the test."""
    wrong = tally("wrong model")
    change, message = WRONG_MODELS[name]
    template = make_state(0)
    change(template)
    with Checkpointer(saved) as checkpoints, pytest.raises(IncompatibleError, match=message):
        checkpoints.restore(template)
    wrong.add(name, None)


def test_other_version_error_suggests_a_way_forward(saved: Path) -> None:
    template = make_state(0)
    WRONG_MODELS[next(iter(WRONG_MODELS))][0](template)
    with (
        Checkpointer(saved) as checkpoints,
        pytest.raises(IncompatibleError, match=r"leaf .*`hanabi-rl export runs/old FILE"),
    ):
        _restored(checkpoints, template, Path("runs/old"))


def test_different_game_or_network_error_names_leaf(tally: Callable, tmp_path: Path) -> None:
    wrong, rules = tally("wrong model"), Rules(num_colors=2, num_ranks=3, hand_size=2)
    network = NetworkConfig(embedding=(4,), lstm=(4,), decoder=(4,), critic=(4,))

    def shapes(network: NetworkConfig = network, rules: Rules = rules) -> Any:
        learner = BC(config=BCTrainConfig(network=network), rules=rules, num_updates=1)
        return jax.eval_shape(learner.init, jax.random.key(0))

    others = {
        "three players": (
            shapes(rules=dataclasses.replace(rules, num_players=3)),
            "embedding_0/kernel: expected float32",
        ),
        "a wider network": (
            shapes(dataclasses.replace(network, embedding=(6,))),
            "embedding_0/bias: expected float32.6.",
        ),
        "a deeper network": (
            shapes(dataclasses.replace(network, lstm=(4, 4))),
            "lstm_1/.* is missing",
        ),
        "another kind": (
            shapes(dataclasses.replace(network, lstm=())),
            "lstm_0/.* is stored but not part of the model",
        ),
    }
    saved = shapes()
    saved = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), saved.replace(key=jnp.zeros(2))
    )
    with Checkpointer(tmp_path) as checkpoints:
        checkpoints.save(1, saved.replace(key=jax.random.key(0)))
        for name, (template, message) in others.items():
            with pytest.raises(IncompatibleError, match=message):
                checkpoints.restore(template)
            wrong.add(name, None)


def test_unknown_format_is_error_flipped_version_damage(
    saved: Path, tally: Callable, tmp_path: Path
) -> None:
    wrong = tally("wrong model")
    copy = tmp_path / "copy"

    def claim(copy: Path) -> None:
        path = copy / "2" / "manifest" / "metadata"
        path.write_text(path.read_text().replace('"format_version": 3', '"format_version": 4'))

    assert harm_of_damage(saved, copy, claim) is None
    shutil.copytree(saved, copy)
    claim(copy)
    path = copy / "2" / "manifest" / "metadata"
    # digest of an unknown format
    path.write_text(path.read_text().replace('"sha256": "', '"sha256": "0', 1))
    with (
        Checkpointer(copy) as checkpoints,
        pytest.raises(IncompatibleError, match="expected checkpoint format 3, got 4"),
    ):
        checkpoints.restore(make_state(0))
    wrong.add("unknown format version", None)
