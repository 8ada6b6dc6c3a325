"""Games as text: typed, piped, interrupted."""

import dataclasses
import io
import itertools
import os
import subprocess
import sys

import pytest
from support.games import TINY
from support.serving import Simple

from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.annotate import annotate
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.folder import GameFolder
from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.local import LocalPlay
from hanabi_rl.people.serve.terminal import play_terminal, read_action, table_text, watch_terminal


def test_piped_game_is_saved(make_play, tmp_path):
    play, output = make_play(Rules()), []
    lines = (line for _ in range(40) for line in ("h 1", "h r", "d 1", "p 1", "nonsense"))
    play_terminal(play, lines, output.append)
    game = play.game(max(play._games))
    assert game.end_reason == "finished"
    text = "\n".join(output)
    assert f"The game is over: {game.table().score} of 25 points." in text
    assert "https://hanab.live/shared-replay-json/" in text
    saved = load_games(tmp_path / "games" / f"2p-{game.game_id}.safetensors")
    assert tuple(saved.moves(0)) == game.moves


def test_terminal_announces_partner_memory(tmp_path):
    output = []
    for _ in range(2):
        folder = GameFolder(tmp_path)
        play = LocalPlay(TINY, ["simple"], Simple(), folder, 0, ["identity"], True)  # a new process
        play_terminal(play, itertools.cycle(["p 1"]), output.append)
    notes = [line for line in output if "--reset-memory" in line]
    assert "no games with you yet" in notes[0] and "you played in 1 game (" in notes[1]


def test_game_resumes_after_end_of_input(make_play):
    play, output = make_play(Rules()), []
    play_terminal(play, ["\ufeffh 1", "p 2"], output.append)  # piped from an editor's file
    assert "repeat the command" in output[-1] and not any("Invalid" in text for text in output)
    game = play.current()
    assert game.turn == 4 and make_play(Rules()).current() == game


def test_own_cards_are_hidden_until_end(make_play):
    play, output = make_play(Rules()), []
    play_terminal(play, ["table", "help", "quit"], output.append)
    frame = play.frame(play.current().game_id)
    rows = [line for text in output for line in text.split("\n") if line.startswith("> You")]
    assert len(rows) == 2 and all(row.split()[2:] == ["??"] * 5 for row in rows)
    assert table_text(frame) in "\n".join(output)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("p 2", "Play slot 2"),
        ("play 5", "Play slot 5"),
        ("h bob 1", None),
        ("h b 1", None),
        ("hint 1 1", None),
        ("tell 2 4", None),
        ("t 2 4", None),
    ],
)
def test_valid_input_is_parsed(make_play, typed, text):
    play = make_play(Rules(num_players=3), seed=2)
    frame = play.frame(play.new_game().game_id)
    frame["actions"] = [action | {"why_not": None} for action in frame["actions"]]
    action = next(
        a for a in frame["actions"] if a["id"] == read_action(frame, typed.lower().split())
    )
    recipient, value = typed.split()[-2:]
    if text is None:
        name = {"bob": "Bob", "b": "Bob", "1": "Bob", "2": "Cathy"}[recipient]
        text = f"Hint {name} {value}"
    assert action["text"] == text


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("x 1", "expected p, d or h"),
        ("p", "expected p, d or h"),
        ("p 9", "no such move: 'p 9'"),
        ("h 1", "no such move"),  # ambiguous recipient
        ("h dora 1", "no such move"),
        ("d 1", "all hints are available"),
    ],
)
def test_invalid_input_is_explained(make_play, typed, answer):
    play = make_play(Rules(num_players=3))
    frame = play.frame(play.new_game().game_id)
    with pytest.raises(RefusedError, match=answer):
        read_action(frame, typed.split())


def test_watching_shows_moves_with_probabilities(make_play):
    play, output = make_play(Rules(), watch=True), []
    watch_terminal(play, [""] * 200, output.append)
    game = play.game(max(play._games))
    assert game.status == "done"
    text = "\n".join(output)
    assert text.count("Alice's hand") == 0 and text.count("█") > game.turn
    for note in annotate(game.rules, game.deck, game.moves)[:-1]:  # with the knowledge at that time
        assert f" ({note.kind}" in text
    assert f"The game is over: {game.table().score} of 25 points." in text
    play, output = make_play(Rules(), watch=True), []
    watch_terminal(play, [], output.append)
    assert play.current().turn == 1


def test_more_agents_than_seats_are_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["play", "bot:random", "bot:random", "--players", "2", "--terminal"])
    assert stop.value.code == 2
    assert "expected 1 agent for 2 players, got 2" in capsys.readouterr().err


def test_two_partners_make_three_player_game(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.StringIO("h 2 1\nquit\n"))
    main(["play", "bot:random", "bot:random", "--terminal", "--seed", "4", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert "With bot:random, bot:random." in out
    assert "> You" in out and "  Bob" in out and "  Cathy" in out


@pytest.mark.slow  # a separate process
def test_command_plays_through_pipe(tmp_path):
    """`hanabi-rl play --terminal` with a real partner, moves on stdin, as a separate process."""
    command = [sys.executable, "-m", "hanabi_rl", "play", "bot:random", "--terminal", "--seed", "1"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)],
        input="p 1\n" * 60,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    assert "The game is over" in done.stdout
    (path,) = tmp_path.glob("2p-*.safetensors")
    games = load_games(path)
    assert len(games) == 1 and games.human_seats.tolist() == [[True, False]]
    assert f"{games.scores[0]} of 25 points" in done.stdout
    assert dataclasses.asdict(games.rules) == dataclasses.asdict(Rules())
