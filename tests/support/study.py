"""A browser at the pages of a study, without one; and simulated people."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

HOST = "study.example"
ADDRESS = "203.0.113.77"


def post(client, path, **fields):
    return client.post(path, data=fields, headers={"origin": f"http://{HOST}"})


def play_here(client, page):
    """Plays the game of a table's page to its end; the frames."""
    frames = []
    with client.websocket_connect(str(page.url).replace("http", "ws", 1) + "/ws") as socket:
        while True:
            message = json.loads(socket.receive_text())
            if message["type"] != "frame":
                assert message["type"] == "history", message
                continue
            frames.append(message["frame"])
            if frames[-1]["over"]:
                return frames
            allowed = [a for a in frames[-1]["actions"] if a["why_not"] is None]
            if allowed:
                move = {"action": allowed[-1]["id"], "turn": frames[-1]["turn"]}
                socket.send_text(json.dumps(move))


def simulated_study():
    """`benchmarks/simulated_study.py`: people of known effects."""
    name = "simulated_study"
    path = Path(__file__).parents[2] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
