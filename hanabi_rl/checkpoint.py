"""Checkpoints of a whole training state: Orbax's manager with our manifest, made to survive kills and flipped bits.

A checkpoint is a folder `<directory>/<step>/` with the items `state`, `loader`, `policy`, `metrics` and `manifest`.
`state` is the un-replicated pytree, so it restores on any number of devices. The facts this file guards against were
measured on Orbax 0.12: it restores damaged bytes silently, casts dtypes, lets a NaN metric evict the best checkpoint,
and does not fsync everything it renames.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers as ocm

from hanabi_rl import trees
from hanabi_rl.files import fsync_path, fsync_tree, read_json, to_json
from hanabi_rl.trees import CorruptError, IncompatibleError, Manifest, PyTree

FORMAT_VERSION = 1


class Restored(NamedTuple):
    """One checkpoint, read back and verified."""

    step: int
    state: PyTree  # as the template given to `restore`
    loader: dict[str, Any] | None  # the data loader's position
    metrics: dict[str, float]  # -inf where they were not finite


class Checkpointer:
    """Saves and restores a run's full state.

    Args:
        directory: the `checkpoints/` folder of a run; made if missing.
        keep_latest: how many of the latest checkpoints to keep.
        best_metric: the best checkpoint by this metric is kept as well; larger is better.
        policy: what `load_policy` needs to play straight from a checkpoint (`agents.loading.checkpoint_policy`), stored
            with each.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keep_latest: int = 2,
        best_metric: str = "score",
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        def score(metrics: Mapping[str, float]) -> float:
            return metrics.get(best_metric, -math.inf)

        self._directory = directory.resolve()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._policy = None if policy is None else to_json({**policy, "score_metric": best_metric})
        self._at: int | None = None  # the step last saved or restored
        self._manager = ocp.CheckpointManager(
            self._directory,
            options=ocp.CheckpointManagerOptions(
                preservation_policy=ocm.AnyPreservationPolicy(
                    [
                        ocm.LatestN(keep_latest),
                        ocm.BestN(get_metric_fn=score, reverse=False, n=1, keep_checkpoints_without_metrics=False),
                    ]
                ),
                best_fn=score,
                best_mode="max",
                # A step counts from the moment its commit file is there, and stops counting first when it is deleted.
                atomicity_options=ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode.COMMIT_FILE),
                cleanup_tmp_directories=True,
                # An asynchronous save reports its errors one save too late, and hashing needs a host copy anyway.
                enable_async_checkpointing=False,
            ),
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
        loader: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Saves `state` (un-replicated, every leaf an array) at `step` and waits until it is on disk.

        Saving the step just saved or restored again does nothing. Later steps of an abandoned future (the run was
        restored from an earlier one) are deleted first.

        Raises:
            ValueError: where a leaf is no array, or `directory` holds checkpoints that nobody restored from.
            RuntimeError: where Orbax did not commit the step.
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
            self._manager.delete(old)
        arrays, manifest = trees.to_host(state)
        loader, metrics = to_json(loader), {name: _rankable(value) for name, value in (metrics or {}).items()}
        items = {
            "state": ocp.args.PyTreeSave(trees.storable(arrays)),
            "loader": ocp.args.JsonSave(loader),
            "policy": ocp.args.JsonSave(self._policy),
            "manifest": ocp.args.JsonSave(
                {
                    "format_version": FORMAT_VERSION,
                    "leaves": manifest,
                    "sha256": trees.manifest_digest(manifest, loader, self._policy, to_json(metrics)),
                }
            ),
        }
        saved = self._manager.save(step, args=ocp.args.Composite(**items), metrics=metrics, force=True)
        self._manager.wait_until_finished()
        if not saved or self.latest_step() != step:
            raise RuntimeError(f"{self._directory}: Orbax did not commit step {step} (latest is {self.latest_step()})")
        fsync_tree(self._directory / str(step))
        fsync_path(self._directory)
        self._at = step

    def restore(self, template: PyTree, step: int | None = None) -> Restored:
        """Reads the latest intact checkpoint, or the one at `step`.

        Args:
            template: a state of the same structure: arrays or `jax.ShapeDtypeStruct`s.
            step: a step that must be intact; without it, a damaged one is left with a warning for the one before it.

        Returns:
            The state with leaves on JAX's default device, NumPy where the template's are.

        Raises:
            IncompatibleError: naming the leaf where a checkpoint does not fit `template`; never a reason to try another
                step.
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
                    f"checkpoint {candidate} is damaged, going one back: {error}", RuntimeWarning, stacklevel=2
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Documents(NamedTuple):
    """The JSON items of one checkpoint, verified."""

    leaves: Manifest
    loader: dict[str, Any] | None
    policy: dict[str, Any] | None
    metrics: dict[str, float]


def read_documents(folder: Path) -> Documents:
    """Reads and verifies the JSON items of the checkpoint `folder`, without a manager: a writer may be at work beside
    it.

    Raises:
        CorruptError: where one is missing or not what was saved.
        IncompatibleError: for another format version.
    """
    try:
        manifest = read_json(folder / "manifest" / "metadata")
        loader = read_json(folder / "loader" / "metadata")
        policy = read_json(folder / "policy" / "metadata")
        metrics = read_json(folder / "metrics" / "metrics")
        version, leaves, digest = manifest["format_version"], manifest["leaves"], manifest["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptError(f"{folder}: {type(error).__name__}: {error}") from error
    if digest != trees.manifest_digest(leaves, loader, policy, to_json(metrics)):
        raise CorruptError(
            f"{folder}: the manifest, loader, policy or metrics are not what was saved: the data is damaged"
        )
    if version != FORMAT_VERSION:
        raise IncompatibleError(f"{folder}: expected checkpoint format {FORMAT_VERSION}, got {version}")
    return Documents(leaves, loader, policy, metrics)


def read_checkpoint(folder: Path, template: PyTree) -> Restored:
    """Reads the one checkpoint `folder` (`checkpoints/<step>`); see `Checkpointer.restore`."""
    documents = read_documents(folder)
    trees.check_structure(documents.leaves, template, where=str(folder))
    leaves = trees.read_leaves(folder / "state", documents.leaves, documents.leaves)
    return Restored(int(folder.name), trees.like(template, leaves), documents.loader, documents.metrics)


def _rankable(metric: Any) -> float:
    value = float(metric)
    # A NaN would win every comparison and evict the best checkpoint.
    return value if math.isfinite(value) else -math.inf
