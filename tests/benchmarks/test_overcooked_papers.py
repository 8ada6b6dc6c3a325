"""`benchmarks/overcooked_papers.py`: its tables by hand."""

from types import SimpleNamespace

import pytest
from support.benchmarks import benchmark
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_file import write_file
from hanabi_rl.evaluation.measure.partner_set import EvalPartner, PartnerSet, write_partners
from hanabi_rl.games.overcooked import Overcooked
from hanabi_rl.play.game_episodes import play_episodes

papers = benchmark("overcooked_papers")
FC, CC = papers.FC, papers.CC


def line_of(lines, kitchen, row, source="ours"):
    (found,) = [
        line
        for line in lines
        if (line["kitchen"], line["row"], line["source"]) == (kitchen, row, source)
    ]
    return found


def test_mean_over_seeds_with_interval_and_published_rows():
    found = {
        FC: {"SP self-play": [{"points": 100.0}, {"points": 140.0}]},
        CC: {"SP self-play": [{"points": 60.0, "constructive": 2.0}]},
    }
    lines = papers.records("interdependence", found)
    of_two = line_of(lines, FC, "SP self-play")
    # Student's t with one degree of freedom: 12.7062 x 28.2843 / sqrt(2)
    assert of_two["points"] == 120.0
    assert of_two["points low"] == pytest.approx(120 - 254.124, abs=1e-2)
    assert of_two["points high"] == pytest.approx(120 + 254.124, abs=1e-2)
    assert of_two["seeds"] == 2
    of_one = line_of(lines, CC, "SP self-play")
    assert (of_one["points"], of_one["points low"], of_one["constructive"]) == (60.0, "", 2.0)
    assert line_of(lines, CC, "FCP self-play", "published")["points"] == 60
    assert len({tuple(line) for line in lines}) == 1, "one header for all rows"


def test_published_rows_only_of_measured_kitchens_or_of_others():
    zero_shot = papers.records("zero-shot", {FC: {"SP": [{"return": 1.0}]}})
    assert {line["kitchen"] for line in zero_shot} == {FC}
    robustness = papers.records("robustness", {CC: {"SP, seat 0": [{"SR": 0.5}]}})
    assert line_of(robustness, "four other kitchens", "best clone", "published")["AR"] == 0.45


def test_interquartile_mean_is_of_all_entries():
    entries = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 1.0]]
    measured = [{"BR-Prox": of_seed} for of_seed in entries]
    both = line_of(papers.records("zero-shot", {FC: {"SP": measured}}), FC, "SP")
    assert both["BR-Prox"] == pytest.approx((0.3 + 0.4 + 0.5 + 0.6) / 4)
    assert both["BR-Prox low"] < 0.45 < both["BR-Prox high"]
    one = line_of(papers.records("zero-shot", {FC: {"SP": measured[1:]}}), FC, "SP")
    assert one["BR-Prox"] == pytest.approx(0.65)
    assert one.get("BR-Prox low", "") == ""


def test_preferences_are_those_of_the_kitchen(tmp_path):
    bases = {
        kitchen: papers.kitchen_runs(kitchen, tmp_path, 8, 3, 0.1).base(
            "behaviour_preferring", 1000
        )
        for kitchen in (FC, CC)
    }
    assert bases[FC].event_weights.serve_soup == ()
    assert bases[CC].event_weights.serve_soup == (-20.0,)
    assert bases[FC].game.kitchen == FC
    assert bases[FC].shaping.shaping_anneal_end == 0.8


def test_zero_shot_divides_by_the_best_response_at_the_same_seat(tmp_path, monkeypatch):
    rules = Overcooked(horizon=60, last_action=True)
    network, partners = tmp_path / "policy.safetensors", tmp_path / "partners.json"
    write_file(network, network_policy(rules, 0))
    partner = EvalPartner(agent="bot:errand", score=(50.0, 0.0), mid_skill="mid")
    write_partners(partners, PartnerSet(candidates=5, br_div=2.0, partners=(partner,)))
    methods = {"SP": lambda seed: network, "E3T": lambda seed: "bot:errand"}
    monkeypatch.setattr(papers, "METHODS", tuple(methods))
    monkeypatch.setattr(papers, "GAMES", 3)
    runs = SimpleNamespace(partners=lambda: partners, methods=methods)
    rows = papers.zero_shot(papers.Setting(2, tmp_path, runs, ""))
    errand = load_policy("bot:errand", rules)
    alike = play_episodes((errand, errand), 3, 2).scores.mean()
    with_network = [
        play_episodes((load_policy(network), errand), 3, 2, seating=seating).scores.mean()
        for seating in ((0, 1), (1, 0))
    ]
    assert alike > 0 and rows["E3T"]["return"] == alike
    assert rows["E3T"]["BR-Prox"] == [pytest.approx(alike / 50), 1.0]
    assert rows["SP"]["return"] == pytest.approx(sum(with_network) / 2)
    assert rows["SP"]["BR-Prox"][0] == pytest.approx(with_network[0] / 50)
    chosen = {"candidates": 5, "chosen": 1, "BR-Div": 2.0, "J_BR at most 0": 0.5}
    assert rows["partners"] == chosen and rows["best response"] == {"return": 25.0}
