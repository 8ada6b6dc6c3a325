"""The socket's protocol, refusals and saved games."""

import dataclasses
import json
import re
import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from support.browser import STATIC
from support.processes import run_python
from support.serving import Simple, make_study_play

from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.formats.hanab_live_decks import deck_from_seed
from hanabi_rl.evaluation.measure.annotate import annotate
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.folder import GameFolder
from hanabi_rl.people.serve.local import LocalPlay
from hanabi_rl.people.serve.partner_protocol import LazyPartners
from hanabi_rl.people.serve.recorded import RecordedGames
from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES
from hanabi_rl.people.serve.web import make_app
from hanabi_rl.play.demos import generate

HOST = "127.0.0.1:8642"


@pytest.fixture
def client_of():
    """`client_of(play)`: a client of its application, with a local address."""

    def make(play):
        return TestClient(make_app(play, move_delay=0), base_url=f"http://{HOST}")

    return make


def at_table(client, game_id, headers=None):
    """A connection to the game's socket."""
    return client.websocket_connect(f"ws://{HOST}/game/{game_id}/ws", headers=headers or {})


def to_end(socket, sent=None):
    """Play the first legal move until the game is over; all frames and the history."""
    frames, history = [], None
    while True:
        message = json.loads(socket.receive_text())
        if message["type"] == "history":
            history = message["frames"]
            continue
        assert message["type"] == "frame", message
        frames.append(message["frame"])
        if frames[-1]["over"]:
            return frames, history
        allowed = [a for a in frames[-1]["actions"] if a["why_not"] is None]
        if allowed:
            move = {"action": allowed[-1]["id"], "turn": frames[-1]["turn"]}
            socket.send_text(json.dumps(move))
            if sent is not None:
                sent.append(move)


@pytest.mark.parametrize("players", [2, 3])
def test_saved_socket_game_loads(make_play, client_of, tmp_path, players):
    rules = Rules(num_players=players)
    play, sent = make_play(rules), []
    with client_of(play) as client:
        assert client.get("/").status_code == 200
        game_id = play.current().game_id
        with at_table(client, game_id) as socket:
            frames, history = to_end(socket, sent)
    assert [frame["turn"] for frame in frames] == list(range(len(history)))
    for frame in frames[:-1]:
        assert all(card["card"] is None for card in frame["hands"][0])
        assert "link" not in frame
    assert frames[-1]["link"].startswith("https://hanab.live/shared-replay-json/")
    path = tmp_path / "games" / f"{players}p-{game_id}.safetensors"
    games = load_games(path)  # validates by full replay
    assert games.human_seats.tolist() == [[True] + [False] * (players - 1)]
    assert games.scores.tolist() == [frames[-1]["score"]]
    mine = [int(action) for turn, action in enumerate(games.moves(0)) if turn % players == 0]
    assert mine == [move["action"] for move in sent]
    assert games.game_ids.tolist() == [game_id]
    assert not list((tmp_path / "games" / "open").iterdir())


def test_page_announces_memory_until_reset(client_of, tmp_path):
    play = LocalPlay(Rules(), ["simple"], Simple(), GameFolder(tmp_path), 0, ["identity"], True)
    with client_of(play) as client:
        first = client.get("/").text
        assert "Your partner has no games with you yet; it will remember how you play." in first
        with at_table(client, play.current().game_id) as socket:
            to_end(socket)
        assert "remembers how you played in 1 game." in client.post("/new").text
        assert 'action="../new?reset_memory"' in first
        assert "has no games with you yet" in client.post("/new?reset_memory").text
    plain = LocalPlay(Rules(), ["simple"], Simple(), None, 0)
    with client_of(plain) as client:
        assert "remember" not in client.get("/").text and "reset_memory" not in client.get("/").text


def test_downloads_contain_every_finished_game(make_play, client_of, tmp_path):
    play = make_play(Rules())
    with client_of(play) as client:
        assert client.get("/games.safetensors").status_code == 404
        for _ in range(2):
            game = play.new_game()
            with at_table(client, game.game_id) as socket:
                to_end(socket)
        for suffix in ("safetensors", "json"):
            (tmp_path / f"got.{suffix}").write_bytes(client.get(f"/games.{suffix}").content)
        assert client.get("/games.exe").status_code == 404
    binary, text = load_games(tmp_path / "got.safetensors"), load_games(tmp_path / "got.json")
    assert len(binary) == len(text) == 2
    # the person's seat is the number of the game
    assert (
        binary.human_seats.tolist() == text.human_seats.tolist() == [[True, False], [False, True]]
    )
    np.testing.assert_array_equal(binary.decks, text.decks)
    for game in range(2):
        kept = text.num_actions[game]  # hanab.live ends when no more points are possible
        np.testing.assert_array_equal(text.moves(game), binary.moves(game)[:kept])


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("nothing", "expected JSON"),
        ("[1, 2]", "expected an object"),
        ("{}", "expected a whole number"),
        ('{"action": true, "turn": 0}', "expected a whole number"),
        ('{"action": 1e9, "turn": 0}', "expected a whole number"),
        ('{"action": 99, "turn": 0}', "expected an action in 0"),
        ('{"action": -1, "turn": 0}', "expected an action in 0"),
        ('{"action": 0, "turn": 0}', "a discard while all 8"),
        ('{"action": 5, "turn": 7}', "expected move 1, got move 8"),
        ('{"step": 0}', "expected a whole number"),
    ],
)
def test_invalid_message_is_explained_and_changes_nothing(make_play, client_of, message, answer):
    play = make_play(Rules())
    game = play.new_game()
    with client_of(play) as client, at_table(client, game.game_id) as socket:
        first = json.loads(socket.receive_text())
        socket.send_text(message)
        error = json.loads(socket.receive_text())
        assert error["type"] == "error" and answer in error["text"]
        assert json.loads(socket.receive_text()) == first
    assert play.game(game.game_id) == game


def test_double_click_moves_once(make_play, client_of):
    play = make_play(Rules())
    game = play.new_game()
    with client_of(play) as client, at_table(client, game.game_id) as socket:
        first = json.loads(socket.receive_text())["frame"]
        move = next(a for a in first["actions"] if a["why_not"] is None and a["target"] == 1)
        for _ in range(2):
            socket.send_text(json.dumps({"action": move["id"], "turn": 0}))
        seen = [json.loads(socket.receive_text()) for _ in range(4)]
    assert play.game(game.game_id).turn == 2  # own move and the partner's
    assert [m["type"] for m in seen].count("error") == 1


def test_only_newest_tab_moves(make_play, client_of):
    play = make_play(Rules())
    game = play.new_game()
    table = f"ws://{HOST}/game/{game.game_id}/ws?opened="
    with client_of(play) as client, client.websocket_connect(table + "1000.5") as old:
        first = json.loads(old.receive_text())["frame"]
        move = next(a for a in first["actions"] if a["why_not"] is None)
        click = json.dumps({"action": move["id"], "turn": 0})
        with client.websocket_connect(table + "2000.5") as new:
            assert json.loads(new.receive_text())["frame"] == first
            assert json.loads(old.receive_text()) == {"type": "role", "moves": False}
            old.send_text(click)
            assert "a newer tab plays" in json.loads(old.receive_text())["text"]
            assert json.loads(old.receive_text())["frame"] == first
            with client.websocket_connect(table + "1500.5") as again:  # an older one reconnects
                assert json.loads(again.receive_text()) == {"type": "role", "moves": False}
            new.send_text(click)
            assert [json.loads(old.receive_text())["frame"]["turn"] for _ in range(2)] == [1, 2]
        assert json.loads(old.receive_text()) == {"type": "role", "moves": True}


def test_repeated_invalid_messages_end_connection(make_play, client_of):
    play = make_play(Rules())
    game = play.new_game()
    with client_of(play) as client, at_table(client, game.game_id) as socket:
        for _ in range(MAX_INVALID_MESSAGES):
            socket.send_bytes(b"\xff\x00")
        for _ in range(
            1 + 2 * MAX_INVALID_MESSAGES
        ):  # the table, then for each message its problem and the table
            socket.receive_text()
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
    assert closed.value.code == 1008


def test_other_origins_and_hosts_are_refused(make_play, client_of):
    play = make_play(Rules())
    game = play.new_game()
    foreign = {"origin": "http://example.com"}
    with client_of(play) as client:
        with (
            pytest.raises(WebSocketDisconnect),
            at_table(client, game.game_id, headers=foreign),
        ):
            pass
        assert client.post("/new", headers=foreign, follow_redirects=False).status_code == 403
        assert client.get("/", headers={"host": "rebound.example"}).status_code == 400
        assert client.get("/game/12345").status_code == 404
        own = {"origin": f"http://{HOST}"}
        assert client.post("/new", headers=own, follow_redirects=False).status_code == 303
        page = client.get(f"/game/{game.game_id}")
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert page.headers["referrer-policy"] == "same-origin"


def test_page_is_small(make_play, client_of):
    """Everything that a browser loads, compressed."""
    play = make_play(Rules())
    game = play.new_game()
    paths = [f"/game/{game.game_id}", "/static/table.css"]
    paths += [f"/static/{script.name}" for script in STATIC.glob("*.js")]
    with client_of(play) as client:
        packed = 0
        for path in paths:
            with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as response:
                assert response.status_code == 200
                packed += sum(len(chunk) for chunk in response.iter_raw())
    assert packed < 100_000


def test_watched_moves_show_probabilities(make_play, client_of, tmp_path):
    play = make_play(Rules(), watch=True)
    game = play.new_game()
    with client_of(play) as client, at_table(client, game.game_id) as socket:
        turn = 0
        while True:
            history = json.loads(socket.receive_text())
            frame = json.loads(socket.receive_text())["frame"]
            assert len(history["frames"]) == turn + 1 and frame["turn"] == turn
            if frame["over"]:
                break
            for seen in history["frames"]:
                assert sum(bar["chance"] for bar in seen["chances"]) == pytest.approx(1, abs=1e-4)
                assert [bar["taken"] for bar in seen["chances"]].count(True) == 1
                assert all(card["card"] for hand in seen["hands"] for card in hand)
            socket.send_text(json.dumps({"step": turn}))
            turn += 1
    assert frame["score"] == play.game(game.game_id).table().score
    assert not (tmp_path / "games").exists()  # watched games are not saved


def test_earlier_games_reopen_after_restart(make_play, client_of):
    play = make_play(Rules())
    ended = []
    with client_of(play) as client:
        for _ in range(2):
            ended.append(play.new_game())
            with at_table(client, ended[-1].game_id) as socket:
                to_end(socket)
    games = [play.game(each.game_id) for each in ended]
    play = make_play(Rules())
    with client_of(play) as client:
        new = play.current()
        page = client.get(f"/game/{new.game_id}").text
        links = re.findall(r'<a href="(\d+)">(\d\d \w+ \d{4}, \d\d:\d\d): (\d+) point', page)
        assert [(int(game_id), int(score)) for game_id, _, score in links] == [
            (game.game_id, game.table().score) for game in reversed(games)
        ]
        for game in games:
            assert client.get(f"/game/{game.game_id}").status_code == 200
            with at_table(client, game.game_id) as socket:
                history = json.loads(socket.receive_text())
                frame = json.loads(socket.receive_text())["frame"]
            assert len(history["frames"]) == game.turn + 1 and frame["over"]
            assert play.game(game.game_id).moves == game.moves
        assert client.get(f"/game/{new.game_id - 1}").status_code == 404
        assert GameFolder(play.folder.path).newest(Rules(), most=1) == [games[1]]
        assert GameFolder(play.folder.path).newest(Rules(num_players=3)) == []
        assert play.current() == new


def test_other_files_are_no_earlier_games(make_play, client_of, tmp_path):
    games = generate(Rules(), "random", 2, seed=0)
    save_games(tmp_path / "2p-1.safetensors", games)  # two games
    save_games(tmp_path / "2p-2.train.safetensors", games)
    (tmp_path / f"2p-{10**15}.safetensors").write_bytes(b"no file of games")
    assert GameFolder(tmp_path).newest(Rules()) == []
    assert GameFolder(tmp_path).finished(Rules()) is None
    assert GameFolder(tmp_path / "missing").newest(Rules()) == []


def test_recorded_games_are_replayed(client_of):
    games = generate(Rules(num_players=3), "random", 3, seed=0)
    cut = games.num_actions.copy()
    cut[2] = 5
    games = dataclasses.replace(games, num_actions=cut, unfinished=np.arange(3) == 2)
    with client_of(RecordedGames(games)) as client:
        assert client.get("/", follow_redirects=False).headers["location"] == "game/0"
        for game in range(3):
            page = client.get(f"/game/{game}").text
            assert f"Game {game} of 0 to 2" in page and 'data-watched="yes"' in page
            links = re.findall(r'<a href="(\d)">(\w+)', page)
            assert ('id="new"' in page) == (game < 2)  # the button of the next game
            neighbours = ((str(game - 1), "Previous"), (str(game + 1), "Next"))
            assert links == [link for link in neighbours if 0 <= int(link[0]) < 3]
            with at_table(client, game) as socket:
                history = json.loads(socket.receive_text())
                frames = history["frames"]
                assert json.loads(socket.receive_text())["frame"] == frames[-1]
                socket.send_text(json.dumps({"step": 0}))  # changes nothing
                assert len(what_if(socket, [], 1)["frames"]) == 1
            moves = games.moves(game)
            table = PythonGame(games.rules, games.decks[game])
            for move in moves:
                table.apply(int(move))
            assert len(frames) == len(moves) + 1 == len(history["conventions"]) + 1
            assert [frame["over"] for frame in frames] == [False] * len(moves) + [True]
            assert frames[-1]["left"] == (game == 2)
            assert frames[-1]["fireworks"] == table.fireworks
            faces = [[card["card"] for card in hand] for hand in frames[0]["hands"]]
            dealt = games.decks[game][:15].reshape(3, 5).tolist()
            assert faces == [[[card // 5, card % 5 + 1] for card in hand] for hand in dealt]
        assert client.get("/game/3").status_code == 404
        assert client.post("/new").status_code == 404


def what_if(socket, moves, turn):
    """Reply to a what-if request."""
    socket.send_text(json.dumps({"what_if": moves, "turn": turn}))
    return json.loads(socket.receive_text())


def test_what_if_uses_same_deck(make_play, client_of):
    play = make_play(Rules())
    game_id = play.new_game().game_id
    with client_of(play) as client, at_table(client, game_id) as socket:
        frames, history = to_end(socket)
        game = play.game(game_id)
        here = what_if(socket, [], 3)["frames"]
        assert [frame | {"actions": [], "link": frames[-1]["link"]} for frame in here] == [
            history[3]
        ]
        moves = []
        for _ in range(6):  # a play, then hints while there are tokens
            answer = what_if(socket, moves, 3)
            assert answer["moves"] == moves and answer["turn"] == 3
            allowed = [a["id"] for a in answer["frames"][-1]["actions"] if a["why_not"] is None]
            table = PythonGame(game.rules, game.deck)
            for action in [*game.moves[:3], *moves]:
                table.apply(action)
            legal = [a for a in range(game.rules.noop) if table.illegal_reason(a) is None]
            assert allowed == legal and len(answer["frames"]) == len(moves) + 1
            assert answer["frames"][-1]["fireworks"] == table.fireworks
            faces = [[card["card"] for card in hand] for hand in answer["frames"][-1]["hands"]]
            ids = [[table.deck[order] for order in hand] for hand in table.hands]
            assert faces == [[[card // 5, card % 5 + 1] for card in hand] for hand in ids]
            readings = annotate(game.rules, game.deck, [*game.moves[:3], *moves])
            assert answer["conventions"] == [str(note) for note in readings]
            moves.append(allowed[-1 if moves else 0])
        assert play.game(game_id) == game


@pytest.mark.parametrize(
    ("moves", "turn", "answer"),
    [
        ([99], 0, "expected an action in 0"),
        ([0], 0, "a discard while all 8"),
        ("00", 0, "expected a list of whole numbers under 'what_if'"),
        ([True], 0, "expected a list of whole numbers under 'what_if'"),
        ([], None, "expected a whole number under 'turn'"),
        ([], -1, "expected a turn in 0.."),
        ([], 999, "expected a turn in 0.."),
    ],
)
def test_illegal_what_if_is_refused(make_play, client_of, moves, turn, answer):
    play = make_play(Rules(), watch=True)
    with client_of(play) as client, at_table(client, play.new_game().game_id) as socket:
        for _ in range(2):
            socket.receive_text()
        assert answer in what_if(socket, moves, turn)["text"]


def test_what_if_is_refused_during_game(make_play, client_of):
    play = make_play(Rules())
    with client_of(play) as client, at_table(client, play.new_game().game_id) as socket:
        socket.receive_text()
        assert what_if(socket, [], 0)["text"] == "hypothetical moves are available after the game"


def test_face_up_moves_have_conventions(make_play, client_of):
    play = make_play(Rules(), watch=True)
    game_id = play.new_game().game_id
    with client_of(play) as client, at_table(client, game_id) as socket:
        for turn in range(12):
            history = json.loads(socket.receive_text())
            socket.receive_text()
            game = play.game(game_id)
            notes = annotate(game.rules, game.deck, game.moves)
            assert history["conventions"] == [str(note) for note in notes]
            assert len(notes) == turn
            socket.send_text(json.dumps({"step": turn}))


def test_study_shows_no_conventions(tmp_path):
    play = make_study_play(tmp_path)
    assert play.conventions(play.game(play.deal(play.folder.join()[0], 0))) == []


def test_game_survives_restart_and_is_saved_once(make_play, client_of, tmp_path):
    """A server killed during the game, and one killed between the last move and the end."""
    play = make_play(Rules())
    game = play.new_game()
    for _ in range(4):
        if play.partner_to_move(game.game_id):
            turn = play.game(game.game_id).turn
            play.partner_moves(game.game_id, turn, play.partner_action(game.game_id))
        else:
            frame = play.frame(game.game_id)
            action = next(a["id"] for a in frame["actions"] if a["why_not"] is None)
            play.move(game.game_id, frame["turn"], action)
    again = make_play(Rules())
    assert again.current() == play.game(game.game_id)
    journal = tmp_path / "games" / "open" / f"{game.game_id}.json"
    with client_of(again) as client, at_table(client, game.game_id) as socket:
        to_end(socket)
    kept = tmp_path / "games" / f"2p-{game.game_id}.safetensors"
    assert kept.exists() and not journal.exists()
    before = kept.read_bytes()
    play.folder.record(again.game(game.game_id), {1: "simple"})  # as if killed before its end
    make_play(Rules())
    assert not journal.exists() and kept.read_bytes() == before


def test_game_waits_for_its_agent(tmp_path):
    """Not for another agent of that name, as after more training; a journal without identities fits
    any."""

    def table(*policies):
        return LocalPlay(Rules(), ["run"], Simple(), GameFolder(tmp_path), 0, policies)

    game = table("before").new_game()
    assert table("after").current().game_id != game.game_id
    assert table("before").current().game_id == game.game_id
    journal = tmp_path / "open" / f"{game.game_id}.json"
    kept = json.loads(journal.read_text())
    assert kept.pop("policies") == ["before"]
    journal.write_text(json.dumps(kept))
    assert table("another").current() == table("before").game(game.game_id)


def test_game_waits_for_its_renamed_agent(tmp_path):
    def table(agent):
        return LocalPlay(Rules(), [agent], Simple(), GameFolder(tmp_path), 0, ["identity"])

    game = table("agent:anyone-2p").new_game()
    assert table("agent:adhoc-2p").current().game_id == game.game_id


def test_left_game_is_saved_as_unfinished(make_play, client_of, tmp_path):
    play = make_play(Rules())
    game = play.new_game()
    with client_of(play) as client, at_table(client, game.game_id) as socket:
        frame = json.loads(socket.receive_text())["frame"]
        action = next(a["id"] for a in frame["actions"] if a["why_not"] is None)
        socket.send_text(json.dumps({"action": action, "turn": 0}))
        for _ in range(2):
            frame = json.loads(socket.receive_text())["frame"]
        socket.send_text(json.dumps({"leave": True}))
        assert json.loads(socket.receive_text())["type"] == "history"
        assert json.loads(socket.receive_text())["frame"]["left"]
    kept = load_games(tmp_path / "games" / "unfinished" / f"2p-{game.game_id}.safetensors")
    assert kept.unfinished.tolist() == [True] and kept.num_actions.tolist() == [2]
    assert play.folder.finished(Rules()) is None


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_watched_agent_failure_is_reported(make_play, client_of, monkeypatch, error):
    """When the page opens and when the agent moves; a reload retries."""
    play = make_play(Rules(), agents=("a", "b"))
    game, real, fails = play.new_game(), Simple.answer, [True, False, True, False]

    def answer(self, game):
        if fails.pop(0):
            raise error("no memory")
        return real(self, game)

    def drain(socket, kinds):
        messages = [json.loads(socket.receive_text()) for _ in kinds]
        assert [message["type"] for message in messages] == kinds
        return messages[0]

    monkeypatch.setattr(Simple, "answer", answer)
    with client_of(play) as client:
        with at_table(client, game.game_id) as socket:
            assert "The partner failed" in drain(socket, ["error", "history", "frame"])["text"]
        with at_table(client, game.game_id) as socket:
            drain(socket, ["history", "frame"])
            socket.send_text(json.dumps({"step": 0}))
            assert "The partner failed" in drain(socket, ["error"])["text"]
        with at_table(client, game.game_id) as socket:
            drain(socket, ["history", "frame"])
    assert not fails


def test_partner_failure_is_reported_and_retried(make_play, client_of, monkeypatch):
    play = make_play(Rules())
    play.new_game()
    game = play.new_game()  # the partner begins
    with client_of(play) as client:
        with monkeypatch.context() as patch:
            patch.setattr(Simple, "answer", lambda self, game: 1 // 0)
            with at_table(client, game.game_id) as socket:
                assert json.loads(socket.receive_text())["type"] == "frame"
                assert "The partner failed" in json.loads(socket.receive_text())["text"]
        with at_table(client, game.game_id) as socket:
            assert [json.loads(socket.receive_text())["frame"]["turn"] for _ in range(2)] == [0, 1]


def test_table_is_shown_before_partner_loads(client_of, tmp_path):
    may_start = threading.Event()

    def make():
        assert may_start.wait(60)
        return Simple()

    rules = Rules()
    play = LocalPlay(rules, ["simple"], LazyPartners(make), GameFolder(tmp_path), seed=0)
    with client_of(play) as client, at_table(client, play.current().game_id) as socket:
        frame = json.loads(socket.receive_text())["frame"]
        assert (frame["turn"], frame["to_move"], frame["you"]) == (0, 0, 0)
        socket.send_text(json.dumps({"action": frame["actions"][-1]["id"], "turn": 0}))
        assert json.loads(socket.receive_text())["frame"]["turn"] == 1
        may_start.set()
        assert json.loads(socket.receive_text())["frame"]["turn"] == 2


def test_partner_startup_error_reaches_every_query(make_play):
    def make():
        raise MemoryError("the deck is too large")

    partners, game = LazyPartners(make), make_play().new_game()
    for _ in range(2):
        with pytest.raises(MemoryError, match="deck is too large"):
            partners.partner_action([game])
    assert not partners.give_up()


def test_give_up_cancels_waiting_queries(make_play):
    may_start = threading.Event()
    partners, game = LazyPartners(lambda: may_start.wait(60) and Simple()), make_play().new_game()
    threading.Timer(0.1, partners.give_up).start()
    with pytest.raises(CancelledError):
        partners.partner_action([game])
    assert partners.give_up()
    may_start.set()  # a late start raises nothing


def test_damaged_journal_is_named(make_play, tmp_path):
    (tmp_path / "games" / "open").mkdir(parents=True)
    (tmp_path / "games" / "open" / "5.json").write_text('{"format_version": 1}')
    with pytest.raises(ValueError, match=r"5\.json: invalid journal: KeyError"):
        make_play(Rules())


def test_seeds_repeat_deals_and_no_seed_varies(make_play):
    first, second = make_play(Rules(), seed=3), make_play(Rules(), seed=3)
    decks = [first.new_game().deck for _ in range(2)]
    assert decks == [second.new_game().deck for _ in range(2)]
    assert decks[0] != decks[1]
    assert make_play(Rules(), seed=None).new_game().deck not in decks


def test_resumed_deck_is_not_dealt_again(make_play, tmp_path):
    play = make_play(Rules())
    first, second = play.new_game(), play.new_game()
    play.leave(first.game_id)
    again = make_play(Rules())
    assert again.current() == second
    later = [again.new_game() for _ in range(2)]
    assert later[0].deck == first.deck  # the seed repeats the decks
    assert later[1].deck not in (first.deck, second.deck)
    assert [game.people for game in later] == [{0}, {0}]  # numbers 0 and 2

    def named():
        folder = GameFolder(tmp_path / "named")
        return LocalPlay(Rules(), ["simple"], Simple(), folder, seed_names=("p2v0s1..2",))

    game, again = named().new_game(), named()
    decks = [again.new_game().deck for _ in range(3)]
    assert game.deck not in decks[::2] and decks[1] == game.deck  # in turn


def test_named_deals_are_used_in_order():
    names = "p3v0s7", "p3v0s1..2"
    rules, agents = Rules(num_players=3), ["simple", "simple"]
    play = LocalPlay(rules, agents, Simple(), seed_names=names)
    decks = [play.new_game().deck for _ in range(4)]
    assert decks == [tuple(deck_from_seed(f"p3v0s{number}").tolist()) for number in (7, 1, 2, 7)]
    with pytest.raises(ValueError, match="--seed-names: expected deals of 2 players"):
        LocalPlay(Rules(), ["simple"], Simple(), seed_names=names)


def test_web_workers_import_no_jax():
    code = (
        "import sys\n"
        "import hanabi_rl.people.serve.web, hanabi_rl.people.serve.terminal, "
        "hanabi_rl.people.serve.challenge\n"
        "heavy = {'jax', 'flax', 'jaxmarl', 'distrax', 'scipy', 'matplotlib'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    assert run_python(code) == "[]\n"
