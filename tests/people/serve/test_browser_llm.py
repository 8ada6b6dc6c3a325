"""A game in Chromium with a language model at the other seat, from the page to the transcript."""

import json
import os
import shlex
import signal
import subprocess
import sys

from support.browser import NEEDS_BROWSER, move_by_keys, my_turn
from support.chat_server import KEY, StandIn, first_legal

from hanabi_rl.data.files import load_games

pytestmark = NEEDS_BROWSER


def test_game_with_language_model(open_page, tmp_path):
    """Every third answer is nonsense: the fallback rule moves and the game goes on."""
    calls = 0

    def answer(body):
        nonlocal calls
        calls += 1
        return first_legal(body) if calls % 3 else "I would rather not."

    with StandIn(answer) as standin:
        model = [sys.executable, "-m", "hanabi_rl", "llm", "some/model"]
        model += ["--base-url", standin.url, "--attempts", "1", "--out", str(tmp_path / "llm")]
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "hanabi_rl", "play", "--process", shlex.join(model)),
                *("--no-browser", "--port", "0", "--move-delay", "0"),
                *("--out", str(tmp_path / "games")),
            ],
            env=os.environ | {"PYTHONUNBUFFERED": "1", "OPENAI_API_KEY": KEY},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            page = open_page(server.stdout.readline().split()[4])
            number = 0
            while my_turn(page):
                move_by_keys(page, number)
                number += 1
            title = page.locator("h1").inner_text()
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=60)
    [file] = (tmp_path / "games").glob("*.safetensors")
    games = load_games(file)
    assert title == f"Game over: {games.scores[0]} of 25 points"
    lines = map(json.loads, (tmp_path / "llm" / "transcript.jsonl").read_text().splitlines())
    turns = {line["turn"] for line in lines}
    moves = len(games.moves(0))
    assert moves - number == len(turns) > 3 and calls == len(turns)
    assert turns in (set(range(0, moves, 2)), set(range(1, moves, 2)))
