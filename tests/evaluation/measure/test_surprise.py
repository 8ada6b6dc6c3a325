"""Predictions split by kind of move and turn, and the most surprising moves as text."""

import numpy as np
import pytest
from matplotlib.image import imread
from support.games import as_games
from support.tables import text_of

from hanabi_rl.data.formats.hanab_live import decode_link
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.prediction import Decisions
from hanabi_rl.evaluation.measure.surprise import (
    MOVE_KINDS,
    by_move,
    by_turn,
    most_surprising,
    move_kinds,
    prediction_figures,
)
from hanabi_rl.evaluation.reporting.measures import prediction_parts
from hanabi_rl.evaluation.reporting.plots import plot_prediction
from hanabi_rl.games.hanabi.actions import decode_action
from hanabi_rl.games.hanabi.python_game import PythonGame, full_deck
from hanabi_rl.games.hanabi.rules import Rules

RULES = Rules()
NAMES = {"play": "play", "discard": "discard", "color": "colour hint", "rank": "rank hint"}


def random_games(rules: Rules, lengths: list[int]) -> Games:
    """Legal games of these lengths, which never risk the last life."""
    rng = np.random.default_rng(3)
    tables, moves = [], []
    for length in lengths:
        table, played = PythonGame(rules, rng.permutation(full_deck(rules))), []
        for _ in range(length):
            legal = [
                action
                for action in range(rules.num_actions)
                if table.illegal_reason(action) is None
            ]
            if table.life_tokens == 1:
                legal = [action for action in legal if decode_action(rules, action).kind != "play"]
            played.append(int(rng.choice(legal)))
            table.apply(played[-1])
        tables.append(table)
        moves.append(np.array(played, np.int32))
    return as_games(rules, tables, moves, first_id=70)


def random_decisions(games: Games) -> Decisions:
    """Made-up predictions and nats; every third decision is not counted."""
    rng = np.random.default_rng(4)
    shape = games.actions.shape
    wrong = rng.random(shape) < 0.5
    played = np.arange(shape[1]) < games.num_actions[:, None]
    return Decisions(
        action=games.actions,
        guess=np.where(wrong, (games.actions + 1) % games.rules.noop, games.actions),
        nll=rng.exponential(size=shape),
        counted=played & (np.arange(shape[1]) % 3 > 0),
        seat_timesteps=games.num_actions * games.rules.num_players,
        rank=np.where(wrong, 1, 0),
        num_legal=np.full(shape, 12),
    )


@pytest.fixture(scope="module")
def games() -> Games:
    return random_games(RULES, [25, 12, 7])


@pytest.fixture(scope="module")
def decisions(games) -> Decisions:
    return random_decisions(games)


@pytest.mark.parametrize("players", [2, 3, 5])
def test_actions_have_kinds(players):
    rules = Rules(num_players=players)
    kinds = move_kinds(rules, np.arange(rules.num_actions))
    for action in range(rules.noop):
        assert MOVE_KINDS[kinds[action]] == NAMES[decode_action(rules, action).kind]
    assert kinds[rules.noop] == len(MOVE_KINDS)


def test_splits_match_loop(games, decisions):
    expected: dict[str, list[tuple[bool, float]]] = {}
    for game in range(3):
        for turn in range(games.num_actions[game]):
            if decisions.counted[game, turn]:
                action = games.actions[game, turn]
                fact = (
                    bool(decisions.guess[game, turn] == action),
                    float(decisions.nll[game, turn]),
                )
                first = turn // 10 * 10 + 1
                for name in (NAMES[decode_action(RULES, action).kind], f"{first}-{first + 9}"):
                    expected.setdefault(name, []).append(fact)
    slices = by_move(decisions, RULES) | by_turn(decisions)
    assert set(slices) == set(expected)
    for name, facts in expected.items():
        right, nats = np.mean(facts, axis=0)
        assert slices[name].decisions == len(facts)
        assert slices[name].accuracy.mean == pytest.approx(right)
        assert slices[name].cross_entropy.mean == pytest.approx(nats)
        assert slices[name].accuracy.interval.low <= right <= slices[name].accuracy.interval.high
    assert list(by_turn(decisions)) == [f"{first}-{first + 9}" for first in (1, 11, 21)]


def test_surprising_moves_have_text_and_links(games, decisions):
    found = most_surprising(decisions, games, 5)
    nats = np.sort(decisions.nll[decisions.counted])[::-1]
    assert [surprise.cross_entropy for surprise in found] == pytest.approx(nats[:5])
    for surprise in found:
        turn = surprise.turn - 1
        assert decisions.nll[surprise.game, turn] == surprise.cross_entropy
        table = PythonGame(RULES, games.decks[surprise.game])
        for action in games.moves(surprise.game)[:turn]:
            table.apply(action)
        assert surprise.move == table.describe(games.actions[surprise.game, turn])
        assert surprise.expected == table.describe(decisions.guess[surprise.game, turn])
        assert (surprise.seat, surprise.game_id) == (turn % 2, 70 + surprise.game)
        assert surprise.link is not None and surprise.link.endswith(f"#{surprise.turn}")
        np.testing.assert_array_equal(decode_link(surprise.link).deck, games.decks[surprise.game])
    assert len(most_surprising(decisions, games, 10**6)) == decisions.counted.sum()
    assert most_surprising(decisions, games, 0) == []


def test_unsupported_game_has_no_link():
    rules = Rules(num_colors=3, num_ranks=3, hand_size=2)
    games = random_games(rules, [6])
    assert [surprise.link for surprise in most_surprising(random_decisions(games), games, 2)] == [
        None,
        None,
    ]


def test_prediction_table_and_plot(games, decisions, tmp_path):
    record = GameAnalysis(games)
    vars(record)["decisions"] = decisions  # as if from a policy
    figures = prediction_figures(record, 2)
    assert figures["decisions"] == decisions.counted.sum()
    assert figures["cross_entropy"] == pytest.approx(decisions.nll[decisions.counted].mean())
    assert figures["cross_entropy_per_timestep"] == pytest.approx(
        decisions.nll[decisions.counted].sum() / (2 * games.num_actions.sum())
    )
    text = text_of(prediction_parts, figures)
    for part in (
        "every decision",
        "rank hint",
        "turns 11-20",
        "per timestep",
        figures["surprising"][1]["move"],
    ):
        assert part in text
    plot_prediction(figures, tmp_path / "new" / "prediction.png", "a title")
    assert imread(tmp_path / "new" / "prediction.png").shape[0] > 500
