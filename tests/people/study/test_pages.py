"""A study in the browser: consent, forms, table, withdrawal; and its export."""

import dataclasses
import functools
import json
import logging
import os
import re
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from support.serving import STUDY, Simple, make_study_play
from support.study import ADDRESS, HOST, agree, consent, cookie_of, play_here, post

from hanabi_rl.cli import main
from hanabi_rl.cli.study import export_games, study, withdraw
from hanabi_rl.data.files import load_games
from hanabi_rl.people.study.design import AFTER_GAME
from hanabi_rl.people.study.folder import read_study_of
from hanabi_rl.people.study.pages import make_study
from hanabi_rl.runs.run_dir import lock_run_dir


@pytest.fixture
def play(tmp_path):
    return make_study_play(tmp_path / "study")


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def take_part(play, client, ranking=("1", "2")):
    """Take part in a whole study; return the code and all pages."""
    pages = [client.get("/"), agree(client)]
    pages.append(post(client, "/answer", step="before", q_played="y"))
    for number in (1, 2):
        assert re.search(r"/game/\d+$", str(pages[-1].url))
        pages.append(play_here(client, pages[-1]))
        pages.append(client.get("/next"))
        assert f"About game {number}" in pages[-1].text
        answers = {"q_meant": "7", "q_trust": "", "q_human": "9", "q_remarks": f" fine {number} "}
        pages.append(post(client, "/answer", step=f"game {number}", **answers))
    assert "Which partner did you like" in pages[-1].text
    pages.append(post(client, "/answer", step="end", rank_0=ranking[0], rank_1=ranking[1]))
    return client.cookies[cookie_of(play)], pages


def test_nothing_is_stored_before_consent(play, visit, tmp_path):
    def saved_files():
        files = (tmp_path / "study").rglob("*")
        return {path: path.read_bytes() for path in files if path.is_file()}

    before, client = saved_files(), visit(play)
    page = client.get("/")
    assert "We record moves." in page.text and "a@example.org" in page.text
    for path in ("/next", "/game/5"):
        assert client.get(path).url.path == "/"  # unknown participant: back to the consent
    assert "Nothing was stored" in client.get("/no").text
    for path in ("/answer", "/stop"):
        assert post(client, path, step="before").url.path == "/"
    agree(client, version="2")  # another version of the text
    assert saved_files() == before and not client.cookies and "set-cookie" not in page.headers
    agree(client)
    assert client.cookies[cookie_of(play)]
    (person,) = play.folder.participants()
    assert person.consent_version == "3" and person.consented_at > 0


def test_whole_study_is_saved_and_exported(play, visit, tmp_path, capsys):
    codes = [take_part(play, visit(play))[0] for _ in range(2)]
    out = tmp_path / "out" / "games.safetensors"
    main(["games", "export", "--study", str(tmp_path / "study"), "--out", str(out)])
    games = load_games(out)  # validates by full replay
    assert len(games) == 4 and not games.unfinished.any()
    lines = read_lines(out.with_suffix(".jsonl"))
    assert [line["game_id"] for line in lines] == games.game_ids.tolist()
    seats = np.zeros((4, 2), bool)
    for row, line in enumerate(lines):
        seats[row, line["seat"]] = True
        assert len(line["times_ms"]) == games.num_actions[row]
        agent = -1 - ["bot:a", "bot:b"].index(line["agent"])
        expected = [agent, agent]
        expected[line["seat"]] = line["participant"]
        assert games.players[row].tolist() == expected
        assert line["policy_hash"] == f"identity of {line['agent']}"
        assert line["answers"] == {"meant": 7, "remarks": f"fine {line['number']}"}
        assert line["consent_version"] == "3"
    assert (games.human_seats == seats).all()
    orders = {}
    for line in lines:
        orders.setdefault(line["participant"], []).append(line["agent"])
    assert sorted(orders.values()) == [["bot:a", "bot:b"], ["bot:b", "bot:a"]]
    people = read_lines(out.with_suffix(".participants.jsonl"))
    for person in people:
        assert person["before"] == {"played": "y"}
        first, second = orders[person["participant"]]
        assert person["end"] == {"ranking": {first: 1, second: 2}}
    exported = "".join(path.read_text(errors="replace") for path in out.parent.iterdir())
    assert not any(code[7:] in exported for code in codes)
    main(["games", "list", "--study", str(tmp_path / "study")])
    assert "next: done; 2 of 2 games finished" in capsys.readouterr().out


def test_partners_are_named_only_at_the_end(play, visit):
    _, pages = take_part(play, visit(play))
    for page in pages[:-1]:
        text = json.dumps(page) if isinstance(page, list) else page.text
        assert "bot:a" not in text and "bot:b" not in text and "identity of" not in text
    assert "<code>bot:a</code>" in pages[-1].text and "<code>bot:b</code>" in pages[-1].text
    assert "DONE-7" in pages[-1].text and "DONE-7" not in pages[-2].text


def test_questions_are_optional_and_first_answers_stay(play, visit):
    client = visit(play)
    agree(client)
    post(client, "/answer", step="before")
    post(client, "/answer", step="before", q_played="n")  # a page from the browser's history
    page = client.get("/next")
    play_here(client, page)
    form = client.get("/next").text
    for question in AFTER_GAME:
        assert question.text.replace("'", "&#39;") in form
    assert form.count("no answer") == 6
    post(client, "/answer", step="game 1", q_meant="1")
    (person,) = play.folder.participants()
    assert person.answers == {"before": {}, "game 1": {"meant": 1}}


def test_withdrawal_removes_data_from_folder_and_export(play, visit, tmp_path):
    (code, _), (other, _) = take_part(play, visit(play)), take_part(play, visit(play))
    gone, stays = play.folder.find(code), play.folder.find(other)
    visitor = visit(play)
    assert "No participant" in post(visitor, "/withdraw", code="123456-AAAA-AAAA-AAAA").text
    assert "are deleted" in post(visitor, "/withdraw", code=code).text
    left = b"".join(path.read_bytes() for path in (tmp_path / "study").rglob("*.*"))
    assert gone.code_hash.encode() not in left
    for played in gone.games:
        assert str(played.game.game_id).encode() not in left
        assert not play.holds(gone, played.game.game_id)
    assert f'"participant": {gone.number}' in (tmp_path / "study" / "audit.jsonl").read_text()
    out = tmp_path / "games.safetensors"
    main(["games", "export", "--study", str(tmp_path / "study"), "--out", str(out)])
    assert sorted(load_games(out).game_ids) == sorted(p.game.game_id for p in stays.games)
    exported = "".join(p.read_text() for p in tmp_path.glob("games.*jsonl"))
    assert f'"participant": {gone.number}' not in exported
    main(["games", "withdraw", str(stays.number), "--study", str(tmp_path / "study")])
    assert play.folder.participants() == []
    with pytest.raises(SystemExit):
        main(["games", "export", "--study", str(tmp_path / "study"), "--out", str(out)])


def test_folder_allows_one_server_and_commands(play, visit, tmp_path, monkeypatch):
    path, out = tmp_path / "study", tmp_path / "games.safetensors"
    compiled = []
    start = functools.partial(study, Path("example"), state=path, port=0)

    def serve(server, sockets):
        sockets[0].close()
        holder = f"in use by another server .process {os.getpid()} on .*another --state"
        with pytest.raises(ValueError, match=holder):
            start()
        export_games(path, out)
        withdraw(int(code[:6]), path)

    monkeypatch.setattr("hanabi_rl.people.study.design.read_study", lambda file: play.folder.study)
    monkeypatch.setattr("hanabi_rl.cli.study._tables", lambda *_: compiled.append(1) or (play, []))
    monkeypatch.setattr("uvicorn.Server.run", serve)
    for starts in (1, 2):  # the second after the first has ended
        code, _ = take_part(play, visit(play))
        start()
        assert len(compiled) == starts
        assert len(load_games(out)) == 2 and play.folder.participants() == []


def test_another_server_does_not_change_the_study(play, monkeypatch):
    path, changed = play.folder.path, dataclasses.replace(play.folder.study, title="Another")
    monkeypatch.setattr("hanabi_rl.people.study.design.read_study", lambda file: changed)
    with (
        lock_run_dir(path, "server", "--state", ".server"),
        pytest.raises(ValueError, match="in use by another server"),
    ):
        study(Path("example"), state=path, port=0)
    assert read_study_of(path) == play.folder.study


def test_tls_flags_are_checked_first(tmp_path, monkeypatch):
    monkeypatch.setattr("hanabi_rl.cli.study._tables", lambda *_: pytest.fail("started"))
    start = functools.partial(study, Path("example"), state=tmp_path / "study", port=0)
    with pytest.raises(ValueError, match="expected both --tls-cert and --tls-key"):
        start(tls_key=Path("key.pem"))
    with pytest.raises(ValueError, match="--tls-cert a --tls-key b: expected a certificate"):
        start(tls_cert=Path("a"), tls_key=Path("b"))
    assert not list(tmp_path.iterdir())


def test_withdrawal_keeps_other_participant(play, visit):
    here = visit(play)
    (own, _), (code, _) = take_part(play, here), take_part(play, visit(play))
    assert "are deleted" in post(here, "/withdraw", code=code).text
    assert here.cookies[cookie_of(play)] == own and play.folder.find(own) is not None
    assert "are deleted" in post(here, "/withdraw", code=own).text
    assert cookie_of(play) not in here.cookies


def test_withdrawal_closes_the_table(play, visit):
    client = visit(play)
    agree(client)
    page = post(client, "/answer", step="before")
    with client.websocket_connect(str(page.url).replace("http", "ws", 1) + "/ws") as socket:
        socket.receive_text()
        post(client, "/withdraw", code=client.cookies[cookie_of(play)])
        seen = socket.receive()
        while seen["type"] != "websocket.close":
            seen = socket.receive()
    assert cookie_of(play) not in client.cookies and client.get("/next").url.path == "/"


def test_message_after_withdrawal_closes_the_table(play, visit):
    """It arrives after the game was deleted and before its connections are closed."""
    client = visit(play)
    agree(client)
    page = post(client, "/answer", step="before")
    (person,) = play.folder.participants()
    with client.websocket_connect(str(page.url).replace("http", "ws", 1) + "/ws") as socket:
        while not json.loads(socket.receive_text())["frame"]["actions"]:
            pass
        play.folder.withdraw(person.number, "the participant")
        play.forget(person.number)
        socket.send_text(json.dumps({"action": 0, "turn": 0}))
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
    assert (closed.value.code, closed.value.reason) == (1008, "this game no longer exists")


def test_operator_withdrawal_ends_the_game(play, visit):
    client = visit(play)
    agree(client)
    page = post(client, "/answer", step="before")
    (person,) = play.folder.participants()
    game_id = int(page.url.path.rpartition("/")[2])
    with client.websocket_connect(f"ws://{HOST}/game/{game_id}/ws") as socket:
        while not (frame := json.loads(socket.receive_text())["frame"])["actions"]:
            pass
        play.folder.withdraw(person.number, "the operator")
        action = next(a["id"] for a in frame["actions"] if a["why_not"] is None)
        socket.send_text(json.dumps({"action": action, "turn": frame["turn"]}))
        assert "has withdrawn" in json.loads(socket.receive_text())["text"]
    assert client.get("/next").url.path == "/"
    assert play.folder.participants() == []


def test_participants_cannot_open_other_tables(play, visit):
    mine, other = visit(play), visit(play)
    agree(mine)
    page = post(mine, "/answer", step="before")
    assert other.get(page.url.path).url.path == "/"
    agree(other)
    assert other.get(page.url.path).status_code == 404
    for client, headers in ((other, {}), (mine, {"origin": "http://evil.example"})):
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect(f"ws://{HOST}{page.url.path}/ws", headers=headers),
        ):
            pass
    evil = {"origin": "http://evil.example"}
    assert mine.post("/stop", headers=evil).status_code == 403
    assert mine.post("/answer", content=b"x" * 70_000).status_code == 413


def test_stop_leads_to_last_questions(play, visit, tmp_path):
    client = visit(play)
    agree(client)
    page = post(client, "/answer", step="before")
    with client.websocket_connect(str(page.url).replace("http", "ws", 1) + "/ws") as socket:
        while not (frame := json.loads(socket.receive_text())["frame"])["actions"]:
            pass
        action = next(a["id"] for a in frame["actions"] if a["why_not"] is None)
        socket.send_text(json.dumps({"action": action, "turn": frame["turn"]}))
        socket.receive_text()
    assert "About game 1" in post(client, "/stop").text
    assert "Thank you" in post(client, "/answer", step="game 1").text
    out, study = tmp_path / "games.safetensors", str(tmp_path / "study")
    with pytest.raises(SystemExit):
        main(["games", "export", "--study", study, "--out", str(out)])
    main(["games", "export", "--study", study, "--out", str(out), "--unfinished"])
    assert load_games(out).unfinished.tolist() == [True]


def test_logs_errors_and_files_identify_no_participant(
    play, visit, tmp_path, caplog, capfd, monkeypatch
):
    caplog.set_level(logging.DEBUG, "hanabi_rl")
    code, _ = take_part(play, visit(play))
    client = visit(play)
    agree(client)
    page = post(client, "/answer", step="before")
    monkeypatch.setattr(Simple, "answer", lambda self, game: 1 // 0)
    with client.websocket_connect(str(page.url).replace("http", "ws", 1) + "/ws") as socket:
        frame = json.loads(socket.receive_text())["frame"]
        if frame["actions"]:
            action = next(a["id"] for a in frame["actions"] if a["why_not"] is None)
            socket.send_text(json.dumps({"action": action, "turn": frame["turn"]}))
        while json.loads(socket.receive_text())["type"] != "error":
            pass
    assert "the partner failed" in caplog.text
    # no participant's code
    post(client, "/withdraw", code=code[:-1] + ("8" if code[-1] == "9" else "9"))
    printed = capfd.readouterr()
    saved_files = "".join(
        path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()
    )
    for text in (caplog.text, printed.out, printed.err, saved_files):
        for secret in (code[7:], client.cookies[cookie_of(play)][7:], ADDRESS, "testclient"):
            assert secret not in text


def test_cookie_attributes(play, visit):
    client = visit(play)
    answer = client.post("/agree", data=consent(client), follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie and "secure" not in cookie
    secure = TestClient(make_study(play), base_url=f"https://{HOST}")
    answer = secure.post("/agree", data=consent(secure), follow_redirects=False)
    assert "; secure" in answer.headers["set-cookie"].lower()


def test_browser_without_cookies_takes_no_place(visit, tmp_path):
    play = make_study_play(tmp_path, participants=2)
    client = visit(play)
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    for _ in range(3):
        answer = agree(client)
        assert "Your browser kept no cookie" in answer.text and "We record moves" not in answer.text
        assert play.folder.participants() == []
    for _ in range(2):  # all places are still free
        assert "Before we begin" in agree(visit(play)).text


def test_repeated_consent_adds_one_participant(play, visit, tmp_path):
    """A double click, or a restart in between; the response to the first request is lost."""
    client = visit(play)
    form, codes = consent(client), []
    agreed = [client.post("/agree", data=form, follow_redirects=False) for _ in range(2)]
    assert agreed[0].cookies[cookie_of(play)] == agreed[1].cookies[cookie_of(play)]
    for server in (client, visit(make_study_play(tmp_path / "study"))):
        server.cookies.clear()
        server.cookies.set(cookie_of(play), agreed[0].cookies[cookie_of(play)], domain=HOST)
        server.get("/begin")
        codes.append(server.cookies[cookie_of(play)])
    (person,) = play.folder.participants()
    assert codes[0] == codes[1] and play.folder.find(codes[0]) == person
    agree(visit(play))
    assert len(play.folder.participants()) == 2
    for secret in ("", "-AAAA-BBBB", "-aaaa-bbbb-cccc", "-AAAA-BBBB-CCCC; x=y"):
        assert agree(visit(play), secret=secret).url.path == "/"
    assert len(play.folder.participants()) == 2


def test_participation_requires_consent_to_current_version(visit, tmp_path):
    play = make_study_play(tmp_path / "new", consent=STUDY["consent"] | {"version": "4"})
    client, older = visit(play), visit(make_study_play(tmp_path / "old"))
    client.get("/begin")
    agreed = older.post("/agree", data=consent(older), follow_redirects=False)
    (value,) = agreed.cookies.values()
    client.cookies.set(cookie_of(play), value, domain=HOST)
    client.get("/begin")
    assert play.folder.participants() == []
    assert "Before we begin" in agree(client).text


def test_complete_study_shows_message(visit, tmp_path):
    play = make_study_play(tmp_path, participants=1)
    client = visit(play)
    form = consent(client)
    agree(visit(play))
    assert "The study is complete" in client.get("/").text
    assert "it needs no more participants" in post(client, "/agree", **form).text
    assert not client.cookies
