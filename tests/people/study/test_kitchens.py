"""A study of Overcooked: pages, games in real time, interruptions, export and report."""

import asyncio
import json
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.websockets import WebSocketDisconnect
from support.policies import network_policy
from support.serving import KITCHEN
from support.study import HOST, agree, post

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_file import write_file
from hanabi_rl.cli import main
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import (
    OvercookedDataError,
    load_recorded_games,
    replay_games,
)
from hanabi_rl.games.overcooked.state import NOTHING, SOUP, unpack_scene
from hanabi_rl.games.overcooked.transitions import INTERACT, LEFT, STAY, UP
from hanabi_rl.people.serve.overcooked.game import AgentSeat, _answer
from hanabi_rl.people.study.design import AFTER_GAME, study_of
from hanabi_rl.people.study.export import gather, person_agent_data
from hanabi_rl.people.study.folder import StudyFolder
from hanabi_rl.people.study.kitchens import KitchenStudy, load_kitchen_agents
from hanabi_rl.people.study.participant import next_step

STILL = [{"name": "bot:still"}]


class FastClock:
    """Time of the steps, which take 2 ms."""

    now = 0.0

    def time(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds
        await asyncio.sleep(0.002)


@pytest.fixture
def kitchen(tmp_path):
    """`kitchen(**changes)`: the study of `KITCHEN` in the folder `study`."""

    def make(**changes):
        study = study_of(KITCHEN | changes)
        folder = StudyFolder(tmp_path / "study", study)
        return KitchenStudy(folder, load_kitchen_agents(study), FastClock())

    return make


def receive(socket, kind):
    """Messages up to the first of this kind."""
    messages = [json.loads(socket.receive_text())]
    while messages[-1]["type"] != kind:
        assert messages[-1]["type"] != "error", messages[-1]
        messages.append(json.loads(socket.receive_text()))
    return messages


def connect(client, page):
    return client.websocket_connect(f"ws://{HOST}{page.url.path}/ws")


def play_here(client, page, keys=(UP, LEFT, INTERACT)):
    """Play the game of a page; return its messages."""
    with connect(client, page) as socket:
        (ready,) = receive(socket, "ready")
        socket.send_text('{"start": true}')
        for key in keys:
            socket.send_text(json.dumps({"press": key}))
        return [ready, *receive(socket, "over")]


def begin(client):
    """Consent and read the instructions; the page of the first game."""
    assert "How to play" in agree(client).text
    return client.get("/next?ready=yes")


def interrupt(client, play, page):
    """Close the page of a game after its first steps, and wait until that is saved."""
    with connect(client, page) as socket:
        socket.send_text('{"start": true}')
        receive(socket, "step")
    (person,) = play.folder.participants()
    end = time.monotonic() + 60
    while person.games[-1].game.end_reason != "interrupted":
        assert time.monotonic() < end
        time.sleep(0.01)
        (person,) = play.folder.participants()
    return person


def test_whole_study(kitchen, visit, tmp_path, capsys):
    network = tmp_path / "trained.safetensors"
    write_file(network, network_policy(Overcooked(last_action=True), 0))
    trained = f"{network}?unstuck=3"
    play = kitchen(agents=[KITCHEN["agents"][0], {"name": trained}])
    pages, number = [], {}
    for _ in range(2):
        client = visit(play)
        pages.append(begin(client))
        while re.search(r"/game/\d+$", str(pages[-1].url)):
            assert "Overcooked: cramped room" in pages[-1].text
            game = pages[-1]
            messages = play_here(client, game)
            (person,) = [p for p in play.folder.participants() if p.number not in number]
            assert game.text.count("practice game") == play.is_warm_up(
                person.games[-1].game.game_id
            )
            assert messages[0]["seat"] == person.games[-1].game.seat
            assert messages[-1]["score"] == person.games[-1].game.score
            assert [m["step"] for m in messages[1:-1]] == list(range(1, 101))
            pages += [messages, client.get(game.url.path), client.get("/next")]
            if "About game" in pages[-1].text:
                step = f"game {len(person.games)}"
                pages.append(post(client, "/answer", step=step, q_fluent="6"))
        pages.append(post(client, "/answer", step="end", rank_0="2", rank_1="1"))
        assert "DONE-7" in pages[-1].text
        number[person.number] = [played.agent for played in person.games]
    # blind: no page and no message names an agent, nor a file
    for page in pages:
        text = json.dumps(page) if isinstance(page, list) else page.text
        assert not re.search(r"bot:|errand|trained|unstuck|\.safetensors|[0-9a-f]{64}", text)
    both = [["bot:errand"] * 2 + [trained]]
    assert sorted(number.values()) == sorted([*both, both[0][::-1]])
    # the export replays to the scores, by the tools for recorded games
    out = tmp_path / "games.safetensors"
    main(["games", "list", "--study", str(tmp_path / "study")])
    assert "next: done; 3 of 3 games finished, scores " in capsys.readouterr().out
    main(["games", "export", "--study", str(tmp_path / "study"), "--out", str(out)])
    main(["data", "info", str(out)])
    assert "6 games, 600 steps; every game replayed" in capsys.readouterr().out
    games = load_recorded_games(out)
    lines = [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]
    assert games.scores.tolist() == [int(each.rewards.sum()) for each in replay_games(games)]
    assert games.pairs.tolist() == [line["participant"] for line in lines]
    for row, (line, origin) in enumerate(zip(lines, games.origins, strict=True)):
        seat = line["seat"]
        assert games.human_seats[row].tolist() == [seat == 0, seat == 1]
        assert origin.agents[1 - seat] == line["agent"] and origin.agents[seat] == ""
        assert origin.identities[1 - seat] == line["policy_hash"]
        assert origin.game_id == line["game_id"] and origin.steps_per_s == 6.67
        own = games.actions[games.steps_of(row), seat]
        assert own[own != STAY].tolist() == [UP, LEFT, INTERACT]
        assert len(line["times_ms"]) == 100 and line["times_ms"][:3] == [0, 150, 300]
        assert line["answers"] == ({} if line["warm_up"] else {"fluent": 6})
    warm_ups = [line["number"] for line in lines if line["warm_up"]]
    assert sorted(warm_ups) == [1, 2]  # the first game with the agent of two games


def test_instructions_come_before_check_and_games(kitchen, visit):
    check = {"name": "a", "text": "Yes?", "kind": "choice", "choices": ["y", "n"], "correct": "y"}
    client = visit(kitchen(check=[check], agents=STILL))
    assert "How to play" in agree(client).text and "<kbd>Space</kbd>" in client.get("/next").text
    assert "How the game is played" in client.get("/next?ready=yes").text
    post(client, "/answer", step="check", q_a="y")
    assert re.search(r"/game/\d+$", str(client.get("/next").url))


def test_closed_page_interrupts_the_game_and_the_round_begins_again(kitchen, visit, tmp_path):
    play = kitchen(steps=4000, seat="1", agents=STILL)
    client = visit(play)
    page = begin(client)
    first = interrupt(client, play, page).games[0]
    assert first.game.moves and first.game.seat == 1 and first.game.status == "done"
    again = client.get(page.url.path)  # reload
    assert re.search(r"/game/\d+$", str(again.url)) and again.url != page.url
    (person,) = play.folder.participants()
    (played,) = person.games
    assert played.interrupted == (first,) and played.game.status == "active"
    assert played.game.seed != first.game.seed and played.agent == first.agent
    with connect(client, page) as socket:  # of the interrupted game
        receive(socket, "gone")
    second = interrupt(client, play, again).games[0]
    # a new server continues there; interrupted games are only in exports with all games
    restarted = kitchen(steps=4000, seat="1", agents=STILL)
    for each in (first, second):
        assert restarted.holds(person, each.game.game_id)
    with pytest.raises(ValueError, match="no games to export"):
        gather(restarted.folder)
    export = gather(restarted.folder, unfinished=True)
    assert [line["end_reason"] for line in export.lines] == ["interrupted"] * 2
    steps = [len(each.game.moves) for each in (first, second)]
    assert export.games.lengths.tolist() == steps
    # the participant stops: the round counts as left, and its questions follow
    assert "Your game ends here" in client.get("/stop").text
    assert "About game 1" in post(client, "/stop").text
    (person,) = play.folder.participants()
    assert person.stopped and person.games[0].game.end_reason == "left"
    assert next_step(play.folder.study, person).kind == "after"


def test_a_second_tab_takes_over(kitchen, visit):
    play = kitchen(steps=4000, agents=STILL)
    client = visit(play)
    page = begin(client)
    with connect(client, page) as first:
        receive(first, "ready")
        with connect(client, page) as second:  # no game in progress: it goes on here
            receive(second, "ready")
            second.send_text('{"start": true}')
            receive(second, "step")
            with connect(client, page) as third:
                receive(third, "gone")
            with pytest.raises(WebSocketDisconnect):
                receive(second, "closed")
        with pytest.raises(WebSocketDisconnect) as closed:
            first.receive_text()
    assert "newer tab" in closed.value.reason
    (person,) = play.folder.participants()
    assert person.games[0].game.end_reason == "interrupted"


def test_withdrawal_ends_the_game_and_deletes_it(kitchen, visit, tmp_path, caplog):
    play = kitchen(steps=4000, agents=STILL)
    client, other = visit(play), visit(play)
    page = begin(client)
    assert begin(other).url != page.url
    assert other.get(page.url.path).status_code == 404
    with pytest.raises(WebSocketDisconnect), connect(other, page):
        pass
    (code,) = client.cookies.values()
    with connect(client, page) as socket:
        socket.send_text('{"start": true}')
        receive(socket, "step")
        assert "are deleted" in post(client, "/withdraw", code=code).text
        with pytest.raises(WebSocketDisconnect) as closed:
            receive(socket, "closed")
    assert "no longer exists" in closed.value.reason
    (person,) = play.folder.participants()
    assert person.number != int(code[:6]) and "not saved" not in caplog.text


def test_agents_are_compiled_before_the_first_game(kitchen):
    play = kitchen(agents=[{"name": "bot:errand?smoothing=0.0123"}])
    play.compiled.result()
    programs = _answer.__wrapped__._cache_size()
    game, agent = play.prepare(play.deal(play.folder.join()[0], 0))
    for step in range(4):
        game.step(agent.answer(game.state, step))
    assert _answer.__wrapped__._cache_size() == programs


def test_no_game_is_saved_that_the_replay_does_not_confirm(kitchen):
    play = kitchen(steps=4000, agents=STILL)
    person, _ = play.folder.join()
    game, _ = play.prepare(play.deal(person, 0))
    play.start(game)
    for _ in range(3):
        game.step(STAY)
        game.times.append(0.0)
    game.rewards[1] = 20
    with pytest.raises(OvercookedDataError, match="expected 0 points by the rules, got 20"):
        play.save(game)
    assert play.folder.get(person.number).games[0].game.status == "active"


def test_seats(tmp_path):
    plans = {}
    for seat in ("alternate", "random", "0", "1"):
        agents = [{"name": "bot:still", "games": 40}]
        study = study_of(KITCHEN | {"seat": seat, "agents": agents})
        folder = StudyFolder(tmp_path / seat, study)
        plans[seat] = np.array([s for _, s in folder.join()[0].plan])
    assert (np.diff(plans["alternate"]) != 0).all()
    assert (plans["0"] == 0).all() and (plans["1"] == 1).all()
    assert 8 <= plans["random"].sum() <= 32 and (np.diff(plans["random"]) == 0).any()


def simulate(play, rng):
    """One participant who runs errands, but not in every step; games are played at once."""
    person, _ = play.folder.join()
    for place in range(len(person.plan)):
        person = play.folder.get(person.number)
        game_id = play.deal(person, place)
        game, agent = play.prepare(game_id)
        play.start(game)
        seat = SimpleNamespace(rules=game.rules, seat=1 - game.seat, seed=game.seed + 1)
        own, eager = AgentSeat(load_policy("bot:errand", game.rules), seat), 0.5 + rng.random()
        while not game.over:
            now = game.state, len(game.actions)
            if rng.random() < eager:
                game.keys.press(own.answer(*now))
            game.step(agent.answer(*now))
            game.times.append(0.15 * len(game.actions))
        play.save(game)
        play.leave(game_id)  # too late: it has been saved as finished
        answers = {"fluent": int(rng.integers(1, 8))}
        play.folder.change(
            person.number, lambda now, n=place, a=answers: now.with_answers(f"game {n + 1}", a)
        )


def test_report_equals_numpy(kitchen, tmp_path, capsys):
    agents = [
        {"name": "bot:errand", "games": 2, "warm_up": 1},
        {"name": "bot:still"},
        {"name": "bot:errand", "games": 1, "game": "overcooked:coordination_ring"},
    ]
    play = kitchen(agents=agents, participants=7)
    for row in range(7):
        simulate(play, np.random.default_rng(row))
    args = "study", "report", str(tmp_path / "study"), "--json"
    main([*args])
    captured = capsys.readouterr()
    report, text = json.loads(captured.out), captured.err
    labels = ["bot:errand", "bot:still", "bot:errand in coordination_ring"]
    assert [of["agent"] for of in report["agents"]] == labels
    people = play.folder.participants()
    means = {}
    for of, label in zip(report["agents"], labels, strict=True):
        counted = [
            [(each.game, place) for place, each in enumerate(person.games) if each.agent == label]
            for person in people
        ]
        counted = [games[1:] if label == "bot:errand" else games for games in counted]
        scores = np.array([[game.score for game, _ in games] for games in counted], float)
        ratings = [
            [person.answers[f"game {place + 1}"]["fluent"] for _, place in games]
            for person, games in zip(people, counted, strict=True)
        ]
        means[label] = scores.mean(axis=1)
        assert of["games"] == scores.size and of["left"] == 0
        assert of["score"] == pytest.approx(scores.mean())
        assert of["rating"] == pytest.approx(np.mean(ratings))
        assert of["measures"]["soups"] == pytest.approx(scores.mean() / 20)
        if np.ptp(means[label]) > 0:
            reach = 2.446912 * means[label].std(ddof=1) / np.sqrt(7)  # Student's t
            assert of["score_ci95"] == pytest.approx(
                [max(0, scores.mean() - reach), scores.mean() + reach], rel=1e-5
            )
    assert report["agents"][0]["score"] > report["agents"][1]["score"]
    # soups of the person: in the replay, the steps in which they left the person's hands for points
    export, own = gather(play.folder), dict.fromkeys(labels, 0)
    for row, (line, replay) in enumerate(
        zip(export.lines, replay_games(export.games), strict=True)
    ):
        for step in np.flatnonzero(replay.rewards):
            before, after = (
                unpack_scene(export.games.kitchen_of(row), replay.states, at).hands[line["seat"]]
                for at in (step, step + 1)
            )
            own[line["agent"]] += (before, after, line["warm_up"]) == (SOUP, NOTHING, False)
    assert own["bot:still"] > 0
    for of in report["agents"]:
        assert of["measures"]["soups_of_person"] * of["games"] == pytest.approx(own[of["agent"]])
    # only agents in one kitchen are compared, and there is no curve over kitchens
    assert {tuple(each["about"]) for each in report["comparisons"]} == {tuple(labels[:2])}
    score = next(each for each in report["comparisons"] if each["kind"] == "score")
    difference = means["bot:errand"] - means["bot:still"]
    assert score["estimate"] == pytest.approx(difference.mean())
    assert score["p"] is not None and report["rating_on_score"] is None
    assert "soups served per game" in text and "served by the person" in text
    # the exported files give the same report
    out = tmp_path / "games.safetensors"
    main(["games", "export", "--study", str(tmp_path / "study"), "--out", str(out)])
    capsys.readouterr()
    main([args[0], args[1], str(out), "--json", "--plot", str(tmp_path / "report.png")])
    of_export = json.loads(capsys.readouterr().out)
    assert of_export["agents"] == report["agents"]
    with pytest.raises(SystemExit):
        main([*args, "--gauntlet", str(out)])
    assert "expected a study of one kitchen" in capsys.readouterr().err


def test_interrupted_games_count_as_left(kitchen):
    play = kitchen(steps=30, agents=STILL)
    person, _ = play.folder.join()
    for steps in (10, 30):
        person = play.folder.get(person.number)
        game, _ = play.prepare(play.deal(person, 0))
        play.start(game)
        for _ in range(steps):
            game.step(STAY)
            game.times.append(0.0)
        play.save(game)
    (data,) = person_agent_data(gather(play.folder, unfinished=True))
    assert data.scores == (0,) and data.abandoned == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"game": "overcooked:nowhere"}, "game: .*expected .*cramped_room.*got 'nowhere'"),
        ({"game": "chess"}, "game: expected a game"),
        ({"game": "hanabi:x"}, "game: "),
        (
            {"game": "overcooked:cramped_room?horizon=30"},
            "game: expected overcooked:KITCHEN without parameters",
        ),
        (
            {"agents": [{"name": "bot:a", "game": "hanabi"}]},
            r"agents\[0\].game: expected overcooked:KITCHEN",
        ),
        ({"agents": [{"name": "bot:a", "game": "overcooked:no"}]}, r"agents\[0\].game: .*'no'"),
        ({"steps": 0}, "steps: expected 1 to 4095, got 0"),
        ({"steps_per_s": 0}, "steps_per_s: expected 0.5 to 100, got 0"),
        ({"seat": "2"}, "seat: expected 0 to 1, got 2"),
        ({"seat": "left"}, "seat: expected one of 'alternate', 'random', '0'"),
        ({"players": 3}, "players: only in studies of hanabi, got overcooked:cramped_room"),
        ({"flag_moves": True}, "flag_moves: only in studies of hanabi"),
        ({"remember_people": True}, "remember_people: only in studies of hanabi"),
        (
            {"agents": [{"name": "person"}], "fallback_agent": "bot:a"},
            "agents: person: only in studies of hanabi",
        ),
        (
            {"game": "hanabi", "agents": [{"name": "bot:a", "game": "overcooked"}]},
            r"agents\[0\].game: expected none in a study of hanabi, got overcooked",
        ),
        ({"agents": [{"name": "bot:a"}] * 2}, "expected every agent once, got 'bot:a' twice"),
    ],
)
def test_invalid_designs(changes, problem):
    with pytest.raises(ValueError, match=problem):
        study_of(KITCHEN | changes)


def test_default_questions_do_not_ask_about_hints():
    study = study_of({key: value for key, value in KITCHEN.items() if key != "after_game"})
    assert study.after_game == tuple(q for q in AFTER_GAME if "hints" not in q.text) != AFTER_GAME


@pytest.mark.parametrize("name", ["agent:hgroup-2p", "bot:convention"])
def test_agents_of_hanabi_are_refused(name, tmp_path):
    study = study_of(KITCHEN | {"agents": [{"name": name}]})
    with pytest.raises(ValueError, match=rf"{name}.*(overcooked|hanabi)"):
        load_kitchen_agents(study)


def test_agents_of_another_kitchen_are_refused(monkeypatch):
    monkeypatch.setattr("hanabi_rl.people.study.kitchens.plays_any_game", lambda name: False)
    policy = Overcooked(kitchen="coordination_ring")
    monkeypatch.setattr(
        "hanabi_rl.people.study.kitchens.load_policy",
        lambda name, rules: type("Policy", (), {"rules": policy}),
    )
    problem = "expected an agent of overcooked:cramped_room, got one of overcooked:coordination_r"
    with pytest.raises(ValueError, match=problem):
        load_kitchen_agents(study_of(KITCHEN))
