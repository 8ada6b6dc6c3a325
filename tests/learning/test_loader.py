"""Each game once per epoch, in an order that depends only on (seed, epoch), from any saved
position."""

import json

import numpy as np
import pytest

from hanabi_rl.learning.loader import Batch, BatchLoader


def take(loader: BatchLoader, count: int) -> list[Batch]:
    return [loader.next_batch() for _ in range(count)]


def assert_same(batches: list[Batch], expected: list[Batch]) -> None:
    for one, other in zip(batches, expected, strict=True):
        for mine, expected_leaf in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, expected_leaf)


@pytest.mark.parametrize(("games", "size"), [(10, 4), (12, 4), (3, 8), (1, 1)])
def test_epoch_has_every_game_once(games, size):
    loader = BatchLoader(games, size, seed=0)
    for epoch in range(3):
        batches = list(loader.rest_of_epoch())
        assert len(batches) == loader.batches_per_epoch == -(-games // size)
        assert all(batch.index.shape == batch.weight.shape == (size,) for batch in batches)
        assert {number for batch in batches for number in batch.epoch} == {epoch}
        assert all(batch.row.tolist() == list(range(size)) for batch in batches)
        seen = np.concatenate([batch.index[batch.weight > 0] for batch in batches])
        assert sorted(seen) == list(range(games))
        assert sum(batch.weight.sum() for batch in batches) == games
        assert all((batch.index[batch.weight == 0] == 0).all() for batch in batches)


def test_order_depends_on_seed_and_epoch():
    loader, other = BatchLoader(50, 8, seed=3), BatchLoader(50, 16, seed=3)
    first = np.concatenate([batch.index[batch.weight > 0] for batch in loader.rest_of_epoch()])
    np.testing.assert_array_equal(first, other.epoch_order(0))
    assert (loader.epoch_order(1) != first).any()
    assert (BatchLoader(50, 8, seed=4).epoch_order(0) != first).any()


@pytest.mark.parametrize("position", [0, 1, 2, 3, 7])
def test_restored_loader_continues(position):
    loader = BatchLoader(10, 4, seed=1)
    take(loader, position)
    saved = json.loads(json.dumps(loader.state_dict()))
    tail = take(loader, 8)
    restored = BatchLoader(10, 4, seed=1)
    take(restored, 5)
    restored.load_state_dict(saved)
    assert_same(take(restored, 8), tail)


def test_position_of_other_loader_is_rejected():
    saved = BatchLoader(10, 4, seed=1).state_dict()
    for loader, message in [
        (BatchLoader(11, 4, seed=1), "for num_examples=10, expected 11"),
        (BatchLoader(10, 5, seed=1), "for batch_size=4, expected 5"),
        (BatchLoader(10, 4, seed=2), "for seed=1, expected 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            loader.load_state_dict(saved)
    with pytest.raises(ValueError, match=r"batch in 0..2, got 0 and 3"):
        BatchLoader(10, 4, seed=1).load_state_dict(saved | {"batch": 3})
    with pytest.raises(ValueError, match="expected 'epoch' in the loader's saved position"):
        BatchLoader(10, 4, seed=1).load_state_dict({k: v for k, v in saved.items() if k != "epoch"})
    with pytest.raises(ValueError, match="at least one example"):
        BatchLoader(0, 4, seed=1)
