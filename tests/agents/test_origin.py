"""What is known of the games that an agent learnt from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hanabi_rl.agents import origin
from hanabi_rl.agents.origin import acquaintance, trained_with

CARD = {
    "3p_human_train_180.safetensors": "learnt from 3p_human_train_180.safetensors itself",
    "3p_human_val_41.safetensors": "did not learn from 3p_human_val_41.safetensors",
    "others.json": "learnt from 180 games of people",
}


@pytest.mark.parametrize(("file", "words"), CARD.items())
def test_of_an_agent_by_its_card(file: str, words: str) -> None:
    assert (acquaintance("agent:human-3p?safe=0.6,0.1", Path("there") / file) or "")[
        :60
    ].startswith(words[:60])


def test_of_a_run_by_its_config(tmp_path: Path) -> None:
    """A clone's games are its own fields, those of a policy made of one are of its `bc`."""
    games = {"data": ["there/a.json"], "val": ["there/b.json"]}
    for name, config in {"clone": games, "policy": {"bc": games}}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"config": config}))
        said = [acquaintance(str(tmp_path / name), Path(f"{file}.json")) or "" for file in "abc"]
        assert [words[:18] for words in said] == [
            "learnt from a.json",
            "did not learn from",
            "learnt from there/",
        ]


@pytest.mark.parametrize("said", ['{"model_type": "bert"}', "[1]", "// none", '{"config": 1}'])
def test_beside_a_config_of_another_program(tmp_path: Path, said: str) -> None:
    (tmp_path / "config.json").write_text(said)
    assert trained_with(str(tmp_path / "mine")) == ()
    assert acquaintance(str(tmp_path / "mine"), Path("a.json")) is None


def test_of_a_card_with_an_apostrophe(monkeypatch: pytest.MonkeyPatch) -> None:
    card = {"command": "my friend's script --data a.json"}
    monkeypatch.setattr(origin, "card_of", lambda name: card)
    assert acquaintance("mine.safetensors", Path("a.json")) == (
        "learnt from a.json itself, so that its prediction flatters it"
    )


def test_of_no_games() -> None:
    assert acquaintance("bot:convention", Path("a.json")) is None
    assert "no recorded games" in (acquaintance("agent:ippo-2p", Path("a.json")) or "")


def test_of_data_that_nobody_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `hanabi-rl export` writes the card of a run without --data: nothing is known."""
    monkeypatch.setattr(origin, "card_of", lambda name: {"data": origin.NOT_NOTED, "command": ""})
    assert acquaintance("mine.safetensors", Path("a.json")) is None
