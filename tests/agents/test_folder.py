"""Policy folders, checkpoints as agents, and identities."""

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hanabi_rl.agents.folder import checkpoint_policy, save_policy
from hanabi_rl.agents.names import load_policy
from hanabi_rl.agents.policy import NetworkPolicy, PolicyInfo
from hanabi_rl.env.rules import Rules
from hanabi_rl.nn.networks import Actor, NetworkConfig, init_params
from hanabi_rl.storage import trees
from hanabi_rl.storage.checkpoint import Checkpointer
from hanabi_rl.storage.trees import CorruptError, IncompatibleError

RULES = Rules(num_players=3, num_colors=2, num_ranks=3, hand_size=2, max_life_tokens=2)
NETWORK = NetworkConfig(embedding=(12,), lstm=(8,), decoder=(8,), critic=(8,), dropout=0.25)


@jax.jit
def make_params(key: jax.Array) -> Any:
    return init_params(
        Actor(NETWORK, RULES.num_moves), key, NETWORK, RULES.obs_size, RULES.num_moves
    )


def make_policy(seed: int) -> NetworkPolicy:
    return NetworkPolicy(params=make_params(jax.random.key(seed)), rules=RULES, network=NETWORK)


def assert_same_params(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder with a policy; tests that damage it copy it first."""
    folder = tmp_path_factory.mktemp("run")
    save_policy(folder / "policy", make_policy(1), algorithm="bc", steps=7, score=1.25)
    return folder


@pytest.fixture
def damaged(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run / "policy", tmp_path / "policy"))


def test_a_policy_folder_round_trips(run: Path) -> None:
    policy = load_policy(run / "policy", RULES)
    assert isinstance(policy, NetworkPolicy)
    assert (policy.rules, policy.network) == (RULES, NETWORK)
    assert (policy.info.algorithm, policy.info.steps, policy.info.score, policy.info.greedy) == (
        "bc",
        7,
        1.25,
        True,
    )
    assert_same_params(policy.params, make_policy(1).params)
    assert sorted(path.name for path in (run / "policy").iterdir()) == [
        "manifest.json",
        "params",
        "policy.json",
    ]


def test_a_run_folder_and_a_string_name_its_policy(run: Path) -> None:
    assert load_policy(str(run)).identity() == load_policy(run / "policy").identity()


def test_saving_again_replaces(damaged: Path) -> None:
    save_policy(damaged, make_policy(2), algorithm="bc", steps=8, score=None)
    policy = load_policy(damaged)
    assert isinstance(policy, NetworkPolicy)
    assert (policy.info.steps, policy.info.score) == (8, None)
    assert_same_params(policy.params, make_policy(2).params)
    assert [path.name for path in damaged.parent.iterdir()] == ["policy"]


def test_a_policy_replaced_while_it_is_read_is_read_again(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in progress saves a better policy after its policy.json was read, and before its
    parameters are."""
    newer = [make_policy(2), make_policy(3)]
    read_leaves = trees.read_leaves

    def replaced_meanwhile(*args: Any) -> Any:
        if newer:
            save_policy(damaged, newer.pop(0), algorithm="bc", steps=9, score=None)
        return read_leaves(*args)

    monkeypatch.setattr(trees, "read_leaves", replaced_meanwhile)
    policy = load_policy(damaged.parent)
    assert isinstance(policy, NetworkPolicy) and not newer
    assert_same_params(policy.params, make_policy(3).params)


def test_a_kill_while_replacing_leaves_the_old_one(damaged: Path) -> None:
    damaged.rename(damaged.with_name(".policy.old"))  # between the two renames of replace_folder
    for name in (damaged, damaged.parent):
        policy = load_policy(name)
        assert isinstance(policy, NetworkPolicy) and policy.info.steps == 7


def test_the_identity_is_of_what_a_policy_plays_and_not_of_where_it_came_from(
    run: Path, tmp_path: Path
) -> None:
    first = load_policy(run).identity()
    for i, (seed, algorithm, step, score) in enumerate(
        [(1, "bc", 7, 1.25), (1, "bc", 8, 1.25), (1, "bc", 7, 1.5), (1, "ippo", 7, None)]
    ):
        save_policy(
            tmp_path / str(i), make_policy(seed), algorithm=algorithm, steps=step, score=score
        )
        assert load_policy(tmp_path / str(i)).identity() == first
    state = {"params": make_policy(1).params}
    document = checkpoint_policy(make_policy(1), params_path="params")
    saves = tmp_path / "checkpoints"
    with Checkpointer(saves, best_metric="score", policy=document) as checkpointer:
        checkpointer.save(40, state, metrics={"score": 2.5})
    assert load_policy(saves / "40").identity() == first


def test_the_identity_tells_apart_what_may_play_differently() -> None:
    policy = make_policy(1)
    other_game = dataclasses.replace(RULES, max_life_tokens=3)  # of the same sizes but one
    changed = jax.tree.map(lambda x: x, policy.params)
    changed["logits"]["bias"] = changed["logits"]["bias"].at[0].add(1e-6)
    others = [
        make_policy(2),
        policy.replace(params=changed),
        policy.replace(rules=other_game),
        policy.replace(network=dataclasses.replace(NETWORK, activation="relu")),
        policy.replace(params={"renamed": policy.params}),
    ]
    assert len({p.identity() for p in [policy, *others]}) == 6


def test_the_identity_is_the_hash_of_a_document_that_numpy_writes() -> None:
    """Identities outlive the process in caches: what they are made of may not change in silence."""
    policy = make_policy(1)
    about = {
        "game": {"name": "hanabi", **dataclasses.asdict(RULES)},
        "observation_version": 1,
        "network": {"kind": "lstm", **dataclasses.asdict(NETWORK)},
    }
    compact = {"sort_keys": True, "separators": (",", ":")}
    expected = hashlib.sha256(json.dumps(about, **compact).encode())

    def leaves(tree: Any, path: str) -> dict[str, Any]:
        if not isinstance(tree, dict):
            return {path: np.asarray(tree)}
        inside = [leaves(v, f"{path}/{k}".lstrip("/")) for k, v in tree.items()]
        return {path: leaf for part in inside for path, leaf in part.items()}

    for path, leaf in sorted(leaves(policy.params, "").items()):
        head = [path, "float32", list(leaf.shape)]
        expected.update(json.dumps(head, **compact).encode() + leaf.tobytes())
    assert policy.identity() == expected.hexdigest()


def test_a_flipped_bit_in_the_parameters_names_the_leaf(damaged: Path) -> None:
    files = [path for path in (damaged / "params").rglob("*") if path.is_file()]
    path = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)
    with pytest.raises(
        CorruptError, match=r"params: leaf \S+: its SHA-256 is not the one it was saved with"
    ):
        load_policy(damaged)


def edit(path: Path, change: Any) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("policy.json", lambda d: d.update(format_version=9), "expected format_version 2, got 9"),
        (
            "policy.json",
            lambda d: d.update(observation_version=9),
            "expected observation_version 1, got 9",
        ),
        ("policy.json", lambda d: d.pop("network"), "expected a key 'network'"),
        ("policy.json", lambda d: d["game"].update(variant=2), "unknown field 'variant'"),
        ("policy.json", lambda d: d.update(steps=8), "damaged or was edited"),
        ("manifest.json", lambda d: d.update(sha256=""), "damaged or was edited"),
        ("manifest.json", lambda d: d.pop("leaves"), r"manifest\.json"),
    ],
)
def test_edited_documents_are_refused(damaged: Path, file: str, change: Any, message: str) -> None:
    edit(damaged / file, change)
    with pytest.raises(ValueError, match=message):
        load_policy(damaged)


@pytest.mark.parametrize(
    ("algorithm", "unit"), [("bc", "minibatches"), ("hdr_ippo", "environment steps")]
)
def test_a_folder_of_format_1_is_read(damaged: Path, algorithm: str, unit: str) -> None:
    """As the release before wrote it: one `step`, a clone's in minibatches."""
    about = {
        "format_version": 1,
        "game": {"name": "hanabi", **dataclasses.asdict(RULES)},
        "observation_version": 1,
        "network": {"kind": "lstm", **dataclasses.asdict(NETWORK)},
        "algorithm": algorithm,
        "step": 7,
        "score": 1.25,
        "greedy": True,
    }
    about = json.loads(json.dumps(about))
    (damaged / "policy.json").write_text(json.dumps(about))
    leaves = json.loads((damaged / "manifest.json").read_text())["leaves"]
    text = json.dumps([leaves, about], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    edit(damaged / "manifest.json", lambda d: d.update(sha256=digest))
    policy = load_policy(damaged)
    assert isinstance(policy, NetworkPolicy)
    assert dataclasses.astuple(policy.info) == (algorithm, 7, unit, 1.25, True)
    assert policy.identity() == make_policy(1).identity()
    edit(damaged / "policy.json", lambda d: d.update(step=8))
    with pytest.raises(ValueError, match="damaged or was edited"):
        load_policy(damaged)


def test_a_network_that_does_not_fit_names_the_leaf(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # let the edit pass the digest
    monkeypatch.setattr("hanabi_rl.storage.trees.manifest_digest", lambda *documents: "")
    edit(damaged / "manifest.json", lambda d: d.update(sha256=""))
    edit(damaged / "policy.json", lambda d: d["network"].update(decoder=[9]))
    with pytest.raises(
        IncompatibleError, match=r"leaf decoder_0/bias: expected float32\[9\], stored float32\[8\]"
    ):
        load_policy(damaged)


def test_other_rules_and_missing_agents_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a policy for Rules\(num_players=2"):
        load_policy(run, Rules())
    with pytest.raises(ValueError, match=r"expected an agent: bot:NAME.*which does not exist"):
        load_policy(tmp_path / "nowhere")


def test_a_checkpoint_is_an_agent(tmp_path: Path) -> None:
    policy = make_policy(3)
    state = {
        "learner": {"params": {"actor": policy.params, "critic": {"bias": jnp.zeros(4)}}},
        "key": jax.random.key(0),
    }
    document = checkpoint_policy(policy, params_path="learner/params/actor", steps_per_number=128)
    with Checkpointer(tmp_path, best_metric="accuracy", policy=document) as checkpointer:
        checkpointer.save(40, state, metrics={"accuracy": 2.5})
    loaded = load_policy(tmp_path / "40", RULES)
    assert isinstance(loaded, NetworkPolicy)
    assert (loaded.info.steps, loaded.info.unit) == (40 * 128, "environment steps")
    assert loaded.info.score == 2.5
    assert_same_params(loaded.params, policy.params)


@pytest.mark.parametrize(("algorithm", "unit"), [("bc", "minibatches"), ("ippo", "updates")])
def test_a_checkpoint_of_format_1_counts_in_its_own_unit(
    tmp_path: Path, algorithm: str, unit: str
) -> None:
    policy = make_policy(3).replace(info=PolicyInfo(algorithm))
    document = checkpoint_policy(policy, params_path="params")
    del document["steps_per_number"], document["description"]["steps"]
    del document["description"]["unit"]
    document["description"] |= {"format_version": 1, "step": 0}
    with Checkpointer(tmp_path, best_metric="accuracy", policy=document) as checkpointer:
        checkpointer.save(40, {"params": policy.params}, metrics={"accuracy": 2.5})
    loaded = load_policy(tmp_path / "40", RULES)
    assert isinstance(loaded, NetworkPolicy)
    assert (loaded.info.steps, loaded.info.unit) == (40, unit)


def test_a_checkpoint_without_a_policy_says_so(tmp_path: Path) -> None:
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {"x": jnp.zeros(3)})
    with pytest.raises(ValueError, match="does not say which policy it holds"):
        load_policy(tmp_path / "1")
