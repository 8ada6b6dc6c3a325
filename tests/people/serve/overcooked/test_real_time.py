"""Games in real time: keys, steps on a clock, late agents, the socket, saved games, replays."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from support.plain_overcooked import PlainOvercooked
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_file import write_file
from hanabi_rl.cli import main
from hanabi_rl.games.overcooked import load_kitchen
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.recorded_games import (
    OvercookedDataError,
    load_recorded_games,
    replay_games,
)
from hanabi_rl.games.overcooked.render import scene_svg
from hanabi_rl.games.overcooked.state import unpack_scene
from hanabi_rl.games.overcooked.transitions import (
    DOWN,
    INTERACT,
    LEFT,
    RIGHT,
    STAY,
    UP,
)
from hanabi_rl.people.serve.overcooked.game import QUEUE_SIZE, AgentSeat, KeyQueue, KitchenGame
from hanabi_rl.people.serve.overcooked.play import KitchenPlay, games_in
from hanabi_rl.people.serve.overcooked.web import make_app, play_in_real_time
from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES
from hanabi_rl.people.study.design import Study

ROOM = load_kitchen("cramped_room")
RULES = Overcooked()
STILL = "bot:still?smoothing=1e-9"
HOST = "127.0.0.1:8642"
STEP_S = 0.15


class FakeClock:
    """A clock that stands still but for `sleep`; `events` happen at their times."""

    def __init__(self, events=()):
        self.now, self.events = 100.0, sorted(events, key=lambda event: event[0])

    def time(self):
        return self.now

    async def sleep(self, seconds):
        end = self.now + seconds
        while self.events and 100 + self.events[0][0] <= end:
            self.events.pop(0)[1]()
        self.now = end


class Answers:
    """An agent with these answers; then it stays."""

    def __init__(self, answers=()):
        self.answers, self.asked = list(answers), 0

    def ask(self):
        self.asked += 1

    def take(self):
        return self.answers.pop(0) if self.answers else STAY


def run(game, clock, agent=None, delays=()):
    """Play to the end; times of the steps since the start. `delays`: seconds that `show` takes, by
    number of the step."""
    times, delays = [], dict(delays)

    async def show(shown):
        assert shown is game
        times.append(clock.time() - 100)
        clock.now += delays.get(len(times), 0)

    asyncio.run(play_in_real_time(game, agent or Answers(), 1 / STEP_S, clock, show))
    return times


def test_1000_presses_at_random_times_are_1000_actions_in_order():
    rng = np.random.default_rng(0)
    times = np.cumsum(0.1 + rng.exponential(0.1, 1000))  # five per second, at most ten
    keys = rng.choice([UP, DOWN, RIGHT, LEFT, INTERACT], 1000)
    game = KitchenGame(0, Overcooked(horizon=2500), 0)
    expected, step = np.full(2500, STAY), -1
    for at, key in zip(times, keys, strict=True):
        step = max(step + 1, ceil(at / STEP_S))  # the first step that is free
        expected[step] = key

    press = game.keys.press
    run(game, FakeClock([(t, lambda k=k: press(k)) for t, k in zip(times, keys, strict=True)]))
    assert (np.array(game.actions)[:, 0] == expected).all()
    assert game.keys.dropped == 0 and (expected != STAY).sum() == 1000


def test_a_full_queue_keeps_the_oldest_presses_and_the_newest():
    keys = KeyQueue()
    for _ in range(QUEUE_SIZE):
        keys.press(INTERACT)
    keys.press(UP)
    actions = [keys.next_action() for _ in range(QUEUE_SIZE + 1)]
    assert actions == [INTERACT] * (QUEUE_SIZE - 1) + [UP, STAY]
    assert keys.dropped == 1


def test_held_arrows_repeat_and_space_does_not():
    keys = KeyQueue()
    keys.press(RIGHT)
    assert [keys.next_action() for _ in range(2)] == [RIGHT, STAY]
    keys.hold(RIGHT)
    assert [keys.next_action() for _ in range(2)] == [RIGHT, RIGHT]
    keys.hold(UP)
    keys.press(INTERACT)
    keys.hold(INTERACT)
    assert [keys.next_action() for _ in range(3)] == [INTERACT, UP, UP]
    keys.hold(RIGHT)  # again the newest
    assert keys.next_action() == RIGHT
    keys.release(RIGHT)
    assert keys.next_action() == UP
    keys.release(UP)
    keys.release(UP)
    assert keys.next_action() == STAY


def test_steps_are_on_time_and_make_up_no_delay():
    steps = run(KitchenGame(0, Overcooked(horizon=8), 0), FakeClock())
    np.testing.assert_allclose(steps, STEP_S * np.arange(8))
    # a short delay moves no other step; after a long one the rhythm begins again
    steps = run(KitchenGame(0, Overcooked(horizon=8), 0), FakeClock(), delays={2: 0.1, 4: 1.0})
    expected = [*STEP_S * np.arange(4), *(3 * STEP_S + 1 + STEP_S * np.arange(4))]
    np.testing.assert_allclose(steps, expected)


@pytest.mark.parametrize("seat", [0, 1])
def test_a_late_agent_stays_and_is_counted(seat):
    game = KitchenGame(0, Overcooked(horizon=5), seat)
    agent = Answers([None, LEFT, None, None])
    run(game, FakeClock([(0, lambda: game.keys.hold(UP))]), agent)
    assert agent.asked == 4  # for every step but the first, whose answer is prepared
    own, other = (np.array(game.actions)[:, p] for p in (seat, 1 - seat))
    assert own.tolist() == [UP] * 5
    assert other.tolist() == [STAY, LEFT, STAY, STAY, STAY]
    assert game.late_actions == 3


def test_points_and_states_are_those_of_the_rules():
    rng = np.random.default_rng(3)
    game, plain = (
        KitchenGame(0, Overcooked(horizon=300), 1),
        PlainOvercooked(ROOM.rows, ROOM.start()),
    )
    errands = [UP, LEFT, INTERACT, RIGHT, UP, INTERACT]
    for step in range(300):
        own, other = int(rng.choice(6)), errands[step % 6]
        game.keys.press(own)
        game.step(other)
        plain.step([other, own])
        assert vars(game.scene) == plain.scene()


class Slow(struct.PyTreeNode):
    """Agent that goes left."""

    rules = RULES

    def init_carry(self, batch):
        return jnp.zeros(batch)

    def identity(self):
        return "slow"

    def step(self, carry, obs, legal, reset, key):
        return carry, jnp.where(jnp.arange(6) == LEFT, 0.0, -1e10)[None]


def test_an_answer_that_comes_too_late_is_not_used_later(monkeypatch):
    game, gate = KitchenGame(0, Overcooked(horizon=9), 0), threading.Semaphore(0)
    answer = AgentSeat.answer
    monkeypatch.setattr(AgentSeat, "answer", lambda *args: gate.acquire() and answer(*args))
    with ThreadPoolExecutor(1) as pool:
        agent = AgentSeat(Slow(), game, pool)

        def take_when_done(asked: Future):
            asked.result(60)
            return agent.take()

        assert agent.take() is None  # was not asked
        agent.ask()
        assert agent.take() is None  # step 0 is late
        game.step(None)
        agent.ask()  # the answer for step 0 is still being computed: nothing new
        gate.release()
        assert take_when_done(agent._asked[1]) is None  # and is no answer for step 1
        game.step(None)
        agent.ask()
        gate.release()
        assert take_when_done(agent._asked[1]) == LEFT


class Walker(struct.PyTreeNode):
    """Agent whose action is a function of its own place and of the number of steps it has seen."""

    rules = RULES

    def init_carry(self, batch):
        return jnp.full(batch, 7)

    def identity(self):
        return "walker"

    def step(self, carry, obs, legal, reset, key):
        carry = jnp.where(reset, 0, carry + 1)
        y, x = jnp.unravel_index(jnp.argmax(obs[0, :, :, 0]), obs.shape[1:3])
        action = (3 * x + 5 * y + carry[0] * (1 + x)) % 6
        return carry, jnp.where(jnp.arange(6) == action, 0.0, -1e10)[None]


@pytest.fixture
def play_of(tmp_path):
    """`play_of(agent, ...)`: 40 steps at 200 per second."""

    def make(agent, **settings):
        settings = {"seed": 5, "horizon": 40, "steps_per_s": 200.0} | settings
        return KitchenPlay(agent, "someone", tmp_path / "games", **settings)

    return make


def client_of(play):
    return TestClient(make_app(play.find, play), base_url=f"http://{HOST}")


def connect(client, headers=None):
    return client.websocket_connect(f"ws://{HOST}/ws", headers=headers or {})


def receive(socket, kind):
    """Messages up to the first of this kind."""
    messages = [json.loads(socket.receive_text())]
    while messages[-1]["type"] != kind:
        messages.append(json.loads(socket.receive_text()))
    return messages


def send(socket, **message):
    socket.send_text(json.dumps(message))


def test_whole_games_by_the_socket(play_of, tmp_path, capsys):
    play = play_of(Walker(), steps_per_s=50.0)
    with client_of(play) as client, connect(client) as socket:
        paths = []
        for number in range(2):
            (ready,) = receive(socket, "ready")
            assert ready["seat"] == number  # in turn
            send(socket, press=UP)  # before the start: nothing
            send(socket, start=True)
            send(socket, start=True)
            for action in (LEFT, INTERACT, LEFT):
                send(socket, press=action)
            send(socket, hold=UP)
            send(socket, release=UP)
            *steps, over = receive(socket, "over")
            assert [step["step"] for step in steps] == list(range(1, 41))
            assert over["finished"] and over["dropped"] == 0
            paths.append(Path(over["saved"]))
            assert paths[-1].parent == tmp_path / "games"
            games = load_recorded_games(paths[-1])
            states = replay_games(games)[0].states
            scenes = [unpack_scene(ROOM, states, t) for t in range(41)]
            assert [step["scene"] for step in steps] == [scene_svg(s, number) for s in scenes[1:]]
            own, other = games.actions[:, number], games.actions[:, 1 - number]
            assert own[own != STAY].tolist() == [LEFT, INTERACT, LEFT]
            expected = []
            for t in range(40):
                x, y = scenes[t].places[1 - number]
                expected.append((3 * x + 5 * y + t * (1 + x)) % 6)
            (origin,) = games.origins
            if origin.late_actions == 0:  # the machine was fast enough
                assert other.tolist() == expected
            assert games.human_seats.tolist() == [[number == 0, number == 1]]
            assert origin.agents[1 - number] == "someone" and origin.agents[number] == ""
            assert origin.identities[1 - number] == "walker"
            assert origin.seed == 5 + number and origin.steps_per_s == 50
            assert f"replay/{origin.game_id}" == over["replay"]
            frames = client.get(over["replay"] + "/frames").json()
            assert frames["scenes"] == [scene_svg(scene) for scene in scenes]
            assert frames["names"] == (["person", "someone"], ["someone", "person"])[number]
            assert len(frames["actions"]) == 40 and len(frames["scores"]) == 41
            assert client.get(over["replay"]).status_code == 200
        assert (
            client.get("replay/1").status_code == client.get("replay/1/frames").status_code == 404
        )
    capsys.readouterr()
    main(["data", "info", str(paths[0])])
    assert "1 game, 40 steps; every game replayed to its score" in capsys.readouterr().out


def test_a_stopped_game_and_a_closed_page_are_kept_as_unfinished(play_of, tmp_path):
    play = play_of(load_policy("bot:random", RULES), seat=1, horizon=400, steps_per_s=100.0)
    unfinished = tmp_path / "games" / "unfinished"
    with client_of(play) as client:
        with connect(client) as socket:
            receive(socket, "ready")
            send(socket, stop=True)  # nothing to stop
            send(socket, start=True)
            receive(socket, "step")
            send(socket, stop=True)
            over = receive(socket, "over")[-1]
            assert not over["finished"]
            assert client.get(over["replay"]).status_code == 200
            (ready,) = receive(socket, "ready")
            assert ready["seat"] == 1
            send(socket, start=True)
            receive(socket, "step")
        end = time.monotonic() + 60
        while len(list(unfinished.glob("*.safetensors"))) < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
    for path in unfinished.glob("*"):
        games = load_recorded_games(path)
        assert 1 <= games.lengths[0] < 400 and games.human_seats.tolist() == [[False, True]]
    assert not list((tmp_path / "games").glob("*.safetensors"))


def test_the_same_seed_gives_the_same_random_agent(play_of):
    def actions(seed):
        game, agent = play_of(load_policy("bot:random", RULES), seed=seed).new_game()
        return [agent.answer(game.state, step) for step in range(60)]

    first = actions(2**32 - 1)
    assert first == actions(2**32 - 1) != actions(1)
    assert set(first) == set(range(6))


def test_an_agent_that_fails_ends_the_game_and_is_reported(play_of, monkeypatch):
    def fail(seat, state, step):
        if step == 2:
            raise RuntimeError("broken")
        return STAY

    play = play_of(load_policy(STILL, RULES), steps_per_s=20.0)
    play.warm_up()
    monkeypatch.setattr(AgentSeat, "answer", fail)
    monkeypatch.setattr(play, "warm_up", lambda: None)
    with client_of(play) as client, connect(client) as socket:
        receive(socket, "ready")
        send(socket, start=True)
        *_, error, over = receive(socket, "over")
        assert error == {"type": "error", "text": "The game failed (details in the terminal)."}
        assert not over["finished"] and load_recorded_games(
            Path(over["saved"])
        ).lengths.tolist() == [2]


def test_default_speed_is_that_of_studies(tmp_path):
    play = KitchenPlay(load_policy(STILL, RULES), "someone", tmp_path)
    assert play.steps_per_s == Study().steps_per_s


def test_an_agent_that_cannot_begin_is_reported(play_of, monkeypatch):
    play = play_of(load_policy(STILL, RULES))
    monkeypatch.setattr(play, "warm_up", lambda: 1 / 0)
    with client_of(play) as client, connect(client) as socket:
        assert "The agent failed" in receive(socket, "error")[0]["text"]
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()


def test_invalid_messages_and_other_sites_are_refused(play_of):
    with client_of(play_of(load_policy(STILL, RULES))) as client:
        with connect(client) as socket:
            receive(socket, "ready")
            messages = ["{", "[]", '{"press": 6}', '{"hold": "up"}', '{"what": 1}']
            for text in messages * (MAX_INVALID_MESSAGES // len(messages)):
                socket.send_text(text)
                assert "expected" in receive(socket, "error")[0]["text"]
            with pytest.raises(WebSocketDisconnect):
                socket.receive_text()
        with pytest.raises(WebSocketDisconnect), connect(client, {"origin": "http://evil.test"}):
            pass
        page = client.get("/")
        assert page.status_code == 200 and "default-src 'self'" in str(page.headers)


def test_replays_of_a_file(play_of, tmp_path, capsys):
    play = play_of(load_policy("bot:random", RULES))
    game, agent = play.new_game()
    for step in range(40):
        game.keys.press(step % 6)
        game.step(agent.answer(game.state, step))
    path = play.save(game)
    games = load_recorded_games(path)
    with TestClient(make_app(games_in(games), num_games=1), base_url=f"http://{HOST}") as client:
        page = client.get("/")
        assert page.url.path == "/replay/0" and "Game 0 of 0 to 0" in page.text
        assert len(client.get("/replay/0/frames").json()["scenes"]) == 41
        assert client.get("/replay/1").status_code == 404
        with pytest.raises(WebSocketDisconnect), connect(client):
            pass
    main(["replay", str(path), "--turn", "1"])
    text = capsys.readouterr().out
    assert text.startswith("cramped_room, step 0, 0 points\n")
    assert "player 0: up, player 1: " in text
    main(["replay", str(path)])
    assert capsys.readouterr().out.count("points\n") == 41


def test_the_game_is_the_agents(tmp_path, monkeypatch):
    """A trained agent in another kitchen, with its last action and its own horizon."""
    rules = Overcooked(kitchen="coordination_ring", horizon=70, last_action=True)
    path = tmp_path / "policy.safetensors"
    write_file(path, network_policy(rules, 0))
    apps = []

    def collect(app, listening, *_, **__):
        listening.close()
        apps.append(app)

    monkeypatch.setattr("hanabi_rl.cli.play.run_page", collect)
    command = f"play {path} --port 0 --no-browser --out {tmp_path / 'games'} --steps-per-s 100"
    main([*command.split(), "--seat", "0", "--seed", "3"])
    main([*command.split(), "--game", "overcooked:random1", "--horizon", "5"])
    for app, length in zip(apps, (70, 5), strict=True):
        with TestClient(app, base_url=f"http://{HOST}") as client, connect(client) as socket:
            receive(socket, "ready")
            send(socket, start=True)
            games = load_recorded_games(Path(receive(socket, "over")[-1]["saved"]))
        assert games.kitchens == ("coordination_ring",) and games.lengths.tolist() == [length]
        assert games.origins[0].agents == ("", str(path))
    # the agent's answers are those of its policy, step by step
    game = KitchenGame(0, rules, 0, seed=3)
    agent, policy, state = AgentSeat(load_policy(path), game), load_policy(path), game.state
    carry, move = policy.init_carry(1), jax.jit(rules.step)

    @jax.jit
    def expected(carry, state, step):
        words = jax.random.fold_in(jax.random.key(3), step)
        obs, legal = rules.observe(state)[:, 1], jnp.ones((1, 6), bool)
        carry, logits = policy.step(carry, obs, legal, (step == 0)[None])
        return carry, jax.random.categorical(jax.random.split(words)[1], logits[0])

    for step in range(30):
        answer = agent.answer(game.state, step)
        carry, action = expected(carry, state, np.int32(step))
        assert answer == action
        game.keys.press(step % 6)
        game.step(answer)
        state = move(state, np.array([game.actions[-1]]), np.zeros((1, 2)))[0]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("play bot:still --game chess", "--game: expected a game, one of"),
        ("play bot:still --game overcooked:x", "--game: kitchen: expected one of cramped_room"),
        (
            "play --game overcooked:cramped_room",
            "expected one agent for overcooked:cramped_room, got none",
        ),
        ("play x --game overcooked:cramped_room", "expected an agent: bot:NAME"),
        (
            "play bot:still --game overcooked:cramped_room --seat 2",
            "--seat: expected 0 or 1, got 2",
        ),
        (
            "play bot:still --game overcooked:cramped_room --horizon 5000",
            "horizon: expected 1 to 4095, got 5000",
        ),
        (
            "play bot:still --game overcooked:cramped_room --terminal",
            "--terminal: expected no such flag",
        ),
        ("play bot:random --seat 1", "--seat: expected no such flag with --game hanabi"),
        ("play bot:random --game overcooked:ring", "--game: kitchen: expected"),
        (
            "play --game hanabi?num_ranks=2",
            "--game: expected 5 ranks, which agent:adhoc-2p-outcomes was trained for, got 2 ranks",
        ),
        ("play bot:simple --game overcooked:cramped_room", "expected hanabi, which it plays, got"),
        ("play bot:still", "expected overcooked, which it plays (--game overcooked:...), got"),
        ("replay FILE --game 1", "expected --game in 0..0, got 1"),
        ("replay FILE --game 1 --browser", "expected --game in 0..0, got 1"),
        ("replay FILE --turn 42", "--turn: expected 1 to 41, got 42"),
    ],
)
def test_a_wrong_command_is_refused(play_of, tmp_path, capsys, command, message):
    if "FILE" in command:
        play = play_of(load_policy(STILL, RULES))
        game, _ = play.new_game()
        while not game.over:
            game.step(STAY)
        command = command.replace("FILE", str(play.save(game)))
    if "--terminal" not in command:
        command += " --port 0 --no-browser"
    with pytest.raises(SystemExit):
        main(command.split())
    assert message in capsys.readouterr().err


def test_a_saved_game_is_replayed_and_counts_dropped_presses(play_of):
    play = play_of(load_policy(STILL, RULES))
    game, _ = play.new_game()
    for _ in range(QUEUE_SIZE + 3):
        game.keys.press(UP)
    game.step(STAY)
    assert load_recorded_games(play.save(game)).origins[0].dropped_presses == 3
    game.rewards[0] = 20  # not by the rules
    with pytest.raises(OvercookedDataError, match="step 0: expected 0 points by the rules, got 20"):
        play.save(game)


def test_a_game_in_which_nothing_was_done_is_not_saved(play_of, tmp_path):
    play = play_of(load_policy(STILL, RULES))
    assert play.save(play.new_game()[0]) is None
    assert not (tmp_path / "games").exists()
