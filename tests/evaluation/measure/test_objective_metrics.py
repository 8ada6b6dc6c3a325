"""Objective metrics of agents with partners and of recorded games: games, seats, means and
tables."""

import dataclasses
import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from support.games import LENIENT, random_games
from support.policies import network_policy
from support.tables import text_of

from hanabi_rl.evaluation.measure.cells import CellCache
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.matrix import EvalSetting, make_agents
from hanabi_rl.evaluation.measure.objective_metrics import (
    REPORTED,
    ObjectiveMetrics,
    agent_metrics,
    partner_means,
    predicted_ratings,
    recorded_metrics,
    small_sample,
)
from hanabi_rl.evaluation.measure.registry import objective_figures
from hanabi_rl.evaluation.measure.turn_masks import with_counted_seats
from hanabi_rl.evaluation.papers.siu2025 import TABLE_3
from hanabi_rl.evaluation.reporting import objective_metrics as shown
from hanabi_rl.evaluation.reporting.objective_metrics import (
    check_paper,
    plot_profiles,
    profile_parts,
    profiles_dict,
)
from hanabi_rl.evaluation.reporting.plots import Line, plot_parallel
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games
from hanabi_rl.storage.files import to_json

SMALL = LENIENT
GAMES = 16
SETTING = EvalSetting(GAMES, seed=2)


@pytest.fixture(scope="module")
def agents():
    names = ["one", "two"]
    return make_agents([network_policy(SMALL, seed) for seed in (1, 2)], names, names)


@pytest.fixture(scope="module")
def profiles(agents, tmp_path_factory):
    cache = CellCache(tmp_path_factory.mktemp("cells"))
    return [agent_metrics(agent, agents, SETTING, cache) for agent in agents]


def played(agents, seats: tuple[int, int]):
    decks = evaluation_decks(SMALL, GAMES, 2)
    return play_games(tuple(agents[seat].policy for seat in seats), SMALL, decks, 2)


def test_pair_pools_seatings_of_agent(agents, profiles):
    games = [played(agents, seats) for seats in ((0, 1), (1, 0))]
    own = [with_counted_seats(games[0], [True, False]), with_counted_seats(games[1], [False, True])]
    found = profiles[0].pairs["two"]
    for name, value in objective_figures(GameAnalysis(own[0])).items():
        if name in ("turns", "games", "pairs"):
            assert found[name] == value + objective_figures(GameAnalysis(own[1]))[name]
    assert found["turns"] + profiles[1].pairs["one"]["turns"] == sum(
        part.num_actions.sum() for part in games
    )
    assert found["points"] == np.concatenate([part.points for part in games]).mean()
    assert profiles[0].self_play == objective_figures(GameAnalysis(played(agents, (0, 0))))


def test_partners_have_equal_weight():
    pairs = [dict.fromkeys(_names(), value) for value in (1.0, 4.0)] + [dict.fromkeys(_names())]
    means = partner_means(pairs)
    assert (means["g1_hints"], means["g1_hints_sd"]) == (2.5, np.std([1, 4], ddof=1))
    assert partner_means(pairs[:1])["points_sd"] is None
    assert partner_means(pairs[2:])["points"] is None
    assert ObjectiveMetrics("alone", {"points": 3.0}).with_partners == {}


def _names() -> list[str]:
    return [measure.name for measure in REPORTED]


def test_recorded_games_have_rows_by_seat_type():
    games = random_games(SMALL, 20)
    (row,) = recorded_metrics(games, "file")
    assert row.label == "file, every seat" and row.self_play["turns"] == games.num_actions.sum()
    human = with_counted_seats(games, [False, True])
    first, second = recorded_metrics(human, "file")
    assert [first.label, second.label] == ["file, human seats", "file, other seats"]
    assert first.self_play == objective_figures(GameAnalysis(human))
    assert first.self_play["turns"] + second.self_play["turns"] == row.self_play["turns"]
    everyone = dataclasses.replace(games, human_seats=np.ones((20, 2), bool))
    assert [row.label for row in recorded_metrics(everyone, "file")] == ["file, human seats"]


def test_seats_without_turn_have_no_row():
    """The other seat moved, and the game was abandoned."""
    games = random_games(SMALL, 3)
    actions = games.actions.copy()
    actions[:, 1:] = SMALL.noop
    first = dataclasses.replace(games, actions=actions, num_actions=np.ones(3, np.int32))
    left = with_counted_seats(first, [False, True])
    assert [row.label for row in recorded_metrics(left, "file")] == ["file, other seats"]
    no_moves = dataclasses.replace(left, actions=np.full_like(actions, SMALL.noop))
    with pytest.raises(ValueError, match="file: expected games with a move, got none"):
        recorded_metrics(no_moves, "file")


def test_games_without_turn_are_rejected():
    with pytest.raises(ValueError, match="with a turn"):
        objective_figures(GameAnalysis(with_counted_seats(random_games(SMALL, 2), [False, False])))


def standard(label: str, **pairs: dict) -> ObjectiveMetrics:
    """Metrics of an agent with the values of Table 3's OBL4."""
    row = TABLE_3["OBL4"]
    figures = {"points": row.selfplay.mean, "g1_hints": row.g1.mean, "g2_hints": row.g2.mean}
    figures |= {"g2_named": 0.02, "g3_hints": row.g3.mean}
    for name in ("context_independence", "coordination", "action_entropy", "response_entropy"):
        figures[name] = getattr(row, name).mean
    figures |= {f"{name}_ci95": [value - 0.1, value + 0.1] for name, value in figures.items()}
    counts = {"games": 10, "turns": 310, "pairs": 300, "points_sd": 2.0}
    return ObjectiveMetrics(label, figures | counts, pairs)


def test_ratings_use_self_play_and_partner_mean():
    alone, other = standard("a"), standard("b", partner=standard("p").self_play)
    assert [rating.metric for rating in predicted_ratings(alone)] == [
        *("selfplay", "action_entropy", "response_entropy"),
        *("context_independence", "g1", "g2", "g2", "g3"),
    ]
    assert [rating.metric for rating in predicted_ratings(other)][:2] == ["selfplay", "inter"]
    inside = {
        rating.measure: rating.by_pool["everyone"].inside for rating in predicted_ratings(alone)
    }
    assert not inside.pop("g2_named") and all(inside.values())


def test_tables_show_paper_on_request():
    rows = [standard("bot:a", b=standard("b").self_play), standard("bot:b")]
    text = text_of(profile_parts, rows, Rules(), recorded=False, paper=True)
    assert "Table 3" in text and "RandomBot" in text and "bot:a / b" in text
    assert "Warning: 3 values are outside" in text and "  0.001 to 0.012" in text
    assert "values of bot:b are from self-play, the paper's from partners" in text
    text = text_of(profile_parts, rows[1:], Rules(), recorded=False)
    assert "values are from self-play" in text and "RandomBot  " not in text
    check_paper(Rules())
    for rules in (SMALL, Rules(num_players=3)):
        assert "Teamwork" not in text_of(profile_parts, rows, rules, recorded=False)
        with pytest.raises(ValueError, match="--paper: expected the standard game of 2 players"):
            check_paper(rules)
    text = text_of(profile_parts, rows[1:], Rules(), recorded=True, paper=True)
    assert "Recorded games" in text and "HolmesBot" in text and "Teamwork" not in text


def test_table_prints_interval_half_widths():
    figures = {**standard("a").self_play, "g2_hints": 0.0, "g2_hints_ci95": [0.0, 0.0018]}
    figures |= {"g3_hints": 0.08, "g3_hints_ci95": [0.07, 0.095]}
    text = text_of(profile_parts, [ObjectiveMetrics("a", figures)], SMALL, recorded=True)
    assert "0.0000 + 0.0018" in text and "0.0800 ± 0.0125" in text  # 0 ± 0.0018 goes below 0
    best = {"g3_hints": 1.0, "g3_hints_ci95": [0.75, 1.0]}
    text = text_of(profile_parts, [ObjectiveMetrics("a", figures | best)], SMALL, recorded=True)
    assert "1.0000 - 0.2500" in text and "+ or -: one-sided interval" in text
    cut = {"points": 22.5, "points_ci95": [3.44, 25.0]}  # 22.5 ± 10.78 goes beyond 25
    text = text_of(profile_parts, [ObjectiveMetrics("a", figures | cut)], SMALL, recorded=True)
    assert "22.50 [3.44, 25.00]" in text


def test_small_samples_are_marked():
    """IC and ARD need 20,000 pairs of moves, CI and AD 2,000 moves; other metrics are means."""
    marked = ["coordination", "response_entropy", "context_independence", "action_entropy"]
    few = standard("few").self_play
    some = few | {"turns": 2_000, "pairs": 19_999}
    many = few | {"turns": 20_001, "pairs": 20_000}
    assert [small_sample(figures) for figures in (few, some, many)] == [marked, marked[:2], []]
    row = ObjectiveMetrics("a", many, {"much": many, "little": some})
    assert row.small == marked[:2]  # a mean over partners is as reliable as its smallest sample
    assert (
        ObjectiveMetrics("b", some).small == marked[:2] and ObjectiveMetrics("c", many).small == []
    )
    text = text_of(profile_parts, [row], Rules(), recorded=False)
    lines = [line for line in text.splitlines() if " 0.329 ± " in line]
    means, alone, much, little = lines  # one per table
    assert "0.329 ± 0.000*" in means and "4.727 ± 0.000*" in means and means.count("*") == 2
    assert "*" not in alone + much
    assert "0.329 ± 0.100*" in little and "4.727 ± 0.100*" in little and little.count("*") == 2
    assert "IC, ARD: 20,000 consecutive moves; CI, AD: 2,000 moves" in text
    assert "*: small sample" not in text_of(
        profile_parts, [ObjectiveMetrics("c", many)], Rules(), recorded=False
    )
    (found,) = profiles_dict([row], Rules(), recorded=False)["rows"]
    assert found["selfplay"]["small_sample"] == found["pairs"]["much"]["small_sample"] == []
    assert found["with_partners"]["small_sample"] == marked[:2]
    assert found["pairs"]["little"]["small_sample"] == marked[:2]
    by_measure = {rating["measure"]: rating["small_sample"] for rating in found["ratings"]}
    assert by_measure["response_entropy"] and not by_measure["action_entropy"]
    (recorded,) = profiles_dict([ObjectiveMetrics("file", few)], Rules(), recorded=True)["rows"]
    assert recorded["recorded"]["small_sample"] == marked


def test_ratings_stay_on_scale():
    figures = standard("x").self_play | {"g2_hints": 0.1308}
    text = text_of(profile_parts, [ObjectiveMetrics("bot:x", figures)], Rules(), recorded=False)
    line = next(line for line in text.splitlines() if " G2 " in line and "  0.1308  " in line)
    assert "off the scale" in line and "+8" not in line
    assert "off the scale: predicted change above" in text
    (row,) = profiles_dict([ObjectiveMetrics("bot:x", figures)], Rules(), recorded=False)["rows"]
    (g2,) = [r for r in row["ratings"] if r["measure"] == "g2_hints"]
    assert g2["predictions"]["everyone"]["off_scale"]
    for rating in row["ratings"]:
        for found in rating["predictions"].values():
            assert (
                max(map(abs, [found["change"], *found["change_ci95"], *found["person_ci95"]])) <= 36
            )


def test_json_is_complete(profiles):
    found = json.loads(json.dumps(to_json(profiles_dict(profiles, SMALL, recorded=False))))
    assert [row["label"] for row in found["rows"]] == ["one", "two"]
    assert found["rows"][0]["pairs"]["two"]["games"] == 2 * GAMES and found["published"] is None
    assert found["rows"][0]["with_partners"]["points_sd"] is None
    assert profiles_dict([standard("a")], Rules(), recorded=False)["published"] is None
    found = profiles_dict([standard("a")], Rules(), recorded=False, paper=True)
    assert found["published"]["table_3"]["HolmesBot"]["intra"] is None
    assert found["rows"][0]["ratings"][0]["predictions"]["everyone"]["inside"]


def test_partner_plot_excludes_self_play(tmp_path, monkeypatch):
    plots = []
    monkeypatch.setattr(
        shown, "plot_parallel", lambda digits, lines, *given: plots.append([x.label for x in lines])
    )
    rows = [standard("a"), standard("b", partner=standard("p").self_play)]
    for of in (rows, rows[:1]):
        plot_profiles(of, tmp_path / "p.png", "title")
    assert plots == [["b"], ["a"]]


def test_the_plot_scales_each_axis_and_leaves_gaps(tmp_path, monkeypatch):
    saved = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *a, **k: (saved.append(figure), save(figure, *a, **k))
    )
    lines = [
        Line("ours", (1.0, 5.0, 0.2)),
        Line("flat", (3.0, 9.0, 0.2)),
        Line("theirs", (2.0, None, 0.2), like="ours"),
    ]
    plot_parallel({"points": 1, "AD": 2, "G1": 3}, lines, tmp_path / "p.png", "title")
    plots = {line.get_label(): line for line in saved[0].axes[0].lines}
    assert list(plots["ours"].get_ydata()) == [0, 0, 0.5]
    assert plots["theirs"].get_ydata()[0] == 0.5 and np.isnan(plots["theirs"].get_ydata()[1])
    assert plots["theirs"].get_color() == plots["ours"].get_color() != plots["flat"].get_color()
    legend = [text.get_text() for text in saved[0].axes[0].get_legend().get_texts()]
    assert legend == ["ours", "flat", "theirs"]
    assert imread(tmp_path / "p.png").std() > 0
    plot_profiles([standard("bot:holmes")], tmp_path / "q.png", "title", paper=True)
    assert len(saved[1].axes[0].get_legend().get_texts()) == 1 + len(TABLE_3)
