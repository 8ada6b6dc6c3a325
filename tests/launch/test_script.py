"""Default preset of a script."""

from types import SimpleNamespace
from typing import Any

import pytest

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch import script
from hanabi_rl.launch.presets import configs_folder


class _Games(list):
    rules = Rules()


def _games(count: int, players: int) -> Any:
    games = _Games([None] * count)
    games.rules = Rules(num_players=players)
    return games


@pytest.mark.parametrize(
    ("algorithm", "backend", "games", "args", "preset"),
    [
        ("bc", "cpu", None, [], "quick"),
        ("bc", "cpu", (1000, 2), [], "quick"),
        ("bc", "cpu", (499, 3), [], "3p-human-facts"),
        ("bc", "cpu", (499, 4), [], "quick"),  # no preset for four players
        ("bc", "gpu", None, ["--num-players", "3"], "3p-1k"),
        ("bc", "gpu", (1000, 2), [], "2p-1k"),
        ("bc", "gpu", (180, 3), [], "3p-small"),
        ("ippo", "gpu", None, [], "2p"),
        ("hdr_ippo", "gpu", None, [], "2p-1k"),
        ("ippo", "cpu", None, ["--num-players", "3"], "quick"),
        ("hdr_ippo", "gpu", (180, 3), ["--bc.data", "games.safetensors"], "3p-1k"),
        ("hdr_ippo", "cpu", (180, 3), ["--bc.data", "games.safetensors"], "3p-human-facts"),
        ("hdr_ippo", "gpu", None, ["--num-players", "4"], "quick"),
        ("br_bc", "gpu", None, ["--bc-policy", "agent:clone-3p"], "3p-1k"),
        ("hdr_ippo", "gpu", None, ["--bc_policy=agent:clone-2p"], "2p-1k"),
        ("br_bc", "gpu", None, ["--bc-policy", "agent:clone-3p", "--num-players", "2"], "2p-1k"),
        ("br_bc", "cpu", None, ["--bc-policy", "no/such"], "quick"),
        ("best_response", "gpu", None, [], "quick"),
        ("e3t", "gpu", None, [], "quick"),
        ("ippo", "cpu", None, ["--game", "overcooked?horizon=9"], "overcooked"),
        ("ippo", "cpu", None, ["--game", "overcooked:cramped_room?horizon=9"], "overcooked"),
        ("ippo", "cpu", None, ["--game", "hanabi?num_ranks=2"], "quick"),
        ("ippo", "cpu", None, ["--game", "hanabi_own"], "hanabi_own"),
        ("behaviour_preferring", "gpu", None, [], "quick"),
    ],
)
def test_default_preset_fits_machine_and_games(
    monkeypatch: pytest.MonkeyPatch,
    algorithm: str,
    backend: str,
    games: tuple[int, int] | None,
    args: list[str],
    preset: str,
) -> None:
    monkeypatch.setattr(script, "jax", SimpleNamespace(default_backend=lambda: backend))
    if games is not None:
        monkeypatch.setattr(script, "load_games", lambda path: _games(*games))
        args = args or ["--data", "games.safetensors"]
    assert script.default_preset(args, configs_folder() / algorithm) == preset


def test_default_preset_counts_all_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thousand files of one game each are many games."""
    monkeypatch.setattr(script, "load_games", lambda path: _games(1, 2))
    one_game_each = [f"{number}.safetensors" for number in range(script.FEW_GAMES)]
    presets = configs_folder() / "bc"
    for files, preset in ((one_game_each, "quick"), (one_game_each[1:], "2p-human-facts")):
        assert script.default_preset(["--data", *files, "--seed", "3"], presets) == preset
        assert f"({len(files)} 2-player games, no accelerator)" in capsys.readouterr().err
