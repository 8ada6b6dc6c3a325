"""A study over HTTP, as a browser walks through it."""

import json
import logging

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from support.serving import make_study_play, walk_through

from hanabi_rl.data.files import load_games
from hanabi_rl.env.game import Rules
from hanabi_rl.serve.study_export import export_study
from hanabi_rl.serve.study_pages import COOKIE, make_study

HOST = "study.test"


def client_of(play):
    return TestClient(make_study(play, pause=0), base_url=f"http://{HOST}", follow_redirects=False)


def agree(client):
    version = client.app.routes[0].endpoint.__self__.study.consent.version
    answer = client.post("/agree", data={"version": version})
    assert (answer.status_code, answer.headers["location"]) == (303, "/next")
    return client.cookies[COOKIE]


def test_nothing_is_stored_and_no_cookie_is_set_before_somebody_agrees(tmp_path):
    play = make_study_play(tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with client_of(play) as client:
        page = client.get("/")
        assert "We record moves." in page.text and "A. Example" in page.text
        assert "Nothing was stored" in client.get("/no").text
        for path in ("/next", "/game/1"):
            assert client.get(path).headers["location"] == "/"
        # a text that is not the one shown is not agreed to
        assert client.post("/agree", data={"version": "2"}).headers["location"] == "/"
        assert not client.cookies
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert play.folder.everyone() == []


def test_a_whole_study_is_played_asked_exported_and_cloned_from(tmp_path, caplog):
    play = make_study_play(tmp_path / "study", Rules())
    caplog.set_level(logging.DEBUG)
    with client_of(play) as client:
        code = agree(client)
        pages = walk_through(client, HOST)
    assert list(pages) == ["before", "play 1", "game 1", "play 2", "game 2", "end", "done"]
    names = [agent.name for agent in play.folder.study.agents]
    for step, text in pages.items():  # who the partners are is told at the end alone
        assert all((f"<code>{name}</code>" in text) == (step == "done") for name in names)
    assert "DONE-7" in pages["done"]
    (person,) = play.folder.everyone()
    assert person.answers["before"] == {"played": "y"} and person.consent_version == "3"
    assert person.answers["game 1"] == {"meant": 7, "remarks": "good <b>game</b>"}
    assert person.answers["end"] == {"ranking": {names[person.plan[0][0]]: 1}}

    out = tmp_path / "games.safetensors"
    assert export_study(play.folder, out) == 2
    games = load_games(out)
    assert games.human_seats.sum(axis=1).tolist() == [1, 1]
    assert [seats[seat] for seats, (_, seat) in zip(games.human_seats, person.plan, strict=True)]
    lines = [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]
    assert [line["agent"] for line in lines] == [names[agent] for agent, _ in person.plan]
    for line, moves in zip(lines, games.num_actions, strict=True):
        assert len(line["times_ms"]) == moves and line["answers"]["meant"] == 7
    exported = "".join(path.read_text(errors="replace") for path in tmp_path.glob("games.*"))
    kept = "".join(p.read_text() for p in (tmp_path / "study").rglob("*") if p.is_file())
    logged = "".join(r.getMessage() for r in caplog.records if not r.name.startswith("httpx"))
    for where in (exported, kept, logged):  # httpx is the browser's side
        assert code[7:] not in where and "testclient" not in where and HOST not in where


def test_a_person_sees_no_table_but_their_own(tmp_path):
    play = make_study_play(tmp_path)
    with client_of(play) as mine, client_of(play) as other:
        agree(mine), agree(other)
        mine.post("/answer", data={"step": "before"})
        place = mine.get("/next").headers["location"]
        assert mine.get(place).status_code == 200
        assert other.get(place).status_code == 404
        with (
            pytest.raises(WebSocketDisconnect),
            other.websocket_connect(f"ws://{HOST}{place}/ws") as socket,
        ):
            socket.receive_text()
        assert (
            mine.get(place, headers={"cookie": f"{COOKIE}=123456-AAAA-AAAA-AAAA"}).headers[
                "location"
            ]
            == "/"
        )


def test_who_withdraws_is_gone_from_the_store_and_from_later_exports(tmp_path):
    play = make_study_play(tmp_path / "study", Rules())
    with client_of(play) as client, client_of(play) as stays:
        code = agree(client)
        walk_through(client, HOST)
        agree(stays)
        walk_through(stays, HOST)
        person = play.folder.find(code)
        assert export_study(play.folder, tmp_path / "before.safetensors") == 4
        wrong = code[:-1] + ("A" if code[-1] != "A" else "B")
        assert "Nobody takes part" in client.post("/withdraw", data={"code": wrong}).text
        assert "deleted" in client.post("/withdraw", data={"code": code.lower()}).text
        assert client.get("/next").headers["location"] == "/"
    assert export_study(play.folder, tmp_path / "after.safetensors") == 2
    gone = [str(each.game.game_id) for each in person.games] + [person.code_hash]
    left = "".join(
        path.read_text(errors="replace")
        for path in (*tmp_path.glob("after.*"), *(tmp_path / "study").rglob("*"))
        if path.is_file()
    )
    assert all(trace not in left for trace in gone)
    ids = load_games(tmp_path / "after.safetensors").game_ids.tolist()
    assert not {each.game.game_id for each in person.games} & set(ids)


def test_who_stops_is_asked_the_last_questions_and_what_was_left_is_exported_on_request(tmp_path):
    play = make_study_play(tmp_path / "study", Rules())
    with client_of(play) as client:
        agree(client)
        client.post("/answer", data={"step": "before"})
        place = client.get("/next").headers["location"]
        with client.websocket_connect(f"ws://{HOST}{place}/ws") as socket:
            frame = json.loads(socket.receive_text())["frame"]
            while not frame["actions"] or not any(a["why_not"] is None for a in frame["actions"]):
                frame = json.loads(socket.receive_text())["frame"]
            move = next(a for a in frame["actions"] if a["why_not"] is None)
            socket.send_text(json.dumps({"action": move["id"], "turn": frame["turn"]}))
            socket.receive_text()
        assert client.post("/stop").headers["location"] == "/next"
        assert "About game 1" in client.get("/next").text
        client.post("/answer", data={"step": "game 1"})
        assert "Thank you" in client.get("/next").text  # one partner met: nothing to rank
    (person,) = play.folder.everyone()
    assert person.stopped and person.games[0].game.end_reason == "left"
    with pytest.raises(ValueError, match="expected a game to export, got none of 1"):
        export_study(play.folder, tmp_path / "games.safetensors")
    assert export_study(play.folder, tmp_path / "games.safetensors", unfinished=True) == 1


@pytest.mark.parametrize("path", ["/agree", "/answer", "/stop", "/withdraw"])
def test_forms_of_other_sites_are_refused(tmp_path, path):
    with client_of(make_study_play(tmp_path)) as client:
        agree(client)
        answer = client.post(path, data={"step": "x"}, headers={"origin": "http://evil.test"})
        assert answer.status_code == 403
