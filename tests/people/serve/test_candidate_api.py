"""The challenge's wire protocol, over real sockets, as the published client uses it."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import os
import signal
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import orjson
import pytest
from support.indistinguishable import pairs
from support.inference import InProcess
from support.protocol import (
    RemoteGame,
    Rows,
    ServerError,
    evaluation_info,
    first_legal,
    play_next,
    play_out,
    play_test,
)
from support.serving import serve_app

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import act
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.candidate_api import agents_at, agents_of, candidate_seats, team_of
from hanabi_rl.people.serve.candidate_game import CandidateGame
from hanabi_rl.people.serve.challenge import make_challenge
from hanabi_rl.people.serve.inference_process import InferenceProcess, StartupError
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.proxies import with_identities
from hanabi_rl.people.serve.request_limits import RequestLimiter
from hanabi_rl.people.serve.sockets import MAX_INVALID_MESSAGES
from hanabi_rl.people.serve.store import Store
from hanabi_rl.play.episodes import play_games
from hanabi_rl.play.lineups import CANDIDATE

PROXIES = {2: ("bot:simple", "bot:iggi")}


class Served(NamedTuple):
    address: str
    store: Store
    inference: InferenceProcess

    def key(self, name: str, kind: Any = "eval", games: int = 4) -> str:
        self.store.add_entry(name)
        return self.store.add_key(name, kind, {2: games} if kind == "eval" else None)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = Store(tmp_path_factory.mktemp("challenge") / "challenge.sqlite")
    inference = InferenceProcess(agents_of(PROXIES), slots=4)
    limiter, identities = RequestLimiter(), inference.load()
    agreed = store.fix_proxies(with_identities(PROXIES, identities))
    with serve_app(make_challenge(store, inference, agreed, limiter), limiter) as address:
        yield Served(address, store, inference)


class Candidate:
    """A policy as a protocol client, one game at a time."""

    def __init__(self, name: str) -> None:
        self.policy = load_policy(name)
        self.carry, self.reset = self.policy.init_carry(1), True

    def __call__(self, rows: Rows) -> dict[str, int]:
        ((agent, row),) = rows.items()
        obs = jnp.asarray(row["obs"], jnp.float32)[None]
        legal = jnp.asarray(row["legal_moves"], bool)[None]
        self.carry, action = act(self.policy, self.carry, obs, legal, jnp.array([self.reset]))
        self.reset = False
        return {agent: int(action[0])}


def test_whole_run_matches_client(served: Served) -> None:
    key = served.key("whole", games=8)
    before = evaluation_info(served.address, key)
    assert before["human_ai_eval_done"] is False and len(before["all_envs"]) == 8
    scores, controlled = [], collections.Counter[tuple[str, ...]]()
    for _ in range(8):
        environment = play_next(served.address, key)
        assert environment.info["num_players"] == 2 and environment.info["is_debug"] is False
        controlled[tuple(environment.info["candidate_controlling"])] += 1
        statuses = [env["status"] for env in evaluation_info(served.address, key)["all_envs"]]
        assert statuses.count("ACTIVE") == 1 and statuses.count("DONE") == len(scores)
        scores.append(play_out(environment))
    assert controlled == {("agent_0",): 4, ("agent_1",): 4}
    after = evaluation_info(served.address, key)
    assert after["human_ai_eval_done"] is True
    assert [env["score"] for env in after["all_envs"]] == scores
    assert all(type(env["score"]) is int for env in after["all_envs"])
    with pytest.raises(ServerError, match="no environments left: all 8 games"):
        play_next(served.address, key)


@pytest.mark.slow
def test_remote_agent_equals_play_games(served: Served) -> None:
    """Action by action, on the decks that the store dealt."""
    key = served.key("agent", games=4)
    for _ in range(4):
        play_out(play_next(served.address, key), Candidate("bot:holmes"))
    rules, me = Rules(), load_policy("bot:holmes")
    known = served.store.key(key)
    assert known is not None
    for lease, score in served.store.finished(known):
        proxy = load_policy(PROXIES[2][max(lease.lineup)])
        at_seat = tuple(me if holder == CANDIDATE else proxy for holder in lease.lineup)
        index = np.array([lease.game_id % 2**32], np.uint32)  # index of the partner's random stream
        expected = play_games(at_seat, rules, np.array([lease.deck], np.uint8), game_index=index)
        assert lease.moves == tuple(expected.actions[0, : expected.num_actions[0]])
        assert score == expected.scores[0]


def test_interrupted_game_restarts_at_first_frame(served: Served) -> None:
    key = served.key("interrupted")
    while True:  # a game may lose its lives before: then the next one
        first, frames = play_next(served.address, key), []
        while len(frames) < 7 and not first.done:
            frames.append(first.rows)
            first.step(first_legal(first.rows))
        if not first.done:
            break
    first.close()
    again = resumed(served, key)
    assert again.info == first.info
    for rows in frames:
        for agent, row in rows.items():
            np.testing.assert_array_equal(again.rows[agent]["obs"], row["obs"])
        last = {
            agent: int(np.flatnonzero(row["legal_moves"])[-1]) for agent, row in again.rows.items()
        }
        again.step(last)  # answers to saved moves do not count
    for agent, row in first.rows.items():
        np.testing.assert_array_equal(again.rows[agent]["obs"], row["obs"])
    play_out(again)
    known = served.store.key(key)
    assert known is not None
    assert sorted(row.interruptions for row in served.store.rows(known)) == [0, 0, 0, 1]


def last_legal(rows: Rows) -> dict[str, int]:
    return {agent: int(np.flatnonzero(row["legal_moves"])[-1]) for agent, row in rows.items()}


def resumed(served: Served, key: str) -> RemoteGame:
    """The key's next game, once the server has noticed the disconnect."""
    known = served.store.key(key)
    assert known is not None
    until = time.monotonic() + 120
    while not any(row.interruptions for row in served.store.rows(known)):
        assert time.monotonic() < until, served.store.rows(known)
        time.sleep(0.01)
    return play_next(served.address, key)


@pytest.mark.slow  # compiles in a new process
def test_killed_inference_process_keeps_connections(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does killing the next process during startup."""
    real, failed = served.inference.compile, []

    def compile_again() -> None:
        if not failed:
            failed.append(True)
            raise StartupError("killed")
        real()

    monkeypatch.setattr(served.inference, "compile", compile_again)
    monkeypatch.setattr("hanabi_rl.people.serve.inference_process.RETRY_S", 0.01)
    key, candidate = served.key("killed"), Candidate("bot:holmes")
    environment, starts = play_next(served.address, key), served.inference.starts
    for turn in range(12):
        if turn == 5:
            assert served.inference.pid is not None
            os.kill(served.inference.pid, signal.SIGKILL)
        environment.step(candidate(environment.rows))
    play_out(environment, candidate)
    assert failed and served.inference.starts == starts + 1


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("no JSON", "expected JSON"),
        ("[]", "expected an object"),
        ("{}", "expected one action for each of agent_"),
        ('{"agent_0": 0, "agent_1": 0}', "expected one action for each of agent_"),
        ('{"AGENT": true}', "expected a whole number"),
        ('{"AGENT": 1.0}', "expected a whole number"),
        ('{"AGENT": 21}', "from 0 to 20, got 21"),
        ('{"AGENT": -1}', "from 0 to 20, got -1"),
        ('{"AGENT": ILLEGAL}', "is illegal"),
    ],
)
def test_invalid_action_changes_nothing(served: Served, message: str, reason: str) -> None:
    environment = play_test(served.address, test_key(served), 2, [0])
    (agent,) = environment.rows
    illegal = int(np.argmin(environment.rows[agent]["legal_moves"]))
    environment.send(message.replace("AGENT", agent).replace("ILLEGAL", str(illegal)))
    with pytest.raises(ServerError, match=reason):
        environment.receive()
    before = environment.rows[agent]["obs"]
    environment.step(first_legal(environment.rows))
    assert not np.array_equal(environment.rows[agent]["obs"], before)
    environment.close()


def test_team_excludes_candidate() -> None:
    proxies = ("bot:simple", "bot:iggi", "bot:value")
    assert team_of((2, CANDIDATE, 0), proxies) == ("bot:value", "bot:simple")
    assert team_of((CANDIDATE, 1), proxies) == ("bot:iggi",)
    assert candidate_seats((CANDIDATE, 1, CANDIDATE)) == (0, 2)
    assert agents_at((0, 2)) == ("agent_0", "agent_2")


def test_ten_invalid_messages_end_connection(served: Served) -> None:
    environment = play_test(served.address, test_key(served), 2, [1])
    for _ in range(MAX_INVALID_MESSAGES):
        environment.send("{}")
        with pytest.raises(ServerError):
            environment.receive()
    with pytest.raises(Exception, match="too many invalid messages"):
        environment.receive()


def test_key(served: Served) -> str:
    name = f"test-{len(served.store.entries())}"
    return served.key(name, "test")


test_key.__test__ = False  # type: ignore[attr-defined]


def test_test_games_use_random_partners_and_are_unsaved(served: Served) -> None:
    key = test_key(served)
    environments = [play_test(served.address, key, 2, [seat]) for seat in (0, 1)]
    assert [one.info["candidate_controlling"] for one in environments] == [["agent_0"], ["agent_1"]]
    assert all(one.info["is_debug"] is True for one in environments)
    for environment in environments:
        play_out(environment)
    assert evaluation_info(served.address, key)["all_envs"] == []


@pytest.mark.parametrize(
    ("players", "seats", "reason"),
    [
        (4, [0], "num_players: expected one of 2, got '4'"),
        ("1" * 5000, [0], "num_players: expected one of 2, got '1111"),  # too long for `int`
        (2, [], "candidate_positions: expected 1 to 1 different seats"),
        (2, [0, 1], "candidate_positions: expected 1 to 1"),
        (2, [2], "candidate_positions: expected 1 to 1 different seats from 0 to 1, got '2'"),
    ],
)
def test_invalid_test_game_is_refused(
    served: Served, players: Any, seats: list[int], reason: str
) -> None:
    with pytest.raises(ServerError, match=reason):
        play_test(served.address, test_key(served), players, seats)


def test_keys_open_only_their_kind(served: Served) -> None:
    test, official = test_key(served), served.key("official")
    with pytest.raises(ServerError, match="unknown, revoked or expired"):
        play_next(served.address, "hk_eval_nothing")
    with pytest.raises(ServerError, match="expected a key of kind eval, got one of kind test"):
        play_next(served.address, test)
    with pytest.raises(ServerError, match="expected a key of kind test, got one of kind eval"):
        play_test(served.address, official, 2, [0])
    unknown = evaluation_info(served.address, "hk_eval_nothing")
    assert "unknown" in unknown["human_ai_eval_done"]  # not a boolean: the client raises


@pytest.mark.parametrize(
    ("players", "count"), [(2, 16), *(pytest.param(n, 500, marks=pytest.mark.slow) for n in (2, 3))]
)
def test_frames_do_not_depend_on_hidden_cards(players: int, count: int) -> None:
    rules = Rules(num_players=players)
    backend = InProcess(("bot:random",) * (players - 1), rules, slots=2)

    async def frame_bytes(game: Game, seat: int) -> bytes:
        seating = CandidateGame(
            rules,
            game.deck,
            frozenset({seat}),
            backend.team,
            backend,
            game_id=game.game_id,
            moves=game.moves,
        )
        frame = await seating.frame()
        while seating.game.turn < game.turn:
            legal = frame[f"agent_{seat}"]["legal_moves"]
            await seating.act({f"agent_{seat}": int(np.argmax(legal))})
            frame = await seating.frame()
        assert seating.game == dataclasses.replace(game, people=frozenset({seat}))
        score = {"done": seating.done, "score": seating.score}
        return orjson.dumps(frame | score, option=orjson.OPT_SERIALIZE_NUMPY)

    def sent(game: Game, seat: int) -> bytes:
        return asyncio.run(frame_bytes(game, seat))

    differ = 0
    for game, other, seat in pairs(rules, count):
        assert sent(game, seat) == sent(other, seat)
        another = (seat + 1) % players  # seat that sees most of those cards
        differ += sent(game, another) != sent(other, another)
    assert differ > count // 2  # a leak would be detected
