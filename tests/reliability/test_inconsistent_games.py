"""Inconsistent recorded games are refused with their position; consistent ones are accepted."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support.games import random_games, shared_data

from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import GameDataError, Games
from hanabi_rl.games.hanabi.rules import Rules

Tensors = dict[str, np.ndarray]
Lie = Callable[[Tensors, int, np.random.Generator], int | None]
RULES = Rules()


def current_player(turn: int) -> int:
    return turn % RULES.num_players


def illegal_move(t: Tensors, game: int, rng: np.random.Generator) -> int:
    """A discard on the first turn, with all information tokens."""
    t["actions"][game, 0, 0] = rng.integers(RULES.hand_size)
    return 0


def move_out_of_turn(t: Tensors, game: int, rng: np.random.Generator) -> int:
    turn = int(rng.integers(t["num_actions"][game]))
    t["actions"][game, turn, 1 - current_player(turn)] = rng.integers(RULES.noop)
    return turn


def noop_before_num_actions(t: Tensors, game: int, rng: np.random.Generator) -> int:
    turn = int(rng.integers(t["num_actions"][game]))
    t["actions"][game, turn, current_player(turn)] = RULES.noop
    return turn


def action_out_of_range(t: Tensors, game: int, rng: np.random.Generator) -> int:
    turn = int(rng.integers(t["actions"].shape[1]))
    invalid = [-1, RULES.num_actions, 99, 2**31 - 1]
    t["actions"][game, turn, current_player(turn)] = rng.choice(invalid)
    return turn


def move_after_the_end(t: Tensors, game: int, rng: np.random.Generator) -> int:
    # jaxmarl records one more move after the last life is lost: allowed
    turn = int(rng.integers(t["num_actions"][game] + 1, t["actions"].shape[1]))
    t["actions"][game, turn, current_player(turn)] = rng.integers(RULES.noop)
    return turn


def longer_than_it_was(t: Tensors, game: int, rng: np.random.Generator) -> int:
    turn = int(t["num_actions"][game])  # the game was over, or there were no moves
    t["num_actions"][game] += 2
    return turn


def num_actions_beyond_the_array(t: Tensors, game: int, rng: np.random.Generator) -> None:
    t["num_actions"][game] = rng.choice([0, -1, t["actions"].shape[1] + 1, 2**31 - 1])


def num_actions_that_wrap(t: Tensors, game: int, rng: np.random.Generator) -> None:
    """In int32 this wraps to the right number."""
    t["num_actions"] = t["num_actions"].astype(np.int64)
    t["num_actions"][game] += 2**32


def impossible_deck(t: Tensors, game: int, rng: np.random.Generator) -> None:
    first, second = rng.choice(50, 2, replace=False)
    while (t["decks"][game, first] == t["decks"][game, second]).all():
        first, second = rng.choice(50, 2, replace=False)
    t["decks"][game, first] = t["decks"][game, second]


def wrong_score(t: Tensors, game: int, rng: np.random.Generator) -> int:
    t["scores"][game] += rng.choice([-1, 1, 25])
    return int(t["num_actions"][game]) - 1


LIES: dict[str, Lie] = {
    fault.__name__.replace("_", " "): fault
    for fault in (
        illegal_move,
        move_out_of_turn,
        noop_before_num_actions,
        action_out_of_range,
        move_after_the_end,
        longer_than_it_was,
        num_actions_beyond_the_array,
        num_actions_that_wrap,
        impossible_deck,
        wrong_score,
    )
}


@pytest.fixture(scope="module")
def games() -> Games:
    return random_games(RULES, 30)


@pytest.mark.parametrize("name", LIES)
def test_inconsistent_game_error_names_game_and_turn(
    name: str, games: Games, injections: Callable[..., int], tally: Callable, tmp_path: Path
) -> None:
    path, row, rng = (
        tmp_path / "games.safetensors",
        tally("inconsistent games"),
        np.random.default_rng(len(name)),
    )
    for _ in range(injections(5, 100)):
        save_games(path, games)
        tensors = {key: tensor.copy() for key, tensor in load_file(path).items()}
        game = int(rng.integers(len(games)))
        turn = LIES[name](tensors, game, rng)
        save_file(tensors, path)
        try:
            load_games(path)
        except GameDataError as error:
            right = (error.game, error.turn, error.game_id in (None, 100 + game)) == (
                game,
                turn,
                True,
            )
            row.add(name, None if right else f"expected game {game}, turn {turn}: {error}")
        else:
            row.add(name, f"game {game}, turn {turn} was accepted")


def test_wrong_player_count_is_refused(games: Games, tally: Callable, tmp_path: Path) -> None:
    path, row = tmp_path / "games.safetensors", tally("inconsistent games")
    save_games(path, games)
    tensors = load_file(path)
    for players in (-1, 0, 1, 3, 4, 5, 6, 2**31 - 1):
        save_file(tensors | {"num_players": np.array(players, np.int32)}, path)
        with pytest.raises(GameDataError, match=r"(actions: expected shape|num_players: ).*got"):
            load_games(path)
        row.add(f"{players} players", None)


RECORDED = (
    *(
        "3_player_games_val",
        "3p_human_train_180",
        "3p_human_val_41",
        "2p_human_hanab_live",
        "3p_human_hanab_live",
    ),
    *("2p_human_with_ai", "2p_recorded_bot_8k", "2p_hgroup_bot_train", "2p_hgroup_bot_val"),
)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_games_are_accepted(name: str, tally: Callable) -> None:
    """All games of the file; unfinished ones are flagged."""
    path = shared_data(f"{name}.safetensors")
    games, real = load_games(path), tally("recorded games accepted")
    stored = load_file(path)["scores"]
    for game in range(len(games)):
        real.add(
            f"{name}, game {game}", None if games.scores[game] == stored[game] else "another score"
        )
