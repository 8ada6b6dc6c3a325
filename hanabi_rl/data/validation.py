"""Validation of games: array structure, then full replay by the rules."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hanabi_rl.data.games import GameDataError, Games
from hanabi_rl.games.hanabi.decks import invalid_decks
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.replay import Outcomes, explain_illegal, replay_moves


def replay_outcomes(games: Games) -> Outcomes:
    """Replay all games, on the accelerator if there is one, without validation."""
    return replay_moves(games.rules, games.decks, games.actions, validate=False)


def last_life_lost(outcomes: Outcomes) -> np.ndarray:
    """Turn, from 0, that lost each game's last life, int[N]; -1 if lives are left or a move before
    it was illegal."""
    legal = np.logical_and.accumulate(outcomes.legal, axis=1)
    lost = (np.asarray(outcomes.life_tokens) == 0) & legal  # no move after it is legal
    return np.where(lost.any(axis=1), lost.argmax(axis=1), -1)


def is_unfinished(games: Games, outcomes: Outcomes) -> np.ndarray:
    """bool[N], True if the record stops before the rules end the game and while points can still be
    scored (hanab.live ends a game when none can)."""
    early = ~np.asarray(outcomes.over)[np.arange(len(games)), _last_turns(games)]
    for game in np.flatnonzero(early):
        early[game] = _can_still_score(games, game)
    return early


def _can_still_score(games: Games, game: int | np.integer) -> bool:
    try:
        table = PythonGame(games.rules, games.decks[game])
        for action in games.moves(int(game)):
            table.apply(int(action))
    except ValueError:  # an invalid game is reported elsewhere
        return True
    return table.can_score()


def _last_turns(games: Games) -> np.ndarray:
    """Turn of each game's last move, int[N], clipped to the array."""
    return np.clip(games.num_actions - 1, 0, games.actions.shape[1] - 1)


def validate_games(games: Games, source: str = "games") -> None:
    """Validate arrays, decks, actions and lengths, then replay: legal moves, end, scores.

    A game that stops legally before its end must have `unfinished` set. Raises GameDataError for
    the first invalid game.
    """
    check_arrays(games, source)
    outcomes = replay_outcomes(games)
    everyone = np.ones(len(games), bool)
    for error in find_problems(games, source, outcomes, everyone):
        raise error
    for game in np.flatnonzero(is_unfinished(games, outcomes) != games.unfinished):
        got = bool(games.unfinished[game])
        problem = f"expected {not got} as replayed, got {got}"
        raise _error(games, source, "unfinished", game, problem)


def find_problems(
    games: Games, source: str, outcomes: Outcomes, good: np.ndarray
) -> Iterator[GameDataError]:
    """Yield the first error of each invalid game, except in `unfinished`.

    `good` bool[N]: games to check; the caller clears it for a reported game before the next error.
    """
    for check in (_wrong_decks, _wrong_moves):
        yield from check(games, source, good)
    yield from _wrong_replays(games, source, outcomes, good)


def _error(
    games: Games,
    source: str,
    field: str,
    game: int | np.integer,
    problem: str,
    turn: int | None = None,
) -> GameDataError:
    game_id = int(games.game_ids[game])
    return GameDataError(
        problem, source=source, field=field, game=int(game), game_id=game_id, turn=turn
    )


def check_arrays(games: Games, source: str = "games") -> None:
    """Raise GameDataError for an array of the wrong shape or dtype."""
    rules, num_games = games.rules, len(games.decks)
    num_turns = max(1, games.actions.shape[1]) if games.actions.ndim == 2 else 1
    expected = {
        "decks": ((num_games, rules.deck_size), "u"),
        "actions": ((num_games, num_turns), "i"),
        "num_actions": ((num_games,), "i"),
        "scores": ((num_games,), "i"),
        "game_ids": ((num_games,), "i"),
        "unfinished": ((num_games,), "b"),
        "human_seats": ((num_games, rules.num_players), "b"),
        "players": ((num_games, rules.num_players), "i"),
    }
    kinds = {"u": "unsigned integers", "i": "signed integers", "b": "bool"}
    for name, (shape, kind) in expected.items():
        array = getattr(games, name)
        if name in ("human_seats", "players") and array is None:
            continue
        if array.shape != shape or array.dtype.kind not in kind:
            got = f"{array.dtype}{list(array.shape)}"
            raise GameDataError(
                f"expected {kinds[kind]} {list(shape)}, got {got}", source=source, field=name
            )


def _wrong_decks(games: Games, source: str, good: np.ndarray) -> Iterator[GameDataError]:
    for game, problem in invalid_decks(games.rules, games.decks):
        if good[game]:
            yield _error(games, source, "decks", game, problem)


def _wrong_moves(games: Games, source: str, good: np.ndarray) -> Iterator[GameDataError]:
    rules, num_turns = games.rules, games.actions.shape[1]
    wrong_length = (games.num_actions < 1) | (games.num_actions > num_turns)
    for game in np.flatnonzero(wrong_length & good):
        problem = f"expected 1..{num_turns}, got {games.num_actions[game]}"
        yield _error(games, source, "num_actions", game, problem)
    unknown = (games.actions < 0) | (games.actions >= rules.num_actions)
    for game in np.flatnonzero(unknown.any(axis=1) & good):
        turn = int(np.argmax(unknown[game]))
        problem = (
            f"expected an action in 0..{rules.num_actions - 1}, got {games.actions[game, turn]}"
        )
        yield _error(games, source, "actions", game, problem, turn)
    after_end = np.arange(num_turns) >= games.num_actions[:, None]
    moved = after_end & (games.actions != rules.noop)
    for game in np.flatnonzero(moved.any(axis=1) & good):
        turn = int(np.argmax(moved[game]))
        problem = (
            f"expected the no-op {rules.noop} after the game's {games.num_actions[game]} moves, "
            f"got {games.actions[game, turn]}"
        )
        yield _error(games, source, "actions", game, problem, turn)


def _wrong_replays(
    games: Games, source: str, outcomes: Outcomes, good: np.ndarray
) -> Iterator[GameDataError]:
    rows, last = np.arange(len(games)), _last_turns(games)
    played = np.arange(games.actions.shape[1]) < games.num_actions[:, None]
    illegal = played & ~outcomes.legal
    score = outcomes.score[rows, last]
    for game in np.flatnonzero((illegal.any(axis=1) | (score != games.scores)) & good):
        if illegal[game].any():
            turn = int(np.argmax(illegal[game]))
            problem = _why_illegal(games, outcomes, int(game), turn)
            yield _error(games, source, "actions", game, problem, turn)
        else:
            problem = f"expected {score[game]} as replayed, got {games.scores[game]}"
            yield _error(games, source, "scores", game, problem, int(last[game]))


def _why_illegal(games: Games, outcomes: Outcomes, game: int, turn: int) -> str:
    if turn > 0 and outcomes.over[game, turn - 1]:
        return (
            f"expected the no-op after the game's end at turn {turn - 1}, got "
            f"{games.actions[game, turn]}"
        )
    explanation = explain_illegal(games.rules, games.decks[game], games.actions[game], turn)
    return "expected a legal move, got " + explanation.partition(": ")[2]
