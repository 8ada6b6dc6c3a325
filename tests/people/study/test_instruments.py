"""The instruments of Siu et al.: a check, a warm-up game, a form per partner, marked moves."""

import dataclasses
import json

import pytest
from support.serving import STUDY, make_study_play
from support.study import agree, consent, play_here, post

from hanabi_rl.cli import main
from hanabi_rl.people.study.participant import is_warm_up, next_step

SIU = STUDY | {
    "before": [],
    "after_game": [],
    "flag_moves": True,
    "min_check_correct": 1,
    "check": [
        {
            "name": "pile",
            "text": "What goes on a 2?",
            "kind": "choice",
            "choices": ["a 1", "a 3"],
            "correct": "a 3",
            "explanation": "Piles go up.",
        }
    ],
    "agents": [{"name": "bot:a", "games": 2, "warm_up": 1}, {"name": "bot:b"}],
    "after_partner": [{"name": "teamwork", "text": "We worked well.", "rating": True}],
}


@pytest.fixture
def siu(tmp_path):
    return make_study_play(tmp_path / "study", study=SIU)


def test_steps_with_check_warm_up_and_partner_forms(siu, visit):
    client = visit(siu)
    assert "1 of 1 answers must be correct" in agree(client).text
    checked = post(client, "/answer", step="check", q_pile="a 3")
    assert checked.url.path == "/checked" and "1 of 1 correct" in checked.text
    assert "Piles go up." in checked.text
    for games in ((1, 2), (3,)):
        for number in games:
            page = client.get("/next")
            assert ("it does not count" in page.text) == (number == 1)
            play_here(client, page)
        form = client.get("/next")
        assert "We worked well." in form.text and "About the partner" in form.text
        post(client, "/answer", step=f"partner {len(games) % 2 + 1}", q_teamwork="6")
    assert "Which partner did you like" in client.get("/next").text
    (person,) = siu.folder.participants()
    assert person.answers["partner 1"] == person.answers["partner 2"] == {"teamwork": 6}
    study = siu.folder.study
    assert [is_warm_up(study, person, place) for place in range(3)] == [True, False, False]


def test_warm_up_game_has_no_questions(tmp_path):
    form = [{"name": "fun", "text": "Was it fun?"}]
    play = make_study_play(tmp_path, study=SIU, check=[], min_check_correct=0, after_game=form)
    person, _ = play.folder.join()
    for place in range(2):
        game = play.game(play.deal(person, place))
        while game.status == "active":
            action = play.partner_action(game.game_id).action
            if play.partner_to_move(game.game_id):
                game = play.partner_moves(
                    game.game_id, game.turn, play.partner_action(game.game_id)
                )
            else:
                game = play.move(game.game_id, game.turn, action)
        person = play.folder.get(person.number)
        step = next_step(play.folder.study, person)
        assert step == [("play", 1), ("after", 1)][place]


def test_failed_check_ends_study_and_frees_place(tmp_path, visit):
    play = make_study_play(tmp_path, study=SIU, participants=1)
    client, late = visit(play), visit(play)
    form = consent(late)
    agree(client)
    page = post(client, "/answer", step="check", q_pile="a 1")
    assert "Your answer: a 1. Correct: a 3." in page.text and "people who know" in page.text
    done = client.get("/next")
    assert "no games for you to play" in done.text and "DONE-7" not in done.text
    assert "How the game is played" in agree(visit(play)).text
    first, second = play.folder.participants()
    assert first.order == second.order == 0  # the next participant gets the same order
    assert "it needs no more participants" in post(late, "/agree", **form).text


def test_stopped_participant_rates_only_partners_played(siu):
    person, _ = siu.folder.join()
    person = person.with_answers("check", {"pile": "a 3"})
    siu.folder.change(person.number, lambda _: person)
    game = siu.game(siu.deal(person, 0))
    while siu.partner_to_move(game.game_id):
        game = siu.partner_moves(game.game_id, game.turn, siu.partner_action(game.game_id))
    allowed = next(a for a in siu.frame(game.game_id)["actions"] if a["why_not"] is None)
    siu.move(game.game_id, game.turn, allowed["id"])
    siu.leave(game.game_id)
    stopped = siu.folder.get(person.number).with_stop()
    assert next_step(siu.folder.study, stopped) == ("partner", 0)
    answered = stopped.with_answers("partner 1", {})
    assert next_step(siu.folder.study, answered) == ("done", 0)


def test_move_mark_is_saved_revocable_and_exported(siu, visit, tmp_path):
    client = visit(siu)
    agree(client)
    post(client, "/answer", step="check", q_pile="a 3")
    page = client.get("/next")
    assert "last move is questionable" in page.text
    with client.websocket_connect(str(page.url).replace("http", "ws", 1) + "/ws") as socket:

        def frame():
            while (message := json.loads(socket.receive_text()))["type"] != "frame":
                said.append(message.get("text"))
            return message["frame"]

        said = []
        now = frame()
        marked_turns = []
        while not now["over"]:
            allowed = [a for a in now["actions"] if a["why_not"] is None]
            if not allowed:
                now = frame()
                continue
            if now["questionable"] and not marked_turns:
                turn = now["questionable"]["turn"]
                for marked in (True, False, True):
                    socket.send_text(json.dumps({"questionable": turn, "marked": marked}))
                    now = frame()
                    assert now["questionable"] == {"turn": turn, "marked": marked}
                marked_turns.append(turn)
                for wrong in ({"questionable": turn - 1, "marked": True}, {"questionable": turn}):
                    socket.send_text(json.dumps(wrong))
                    now = frame()
                assert "only your partner's last move" in said[0] and "a whole number" in said[1]
            socket.send_text(json.dumps({"action": allowed[-1]["id"], "turn": now["turn"]}))
            now = frame()
    (person,) = siu.folder.participants()
    assert list(person.games[0].flagged) == marked_turns
    game_id = person.games[0].game.game_id
    marked_turns.append(siu.frame(game_id)["questionable"]["turn"])
    siu.mark(game_id, marked_turns[-1], True)  # after the end of the game
    again = make_study_play(tmp_path / "study", study=SIU)  # a restarted server
    assert again.frame(game_id)["questionable"] == {"turn": marked_turns[-1], "marked": True}
    out = tmp_path / "games.safetensors"
    main(["games", "export", "--study", str(tmp_path / "study"), "--out", str(out)])
    (line,) = [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]
    assert line["questioned"] == marked_turns and line["warm_up"] is True


def test_marks_need_the_study_setting(tmp_path):
    play = make_study_play(tmp_path)
    person, _ = play.folder.join()
    game_id = play.deal(person, 0)
    assert "questionable" not in play.frame(game_id)
    with pytest.raises(ValueError, match="moves cannot be flagged at this table"):
        play.mark(game_id, 0, True)


def test_participant_format_1_is_read(tmp_path):
    play = make_study_play(tmp_path)
    person, _ = play.folder.join()
    play.deal(person, 0)
    path = tmp_path / "participants" / f"{person.number:06d}.json"
    content = json.loads(path.read_text())
    del content["games"][0]["questioned"]
    path.write_text(json.dumps(content | {"format_version": 1}))
    (read,) = play.folder.participants()
    assert read.games[0].flagged == ()
    assert read == dataclasses.replace(person, games=read.games)
