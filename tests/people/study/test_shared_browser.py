"""Several studies on one host, several participants per browser, several tabs per participant."""

import json
import re
from http.cookiejar import DefaultCookiePolicy
from urllib.parse import urljoin, urlsplit

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from support.serving import make_study_play
from support.study import HOST, agree, consent, cookie_of, play_here, post

from hanabi_rl.people.study.pages import make_study

CODE = re.compile(r"\d{6}(?:-\w{4}){3}")


@pytest.fixture
def play(tmp_path):
    return make_study_play(tmp_path / "study")


class Host:
    """Studies on one host, each at its own port or its own path of a proxy that strips it. A
    browser has one cookie jar for all of them."""

    def __init__(self, by_path, **plays):
        apps = {name: make_study(play, move_delay=0) for name, play in plays.items()}
        ports = dict(zip(apps, (8644, 8645), strict=False))
        self.addresses = {
            name: f"http://{HOST}/{name}/" if by_path else f"http://{HOST}:{ports[name]}/"
            for name in apps
        }

        async def serve(scope, receive, send):
            if by_path:
                _, name, path = scope["path"].split("/", 2)
                scope = scope | {"path": f"/{path}", "raw_path": f"/{path}".encode()}
            else:
                port = scope["server"][1]
                (name,) = [name for name in ports if ports[name] == port]
            await apps[name](scope, receive, send)

        self.browser = TestClient(serve)

    def get(self, name, path=""):
        return self.browser.get(self.addresses[name] + path)

    def post(self, name, path, **fields):
        address = urlsplit(self.addresses[name])
        origin = {"origin": f"{address.scheme}://{address.netloc}"}
        return self.browser.post(self.addresses[name] + path, data=fields, headers=origin)

    def agree(self, name):
        page = self.get(name).text
        fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
        return self.post(name, "agree", **fields)

    def code(self, name):
        (found,) = set(CODE.findall(self.get(name, "next").text))
        return found


@pytest.mark.parametrize("by_path", [False, True], ids=["ports", "paths"])
def test_studies_on_one_host_keep_separate_participants(tmp_path, by_path):
    plays = {name: make_study_play(tmp_path / name, title=f"Study {name}") for name in "ab"}
    host, pages = Host(by_path, **plays), {}
    for name in plays:
        assert host.agree(name).url.path.endswith("/next")
        pages[name] = host.post(name, "answer", step="before", q_played="y")
    codes = {name: host.code(name) for name in plays}
    assert codes["a"] != codes["b"]
    for name, play in plays.items():  # during a game of each
        page = host.get(name, "next")
        assert page.url == pages[name].url and f"Study {name}, run by" in page.text
        assert play.folder.find(codes[name]) and len(play.folder.participants()) == 1
        (other,) = set(codes) - {name}
        for path in ("", "next", "withdraw", "different", "code", "stop"):
            assert codes[other] not in host.get(name, path).text
        play_here(host.browser, page)
        assert "About game 1" in host.get(name, "next").text
    gone = host.post("b", "withdraw", code=codes["b"])
    assert "are deleted" in gone.text and host.code("a") == codes["a"]


def test_page_urls_stay_under_proxy_path(tmp_path):
    host = Host(True, a=make_study_play(tmp_path / "a", flag_moves=True))
    pages = [host.get("a"), host.get("a", "no"), host.agree("a")]
    pages.append(host.post("a", "answer", step="before"))
    pages += [host.get("a", path) for path in ("", "different", "withdraw", "code", "stop")]
    pages.append(host.post("a", "answer", step="before", q_played="y"))
    pages.append(host.post("a", "stop"))
    assert "Thank you" in pages[-1].text and "not saved" in pages[-2].text
    links = set()
    for page in pages:
        found = re.findall(r'(?:href|src|action)="([^"]*)"', page.text)
        links |= {urljoin(str(page.url), link) for link in found}
    assert len(links) > 12
    for link in links:
        assert link.startswith(host.addresses["a"]), link
        assert host.browser.get(link).status_code in (200, 405), link


def test_participants_are_recognised_after_server_move(tmp_path):
    host = Host(False, a=make_study_play(tmp_path / "a"), b=make_study_play(tmp_path / "b"))
    host.agree("a")
    code = host.code("a")
    (tmp_path / "a").rename(tmp_path / "moved")
    again = Host(False, b=make_study_play(tmp_path / "b"), a=make_study_play(tmp_path / "moved"))
    again.browser._cookies = host.browser._cookies
    assert again.addresses["a"] != host.addresses["a"]
    assert again.code("a") == code


def test_next_participant_sees_no_earlier_code(play, visit):
    client = visit(play)
    agree(client)
    post(client, "/answer", step="before", q_played="y")
    first = client.cookies[cookie_of(play)]
    pages = [client.get(path) for path in ("/", "/different")]
    assert "I am a different person" in pages[0].text
    assert client.cookies[cookie_of(play)] == first  # not confirmed yet
    assert f'value="{first}"' not in client.get("/withdraw").text
    (form,) = re.findall(r'name="owner" value="(\w+)"', pages[1].text)
    pages.append(post(client, "/different", owner=form))
    assert "We record moves." in pages[-1].text and not client.cookies
    pages.append(agree(client))
    second = client.cookies[cookie_of(play)]
    for page in pages:
        assert first not in page.text and first[7:] not in page.text
    assert first != second and len(play.folder.participants()) == 2
    assert "Before we begin" in pages[-1].text
    # an old confirmation page of the first participant does not remove the second
    post(client, "/different", owner=form)
    assert client.cookies[cookie_of(play)] == second
    # the first participant continues with the code as typed
    assert "check every letter" in post(client, "/code", code=first[:-1]).text
    assert "/game/" in post(client, "/code", code=f" {first.lower()} ").url.path
    assert client.cookies[cookie_of(play)] == first


def test_earlier_participants_table_rejects_moves(play, visit):
    client = visit(play)
    agree(client)
    page = post(client, "/answer", step="before")
    address = f"ws://{HOST}{page.url.path}/ws"
    with client.websocket_connect(address) as socket:
        socket.receive_text()
        post(client, "/different")
        seen = socket.receive()
        while seen["type"] != "websocket.close":
            seen = socket.receive()
    assert (seen["code"], seen["reason"]) == (1008, "another participant begins in this browser")
    agree(client)
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(address):
        pass
    (game,) = [played.game for person in play.folder.participants() for played in person.games]
    assert game.status == "active"  # the earlier participant continues with the code


def test_open_table_rejects_participant_with_other_code(play, visit):
    client, code = visit(play), play.folder.join()[1]
    agree(client)
    page = post(client, "/answer", step="before")
    with client.websocket_connect(f"ws://{HOST}{page.url.path}/ws") as socket:
        post(client, "/code", code=code)
        socket.send_text(json.dumps({"leave": True}))
        seen = socket.receive()
        while seen["type"] == "websocket.send" and '"left":true' not in seen["text"]:
            seen = socket.receive()
    assert seen["type"] == "websocket.close"
    (game,) = [played.game for person in play.folder.participants() for played in person.games]
    assert game.status == "active"
    assert client.cookies[cookie_of(play)] == code


def test_complete_study_admits_no_next_participant(tmp_path, visit):
    play = make_study_play(tmp_path, participants=1)
    client = visit(play)
    agree(client)
    page = client.get("/different").text
    assert "The study is complete" in page and 'method="post"' not in page
    assert "Before we begin" in client.get("/next").text


def test_code_without_cookies_shows_message(play, visit):
    code, client = play.folder.join()[1], visit(play)
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    assert "Your browser kept no cookie" in post(client, "/code", code=code).text


def test_second_consent_click_adds_no_participant(play, visit):
    client = visit(play)
    form = consent(client)
    for _ in range(2):
        assert "Before we begin" in post(client, "/agree", **form).text
    assert "already has a participant of this study" in client.get("/").text
    stale = form | {"secret": "-2222-3333-4444"}  # a form of another tab
    assert "already has a participant of this study" in post(client, "/agree", **stale).text
    assert len(play.folder.participants()) == 1


def test_stop_requires_confirmation(play, visit):
    client = visit(play)
    agree(client)
    page = post(client, "/answer", step="before")
    assert 'action="../stop"' in page.text and 'method="post" action="../stop"' not in page.text
    asked = client.get("/stop").text
    assert "Your game ends here. 1 more game is not played." in asked
    (person,) = play.folder.participants()
    assert not person.stopped and person.games[0].game.status == "active"
    play_here(client, page)
    # on a form: answers are saved before the confirmation
    asked = post(client, "/answer", step="game 1", then="stop", q_meant="3")
    assert asked.url.path == "/stop" and "1 more game is not played" in asked.text
    (person,) = play.folder.participants()
    assert person.answers["game 1"] == {"meant": 3} and not person.stopped
    assert "Thank you" in post(client, "/stop").text
    assert play.folder.participants()[0].stopped


def after_both_games(client):
    """A new participant plays both games, skips their questions and sees the last ones."""
    agree(client)
    page = post(client, "/answer", step="before")
    for step in ("game 1", "game 2"):
        play_here(client, page)
        page = post(client, "/answer", step=step)
    return page


def test_finished_participant_is_not_stopped(play, visit):
    client = visit(play)
    after_both_games(client)
    assert "Before you go" in post(client, "/stop").text  # in a tab opened earlier
    assert "Before you go" in client.get("/stop").text
    assert not play.folder.participants()[0].stopped


def fields_of(page):
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))


def test_second_tab_form_is_shown_if_not_saved(play, visit):
    client = visit(play)
    tab = fields_of(agree(client))
    assert post(client, "/answer", **tab, q_played="y").status_code == 200
    again = post(client, "/answer", **tab, q_played="y")  # a double click or reload
    assert again.status_code == 200 and "/game/" in again.url.path
    assert "/game/" in post(client, "/answer", **tab).url.path  # an empty form
    other = post(client, "/answer", **tab, q_played="n")
    assert other.status_code == 409 and "The first answers are kept." in other.text
    assert "<dt>Played before?</dt><dd>n</dd>" in other.text and "a@example.org" in other.text
    assert play.folder.participants()[0].answers == {"before": {"played": "y"}}
    play_here(client, client.get("/next"))
    early = post(client, "/answer", step="game 2", q_remarks="<b>far</b> too early")
    assert early.status_code == 409 and "no longer asked" in early.text
    assert "&lt;b&gt;far&lt;/b&gt; too early" in early.text
    for step in ("done", "play", "game 0", "game 7", "", "game x"):
        post(client, "/answer", step=step, q_meant="1")
    assert play.folder.participants()[0].answers == {"before": {"played": "y"}}


def test_longest_text_answer_is_saved_whole(play, visit):
    client = visit(play)
    agree(client)
    play_here(client, post(client, "/answer", step="before"))
    lines = [str(number % 10) for number in range(1000)]  # 1,999 characters
    post(client, "/answer", step="game 1", q_remarks="\r\n".join(lines))
    assert play.folder.participants()[0].answers["game 1"] == {"remarks": "\n".join(lines)}


def test_unsaved_ranking_is_shown_without_agents(play, visit):
    client = visit(play)
    page = after_both_games(client)
    tab = fields_of(page)
    post(client, "/answer", **tab, rank_0="1", rank_1="2")
    lost = post(client, "/answer", **tab, rank_0="2", rank_1="1")
    assert "<dt>The partner of game 1</dt><dd>2</dd>" in lost.text and "bot:" not in lost.text


def test_ranking_after_withdrawal_is_shown(play, visit):
    client = visit(play)
    page = after_both_games(client)
    post(client, "/withdraw", code=client.cookies[cookie_of(play)])
    lost = post(client, "/answer", **fields_of(page), rank_0="", rank_1="2")
    assert lost.status_code == 409 and "does not recognise" in lost.text
    assert "<dt>Partner 2</dt><dd>2</dd>" in lost.text and "Partner 1" not in lost.text


def test_earlier_consent_form_identifies_no_participant(play, visit):
    client = visit(play)
    form = consent(client)
    post(client, "/agree", **form)
    first, now = client.cookies[cookie_of(play)], play.folder.clock()
    post(client, "/different")
    play.folder.clock = lambda: now + 3600
    page = post(client, "/agree", **form)
    assert "We record moves." in page.text and first not in page.text
    assert not client.cookies


def test_form_of_earlier_participant_is_rejected(play, visit):
    client = visit(play)
    tab = fields_of(agree(client))
    post(client, "/different")
    unknown = post(client, "/answer", **tab, q_played="y")  # no participant in the browser
    agree(client)
    other = post(client, "/answer", **tab, q_played="y")
    for lost, reason in ((unknown, "does not recognise"), (other, "Another participant has begun")):
        assert lost.status_code == 409 and reason in lost.text
        assert "<dd>y</dd>" in lost.text and 'href="code"' in lost.text
        assert not CODE.search(lost.text)
    stop = post(client, "/stop", owner=tab["owner"])
    assert "Before we begin" in stop.text
    assert [(p.answers, p.stopped) for p in play.folder.participants()] == [({}, False)] * 2


def test_form_after_restart_saves_after_withdrawal_shows(tmp_path, visit):
    client = visit(make_study_play(tmp_path))
    tab = fields_of(agree(client))
    again = visit(make_study_play(tmp_path))
    again._cookies = client._cookies
    assert "/game/" in post(again, "/answer", **tab, q_played="y").url.path
    play = make_study_play(tmp_path)
    (person,) = play.folder.participants()
    assert person.answers == {"before": {"played": "y"}}
    play.folder.withdraw(person.number, "the operator")
    lost = post(again, "/answer", step="game 1", q_remarks="fine")
    assert lost.status_code == 409 and "does not recognise" in lost.text and "fine" in lost.text


def test_questions_have_no_default_answer(visit, tmp_path):
    asked = [
        {"name": "a", "text": "How much?"},
        {"name": "b", "text": "Which?", "kind": "choice", "choices": ["x", "y"]},
    ]
    rated = [{"name": "c", "text": "Rather?", "rating": True}]
    client = visit(make_study_play(tmp_path, before=asked, after_partner=asked, at_end=rated))
    pages = [agree(client)]
    page = post(client, "/answer", step="before")
    for number in (1, 2):
        play_here(client, page)
        pages.append(client.get("/next"))
        pages.append(post(client, "/answer", step=f"game {number}"))
        page = post(client, "/answer", step=f"partner {number}")
    pages.append(page)
    for page in pages:
        assert not re.search(r"\b(checked|selected)\b", page.text)
        questions = re.findall(r"<fieldset>(.*?)</fieldset>", page.text, re.S)
        assert questions
        for question in questions:
            labels = re.findall(r'<label(?: class="(\w+)")?>', question)
            if labels:  # the last choice, the only one in its class
                assert labels[-1] == "skip" and not any(labels[:-1])
    assert '<option value="">choose</option>' in page.text
