"""Data loader resumed at each batch of two epochs: same games, same colour permutations."""

import hashlib
import json
from collections.abc import Callable

import jax
from support.games import teacher_games

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.cloning_games import game_dataset
from hanabi_rl.learning.loader import BatchLoader
from hanabi_rl.nn.networks import NetworkConfig

RULES = Rules(num_players=2, num_colors=3, num_ranks=3, hand_size=2)


def tail(replayed: Callable, loader: BatchLoader, batches: int) -> list[str]:
    """Digests of the next batches."""
    digests = []
    for _ in range(batches):
        leaves = jax.device_get(jax.tree.leaves(replayed(loader.next_batch())))
        digests.append(hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest())
    return digests


def test_resumed_loader_continues_identically(
    injections: Callable[..., int], tally: Callable
) -> None:
    games, resumed = teacher_games(RULES, 45), tally("loader resumed")
    examples = game_dataset(games, NetworkConfig(), jax.random.fold_in(jax.random.key(3), 1))
    replayed = jax.jit(examples.replayed)
    loader = BatchLoader(len(games), 4, seed=1)
    total = 2 * loader.batches_per_epoch
    positions = []
    for batch in range(total):
        positions.append(json.dumps(loader.state_dict()))
        loader.next_batch()
        assert loader.epoch == (batch + 1) // loader.batches_per_epoch
    whole = tail(replayed, BatchLoader(len(games), 4, seed=1), total)
    assert len(set(whole)) == total, "epochs have equal colours or order"
    for batch in range(0, total, injections(5, 1)):
        fresh = BatchLoader(len(games), 4, seed=1)
        fresh.load_state_dict(json.loads(positions[batch]))
        same = tail(replayed, fresh, total - batch) == whole[batch:]
        resumed.add(f"batch {batch}", None if same else "another tail")
