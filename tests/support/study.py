"""A browser at the pages of a study, without one."""

from __future__ import annotations

import json
import re

from hanabi_rl.people.study.requests import StudyCookie

HOST = "study.example"
ADDRESS = "203.0.113.77"


def post(client, path, **fields):
    return client.post(path, data=fields, headers={"origin": f"http://{HOST}"})


def cookie_of(play):
    """The name of the cookie of a study."""
    return StudyCookie(play.folder).name


def consent(client):
    """The fields of the form on the consent page."""
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', client.get("/").text))


def agree(client, **fields):
    """Presses the button of the consent page; `fields` in the place of its own."""
    return post(client, "/agree", **consent(client) | fields)


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
