"""Networks defined outside the package: configs, policy files, flags, what a kind reads."""

from __future__ import annotations

import dataclasses
import gc
import math
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.compiled import init_params
from support.games import TINY

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_file import read_file, write_file
from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.games.overcooked.features import distance_features
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.registry import game_class
from hanabi_rl.launch.cli_args import parse_args
from hanabi_rl.launch.presets import configs_folder
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.game_view import GameView
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.nn.config import network_class
from hanabi_rl.nn.conv_network import ConvConfig
from hanabi_rl.nn.gru_network import GRUConfig
from hanabi_rl.nn.kitchen_network import KitchenConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.storage.dataclass_io import from_dict, to_dict
from hanabi_rl.storage.user_modules import import_user_modules

FILE = """
import dataclasses
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from hanabi_rl import Game
from hanabi_rl.nn.gru_network import GRULayer
from hanabi_rl.nn.networks import MemoryNetwork, NetworkConfig


@dataclasses.dataclass(frozen=True)
class Own(MemoryNetwork):
    embedding: tuple[int, ...] = (8,)
    latest: tuple[int, ...] = (8,)
    decay: float = 0.5
    decoder: tuple[int, ...] = ()
    critic: tuple[int, ...] = (4,)
    activation: Literal["relu"] = "relu"
    layer_norm: bool = False
    dropout: float = 0.0
    kind: Literal["KIND"] = "KIND"
    memory: ClassVar[str] = "latest"

    def memory_layer(self, width, precision):
        return GRULayer(width, precision)

    def layer_carry(self, width, batch):
        return jnp.zeros((batch, width))


@dataclasses.dataclass(frozen=True)
class Pooled(NetworkConfig):
    kind: Literal["pooled"] = "pooled"

    @property
    def reduction(self):
        return lambda obs: obs.mean((-3, -2))

    def read(self, obs, reset):
        return obs if obs.ndim == reset.ndim + 1 else self.reduction(obs)


@dataclasses.dataclass(frozen=True)
class OwnGame(Game):
    name: Literal["own_game"] = "own_game"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Named in the environment; forgotten afterwards."""
    before = {*sys.modules}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "net.py").write_text(FILE.replace("KIND", "newest"))
    import_user_modules.cache_clear()
    yield monkeypatch
    for name in {*sys.modules} - before:
        if name.startswith("net_"):
            del sys.modules[name]
    import_user_modules.cache_clear()
    gc.collect()


def test_own_kind_is_known_by_its_module(module: Any, tmp_path: Path) -> None:
    """In presets, flags, saved configs and policy files."""
    preset = tmp_path / "mine.toml"
    preset.write_text('[network]\nkind = "newest"\ndecay = 0.25\n')
    args = ["--preset", str(preset), "--network.latest", "5", "6"]
    remedy = "a class of your own is known once its module is imported: HANABI_RL_IMPORT=FILE.py"
    with pytest.raises(ValueError, match=f"mine.toml.network.kind: .*got 'newest'; {remedy}"):
        parse_args(IPPOConfig, "ippo", configs_folder(), None, args)
    with pytest.raises(ValueError, match=f"expected one of conv, .*got 'newest'; {remedy}"):
        network_class("newest")
    with pytest.raises(ValueError, match=f"expected a game, .*got 'own_game'; {remedy}"):
        game_class("own_game")
    import_user_modules.cache_clear()
    module.setenv("HANABI_RL_IMPORT", "none.py:net.py")
    with pytest.raises(ValueError, match="HANABI_RL_IMPORT: expected files or modules, got none"):
        network_class("newest")
    module.setenv("HANABI_RL_IMPORT", "net.py:json.tool")
    config = parse_args(IPPOConfig, "ippo", configs_folder(), None, args)
    network: Any = config.network
    assert (network.kind, network.decay, network.latest) == ("newest", 0.25, (5, 6))
    assert from_dict(IPPOConfig, to_dict(config)) == config
    assert game_class("own_game").__name__ == "OwnGame"

    policy = NetworkPolicy(init_params(TINY, network, jax.random.key(0)), TINY, network)
    write_file(tmp_path / "policy.safetensors", policy)
    found = read_file(tmp_path / "policy.safetensors")
    assert found.network == network and found.identity() == policy.identity()
    assert found.params["latest_1"]["input"]["kernel"].shape == (5, 18)


def test_last_definition_of_a_kind_counts(module: Any) -> None:
    """As after a cell of a notebook was run again."""
    module.setenv("HANABI_RL_IMPORT", "net.py")
    first = network_class("newest")
    text = FILE.replace("KIND", "newest").replace("decay: float = 0.5", "decay: float = 0.75")
    Path("net.py").write_text(text)
    import_user_modules.cache_clear()
    second: Any = network_class("newest")
    assert second is not first and second().decay == 0.75
    config: Any = from_dict(IPPOConfig, {"network": {"kind": "newest"}})
    assert config.network == second()


def test_kind_must_be_a_field_of_its_own() -> None:
    class Plain(GRUConfig):
        kind: Any = "plain"

    @dataclasses.dataclass(frozen=True)
    class Inherited(GRUConfig):
        other: int = 1

    for cls in (Plain, Inherited):
        with pytest.raises(ValueError, match=f"{cls.__name__}: expected a frozen .*got kind 'gru'"):
            cls()
    del Plain, Inherited, cls
    gc.collect()


SMALL: Any = {"lstm": (), "critic": (3,), "embedding": (4,), "decoder": (5,)}


@pytest.mark.parametrize(
    "network",
    [
        NetworkConfig(**SMALL),
        NetworkConfig(**SMALL | {"embedding": ()}),
        NetworkConfig(**SMALL | {"embedding": (), "decoder": (), "critic": ()}),
        NetworkConfig(**SMALL | {"lstm": (6,)}),
        NetworkConfig(**SMALL | {"lstm": (6,), "embedding": ()}),
        GRUConfig(),
        KitchenConfig(),
        ConvConfig(),
    ],
)
def test_input_layers_are_those_that_read_observations(network: Any) -> None:
    """Found by the first axis of their kernels; without their names no entry may be omitted."""
    rules = Overcooked("cramped_room")
    size = math.prod(rules.obs_shape)
    learner = PPO(PPOConfig(game=rules, num_envs=16, num_steps=4, total_steps=64), network)
    params = jax.eval_shape(learner.init_params, jax.random.key(0))
    reads = {
        path[1].key
        for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]
        if path[-1].key == "kernel" and leaf.shape[0] == size
    }
    if network.input_layers:
        assert {*network.input_layers} == reads
    else:
        assert type(network) is not NetworkConfig or network.lstm
    assert GameView(rules, network).folded_layers == network.input_layers


def test_view_reads_what_the_kind_says(module: Any) -> None:
    module.setenv("HANABI_RL_IMPORT", "net.py")
    rules = Overcooked("cramped_room")
    pooled = network_class("pooled")(**SMALL)
    states = jax.jit(lambda key: rules.make_env().reset(key, 3).game)(jax.random.key(0))
    obs = jax.jit(rules.observe)(states)
    reduced = {"pooled": np.asarray(obs).mean((2, 3)), "kitchen": distance_features(obs)}
    for network in (pooled, KitchenConfig(), ConvConfig()):
        view = GameView(rules, network)
        assert view.folded_layers == () and view.is_reduced == (network.kind in reduced)
        _, seen = jax.jit(
            lambda states, view=view: view.encode_step(None, states, np.ones(3, bool), None)
        )(states)
        np.testing.assert_allclose(seen.inputs, reduced.get(network.kind, obs), rtol=1e-6)
        assert (view.stored_inputs(seen) is None) == (network.kind == "conv")
