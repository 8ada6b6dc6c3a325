"""Games between two participants of a study."""

import contextlib
import dataclasses
import json
import re

import pytest
from support.serving import STUDY, Simple, make_study_play
from support.study import HOST, agree, cookie_of, post

from hanabi_rl.cli import main
from hanabi_rl.data.files import load_distinct_games
from hanabi_rl.people.study.design import study_of
from hanabi_rl.people.study.export import gather, person_agent_data
from hanabi_rl.people.study.matching import ABSENT_AFTER_S, WaitingRoom, sync_with_pair
from hanabi_rl.people.study.participant import next_step

PEOPLE = STUDY | {
    "before": [],
    "agents": [{"name": "person"}],
    "fallback_agent": "bot:b",
    "wait_s": 120,
    "after_game": [{"name": "well", "text": "It went well."}],
}


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def play(tmp_path):
    return make_paired_study(tmp_path / "study")


def make_paired_study(path, study=PEOPLE):
    play = make_study_play(path, study=study)
    play.folder.clock = play.waiting._clock = Clock()
    return play


def two(play):
    """Two matched participants and their games."""
    first, second = (play.folder.join()[0] for _ in range(2))
    assert play.deal(first, 0) is None
    theirs = play.deal(second, 0)
    first = play.folder.get(first.number)
    return first, play.folder.get(second.number), play.deal(first, 0), theirs


def move(play, games):
    """Make a move in the current player's copy; both copies must agree."""
    turn = play.game(games[0]).turn
    (mine,) = [g for g in games if play.game(g).current_player in play.game(g).people]
    assert not any(play.partner_to_move(game_id) for game_id in games)
    play.move(mine, turn, Simple().answer(play.game(mine)).action)
    assert play.game(games[0]).moves == play.game(games[1]).moves


def to_end(play, games):
    while play.game(games[0]).status == "active":
        move(play, games)


def test_paired_participants_keep_equal_copies(play, tmp_path):
    first, second, mine, theirs = two(play)
    assert mine != theirs and play.game(mine).deck == play.game(theirs).deck
    assert play.game(mine).people | play.game(theirs).people == {0, 1}
    frame = play.frame(mine)
    assert "partner" in frame["agents"] and "computer" not in frame["agents"]
    hidden = frame["hands"][frame["you"]]
    assert all(card["card"] is None for card in hidden)
    to_end(play, (mine, theirs))
    for person, game_id in ((first, mine), (second, theirs)):
        (played,) = play.folder.get(person.number).games
        assert played.game == play.game(game_id) and played.game.end_reason == "finished"
        assert len(played.times_ms) == played.game.turn and played.agent == "person"
    play.folder.change(first.number, lambda now: now.with_answers("game 1", {"well": 6}))
    play.folder.change(second.number, lambda now: now.with_answers("game 1", {"well": 2}))
    out = tmp_path / "games.safetensors"
    main(["games", "export", "--study", str(play.folder.path), "--out", str(out)])
    games = load_distinct_games([out])  # one game, not two copies
    assert games.human_seats.tolist() == [[True, True]]
    assert sorted(games.players[0].tolist()) == sorted([first.number, second.number])
    blocks = {block.person: block for block in person_agent_data(gather(play.folder))}
    assert {person: block.rating for person, block in blocks.items()} == {
        first.number: 6,
        second.number: 2,
    }
    assert all(block.scores == tuple(games.scores) for block in blocks.values())


@pytest.mark.parametrize("planned", [0, 1])
def test_paired_seats_alternate(tmp_path, planned):
    play = make_paired_study(tmp_path, PEOPLE | {"agents": [{"name": "person", "games": 4}]})
    people = [play.folder.join()[0].number for _ in range(2)]
    plan = tuple((0, (planned + game) % 2) for game in range(4))
    for number in people:
        play.folder.change(number, lambda now: dataclasses.replace(now, plan=plan))
    for game, waits in enumerate((0, 1, 1, 0)):
        came = people[1 - waits]
        assert play.deal(play.folder.get(people[waits]), game) is None
        play.leave(play.deal(play.folder.get(came), game))
    for number in people:
        seats = [min(played.game.people) for played in play.folder.get(number).games]
        assert seats[0] != seats[1] and seats[2] != seats[3]


def test_leaving_ends_both_copies(play):
    _, _, mine, theirs = two(play)
    move(play, (mine, theirs))
    (waits,) = [g for g in (mine, theirs) if play.game(g).current_player not in play.game(g).people]
    with pytest.raises(ValueError, match="another player's turn"):
        play.move(waits, 1, 0)
    play.leave(waits)
    assert {play.game(each).end_reason for each in (mine, theirs)} == {"left"}


def test_withdrawal_deletes_moves_from_paired_copy(play):
    first, second, mine, theirs = two(play)
    for _ in range(2):
        move(play, (mine, theirs))
    play.folder.withdraw(first.number, "the operator")  # by a command, not by the server
    (played,) = play.folder.get(second.number).games
    assert played.game.moves == () and played.times_ms == ()
    assert next_step(play.folder.study, play.folder.get(second.number)).kind == "done"
    gone, twins = play.forget(first.number)
    assert (gone, twins) == ([mine], [theirs])
    assert play.game(theirs).moves == () and play.game(theirs).status == "done"


def test_move_does_not_restore_deleted_game(play):
    first, second, mine, theirs = two(play)
    while play.game(theirs).current_player not in play.game(theirs).people:
        move(play, (mine, theirs))
    turn, action = play.game(theirs).turn, Simple().answer(play.game(theirs)).action
    play.folder.withdraw(first.number, "the operator")
    with pytest.raises(ValueError, match="the other player has withdrawn"):
        play.move(theirs, turn, action)
    assert play.folder.get(second.number).games[0].game.moves == ()


def test_server_notices_external_withdrawal(play, visit):
    (first, _), (second, code) = play.folder.join(), play.folder.join()
    play.deal(first, 0)
    theirs = play.deal(second, 0)
    mine = play.deal(play.folder.get(first.number), 0)
    for _ in range(2):
        move(play, (mine, theirs))
    client = visit(play)
    client.cookies.set(cookie_of(play), code, domain=HOST)
    address = f"ws://{HOST}/game/{theirs}/ws"
    with client.websocket_connect(address) as socket:
        assert json.loads(socket.receive_text())["frame"]["turn"] == 2
        play.folder.withdraw(first.number, "the operator")
        socket.send_text(json.dumps({"action": 0, "turn": 2}))
        problem, now = (json.loads(socket.receive_text()) for _ in range(2))
        assert problem["text"] == "the game is over"
        assert now["frame"]["left"] and now["frame"]["turn"] == 0
    with client.websocket_connect(address) as socket:
        history, now = (json.loads(socket.receive_text()) for _ in range(2))
        assert len(history["frames"]) == 1 and now["frame"]["left"]


def test_fallback_agent_game_does_not_count(tmp_path):
    play = make_paired_study(tmp_path, PEOPLE | {"agents": [{"name": "person"}, {"name": "bot:b"}]})
    person, _ = play.folder.join()
    clock = play.folder.clock
    while (game_id := play.deal(person, 0)) is None:
        clock.now += 10
    assert clock.now == 1120
    (played,) = play.folder.get(person.number).games
    assert (played.agent, played.policy, played.replaced_by_agent) == (
        "bot:b",
        "identity of bot:b",
        True,
    )
    while (game := play.game(game_id)).status == "active":
        answer = Simple().answer(game)
        if play.partner_to_move(game_id):
            play.partner_moves(game_id, game.turn, answer)
        else:
            play.move(game_id, game.turn, answer.action)
    export = gather(play.folder)
    assert export.lines[0]["instead"] and person_agent_data(export) == []
    assert export.games.players.min() == -1  # bot:b, the first name


def test_absent_participants_are_not_matched():
    clock = Clock()
    room = WaitingRoom(60, clock)
    assert room.find_partner(1, 0) is None and room.find_partner(1, 0) is None
    clock.now += ABSENT_AFTER_S + 1
    assert room.find_partner(2, 3) is None  # 1 is absent
    assert room.find_partner(1, 0) == (2, 3)
    assert room.find_partner(2, 3) is None  # matched participants leave the room
    room.leave(2)
    assert room.find_partner(3, 0) is None
    for _ in range(6):
        assert not room.timed_out(3)
        clock.now += 10
        assert room.find_partner(3, 0) is None
    assert room.timed_out(3) and not room.timed_out(3)


def test_copies_synchronise_after_crash(play, tmp_path):
    first, _, mine, theirs = two(play)
    for _ in range(3):
        move(play, (mine, theirs))
    behind = play.folder.get(first.number).games[0]
    move(play, (mine, theirs))
    play.folder.change(first.number, lambda person: person.with_game(0, behind))
    again = make_paired_study(tmp_path / "study")
    assert again.game(mine).moves == again.game(theirs).moves == play.game(theirs).moves
    (played,) = again.folder.get(first.number).games
    assert played.game.turn == 4 and len(played.times_ms) == 4
    left = again.leave(theirs)
    assert sync_with_pair(dataclasses.replace(left, status="active", end_reason=""), left) == left
    assert sync_with_pair(left, again.game(mine)) is left


def test_half_dealt_game_is_undone_after_crash(play, tmp_path, monkeypatch):
    first, second = (play.folder.join()[0] for _ in range(2))
    assert play.deal(first, 0) is None
    begin, balance = play._begin, []

    def killed(*how):
        if balance:
            raise KeyboardInterrupt
        balance.append(begin(*how))

    monkeypatch.setattr(play, "_begin", killed)
    with pytest.raises(KeyboardInterrupt):
        play.deal(second, 0)
    assert [len(play.folder.get(each.number).games) for each in (first, second)] == [1, 0]
    again = make_paired_study(tmp_path / "study")
    first, second = (again.folder.get(each.number) for each in (first, second))
    assert first.games == second.games == ()
    assert again.deal(first, 0) is None  # waits again
    theirs = again.deal(second, 0)
    to_end(again, (again.deal(again.folder.get(first.number), 0), theirs))
    assert len(gather(again.folder).games) == 1


def test_paired_participants_see_every_move(play, visit):
    client = visit(play)  # two clients of one server

    def seen_by(person):
        client.cookies.clear()
        if person:
            client.cookies.set(cookie_of(play), person, domain=HOST)

    pages, codes = [], []
    for _ in range(2):
        seen_by(None)
        pages.append(agree(client))
        codes.append(client.cookies[cookie_of(play)])
    assert "Waiting for another player" in pages[0].text and "wait.js" in pages[0].text
    seen_by(codes[0])
    pages[0] = client.get("/next")
    assert all(re.search(r"/game/\d+$", str(page.url)) for page in pages)
    with contextlib.ExitStack() as stack:
        sockets = []
        for code, page in zip(codes, pages, strict=True):
            seen_by(code)
            address = f"ws://{HOST}{page.url.path}/ws"
            sockets.append(stack.enter_context(client.websocket_connect(address)))
        seen = [json.loads(socket.receive_text())["frame"] for socket in sockets]
        for turn in range(4):
            (current,) = [k for k in (0, 1) if seen[k]["actions"]]
            action = [a for a in seen[current]["actions"] if a["why_not"] is None][-1]
            sockets[current].send_text(json.dumps({"action": action["id"], "turn": turn}))
            seen = [json.loads(socket.receive_text())["frame"] for socket in sockets]
            assert [frame["turn"] for frame in seen] == [turn + 1] * 2
        seen_by(codes[0])
        post(client, "/stop")
        history, frame = (json.loads(sockets[1].receive_text()) for _ in range(2))
        assert history["type"] == "history" and frame["frame"]["left"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"players": 3}, "players: expected 2 with a person, got 3"),
        ({"wait_s": 0}, "wait_s: expected 1 or more, got 0"),
        ({"fallback_agent": ""}, "fallback_agent: expected a text, got ''"),
        ({"fallback_agent": "person"}, "fallback_agent: expected an agent, got 'person'"),
    ],
)
def test_paired_study_requires_fallback_agent(change, expected):
    with pytest.raises(ValueError, match=re.escape(expected)):
        study_of(PEOPLE | change)
    assert study_of(PEOPLE).policies == ["bot:b"]
