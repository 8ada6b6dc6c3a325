"""Agents of the user's own code: moves, errors, identity."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import shuffled_decks
from support.games import ROOT
from support.observations import observations

from hanabi_rl.agents.loading import load_agents, load_policy, strip_options
from hanabi_rl.agents.process import make_question
from hanabi_rl.agents.python_bot import (
    HostError,
    HostPolicy,
    Sessions,
    host_errors,
    read_size,
)
from hanabi_rl.games.hanabi.observation_decoder import ObservationDecoder
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.serve.player_view import player_view
from hanabi_rl.play.episodes import play_games

RULES = Rules(num_players=3, num_colors=2, num_ranks=3, hand_size=2, max_life_tokens=2)
BYTES = (read_size(RULES) + 7) // 8

BOTS = '''
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from hanabi_rl import Bot


class Counting:
    """Its move depends on everything in the view, and on its number of turns."""

    def __init__(self, start: int = 0, step=2, late: int | None = None):
        self.turns, self.step = start, step

    calls = 0

    def act(self, view):
        Counting.calls += 1
        self.turns += self.step
        text = repr(sorted(view.items()))
        return view["legal"][(self.turns + sum(map(ord, text))) % len(view["legal"])]


class Number(Counting):
    def act(self, view):
        return np.int64(super().act(view)["action"])


class Plain:
    def __init__(self, rules, scale: float = 1.0):
        self.rules, self.scale = rules, scale

    def init_carry(self, batch):
        return jnp.zeros(batch, jnp.int32)

    def step(self, carry, obs, legal, reset, key=None):
        carry = jnp.where(reset, 1, carry + 1)
        order = (self.scale * carry[:, None] + 7 * jnp.arange(legal.shape[1])) % 11
        return carry, order.astype(jnp.float32)


class Jax(Bot):
    name: ClassVar[str] = "jax"
    scale: float = 1.0

    def init_carry(self, batch):
        return jnp.zeros(batch, jnp.int32)

    def step(self, carry, obs, legal, reset, key=None):
        carry, order = Plain.step(self, carry, obs, legal, reset)
        return carry, jnp.where(legal, order, -1e10)


class Illegal:
    def act(self, view):
        return 999


class Forbidden:
    def act(self, view):
        return 0


class Fails:
    def act(self, view):
        return [][view["turn"]]  # the line shown


class FailsAtStart:
    def __init__(self):
        raise KeyError("weights")

    def act(self, view): ...


class Required:
    def __init__(self, weights: str): ...

    def act(self, view): ...


class NoAgent: ...


class WrongLogits(Plain):
    def step(self, carry, obs, legal, reset, key=None):
        return carry, jnp.zeros((legal.shape[0], legal.shape[1] + 1))


class WrongCarry(Plain):
    def step(self, carry, obs, legal, reset, key=None):
        return 1.5 * carry, super().step(carry, obs, legal, reset)[1]


class OneLeaf(Plain):
    def init_carry(self, batch):
        return jnp.zeros((), jnp.int32)

    def step(self, carry, obs, legal, reset, key=None):
        return carry, super().step(jnp.zeros(len(reset), jnp.int32), obs, legal, reset)[1]


class NoKey:
    def __init__(self, rules):
        self.rules = rules

    def init_carry(self, batch):
        return ()

    def step(self, carry, obs, legal, reset):
        return carry, jnp.zeros(legal.shape)


class OnlyLogits(Plain):
    def step(self, carry, obs, legal, reset, key=None):
        return super().step(carry, obs, legal, reset)[1]


class Traced(Plain):
    def step(self, carry, obs, legal, reset, key=None):
        return carry, 1.0 if obs[0, 0] else 2.0  # the line shown
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working folder with the bots in mine.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine.py").write_text(BOTS)
    return tmp_path


def expected_moves(rules: Rules, deck: np.ndarray, bots: list[Any]) -> list[int]:
    """Moves of one game by the server's view of the table, which reads the deck."""
    game = Game(0, rules, tuple(map(int, deck)), frozenset())
    table = PythonGame(rules, deck)
    while not table.over and len(game.moves) < rules.max_turns:
        seat = table.player
        question = make_question(0, player_view(game, seat))
        move = bots[seat].act(
            {**question["view"], "legal": question["legal"], "last": question["last"]}
        )
        game = dataclasses.replace(game, moves=(*game.moves, move["action"]))
        table.apply(move["action"])
    return list(game.moves)


def _module() -> Any:
    """The module of mine.py that was imported last."""
    return [module for name, module in sys.modules.items() if name.startswith("mine_")][-1]


def decks_of(rules: Rules, number: int) -> np.ndarray:
    return np.asarray(shuffled_decks(rules, jax.random.key(3), number))


def test_python_bots_move_as_at_a_table(folder: Path) -> None:
    """Several games a slot; bots of two classes at seats that differ between games."""
    from_file = load_policy("python:mine.py:Counting?start=1", RULES)
    others = load_policy("python:mine.py:Number?step=3", RULES)
    decks = decks_of(RULES, 11)
    seating = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])[np.arange(11) % 3]
    team = (from_file, others, others)
    games = play_games(team, RULES, decks, seating=seating, chunk_size=4)
    counting = _module().Counting
    for index, deck in enumerate(decks):
        first = seating[index][0]
        bots = [counting(1) if seat == first else counting(step=3) for seat in range(3)]
        assert games.moves(index).tolist() == expected_moves(RULES, deck, bots)


def test_bots_are_asked_only_within_games(folder: Path) -> None:
    """A slot whose game has ended shows the seats of the last game."""
    policies = [load_policy(f"python:mine.py:Counting?start={n}", RULES) for n in range(3)]
    seating = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])[np.arange(32) % 3]
    counting = _module().Counting
    counting.calls = 0
    games = play_games(tuple(policies), RULES, decks_of(RULES, 32), seating=seating)
    assert len({*games.num_actions.tolist()}) > 3
    assert counting.calls == games.num_actions.sum()


def test_bots_see_the_last_position_where_games_are_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot without a next game shows the end of its last, not a deal that was never reset."""
    follow, read = ObservationDecoder._follow, []

    def recorded(self: ObservationDecoder, part: dict[str, np.ndarray]) -> Any:
        read.append(part["last_kind"].any())
        return follow(self, part)

    monkeypatch.setattr(ObservationDecoder, "_follow", recorded)
    rules = Rules(num_colors=1, num_ranks=3, hand_size=1, max_life_tokens=32, max_info_tokens=1)
    bot = load_policy("python:mine.py:Counting", rules)
    play_games((bot,) * 2, rules, decks_of(rules, 12))
    assert len(read) > 100 and all(read)


def test_step_depends_on_its_inputs_alone(folder: Path) -> None:
    """A carry that was stepped before gives the same move again, and other memory is unchanged."""
    policy = load_policy("python:mine.py:Counting", RULES)
    moves = expected_moves(RULES, decks_of(RULES, 1)[0], [_counting(folder)() for _ in range(3)])
    seen = observations(RULES, [(decks_of(RULES, 1)[0], moves)])[0]
    carry, carries, found = policy.init_carry(1), [], []
    for turn in [*range(len(moves)), *range(3, len(moves))]:
        if turn == 3 and len(carries) > 3:
            carry = carries[3]
        carries.append(carry)
        legal = jnp.arange(RULES.num_actions) == RULES.noop
        if turn % 3 == 0:  # seat 0
            legal = ~legal
        carry, logits = policy.step(carry, seen[turn, :1], legal[None], jnp.array([turn == 0]))
        if turn % 3 == 0:
            found.append((turn, int(logits.argmax())))
    own = [(turn, move) for turn, move in enumerate(moves) if turn % 3 == 0]
    assert found == own + [one for one in own if one[0] >= 3]


def _counting(folder: Path) -> Any:
    space: dict[str, Any] = {}
    exec(compile((folder / "mine.py").read_text(), "mine.py", "exec"), space)
    return space["Counting"]


def test_sessions_are_forgotten_but_not_those_in_use(folder: Path) -> None:
    policy = load_policy("python:mine.py:Counting", RULES)
    assert isinstance(policy, HostPolicy) and policy.sessions is not None
    seen, own = np.zeros((300, BYTES), np.uint8), np.zeros(300, bool)
    held, _ = policy.sessions.step(np.zeros((300, 2), np.int32), seen, own, np.ones(300, bool))
    carry = np.zeros((300, 2), np.int32)
    for _ in range(10):
        carry, _ = policy.sessions.step(carry, seen, own, np.ones(300, bool))
    assert len(policy.sessions._sessions) <= 1800
    held, _ = policy.sessions.step(held, seen, own, np.zeros(300, bool))
    assert (held[:, 1] == 2).all()
    for _ in range(7):
        policy.sessions.step(np.zeros((300, 2), np.int32), seen, own, np.zeros(300, bool))
    with pytest.raises(HostError, match="expected at most 1,800 games at once"):
        policy.sessions.step(held, seen, own, np.zeros(300, bool))


def test_sessions_of_a_call_per_seat_and_a_copy_are_kept(folder: Path) -> None:
    """The gauntlet's self-play: a call for the agent's seat, one for those of its copy."""
    rules = Rules(num_players=5, num_colors=2, num_ranks=3, hand_size=2)
    policy = load_policy("python:mine.py:Counting", rules)
    assert isinstance(policy, HostPolicy) and policy.sessions is not None
    seen, own = np.zeros((400, (read_size(rules) + 7) // 8), np.uint8), np.zeros(400, bool)
    carries = [np.zeros((400, 2), np.int32)] * 5
    for new in (True, False, True, False):
        for call, carry in enumerate(carries):
            carries[call], _ = policy.sessions.step(carry, seen, own, np.full(400, new))


def test_no_call_of_a_bot_is_left_when_games_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would run while the interpreter exits, and abort it."""
    step, calls = Sessions.step, []

    def slow(self: Sessions, *args: Any) -> Any:
        calls.append("begins")
        time.sleep(0.02)
        found = step(self, *args)
        calls.append("ends")
        return found

    monkeypatch.setattr(Sessions, "step", slow)
    play_games((load_policy("python:mine.py:Counting", RULES),) * 3, RULES, decks_of(RULES, 2))
    at_end = [*calls]
    time.sleep(0.3)
    assert calls == at_end and calls[-1] == "ends"


def test_a_file_without_its_scheme_is_suggested(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"did you mean python:mine\.py:Counting\?"):
        load_policy("mine.py:Counting", RULES)


def test_plain_policy_plays_as_the_bot_of_the_same_code(folder: Path) -> None:
    decks = decks_of(RULES, 8)
    plain, bot = (load_policy(f"python:mine.py:{n}?scale=2", RULES) for n in ("Plain", "Jax"))
    by_name = [play_games((policy,) * 3, RULES, decks).actions for policy in (plain, bot)]
    np.testing.assert_array_equal(*by_name)
    other = play_games((load_policy("python:mine.py:Jax", RULES),) * 3, RULES, decks).actions
    assert (other != by_name[1]).any()
    held = plain.policy  # type: ignore[attr-defined]
    np.testing.assert_array_equal(play_games((held,) * 3, RULES, decks).actions, by_name[0])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine.py:Countng", "expected a class of mine.py .*got 'Countng'; did you mean Counting"),
        ("mine.py", r"expected a class of mine.py \(Counting, .*got none"),
        ("mein.py:Counting", "no such file: mein.py"),
        ("no.module:Counting", "no such module: no.module"),
        ("mine", r"python:FILE.py:CLASS, .*entry points hanabi_rl.agents \(none installed\)"),
        ("mine.py:NoAgent", r"expected a hanabi_rl.Bot, .* got class NoAgent"),
        ("mine.py:Required", r"expected \?weights=..., a parameter without default"),
        ("mine.py:Counting?strat=1", "got 'strat'; did you mean start?"),
        ("mine.py:Counting?start=x", "start: expected int, got 'x'"),
        ("mine.py:Counting?step=0.5", "step: expected int, got '0.5'"),
        ("mine.py:FailsAtStart", r"KeyError: 'weights' \(.*mine.py, line \d+: raise KeyError"),
        (
            "mine.py:WrongLogits",
            r"step: expected logits float32\[2, 15\] for 2 seats, got float32\[2, 16\]",
        ),
        ("mine.py:WrongCarry", r"carry of init_carry, int32\[2\] for 2 seats, got float32\[2\]"),
        ("mine.py:OneLeaf", r"init_carry: expected leaves \[2, ...\] for 2 seats, got int32\[\]"),
        ("mine.py:OnlyLogits", r"step: expected \(carry, logits\), got float32\[2, 15\]"),
        (
            "mine.py:NoKey",
            r"expected step\(carry, obs, legal, reset, key\), got step\(carry, obs, legal, reset\)",
        ),
        ("mine.py:Traced", r"TracerBoolConversionError: .*# the line shown\)"),
        ("broken.py:X", r"SyntaxError: .*broken.py, line 1"),
    ],
)
def test_errors_name_the_agent_and_the_problem(folder: Path, name: str, message: str) -> None:
    (folder / "broken.py").write_text("def (")
    with pytest.raises(ValueError, match=message) as raised:
        load_policy(f"python:{name}", RULES)
    assert str(raised.value).startswith(f"python:{name}".partition("?")[0])


@pytest.mark.parametrize(
    ("bot", "message"),
    [
        (
            "Illegal",
            r"act, game \d+, turn [12], seat [01]: expected an entry of view\[\"legal\"\] or its "
            r"action, got 999; legal: \d+ Play slot 1, ",
        ),
        (
            "Forbidden",
            r"act, game \d+, turn 1, seat 0: .*, got 0 \(Discard slot 1: all hints are available.*"
            r"\); legal: (?!0 )",
        ),
        ("Fails", r"IndexError: list index out of range \(.*mine.py, line \d+: .*# the line shown"),
    ],
)
def test_exception_of_a_move_shows_its_line(folder: Path, bot: str, message: str) -> None:
    policy = load_policy(f"python:mine.py:{bot}", RULES)
    with pytest.raises(HostError, match=f"python:mine.py:{bot}: {message}"):
        play_games((policy,) * 3, RULES, decks_of(RULES, 8))
    with pytest.raises(ValueError, match="unrelated"), host_errors():
        raise ValueError("unrelated")


def test_position_within_a_game_is_refused(folder: Path) -> None:
    policy = load_policy("python:mine.py:Counting", RULES)
    assert isinstance(policy, HostPolicy) and policy.sessions is not None
    seen = np.full((1, BYTES), 255, np.uint8)
    with pytest.raises(HostError, match="expected games from their deal"):
        policy.sessions.step(np.zeros((1, 2), np.int32), seen, np.ones(1, bool), np.ones(1, bool))


def test_identity_follows_source_and_parameters(folder: Path) -> None:
    names = [f"python:mine.py:{n}" for n in ("Counting", "Number", "Plain", "Plain?scale=2", "Jax")]
    first = [load_policy(name, RULES).identity() for name in names]
    assert first == [load_policy(name, RULES).identity() for name in names]
    assert len({*first}) == len(names)
    (folder / "mine.py").write_text(BOTS + "\nCONSTANT = 1\n")
    assert not {*first} & {load_policy(name, RULES).identity() for name in names}


def test_edited_file_plays_the_edited_bot(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path_factory.mktemp("bytecode")))
    decks = decks_of(RULES, 8)
    before = play_games((load_policy("python:mine.py:Jax", RULES),) * 3, RULES, decks).actions
    saved = (folder / "mine.py").stat().st_mtime
    (folder / "mine.py").write_text(BOTS.replace("% 11", "% 13"))
    os.utime(folder / "mine.py", (saved, saved))  # as if saved within the same second
    after = play_games((load_policy("python:mine.py:Jax", RULES),) * 3, RULES, decks).actions
    assert (before != after).any()


def test_modules_and_entry_points(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "my_package").mkdir()
    (folder / "my_package/bots.py").write_text(BOTS)
    point = importlib.metadata.EntryPoint(
        "counting", "my_package.bots:Counting", "hanabi_rl.agents"
    )
    found = load_policy("python:my_package.bots:Counting?start=2", RULES)
    monkeypatch.setattr("hanabi_rl.agents.python_agent.entry_points", lambda group: [point])
    assert load_policy("python:counting?start=2", RULES).identity() == found.identity()
    with pytest.raises(ValueError, match=r"\(counting\); did you mean counting\?"):
        load_policy("python:conting", RULES)


def test_own_agents_play_the_game_of_the_others(folder: Path) -> None:
    trained, own = load_agents(["agent:human-3p", "python:mine.py:Counting"])
    assert trained.rules == own.rules == Rules(num_players=3)
    (alone,) = load_agents(["python:mine.py:Counting"], 4)
    assert alone.rules.num_players == 4
    assert strip_options("python:mine.py:Counting?start=3&noise=0.1") == (
        "python:mine.py:Counting?start=3"
    )
    noisy: Any = load_policy("python:mine.py:Jax?noise=0.25&scale=3", RULES)
    assert (noisy.policy.scale, noisy.policy.name) == (3.0, "jax")
    assert jax.tree.leaves(noisy.policy) == []  # static


def test_process_plays_as_its_python_twin(folder: Path) -> None:
    """The documented program, at every seat of several games at a time."""
    program = ROOT / "docs/examples/agent.py"
    command = shlex.join([sys.executable, str(program)])
    rules = Rules()
    text = program.read_text().replace("for line in sys.stdin:", "def act(asked):")
    text = text.replace("    asked = json.loads(line)\n", "")
    text = text.replace('print(json.dumps({"action": ', "return ").replace("}), flush=True)", "")
    space: dict[str, Any] = {}
    exec(text, space)

    class Twin:
        def act(self, view: dict[str, Any]) -> dict[str, int]:
            return {"action": space["act"]({"view": view, "legal": view["legal"]})}

    decks = decks_of(rules, 3)
    games = play_games((load_policy(f"process:{command}", rules),) * 2, rules, decks)
    for index, deck in enumerate(decks):
        assert games.moves(index).tolist() == expected_moves(rules, deck, [Twin(), Twin()])


def test_process_identity_and_errors(folder: Path) -> None:
    (folder / "agent.py").write_text("import sys; sys.exit(3)")
    name = f"process:{shlex.join([sys.executable, 'agent.py'])}"
    policy = load_policy(name, RULES)
    with pytest.raises(HostError, match="agent.py: expected a line of JSON .*got exit status 3"):
        play_games((policy,) * 3, RULES, decks_of(RULES, 2))
    (folder / "agent.py").write_text("import sys; sys.exit(4)")
    assert load_policy(name, RULES).identity() != policy.identity()
    with pytest.raises(ValueError, match="process:: expected a command, got nothing"):
        load_policy("process:", RULES)
