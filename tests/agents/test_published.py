"""Published weights: forward passes against NumPy on random weights, and rejected files."""

import json

import huggingface_hub
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file
from support.compiled import ask
from support.hub import keep_in_cache, offline

from hanabi_rl.agents.loading import LOADERS, load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.agents.published import PREFIXES, OBLPolicy
from hanabi_rl.algorithms.clone import load_or_train_clone
from hanabi_rl.algorithms.hdr_ippo import HDRIPPOConfig
from hanabi_rl.cli import main
from hanabi_rl.cli.agents import load_agent
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

CELL = "ScanLstmCellWithHiddenStateReset_"
TIMESTEPS, ROWS = 5, 4


class Weights(dict):
    """Random tensors by key, as in a published file."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def random(self, *shape: int) -> np.ndarray:
        return (self.rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

    def dense(self, key: str, rows: int, columns: int) -> None:
        self[f"{key},kernel"], self[f"{key},bias"] = (
            self.random(rows, columns),
            self.random(columns),
        )

    def norm(self, key: str, width: int) -> None:
        self[f"{key},scale"], self[f"{key},bias"] = 1 + self.random(width) / 4, self.random(width)

    def lstm(self, key: str, rows: int, width: int) -> None:
        for gate in "ifgo":
            self[f"{key},i{gate},kernel"] = self.random(rows, width)
            self.dense(f"{key},h{gate}", width, width)


def clone(
    players: int = 2, embedding=(12,), lstm=(8,), decoder=(6,), prefix: str = "", seed: int = 0
) -> Weights:
    weights, rules, dense, size = (
        Weights(seed),
        Rules(num_players=players),
        0,
        Rules(num_players=players).obs_size,
    )
    for k, width in enumerate(embedding):
        weights.dense(f"{prefix}Dense_{dense}", size, width)
        weights.norm(f"{prefix}LayerNorm_{k}", width)
        dense, size = dense + 1, width
    for k, width in enumerate(lstm):
        weights.lstm(f"{prefix}{CELL}{k}", size, width)
        size = width
    for width in (*decoder, rules.num_actions):
        weights.dense(f"{prefix}Dense_{dense}", size, width)
        dense, size = dense + 1, width
    return weights


def hdr_ippo(players: int = 2, lstm=(8,)) -> Weights:
    weights = clone(players, lstm=lstm, prefix="params,actor,")
    weights.dense("params,Dense_0", lstm[-1], 7)
    weights.dense("params,Dense_1", 7, 1)
    return weights


def feed_forward(players: int = 2) -> Weights:
    weights, rules = Weights(), Rules(num_players=players)
    sizes = [(rules.obs_size, 9), (9, 8), (8, rules.num_actions), (9, 7), (7, 1)]
    for k, (rows, columns) in enumerate(sizes):
        weights.dense(f"params,Dense_{k}", rows, columns)
    return weights


def obl(width: int = 8) -> Weights:
    weights = Weights()
    for k in range(3):
        weights.dense(f"params,priv_net_dense_{k}", width if k else 658, width)
    weights.dense("params,publ_net_dense_0", 533, width)
    for k in range(2):
        weights.lstm(f"params,lstm,l{k}", width, width)
    weights.dense("params,fc_a", width, 21)
    return weights


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def relu(x):
    return np.maximum(x, 0)


class NumPyForward:
    """Published networks in float64 NumPy, one row at a time; `memory` is cleared by the caller."""

    def __init__(self, weights: Weights, prefix: str = "") -> None:
        self.weights = {key: value.astype(np.float64) for key, value in weights.items()}
        self.prefix, self.memory = prefix, {}

    def dense(self, key, x):
        return (
            x @ self.weights[f"{self.prefix}{key},kernel"]
            + self.weights[f"{self.prefix}{key},bias"]
        )

    def lstm(self, key, x):
        width = self.weights[f"{self.prefix}{key},hi,bias"].size
        cell, hidden = self.memory.get(key, (np.zeros(width), np.zeros(width)))
        i, f, g, o = (
            x @ self.weights[f"{self.prefix}{key},i{gate},kernel"]
            + self.dense(f"{key},h{gate}", hidden)
            for gate in "ifgo"
        )
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        self.memory[key] = (cell, sigmoid(o) * np.tanh(cell))
        return self.memory[key][1]

    def clone(self, x, embedding=1, lstm=1, decoder=1):
        for k in range(embedding):
            x = self.dense(f"Dense_{k}", x)
            scale, bias = (
                self.weights[f"{self.prefix}LayerNorm_{k},{name}"] for name in ("scale", "bias")
            )
            x = gelu((x - x.mean()) / np.sqrt(x.var() + 1e-6) * scale + bias)
        for k in range(lstm):
            x = self.lstm(f"{CELL}{k}", x)
        for k in range(embedding, embedding + decoder):
            x = gelu(self.dense(f"Dense_{k}", x))
        return self.dense(f"Dense_{embedding + decoder}", x)

    def feed_forward(self, x):
        return self.dense(
            "params,Dense_2",
            relu(self.dense("params,Dense_1", relu(self.dense("params,Dense_0", x)))),
        )

    def obl(self, x):
        private, public = x, relu(self.dense("params,publ_net_dense_0", x[125:]))
        for k in range(3):
            private = relu(self.dense(f"params,priv_net_dense_{k}", private))
        for k in range(2):
            public = self.lstm(f"params,lstm,l{k}", public)
        return self.dense("params,fc_a", private * public)


@pytest.fixture
def stored(tmp_path):
    """`stored(weights)` returns the path of a file with these weights."""

    def write(weights: Weights, name: str = "weights.safetensors"):
        save_file(dict(weights), tmp_path / name)
        return tmp_path / name

    return write


def assert_same_logits(policy, row_forward) -> None:
    """`row_forward()` returns one row's NumPy network, a function of its observation and reset
    flag."""
    rules, rng = policy.rules, np.random.default_rng(1)
    obs = (rng.random((TIMESTEPS, ROWS, rules.obs_size)) < 0.3).astype(np.float32)
    legal = rng.random((TIMESTEPS, ROWS, rules.num_actions)) < 0.7
    reset = np.zeros((TIMESTEPS, ROWS), bool)
    reset[0] = True
    reset[3, ::2] = True  # a new game in the middle for every second row
    # a memory that the first reset must clear
    carry = jax.tree.map(lambda leaf: leaf + 1, policy.init_carry(ROWS))
    step, rows = jax.jit(type(policy).step), [row_forward() for _ in range(ROWS)]
    for t in range(TIMESTEPS):
        carry, logits = step(policy, carry, obs[t], legal[t], reset[t])
        expected = np.array([row(obs[t, b], reset[t, b]) for b, row in enumerate(rows)])
        np.testing.assert_allclose(
            logits, np.where(legal[t], expected, -1e10), rtol=1e-4, atol=1e-5
        )


def numpy_row(weights, prefix, forward):
    def make():
        network = NumPyForward(weights, prefix)

        def row(obs, reset):
            if reset:
                network.memory.clear()
            return forward(network, obs.astype(np.float64))

        return row

    return make


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("prefix", ["", "params,"])
def test_published_clone_matches_numpy(stored, prefix, deep):
    depth = dict(embedding=(12, 10), lstm=(8, 6), decoder=(6, 5)) if deep else {}
    weights = clone(3 if deep else 2, prefix=prefix, **depth)
    policy = load_policy(f"ah2ac2:{stored(weights)}")
    assert isinstance(policy, NetworkPolicy) and policy.rules == Rules(num_players=3 if deep else 2)
    assert policy.info.algorithm == "ah2ac2-bc"
    layers = {name: len(widths) for name, widths in depth.items()}
    assert_same_logits(
        policy, numpy_row(weights, prefix, lambda network, obs: network.clone(obs, **layers))
    )


def test_published_hdr_ippo_matches_numpy(stored):
    weights = hdr_ippo(players=3, lstm=(8, 7))
    policy = load_policy(f"ah2ac2:{stored(weights)}")
    assert isinstance(policy, NetworkPolicy) and policy.info.algorithm == "ah2ac2-hdr-ippo"
    assert_same_logits(
        policy, numpy_row(weights, "params,actor,", lambda network, obs: network.clone(obs, lstm=2))
    )


def test_published_feed_forward_matches_numpy(stored):
    weights = feed_forward(players=3)
    policy = load_policy(f"ah2ac2:{stored(weights)}")
    assert policy.network.kind == "feed_forward" and policy.rules == Rules(num_players=3)
    assert_same_logits(policy, numpy_row(weights, "", NumPyForward.feed_forward))


def test_obl_matches_numpy(stored):
    weights = obl()
    policy = load_policy(f"obl:{stored(weights)}")
    assert isinstance(policy, OBLPolicy) and policy.rules == Rules()
    assert_same_logits(policy, numpy_row(weights, "", NumPyForward.obl))


@pytest.mark.slow  # jaxmarl's agents take seconds to import
def test_obl_matches_jaxmarl(stored):
    from flax.traverse_util import unflatten_dict
    from jaxmarl.environments.hanabi.pretrained import OBLAgentR2D2

    weights = obl(width=16)
    policy, agent = load_policy(f"obl:{stored(weights)}"), OBLAgentR2D2(hid_dim=16)
    params = unflatten_dict(
        {tuple(key.split(",")): jnp.asarray(value) for key, value in weights.items()}
    )
    rng, carry, theirs = (
        np.random.default_rng(2),
        policy.init_carry(32),
        jax.jit(lambda: agent.initialize_carry(jax.random.key(0), (32,)))(),
    )
    greedy = jax.jit(agent.greedy_act)
    for t in range(4):
        obs = (rng.random((32, 658)) < 0.3).astype(np.float32)
        legal = rng.random((32, 21)) < 0.6
        legal[:, 0] = True
        carry, logits = ask(policy, carry, obs, legal, np.full(32, t == 0))
        theirs, action = greedy(params, theirs, (obs, legal))
        np.testing.assert_array_equal(np.asarray(logits).argmax(axis=-1), action)


def test_published_agents_play_with_distinct_identities(stored):
    names = [f"ah2ac2:{stored(feed_forward())}", f"obl:{stored(obl(), 'obl.safetensors')}"]
    names += [
        f"ah2ac2:{stored(weights, f'{k}.safetensors')}"
        for k, weights in enumerate([clone(), clone(seed=1)])
    ]
    policies = [load_agent(name, None) for name in names]
    assert len({policy.identity() for policy in policies}) == 4
    assert load_policy(names[1]).identity() == policies[1].identity()
    lineup = (policies[0], policies[1])
    records = play_games(lineup, Rules(), evaluation_decks(Rules(), 4, 0))
    assert (records.num_actions > 0).all()
    with pytest.raises(ValueError, match="expected an agent for 3 players, got one for 2"):
        load_policy(names[0], Rules(num_players=3))
    assert {f"{source}:" for source in LOADERS} == {"agent:", "hf:", *PREFIXES}


@pytest.mark.parametrize("layout", ["clone", "hdr_ippo", "feed_forward", "obl"])
def test_published_layout_is_detected(stored, tmp_path, monkeypatch, capsys, layout):
    """The file may be in any Hub repository."""
    path = stored(globals()[layout]())
    family = "obl" if layout == "obl" else "ah2ac2"
    offline(monkeypatch, tmp_path / "hub")
    keep_in_cache(tmp_path / "hub", "you/x", {"a/w.safetensors": path.read_bytes()}, ref="main")
    expected = load_policy(f"{family}:{path}").identity()
    capsys.readouterr()
    assert load_policy("hf:you/x/a/w.safetensors").identity() == expected
    assert ("NON-COMMERCIAL" in capsys.readouterr().err) == (layout == "obl")
    for name in (f"{family}:{path}", "hf:you/x/a/w.safetensors"):
        main(["agents", name, "--json"])
        printed = {"name": name, "card": "none: external agent", "players": 2}
        assert json.loads(capsys.readouterr().out) == printed


def test_published_clone_initialises_hdr_ippo(stored, tmp_path):
    name = f"ah2ac2:{stored(clone())}"
    config = HDRIPPOConfig(bc_policy=name)
    reference, policy = load_or_train_clone(config, tmp_path / "run"), load_policy(name)
    jax.tree.map(np.testing.assert_array_equal, reference.params, policy.params)
    save_policy(tmp_path / "ours", policy, algorithm="bc", steps=0, score=None)
    jax.tree.map(
        np.testing.assert_array_equal, load_policy(tmp_path / "ours").params, policy.params
    )


def test_published_clone_config_is_read(stored, tmp_path):
    path = stored(clone())
    path.with_suffix(".yaml").write_text("act_fn: 'gelu'\ndropout: 0.3\n")
    assert load_policy(f"ah2ac2:{path}").network.dropout == 0.3
    path.with_suffix(".yaml").write_text("act_fn: relu\n")
    with pytest.raises(ValueError, match="weights.yaml: act_fn: expected 'gelu', .*, got 'relu'"):
        load_policy(f"ah2ac2:{path}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "expected YAML"),
        (b"\xff\xfe\x00", "expected YAML"),
        (b"[" * 5000, "expected YAML"),
        (b"- 1", "expected a mapping, got list"),
        (b"dropout: .nan", r"dropout: expected a rate in \[0, 1\), got nan"),
        (b"dropout: [1]", r"dropout: expected a rate in \[0, 1\), got \[1\]"),
    ],
)
def test_invalid_published_config_is_rejected(stored, content, message):
    path = stored(clone())
    path.with_suffix(".yaml").write_bytes(content)
    with pytest.raises(ValueError, match=f"weights.yaml: {message}"):
        load_policy(f"ah2ac2:{path}")


def test_obl_licence_is_printed_before_loading(tmp_path, capsys):
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        load_policy(f"obl:{tmp_path}/missing.safetensors")
    assert "NON-COMMERCIAL" in capsys.readouterr().err


def without(key):
    return lambda weights: weights.pop(key)


def reshaped(key, shape=(3, 4)):
    return lambda weights: weights.update({key: np.zeros(shape, np.float32)})


@pytest.mark.parametrize(
    ("family", "make", "change", "message"),
    [
        (
            "ah2ac2",
            clone,
            without("Dense_0,kernel"),
            "expected a tensor 'Dense_0,kernel', got Dense_0,bias",
        ),
        ("ah2ac2", clone, without("LayerNorm_0,bias"), "expected a tensor 'LayerNorm_0,bias'"),
        ("ah2ac2", clone, without(f"{CELL}0,hi,bias"), f"expected a tensor '{CELL}0,hi,bias'"),
        ("ah2ac2", clone, without(f"{CELL}0,ig,kernel"), f"expected a tensor '{CELL}0,ig,kernel'"),
        ("ah2ac2", clone, reshaped("extra"), "expected only the tensors .*; got 'extra'"),
        (
            "ah2ac2",
            clone,
            reshaped("Dense_1,kernel"),
            r"Dense_1,kernel: expected float32\[8, 6\], got float32\[3, 4\]",
        ),
        (
            "ah2ac2",
            clone,
            reshaped("Dense_0,kernel", (5, 12)),
            "a game of 2 to 5 players .*, got 5 and 21",
        ),
        ("ah2ac2", clone, lambda w: w.update({"Dense_2,bias": np.zeros(21)}), r"got float64\[21\]"),
        (
            "ah2ac2",
            hdr_ippo,
            without("params,Dense_1,kernel"),
            "expected a tensor 'params,Dense_1,kernel'",
        ),
        (
            "ah2ac2",
            feed_forward,
            without("params,Dense_3,bias"),
            "expected a tensor 'params,Dense_3,bias'",
        ),
        (
            "ah2ac2",
            feed_forward,
            reshaped("params,Dense_4,bias"),
            r"params,Dense_4,bias: expected float32\[1\]",
        ),
        (
            "obl",
            obl,
            without("params,lstm,l0,hi,bias"),
            "expected a tensor 'params,lstm,l0,hi,bias'",
        ),
        (
            "obl",
            obl,
            reshaped("params,publ_net_dense_0,kernel"),
            r"expected float32\[533, 8\], got float32\[3, 4\]",
        ),
        ("obl", clone, lambda weights: None, "expected a tensor 'params,fc_a,kernel'"),
    ],
)
def test_wrong_layout_error_names_tensor(stored, family, make, change, message):
    weights = make()
    change(weights)
    with pytest.raises(ValueError, match=message):
        load_policy(f"{family}:{stored(weights)}")


def test_pickles_and_damaged_files_are_rejected(tmp_path):
    (tmp_path / "broken.safetensors").write_bytes(b"no weights")
    with pytest.raises(ValueError, match="expected a safetensors file, cannot read it"):
        load_policy(f"ah2ac2:{tmp_path}/broken.safetensors")
    for name in ("ah2ac2:op/weights.pkl", "obl:OBL1/a.pthw"):
        with pytest.raises(
            ValueError, match=r"expected a file ending in .safetensors \(pickles are never loaded\)"
        ):
            load_policy(name)
    with pytest.raises(
        ValueError, match="expected a published policy, ah2ac2:FILE or obl:FILE, got 'obl:'"
    ):
        load_policy("obl:")


def test_published_file_is_fetched_from_hub(stored, monkeypatch):
    path, requested = stored(clone()), []

    def fetch(repository, name, **options):
        requested.append((repository, name, options))
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    policy = load_policy("ah2ac2:bc_1k/2p.safetensors")
    assert policy.identity() == load_policy(f"ah2ac2:{path}").identity()
    assert requested == [
        (
            "ah2ac2/baselines",
            "bc_1k/2p.safetensors",
            {"repo_type": "model", "revision": None, "local_dir": None},
        )
    ]


def test_missing_connection_error_gives_command(monkeypatch):
    def fail(*args, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(ConnectionError) as caught:
        load_policy("obl:icml_OBL4/a.safetensors")
    for part in (
        "https://huggingface.co/mttga/obl-r2d2-flax",
        "no route to host",
        "name its local file: obl:PATH",
    ):
        assert part in str(caught.value)
