"""Download of human games: requested file, and errors."""

import huggingface_hub
import pytest

from hanabi_rl.data.download import download


def test_download_fetches_requested_file(monkeypatch, tmp_path):
    requests = []

    def fetch(repository, name, **options):
        requests.append((repository, name, options))
        return str(tmp_path / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    assert download("train", 2, tmp_path) == tmp_path / "2_player_games_train_1k.safetensors"
    download("val", 3, tmp_path)
    options = {"repo_type": "dataset", "revision": None, "local_dir": str(tmp_path)}
    assert requests == [
        ("ah2ac2/datasets", "2_player_games_train_1k.safetensors", options),
        ("ah2ac2/datasets", "3_player_games_val.safetensors", options),
    ]


def test_download_error_lists_manual_steps(monkeypatch, tmp_path):
    def fail(*args, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(ConnectionError) as caught:
        download("val", 3, tmp_path)
    text = str(caught.value)
    for part in (
        "3_player_games_val.safetensors",
        "no route to host",
        "hf download ah2ac2/datasets",
        str(tmp_path),
    ):
        assert part in text
    assert "https://huggingface.co/datasets/ah2ac2/datasets" in text


def test_unknown_file_is_rejected():
    with pytest.raises(
        ValueError, match="2 or 3 players and one of train, val, all; got 4 players, 'train'"
    ):
        download("train", 4)
