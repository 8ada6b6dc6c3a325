"""Policy folders, checkpoints as agents, and identities."""

import dataclasses
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import init_params

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy, PolicyInfo
from hanabi_rl.agents.policy_file import parse_metadata, policy_metadata
from hanabi_rl.agents.policy_folder import checkpoint_policy, save_policy
from hanabi_rl.games.hanabi.dynamics import Rules
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.runs.run_dir import write_config
from hanabi_rl.storage import tensors
from hanabi_rl.storage.checkpoint import Checkpointer
from hanabi_rl.storage.files import remove_partial_writes
from hanabi_rl.storage.trees import IncompatibleError

RULES = Rules(num_players=3, num_colors=2, num_ranks=3, hand_size=2, max_life_tokens=2)
NETWORK = NetworkConfig(embedding=(12,), lstm=(8,), decoder=(8,), critic=(8,), dropout=0.25)


def make_policy(seed: int) -> NetworkPolicy:
    params = init_params(RULES, NETWORK, jax.random.key(seed))
    return NetworkPolicy(params=params, rules=RULES, network=NETWORK)


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


def test_run_without_policy_error(tmp_path: Path) -> None:
    """A run that stopped while cloning: only its clone has checkpoints."""
    run, clone = tmp_path / "runs" / "a", tmp_path / "runs" / "a" / "bc"
    for folder, algorithm in ((run, "hdr_ippo"), (clone, "bc")):
        folder.mkdir(parents=True)
        write_config(folder, {"seed": 0}, algorithm=algorithm, seed=0)
    go_on = f"this run has no policy yet; continue it with --resume --run-dir {run}"
    for name in ("", "bc", "policy", "bc-policy", "bc/policy"):
        with pytest.raises(ValueError, match=f"{re.escape(f'{run / name}: {go_on}')}$"):
            load_policy(run / name)
    for step in (9, 17):
        (clone / "checkpoints" / str(step) / "state").mkdir(parents=True)
    newest = clone / "checkpoints" / "17"
    for name in ("", "bc", "bc-policy"):
        with pytest.raises(ValueError, match=f"{go_on}, or name its checkpoint {newest}$"):
            load_policy(run / name)
    with pytest.raises(ValueError, match=f"checkpoints: expected one .*, such as {newest}$"):
        load_policy(clone / "checkpoints")
    with pytest.raises(ValueError, match=f"expected one run, got .* 1; name one, such as {run}$"):
        load_policy(tmp_path / "runs")


def test_other_folder_is_not_called_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"config": "of another program"}')
    for name in ("", "policy", "none"):
        with pytest.raises(ValueError, match="expected an agent: bot:NAME"):
            load_policy(tmp_path / name)
    write_config(tmp_path, {}, algorithm="bc", seed=0)
    with pytest.raises(ValueError, match=r"expected an agent: .*none, which does not exist"):
        load_policy(tmp_path / "none")  # misspelt name in a run's folder


def test_policy_folder_round_trips(run: Path) -> None:
    policy = load_policy(run / "policy", RULES)
    assert isinstance(policy, NetworkPolicy)
    assert (policy.rules, policy.network) == (RULES, NETWORK)
    assert dataclasses.astuple(policy.info) == ("bc", 7, "environment steps", 1.25, True)
    assert_same_params(policy.params, make_policy(1).params)
    assert [path.name for path in (run / "policy").iterdir()] == ["policy.safetensors"]


def test_save_policy_expands_home(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python does not expand `~`, which would create a folder of that name."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    save_policy("~/mine", load_policy(run), algorithm="ippo", steps=1, score=None)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert load_policy("~/mine").identity() == load_policy(run).identity()


def test_run_string_and_file_name_same_policy(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    shutil.copytree(run / "policy", named := tmp_path / "a folder.safetensors")
    for name in (str(run), run / "policy", run / "policy" / "policy.safetensors", ".", named):
        assert load_policy(name).identity() == make_policy(1).identity()


def test_save_policy_replaces_older_policy(damaged: Path) -> None:
    save_policy(damaged, make_policy(2), algorithm="bc", steps=8, score=None)
    policy = load_policy(damaged)
    assert isinstance(policy, NetworkPolicy)
    assert (policy.info.steps, policy.info.score) == (8, None)
    assert_same_params(policy.params, make_policy(2).params)
    assert [path.name for path in damaged.parent.rglob("*")] == ["policy", "policy.safetensors"]


def test_unreadable_policies_are_not_saved(damaged: Path, tmp_path: Path) -> None:
    """An existing policy is kept."""
    policy = make_policy(2)
    halved = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), policy.params)
    for params, problem in ((halved, "expected float32.*, stored bfloat16"), ({}, "is missing")):
        for folder in (damaged, tmp_path / "new"):
            with pytest.raises(IncompatibleError, match=f"the policy to write: leaf .*{problem}"):
                save_policy(
                    folder, policy.replace(params=params), algorithm="bc", steps=8, score=None
                )
    for agent in ("bot:random", f"{damaged}?noise=0.1"):
        other: Any = load_policy(agent)
        with pytest.raises(ValueError, match="expected a trained policy, a NetworkPolicy, got "):
            save_policy(str(tmp_path / "new"), other, algorithm="bc", steps=8, score=None)
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]
    assert_same_params(load_policy(damaged).params, make_policy(1).params)


def test_policy_replaced_during_read_is_consistent(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in progress saves a better policy after its file was opened and before it is read."""
    safe_open, opened = tensors.safe_open, []

    def replaced_meanwhile(*args: Any, **kwargs: Any) -> Any:
        file = safe_open(*args, **kwargs)
        opened.append(args)
        save_policy(damaged, make_policy(2), algorithm="bc", steps=9, score=None)
        return file

    monkeypatch.setattr(tensors, "safe_open", replaced_meanwhile)
    policies = [load_policy(damaged.parent) for _ in range(2)]
    for policy, seed in zip(policies, (1, 2), strict=True):
        assert policy.identity() == make_policy(seed).identity()
    assert len(opened) == 2


def test_save_policy_keeps_other_files(tmp_path: Path) -> None:
    (tmp_path / "params").mkdir()
    (tmp_path / "manifest.json").write_text("{}")
    save_policy(tmp_path, make_policy(1), algorithm="bc", steps=8, score=None)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"params", "manifest.json", "policy.safetensors"}


@pytest.mark.parametrize("first", [True, False])
def test_kill_during_save_keeps_old_policy(
    damaged: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """Kill before each of the renames; leftovers are removed when the run continues."""
    run, renames = damaged.parent, ["replace", "rename"] if first else ["replace"]
    if first:
        shutil.rmtree(damaged)

    def killed(path: Path, to: Path) -> None:
        raise KeyboardInterrupt

    for rename in renames:
        with monkeypatch.context() as patch:
            patch.setattr(Path, rename, killed)
            with pytest.raises(KeyboardInterrupt):
                save_policy(damaged, make_policy(2), algorithm="bc", steps=8, score=None)
        assert damaged.exists() is not first and list(run.rglob(".*.tmp"))
        if not first:
            assert load_policy(run).identity() == make_policy(1).identity()
        remove_partial_writes(run)
        assert not list(run.rglob(".*"))
    save_policy(damaged, make_policy(2), algorithm="bc", steps=8, score=None)
    assert load_policy(run).identity() == make_policy(2).identity()


def test_identity_ignores_provenance(run: Path, tmp_path: Path) -> None:
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


def test_identity_covers_all_behaviour() -> None:
    policy = make_policy(1)
    other_game = dataclasses.replace(RULES, max_life_tokens=3)  # equal sizes
    changed = jax.tree.map(lambda x: x, policy.params)
    changed["logits"]["bias"] = changed["logits"]["bias"] + np.float32(1e-6)
    others = [
        make_policy(2),
        policy.replace(params=changed),
        policy.replace(rules=other_game),
        policy.replace(network=dataclasses.replace(NETWORK, activation="relu")),
        policy.replace(params={"renamed": policy.params}),
    ]
    assert len({p.identity() for p in [policy, *others]}) == 6


def test_identity_matches_numpy_reference() -> None:
    """Caches store identities, so their definition must not change unnoticed."""
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


@pytest.mark.parametrize(
    ("algorithm", "unit"), [("bc", "minibatches"), ("hdr_ippo", "environment steps")]
)
def test_format_1_metadata_loads(tmp_path: Path, algorithm: str, unit: str) -> None:
    """Format 1 has one `step`, which for a clone counts minibatches."""
    info = PolicyInfo(algorithm, 7, score=1.25)
    about = policy_metadata(make_policy(1).replace(info=info)) | {"format_version": 1, "step": 7}
    del about["steps"], about["unit"]
    rules, network, info = parse_metadata(about, where=tmp_path)
    assert (rules, network) == (RULES, NETWORK)
    assert dataclasses.astuple(info) == (algorithm, 7, unit, 1.25, True)


def test_other_rules_and_missing_agents_are_rejected(run: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="an agent for 2 players, 5 colours, .* and 3 lives, got one for 3 "
    ):
        load_policy(run, Rules())
    for name in ("nowhere", "nowhere.safetensors"):
        with pytest.raises(ValueError, match=r"expected an agent: bot:NAME.*which does not exist"):
            load_policy(tmp_path / name)


def test_checkpoint_loads_as_agent(tmp_path: Path) -> None:
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


def test_checkpoint_without_policy_error(tmp_path: Path) -> None:
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {"x": jnp.zeros(3)})
    with pytest.raises(ValueError, match="has no policy metadata"):
        load_policy(tmp_path / "1")
