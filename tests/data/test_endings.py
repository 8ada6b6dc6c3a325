"""Surplus moves, games ended by the site, and the endings of skipped games."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.games import random_games

from hanabi_rl.cli import main
from hanabi_rl.data.endings import ending_of, surplus_text, without_surplus
from hanabi_rl.data.files import load_games, load_nonempty_games, save_games
from hanabi_rl.data.formats.hanab_live import SiteGameError, game_from_json, game_to_json
from hanabi_rl.data.games import GameDataError, Games
from hanabi_rl.games.hanabi.actions import Move, encode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.live.missed_games import _parse
from hanabi_rl.people.serve.held_out import read_held_out

RULES = Rules()


@pytest.fixture(scope="module")
def games() -> Games:
    """Eight games: even ones are bombed, odd ones stop after 9 moves."""
    games = random_games(RULES, 8)
    assert (games.lives == 0).tolist() == [True, False] * 4
    return games


def with_surplus(games: Games, moves: list[int], counted: bool = True) -> Games:
    """Bombed games with more moves after the end, counted in their length or not."""
    actions, num_actions = games.actions.copy(), games.num_actions.copy()
    for game in np.flatnonzero(games.lives == 0):
        end = num_actions[game]
        actions[game, end : end + len(moves)] = moves
        num_actions[game] += len(moves) * counted
    return dataclasses.replace(games, actions=actions, num_actions=num_actions, ends=None)


SURPLUS = {
    "a play": (5, True),
    "a hint": (10, True),
    "a no-op that is counted": (RULES.noop, True),
    "a move that is not counted": (5, False),
}


@pytest.mark.parametrize(("move", "counted"), SURPLUS.values(), ids=SURPLUS)
def test_move_after_last_life_is_dropped(
    games: Games, tmp_path: Path, move: int, counted: bool
) -> None:
    """jaxmarl before 0.2 ends a lost game one step late."""
    path = tmp_path / "old.safetensors"
    save_games(path, with_surplus(games, [move], counted))
    for load in (load_games, load_nonempty_games):
        with pytest.warns(UserWarning, match="old.safetensors: dropped the move .* 4 of 8 games"):
            found = load(path)
        for name in ("actions", "num_actions", "scores", "unfinished", "lives"):
            np.testing.assert_array_equal(getattr(found, name), getattr(games, name), name)
        assert found.actions.dtype == found.num_actions.dtype == np.int32
    with pytest.warns(UserWarning, match="4 of 8 games"):
        held_out = read_held_out(path)
    np.testing.assert_array_equal(held_out.games.actions, games.actions)


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.parametrize("hint", [False, True])
def test_hanab_live_surplus_move_is_dropped(
    games: Games, tmp_path: Path, suffix: str, hint: bool
) -> None:
    path = tmp_path / f"old{suffix}"
    records = []
    for game in range(len(games)):
        moves = games.moves(game)
        record = game_to_json(RULES, games.decks[game], moves, int(games.game_ids[game]))
        if games.lives[game] == 0:
            table = PythonGame(RULES, games.decks[game])
            for move in moves:
                table.apply(int(move))
            order = table.hands[table.player][0]
            more = {"type": 3, "target": 1 - table.player, "value": 1}
            record["actions"].append(more if hint else {"type": 0, "target": order})
        records.append(json.dumps(record))
    path.write_text("\n".join(records) if suffix == ".jsonl" else f"[{','.join(records)}]")
    with pytest.warns(UserWarning, match="4 of 8 games"):
        found = load_games(path)
    np.testing.assert_array_equal(found.actions, games.actions)
    np.testing.assert_array_equal(found.scores, games.scores)


def test_every_command_reports_dropped_moves(
    games: Games, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "old.safetensors", tmp_path / "new.safetensors"
    save_games(path, with_surplus(games, [5]))
    for command in (
        ["info", path],
        ["convert", path, out],
        ["split", path, "--sizes", "4", "4", "--out", tmp_path],
    ):
        main(["data", *map(str, command)])
        assert "old.safetensors: dropped the move" in capsys.readouterr().err
    np.testing.assert_array_equal(load_games(out).actions, games.actions)


def test_several_surplus_moves_are_rejected(games: Games, tmp_path: Path) -> None:
    path = tmp_path / "odd.safetensors"
    for odd in (with_surplus(games, [5, 5]), with_surplus(games, [RULES.noop, 5])):
        save_games(path, odd)
        with pytest.raises(GameDataError, match=r"game 0 .*expected"):
            load_games(path)


def test_illegal_game_is_not_repaired(games: Games, tmp_path: Path) -> None:
    """No move is dropped: a warning would fail this test."""
    path = tmp_path / "odd.safetensors"
    for game in np.flatnonzero(games.lives == 0):
        for turn in range(games.num_actions[game]):
            odd = games.select([game])
            odd.actions[0, turn] = RULES.noop
            save_games(path, odd)
            with pytest.raises(GameDataError, match=f"turn {turn}, actions: expected a legal move"):
                load_games(path)


def test_truncated_game_is_not_repaired(games: Games) -> None:
    """Its length says that it stopped before the last life was lost."""
    short = dataclasses.replace(games, num_actions=games.num_actions - 1)
    same, dropped = without_surplus(short, np.where(games.lives == 0, games.num_actions - 1, -1))
    assert dropped == 0 and same is short


def test_skipped_games_report_their_endings(
    games: Games, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Skipping only lost games raises the mean, so their number is reported."""
    path = tmp_path / "games.safetensors"
    odd = with_surplus(games, [5, 5])  # four bombed games, and two with another game's score
    save_games(
        path, dataclasses.replace(odd, scores=odd.scores + np.eye(8, dtype=np.int32)[[1, 3]].sum(0))
    )
    errors: list[GameDataError] = []
    assert len(load_games(path, on_invalid=errors.append)) == 2
    assert Counter(error.ended for error in errors) == {"bombed": 4, "unfinished": 2}
    main(["data", "info", str(path), "--skip-invalid", "--json"])
    out, err = capsys.readouterr()
    assert "6 of 8 games skipped; by ending: 4 bombed, 2 unfinished" in err
    assert json.loads(out)["skipped_endings"] == {"bombed": 4, "unfinished": 2}


def test_skipped_hanab_live_games_report_their_endings(games: Games, tmp_path: Path) -> None:
    three = random_games(Rules(num_players=3), 2, seed=5)
    save_games(tmp_path / "three.jsonl", three)
    save_games(tmp_path / "two.jsonl", games)
    lines = (tmp_path / "two.jsonl").read_text().splitlines()
    lost = json.loads(lines[0])
    lost["actions"] += [{"type": 3, "target": seat, "value": 1} for seat in (0, 1, 0)]
    lines += [json.dumps(lost), "{}", *(tmp_path / "three.jsonl").read_text().splitlines()]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    errors: list[GameDataError] = []
    assert len(load_games(tmp_path / "all.jsonl", on_invalid=errors.append)) == 8
    ended = ["bombed" if lives == 0 else "unfinished" for lives in three.lives]
    assert [error.ended for error in errors] == ["bombed", None, *ended]


def test_endings() -> None:
    perfect = PythonGame(RULES, perfect_deck())
    for _ in range(25):
        perfect.apply(encode_action(RULES, Move("play", slot=0)))
    assert ending_of(RULES, perfect.deck, [*perfect.actions, 5, 5]) == "perfect"
    assert ending_of(RULES, perfect.deck, perfect.actions[:-1]) == "unfinished"
    assert ending_of(RULES, perfect.deck, [0]) is None  # a discard with all tokens
    assert ending_of(RULES, [0] * 50, []) is None


def perfect_deck() -> list[int]:
    """Deck on which every play from slot 0, by turns, scores."""
    wanted = [color * 5 + rank for color in range(5) for rank in range(5)]
    deck: list[int] = [-1] * 50
    table = PythonGame(RULES, full_deck(RULES))
    for card in wanted:
        deck[table.hands[table.player][0]] = card
        table.hands[table.player].pop(0)
        table.hands[table.player].append(table.drawn)
        table.drawn += 1
        table.turn += 1
    left = Counter(full_deck(RULES)) - Counter(wanted)
    rest = iter(sorted(left.elements()))
    return [card if card >= 0 else next(rest) for card in deck]


def speedrun(*moves: str, options: dict | None = None) -> dict:
    """Eight points, then Alice hints and Bob makes the first of `moves`, and so on by turns.

    Moves such as "discard 1" count slots from 1; Bob holds Y5 G2 G4 W1 W3, Alice Y4 G1 G3 G5 G4.
    """
    deck = perfect_deck()
    w2, g4 = deck.index(16), 49 - deck[::-1].index(13)  # the second green 4, far below
    deck[w2], deck[g4] = deck[g4], deck[w2]
    table = PythonGame(RULES, deck)
    for _ in range(8):
        table.apply(encode_action(RULES, Move("play", slot=0)))
    table.apply(encode_action(RULES, Move("rank", offset=1, value=4)))
    for move in moves:
        kind, slot = move.split()
        table.apply(encode_action(RULES, Move(kind, slot=int(slot) - 1)))
    record = game_to_json(RULES, table.deck, table.actions, game_id=7)
    return record | {"options": {"speedrun": True} if options is None else options}


FAILED = {
    "a 5 is discarded": (("discard 1",), "turn 9 lost the last Y5"),
    "a 5 is misplayed": (("play 1",), "turn 9 lost the last Y5"),
    "it went on": (("discard 1", "play 1"), "turn 9 lost the last Y5"),
    "the second of two copies": (("discard 3", "play 5"), "turn 10 lost the last G4"),
}


@pytest.mark.parametrize(("moves", "message"), FAILED.values(), ids=FAILED)
def test_failed_speedrun_is_rejected(moves: tuple[str, ...], message: str) -> None:
    """The site ends the game with score 0; by the standard rules it has 8 points."""
    record = speedrun(*moves)
    with pytest.raises(SiteGameError, match=f"option speedrun: {message}") as caught:
        game_from_json(record)
    assert caught.value.ended == "failed speedrun"
    assert game_from_json(record, failed_speedruns=True).score >= 8
    assert game_from_json(record | {"options": {}}).score >= 8


def test_other_speedruns_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for moves in ((), ("discard 2",), ("play 3",)):  # other copies remain
        assert game_from_json(speedrun(*moves)).score == 8
    missed = _parse(7, 200, json.dumps(speedrun("discard 1")).encode())
    assert len(missed.actions) == 10  # with the option, the game ends there
    lost = game_from_json(speedrun("play 2", "play 3", "play 1"))
    assert lost.score == 0  # three strikes count before the last Y5
    path = tmp_path / "games.json"
    path.write_text(json.dumps([speedrun("discard 1"), speedrun("discard 2")]))
    with pytest.raises(SystemExit):
        main(["data", "info", str(path)])
    assert "game 0 (game_id 7): option speedrun: turn 9 lost" in capsys.readouterr().err
    main(["data", "info", str(path), "--skip-invalid"])
    assert "skipped; by ending: 1 failed speedrun" in capsys.readouterr().err


def test_one_surplus_move_message_is_singular() -> None:
    assert surplus_text("the link", 1, 1).endswith("from 1 of 1 game")
