"""A whole participant's path over HTTP and the socket, and what of it is kept, told and deleted."""

import json
import logging
import re

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from support.serving import make_study_play

from hanabi_rl.agents.names import load_policy
from hanabi_rl.algorithms.bc import run_bc
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.data.files import load_games
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.serve.study_export import export_study
from hanabi_rl.serve.study_pages import COOKIE, make_study

ADDRESS = "203.0.113.77"
AGREE = {"version": "3"}
NAMES = ("bot:quartz", "bot:onyx")  # no words of any page


def client_of(play):
    """A browser of its own, at an address that can be searched for."""
    return TestClient(make_study(play, pause=0), client=(ADDRESS, 50000))


def files(folder):
    """Everything that is kept, as text."""
    return {p.name: p.read_text() for p in folder.rglob("*") if p.is_file()}


def play_game(client, page):
    """Plays the game that `page` is the table of to its end; everything the socket said."""
    game_id = int(re.fullmatch(r"/game/(\d+)", page.url.path)[1])
    heard = []
    with client.websocket_connect(f"ws://testserver/game/{game_id}/ws") as socket:
        while True:
            heard.append(socket.receive_text())
            message = json.loads(heard[-1])
            if message["type"] != "frame":
                continue
            frame = message["frame"]
            if frame["over"]:
                return game_id, heard
            allowed = [a for a in frame["actions"] if a["why_not"] is None]
            if allowed:
                socket.send_text(json.dumps({"action": allowed[-1]["id"], "turn": frame["turn"]}))


def take_part(client):
    """From consent to the end; the last page, every text that was seen, the ids of the games."""
    seen, ids = [], []
    page = client.post("/agree", data=AGREE)
    while "Thank you!" not in page.text:
        seen.append(page.text)
        if page.url.path.startswith("/game/"):
            game_id, heard = play_game(client, page)
            ids.append(game_id)
            seen += heard
            page = client.get("/next")
        else:
            step = re.search(r'name="step" value="([^"]+)"', page.text)[1]
            answers = {
                "before": {"q_played": "y"},
                "end": {"rank_0": "2", "rank_1": "1"},
            }.get(step, {"q_trust": "7", "q_again": "", "q_human": "8", "q_remarks": " fine "})
            page = client.post("/answer", data={"step": step} | answers)
    return page, seen, ids


def test_nothing_is_kept_before_consent(tmp_path):
    play = make_study_play(tmp_path)
    with client_of(play) as client:
        before = files(tmp_path)
        text = client.get("/").text
        assert "We record moves." in text and "A. Example" in text and "a@example.org" in text
        assert "Nothing was stored" in client.get("/no").text
        for path in ("/next", "/game/1"):
            assert client.get(path).url.path == "/"
        for wrong in ({}, {"version": "2"}):
            assert client.post("/agree", data=wrong).url.path == "/"
        client.post("/answer", data={"step": "before", "q_played": "y"})
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect("ws://testserver/game/1/ws"),
        ):
            pass
        foreign = client.post("/agree", data=AGREE, headers={"origin": "http://evil.example"})
        assert foreign.status_code == 403
        assert not client.cookies and files(tmp_path) == before


def test_a_whole_path_from_consent_to_an_export(tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    play = make_study_play(tmp_path / "state", agents=[{"name": name} for name in NAMES])
    with client_of(play) as client:
        page, seen, ids = take_part(client)
        code = client.cookies[COOKIE]
        for name in NAMES:  # who it was is told at the end alone
            assert f"<code>{name}</code>" in page.text
            assert not any(name in text or "identity of" in text for text in seen)
        assert "DONE-7" in page.text and code in page.text
    out = tmp_path / "out" / "games.safetensors"
    out.parent.mkdir()
    assert export_study(play.folder, out) == 2
    games = load_games(out)
    assert games.game_ids.tolist() == ids and games.human_seats.sum(1).tolist() == [1, 1]
    lines = [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]
    for line, moves in zip(lines, map(games.moves, range(2)), strict=True):
        assert line["answers"] == {"trust": 7, "remarks": "fine"}  # 8 is no point of the scale
        assert line["consent_version"] == "3" and len(line["times_ms"]) == len(moves)
    assert {line["agent"] for line in lines} == set(NAMES)
    person = json.loads(out.with_suffix(".participants.jsonl").read_text())
    ranking = {person["order"][0]: 2, person["order"][1]: 1}
    assert person["before"] == {"played": "y"} and person["end"] == {"ranking": ranking}
    kept = "".join(files(tmp_path / "state").values())
    exported = "".join(p.read_text(errors="replace") for p in out.parent.iterdir())
    printed = "".join(capfd.readouterr())
    for secret in (code, code[7:], ADDRESS, COOKIE):
        for where in (kept, exported, caplog.text, printed):
            assert secret not in where


def test_who_withdraws_is_in_no_later_export_and_nobody_else_is_touched(tmp_path):
    play = make_study_play(tmp_path / "state")
    out = tmp_path / "games.safetensors"
    with client_of(play) as client, client_of(play) as other:
        _, _, gone = take_part(client)
        _, _, stay = take_part(other)
        assert other.get(f"/game/{gone[0]}").status_code == 404  # each sees their own
        code = client.cookies[COOKIE]
        assert export_study(play.folder, out) == 4
        wrong = other.post("/withdraw", data={"code": code[:-1] + "!"})
        assert "Nobody takes part" in wrong.text and code[:-1] not in wrong.text
        assert "are deleted" in client.post("/withdraw", data={"code": code}).text
        assert COOKIE not in client.cookies and client.get("/next").url.path == "/"
    assert export_study(play.folder, out) == 2
    assert load_games(out).game_ids.tolist() == stay
    left = "".join(files(tmp_path / "state").values())
    lines = (
        out.with_suffix(".jsonl").read_text() + out.with_suffix(".participants.jsonl").read_text()
    )
    for game_id in gone:
        assert str(game_id) not in left + lines
    assert lines.count(f'"participant": {int(code[:6])},') == 0
    assert (tmp_path / "state" / "audit.jsonl").read_text().count("withdrawn") == 1


def test_a_reload_and_a_new_server_go_on_and_stopping_leads_to_the_end(tmp_path):
    play = make_study_play(tmp_path)
    with client_of(play) as client:
        client.post("/agree", data=AGREE)
        table = client.post("/answer", data={"step": "before"})
        assert client.get("/next").url == table.url
        cookie = client.cookies[COOKIE]
    with client_of(make_study_play(tmp_path)) as client:
        client.cookies.set(COOKIE, cookie)
        assert client.get("/").url.path == table.url.path
        page = client.post("/stop")
        assert "Thank you!" in page.text and "first" not in page.text  # met nobody
        assert client.get("/").url.path == "/next"


@pytest.mark.slow
def test_a_clone_trains_on_an_export(tmp_path):
    play = make_study_play(tmp_path / "state")
    for _ in range(6):
        with client_of(play) as client:
            take_part(client)
    out = tmp_path / "games.safetensors"
    assert export_study(play.folder, out) == 12
    run_bc(
        BCConfig(
            data=(str(out),),
            network=NetworkConfig(embedding=(8,), lstm=(8,), decoder=(8,), critic=(8,)),
            batch_size=4,
            epochs=2,
            selfplay_games=64,
            report_games=1000,
            tensorboard=False,
            run_dir=str(tmp_path / "run"),
        )
    )
    assert load_policy(tmp_path / "run").rules == play.rules
