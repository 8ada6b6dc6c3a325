"""An HTTP client at the pages of a study."""

import json
import re

from hanabi_rl.people.study.requests import StudyCookie

HOST = "study.example"
ADDRESS = "203.0.113.77"


def post(client, path, **fields):
    return client.post(path, data=fields, headers={"origin": f"http://{HOST}"})


def cookie_of(play):
    """Name of a study's cookie."""
    return StudyCookie(play.folder).name


def consent(client):
    """Fields of the form on the consent page."""
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', client.get("/").text))


def agree(client, **fields):
    """Submit the consent form; `fields` override its values."""
    return post(client, "/agree", **consent(client) | fields)


def play_here(client, page):
    """Play the game of a table page to its end; return the frames."""
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
