"""Are these games of Hanabi? The structure of the arrays first, then every game played again by the
rules."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from hanabi_rl.data.games import GameDataError, Games
from hanabi_rl.env.replay import Outcomes, explain_illegal, replay_moves
from hanabi_rl.env.table import card_name, full_deck


def replay_outcomes(games: Games) -> Outcomes:
    """Play every game again, on the accelerator if there is one; judges nothing."""
    return replay_moves(games.rules, games.decks, games.actions, validate=False)


def stops_early(games: Games, outcomes: Outcomes) -> np.ndarray:
    """bool[N]: the rules had not ended the game when its record stops."""
    last = np.clip(games.num_actions - 1, 0, games.actions.shape[1] - 1)
    return ~np.asarray(outcomes.over)[np.arange(len(games)), last]


def validate_games(games: Games, source: str = "games", outcomes: Outcomes | None = None) -> None:
    """Check shapes, dtypes, decks, actions and lengths, then replay: legal moves, nothing after the
    end, stored scores.

    Games that stop legally before the rules end them pass where they are flagged `unfinished`.
    Raises GameDataError about the first offending game.
    """
    _check_arrays(games, source)
    _check_decks(games, source)
    _check_moves(games, source)
    _check_replay(games, source, replay_outcomes(games) if outcomes is None else outcomes)


def _fail(
    games: Games, source: str, field: str, game: int, problem: str, turn: int | None = None
) -> NoReturn:
    game_id = int(games.game_ids[game])
    raise GameDataError(
        problem, source=source, field=field, game=int(game), game_id=game_id, turn=turn
    )


def _check_arrays(games: Games, source: str) -> None:
    rules, num_games = games.rules, len(games.decks)
    num_turns = games.actions.shape[1] if games.actions.ndim == 2 else 0
    expected = {
        "decks": ((num_games, rules.deck_size), "u"),
        "actions": ((num_games, num_turns), "i"),
        "num_actions": ((num_games,), "i"),
        "scores": ((num_games,), "i"),
        "game_ids": ((num_games,), "iu"),
        "unfinished": ((num_games,), "b"),
        "human_seats": ((num_games, rules.num_players), "b"),
    }
    kinds = {"u": "unsigned integers", "i": "signed integers", "iu": "integers", "b": "bool"}
    for name, (shape, kind) in expected.items():
        array = getattr(games, name)
        if name == "human_seats" and array is None:
            continue
        if array.shape != shape or array.dtype.kind not in kind:
            got = f"{array.dtype}{list(array.shape)}"
            raise GameDataError(
                f"expected {kinds[kind]} {list(shape)}, got {got}", source=source, field=name
            )


def _check_decks(games: Games, source: str) -> None:
    expected = np.array(full_deck(games.rules), np.uint8)
    differs = (np.sort(games.decks, axis=1) != expected).any(axis=1)
    for game in np.flatnonzero(differs)[:1]:
        counts = np.bincount(games.decks[game], minlength=games.rules.num_cards)
        wanted = np.bincount(expected, minlength=len(counts))
        card = int(np.flatnonzero(counts != wanted)[0])
        name = card_name(games.rules, card) if card < games.rules.num_cards else f"card id {card}"
        problem = (
            f"expected the {len(expected)}-card deck with {wanted[card]} of {name}, got "
            f"{counts[card]}"
        )
        _fail(games, source, "decks", game, problem)


def _check_moves(games: Games, source: str) -> None:
    rules, num_turns = games.rules, games.actions.shape[1]
    for game in np.flatnonzero((games.num_actions < 1) | (games.num_actions > num_turns))[:1]:
        _fail(
            games,
            source,
            "num_actions",
            game,
            f"expected 1..{num_turns}, got {games.num_actions[game]}",
        )
    for game, turn in np.argwhere((games.actions < 0) | (games.actions >= rules.num_moves))[:1]:
        problem = f"expected an action in 0..{rules.num_moves - 1}, got {games.actions[game, turn]}"
        _fail(games, source, "actions", game, problem, int(turn))
    after_end = np.arange(num_turns) >= games.num_actions[:, None]
    for game, turn in np.argwhere(after_end & (games.actions != rules.noop))[:1]:
        problem = (
            f"expected the no-op {rules.noop} after the game's {games.num_actions[game]} moves, "
            f"got {games.actions[game, turn]}"
        )
        _fail(games, source, "actions", game, problem, int(turn))


def _check_replay(games: Games, source: str, outcomes: Outcomes) -> None:
    turns, rows, last = (
        np.arange(games.actions.shape[1]),
        np.arange(len(games)),
        games.num_actions - 1,
    )
    played = turns < games.num_actions[:, None]
    illegal = played & ~outcomes.legal
    score = outcomes.score[rows, last]
    unfinished = stops_early(games, outcomes)
    wrong = illegal.any(axis=1) | (score != games.scores) | (unfinished != games.unfinished)
    for game in np.flatnonzero(wrong)[:1]:
        if illegal[game].any():
            turn = int(np.argmax(illegal[game]))
            if turn > 0 and outcomes.over[game, turn - 1]:
                problem = (
                    f"expected the no-op after the game's end at turn {turn - 1}, got "
                    f"{games.actions[game, turn]}"
                )
            else:
                explanation = explain_illegal(
                    games.rules, games.decks[game], games.actions[game], turn
                )
                problem = "expected a legal move, got " + explanation.partition(": ")[2]
            _fail(games, source, "actions", game, problem, turn)
        if score[game] != games.scores[game]:
            problem = f"expected {score[game]} as replayed, got {games.scores[game]}"
            _fail(games, source, "scores", game, problem, int(last[game]))
        problem = (
            f"expected {bool(unfinished[game])} as replayed, got {bool(games.unfinished[game])}"
        )
        _fail(games, source, "unfinished", game, problem)
