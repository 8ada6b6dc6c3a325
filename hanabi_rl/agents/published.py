"""Agents with published weights: `ah2ac2:FILE` and `obl:FILE`.

FILE is a local `.safetensors` file, or one in the family's repository on the Hugging Face Hub. A
key is the flax path of a parameter joined by commas. Supported layouts: three of AH2AC2 (LSTM
clones, HDR-IPPO with the same actor, feed-forward), and JaxMARL's R2D2 network for the Off-Belief
Learning agents.
"""

import dataclasses
import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.policy import NetworkPolicy, Policy, PolicyInfo, PyTree
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.nn.networks import FEED_FORWARD, ILLEGAL_LOGIT, LSTMLayer, NetworkConfig
from hanabi_rl.storage.files import read_text
from hanabi_rl.storage.hf_hub import download_file
from hanabi_rl.storage.jax_settings import with_fixed_settings
from hanabi_rl.storage.tensors import read_tensors

REPOSITORIES = {"ah2ac2": "ah2ac2/baselines", "obl": "mttga/obl-r2d2-flax"}
PREFIXES = tuple(f"{family}:" for family in REPOSITORIES)
OBL_LICENCE = (
    "obl: weights of Off-Belief Learning (Hu et al., 2021), converted by JaxMARL. Their licence is "
    f"NON-COMMERCIAL: read it at https://huggingface.co/{REPOSITORIES['obl']} before use."
)

Tensors = Mapping[str, np.ndarray]
Shapes = dict[str, tuple[int, ...]]

_GATES = "ifgo"  # input, forget, candidate, output: the column order of our LSTM
_CELL = "ScanLstmCellWithHiddenStateReset_"
_PUBLIC_NET = "params,publ_net_dense_0"
_PUBLIC = 125  # start of the public part of an OBL observation, after the other player's cards


class OBLPolicy(flax.struct.PyTreeNode):
    """Off-Belief Learning agent (R2D2), 2 players: private MLP times public LSTM, then advantages.

    The logits are the advantages, so only greedy play is meaningful: a Q-learner has no
    distribution.
    """

    # private (3 layers), public, lstm (one entry per layer), advantage
    params: PyTree = flax.struct.field(repr=False)
    rules: Rules = flax.struct.field(pytree_node=False)
    layout = "obl-r2d2"

    def identity(self) -> str:
        """See `Policy.identity`; the layout replaces observation version and network."""
        game = {"name": "hanabi", **dataclasses.asdict(self.rules)}
        return agent_hash({"layout": self.layout, "game": game}, self.params)

    @with_fixed_settings
    def init_carry(self, batch: int) -> PyTree:
        """(cell, hidden) per LSTM layer, each float32 `[batch, H]`."""
        widths = [layer["recurrent_kernel"].shape[0] for layer in self.params["lstm"]]
        return tuple((jnp.zeros((batch, width)), jnp.zeros((batch, width))) for width in widths)

    @with_fixed_settings
    def step(
        self,
        carry: PyTree,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[PyTree, jax.Array]:
        """See `Policy.step`."""
        private, public = obs, jax.nn.relu(_dense(self.params["public"], obs[:, _PUBLIC:]))
        for layer in self.params["private"]:
            private = jax.nn.relu(_dense(layer, private))
        new_carry = []
        for params, layer_carry in zip(self.params["lstm"], carry, strict=True):
            lstm = LSTMLayer(params["recurrent_kernel"].shape[0])
            out: Any = lstm.apply({"params": params}, layer_carry, public[None], reset[None])
            layer_carry, hidden = out
            new_carry.append(layer_carry)
            public = hidden[0]
        advantages = _dense(self.params["advantage"], private * public)
        return tuple(new_carry), jnp.where(legal, advantages, ILLEGAL_LOGIT)


def _dense(params: PyTree, x: jax.Array) -> jax.Array:
    return x @ params["kernel"] + params["bias"]


def load_published(name: str) -> Policy:
    """Load the agent `ah2ac2:FILE` or `obl:FILE`; prints the licence of `obl` on stderr.

    Raises:
        ValueError: unknown family, file of another layout (naming the tensor), or no standard game.
        FileNotFoundError: missing local file.
        ConnectionError: the Hub cannot be reached.
    """
    family, _, file = name.partition(":")
    if family not in REPOSITORIES or not file:
        raise ValueError(
            f"expected a published policy, {' or '.join(f'{p}FILE' for p in PREFIXES)}, got "
            f"{name!r}"
        )
    if Path(file).suffix != ".safetensors":
        raise ValueError(
            f"expected a file ending in .safetensors (pickles are never loaded), got {file}"
        )
    if family == "obl":
        print(OBL_LICENCE, file=sys.stderr)
    return read_published(_locate(name, family, file), family)


def read_published(path: Path, family: str | None = None) -> Policy:
    """Read a `.safetensors` file in the layout of `family`. Raises ValueError as `load_published`.

    None: the layout is detected by its tensors, and the licence of OBL is printed on stderr.
    """
    try:
        tensors = read_tensors(path)[0]
    except ValueError as error:
        raise ValueError(f"{path}: expected a safetensors file, cannot read it: {error}") from error
    source = str(path)
    if family is None and any(key.startswith(_PUBLIC_NET) for key in tensors):
        print(OBL_LICENCE, file=sys.stderr)
        family = "obl"
    if family == "obl":
        return _read_obl(tensors, source)
    if any(_CELL in key for key in tensors):
        return _read_lstm(tensors, source, _read_config(path.with_suffix(".yaml")))
    return _read_feed_forward(tensors, source)


def _locate(name: str, family: str, file: str) -> Path:
    path = Path(file)
    if path.is_file():
        return path
    if path.is_absolute() or file.startswith("."):
        raise FileNotFoundError(f"{name}: expected a file, got {path}, which does not exist")
    return download_file(
        REPOSITORIES[family], file, kind="model", then=f"name its local file: {family}:PATH"
    )


def _read_config(path: Path) -> dict[str, Any]:
    """Training config that AH2AC2 stores with a clone's weights; empty if it is missing."""
    if not path.is_file():
        return {}
    import yaml

    try:
        config = yaml.safe_load(read_text(path))
    except Exception as error:  # yaml's own errors, undecodable text, and unbounded nesting
        raise ValueError(f"{path}: expected YAML, got: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path}: expected a mapping, got {type(config).__name__}")
    if config.get("act_fn", "gelu") != "gelu":
        raise ValueError(
            f"{path}: act_fn: expected 'gelu', the only supported one, got {config['act_fn']!r}"
        )
    dropout = config.get("dropout", 0.0)
    if type(dropout) not in (int, float) or not 0.0 <= dropout < 1.0:
        raise ValueError(f"{path}: dropout: expected a rate in [0, 1), got {dropout!r}")
    return config


def _read_lstm(tensors: Tensors, source: str, config: Mapping[str, Any]) -> NetworkPolicy:
    """A clone, or the actor of HDR-IPPO without its critic, in the parameters of our `Actor`."""
    with_critic = any(key.startswith("params,actor,") for key in tensors)
    prefix = (
        "params,actor,"
        if with_critic
        else "params,"
        if any(key.startswith("params,") for key in tensors)
        else ""
    )
    dense, norm, cell = f"{prefix}Dense_", f"{prefix}LayerNorm_", f"{prefix}{_CELL}"
    embedding = _widths(tensors, norm + "{},scale")
    lstm = _widths(tensors, cell + "{},hi,bias") or [0]
    *decoder, num_actions = _widths(tensors, dense + "{},bias")[len(embedding) :] or [0]
    obs_size = _size(tensors, f"{dense}0,kernel", source)
    # decoder layers and logits continue the numbering of the embedding
    into = [obs_size, *embedding, *lstm, *decoder]

    expected: Shapes = {}
    for k, width in enumerate(embedding):
        expected |= _dense_shapes(f"{dense}{k}", into[k], width)
        expected |= {f"{norm}{k},{name}": (width,) for name in ("scale", "bias")}
    for k, width in enumerate(lstm):
        expected |= _lstm_shapes(f"{cell}{k}", into[len(embedding) + k], width)
    for k, width in enumerate([*decoder, num_actions], start=len(embedding)):
        expected |= _dense_shapes(f"{dense}{k}", into[len(lstm) + k], width)
    if with_critic:
        hidden = _size(tensors, "params,Dense_1,kernel", source)
        expected |= _dense_shapes("params,Dense_0", lstm[-1], hidden) | _dense_shapes(
            "params,Dense_1", hidden, 1
        )
    _check(tensors, expected, source)

    params: PyTree = {"logits": _dense_layer(tensors, f"{dense}{len(embedding) + len(decoder)}")}
    for k in range(len(embedding)):
        params[f"embedding_{k}"] = _dense_layer(tensors, f"{dense}{k}")
        params[f"norms_{k}"] = {name: tensors[f"{norm}{k},{name}"] for name in ("scale", "bias")}
    for k in range(len(lstm)):
        params[f"lstm_{k}"] = _lstm_layer(tensors, f"{cell}{k}")
    for k in range(len(decoder)):
        params[f"decoder_{k}"] = _dense_layer(tensors, f"{dense}{len(embedding) + k}")
    dropout = float(config.get("dropout", NetworkConfig.dropout))
    return NetworkPolicy(
        params=jax.tree.map(jnp.asarray, params),
        rules=_rules(obs_size, num_actions, source),
        network=NetworkConfig(tuple(embedding), tuple(lstm), tuple(decoder), dropout=dropout),
        info=PolicyInfo(algorithm="ah2ac2-hdr-ippo" if with_critic else "ah2ac2-bc"),
    )


def _read_feed_forward(tensors: Tensors, source: str) -> NetworkPolicy:
    """`params,Dense_0` is shared, 1 and 2 are the actor; the critic, 3 and 4, is dropped."""
    obs_size, shared, hidden = (
        _size(tensors, f"params,Dense_{k},kernel", source) for k in range(3)
    )
    num_actions, critic = (_size(tensors, f"params,Dense_{k},bias", source) for k in (2, 3))
    expected: Shapes = {}
    for k, (rows, width) in enumerate(
        [(obs_size, shared), (shared, hidden), (hidden, num_actions), (shared, critic), (critic, 1)]
    ):
        expected |= _dense_shapes(f"params,Dense_{k}", rows, width)
    _check(tensors, expected, source)
    names = ("embedding_0", "decoder_0", "logits")
    params = {name: _dense_layer(tensors, f"params,Dense_{k}") for k, name in enumerate(names)}
    return NetworkPolicy(
        params=jax.tree.map(jnp.asarray, params),
        rules=_rules(obs_size, num_actions, source),
        network=dataclasses.replace(
            FEED_FORWARD, embedding=(shared,), decoder=(hidden,), critic=(critic,)
        ),
        info=PolicyInfo(algorithm="ah2ac2-feed-forward"),
    )


def _read_obl(tensors: Tensors, source: str) -> OBLPolicy:
    rules, lstm = Rules(num_players=2), "params,lstm,l"
    width = _size(tensors, "params,fc_a,kernel", source)
    layers = max(1, len(_widths(tensors, lstm + "{},hi,bias")))
    expected = _dense_shapes(_PUBLIC_NET, rules.obs_size - _PUBLIC, width)
    expected |= _dense_shapes("params,fc_a", width, rules.num_actions)
    for k in range(3):
        expected |= _dense_shapes(
            f"params,priv_net_dense_{k}", width if k else rules.obs_size, width
        )
    for k in range(layers):
        expected |= _lstm_shapes(f"{lstm}{k}", width, width)
    _check(tensors, expected, source)
    params = {
        "private": [_dense_layer(tensors, f"params,priv_net_dense_{k}") for k in range(3)],
        "public": _dense_layer(tensors, _PUBLIC_NET),
        "lstm": [_lstm_layer(tensors, f"{lstm}{k}") for k in range(layers)],
        "advantage": _dense_layer(tensors, "params,fc_a"),
    }
    return OBLPolicy(params=jax.tree.map(jnp.asarray, params), rules=rules)


def _size(tensors: Tensors, key: str, source: str) -> int:
    """First axis of a tensor: inputs of a kernel, outputs of a bias."""
    if key not in tensors or tensors[key].ndim == 0:
        raise ValueError(f"{source}: expected a tensor {key!r}, got {_names(tensors)}")
    return tensors[key].shape[0]


def _widths(tensors: Tensors, pattern: str) -> list[int]:
    """Sizes of the vectors `pattern` with 0, 1, ... filled in, up to the first that is missing."""
    numbers = itertools.takewhile(lambda k: pattern.format(k) in tensors, itertools.count())
    return [tensors[pattern.format(k)].size for k in numbers]


def _dense_shapes(prefix: str, rows: int, columns: int) -> Shapes:
    return {f"{prefix},kernel": (rows, columns), f"{prefix},bias": (columns,)}


def _lstm_shapes(prefix: str, rows: int, width: int) -> Shapes:
    """Shapes of flax's LSTM cell: per gate a kernel for inputs, kernel and bias for hidden
    states."""
    shapes: Shapes = {f"{prefix},i{gate},kernel": (rows, width) for gate in _GATES}
    for gate in _GATES:
        shapes |= _dense_shapes(f"{prefix},h{gate}", width, width)
    return shapes


def _check(tensors: Tensors, expected: Shapes, source: str) -> None:
    """Raise ValueError for a tensor that is missing, unexpected, or has another shape or dtype."""
    for key in sorted(expected.keys() - tensors.keys()):
        raise ValueError(f"{source}: expected a tensor {key!r}, got {_names(tensors)}")
    for key in sorted(tensors.keys() - expected.keys()):
        raise ValueError(f"{source}: expected only the tensors {_names(expected)}; got {key!r}")
    for key, shape in expected.items():
        tensor = tensors[key]
        if tensor.shape != shape or tensor.dtype != np.float32:
            raise ValueError(
                f"{source}: {key}: expected float32{list(shape)}, got "
                f"{tensor.dtype}{list(tensor.shape)}"
            )


def _names(named: Mapping[str, Any]) -> str:
    return ", ".join(sorted(named)) or "none"


def _dense_layer(tensors: Tensors, prefix: str) -> PyTree:
    return {"kernel": tensors[f"{prefix},kernel"], "bias": tensors[f"{prefix},bias"]}


def _lstm_layer(tensors: Tensors, prefix: str) -> PyTree:
    """Concatenate the four gates as `LSTMLayer` does; the bias moves to the input."""

    def gates(part: str) -> np.ndarray:
        return np.concatenate(
            [tensors[f"{prefix},{part.format(gate)}"] for gate in _GATES], axis=-1
        )

    return {
        "input": {"kernel": gates("i{},kernel"), "bias": gates("h{},bias")},
        "recurrent_kernel": gates("h{},kernel"),
    }


def _rules(obs_size: int, num_actions: int, source: str) -> Rules:
    standard = {
        (rules.obs_size, rules.num_actions): rules
        for rules in (Rules(num_players=p) for p in range(2, 6))
    }
    if (obs_size, num_actions) not in standard:
        sizes = ", ".join(f"{size} and {moves}" for size, moves in standard)
        raise ValueError(
            f"{source}: expected the observation and action sizes of a game of 2 to 5 players "
            f"({sizes}), got {obs_size} and {num_actions}"
        )
    return standard[obs_size, num_actions]
