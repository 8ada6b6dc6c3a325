"""Partner adaptation, against stepping the agent by hand."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from support.compiled import ask, init_params, observe
from support.games import LENIENT
from support.tables import text_of

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.cli import main
from hanabi_rl.evaluation.measure.partner_adaptation import Adaptation, adaptation
from hanabi_rl.evaluation.measure.prediction import predict_decisions
from hanabi_rl.evaluation.measure.ratio import Ratio
from hanabi_rl.evaluation.reporting.adaptation import adaptation_parts
from hanabi_rl.games.hanabi.actions import action_slices
from hanabi_rl.games.hanabi.python_game import PythonGame
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.nn.structured_network import StructuredConfig

pytestmark = pytest.mark.slow  # two compiled programs of a network
CONFIG = StructuredConfig(trunk=(8,), head=8, card=(8,), profile=True)
SERIES, LENGTH = 4, 2


@pytest.fixture(scope="module")
def agent() -> NetworkPolicy:
    return NetworkPolicy(init_params(LENIENT, CONFIG, jax.random.key(1)), LENIENT, CONFIG)


@pytest.fixture(scope="module")
def found(agent: NetworkPolicy) -> Adaptation:
    return adaptation(agent, load_policy("bot:random", LENIENT), SERIES, LENGTH, seed=3)


def test_changes_match_play_without_memory(agent: NetworkPolicy, found: Adaptation) -> None:
    games = found.last
    assert len(games) == 2 * SERIES and games.human_seats is not None
    played = jax.device_get(replay(LENIENT, games.decks, games.actions))
    legal, decks = played.legal, len(games)
    carry, expected = agent.init_carry(2 * decks), set()
    first = np.ones(2 * decks, bool)
    for turn in range(int(games.num_actions.max())):
        obs = np.asarray(observe(LENIENT, jax.tree.map(lambda x, at=turn: x[at], played.state)))
        rows = obs.reshape(2 * decks, -1), legal[turn].reshape(2 * decks, -1), first
        carry, logits = ask(agent, carry, *rows)
        guess = np.argmax(np.asarray(logits), axis=-1).reshape(decks, 2)
        first = np.zeros(2 * decks, bool)
        for game in np.flatnonzero(turn < games.num_actions):
            if games.human_seats[game, turn % 2]:
                now = int(games.actions[game, turn])
                if guess[game, turn % 2] != now:
                    expected.add((int(game), turn, int(guess[game, turn % 2]), now))
    assert {change[:4] for change in found.changes} == expected and expected
    assert found.share.mean == pytest.approx(len(expected) / found.decisions.sum())
    numbers = np.bincount([change[0] for change in expected], minlength=2 * SERIES)
    of_decks = Ratio(*np.stack([numbers, found.decisions]).reshape(2, 2, SERIES).sum(axis=1))
    assert found.share.bounds == pytest.approx(of_decks.bounds)
    gain = (found.last.scores - found.first_meeting_scores).reshape(2, SERIES).mean(axis=0)
    assert found.gain.mean == pytest.approx(gain.mean())


def test_first_game_has_no_changes(agent: NetworkPolicy, found: Adaptation) -> None:
    """The agent queried again acts as it played, in another compiled program."""
    decisions = predict_decisions(agent, found.first)
    np.testing.assert_array_equal(
        decisions.guess[decisions.counted], decisions.action[decisions.counted]
    )
    assert decisions.counted.any(axis=1).all()


def test_change_kinds_are_counted(found: Adaptation) -> None:
    kinds = found.kinds()
    assert sum(times for times, _, _ in kinds.values()) == len(found.changes)
    play = action_slices(LENIENT)["play"]
    for change in found.changes:
        table = PythonGame(LENIENT, found.last.decks[change.game])
        for move in found.last.moves(change.game)[: change.turn]:
            table.apply(int(move))
        points = table.points
        table.apply(change.action)
        is_play = play.start <= change.action < play.stop
        assert change.scores_card[1] == (is_play and table.points > points)
    text = text_of(adaptation_parts, found, LENGTH, show_games=1)
    assert f"{len([c for c in found.changes if c.game == _most(found)])} decisions differ" in text


def _most(found: Adaptation) -> int:
    numbers = [change.game for change in found.changes]
    return max(range(len(found.last)), key=lambda game: (numbers.count(game), -game))


def test_adaptation_command_output_and_errors(agent, tmp_path, capsys) -> None:
    save_policy(tmp_path / "told", agent, algorithm="x", steps=0, score=None)
    arguments = ["--games", "8", "--series", "2", "--seed", "3", "--json"]
    main(["adaptation", str(tmp_path / "told"), "bot:random", *arguments])
    out = capsys.readouterr()
    (told,) = json.loads(out.out)["partners"]
    assert told["changed"] > 0 and "at a first meeting" in out.err
    assert sum(kind["times"] for kind in told["kinds"]) == told["changed"]
    for wrong, message in (
        (["bot:iggi", "bot:smart"], "expected an agent that remembers its partner"),
        ([str(tmp_path / "told"), "bot:random", "--series", "1"], "expected series of at least 2"),
        ([str(tmp_path / "told"), "bot:random", "--games", "7"], "a multiple of --series 4, got 7"),
        (
            [str(tmp_path / "told"), "bot:random", "--show-games", "-1"],
            "--show-games: expected a whole number",
        ),
        ([str(tmp_path / "told"), "bot:random", "bot:none"], "got 'bot:none'"),
    ):
        with pytest.raises(SystemExit):
            main(["adaptation", *wrong])
        told = capsys.readouterr()
        assert message in told.err and "at a first meeting" not in told.out  # nothing was played
