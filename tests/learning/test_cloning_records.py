"""`RecordDataset`: each decision is one example, with the loss of cross-entropy in NumPy."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.overcooked import recorded_games

from hanabi_rl.data.game_records import GameRecords, load_game_records
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import save_recorded_games
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BC, BCTrainConfig
from hanabi_rl.learning.cloning_records import RecordDataset, record_dataset
from hanabi_rl.learning.loader import Batch
from hanabi_rl.nn.kitchen_network import KitchenConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig

RULES = Overcooked(last_action=True)
NETWORK = KitchenConfig(embedding=(8,))


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> GameRecords:
    path = tmp_path_factory.mktemp("games") / "games.safetensors"
    save_recorded_games(path, recorded_games([6, 9, 4]))
    return load_game_records([str(path)], RULES)


def decisions(records: GameRecords) -> list[tuple[np.ndarray, int]]:
    """Observation and action of each decision, played one game at a time."""
    found = []
    keys, rules = np.zeros((1, 2), np.uint32), records.replay_rules
    observe, step = jax.jit(rules.observe), jax.jit(rules.step)
    games = []
    for g, length in enumerate(records.lengths):
        state = jax.tree.map(lambda leaf, g=g: leaf[g : g + 1], records.starts)
        played = []
        for action in records.actions[g, :length]:
            played.append((np.asarray(observe(state))[0], action))
            state, _ = step(state, np.int32(action[None]), keys)
        games.append(played)
    for t in range(max(records.lengths)):
        for played in games:
            if t < len(played):
                obs, action = played[t]
                found += [(obs[seat], int(action[seat])) for seat in (0, 1)]
    return found


def batch_of(index: list[int], size: int) -> Batch:
    padded = np.zeros(size, np.int32)
    padded[: len(index)] = index
    row = np.arange(size, dtype=np.int32)
    return Batch(np.zeros_like(row), padded, (row < len(index)).astype(np.float32), row)


def test_examples_are_all_decisions(records: GameRecords) -> None:
    dataset, expected = record_dataset(records, NETWORK, "float32"), decisions(records)
    assert len(dataset) == len(expected) == 2 * (6 + 9 + 4)
    group = jax.jit(RecordDataset.microbatches)(dataset, batch_of(list(range(38)), 40))
    group = jax.device_get(group)
    assert group.inputs.shape == (1, 40, *RULES.obs_shape)
    np.testing.assert_array_equal(group.inputs[0, :38], [obs for obs, _ in expected])
    np.testing.assert_array_equal(group.action[0, :38], [action for _, action in expected])
    assert group.mask[0].tolist() == [True] * 38 + [False] * 2
    assert group.legal.shape == (1, 40, 6) and bool(group.legal.all())
    assert group.row_index[0].tolist() == list(range(40))


def test_update_is_the_gradient_of_the_cross_entropy(records: GameRecords) -> None:
    """The loss and its gradient in the last bias, by hand; padding has no weight."""
    dataset, expected = record_dataset(records, NETWORK, "float32"), decisions(records)
    config = BCTrainConfig(network=NETWORK, batch_size=8, lr=1e-3)
    bc = BC(config, RULES, 10)
    state = jax.jit(bc.init)(jax.random.key(1))
    index = [3, 30, 17, 22, 9]
    chosen = [expected[i] for i in index]
    out: Any = jax.jit(NETWORK.actor(6).apply)(
        {"params": state.params},
        NETWORK.initial_carry(5),
        np.array([obs for obs, _ in chosen])[None],
        np.ones((1, 5, 6), bool),
        np.ones((1, 5), bool),
    )
    logits = np.asarray(out[1][0], np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    actions = np.array([action for _, action in chosen])
    after, metrics = bc.compile_update()(
        state, parallel.replicate(dataset), parallel.shard(batch_of(index, 8))
    )
    assert float(metrics["loss"]) == pytest.approx(-log_probs[range(5), actions].mean(), rel=1e-5)
    assert float(metrics["decisions"]) == 5
    hits = (logits.argmax(axis=1) == actions).mean()
    assert float(metrics["accuracy"]) == pytest.approx(hits)
    gradient = (np.exp(log_probs) - np.eye(6)[actions]).mean(axis=0)
    (path,) = [path for path, leaf in jax.tree.leaves_with_path(after.params) if leaf.shape == (6,)]
    moments = next(
        part
        for part in jax.tree.leaves(after.opt_state, is_leaf=lambda x: hasattr(x, "mu"))
        if hasattr(part, "mu")
    )
    ((_, first),) = [pair for pair in jax.tree.leaves_with_path(moments.mu) if pair[0] == path]
    np.testing.assert_allclose(first / 0.1, gradient, rtol=1e-4, atol=1e-7)  # Adam's b1 = 0.9


@pytest.mark.parametrize(
    ("network", "kind"),
    [(NetworkConfig(lstm=(8,)), "lstm"), (StructuredConfig(), "structured")],
)
def test_errors(network: Any, kind: str, records: GameRecords) -> None:
    with pytest.raises(
        ValueError, match=f"network.kind: expected a feed-forward network .*, got {kind}$"
    ):
        record_dataset(records, network, "float32")


def test_same_file_again_is_the_same_content(records: GameRecords, tmp_path: Path) -> None:
    save_recorded_games(tmp_path / "again.safetensors", recorded_games([6, 9, 4]))
    again = load_game_records([str(tmp_path / "again.safetensors")], RULES)
    jax.tree.map(np.testing.assert_array_equal, again.content(), records.content())
