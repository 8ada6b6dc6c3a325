"""Language models at a seat, against a stand-in server of chat completions."""

import contextlib
import dataclasses
import io
import json
import re
import shlex
import sys
import time
import types

import pytest
from support.chat_server import KEY, StandIn, first_legal
from support.games import TINY, deck_of

from hanabi_rl.agents import llm
from hanabi_rl.agents.llm import LanguageModel, LLMConfig
from hanabi_rl.agents.llm_prompt import (
    H_GROUP,
    fallback_move,
    make_messages,
    option_texts,
    parse_answer,
)
from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.process import make_question
from hanabi_rl.cli import main
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.player_view import player_view
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games

TWO = Rules(2)
# dealt in order: you R1 R1 R1 R2 R2, Bob R3 R3 R4 R4 R5; the deck begins Y1 Y1 Y1
DECK = tuple(full_deck(TWO))


def question(*moves: int, rules: Rules = TWO, deck: tuple[int, ...] = DECK):
    seat = len(moves) % rules.num_players
    game = Game(0, rules, deck, frozenset({seat}), tuple(moves))
    return make_question(7, player_view(game, seat))


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Function (stand-in, settings) -> `LanguageModel`, closed after the test."""
    monkeypatch.setattr(llm, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with contextlib.ExitStack() as stack:

        def make(standin, **settings):
            config = LLMConfig("stand-in", base_url=standin.url, **settings)
            return stack.enter_context(
                contextlib.closing(LanguageModel(config, tmp_path / "llm" / "transcript.jsonl"))
            )

        yield make


def transcript(tmp_path):
    text = (tmp_path / "llm/transcript.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_legal_answer(play, tmp_path):
    with StandIn("Red it is.\nMOVE: Hint Bob red") as standin:
        model = play(standin, request={"temperature": 0.5})
        action = model.move(question())
    assert action == 10  # after 5 discards and 5 plays
    assert standin.seen[0][0] == "/v1/chat/completions"
    body = standin.seen[0][1]
    assert body == {
        "model": "stand-in",
        "messages": make_messages(question()),
        "temperature": 0.5,
    }
    assert standin.keys == [f"Bearer {KEY}"]
    (line,) = transcript(tmp_path)
    assert line["request"] == body and line["answer"] == "Red it is.\nMOVE: Hint Bob red"
    assert (line["move"], line["tokens"]) == ("Hint Bob red", 10)
    assert (line["game"], line["seat"], line["turn"]) == (7, 0, 0)
    usage = model.usage
    assert (usage.moves, usage.calls, usage.tokens, usage.illegal, usage.failed) == (1, 1, 10, 0, 0)


def test_illegal_answers_are_named_and_counted(play, tmp_path):
    with StandIn("MOVE: Hint Bob blue", "I pass", "MOVE: play slot 5") as standin:
        model = play(standin)
        assert model.move(question()) == 9
    assert (model.usage.illegal, model.usage.calls, model.usage.fallbacks) == (2, 3, 0)
    last = standin.seen[2][1]["messages"]
    assert [message["role"] for message in last] == ["system", "user"] + 2 * ["assistant", "user"]
    assert last[2]["content"] == "MOVE: Hint Bob blue" and last[4]["content"] == "I pass"
    assert "not one of the legal moves" in last[5]["content"]
    assert "\nHint Bob red" in last[5]["content"] and "blue" not in last[5]["content"]
    assert [line["move"] for line in transcript(tmp_path)] == [None, None, "Play slot 5"]


def test_fallback_after_the_attempts(play, tmp_path):
    with StandIn("no idea") as standin:
        model = play(standin, attempts=2)
        assert model.move(question()) == 10  # all tokens are there: the first legal hint
        # red 3 hinted to Bob, who hints ranks 1, so the oldest card without a hint is the fourth
        assert model.move(question(12 + 5, 15)) == 3
    assert len(standin.seen) == 4
    assert (model.usage.fallbacks, model.usage.illegal) == (2, 4)
    assert transcript(tmp_path)[2] | {"time": ""} == {
        "time": "", "game": 7, "seat": 0, "turn": 0, "fallback": 10, "reason": "no legal answer",
    }  # fmt: skip


BAD_BODIES = [
    b"",
    b"<html>busy</html>",
    b"[1, 2]",
    b'"MOVE: Hint Bob red"',
    b"{}",
    b'{"choices": []}',
    b'{"choices": [{"message": {}}]}',
    b'{"choices": [{"message": {"content": ["a"]}}]}',
    b'{"choices": 3}',
    b"\xff\xfe\x00",
    b"[" * 5000,
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body[:40]))
def test_garbage_is_not_fatal(play, body):
    with StandIn("MOVE: Hint Bob red", body) as standin:
        model = play(standin)
        assert model.move(question()) == 10
        assert model.move(question(10)) == fallback_move(question(10))
    assert model.usage.fallbacks == 1 and model.usage.failed + model.usage.illegal == 3


def test_failed_calls_are_repeated(play, tmp_path):
    with StandIn(500, 429, "MOVE: Hint Bob red") as standin:
        model = play(standin)
        assert model.move(question()) == 10
    assert (model.usage.failed, model.usage.calls, model.usage.fallbacks) == (2, 3, 0)
    assert len({json.dumps(body) for _, body in standin.seen}) == 1  # the same question
    errors = [line.get("error") for line in transcript(tmp_path)]
    assert "InternalServerError" in errors[0] and "RateLimitError" in errors[1]


@pytest.mark.parametrize(("timeout_s", "calls"), [(0.2, 2), (60, 1)])
def test_slow_answers(play, timeout_s, calls):
    with StandIn("MOVE: Hint Bob red", 5.0) as standin:
        model = play(standin, attempts=9)
        model.move(question())
        limits = {"timeout_s": timeout_s, "move_timeout_s": 0.4}
        model.config = dataclasses.replace(model.config, **limits)
        start = time.monotonic()
        assert model.move(question(10)) == fallback_move(question(10))
        assert 0.3 < time.monotonic() - start < 4
    assert model.usage.failed == calls and model.usage.fallbacks == 1
    assert 0.3 < model.usage.seconds < 4


def test_timeout_covers_an_answer_that_drips(play, monkeypatch):
    """The client's own timeout restarts with every byte."""

    def drip(self, answer):
        self.send_response(200)
        self.end_headers()
        for _ in range(100):
            self.wfile.write(b" ")
            time.sleep(0.05)

    with StandIn("MOVE: Hint Bob red") as standin:
        model = play(standin, attempts=1)
        model.move(question())
        model.config = dataclasses.replace(model.config, timeout_s=0.3)
        standin.server.RequestHandlerClass.reply = drip
        start = time.monotonic()
        model.move(question(10))
        assert time.monotonic() - start < 4
    assert model.usage.failed == 1


def test_pause_that_the_server_asks_for(play, monkeypatch):
    pauses = []
    clock = types.SimpleNamespace(**{**vars(time), "sleep": pauses.append})
    monkeypatch.setattr(llm, "time", clock)
    with StandIn("MOVE: Play slot 1", 500, "MOVE: Play slot 1") as standin:
        handler = standin.server.RequestHandlerClass
        end, handler.retry_after = handler.end_headers, None

        def end_headers(self):
            if self.retry_after:
                self.send_header("Retry-After", self.retry_after)
            end(self)

        handler.end_headers = end_headers
        model = play(standin)
        model.move(question())
        handler.retry_after = "2"
        model.move(question(10))
        standin.answers, handler.retry_after = [500, "MOVE: Play slot 1"], "nan"
        model.move(question(10, 15))
        standin.answers, handler.retry_after = [500], "600"  # longer than the move may take
        model.move(question(17))
        assert model.usage.fallbacks == 1
    assert pauses == [2, llm.FIRST_PAUSE_S]  # no second call after 600 s


@pytest.mark.parametrize(
    ("budget", "calls"), [({"max_calls": 2}, 2), ({"max_tokens": 25}, 3), ({"max_seconds": 0}, 0)]
)
def test_budgets(play, tmp_path, budget, calls):
    with StandIn("MOVE: Hint Bob red") as standin:
        model = play(standin, **budget)
        for number in range(5):
            asked = question(*[10, 16, 11][:number], deck=DECK[number:] + DECK[:number])
            assert model.move(asked) in {option["action"] for option in asked["legal"]}
    name, limit = next(iter(budget.items()))
    assert len(standin.seen) == model.usage.calls == calls
    assert model.usage.fallbacks >= 5 - calls
    reason = f"budget of {limit} {name.removeprefix('max_')} spent"
    assert transcript(tmp_path)[-1]["reason"] == reason


def test_tokens_are_estimated_if_not_reported(play):
    with StandIn("MOVE: Hint Bob red", usage=None) as standin:
        model = play(standin)
        model.move(question())
    size = len(json.dumps(make_messages(question()))) + len("MOVE: Hint Bob red")
    assert model.usage.tokens == size // 4


@pytest.mark.parametrize("status", [401, 403, 404])
def test_refused_key_or_model_ends_the_program(play, status):
    with StandIn("MOVE: Hint Bob red", status) as standin:
        model = play(standin)
        model.move(question())
        with pytest.raises(ValueError, match=rf"^http://127.*/v1/: .*{status}.*not you, \*\*\*"):
            model.move(question(10))


def test_first_move_without_any_answer_ends_the_program(play):
    refused = pytest.raises(ValueError, match=r"InternalServerError.*\(3 calls\)")
    with StandIn(500) as standin, refused:
        play(standin).move(question())
    with pytest.raises(ValueError, match=r"APIConnectionError"):
        play(standin).move(question())


def test_key_is_never_written(play, tmp_path):
    with StandIn(f"my key is {KEY}", 500, "MOVE: Hint Bob red") as standin:
        model = play(standin)
        model.move(question())
    assert model.usage.failed == model.usage.illegal == 1
    text = (tmp_path / "llm/transcript.jsonl").read_text()
    assert KEY not in text and text.count("***") == 4  # the answer is part of two requests


def test_transcript_answers_again(play, tmp_path):
    """Illegal answers too: the same moves, without a call; also after a line that was cut."""
    with StandIn("I pass", "MOVE: Hint Bob red") as standin:
        assert play(standin).move(question()) == 10
        with (tmp_path / "llm/transcript.jsonl").open("a") as file:
            file.write('{"request": {"model": "small"}')
        play(standin)
        with (tmp_path / "llm/transcript.jsonl").open("a") as file:
            file.write('{"answer": "MO')
        again = play(standin)
        assert again.move(question()) == again.move(question()) == 10
        assert (again.usage.calls, again.usage.reused, len(standin.seen)) == (0, 2, 2)
        assert again.usage.moves == 1  # the second time it is the same question
        other = play(standin, request={"temperature": 1})
        assert other.move(question()) == 10 and other.usage.calls == 1
    with StandIn("MOVE: Play slot 1") as elsewhere:
        assert play(elsewhere).move(question()) == 5
    lines = (tmp_path / "llm/transcript.jsonl").read_text().splitlines()
    assert len(lines) == 6 and "answer" in json.loads(lines[-1])


def test_prompt_in_words():
    deck = tuple(deck_of("R1 Y2 B5 G3 W1 R3 R1 G4 Y1 B1"))
    # you: tell Bob red; Bob: tell you 1; you: discard the second card; Bob: play R1
    asked = question(10, 15, 1, 6, deck=deck)
    system, user = make_messages(asked, conventions="Be kind.")
    assert "with 2 players" in system["content"] and "Be kind.\n" in system["content"]
    assert system["content"].endswith("MOVE: Hint Bob 4")
    assert user["content"].startswith(
        "Turn 5. Hint tokens: 7 of 8. Lives: 3 of 3. Cards in the deck: 38.\n"
        "Fireworks: red 1, yellow 0, green 0, white 0, blue 0\n"
        "Discarded: Y2\n"
        "Your hand:\n"
        "  slot 1: hinted 1, can be RYGWB 1\n"
        "  slot 2: no hint, can be RYGWB 2345\n"
        "  slot 3: no hint, can be RYGWB 2345\n"
        "  slot 4: hinted 1, can be RYGWB 1\n"
        "  slot 5: no hint, can be RYGWB 12345\n"
        "Bob's hand, and what Bob knows of it:\n"
        "  slot 1: R3, hinted R, can be R 12345\n"
        "  slot 2: G4, no hint, can be YGWB 12345\n"
    )
    moves, legal = re.fullmatch(
        r".*Moves so far:\n(.*)\nLegal moves:\n(.*)", user["content"], re.DOTALL
    ).groups()
    assert moves.splitlines() == [
        "1. You hint Bob red: slots 1, 2",
        "2. Bob hints you 1: slots 1, 5",
        "3. You discard slot 2: Y2",
        "4. Bob plays slot 2: R1",
    ]
    assert legal.splitlines() == [option["text"] for option in asked["legal"]]


def test_prompt_in_openspiel_notation():
    system, user = make_messages(question(10), "openspiel", H_GROUP)
    assert "H-Group" in system["content"] and "XX is a card" in system["content"]
    assert "Cur player\nXX || RX|R12345\n" in user["content"]
    options = list(option_texts(question(10), "openspiel"))
    assert options[:6] == [*(f"(Discard {slot})" for slot in range(5)), "(Play 0)"]
    assert options[-2:] == ["(Reveal player +1 rank 1)", "(Reveal player +1 rank 2)"]
    assert parse_answer("MOVE: (Reveal player +1 rank 2)", options) == len(options) - 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("MOVE: Play slot 1", 0),
        ("move: (play SLOT 1).", 0),
        ("Not MOVE: Play slot 1 but\n**MOVE: Hint Bob red**\n", 1),
        ("MOVE: Hint Bob red\nas I said", 1),
        ("`Hint Bob red`", 1),
        ("I could play it.\nHint Bob red", None),
        ("MOVE: Play slot 11", None),
        ("MOVE: Play slot 1 or Hint Bob red", None),
        ("MOVE:", None),
        ("", None),
    ],
)
def test_answers(text, found):
    assert parse_answer(text, ["Play slot 1", "Hint Bob red"]) == found


def test_fallback_never_plays_if_it_can_help_it():
    asked = question(10)
    for card in asked["view"]["hands"][1]:
        card["color"] = 0
    assert fallback_move(asked) == 10  # all hinted: a hint
    asked["legal"] = [option for option in asked["legal"] if option["target"] is None]
    assert fallback_move(asked) == 0
    asked["legal"] = [option for option in asked["legal"] if option["kind"] == "play"]
    assert fallback_move(asked) == 5


def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MY_KEY", KEY)
    (tmp_path / "table.txt").write_text("Play fast.")
    asked = [question(), question(10), question()]
    text = "".join(f"{json.dumps(one)}\n" for one in asked)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    with StandIn(first_legal) as standin:
        main([
            *("llm", "some/model", "--base-url", standin.url, "--key-variable", "MY_KEY"),
            *("--request", '{"top_p": 1}', "--conventions", str(tmp_path / "table.txt")),
            *("--notation", "openspiel", "--out", str(tmp_path / "llm")),
        ])  # fmt: skip
    out, err = capsys.readouterr()
    expected = [{"action": one["legal"][0]["action"]} for one in asked]
    assert [json.loads(line) for line in out.splitlines()] == expected
    assert "some/model: 2 moves (0 by the fallback rule), 2 calls (0 failed)" in err
    assert standin.keys == [f"Bearer {KEY}"] * 2
    body = standin.seen[0][1]
    assert body["top_p"] == 1 and "Play fast." in body["messages"][0]["content"]
    assert transcript(tmp_path)[0]["move"] == "(Play 0)"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--request", "[]"], "--request: expected a JSON object"),
        (["--request", '{"model": "x"}'], "--request: expected a JSON object"),
        (["--conventions", "no.txt"], "--conventions: expected a text file, got no.txt"),
        (["--attempts", "0"], "attempts"),
    ],
)
def test_flags(flags, problem, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SystemExit):
        main(["llm", "some/model", *flags])
    assert problem in capsys.readouterr().err


@pytest.mark.slow
def test_command_in_games(tmp_path, monkeypatch):
    """`hanabi-rl llm` as an agent's name: two games, every move in the transcript."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    decks = evaluation_decks(TINY, 2, seed=0)
    with StandIn(first_legal) as standin:
        command = [
            *(sys.executable, "-m", "hanabi_rl", "llm", "some/model"),
            *(
                "--base-url",
                standin.url,
                "--conventions",
                "h-group",
                "--out",
                str(tmp_path / "llm"),
            ),
        ]
        agent = load_policy(f"process:{shlex.join(command)}", TINY)
        games = play_games((agent, load_policy("bot:random", TINY)), TINY, decks)
    lines = transcript(tmp_path)
    assert {line["request"]["model"] for line in lines} == {"some/model"}
    assert all(H_GROUP in line["request"]["messages"][0]["content"] for line in lines)
    turns = []
    for game in range(2):
        table = PythonGame(TINY, decks[game])
        for turn, action in enumerate(games.moves(game)):
            if table.player == 0:
                legal = [a for a in range(TINY.noop) if table.illegal_reason(a) is None]
                assert action == legal[0]
                turns.append(turn)
            table.apply(action)
    assert sorted(line["turn"] for line in lines) == sorted(turns)
