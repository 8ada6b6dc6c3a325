"""Policy files: round trips, damaged files, and the bundled agents."""

import json
import re
import zlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.agents.loading import agent_catalog, load_policy
from hanabi_rl.agents.policy_file import (
    BUNDLED_DIR,
    _digest,
    bundled_files,
    policy_metadata,
    read_card,
    read_file,
    read_rules,
    round_to_half,
    write_file,
)
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.agents.provenance import training_partners
from hanabi_rl.cli import main
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.storage.tensors import read_tensors
from hanabi_rl.storage.trees import CorruptError, IncompatibleError, leaf_paths

FIRST_HASHES = {
    "pretrained-3p": "7ebb199eb220d663ff3628336bbadeb41b8737b407d4ac36abfdb0f47e8d905d",
    "adhoc-3p": "66067942f626bce449ea1ad3587a1ee570da751c41c5044c7dc3a497cd2b38a4",
    "clone-2p": "bc4bdf0800f4025373a7e2a6871d7c1aa14e9b5228e9338037c4cf4575b0a502",
}
"""Identities before fields were renamed: keys of caches and published scores."""


def test_policy_file_round_trips(tmp_path: Path) -> None:
    """Bitwise float32, with numbers that half precision cannot represent."""
    policy, path = network_policy(TINY, 0), tmp_path / "a.safetensors"
    odd = np.array([1 / 3, 1e-30, 1e30, np.inf, np.nan, -0.0], np.float32)
    params = jax.tree.map(lambda leaf: np.resize(odd, leaf.shape), policy.params)
    write_file(path, policy.replace(params=params))
    back = read_file(path)
    assert (back.rules, back.network, back.info) == (policy.rules, policy.network, policy.info)
    for leaf, stored in zip(jax.tree.leaves(params), jax.tree.leaves(back.params), strict=True):
        assert stored.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(stored).view(np.uint32), leaf.view(np.uint32))
    assert read_card(path) == {} and read_rules(path) == TINY


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("layout", ["transposed", "backwards", "big-endian", "JAX"])
def test_parameter_memory_layout_is_irrelevant(tmp_path: Path, layout: str, half: bool) -> None:
    """`torch_weight.numpy().T` is a view: file and identity depend on its numbers only."""
    change = {
        "transposed": lambda leaf: np.ascontiguousarray(leaf.T).T,
        "backwards": lambda leaf: np.ascontiguousarray(leaf[::-1])[::-1],
        "big-endian": lambda leaf: leaf.astype(">f4"),
        "JAX": jnp.asarray,
    }[layout]
    policy, path = network_policy(TINY, 0), tmp_path / "a.safetensors"
    policy = policy.replace(params=jax.tree.map(np.array, policy.params))
    same = policy.replace(params=jax.tree.map(change, policy.params))
    assert same.identity() == policy.identity()
    write_file(path, same, half=half)
    expected = round_to_half(policy) if half else policy
    assert read_file(path).identity() == expected.identity()
    if not half:
        save_policy(tmp_path / "policy", same, algorithm="bc", steps=1, score=None)
        assert load_policy(str(tmp_path / "policy")).identity() == policy.identity()


def test_policy_file_bytes_are_deterministic(tmp_path: Path) -> None:
    policy, files = network_policy(TINY, 0), set()
    card = {"about": "a test", "selfplay": {"mean": 1.5}}
    for number in range(8):
        write_file(path := tmp_path / f"{number}.safetensors", policy, card, half=True)
        files.add(path.read_bytes())
        write_file(path, read_file(path), read_card(path), half=True)  # export of an export
        files.add(path.read_bytes())
    assert len(files) == 1


@pytest.mark.parametrize("bits", [4, 9, 11])
def test_parameters_round_to_fewer_bits(bits: int) -> None:
    """Relative to each number's power of two; at most half a unit is lost."""
    policy = network_policy(TINY, 4)
    for exact, stored in zip(
        jax.tree.leaves(policy.params),
        jax.tree.leaves(round_to_half(policy, bits).params),
        strict=True,
    ):
        half = np.asarray(exact, np.float16).astype(np.float64)
        step = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(half), 2.0**-14))) + 1 - bits)
        np.testing.assert_array_equal(stored, np.round(half / step) * step)


def test_half_precision_rounds_parameters(tmp_path: Path) -> None:
    policy, path = network_policy(TINY, 0), tmp_path / "a.safetensors"
    write_file(path, policy, {"about": "a test"}, half=True)
    back = read_file(path)
    assert back.identity() == round_to_half(policy).identity() != policy.identity()
    assert (back.rules, back.network, back.info) == (policy.rules, policy.network, policy.info)
    for leaf, stored in zip(
        jax.tree.leaves(policy.params), jax.tree.leaves(back.params), strict=True
    ):
        assert stored.dtype == np.float32
        np.testing.assert_allclose(stored, leaf, rtol=2**-11, atol=2**-25)
    assert read_card(path) == {"about": "a test"}
    assert load_policy(str(path)).identity() == back.identity()
    size = sum(leaf.size for leaf in jax.tree.leaves(policy.params))
    assert 2 * size < path.stat().st_size < 2 * size + 4000


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9, 0.999])
def test_damaged_policy_file_is_rejected(tmp_path: Path, fraction: float) -> None:
    path = tmp_path / "a.safetensors"
    write_file(path, network_policy(TINY, 0), {"about": "a test"})
    data = bytearray(path.read_bytes())
    data[int(fraction * len(data))] ^= 4
    path.write_bytes(data)
    with pytest.raises(ValueError, match="a.safetensors"):
        read_file(path)
    path.write_bytes(data[: int(fraction * len(data))])
    with pytest.raises(CorruptError, match="expected a policy file"):
        read_file(path)


def test_invalid_policy_files_are_rejected(tmp_path: Path) -> None:
    policy, path = network_policy(TINY, 0), tmp_path / "a.safetensors"
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(
        ValueError, match="a run or `hanabi-rl export` wrote, got one without card, pol"
    ):
        load_policy(str(path))
    with pytest.raises(ValueError, match=r"none\.safetensors, which does not exist"):
        load_policy(str(tmp_path / "none.safetensors"))
    with pytest.raises(ValueError, match=r"expected a file named \*.safetensors, got"):
        write_file(tmp_path / "a.bin", policy, {})
    large = policy.replace(params=jax.tree.map(lambda x: np.full_like(x, 1e6), policy.params))
    with pytest.raises(ValueError, match="too large for half precision"):
        write_file(path, large, half=True)
    decoder = policy.params["decoder_0"]
    broken = {**policy.params, "decoder_0": {**decoder, "bias": decoder["bias"].at[2].set(jnp.nan)}}
    write_file(path, policy.replace(params=broken))
    with pytest.raises(ValueError, match="expected finite parameters, got .* in decoder_0/bias"):
        load_policy(str(path))


def rewrite(path: Path, change: Any) -> None:
    """Change the metadata of a file and its SHA-256."""
    leaves, header = read_tensors(path)
    about = json.loads(header["policy"])
    change(about)
    header["policy"] = json.dumps(about)
    save_file(leaves, path, header | {"sha256": _digest(leaves, header)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format_version=9), "expected format_version 3, got 9"),
        (lambda d: d.update(observation_version=9), "expected observation_version 1, got 9"),
        (lambda d: d.pop("network"), "expected a key 'network'"),
        (lambda d: d.update(game=3), "expected a game and a network"),
        (lambda d: d["game"].update(variant=2), "game: unknown field 'variant'"),
        (
            lambda d: d["network"].update(kind="mlp"),
            "network.kind: expected one of conv, .*, got 'mlp'",
        ),
        (
            lambda d: d["network"].update(decoder=[9]),
            r"leaf decoder_0/bias: expected float32\[9\], stored float32\[8\]",
        ),
    ],
)
def test_policy_header_errors_name_the_key(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "a.safetensors"
    write_file(path, network_policy(TINY, 0))
    rewrite(path, change)
    with pytest.raises(ValueError, match=rf"a\.safetensors: {message}"):
        read_file(path)


@pytest.mark.parametrize(
    ("name", "level"),
    [("pretrained-3p", "learnt"), ("adhoc-3p", "reading"), ("clone-2p", "reading")],
)
def test_format_2_loads_as_same_policy(tmp_path: Path, name: str, level: str) -> None:
    """Its header uses the old names of `features` and of keys of the card."""
    path = tmp_path / "a.safetensors"
    leaves, header = read_tensors(bundled_files()[name])
    about, card = json.loads(header["policy"]), json.loads(header["card"])
    about["format_version"] = 2
    del about["network"]["features"], card["features"]
    about["network"]["level"] = card["tier"] = level
    card["met"] = card.pop("training_partners", [])
    card["selfplay"]["zero_share"] = card["selfplay"].pop("zero_rate")
    for suffix in ("", "_ci95"):
        prediction = card["prediction"]
        prediction[f"nats{suffix}"] = prediction.pop(f"cross_entropy{suffix}")
    old = {"policy": json.dumps(about), "card": json.dumps(card)}
    save_file(leaves, path, old | {"sha256": _digest(leaves, old)})
    now, policy = load_policy(f"agent:{name}"), read_file(path)
    assert (policy.network, policy.rules) == (now.network, now.rules)
    assert policy.identity() == now.identity() == FIRST_HASHES[name]
    assert read_card(path) == {"training_partners": []} | read_card(bundled_files()[name])


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_parameters_of_other_dtype_are_rejected(tmp_path: Path, dtype: Any) -> None:
    """They are neither written nor read."""
    path, policy = tmp_path / "a.safetensors", network_policy(TINY, 0)
    wide = jax.tree.map(lambda leaf: np.asarray(leaf, dtype), policy.params)
    refused = rf"expected float32.*, stored {dtype.__name__}"
    with pytest.raises(IncompatibleError, match=refused):
        write_file(path, policy.replace(params=wide))
    assert not path.exists()
    leaves = leaf_paths(wide)
    header = {"policy": json.dumps(policy_metadata(policy)), "card": "{}"}
    save_file(leaves, path, header | {"sha256": _digest(leaves, header)})
    with pytest.raises(IncompatibleError, match=refused):
        read_file(path)


@pytest.mark.parametrize(
    "text", ["[1]", "{", "[" * 100_000, '{"format_version": 2}', '{"format_version": 3}']
)
def test_malformed_header_is_rejected(tmp_path: Path, text: str) -> None:
    """With a correct SHA-256."""
    path, leaves = tmp_path / "a.safetensors", {"x": np.zeros(3, np.float16)}
    header = {"policy": text, "card": text}
    save_file(leaves, path, header | {"sha256": _digest(leaves, header)})
    with pytest.raises(ValueError, match=r"a\.safetensors: (policy: )?expected"):
        read_file(path)
    if not text.startswith('{"'):
        with pytest.raises(ValueError, match=r"a\.safetensors: card: expected"):
            read_card(path)


def test_export_evaluates_written_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, path = tmp_path / "run" / "policy", tmp_path / "a.safetensors"
    save_policy(folder, network_policy(TINY, 0), algorithm="bc", steps=7, score=None)
    run = {"config": {"partners": ["bot:simple", "bot:iggi"], "data": ["people.safetensors"]}}
    run["commit"] = "abc"
    (folder.parent / "config.json").write_text(json.dumps(run))
    main(["export", str(folder), str(path), "--about", "A test.", "--games", "64"])
    assert f"Written: {path} (" in capsys.readouterr().err
    card, summary = read_card(path), evaluate_selfplay(read_file(path), 64, 1).summary
    assert card["selfplay"]["mean"] == pytest.approx(summary.mean.mean, abs=5e-4)
    assert (card["steps"], card["algorithm"], card["features"]) == (7, "bc", "lstm")
    assert card["commit"] == "abc"
    assert (
        card["training_partners"]
        == ["bot:simple", "bot:iggi"]
        == list(training_partners(str(path)))
    )
    # a file's card is printed at any place; for a run, its metadata
    copy = tmp_path / "fetched" / "policy.safetensors"
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    for name in (str(path), f"{path}?temperature=2", str(copy.parent)):
        main(["agents", name, "--json"])
        assert json.loads(capsys.readouterr().out) == {"name": name.partition("?")[0], **card}
    main(["agents", str(path)])
    assert re.search("^about +A test.$", capsys.readouterr().out, re.MULTILINE)
    for name in (str(folder.parent), str(folder)):
        main(["agents", name, "--json"])
        output = json.loads(capsys.readouterr().out)
        assert output["card"] == "none: `hanabi-rl export` writes one"
        assert (output["players"], output["algorithm"], output["steps"]) == (2, "bc", 7)
        assert output["data"] == "people.safetensors"
        assert output["training_partners"] == card["training_partners"]
    main(["agents", "bot:simple?noise=0.1", "--json"])
    output = json.loads(capsys.readouterr().out)
    assert output["name"] == "bot:simple" and output["scores"]
    with pytest.raises(SystemExit):
        main(["agents", str(tmp_path)])
    assert f"{tmp_path}: expected one run, got a folder of" in capsys.readouterr().err
    # the recorded prediction is of the same parameters
    write_file(copy, read_file(path), {**card, "prediction": {"file": "people"}}, half=True)
    for bits, stored in (("11", {"file": "people"}), ("4", None)):
        again = tmp_path / f"{bits}.safetensors"
        main(["export", str(copy), str(again), "--bits", bits, "--games", "64"])
        assert read_card(again)["prediction"] == stored
    with pytest.raises(SystemExit):
        main(["export", "bot:random", str(path), "--about", "No policy."])
    assert "expected a trained policy" in capsys.readouterr().err


def test_bundled_agents_have_complete_cards(capsys: pytest.CaptureFixture[str]) -> None:
    agents = {agent["name"]: agent for agent in agent_catalog()["agents"]}
    # compressed as in a wheel, which must stay below 12 MB; the other files take 0.8 MB
    packed = sum(len(zlib.compress(path.read_bytes())) for path in BUNDLED_DIR.iterdir())
    assert bundled_files() and packed < 11.2e6
    for name, path in bundled_files().items():
        card = agents[f"agent:{name}"]
        assert read_rules(path).num_players == card["players"]
        assert card["command"] and card["data"] and card["selfplay"]["games"] >= 5000
    main(["agents", f"agent:{name}", "--json"])
    assert json.loads(capsys.readouterr().out) == agents[f"agent:{name}"]
    main(["agents", f"agent:{name}"])
    assert card["command"] in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["agents", "agent:nobody"])
    assert "agent:nobody: expected agent:NAME with one of" in capsys.readouterr().err
    with pytest.raises(ValueError, match="^agent:anyone-2p was renamed to agent:adhoc-2p$"):
        load_policy("agent:anyone-2p?noise=0.1")
    with pytest.raises(ValueError, match="agent:nobody: expected agent:NAME with one of"):
        load_policy("agent:nobody")


@pytest.mark.slow  # test_leaderboard_file.py loads the agents of the leaderboards in docs
@pytest.mark.parametrize("name", sorted(bundled_files()))
def test_bundled_agent_loads_by_name(name: str) -> None:
    assert load_policy(f"agent:{name}").rules == read_rules(bundled_files()[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(bundled_files())[::6])  # about a minute each
def test_bundled_agent_matches_card_score(name: str) -> None:
    card = read_card(bundled_files()[name])
    scores = evaluate_selfplay(load_policy(f"agent:{name}"), 512, 99).summary.mean
    error = np.hypot(scores.bounds[1] - scores.mean, np.diff(card["selfplay"]["ci95"])[0] / 2)
    assert abs(scores.mean - card["selfplay"]["mean"]) < 2 * error
