"""Action prediction in lock-step over a real socket: what is shown when, what stands, and that it
says what `predict` says."""

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

    def kept(self, key: str) -> dict[tuple[int, int], float]:
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
    """Games of two, short ones and whole ones, in every third of which one seat is a person's."""
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
    """Whether the leaderboard says what `hanabi-rl predict` would."""
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


def test_the_documented_client_predicts_as_predict_says(
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
        assert "Predicting the moves of people: 2 players" in page
        assert f"{row['nats_per_timestep']:.3f}" in page


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["bot:simple", "bot:convention?smoothing=0.1"])
def test_agents_by_name_predict_as_predict_says(served: Served, agent: str) -> None:
    key, policy = served.key(agent), load_policy(agent)
    documented_client()(served.address.replace("http", "ws"), key, policy)
    agrees(served.standing(agent), policy, served.games)


def test_submit_predicts_as_predict_says_however_often_it_is_cut_off(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or put off; and where nothing is left to predict it says so."""
    key, policy = served.key("submitted"), load_policy("bot:iggi")
    real, answered, opened, opens = RemotePrediction.answer, [], [], ChallengeClient.predict

    def predict(self: ChallengeClient, players: int) -> Any:
        opened.append(players)
        if len(opened) == 1:
            raise ServerError(STORE_UNAVAILABLE)
        return opens(self, players)

    def answer(self: RemotePrediction, *said: Any) -> None:
        answered.append(self.frame)
        if len(answered) in (3, 20):
            raise ConnectionResetError("the cable was pulled")
        real(self, *said)

    monkeypatch.setattr(ChallengeClient, "predict", predict)
    monkeypatch.setattr(RemotePrediction, "answer", answer)
    args = ["submit", "bot:iggi", "--server", served.address, "--key", key, "--predict", "2"]
    for _ in range(2):
        main(args)
        assert "2 players: http" in (said := capsys.readouterr()).out and key not in said.out
    assert len(answered) > 22
    agrees(served.standing("submitted"), policy, served.games)
    with pytest.raises(SystemExit):
        main([*args[:-1], "3"])
    assert "num_players: expected one of 2, got '3'" in capsys.readouterr().err


def some_chances(seen: dict[str, Any], form: str) -> list[float]:
    """Of each action, as good as at random; no two are equal."""
    legal = np.array(seen["legal_moves"], bool)
    chances = np.where(legal, 1.0 + np.sin(np.arange(21) + np.sum(seen["obs"])), 0) + 1e-6 * legal
    chances /= chances.sum()
    if form == "probabilities":
        return list(chances.tolist())
    return [float(np.log(chance)) if chance > 0 else 99.0 for chance in chances]


def read_on(
    reading: RemotePrediction, frames: int | None = None, form: str = "log_probabilities"
) -> list:
    """Answers so many frames, all without a number, and returns what was shown."""
    shown = []
    while reading.frame is not None and len(shown) != frames:
        frame = reading.frame
        shown.append(frame)
        said = {row: some_chances(frame["rows"][row], form) for row in reading.deciding}
        reading.answer(said, form)
    return shown


def test_probabilities_say_the_same_as_their_logarithms(served: Served) -> None:
    keys = {form: served.key(form) for form in ("probabilities", "log_probabilities")}
    for form, key in keys.items():
        with predictions(served.address, key) as reading:
            read_on(reading, form=form)
    one, other = (served.kept(key) for key in keys.values())
    assert one == pytest.approx(other, abs=1e-9)
    rows = served.standing("probabilities"), served.standing("log_probabilities")
    assert rows[0] is not None and rows[1] is not None
    assert rows[0]["accuracy"] == rows[1]["accuracy"]
    assert rows[0]["nats"] == pytest.approx(np.mean(list(one.values())))


def test_no_frame_is_of_a_turn_whose_move_was_not_predicted(served: Served) -> None:
    """Each frame is one turn on; rows are the seat's own, and those of people alone."""
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
    """The game, gone on with by a few random moves, as one that is predicted at `seats`."""
    table, moves = game.table(), list(game.moves)
    while not table.over and len(moves) < game.turn + 4:
        legal = [a for a in range(game.rules.num_moves) if table.illegal_reason(a) is None]
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
def test_frames_of_games_that_differ_in_hidden_cards_and_the_future_are_equal_to_the_byte(
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
        another = [(seat + 1) % players]  # who sees most of those cards
        one, two = recorded(game, another, rng), recorded(other, another, rng)
        seen += sent(one, game.turn) != sent(two, game.turn)
    assert seen > count // 2 and futures > count // 2  # so a leak would be noticed


def test_after_an_interruption_what_was_said_stands(served: Served) -> None:
    key, (batch, *_) = served.key("broken"), HeldOutGames(served.games, "some").batches
    longest = int(max(served.games.num_actions[game] for game, _ in batch))
    with predictions(served.address, key) as reading:
        read_on(reading, longest + 3)  # the first batch, and some of the second
    before = served.kept(key)
    assert before and served.standing("broken") is None
    with predictions(served.address, key) as reading:
        assert reading.frame is not None
        assert (reading.frame["batch"], reading.frame["turn"]) == (1, 0)
        while reading.frame is not None:  # and now says something else
            reading.answer({row: [0.0] * 21 for row in reading.deciding})
    after = served.kept(key)
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
    ('{"log_probabilities": {ROWS: [1]}}', r"row \d+: expected 21 numbers, one an action, got 1$"),
    ('{"log_probabilities": {ROWS: {}}}', "expected 21 numbers, one an action, got dict"),
    ('{"log_probabilities": {ROWS: NULLS}}', "expected a number for one legal action at least"),
    ('{"log_probabilities": {ROWS: TRUES}}', "action 0: expected a number, got True"),
    ('{"probabilities": {ROWS: NULLS}}', "expected probabilities that sum to 1, got 0$"),
    ('{"probabilities": {ROWS: HALF}}', "expected probabilities that sum to 1, got 0.5$"),
    ('{"probabilities": {ROWS: NEGATIVE}}', "expected a probability, 0 to 1, got -0.5"),
    ('{"probabilities": {ROWS: ILLEGAL}}', "expected 0, as it is not legal now, got 1$"),
]


def test_what_is_no_prediction_is_answered_in_words_and_costs_nothing(served: Served) -> None:
    """Two wrong answers a batch are far from ten: a connection for every few."""
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
                assert reading.frame is before and served.kept(key) == {}
    with predictions(served.address, key) as reading:
        with pytest.raises(ServerError):
            reading.send("")
        read_on(reading)
    assert served.standing("wrong") is not None


def test_the_tenth_wrong_answer_ends_the_connection(served: Served) -> None:
    with predictions(served.address, served.key("ten")) as reading:
        for _ in range(10):
            with pytest.raises(ServerError):
                reading.send("{}")
        with pytest.raises(Exception, match="1000"):
            reading.send("{}")


def test_who_is_refused_reads_why(served: Served) -> None:
    key = served.key("refused")
    with pytest.raises(ServerError, match="unknown, revoked or expired"):
        predictions(served.address, "hk_eval_no")
    with pytest.raises(ServerError, match="num_players: expected one of 2, got '3'"):
        predictions(served.address, key, 3)
    with pytest.raises(ServerError, match="num_players: expected one of 2, got '1111"):
        predictions(served.address, key, "1" * 5000)  # type: ignore[arg-type]
    test_key = served.store.add_key("refused", "test")
    with pytest.raises(ServerError, match="a key of kind test, expected one of kind eval"):
        predictions(served.address, test_key)


def test_a_key_predicts_on_so_many_connections_at_a_time(served: Served) -> None:
    key = served.key("many")
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(predictions(served.address, key))
        with pytest.raises(ServerError, match="6 other connections of this key"):
            predictions(served.address, key)
        other = served.key("not so many")
        stack.enter_context(predictions(served.address, other))
    for _ in range(1000):  # until the server has seen that they are gone
        with contextlib.suppress(ServerError), predictions(served.address, key):
            return
    raise AssertionError("none was freed")


def test_both_stores_keep_what_was_said_first(place: Path | str, tmp_path: Path) -> None:
    with contextlib.closing(Store(place, secret=tmp_path / "s.secret")) as store:
        store.add_entry("a")
        key = store.key(store.add_key("a", "eval"))
        assert key is not None
        said = Predictions(store)
        said.record(key, "set", [Guess(0, 1, 1, 0.5, True)])
        said.record(key, "set", [Guess(0, 1, 1, 0.1, True), Guess(0, 1, 3, 2.0, False)])
        assert said.recorded(key, "set") == {(0, 1, 1), (0, 1, 3)}
        assert said.recorded(key, "other") == set()
        assert (said.count(key), said.count(key, "set"), said.count(key, "other")) == (2, 2, 0)
        with store.database.transaction("read") as db:
            found = db.execute("SELECT SUM(nats), SUM(correct) FROM predictions").fetchone()
        assert tuple(map(float, found)) == (2.5, 1.0)
