"""Agents in other processes: the documented one plays, and failures are reported."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from support.games import ROOT
from support.indistinguishable import pairs, random_game
from support.observations import observations

from hanabi_rl.agents.process import ProcessAgent, answer_error, make_question
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.player_view import player_view
from hanabi_rl.people.serve.process import ProcessPartners, ProcessPlayer

AGENT = ROOT / "docs/examples/agent.py"


@pytest.fixture
def agent() -> str:
    """The command of the documented agent."""
    return shlex.join([sys.executable, str(AGENT)])


@contextlib.contextmanager
def program(text: str, timeout_s: float = 60.0) -> Iterator[ProcessAgent]:
    command = shlex.join([sys.executable, "-u", "-c", text])
    with contextlib.closing(ProcessAgent(command, timeout_s)) as running:
        yield running


ECHO = """import json, sys
for line in sys.stdin:
    query = json.loads(line)
"""


def test_documented_agent_plays_whole_games(agent: str, tmp_path: Path) -> None:
    """It uses its own observations: no unknown card costs a life."""
    rules = Rules()
    with contextlib.closing(ProcessPartners(rules, agent)) as partners:
        game = random_game(rules, 3, turns=0, seat=0)
        table = game.table()
        while not table.over:
            now = type(game)(7, rules, game.deck, frozenset(), tuple(table.actions))
            (answer,) = partners.partner_action([now])
            assert answer.probabilities[answer.action] == 1.0 == answer.probabilities.sum()
            table.apply(answer.action)
    assert table.life_tokens == 3 and table.points > 5


def test_server_and_table_queries_are_equal(agent: str) -> None:
    """Decoded observations and table views of a game give the same moves."""
    rules = Rules()
    game = random_game(rules, 3, turns=12, seat=0)
    seen = observations(rules, [(game.deck, game.moves)])[0]
    with (
        contextlib.closing(ProcessPlayer(rules, agent)) as seated,
        contextlib.closing(ProcessPartners(rules, agent)) as partners,
    ):
        seated.begin({"game_id": 7, "candidate_controlling": ["agent_0"]})
        for turn in range(game.turn):
            legal = np.zeros(rules.num_actions)
            action = seated.act({"agent_0": {"obs": seen[turn, 0], "legal_moves": legal}})
            if turn % 2:
                assert action == {"agent_0": rules.noop}
                continue
            before = type(game)(7, rules, game.deck, frozenset(), game.moves[:turn])
            assert action == {"agent_0": partners.partner_action([before])[0].action}


def test_query_hides_cards_and_lists_legal_moves() -> None:
    for game, other, seat in pairs(Rules(), 40):
        if game.current_player != seat:
            continue
        question, same = (make_question(7, player_view(one, seat)) for one in (game, other))
        assert orjson.dumps(question) == orjson.dumps(same)
        table = game.table()
        allowed = [a for a in range(20) if table.illegal_reason(a) is None]
        assert [option["action"] for option in question["legal"]] == allowed
        assert question["last"] == question["view"]["log"][-1:]


def test_illegal_answer_is_queried_again_with_reason() -> None:
    answers = "['no JSON', '[]', '{\"action\": 20}', '{\"action\": true}']"
    text = ECHO + f"    wrong = {answers}\n"
    text += "    error = query.get('error', '')\n    n = globals().setdefault('n', [])\n"
    text += "    n.append(error)\n    print(wrong[len(n) - 1] if len(n) <= 4 else "
    text += "json.dumps({'action': len([s for s in n if 'expected' in s])}))\n"
    game = random_game(Rules(), 0, turns=4, seat=0)
    with program(text) as running:
        assert running.move(1, player_view(game, 0)) == 4  # after four errors


def test_byte_order_mark_is_ignored() -> None:
    """.NET's console writes one before its first line."""
    text = ECHO + "    print('\\ufeff' + json.dumps({'action': 4}))\n"
    game = random_game(Rules(), 0, turns=4, seat=0)
    with program(f"import sys; sys.stdout.reconfigure(encoding='utf-8')\n{text}") as running:
        question = make_question(1, player_view(game, 0))
        assert answer_error(running._query(question), {4}, player_view(game, 0)) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sys; sys.exit(3)", "got exit status 3"),
        ("import time; time.sleep(60)", "got no answer within 0.5 s"),
        (
            ECHO + "    print('hm')",
            "got 10 invalid answers in game 1, turn 5, seat 0, the last: exp",
        ),
        pytest.param(
            ECHO + "    sys.stdout.write('x' * 2**21)",
            "got an answer of more than 1,048,576 bytes",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_failing_process_error_is_specific(text: str, reason: str) -> None:
    game = random_game(Rules(), 0, turns=4, seat=0)
    slow = 0.5 if "sleep" in text else 60.0
    with program(text, slow) as running, pytest.raises(ValueError, match=reason):
        running.move(1, player_view(game, 0))


def test_late_answer_is_dropped(tmp_path: Path) -> None:
    """A process that was too slow is ended; a new one answers for the current position."""
    text = (
        "import os, time\n"
        + ECHO
        + f"    first = not os.path.exists({str(tmp_path / 'there')!r})\n"
    )
    text += f"    open({str(tmp_path / 'there')!r}, 'w').close()\n    time.sleep(1.5 * first)\n"
    text += "    print(json.dumps({'action': query['legal'][-1 if first else 0]['action']}))"
    game = random_game(Rules(), 0, turns=4, seat=0)
    view = player_view(game, 0)
    legal = make_question(1, view)["legal"]
    with program(text, 1.0) as running:
        with pytest.raises(ValueError, match="got no answer within 1 s"):
            running.move(1, view)
        time.sleep(1.0)  # the first process has answered now
        assert running.move(1, view) == legal[0]["action"] != legal[-1]["action"]


def test_extra_output_is_not_an_answer() -> None:
    """Extra output before the first answer and after each one."""
    text = (
        "print('hello')\n" + ECHO + "    n = globals().setdefault('n', [])\n    n.append(query)\n"
    )
    text += "    sys.stdout.write(json.dumps({'action': len(n) - 1}) + '\\nthought so\\n')\n"
    text += "    sys.stdout.flush()"
    view = player_view(random_game(Rules(), 0, turns=4, seat=0), 0)
    with program(text) as running:
        moves = []
        for _ in range(3):
            moves.append(running.move(1, view))
            time.sleep(0.5)  # the others move
    # the first query is repeated if it was sent before the greeting
    assert moves in ([0, 2, 3], [0, 1, 2])


def test_missing_program_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="--process: expected a program to start, got .*no-such"):
        ProcessAgent("no-such-program --x").move(1, player_view(random_game(Rules(), 0, 0, 0), 0))
    with pytest.raises(ValueError, match="expected a command, got nothing"):
        ProcessAgent(" ")
    with pytest.raises(SystemExit):
        main(["play", "bot:iggi", "--process", "true"])
    assert "expected agents or --process COMMAND, got both: bot:iggi" in capsys.readouterr().err


def test_process_gets_no_key_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANABI_RL_KEY", "secret")
    text = (
        "import os\n" + ECHO + "    print(json.dumps({'action': 'HANABI_RL_KEY' not in os.environ"
    )
    text += " and query['legal'][0]['action']}))"
    game = random_game(Rules(), 0, turns=4, seat=0)
    with program(text) as running:
        assert (
            running.move(1, player_view(game, 0))
            == make_question(1, player_view(game, 0))["legal"][0]["action"]
        )
        assert running._running is not None
        pid = running._running.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_process_plays_in_terminal(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The person always plays the oldest card; the game is saved."""
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(["p 1"] * 60)))
    out = tmp_path / "games"
    main(["play", "--terminal", "--process", agent, "--seed", "1", "--out", str(out)])
    (file,) = out.glob("2p-*.safetensors")
    games = load_games(file)
    assert games.human_seats is not None and games.human_seats.sum() == 1
    assert not games.unfinished.any()
