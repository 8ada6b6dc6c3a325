"""Held-out files: validation and batches."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from support.games import random_games

from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import GameDataError, Games
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.held_out import BATCH_ROWS, HeldOutGames, read_all, read_held_out


@pytest.mark.parametrize("players", [2, 3, 5])
def test_batch_contains_all_seats_of_game(players: int) -> None:
    """Otherwise one seat's observations would reveal the moves of another."""
    games = random_games(Rules(num_players=players), 7)
    batches = HeldOutGames(games, "some").batches
    of_game = [sorted({game for game, _ in batch}) for batch in batches]
    assert [game for games in of_game for game in games] == list(range(7))
    assert all(len(batch) == len(set(batch)) <= BATCH_ROWS for batch in batches)
    assert sum(map(len, batches)) == 7 * players


def _bad_games() -> dict[str, tuple[Games, str]]:
    good = random_games(Rules(), 2, seed=1)
    illegal, deck, longer = good.actions.copy(), good.decks.copy(), good.num_actions.copy()
    illegal[1, 0] = 0
    deck[1, -1] = (deck[1, -1] + 1) % 25
    longer[1] = 0
    score = good.scores + np.array([0, 1], np.int32)
    return {
        "moves": (dataclasses.replace(good, actions=illegal), "turn 0, actions: illegal move 0: a"),
        "deck": (dataclasses.replace(good, decks=deck), "decks: .*expected"),
        "length": (dataclasses.replace(good, num_actions=longer), "num_actions: expected 1..89"),
        "score": (dataclasses.replace(good, scores=score), "scores: expected"),
    }


@pytest.mark.parametrize("name", list(_bad_games()))
def test_games_invalid_for_load_games_are_refused(tmp_path: Path, name: str) -> None:
    (games, reason), path = _bad_games()[name], tmp_path / "bad.safetensors"
    save_games(path, games)
    with pytest.raises(GameDataError):
        load_games(path)
    with pytest.raises(GameDataError, match=rf"bad\.safetensors, game 1 .*{reason}"):
        read_held_out(path)


def test_files_without_decisions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "games.safetensors"
    games = random_games(Rules(), 2, seed=1)
    save_games(path, dataclasses.replace(games, human_seats=np.zeros((2, 2), bool)))
    with pytest.raises(GameDataError, match="expected human moves, got none in 2 games"):
        read_held_out(path)
    with pytest.raises(FileNotFoundError, match="which does not exist"):
        read_held_out(tmp_path / "none.safetensors")
    save_games(path, games)
    with pytest.raises(ValueError, match="expected one file for 2 players, got two"):
        read_all([path, path])
    (tmp_path / "games.json").write_text("{}")
    with pytest.raises(GameDataError, match=r"expected a \.safetensors file"):
        read_held_out(tmp_path / "games.json")
