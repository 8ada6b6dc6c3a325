"""Checkpoints of a whole training state: Orbax's manager with our manifest, made to survive kills
and flipped bits.

A checkpoint is a folder `<directory>/<step>/` with the items `state`, `loader`, `policy`,
`evaluation` (its metrics) and `manifest` (`loader` is the host's state: the position in the data,
the best score). `state` is the un-replicated pytree, so it restores on
any number of devices. The facts this file guards against were measured on Orbax 0.12: it restores
damaged bytes silently, casts dtypes, lets a NaN metric evict the best checkpoint, opens no folder
in which an item named `metrics` is damaged, and does not fsync everything it renames. So the
metrics are an item of ours, and which checkpoints to keep is decided here.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orbax.checkpoint as ocp

from hanabi_rl.storage import trees
from hanabi_rl.storage.files import canonical_json, fsync_path, fsync_tree, read_json, to_json
from hanabi_rl.storage.trees import CorruptError, IncompatibleError, Manifest, PyTree

FORMAT_VERSION = 3  # 2 had other names of leaves
LOADABLE = (2, FORMAT_VERSION)
"""Formats whose policies can be loaded; a run resumes from `FORMAT_VERSION` alone."""
_HOST_STATE = "loader"  # the name of its item, from when only cloning had one
_COMMITTED = "commit_success.txt"  # Orbax writes it last: without it a step does not count
_PATIENCE_S = 60.0  # for the threads of a save that failed


class RestoredCheckpoint(NamedTuple):
    """One checkpoint, read back and verified."""

    step: int
    state: PyTree  # as the template given to `restore`
    host_state: dict[str, Any] | None  # what a run keeps beside its arrays
    metrics: dict[str, float | None]  # None where they were not finite


class Checkpointer:
    """Saves and restores a run's full state.

    Args:
        directory: the `checkpoints/` folder of a run; made if missing.
        keep_latest: how many of the latest checkpoints to keep.
        best_metric: the best checkpoint by this metric is kept as well; larger is better.
        policy: what `load_policy` needs to play straight from a checkpoint
            (`agents.folder.checkpoint_policy`), stored with each.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keep_latest: int = 2,
        best_metric: str = "score",
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        self._directory = directory.resolve()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._keep_latest, self._best_metric = keep_latest, best_metric
        self._policy = None if policy is None else to_json({**policy, "score_metric": best_metric})
        self._at: int | None = None  # the step last saved or restored
        self._warn_of_unfinished()
        threads = set(threading.enumerate())
        self._manager = ocp.CheckpointManager(
            self._directory,
            options=ocp.CheckpointManagerOptions(
                atomicity_options=ocp.options.AtomicityOptions(
                    mode=ocp.options.AtomicityMode.COMMIT_FILE
                ),
                cleanup_tmp_directories=True,
                create=False,  # done above; Orbax would wait for the other hosts
                multiprocessing_options=trees.single_process_orbax(),
                # An asynchronous save reports its errors one save too late, and hashing needs a
                # host copy anyway.
                enable_async_checkpointing=False,
            ),
        )
        # Its thread that clears the folder prints a traceback where a failed start removes it.
        _wait_for_others(threads)

    def _warn_of_unfinished(self) -> None:
        """Orbax is about to delete the steps that have no commit file: says so where the newest is
        among them."""
        steps = {
            int(path.name): (path / _COMMITTED).exists()
            for path in self._directory.iterdir()
            if path.name.isdigit()
        }
        latest = max((step for step, committed in steps.items() if committed), default=None)
        for step in sorted(steps):
            if latest is None or step > latest:
                before = "there is none before it" if latest is None else f"going back to {latest}"
                warnings.warn(
                    f"{self._directory}: checkpoint {step} was never finished, or part of it is "
                    f"missing: {before}",
                    RuntimeWarning,
                    stacklevel=3,
                )

    def steps(self) -> list[int]:
        """The committed steps, rising."""
        return sorted(self._manager.all_steps())

    def latest_step(self) -> int | None:
        """The last committed step, or None."""
        return max(self.steps(), default=None)

    def save(
        self,
        step: int,
        state: PyTree,
        *,
        host_state: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Saves `state` (un-replicated, every leaf an array) at `step` and waits until it is on
        disk.

        Saving the step just saved or restored again does nothing. Later steps of an abandoned
        future (the run was restored from an earlier one) are deleted first.

        Raises:
            ValueError: where a leaf is no array, or `directory` holds checkpoints that nobody
                restored from.
            OSError: where the step cannot be written (a full disk): the earlier steps are as they
                were, and the next save is tried afresh.
        """
        if step == self._at:
            return
        stale = [old for old in self.steps() if old >= step]
        if stale and self._at is None:
            raise ValueError(
                f"{self._directory} already holds step {stale[-1]}, saving step {step}: "
                "restore from it or use a new folder"
            )
        for old in stale:
            self._delete(old)
        arrays, manifest = trees.to_host(state)
        host_state, metrics = to_json(host_state), to_json(metrics or {})
        sha256 = _digest(FORMAT_VERSION, manifest, host_state, self._policy, metrics)
        items = {
            "state": ocp.args.PyTreeSave(trees.without_empty_leaves(arrays)),
            _HOST_STATE: ocp.args.JsonSave(host_state),
            "policy": ocp.args.JsonSave(self._policy),
            "evaluation": ocp.args.JsonSave(metrics),
            "manifest": ocp.args.JsonSave(
                {"format_version": FORMAT_VERSION, "leaves": manifest, "sha256": sha256}
            ),
        }
        folder, threads = self._directory / str(step), set(threading.enumerate())
        try:
            saved = self._manager.save(step, args=ocp.args.Composite(**items), force=True)
            self._manager.wait_until_finished()
            if not saved or not (folder / _COMMITTED).exists():
                raise OSError(f"Orbax did not commit it (latest is {self.latest_step()})")
            fsync_tree(folder)
            fsync_path(self._directory)
        except Exception as error:  # a full disk surfaces as whatever the layer that met it raises
            _wait_for_others(threads)
            with suppress(OSError):  # frees the space; the step can be saved again
                self._delete(step)
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            raise OSError(f"{folder}: the checkpoint cannot be written: {reason}") from error
        self._at = step
        self._delete_superseded()

    def _delete(self, step: int) -> None:
        """Deletes a step, its commit file first: Orbax deletes in any order, and what a kill leaves
        would count."""
        folder = self._directory / str(step)
        (folder / _COMMITTED).unlink(missing_ok=True)
        fsync_path(folder)
        shutil.rmtree(folder)
        self._manager.reload()

    def _delete_superseded(self) -> None:
        """Keeps the latest steps and the best one."""
        steps = self.steps()
        kept = set(steps[-self._keep_latest :])
        if scored := {step: score for step in steps if (score := self._score(step)) is not None}:
            kept.add(max(scored, key=lambda step: (scored[step], step)))
        for step in set(steps) - kept:
            self._delete(step)

    def _score(self, step: int) -> float | None:
        """The metric that ranks a step; None where it was not measured, was not finite, or cannot
        be read."""
        try:
            return read_documents(self._directory / str(step)).metrics.get(self._best_metric)
        except (CorruptError, IncompatibleError):
            return None

    def restore(self, template: PyTree, step: int | None = None) -> RestoredCheckpoint:
        """Reads the latest intact checkpoint, or the one at `step`.

        Args:
            template: a state of the same structure: arrays or `jax.ShapeDtypeStruct`s.
            step: a step that must be intact; without it, a damaged one is left with a warning for
                the one before it.

        Returns:
            The state with leaves on JAX's default device, NumPy where the template's are.

        Raises:
            IncompatibleError: naming the leaf where a checkpoint does not fit `template`; never a
                reason to try another step.
            CorruptError: where no checkpoint is intact.
            ValueError: where there is none.
        """
        candidates = [step] if step is not None else self.steps()[::-1]
        if not candidates or (step is not None and step not in self.steps()):
            wanted = "a checkpoint" if step is None else f"a checkpoint of step {step}"
            raise ValueError(f"expected {wanted} in {self._directory}, got {self.steps()}")
        for candidate in candidates:
            try:
                restored = read_checkpoint(self._directory / str(candidate), template)
            except CorruptError as error:
                if candidate == candidates[-1]:
                    raise
                warnings.warn(
                    f"checkpoint {candidate} is damaged, going one back: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
                continue
            self._at = candidate
            return restored
        raise AssertionError("unreachable: the last candidate returns or raises")

    def close(self) -> None:
        """Releases Orbax's threads."""
        self._manager.close()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _wait_for_others(known: set[threading.Thread]) -> None:
    """Waits for the threads that Orbax has started: after a failed save they may still write."""
    end = time.monotonic() + _PATIENCE_S
    while set(threading.enumerate()) - known and time.monotonic() < end:
        time.sleep(0.01)  # not `join`: a thread may not have begun


class CheckpointItems(NamedTuple):
    """The JSON items of one checkpoint, verified."""

    format_version: int
    leaves: Manifest
    host_state: dict[str, Any] | None
    policy: dict[str, Any] | None
    metrics: dict[str, float | None]


def read_documents(folder: Path) -> CheckpointItems:
    """Reads and verifies the JSON items of the checkpoint `folder`, without a manager: a writer may
    be at work beside it.

    Raises:
        CorruptError: where one is missing or not what was saved.
        IncompatibleError: for a format version that is not in `LOADABLE`.
    """
    manifest = _read_item(folder, "manifest")
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    try:
        host_state, policy, metrics = (
            _read_item(folder, name) for name in (_HOST_STATE, "policy", "evaluation")
        )
        own = version if version in LOADABLE else FORMAT_VERSION
        if manifest["sha256"] != _digest(own, manifest["leaves"], host_state, policy, metrics):
            raise CorruptError(
                f"{folder}: the manifest, loader, policy or metrics are not what was saved: the "
                "data is damaged"
            )
    except (CorruptError, KeyError, TypeError, ValueError) as error:
        if version in LOADABLE or version is None:
            raise CorruptError(f"{folder}: {type(error).__name__}: {error}") from error
        raise IncompatibleError(
            f"{folder}: expected checkpoint format {FORMAT_VERSION}, got {version}"
        ) from error
    if version not in LOADABLE:  # the digest is that of the current format
        raise CorruptError(
            f"{folder}: says that it is of format {version!r}, not {FORMAT_VERSION}: the data is "
            "damaged"
        )
    return CheckpointItems(version, manifest["leaves"], host_state, policy, metrics)


def _read_item(folder: Path, name: str) -> Any:
    try:
        return read_json(folder / name / "metadata")
    except (OSError, ValueError) as error:
        raise CorruptError(f"{folder}: {type(error).__name__}: {error}") from error


def _digest(version: int, leaves: Manifest, *documents: Any) -> str:
    """What a manifest stores of itself and the documents. Another format has another digest, even
    of equal ones."""
    return hashlib.sha256(canonical_json([leaves, version, *documents])).hexdigest()


def read_checkpoint(folder: Path, template: PyTree) -> RestoredCheckpoint:
    """Reads the one checkpoint `folder` (`checkpoints/<step>`); see `Checkpointer.restore`."""
    documents = read_documents(folder)
    if documents.format_version != FORMAT_VERSION:
        raise IncompatibleError(
            f"{folder}: expected checkpoint format {FORMAT_VERSION}, got {documents.format_version}"
        )
    trees.check_structure(documents.leaves, template, where=str(folder))
    leaves = trees.read_leaves(folder / "state", documents.leaves, documents.leaves)
    return RestoredCheckpoint(
        int(folder.name),
        trees.restore_structure(template, leaves),
        documents.host_state,
        documents.metrics,
    )
