"""Shuffled example order: each example once per epoch, in an order that depends only on (seed,
epoch)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class Batch(NamedTuple):
    """Minibatch of B examples as NumPy arrays; the leading axis of every leaf is sharded.

    The last minibatch of an epoch is padded with example 0 at weight 0, which keeps shapes static.
    """

    epoch: Any  # int32 [B], equal for all examples
    index: Any  # int32 [B], example numbers
    weight: Any  # float32 [B], 1 for an example, 0 for padding
    row: Any  # int32 [B], position in the global minibatch


class BatchLoader:
    """Endless minibatches with a position that can be saved and restored.

    Raises:
        ValueError: there are no examples, or the batch size is not positive.
    """

    def __init__(self, num_examples: int, batch_size: int, seed: int) -> None:
        if num_examples < 1 or batch_size < 1:
            raise ValueError(
                f"expected at least one example and a batch of one, got {num_examples=} and "
                f"{batch_size=}"
            )
        self.num_examples, self.batch_size, self.seed = num_examples, batch_size, seed
        self.epoch = 0
        self.batch = 0
        self._order = self.epoch_order(0)

    @property
    def batches_per_epoch(self) -> int:
        """Minibatches per epoch, a partial last one included."""
        return -(-self.num_examples // self.batch_size)

    def epoch_order(self, epoch: int) -> np.ndarray:
        """Example order of an epoch, int64[num_examples]."""
        return np.random.default_rng([self.seed, epoch]).permutation(self.num_examples)

    def next_batch(self) -> Batch:
        """Return the minibatch at the current position and advance by one."""
        chosen = self._order[self.batch * self.batch_size : (self.batch + 1) * self.batch_size]
        row = np.arange(self.batch_size, dtype=np.int32)
        index = np.zeros_like(row)
        index[: len(chosen)] = chosen
        result = Batch(
            epoch=np.full_like(row, self.epoch),
            index=index,
            weight=(row < len(chosen)).astype(np.float32),
            row=row,
        )
        self.batch += 1
        if self.batch == self.batches_per_epoch:
            self.epoch, self.batch = self.epoch + 1, 0
            self._order = self.epoch_order(self.epoch)
        return result

    def rest_of_epoch(self) -> Iterator[Batch]:
        """Minibatches from the current position to the end of the epoch."""
        for _ in range(self.batches_per_epoch - self.batch):
            yield self.next_batch()

    def state_dict(self) -> dict[str, int]:
        """Position and the settings that it belongs to, as JSON-ready numbers."""
        return {
            "num_examples": self.num_examples,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "epoch": self.epoch,
            "batch": self.batch,
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore a saved position: the following minibatches continue from it.

        Raises:
            ValueError: the position belongs to other examples, batches or seed, or does not exist.
        """
        missing = sorted(self.state_dict().keys() - state.keys())
        if missing:
            raise ValueError(
                f"expected {missing[0]!r} in the loader's saved position, got only {sorted(state)}"
            )
        for key in ("num_examples", "batch_size", "seed"):
            if state[key] != getattr(self, key):
                raise ValueError(
                    f"the loader's saved position is for {key}={state[key]}, expected "
                    f"{getattr(self, key)}"
                )
        epoch, batch, last = int(state["epoch"]), int(state["batch"]), self.batches_per_epoch - 1
        if epoch < 0 or not 0 <= batch <= last:
            raise ValueError(f"expected epoch >= 0 and batch in 0..{last}, got {epoch} and {batch}")
        self.epoch, self.batch = epoch, batch
        self._order = self.epoch_order(self.epoch)
