"""`hanabi-rl partners select` and `hanabi-rl br-prox` from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.games import TINY, TINY_3P
from support.overcooked import response_features
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.cli import main
from hanabi_rl.evaluation.measure.br_prox import br_prox
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.diversity import diversity, normalise
from hanabi_rl.evaluation.measure.events import event_counts
from hanabi_rl.evaluation.measure.matrix import EvalSetting
from hanabi_rl.evaluation.measure.partner_set import (
    EvalPartner,
    PartnerSet,
    behaviour_features,
    measure_pairs,
    read_partners,
    viable,
    write_partners,
)
from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.games.overcooked.traces import Traces
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.episodes import play_games


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run folders `s0` to `s3` of the same shape: `s0` and `s1` of bc, the others of ippo."""
    folder = tmp_path_factory.mktemp("runs")
    # seeds whose policies score above 0 with each other
    for number, seed in enumerate((7, 8, 0, 1)):
        algorithm = "bc" if number < 2 else "ippo"
        policy = network_policy(TINY, seed)
        save_policy(
            folder / f"s{number}" / "policy", policy, algorithm=algorithm, steps=1, score=None
        )
    return folder


def write_pairs(path, runs, pairs, **settings):
    partners = [
        {"agent": str(runs / agent), "best_response": str(runs / response)}
        for agent, response in pairs
    ]
    path.write_text(json.dumps({"partners": partners, **settings}))
    return str(path)


def test_select_keeps_the_most_diverse_partners(runs, tmp_path, capsys):
    pairs = [("s0", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "s0")]
    given = write_pairs(tmp_path / "candidates.json", runs, pairs)
    args = ["partners", "select", given, "--games", "16", "--seed", "3", "--sample"]
    main([*args, "--count", "2", "--out", str(tmp_path / "out.json")])
    chosen = read_partners(tmp_path / "out.json")
    assert (chosen.players, chosen.games, chosen.seed, chosen.sampled) == (2, 16, 3, True)
    assert (chosen.selected_by, chosen.search, chosen.candidates) == ("br-div", "exact", 4)
    assert f"BR-Div {chosen.br_div:.6g}" in capsys.readouterr().out
    assert chosen.purpose == "report"

    main([*args, "--count", "4", "--out", str(tmp_path / "all.json")])
    every = read_partners(tmp_path / "all.json").partners
    candidates = read_partners(tmp_path / "candidates.json").partners
    policies = {str(runs / name): load_policy(runs / name) for name in ("s0", "s1", "s2", "s3")}
    by_what = measure_pairs(candidates, policies, EvalSetting(16, 3, True), "selection")
    features = {by: behaviour_features(by_what, by, TINY) for by in ("br-div", "p-div")}
    members = [every.index(partner) for partner in chosen.partners]
    assert diversity(features["p-div"], members) == pytest.approx(chosen.p_div)
    others = [diversity(features["br-div"], [i, j]) for i in range(4) for j in range(i)]
    assert chosen.br_div == pytest.approx(max(others))

    partner = every[0]  # s0 with its best response s1
    played = evaluate_pair(*(load_policy(runs / n) for n in ("s1", "s0")), 16, 3, sample=True)
    for seating, games in zip(played.seatings, played.records, strict=True):
        seat = seating[0]
        counts = event_counts(games).mean(axis=0)
        np.testing.assert_allclose(partner.response_events[seat], counts[seat])
        np.testing.assert_allclose(partner.partner_events[seat], counts[1 - seat])
        assert partner.score[seat] == games.scores.mean()
        assert partner.points[seat] == games.points.mean()

    main(
        [
            *args,
            "--count",
            "2",
            "--by",
            "p-div",
            "--search",
            "dpp",
            "--samples",
            "200",
            "--out",
            str(tmp_path / "dpp.json"),
        ]
    )
    drawn = read_partners(tmp_path / "dpp.json")
    pairs_of = [diversity(features["p-div"], [i, j]) for i in range(4) for j in range(i)]
    assert drawn.search == "dpp" and drawn.p_div == pytest.approx(max(pairs_of))


def test_br_prox_prints_table_json_and_plot(runs, tmp_path, capsys):
    file = write_pairs(tmp_path / "p.json", runs, [("s0", "s1"), ("s1", "s0"), ("s3", "s2")])
    agents = [str(runs / name) for name in ("s2", "s3", "s0")]
    flags = ["--partners", file, "--games", "16", "--sample", "--points"]
    flags += ["--group", f"ippo={agents[0]},s3"]
    main(["br-prox", *agents, *flags, "--plot", str(tmp_path / "p.png"), "--json"])
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert [run["method"] for run in record["agents"]] == ["ippo", "ippo", "s0"]
    assert (tmp_path / "p.png").stat().st_size > 10_000

    policies = {name: load_policy(runs / name) for name in ("s0", "s1", "s2", "s3")}

    def returns(agent, partner, unit):
        """float[2, 16] by the agent's seat."""
        played = evaluate_pair(policies[agent], policies[partner], 16, sample=True)
        if agent == partner:
            return [getattr(played.records[0], unit)] * 2
        assert [seating[0] for seating in played.seatings] == [0, 1]
        return [getattr(games, unit) for games in played.records]

    for unit in ("scores", "points"):
        best = np.mean(
            [returns(b, p, unit) for p, b in (("s0", "s1"), ("s1", "s0"), ("s3", "s2"))], axis=-1
        )
        expected = br_prox(
            np.array(
                [[returns(a, p, unit) for p in ("s0", "s1", "s3")] for a in ("s2", "s3")]
            ).reshape(2, 6, 16),
            best.reshape(-1),
        )
        found = record[unit]["methods"]["ippo"]["all"]
        assert (found["iqm"], found["runs"]) == (expected.iqm.mean, 2)
        assert found["iqm_ci95"] == expected.iqm.bounds and found["interval_over"] == "runs"
        shown = [partner["best_response_return"] for partner in record[unit]["partners"]]
        assert shown == best.tolist()
    assert record["scores"]["methods"]["s0"]["all"]["interval_over"] == "decks"
    assert "resample runs; for one run" in err and "moderate (2)" in err


def test_br_prox_prints_fraction_of_zero_best_responses(runs, tmp_path, capsys):
    known = {"score": [0.0, 0.0], "points": [0.0, 0.0]}
    (tmp_path / "p.json").write_text(
        json.dumps(
            {
                "partners": [
                    {"agent": str(runs / "s0"), "best_response": str(runs / "s1"), **known},
                    {"agent": str(runs / "s1"), "score": [4.0, 4.0], "points": [4.0, 4.0]},
                ]
            }
        )
    )
    args = ["br-prox", str(runs / "s2"), "--partners", str(tmp_path / "p.json"), "--games", "16"]
    main([*args, "--json"])
    out, err = capsys.readouterr()
    found = json.loads(out)["scores"]["methods"]["s2"]["all"]
    assert found["best_response_zero_fraction"] == 0.5
    header, row, *_ = (line for line in err.splitlines() if line.startswith(("method", "s2")))
    assert header.endswith("J_BR 0") and row.endswith("50.0%")
    assert "J_BR 0: fraction of partners and seats with J_BR at most 0" in err


def test_agents_of_one_algorithm_need_group_flag(runs, tmp_path, capsys):
    file = write_pairs(tmp_path / "p.json", runs, [("s0", "s1")])
    agents = [str(runs / name) for name in ("s2", "s3")]
    main(["br-prox", *agents, "--partners", file, "--games", "16", "--sample", "--json"])
    methods = json.loads(capsys.readouterr().out)["scores"]["methods"]
    assert {
        name: (of["all"]["runs"], of["all"]["interval_over"]) for name, of in methods.items()
    } == {"s2": (1, "decks"), "s3": (1, "decks")}


def test_duplicate_policies_are_rejected(runs, tmp_path, capsys):
    """Under any name: run folder or policy folder, among agents and among partners."""
    one, again = str(runs / "s2"), str(runs / "s2" / "policy")
    single = write_pairs(tmp_path / "1.json", runs, [("s0", "s1")])
    double = write_pairs(tmp_path / "2.json", runs, [("s0", "s1"), ("s0/policy", "s1")])
    for agents, file, told in (
        ([one, again], single, f"got the same one as {one} and as {again} (hash "),
        ([one, one], single, f"got the same one as {one} and as {one} (hash "),
        ([one], double, f"2.json: expected policies that differ, got the same one as {runs}/s0"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["br-prox", *agents, "--partners", file, "--games", "16", "--group", "x=s2"])
        out, err = capsys.readouterr()
        assert stop.value.code == 2 and out == "" and told in err and len(err.splitlines()) == 1


def test_best_responses_from_selection_are_replayed(runs, tmp_path, capsys):
    partner = {"agent": str(runs / "s0"), "score": [1.0, 2.0]}
    path = tmp_path / "selected.json"
    path.write_text(json.dumps({"partners": [partner], "purpose": "selection"}))
    with pytest.raises(SystemExit):
        main(["br-prox", str(runs / "s1"), "--partners", str(path), "--games", "16"])
    assert "expected a best_response of" in capsys.readouterr().err


def test_best_response_scores_are_read_from_file(runs, tmp_path, capsys):
    partner = {"agent": str(runs / "s0"), "score": [1e-3, 2e-3]}
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"partners": [partner], "sampled": True}))
    args = ["br-prox", str(runs / "s1"), "--partners", str(path), "--games", "16"]
    main([*args, "--sample"])
    out, err = capsys.readouterr()
    assert "Warning: " in out  # all agents exceed these values
    assert "p.json: unknown decks, unknown seed" in err
    for wrong in ([], ["--sample", "--points"]):  # not in the file
        with pytest.raises(SystemExit):
            main([*args, *wrong])
        assert "expected a best_response of" in capsys.readouterr().err


def test_experts_have_high_self_play(runs, tmp_path, capsys):
    """Independent of the best responses: here partners with higher self-play have lower J_BR."""
    names = ("s0", "s1", "s2", "s3")
    alone = {
        name: evaluate_selfplay(load_policy(runs / name), 16, seed=3, sample=True).records
        for name in names
    }
    for unit in ("scores", "points"):
        own = {name: float(getattr(games, unit).mean()) for name, games in alone.items()}
        partners = [
            {"agent": str(runs / name), "score": [9 - own[name]] * 2, "points": [9 - own[name]] * 2}
            for name in names
        ]
        path = tmp_path / f"{unit}.json"
        path.write_text(json.dumps({"partners": partners, "sampled": True}))
        args = ["--games", "16", "--seed", "3", "--sample", "--points", "--json"]
        main(["br-prox", str(runs / "s1"), "--partners", str(path), *args])
        out, err = capsys.readouterr()
        found = json.loads(out)[unit]["partners"]
        assert [partner["selfplay_return"] for partner in found] == list(own.values())
        strong = [value > np.median(list(own.values())) for value in own.values()]
        assert [partner["expert"] for partner in found] == strong and any(strong)
        (method,) = json.loads(out)[unit]["methods"].values()
        by_partner = np.array(method["mean_by_partner"])
        for part, which in (("expert", np.array(strong)), ("moderate", ~np.array(strong))):
            assert method[part]["mean"] == pytest.approx(by_partner[which].mean())
        assert f"{found[0]['selfplay_return']:.2f}" in err and "self-play" in err


@pytest.mark.slow  # compiles five programs
def test_three_player_team_has_two_partner_copies(tmp_path, capsys):
    """Selected, trained for and evaluated in the same lineup, at every seat of the agent."""
    policies = {f"p{seed}": network_policy(TINY_3P, seed) for seed in range(3)}
    for name, policy in policies.items():
        save_policy(tmp_path / name / "policy", policy, algorithm="ippo", steps=1, score=None)
    pairs = [("p0", "p1"), ("p1", "p2")]
    given = write_pairs(tmp_path / "candidates.json", tmp_path, pairs)
    flags = ["--games", "16", "--sample"]
    out = str(tmp_path / "partners.json")
    main(["partners", "select", given, "--count", "2", "--out", out, *flags])
    main(["br-prox", str(tmp_path / "p2"), "--partners", out, "--json", *flags])
    record, chosen = json.loads(capsys.readouterr().out.splitlines()[-1]), read_partners(Path(out))
    (found_of_agent,) = record["scores"]["methods"].values()
    assert chosen.players == 3 and found_of_agent["all"]["runs"] == 1

    decks = evaluation_decks(TINY_3P, 16, 0)

    def met(agent, partner):
        """float[3, 16] by the agent's seat, and the games."""
        team = (policies[agent], policies[partner], policies[partner])
        seats = [[seat, *({0, 1, 2} - {seat})] for seat in range(3)]  # agent, partners
        played = play_games(
            team,
            TINY_3P,
            np.tile(decks, (3, 1)),
            0,
            sample=True,
            seating=np.repeat(seats, 16, axis=0),
            game_index=np.tile(np.arange(16), 3),
        )
        games = [played.select(slice(16 * seat, 16 * (seat + 1))) for seat in range(3)]
        return np.array([of.scores for of in games]), games

    entries = []
    for partner, (name, response), found in zip(
        chosen.partners, pairs, record["scores"]["partners"], strict=True
    ):
        best, games = met(response, name)
        assert found["best_response_return"] == list(partner.score) == best.mean(axis=1).tolist()
        for seat, played in enumerate(games):
            counts = event_counts(played).mean(axis=0)  # [seats, events]
            others = (counts.sum(axis=0) - counts[seat]) / 2
            np.testing.assert_allclose(partner.response_events[seat], counts[seat])
            np.testing.assert_allclose(partner.partner_events[seat], others)
        mine = met("p2", name)[0]
        entries += (mine.mean(axis=1) / best.mean(axis=1)).clip(max=1).tolist()
        itself = play_games((policies[name],) * 3, TINY_3P, decks, 0, sample=True)
        assert found["selfplay_return"] == itself.scores.mean()
    assert found_of_agent["all"]["mean"] == pytest.approx(np.mean(entries))


def test_overcooked_partners_are_selected_by_own_features(tmp_path, capsys, monkeypatch):
    """Sampled games; features of `response_features`; a J_BR of 0 at either seat is counted."""
    monkeypatch.setattr(Overcooked, "min_pair_score", -1.0)  # no policy can play
    game = Overcooked("forced_coordination", horizon=25)
    for seed in range(3):
        policy = network_policy(game, seed)
        save_policy(tmp_path / f"s{seed}", policy, algorithm="ippo", steps=1, score=None)
    given = write_pairs(tmp_path / "c.json", tmp_path, [("s0", "s1"), ("s1", "s2"), ("s2", "s0")])
    out = str(tmp_path / "p.json")
    main(["partners", "select", given, "--count", "2", "--games", "4", "--out", out])
    chosen = read_partners(tmp_path / "p.json")
    assert chosen.sampled and chosen.candidates == 3
    assert "0 excluded for scores of at most -1" in capsys.readouterr().out

    rows = []
    for partner in read_partners(tmp_path / "c.json").partners:
        pair = load_policy(partner.best_response), load_policy(partner.agent)
        played = evaluate_pair(*pair, 4, purpose="selection")
        assert [seating[0] for seating in played.seatings] == [0, 1]
        rows.append(
            response_features(
                *(Traces(game.layout, r.starts, r.actions, r.lengths) for r in played.records)
            )
        )
    best = max(diversity(normalise(np.array(rows)), [i, j]) for i in range(3) for j in range(i))
    assert chosen.br_div == pytest.approx(best) and best > 0

    main(["br-prox", str(tmp_path / "s2"), "--partners", out, "--games", "4", "--json"])
    record = json.loads(capsys.readouterr().out)
    of_agent = record["scores"]["methods"]["s2"]["all"]
    assert record["sampled"] and of_agent["best_response_zero_fraction"] == of_agent["iqm"] == 1.0


def test_partners_file_round_trip(tmp_path):
    first = EvalPartner(
        "bot:a", "bot:b", (1.0, 2.0), None, ((1.0,) * 14,) * 2, None, (0.5,) * 14, 1.0
    )
    partners = PartnerSet(players=2, games=8, br_div=3.5, partners=(first, EvalPartner("x", "y")))
    write_partners(tmp_path / "p.json", partners)
    assert read_partners(tmp_path / "p.json") == partners


def test_failing_pairs_are_excluded():
    """At most 5% of Hanabi's maximum, or 10 points of Overcooked, mean over seats."""
    partners = [EvalPartner("a", score=(0.0, 2.5)), EvalPartner("b", score=(1.2, 1.3))]
    assert viable(partners, Rules()) == []
    assert viable(partners, Rules(num_ranks=4)) == partners
    partners = [EvalPartner("a", score=(0.0, 20.0)), EvalPartner("b", score=(0.0, 20.5))]
    assert viable(partners, Overcooked()) == partners[1:]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "is not valid JSON"),
        ("[]", 'expected {"partners": [...]}'),
        ('{"partners": []}', "at least one partner"),
        ('{"partners": ["bot:x"]}', "partners[0]: expected an object"),
        ('{"partners": [{"agent": "bot:x"}]}', "expected an agent and its best_response"),
        ('{"partners": [{"name": "bot:x"}]}', "unknown field 'name'"),
        ('{"partners": [{"agent": "bot:x", "score": 3}]}', "partners[0].score"),
        ('{"partners": [{"agent": "bot:x", "score": [NaN, 2]}]}', "score: expected finite numbers"),
        ('{"partners": [{"agent": "RUNS/s0", "score": [1]}]}', "at each of 2 seats"),
        ('{"format_version": 9, "partners": [{"agent": "x", "score": [1]}]}', "format_version 1"),
        ('{"partners": [{"agent": "bot:genius", "best_response": "RUNS/s0"}]}', "bot:convention"),
    ],
)
def test_invalid_partners_file_prints_one_line(runs, tmp_path, capsys, text, message):
    path = tmp_path / "p.json"
    path.write_text(text.replace("RUNS", str(runs)))
    with pytest.raises(SystemExit) as stop:
        main(["br-prox", str(runs / "s1"), "--partners", str(path), "--games", "16"])
    out, err = capsys.readouterr()
    assert stop.value.code == 2 and out == "" and len(err.splitlines()) == 1 and message in err


def test_invalid_partner_flags_print_one_line(runs, tmp_path, capsys):
    pairs = write_pairs(tmp_path / "p.json", runs, [("s0", "s1"), ("s0", "s1")])
    single = write_pairs(tmp_path / "1.json", runs, [("s0", "s1")])
    out = str(tmp_path / "out.json")
    select = ["partners", "select", pairs, "--out", out, "--games", "16", "--seed", "3", "--sample"]
    for args, message in (
        ([*select, "--count", "2"], "got the same one as"),
        (["br-prox", "--partners", pairs], "at least one agent"),
        (["br-prox", str(runs / "s0"), "--partners", "nowhere.json"], "nowhere.json"),
        (
            ["br-prox", str(runs / "s0"), "--partners", single, "--group", "x=y"],
            "one of the agents",
        ),
    ):
        with pytest.raises(SystemExit) as stop:
            main(args)
        err = capsys.readouterr().err
        assert stop.value.code == 2 and message in err.splitlines()[-1], args
    assert not (tmp_path / "out.json").exists()
