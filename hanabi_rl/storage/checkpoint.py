"""Checkpoints of a training state: Orbax with a manifest, safe against kills and bit flips.

A checkpoint is a folder `<directory>/<step>/` with the items `state`, `loader` (host state: data
position, best score), `policy`, `evaluation` (its metrics) and `manifest`. `state` is the
un-replicated pytree, so it restores on any number of devices.

Orbax 0.12, as measured, restores damaged bytes silently, casts dtypes, evicts the best checkpoint
on a NaN metric, cannot open a folder with a damaged item named `metrics`, and does not fsync every
rename. Hence the separate metrics item and the selection of checkpoints here.
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

FORMAT_VERSION = 3  # 2 had other leaf names
LOADABLE = (2, FORMAT_VERSION)
"""Formats from which policies load; a run resumes only from `FORMAT_VERSION`."""
_HOST_STATE = "loader"  # item name; originally only BC had a host state
_COMMITTED = "commit_success.txt"  # written last by Orbax; steps without it do not count
_THREADS_TIMEOUT_S = 60.0  # for the threads of a failed save


class RestoredCheckpoint(NamedTuple):
    """A verified checkpoint."""

    step: int
    state: PyTree  # as the template of `restore`
    host_state: dict[str, Any] | None  # state of the run other than arrays
    metrics: dict[str, float | None]  # None if not finite


class Checkpointer:
    """Saves and restores a run's full state.

    Args:
        directory: the run's `checkpoints/` folder, created if missing.
        keep_latest: number of latest checkpoints to keep.
        best_metric: the best checkpoint by this metric is also kept; larger is better.
        policy: what `load_policy` needs to load a checkpoint directly
            (`agents.policy_folder.checkpoint_policy`), stored with each checkpoint.
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
        self._at: int | None = None  # step last saved or restored
        self._warn_of_unfinished()
        threads = set(threading.enumerate())
        self._manager = ocp.CheckpointManager(
            self._directory,
            options=ocp.CheckpointManagerOptions(
                atomicity_options=ocp.options.AtomicityOptions(
                    mode=ocp.options.AtomicityMode.COMMIT_FILE
                ),
                cleanup_tmp_directories=True,
                create=False,  # created above; Orbax would wait for the other hosts
                multiprocessing_options=trees.single_process_orbax(),
                # an asynchronous save reports errors one save late, and hashing needs a host copy
                # anyway
                enable_async_checkpointing=False,
            ),
        )
        # Orbax's cleanup thread prints a traceback if a failed start deletes the folder
        _wait_for_threads(threads)

    def _warn_of_unfinished(self) -> None:
        """Warn if the newest step has no commit file: Orbax is about to delete it."""
        steps = {
            int(path.name): (path / _COMMITTED).exists()
            for path in self._directory.iterdir()
            if path.name.isdigit()
        }
        latest = max((step for step, committed in steps.items() if committed), default=None)
        for step in sorted(steps):
            if latest is None or step > latest:
                fallback = "no earlier one exists" if latest is None else f"using {latest}"
                warnings.warn(
                    f"{self._directory}: checkpoint {step} is incomplete: {fallback}",
                    RuntimeWarning,
                    stacklevel=3,
                )

    def steps(self) -> list[int]:
        """Committed steps, ascending."""
        return sorted(self._manager.all_steps())

    def latest_step(self) -> int | None:
        """Last committed step, or None."""
        return max(self.steps(), default=None)

    def save(
        self,
        step: int,
        state: PyTree,
        *,
        host_state: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Save `state` (un-replicated, all leaves arrays) at `step`; return once it is on disk.

        Saving the step just saved or restored does nothing. Later steps of an abandoned future (the
        run was restored from an earlier step) are deleted first.

        Raises:
            ValueError: a leaf is not an array, or `directory` holds checkpoints but none was
                restored.
            OSError: the step cannot be written (full disk); earlier steps are unchanged, and saving
                can be retried.
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
        except Exception as error:  # a full disk raises different types in different layers
            _wait_for_threads(threads)
            with suppress(OSError):  # free the space; the step can be saved again
                self._delete(step)
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            raise OSError(f"{folder}: the checkpoint cannot be written: {reason}") from error
        self._at = step
        self._delete_superseded()

    def _delete(self, step: int) -> None:
        """Delete a step, its commit file first: Orbax's order is arbitrary, and a kill must not
        leave a step that counts."""
        folder = self._directory / str(step)
        (folder / _COMMITTED).unlink(missing_ok=True)
        fsync_path(folder)
        shutil.rmtree(folder)
        self._manager.reload()

    def _delete_superseded(self) -> None:
        steps = self.steps()
        keep = set(steps[-self._keep_latest :])
        if scored := {step: score for step in steps if (score := self._score(step)) is not None}:
            keep.add(max(scored, key=lambda step: (scored[step], step)))
        for step in set(steps) - keep:
            self._delete(step)

    def _score(self, step: int) -> float | None:
        """Ranking metric of a step; None if missing, not finite or unreadable."""
        try:
            return read_documents(self._directory / str(step)).metrics.get(self._best_metric)
        except (CorruptError, IncompatibleError):
            return None

    def restore(self, template: PyTree, step: int | None = None) -> RestoredCheckpoint:
        """Restore the latest intact checkpoint, or the one at `step`.

        Args:
            template: a state of the same structure: arrays or `jax.ShapeDtypeStruct`s.
            step: step that must be intact; None skips damaged checkpoints with a warning.

        Returns:
            The state with leaves on JAX's default device, NumPy where the template's are.

        Raises:
            IncompatibleError: the checkpoint does not fit `template` (names the leaf); no other
                step is tried.
            CorruptError: no checkpoint is intact.
            ValueError: no checkpoint exists.
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
                    f"checkpoint {candidate} is damaged, using an earlier one: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
                continue
            self._at = candidate
            return restored
        raise AssertionError("unreachable: the last candidate returns or raises")

    def close(self) -> None:
        """Stop Orbax's threads."""
        self._manager.close()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _wait_for_threads(known: set[threading.Thread]) -> None:
    """Wait for threads started by Orbax: after a failed save they may still write."""
    end = time.monotonic() + _THREADS_TIMEOUT_S
    # threads that have not started cannot be joined
    while set(threading.enumerate()) - known and time.monotonic() < end:
        time.sleep(0.01)


class CheckpointItems(NamedTuple):
    """Verified JSON items of one checkpoint."""

    format_version: int
    leaves: Manifest
    host_state: dict[str, Any] | None
    policy: dict[str, Any] | None
    metrics: dict[str, float | None]


def read_documents(folder: Path) -> CheckpointItems:
    """Read and verify the JSON items of a checkpoint `folder`, even while a run writes others.

    Raises:
        CorruptError: an item is missing or differs from what was saved.
        IncompatibleError: the format version is not in `LOADABLE`.
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
                f"{folder}: the manifest, loader, policy or metrics differ from the saved ones: "
                "the data is damaged"
            )
    except (CorruptError, KeyError, TypeError, ValueError) as error:
        if version in LOADABLE or version is None:
            raise CorruptError(f"{folder}: {type(error).__name__}: {error}") from error
        raise IncompatibleError(
            f"{folder}: expected checkpoint format {FORMAT_VERSION}, got {version}"
        ) from error
    if version not in LOADABLE:  # the digest is that of the current format
        raise CorruptError(
            f"{folder}: its format {version!r} contradicts its digest: the data is damaged"
        )
    return CheckpointItems(version, manifest["leaves"], host_state, policy, metrics)


def _read_item(folder: Path, name: str) -> Any:
    try:
        return read_json(folder / name / "metadata")
    except (OSError, ValueError) as error:
        raise CorruptError(f"{folder}: {type(error).__name__}: {error}") from error


def _digest(version: int, leaves: Manifest, *documents: Any) -> str:
    """Digest of the manifest and the documents. The format version is part of it."""
    return hashlib.sha256(canonical_json([leaves, version, *documents])).hexdigest()


def read_checkpoint(folder: Path, template: PyTree) -> RestoredCheckpoint:
    """Read one checkpoint `folder` (`checkpoints/<step>`), as `Checkpointer.restore`."""
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
