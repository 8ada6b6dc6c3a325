"""Checkpoints: saved data is restored bit for bit or not at all."""

import json
import math
import shutil
import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.processes import run_python
from support.states import make_state, raw

from hanabi_rl.storage.checkpoint import Checkpointer, RestoredCheckpoint, read_documents
from hanabi_rl.storage.trees import CorruptError, IncompatibleError


def assert_same(left: Any, right: Any) -> None:
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert raw(one) == raw(other)


def save_steps(directory: Path, scores: dict[int, float], keep_latest: int = 2) -> None:
    with Checkpointer(directory, keep_latest=keep_latest) as checkpointer:
        for step, score in scores.items():
            checkpointer.save(
                step, make_state(step), host_state={"epoch": step}, metrics={"score": score}
            )


def restore(directory: Path, step: int | None = None, template: Any = None) -> RestoredCheckpoint:
    with Checkpointer(directory) as checkpointer:
        return checkpointer.restore(make_state(0) if template is None else template, step)


def largest_file(folder: Path) -> Path:
    return max(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with steps 1 and 2; tests that damage it copy it first."""
    directory = tmp_path_factory.mktemp("saved") / "checkpoints"
    save_steps(directory, {1: 1.0, 2: 2.0})
    return directory


@pytest.fixture
def damaged(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "checkpoints"))


def test_state_round_trips(saved: Path) -> None:
    restored = restore(saved)
    assert (restored.step, restored.host_state, restored.metrics) == (
        2,
        {"epoch": 2},
        {"score": 2.0},
    )
    assert_same(restored.state, make_state(2))
    assert isinstance(restored.state["games"], np.ndarray) and isinstance(
        restored.state["update"], jax.Array
    )
    drawn = jax.random.normal(restored.state["key"], (3,))
    np.testing.assert_array_equal(drawn, jax.random.normal(jax.random.key(2), (3,)))


def test_restore_named_step_with_abstract_template(saved: Path) -> None:
    template = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), make_state(0)
    )
    template["games"] = make_state(0)["games"]
    restored = restore(saved, step=1, template=template)
    assert restored.step == 1
    assert_same(restored.state, make_state(1))


def test_no_orbax_cleanup_thread_remains(tmp_path: Path) -> None:
    """A failed start removes the folder: the thread would print a traceback before the error."""
    before = set(threading.enumerate())
    for number in range(3):
        with Checkpointer(tmp_path / str(number) / "checkpoints"):
            assert set(threading.enumerate()) == before


def test_missing_step_error_lists_steps(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a checkpoint of step 7 in .*, got \[1, 2\]"):
        restore(saved, step=7)
    with pytest.raises(ValueError, match=r"expected a checkpoint in .*, got \[\]"):
        restore(tmp_path)


def test_checkpoint_has_five_items(saved: Path) -> None:
    items = {path.name for path in (saved / "2").iterdir() if path.is_dir()}
    assert items == {"state", "loader", "policy", "evaluation", "manifest"}


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_flipped_bit_falls_back_with_warning(damaged: Path, place: float) -> None:
    path = largest_file(damaged / "2" / "state")  # the arrays' bytes, which Orbax does not check
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 4
    path.write_bytes(content)
    with pytest.warns(
        RuntimeWarning,
        match=r"checkpoint 2 is damaged, using an earlier one: .*leaf \S+: its SHA-256",
    ):
        restored = restore(damaged)
    assert restored.step == 1
    assert_same(restored.state, make_state(1))


@pytest.mark.parametrize(
    "item", ["manifest/metadata", "loader/metadata", "evaluation/metadata", "policy/metadata"]
)
def test_damaged_json_items_fall_back(damaged: Path, item: str) -> None:
    path = damaged / "2" / item
    text = path.read_text()
    path.write_text(text.replace("7", "8") if "7" in text else "{}")  # not the format's number
    with pytest.warns(RuntimeWarning, match="checkpoint 2 is damaged"):
        assert restore(damaged).step == 1


def test_missing_files_fall_back_unless_step_given(damaged: Path) -> None:
    shutil.rmtree(damaged / "2" / "state" / "d")
    with pytest.raises(CorruptError, match="state"):
        restore(damaged, step=2)
    with pytest.warns(RuntimeWarning, match="checkpoint 2 is damaged"):
        assert restore(damaged).step == 1


def test_no_intact_checkpoint_raises(damaged: Path) -> None:
    for step in ("1", "2"):
        (damaged / step / "manifest" / "metadata").write_text("{")
    with (
        pytest.warns(RuntimeWarning, match="checkpoint 2 is damaged"),
        pytest.raises(CorruptError, match="manifest"),
    ):
        restore(damaged)


def test_uncommitted_step_is_ignored_and_replaced(damaged: Path) -> None:
    (damaged / "2" / "commit_success.txt").unlink()  # as after a kill during a save
    with pytest.warns(
        RuntimeWarning,
        match="checkpoint 2 is incomplete: using 1",
    ):
        checkpointer = Checkpointer(damaged)
    with checkpointer:
        assert checkpointer.latest_step() == 1
        checkpointer.restore(make_state(0))
        checkpointer.save(2, make_state(5), metrics={"score": 0.0})
        assert checkpointer.latest_step() == 2
    assert_same(restore(damaged).state, make_state(5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: s["params"]["actor"].update(bias=jnp.zeros(6)),
            r"params/actor/bias: expected float32\[6\], stored float32\[5\]",
        ),
        (
            lambda s: s["params"]["actor"].update(bias=jnp.zeros(5, jnp.bfloat16)),
            r"bias: expected bfloat16\[5\], stored float32\[5\]",
        ),
        (
            lambda s: s["params"].update(critic=jnp.zeros(2)),
            r"params/critic \(float32\[2\]\) is missing",
        ),
        (lambda s: s.pop("done"), r"leaf done \(bool\[4\]\) is stored but not part of the model"),
        (
            lambda s: s.update(key=jax.random.key(0, impl="rbg")),
            r"leaf key: expected key<rbg>\[\], stored key<fry>\[\]",
        ),
        (
            lambda s: s.update(deck=jnp.zeros((4, 9), jnp.uint32)),
            r"leaf deck: expected uint32\[4,9\], stored uint32\[4,0\]",
        ),
    ],
)
def test_other_model_error_names_leaf(saved: Path, change: Any, message: str) -> None:
    template = make_state(0)
    change(template)
    with pytest.raises(IncompatibleError, match=message):
        restore(saved, template=template)


def test_latest_and_best_checkpoints_are_kept(tmp_path: Path) -> None:
    save_steps(tmp_path, {1: 3.0, 2: 9.0, 3: 5.0, 4: math.nan, 5: math.inf, 6: 4.0})
    with Checkpointer(tmp_path) as checkpointer:
        assert checkpointer.steps() == [2, 5, 6]
    assert restore(tmp_path, step=5).metrics == {"score": None}


@pytest.mark.parametrize("keep_latest", [1, 2])
def test_latest_checkpoint_survives_falling_score(tmp_path: Path, keep_latest: int) -> None:
    """Orbax 0.12 with `best_fn` would delete it at once: a run would resume from the best."""
    with Checkpointer(tmp_path, keep_latest=keep_latest) as checkpointer:
        for step, score in enumerate([9.0, 5.0, 4.0, 3.0]):
            checkpointer.save(step, make_state(step), metrics={"score": score})
            assert checkpointer.latest_step() == step
        assert checkpointer.steps() == [0, *range(4 - keep_latest, 4)]
    assert restore(tmp_path).step == 3


def test_saved_checkpoint_survives_process_end(tmp_path: Path) -> None:
    """Orbax 0.12 by default saves in the background and loses unfinished saves at exit, with code
    0."""
    run_python(
        f"""
import os, pathlib
from support.states import make_state
from hanabi_rl.storage.checkpoint import Checkpointer
checkpointer = Checkpointer(pathlib.Path({str(tmp_path)!r}))
checkpointer.save(1, make_state(1), metrics={{"score": 1.0}})
os._exit(0)  # nothing is waited for
"""
    )
    restored = restore(tmp_path)
    assert restored.step == 1
    assert_same(restored.state, make_state(1))


def test_saving_step_twice_does_nothing(tmp_path: Path) -> None:
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, make_state(1))
        checkpointer.save(1, make_state(9))
        assert_same(checkpointer.restore(make_state(0)).state, make_state(1))


def test_restored_run_replaces_later_steps(damaged: Path) -> None:
    with Checkpointer(damaged) as checkpointer:
        checkpointer.restore(make_state(0), step=1)
        checkpointer.save(2, make_state(7))
        assert checkpointer.steps() == [1, 2]
    assert_same(restore(damaged).state, make_state(7))


def test_unrestored_checkpoints_are_not_overwritten(damaged: Path) -> None:
    with (
        Checkpointer(damaged) as checkpointer,
        pytest.raises(ValueError, match="already holds step 2, saving step 1"),
    ):
        checkpointer.save(1, make_state(7))
    assert restore(damaged).step == 2


def test_non_array_leaf_is_named(tmp_path: Path) -> None:
    with (
        Checkpointer(tmp_path) as checkpointer,
        pytest.raises(ValueError, match="leaf train/step: expected an array, got int"),
    ):
        checkpointer.save(1, {"train": {"step": 3}})


def test_other_format_is_incompatible(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanabi_rl.storage.checkpoint.FORMAT_VERSION", 4)
    with pytest.raises(IncompatibleError, match="expected checkpoint format 4, got 3"):
        restore(damaged)
    monkeypatch.setattr("hanabi_rl.storage.checkpoint.LOADABLE", (4,))
    with pytest.raises(IncompatibleError, match="expected checkpoint format 4, got 3"):
        restore(damaged)


def test_previous_format_loads_but_does_not_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Format 2 had other leaf names; its policies still load."""
    with monkeypatch.context() as patch, Checkpointer(tmp_path) as checkpointer:
        patch.setattr("hanabi_rl.storage.checkpoint.FORMAT_VERSION", 2)
        checkpointer.save(1, {"x": jnp.zeros(2)})
    documents = read_documents(tmp_path / "1")
    assert documents.format_version == 2 and list(documents.leaves) == ["x"]
    message = "expected checkpoint format 3, got 2"
    with (
        Checkpointer(tmp_path) as checkpointer,
        pytest.raises(IncompatibleError, match=message),
    ):
        checkpointer.restore({"x": jnp.zeros(2)})
    manifest = tmp_path / "1" / "manifest" / "metadata"
    manifest.write_text(manifest.read_text().replace('"x"', '"y"'))
    with pytest.raises(CorruptError, match="damaged"):
        read_documents(tmp_path / "1")


def test_manifest_is_plain_json(saved: Path) -> None:
    leaves = json.loads((saved / "2" / "manifest" / "metadata").read_text())["leaves"]
    entry = leaves["params/actor/kernel"]
    assert (entry["dtype"], entry["shape"], len(entry["sha256"])) == ("float32", [96, 64], 64)
