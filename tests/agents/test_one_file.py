"""Policies as one file: what is read is what was written, rounded; what is damaged is refused; and
the agents that come with the package."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.agents.folder import save_policy
from hanabi_rl.agents.names import known_agents, load_policy, trained_with
from hanabi_rl.agents.one_file import (
    SHIPPED,
    _digest,
    read_card,
    read_file,
    rounded,
    shipped,
    write_file,
)
from hanabi_rl.cli import main
from hanabi_rl.measure.selfplay import evaluate_selfplay
from hanabi_rl.storage.trees import CorruptError


def test_what_is_read_is_what_was_written_rounded(tmp_path: Path) -> None:
    policy, path = network_policy(TINY, 0), tmp_path / "a.safetensors"
    write_file(path, policy, {"about": "a test"})
    back = read_file(path)
    assert back.identity() == rounded(policy).identity() != policy.identity()
    assert (back.rules, back.network, back.info) == (policy.rules, policy.network, policy.info)
    for leaf, kept in zip(
        jax.tree.leaves(policy.params), jax.tree.leaves(back.params), strict=True
    ):
        assert kept.dtype == np.float32
        np.testing.assert_allclose(kept, leaf, rtol=2**-11, atol=2**-25)
    assert read_card(path) == {"about": "a test"}
    assert load_policy(str(path)).identity() == back.identity()
    size = sum(leaf.size for leaf in jax.tree.leaves(policy.params))
    assert 2 * size < path.stat().st_size < 2 * size + 4000


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_damaged_file_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "a.safetensors"
    write_file(path, network_policy(TINY, 0), {"about": "a test"})
    data = bytearray(path.read_bytes())
    data[int(share * len(data))] ^= 4
    path.write_bytes(data)
    with pytest.raises(ValueError, match="a.safetensors"):
        read_file(path)
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(CorruptError, match="expected a policy's file"):
        read_file(path)


def test_other_files_and_parameters_are_refused(tmp_path: Path) -> None:
    policy, path = network_policy(TINY, 0), tmp_path / "a.safetensors"
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="`hanabi-rl export` wrote, got one without card, policy"):
        load_policy(str(path))
    with pytest.raises(ValueError, match="expected a policy's file, got"):
        load_policy(str(tmp_path / "none.safetensors"))
    with pytest.raises(ValueError, match=r"expected a file named \*.safetensors, got"):
        write_file(tmp_path / "a.bin", policy, {})
    large = policy.replace(params=jax.tree.map(lambda x: jnp.full_like(x, 1e6), policy.params))
    with pytest.raises(ValueError, match="that half precision can hold"):
        write_file(path, large, {})


@pytest.mark.parametrize("said", ["[1]", "{", "[" * 100_000, '{"format_version": 2}'])
def test_a_description_that_is_none(tmp_path: Path, said: str) -> None:
    """Whoever wrote it took care of the digest."""
    path, leaves = tmp_path / "a.safetensors", {"x": np.zeros(3, np.float16)}
    header = {"policy": said, "card": said}
    save_file(leaves, path, header | {"sha256": _digest(leaves, header)})
    with pytest.raises(ValueError, match=r"a\.safetensors: (policy: )?expected"):
        read_file(path)
    if not said.startswith('{"'):
        with pytest.raises(ValueError, match=r"a\.safetensors: card: expected"):
            read_card(path)


def test_export_measures_what_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, path = tmp_path / "run" / "policy", tmp_path / "a.safetensors"
    save_policy(folder, network_policy(TINY, 0), algorithm="bc", steps=7, score=None)
    met = {"config": {"partners": ["bot:simple", "bot:iggi"]}}
    (folder.parent / "config.json").write_text(json.dumps(met))
    main(["export", str(folder), str(path), "--about", "A test.", "--games", "64"])
    assert "Written" in capsys.readouterr().err
    card, summary = read_card(path), evaluate_selfplay(read_file(path), 64, 1).summary
    assert card["selfplay"]["mean"] == pytest.approx(summary.mean.mean, abs=5e-4)
    assert (card["steps"], card["algorithm"], card["tier"]) == (7, "bc", "lstm")
    assert card["met"] == ["bot:simple", "bot:iggi"] == list(trained_with(str(path)))
    with pytest.raises(SystemExit):
        main(["export", "bot:random", str(path), "--about", "No policy."])
    assert "expected a trained policy" in capsys.readouterr().err


def test_the_agents_that_ship(capsys: pytest.CaptureFixture[str]) -> None:
    agents = {agent["name"]: agent for agent in known_agents()["agents"]}
    assert shipped() and sum(path.stat().st_size for path in SHIPPED.iterdir()) < 10e6
    for name in shipped():
        card, policy = agents[f"agent:{name}"], load_policy(f"agent:{name}")
        assert policy.rules.num_players == card["players"] and card["command"] and card["data"]
        assert card["selfplay"]["games"] >= 5000
    main(["agents", f"agent:{name}", "--json"])
    assert json.loads(capsys.readouterr().out) == agents[f"agent:{name}"]
    main(["agents", f"agent:{name}"])
    assert card["command"] in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["agents", "agent:nobody"])
    assert "expected one of" in capsys.readouterr().err
    with pytest.raises(ValueError, match="agent:nobody: expected agent: and one of"):
        load_policy("agent:nobody")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(shipped())[::6])  # about a minute each
def test_a_shipped_agent_plays_as_its_card_says(name: str) -> None:
    card = read_card(shipped()[name])
    scores = evaluate_selfplay(load_policy(f"agent:{name}"), 512, 99).summary.mean
    error = np.hypot(scores.bounds[1] - scores.mean, np.diff(card["selfplay"]["ci95"])[0] / 2)
    assert abs(scores.mean - card["selfplay"]["mean"]) < 2 * error
