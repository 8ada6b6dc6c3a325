"""Action prediction in lock-step over a real socket, and that it says what `predict` says."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import random_games
from support.inference import InProcess
from support.serving import serve_app
from websockets.sync.client import connect

from hanabi_rl.agents.names import load_policy
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import Games
from hanabi_rl.env.game import Rules
from hanabi_rl.measure.prediction import predict
from hanabi_rl.serve.challenge import make_challenge
from hanabi_rl.serve.guard import Guard
from hanabi_rl.serve.prediction import NOBODY, ROWS, nats_of, read_held_out
from hanabi_rl.serve.prediction_store import Guess, Predictions
from hanabi_rl.serve.store import Store

QUICK = "bot:random"  # to compile; without a key it answers with its whole distribution


class Served(NamedTuple):
    address: str
    store: Store
    games: Games

    def key(self, name: str) -> str:
        self.store.add_entry(name)
        return self.store.add_key(name, "eval")

    def standings(self) -> list[dict]:
        with urllib.request.urlopen(f"{self.address}predictions.json") as answer:
            return list(json.load(answer))


@pytest.fixture(scope="module")
def held_out_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten games, of every third of which one seat is a person's."""
    games = random_games(Rules(), 10, seed=5)
    seats = np.ones((10, 2), bool)
    seats[::3, 0] = False
    path = tmp_path_factory.mktemp("held-out") / "games.safetensors"
    save_games(path, dataclasses.replace(games, human_seats=seats))
    return path


@pytest.fixture(scope="module")
def served(held_out_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = Store(tmp_path_factory.mktemp("challenge") / "challenge.sqlite")
    inference, guard = InProcess(NOBODY, Rules(), ROWS), Guard()
    app = make_challenge(store, inference, {}, guard, {2: read_held_out(held_out_path)})
    with serve_app(app, guard) as address:
        yield Served(address, store, load_games(held_out_path))


class Reader:
    """A policy that reads rows, idle turns too; what it says is rounded as JSON would be."""

    def __init__(self, agent: str = QUICK) -> None:
        self.policy = load_policy(agent)
        self.carry = self.policy.init_carry(ROWS)
        self.step = jax.jit(type(self.policy).step)
        self.frames: list[dict] = []

    def __call__(self, frame: dict) -> dict:
        self.frames.append(frame)
        rules = self.policy.rules
        obs = np.zeros((ROWS, len(next(iter(frame["rows"].values()))["obs"])), np.float32)
        legal = np.zeros((ROWS, rules.num_moves), bool)
        legal[:, rules.noop] = True
        for row, seen in frame["rows"].items():
            obs[int(row)], legal[int(row)] = seen["obs"], seen["legal_moves"]
        reset = jnp.full(ROWS, frame["turn"] == 0)
        self.carry, logits = self.step(self.policy, self.carry, obs, legal, reset)
        said = np.round(np.asarray(jax.nn.log_softmax(logits), float), 5)
        deciding = [row for row, seen in frame["rows"].items() if seen["decides"]]
        return {
            "log_probabilities": {
                row: [v if v > -50 else None for v in said[int(row)].tolist()] for row in deciding
            }
        }


def predicting(served: Served, key: str, read, stop_after: int | None = None) -> bool:
    """Whether all was predicted."""
    base = served.address.replace("http", "ws", 1)
    with connect(f"{base}predict?submission_key={key}&num_players=2", max_size=2**20) as socket:
        socket.recv()
        answered = 0
        while not (frame := json.loads(socket.recv(timeout=60))).get("done"):
            if answered == stop_after:
                return False
            socket.send(json.dumps(read(frame)))
            answered += 1
    return True


@pytest.mark.parametrize("agent", [QUICK, pytest.param("bot:simple", marks=pytest.mark.slow)])
def test_an_agent_over_the_wire_predicts_as_predict_says(served: Served, agent: str) -> None:
    key, reader = served.key(agent), Reader(agent)
    assert predicting(served, key, reader)
    (row,) = [row for row in served.standings() if row["name"] == agent]
    expected = predict(load_policy(agent), served.games)
    nats = expected.cross_entropy()
    assert row["games"] == 10 and row["players"] == 2
    assert row["nats"] == pytest.approx(nats.mean, abs=1e-4)
    assert row["nats_ci95"] == pytest.approx(nats.bounds, abs=1e-4)
    per_timestep = expected.cross_entropy_per_timestep()
    assert row["nats_per_timestep"] == pytest.approx(per_timestep.mean, abs=1e-4)
    assert row["nats_per_timestep_ci95"] == pytest.approx(per_timestep.bounds, abs=1e-4)
    assert row["accuracy"] == pytest.approx(expected.accuracy().mean)
    with urllib.request.urlopen(served.address) as page:
        assert "Predicting the moves of people: 2 players" in page.read().decode()


def test_no_frame_is_of_a_turn_whose_move_was_not_predicted(served: Served) -> None:
    """Each frame is one turn on; rows are the seat's own, and those of people alone."""
    reader = Reader()
    assert predicting(served, served.key("steps"), reader)
    frames, batches = reader.frames, {}
    for frame in frames:
        turn, rows = frame["turn"], frame["rows"]
        assert turn == batches.get(frame["batch"], -1) + 1
        batches[frame["batch"]] = turn
        assert len(rows) <= ROWS
        for seen in rows.values():
            idle = seen["legal_moves"][-1] == 1.0
            assert seen["decides"] != idle
    decided = sum(seen["decides"] for frame in frames for seen in frame["rows"].values())
    seats, lengths = served.games.human_seats, served.games.num_actions
    assert seats is not None
    turns = np.arange(lengths.max())
    played = (turns < lengths[:, None]) & seats[:, turns % 2]
    assert decided == played.sum()
    assert len(batches) == -(-int(seats.sum()) // ROWS)


def test_after_an_interruption_what_was_said_stands(served: Served) -> None:
    key = served.key("broken")

    def sure_of_the_first(frame: dict) -> dict:
        rows = {row: seen for row, seen in frame["rows"].items() if seen["decides"]}
        said = {row: [0.0] * len(seen["legal_moves"]) for row, seen in rows.items()}
        return {"log_probabilities": said}

    assert not predicting(served, key, sure_of_the_first, stop_after=7)
    known = served.store.key(key)
    assert known is not None
    nats = "SELECT game, turn, nats FROM predictions WHERE key_id = ? ORDER BY game, turn"

    def kept() -> dict[tuple[int, int], float]:
        with served.store.database.transaction("read") as db:
            rows = db.execute(nats, (known.key_id,)).fetchall()
        return {(game, turn): value for game, turn, value in rows}

    before = kept()
    assert before and not [row for row in served.standings() if row["name"] == "broken"]
    reader = Reader()
    assert predicting(served, key, reader)
    assert (reader.frames[0]["batch"], reader.frames[0]["turn"]) == (0, 0)
    after = kept()
    assert {at: after[at] for at in before} == before and len(after) > len(before)
    again = Reader()
    assert predicting(served, key, again) and again.frames == []


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("no JSON", "expected JSON"),
        ("[]", "expected log_probabilities"),
        ('{"log_probabilities": {"77": []}}', "expected log_probabilities, a list for each"),
        ('{"log_probabilities": {ROWS: [1]}}', "expected 21 numbers"),
        ('{"log_probabilities": {ROWS: ["x"]}}', "expected 21 numbers"),
        ('{"log_probabilities": {ROWS: NULLS}}', "expected a number for one legal action"),
        ('{"log_probabilities": {ROWS: TRUES}}', "expected numbers, or null"),
    ],
)
def test_what_is_no_prediction_is_answered_in_words(served: Served, said: str, answer: str) -> None:
    key = served.key(f"wrong {said}")
    base = served.address.replace("http", "ws", 1)
    with connect(f"{base}predict?submission_key={key}&num_players=2", max_size=2**20) as socket:
        socket.recv()
        frame = json.loads(socket.recv())
        deciding = [row for row, seen in frame["rows"].items() if seen["decides"]]
        body = said.partition("ROWS: ")[2].rstrip("}")
        if "ROWS" in said:
            said = said.replace(f"ROWS: {body}", ", ".join(f'"{row}": {body}' for row in deciding))
        said = said.replace("NULLS", json.dumps([None] * 21)).replace(
            "TRUES", json.dumps([True] * 21)
        )
        socket.send(said)
        assert answer in json.loads(socket.recv())["error_details"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("submission_key=hk_eval_no&num_players=2", "unknown, revoked or expired"),
        ("submission_key=KEY&num_players=3", "num_players: expected one of 2, got '3'"),
    ],
)
def test_who_is_refused_reads_why(served: Served, query: str, reason: str) -> None:
    key = served.key(f"refused {query}")
    base = served.address.replace("http", "ws", 1)
    with connect(f"{base}predict?{query.replace('KEY', key)}") as socket:
        socket.recv()
        assert reason in json.loads(socket.recv())["error_details"]


def test_nats_are_normalised_over_the_legal_actions_and_clipped() -> None:
    legal = np.array([True, True, False])
    said = np.array([math.log(3.0), 0.0, 50.0])
    assert nats_of(said, legal, 0) == pytest.approx(-math.log(0.75))
    assert nats_of(said, legal, 1) == pytest.approx(-math.log(0.25))
    assert nats_of(np.array([0.0, -np.inf, 0.0]), legal, 1) == pytest.approx(-math.log(1e-8))


def test_both_stores_keep_what_was_said_first(place: Path | str, tmp_path: Path) -> None:
    with contextlib.closing(Store(place, secret=tmp_path / "s.secret")) as store:
        store.add_entry("a")
        key = store.key(store.add_key("a", "eval"))
        assert key is not None
        predictions = Predictions(store)
        predictions.say(key, "set", [Guess(0, 1, 1, 0.5, True)])
        predictions.say(key, "set", [Guess(0, 1, 1, 0.1, True), Guess(0, 1, 3, 2.0, False)])
        assert predictions.said(key, "set") == {(0, 1, 1), (0, 1, 3)}
        assert predictions.said(key, "other") == set()
        with store.database.transaction("read") as db:
            found = db.execute("SELECT SUM(nats), SUM(correct) FROM predictions").fetchone()
        assert tuple(map(float, found)) == (2.5, 1.0)


def test_a_file_whose_games_are_none_is_named(tmp_path: Path) -> None:
    games = random_games(Rules(), 2, seed=1)
    games.actions[1, 0] = 0  # a discard while all hints are there
    save_games(tmp_path / "bad.safetensors", games)
    with pytest.raises(ValueError, match=r"bad\.safetensors, game 1, turn 0: a discard"):
        read_held_out(tmp_path / "bad.safetensors")
