"""The AH2AC2 safetensors layout.

`actions [N, T, P]`, `decks [N, 50, 2]`, `game_ids [N]`, `num_actions [N]`, `num_players []`,
`scores [N]`; optional extensions of this package: `human_seats bool[N, P]`, `players [N, P]`. For
rules other than the standard ones, the metadata hold `Rules` as JSON under `rules`.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hanabi_rl.data.games import GameDataError, Games, OnInvalid, raise_invalid
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.storage.tensors import read_tensors, write_tensors

DIMENSIONS = {
    "actions": 3,
    "decks": 3,
    "game_ids": 1,
    "num_actions": 1,
    "num_players": 0,
    "scores": 1,
}
OPTIONAL = {"human_seats": 2, "players": 2}
# far beyond any game; replay allocates memory per turn
MAX_TURNS = 1024


def read(path: Path) -> Games:
    """Games of the file, `unfinished` not computed. Raises GameDataError for the first invalid
    game."""
    return read_each(path)[0]


def read_each(
    path: Path, validate: bool = True, on_invalid: OnInvalid = raise_invalid
) -> tuple[Games, np.ndarray]:
    """Games of the file, `unfinished` not computed, and a mask of the valid games so far, bool[N].

    `on_invalid` receives the error of each game with a number beyond int32 (ids: int64); with
    `validate`, also of each game with an unknown card or action, or an action out of turn. Raises
    GameDataError for another layout.
    """
    source = str(path)
    tensors, metadata = _open(path)
    _check_tensors(tensors, source, validate)
    rules = _rules(int(tensors["num_players"]), metadata, source)
    _check_shapes(tensors, rules, source)
    good = np.ones(len(tensors["game_ids"]), bool)
    checks = [_too_wide(tensors, source)]
    if validate:
        checks += [
            _out_of_range(tensors, rules, source),
            _out_of_turn(tensors["actions"], tensors["game_ids"], rules, source),
        ]
    for error in itertools.chain.from_iterable(checks):
        if good[error.game]:
            on_invalid(error)
            good[error.game] = False
    actions = tensors["actions"]
    turns = np.arange(actions.shape[1])
    decks, ids = tensors["decks"], tensors["game_ids"]
    games = Games(
        rules=rules,
        decks=(decks[..., 0] * rules.num_ranks + decks[..., 1]).astype(np.uint8),
        actions=actions[:, turns, turns % rules.num_players].astype(np.int32),
        num_actions=tensors["num_actions"].astype(np.int32),
        scores=tensors["scores"].astype(np.int32),
        game_ids=ids.astype(np.int32 if np.can_cast(ids.dtype, np.int32) else np.int64),
        unfinished=np.zeros(len(decks), bool),
        human_seats=tensors.get("human_seats"),
        players=None if (players := tensors.get("players")) is None else players.astype(np.int32),
    )
    return games, good


def write(path: Path, games: Games) -> None:
    """Write a file atomically; equal games give equal bytes."""
    rules, (num_games, num_turns) = games.rules, games.actions.shape
    turns = np.arange(num_turns)
    actions = np.full((num_games, num_turns, rules.num_players), rules.noop, np.int32)
    actions[:, turns, turns % rules.num_players] = games.actions
    tensors = {
        "actions": actions,
        "decks": np.stack(np.divmod(games.decks.astype(np.int32), rules.num_ranks), axis=-1),
        "game_ids": games.game_ids,
        "num_actions": games.num_actions,
        "num_players": np.array(rules.num_players, np.int32),
        "scores": games.scores,
    }
    if games.human_seats is not None:
        tensors["human_seats"] = games.human_seats
    if games.players is not None:
        tensors["players"] = games.players
    metadata = None if rules.is_standard else {"rules": json.dumps(dataclasses.asdict(rules))}
    write_tensors(path, tensors, metadata)


def _open(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    try:
        return read_tensors(path)
    except ValueError as error:
        raise GameDataError(
            f"expected a safetensors file, got: {error}", source=str(path)
        ) from error


def _check_tensors(tensors: dict[str, np.ndarray], source: str, validate: bool) -> None:
    known = DIMENSIONS | OPTIONAL
    missing = sorted(set(DIMENSIONS) - set(tensors))
    if missing:
        raise GameDataError(
            f"expected the tensor {missing[0]!r}, got only {sorted(tensors)}", source=source
        )
    unknown = sorted(set(tensors) - set(known))
    if unknown and validate:
        raise GameDataError(
            f"expected only the tensors {sorted(known)}, got {unknown[0]!r}", source=source
        )
    for name in known.keys() & tensors.keys():
        tensor, kinds = tensors[name], "b" if name == "human_seats" else "iu"
        expected = "bool" if kinds == "b" else "integers"
        if tensor.dtype.kind not in kinds:
            raise GameDataError(
                f"expected {expected}, got dtype {tensor.dtype}", source=source, field=name
            )
        if tensor.ndim != known[name]:
            raise GameDataError(
                f"expected {known[name]} axes, got shape {tensor.shape}", source=source, field=name
            )


def _too_wide(tensors: dict[str, np.ndarray], source: str) -> Iterator[GameDataError]:
    """Games with a number that does not fit into int32 (ids: int64): the cast would change it."""
    for name in ("actions", "decks", "num_actions", "scores", "players", "game_ids"):
        kind = np.int64 if name == "game_ids" else np.int32
        tensor, limits = tensors.get(name, np.zeros((), kind)), np.iinfo(kind)
        if np.can_cast(tensor.dtype, kind):
            continue
        for game in _games_with((tensor < limits.min) | (tensor > limits.max)):
            low, high = tensor[game].min(), tensor[game].max()
            problem = f"expected numbers from {limits.min} to {limits.max}, got {low} to {high}"
            yield GameDataError(problem, source=source, field=name, game=game)


def _games_with(wrong: np.ndarray) -> list[int]:
    """Indices of games with any True in `wrong` [N, ...]."""
    return [int(game) for game in np.flatnonzero(wrong.any(axis=tuple(range(1, wrong.ndim))))]


def _rules(num_players: int, metadata: dict[str, str], source: str) -> Rules:
    try:
        fields: dict[str, Any] = json.loads(metadata.get("rules", "{}"))
        rules = Rules(**{"num_players": num_players} | fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise GameDataError(
            f"expected valid rules, got: {error}", source=source, field="num_players"
        ) from error
    if rules.num_players != num_players:
        raise GameDataError(
            f"expected {rules.num_players} as in the file's rules, got {num_players}",
            source=source,
            field="num_players",
        )
    return rules


def _check_shapes(tensors: dict[str, np.ndarray], rules: Rules, source: str) -> None:
    num_games = len(tensors["game_ids"])
    num_turns = tensors["actions"].shape[1]
    if not 1 <= num_turns <= MAX_TURNS:
        raise GameDataError(
            f"expected 1 to {MAX_TURNS} turns, got {num_turns}", source=source, field="actions"
        )
    expected = {
        "actions": (num_games, num_turns, rules.num_players),
        "decks": (num_games, rules.deck_size, 2),
        "num_actions": (num_games,),
        "scores": (num_games,),
        "human_seats": (num_games, rules.num_players),
        "players": (num_games, rules.num_players),
    }
    for name, shape in expected.items():
        if name in tensors and tensors[name].shape != shape:
            raise GameDataError(
                f"expected shape {shape}, got {tensors[name].shape}", source=source, field=name
            )


def _out_of_range(
    tensors: dict[str, np.ndarray], rules: Rules, source: str
) -> Iterator[GameDataError]:
    """Games with a card or an action outside the rules."""
    game_ids = tensors["game_ids"]
    for axis, (name, limit) in enumerate((("colour", rules.num_colors), ("rank", rules.num_ranks))):
        values = tensors["decks"][..., axis]
        wrong = (values < 0) | (values >= limit)
        for game in _games_with(wrong):
            index = int(np.argmax(wrong[game]))
            problem = (
                f"card {index}: expected a {name} in 0..{limit - 1}, got {values[game, index]}"
            )
            yield GameDataError(
                problem, source=source, field="decks", game=game, game_id=int(game_ids[game])
            )
    actions = tensors["actions"]
    wrong = (actions < 0) | (actions >= rules.num_actions)
    for game in _games_with(wrong):
        turn, seat = np.argwhere(wrong[game])[0]
        problem = (
            f"seat {seat}: expected an action in 0..{rules.num_actions - 1}, got "
            f"{actions[game, turn, seat]}"
        )
        place = {"game": game, "game_id": int(game_ids[game]), "turn": int(turn)}
        yield GameDataError(problem, source=source, field="actions", **place)


def _out_of_turn(
    actions: np.ndarray, game_ids: np.ndarray, rules: Rules, source: str
) -> Iterator[GameDataError]:
    """Games in which a seat acts out of turn."""
    turns, seats = np.ogrid[: actions.shape[1], : rules.num_players]
    wrong = (actions != rules.noop) & (seats != turns % rules.num_players)
    for game in _games_with(wrong):
        turn, seat = np.argwhere(wrong[game])[0]
        problem = (
            f"seat {seat}: expected the no-op {rules.noop} while seat {turn % rules.num_players} "
            f"moves, got {actions[game, turn, seat]}"
        )
        place = {"game": game, "game_id": int(game_ids[game]), "turn": int(turn)}
        yield GameDataError(problem, source=source, field="actions", **place)
