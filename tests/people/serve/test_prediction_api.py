"""Action prediction over a real socket: frame order, final answers, agreement with `predict`."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import dataclasses
import io
import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pytest
from support.games import ROOT, as_games, random_games, teacher_games
from support.indistinguishable import pairs
from support.inference import InProcess
from support.policies import recurrent_policy
from support.protocol import RemotePrediction, ServerError, predictions
from support.serving import serve_app

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.cli import main
from hanabi_rl.data.files import load_games, save_games
from hanabi_rl.data.games import Games, concatenate_games
from hanabi_rl.evaluation.measure.prediction import predict
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.candidate_connection import STORE_UNAVAILABLE
from hanabi_rl.people.serve.challenge import make_challenge
from hanabi_rl.people.serve.client import ChallengeClient
from hanabi_rl.people.serve.held_out import BATCH_ROWS, HeldOutGames, read_all
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.prediction_api import (
    CONNECTIONS,
    EMPTY_TEAM,
    MAX_MESSAGE,
    batch_observations,
)
from hanabi_rl.people.serve.prediction_store import Guess, Predictions
from hanabi_rl.people.serve.request_limits import RequestLimiter
from hanabi_rl.people.serve.store import Store

GAMES = 10


class Served(NamedTuple):
    address: str
    store: Store
    games: Games

    def key(self, name: str) -> str:
        self.store.add_entry(name)
        return self.store.add_key(name, "eval")

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.address + path) as answer:
            return str(answer.read().decode())

    def standing(self, name: str) -> dict[str, Any] | None:
        rows = json.loads(self.get("predictions.json"))
        return next((row for row in rows if row["name"] == name), None)

    def nats_by_turn(self, key: str) -> dict[tuple[int, int], float]:
        """(game, turn) -> nats."""
        known = self.store.key(key)
        assert known is not None
        with self.store.database.transaction("read") as db:
            found = db.execute(
                "SELECT game, turn, nats FROM predictions WHERE key_id = ?", (known.key_id,)
            ).fetchall()
        return {(game, turn): nats for game, turn, nats in found}


@pytest.fixture(scope="module")
def held_out_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two-player games, short and whole; in every third, one seat is a person's."""
    seats = np.ones((GAMES, 2), bool)
    seats[::3, 0] = False
    path = tmp_path_factory.mktemp("held-out") / "games.safetensors"
    games = concatenate_games([random_games(Rules(), 6, seed=5), teacher_games(Rules(), GAMES - 6)])
    save_games(path, dataclasses.replace(games, human_seats=seats))
    return path


@pytest.fixture(scope="module")
def backend() -> InProcess:
    return InProcess(EMPTY_TEAM, Rules(), BATCH_ROWS)


@contextlib.contextmanager
def serving(store: Store, backend: InProcess, path: Path) -> Iterator[Served]:
    limiter = RequestLimiter()
    app = make_challenge(store, backend, {}, limiter, read_all([path]))  # type: ignore[arg-type]
    with serve_app(app, limiter, MAX_MESSAGE) as address:
        yield Served(address, store, load_games(path))


@pytest.fixture(scope="module")
def served(
    held_out_path: Path, backend: InProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    store = Store(tmp_path_factory.mktemp("challenge") / "challenge.sqlite")
    with serving(store, backend, held_out_path) as found:
        yield found


def documented_client() -> Callable[[str, str, Any], dict[str, Any]]:
    """`predict(address, key, policy)` of docs/examples/predict.py."""
    found: dict[str, Any] = {}
    exec((ROOT / "docs/examples/predict.py").read_text(), found)
    return found["predict"]  # type: ignore[no-any-return]


def agrees(row: dict[str, Any] | None, policy: Any, games: Games) -> None:
    """Compare the leaderboard row with `hanabi-rl predict`."""
    expected = predict(policy, games)
    assert row is not None and row["players"] == 2 and row["games"] == GAMES
    assert row["decisions"] == expected.decisions.sum()
    figures = {
        "nats": expected.cross_entropy(),
        "nats_per_timestep": expected.cross_entropy_per_timestep(),
        "accuracy": expected.accuracy(),
    }
    for name, ratio in figures.items():
        assert row[name] == pytest.approx(ratio.mean, abs=1e-6)
        assert row[f"{name}_ci95"] == pytest.approx(ratio.bounds, abs=1e-6)


def test_documented_client_agrees_with_predict(
    place: Path | str, backend: InProcess, held_out_path: Path, tmp_path: Path
) -> None:
    policy, client = recurrent_policy(Rules(), seed=3, scale=0.2), documented_client()
    with (
        contextlib.closing(Store(place, secret=tmp_path / "a.secret")) as store,
        serving(store, backend, held_out_path) as served,
    ):
        key = served.key("agent")
        assert client(served.address.replace("http", "ws"), key, policy) == {"done": True}
        row = served.standing("agent")
        agrees(row, policy, served.games)
        assert row is not None
        (line,) = csv.DictReader(io.StringIO(served.get("predictions.csv")))
        assert line["name"] == "agent" and float(line["nats"]) == row["nats"]
        assert float(line["accuracy_high"]) == row["accuracy_ci95"][1]
        page = served.get("")
        assert "Action prediction: 2 players" in page
        assert f"{row['nats_per_timestep']:.3f}" in page


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["bot:simple", "bot:convention?smoothing=0.1"])
def test_named_agents_agree_with_predict(served: Served, agent: str) -> None:
    key, policy = served.key(agent), load_policy(agent)
    documented_client()(served.address.replace("http", "ws"), key, policy)
    agrees(served.standing(agent), policy, served.games)


def test_interrupted_submit_agrees_with_predict(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or delayed; with nothing left to predict, it prints so."""
    key, policy = served.key("submitted"), load_policy("bot:iggi")
    real, answered, opened, opens = RemotePrediction.answer, [], [], ChallengeClient.predict

    def predict(self: ChallengeClient, players: int) -> Any:
        opened.append(players)
        if len(opened) == 1:
            raise ServerError(STORE_UNAVAILABLE)
        return opens(self, players)

    def answer(self: RemotePrediction, *answers: Any) -> None:
        answered.append(self.frame)
        if len(answered) in (3, 20):
            raise ConnectionResetError("the cable was pulled")
        real(self, *answers)

    monkeypatch.setattr(ChallengeClient, "predict", predict)
    monkeypatch.setattr(RemotePrediction, "answer", answer)
    args = ["submit", "bot:iggi", "--server", served.address, "--key", key, "--predict", "2"]
    for _ in range(2):
        main(args)
        assert "2 players: all predictions sent" in (output := capsys.readouterr()).out
        assert key not in output.out
    assert len(answered) > 22
    agrees(served.standing("submitted"), policy, served.games)
    with pytest.raises(SystemExit):
        main([*args[:-1], "3"])
    assert "num_players: expected one of 2, got '3'" in capsys.readouterr().err


def some_values(seen: dict[str, Any], form: str) -> list[float]:
    """Values per action, as good as random; all different."""
    legal = np.array(seen["legal_moves"], bool)
    probs = np.where(legal, 1.0 + np.sin(np.arange(21) + np.sum(seen["obs"])), 0) + 1e-6 * legal
    probs /= probs.sum()
    if form == "probabilities":
        return list(probs.tolist())
    return [float(np.log(prob)) if prob > 0 else 99.0 for prob in probs]


def read_on(
    reading: RemotePrediction, frames: int | None = None, form: str = "log_probabilities"
) -> list:
    """Answer `frames` frames, all without a number, and return them."""
    sent = []
    while reading.frame is not None and len(sent) != frames:
        frame = reading.frame
        sent.append(frame)
        answers = {row: some_values(frame["rows"][row], form) for row in reading.deciding}
        reading.answer(answers, form)
    return sent


def test_probabilities_equal_log_probabilities(served: Served) -> None:
    keys = {form: served.key(form) for form in ("probabilities", "log_probabilities")}
    for form, key in keys.items():
        with predictions(served.address, key) as reading:
            read_on(reading, form=form)
    one, other = (served.nats_by_turn(key) for key in keys.values())
    assert one == pytest.approx(other, abs=1e-9)
    rows = served.standing("probabilities"), served.standing("log_probabilities")
    assert rows[0] is not None and rows[1] is not None
    assert rows[0]["accuracy"] == rows[1]["accuracy"]
    assert rows[0]["nats"] == pytest.approx(np.mean(list(one.values())))


def test_next_frame_needs_all_predictions(served: Served) -> None:
    """Frames advance by one turn; rows are the seats' own, of people only."""
    with predictions(served.address, served.key("steps")) as reading:
        frames = read_on(reading)
    turns: dict[int, int] = {}
    for frame in frames:
        assert frame["turn"] == turns.get(frame["batch"], -1) + 1
        turns[frame["batch"]] = frame["turn"]
        assert len(frame["rows"]) <= BATCH_ROWS
        for seen in frame["rows"].values():
            assert seen["decides"] != (seen["legal_moves"][-1] == 1.0)
    decided = sum(seen["decides"] for frame in frames for seen in frame["rows"].values())
    seats, lengths = served.games.human_seats, served.games.num_actions
    assert seats is not None
    moves = np.arange(lengths.max())
    assert decided == ((moves < lengths[:, None]) & seats[:, moves % 2]).sum()
    assert len(turns) == -(-GAMES // (BATCH_ROWS // 2))


def recorded(game: Game, seats: list[int], rng: np.random.Generator) -> HeldOutGames:
    """The game with a few random moves appended, as held-out game with `seats`."""
    table, moves = game.table(), list(game.moves)
    while not table.over and len(moves) < game.turn + 4:
        legal = [a for a in range(game.rules.num_actions) if table.illegal_reason(a) is None]
        moves.append(int(rng.choice(legal)))
        table.apply(moves[-1])
    games = as_games(game.rules, [table], [np.array(moves, np.int32)])
    people = np.isin(np.arange(game.rules.num_players), seats)[None]
    return HeldOutGames(dataclasses.replace(games, human_seats=people), "some")


@pytest.mark.parametrize(
    ("players", "count"),
    [
        (2, 15),
        pytest.param(2, 300, marks=pytest.mark.slow),
        pytest.param(3, 300, marks=pytest.mark.slow),
    ],
)
def test_frames_do_not_depend_on_hidden_future(
    backend: InProcess, players: int, count: int
) -> None:
    rules, rng = Rules(num_players=players), np.random.default_rng(0)
    backend = backend if players == 2 else InProcess(EMPTY_TEAM, rules, BATCH_ROWS)

    def sent(held_out: HeldOutGames, turn: int) -> bytes:
        (batch,) = held_out.batches
        frame = asyncio.run(batch_observations(backend, held_out, batch, turn, 0)).content()
        return orjson.dumps(frame, option=orjson.OPT_SERIALIZE_NUMPY)

    seen, futures = 0, 0
    for game, other, seat in pairs(rules, count):
        one, two = recorded(game, [seat], rng), recorded(other, [seat], rng)
        assert sent(one, game.turn) == sent(two, game.turn)
        if game.turn:
            assert sent(one, game.turn // 2) == sent(two, game.turn // 2)
        if min(len(one.games.moves(0)), len(two.games.moves(0))) > game.turn + 1:
            futures += sent(one, game.turn + 1) != sent(two, game.turn + 1)
        another = [(seat + 1) % players]  # seat that sees most of those cards
        one, two = recorded(game, another, rng), recorded(other, another, rng)
        seen += sent(one, game.turn) != sent(two, game.turn)
    assert seen > count // 2 and futures > count // 2  # a leak would be detected


def test_saved_predictions_survive_interruption(served: Served) -> None:
    key, (batch, *_) = served.key("broken"), HeldOutGames(served.games, "some").batches
    longest = int(max(served.games.num_actions[game] for game, _ in batch))
    with predictions(served.address, key) as reading:
        read_on(reading, longest + 3)  # the first batch and part of the second
    before = served.nats_by_turn(key)
    assert before and served.standing("broken") is None
    with predictions(served.address, key) as reading:
        assert reading.frame is not None
        assert (reading.frame["batch"], reading.frame["turn"]) == (1, 0)
        while reading.frame is not None:  # different answers
            reading.answer({row: [0.0] * 21 for row in reading.deciding})
    after = served.nats_by_turn(key)
    assert {at: after[at] for at in before} == before and len(after) > len(before)
    assert served.standing("broken") is not None
    with predictions(served.address, key) as reading:
        assert reading.frame is None


BAD = [
    ("no JSON", "expected JSON"),
    ('{"probabilities": {ROWS: [NaN]}}', "expected JSON .which has no NaN and no infinity., got"),
    ("[]", "expected one of log_probabilities and probabilities, for .*; got list"),
    ('{"probabilities": {}, "log_probabilities": {}}', "expected one of .*got probabilities, log_"),
    ('{"log_probabilities": {"77": []}}', "log_probabilities: expected a list for .*; got 77"),
    ('{"log_probabilities": 7}', "log_probabilities: expected a list for .*; got int"),
    ('{"log_probabilities": {ROWS: [1]}}', r"row \d+: expected 21 numbers, one per action, got 1$"),
    ('{"log_probabilities": {ROWS: {}}}', "expected 21 numbers, one per action, got dict"),
    ('{"log_probabilities": {ROWS: NULLS}}', "expected a number for at least one legal action"),
    ('{"log_probabilities": {ROWS: TRUES}}', "action 0: expected a number, got True"),
    ('{"probabilities": {ROWS: NULLS}}', "expected probabilities that sum to 1, got 0$"),
    ('{"probabilities": {ROWS: HALF}}', "expected probabilities that sum to 1, got 0.5$"),
    ('{"probabilities": {ROWS: NEGATIVE}}', "expected a probability, 0 to 1, got -0.5"),
    ('{"probabilities": {ROWS: ILLEGAL}}', "expected 0 for an illegal action, got 1$"),
]


def test_invalid_prediction_is_explained_and_free(served: Served) -> None:
    """Two wrong answers per batch are far from ten: a connection for every few."""
    key = served.key("wrong")
    for first in range(0, len(BAD), 7):
        with predictions(served.address, key) as reading:
            for text, reason in BAD[first : first + 7]:
                assert reading.frame is not None
                legal = np.array(reading.frame["rows"][reading.deciding[0]]["legal_moves"], bool)
                rows = {
                    "NULLS": [None] * 21,
                    "TRUES": [True] * 21,
                    "HALF": (0.5 * legal / legal.sum()).tolist(),
                    "NEGATIVE": [-0.5 if action == legal.argmax() else 0.0 for action in range(21)],
                    "ILLEGAL": np.eye(21)[legal.argmin()].tolist(),
                }
                for name, values in rows.items():
                    text = text.replace(name, json.dumps(values))
                text = re.sub(
                    "{ROWS: (.*)}}",
                    lambda found, rows=reading.deciding: (
                        "{" + ", ".join(f'"{row}": {found[1]}' for row in rows) + "}}"
                    ),
                    text,
                )
                before = reading.frame
                with pytest.raises(ServerError, match=reason):
                    reading.send(text)
                assert reading.frame is before and served.nats_by_turn(key) == {}
    with predictions(served.address, key) as reading:
        with pytest.raises(ServerError):
            reading.send("")
        read_on(reading)
    assert served.standing("wrong") is not None


def test_tenth_invalid_prediction_ends_connection(served: Served) -> None:
    with predictions(served.address, served.key("ten")) as reading:
        for _ in range(10):
            with pytest.raises(ServerError):
                reading.send("{}")
        with pytest.raises(Exception, match="1000"):
            reading.send("{}")


def test_refusal_gives_reason(served: Served) -> None:
    key = served.key("refused")
    with pytest.raises(ServerError, match="unknown, revoked or expired"):
        predictions(served.address, "hk_eval_no")
    with pytest.raises(ServerError, match="num_players: expected one of 2, got '3'"):
        predictions(served.address, key, 3)
    with pytest.raises(ServerError, match="num_players: expected one of 2, got '1111"):
        predictions(served.address, key, "1" * 5000)  # type: ignore[arg-type]
    test_key = served.store.add_key("refused", "test")
    with pytest.raises(ServerError, match="expected a key of kind eval, got one of kind test"):
        predictions(served.address, test_key)


def test_prediction_connections_per_key_are_limited(served: Served) -> None:
    key = served.key("many")
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(predictions(served.address, key))
        with pytest.raises(ServerError, match="this key has 6 prediction connections"):
            predictions(served.address, key)
        other = served.key("not so many")
        stack.enter_context(predictions(served.address, other))
    for _ in range(1000):  # until the server has noticed the disconnects
        with contextlib.suppress(ServerError), predictions(served.address, key):
            return
    raise AssertionError("none was freed")


def test_both_databases_keep_first_prediction(place: Path | str, tmp_path: Path) -> None:
    with contextlib.closing(Store(place, secret=tmp_path / "s.secret")) as store:
        store.add_entry("a")
        key = store.key(store.add_key("a", "eval"))
        assert key is not None
        saved = Predictions(store)
        saved.record(key, "set", [Guess(0, 1, 1, 0.5, True)])
        saved.record(key, "set", [Guess(0, 1, 1, 0.1, True), Guess(0, 1, 3, 2.0, False)])
        assert saved.recorded(key, "set") == {(0, 1, 1), (0, 1, 3)}
        assert saved.recorded(key, "other") == set()
        assert [saved.count(key, *which) for which in ((), ("set",), ("other",))] == [2, 2, 0]
        with store.database.transaction("read") as db:
            found = db.execute("SELECT SUM(nats), SUM(correct) FROM predictions").fetchone()
        assert tuple(map(float, found)) == (2.5, 1.0)
