"""`hanabi-rl study report` from the command line."""

import dataclasses
import json

import numpy as np
import pytest
from support.benchmarks import benchmark
from support.serving import STUDY

from hanabi_rl.cli import main
from hanabi_rl.cli.study_report import metrics_of
from hanabi_rl.evaluation.measure.game_analysis import GameAnalysis
from hanabi_rl.evaluation.measure.intervals import Interval
from hanabi_rl.evaluation.measure.registry import MEASURES
from hanabi_rl.evaluation.measure.study import Figure
from hanabi_rl.evaluation.measure.study_games import OF_AGENT, PlayFigures
from hanabi_rl.evaluation.measure.turn_masks import with_counted_seats
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.people.serve.lifecycle import Game
from hanabi_rl.people.study.design import study_of
from hanabi_rl.people.study.export import gather
from hanabi_rl.people.study.folder import StudyFolder, read_study_of
from hanabi_rl.people.study.participant import PlayedGame

simulated = benchmark("simulated_study")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Seven people; the first marked moves of the first partner's first game."""
    path = tmp_path_factory.mktemp("study") / "study"
    drawn = simulated.draw(simulated.SCENARIOS["line"], 7, np.random.default_rng(0))
    folder = simulated.write_study(path, drawn)
    first = folder.participants()[0]
    played = first.games[0]
    turn = 1 - min(played.game.people)
    marked = dataclasses.replace(played, flagged=(turn,))
    folder.change(first.number, lambda person: person.with_game(0, marked))
    return path


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Seven pairs; each pair plays one game together, and each person one game with a bot."""
    study = study_of(
        STUDY
        | {"participants": 14, "fallback_agent": "bot:b", "wait_s": 9, "flag_moves": True}
        | {"agents": [{"name": "person"}, {"name": "bot:b"}]}
        | {"after_partner": [{"name": "well", "text": "It went well."}]}
    )
    folder = StudyFolder(tmp_path_factory.mktemp("pairs") / "study", study)
    people = [folder.join()[0] for _ in range(14)]

    def played(number, score, agent, seat, twin=0):
        deck, moves = simulated.game_of_score(score, 0)
        game = Game(number, Rules(), deck, frozenset({seat}), moves=moves)
        game = dataclasses.replace(game, status="done", end_reason="finished")
        return PlayedGame(
            game, agent, f"identity of {agent}", 0.0, paired_game=twin, flagged=(1 - seat,)
        )

    for row, person in enumerate(people):
        games = {
            0: played(100 + row, 6 + row // 2, "person", row % 2, 100 + (row ^ 1)),
            1: played(200 + row, 4 + row % 3, "bot:b", row % 2),
        }
        for place, (agent, _) in enumerate(person.plan):
            person = person.with_game(place, games[agent])
            rating = 1 + (row + agent) % 7
            person = person.with_answers(f"partner {place + 1}", {"well": rating})
        folder.change(person.number, lambda _, now=person: now)
    return folder


def test_two_human_game_counts_once_as_one_group(pairs, tmp_path, capsys):
    args = pairs.path, "--answers-only", "--plot", tmp_path / "study.png"
    figures, text = report(capsys, *args)
    person, bot = figures["agents"]
    assert (person["people"], person["groups"], person["games"]) == (14, 7, 7)
    assert (bot["people"], bot["groups"], bot["games"]) == (14, 14, 14)
    scores = 6 + np.arange(7)
    reach = 2.446912 * scores.std(ddof=1) / np.sqrt(7)  # Student's t with 6 degrees of freedom
    assert person["score"] == pytest.approx(scores.mean())
    low, high = person["score_ci95"]
    assert (low, high) == pytest.approx((scores.mean() - reach, scores.mean() + reach), rel=1e-5)
    games = gather(pairs).games
    moves = games.num_actions[games.human_seats.all(axis=1)]
    # two marks per game, over all moves
    assert person["questioned"] == pytest.approx(14 / moves.sum())
    assert "14 in 7 groups" in text and "count as one group" in text


@pytest.mark.slow
def test_two_human_metrics_are_over_pairs(pairs, capsys):
    figures, _ = report(capsys, pairs.path)
    person = figures["agents"][0]
    export = gather(pairs)
    rows = [row for row, line in enumerate(export.lines) if line["agent"] == "person"]
    games = export.games.select(rows)
    assert len(games) == 7 and person["marked"]["plays"] + person["marked"]["hints"] == 14
    over = MEASURES["constructive"].of(
        GameAnalysis(with_counted_seats(games, np.ones((7, 2), bool)))
    )
    assert person["measures"]["constructive"] == pytest.approx(over.mean)
    assert person["measures"]["constructive_ci95"] == pytest.approx(over.interval.bounds)
    assert person["measures"]["constructive_people"] == 14
    assert person["measures"]["constructive_groups"] == 7


def report(capsys, *args):
    main(["study", "report", *map(str, args), "--json"])
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_study_folder_and_export_give_same_report(folder, tmp_path, capsys):
    args = "--answers-only", "--plot", tmp_path / "study.png"
    of_folder, text = report(capsys, folder, *args)
    assert "7 people agreed, 7 played" in text and "points per game" in text
    assert (tmp_path / "study.png").stat().st_size > 10_000
    out = tmp_path / "games.safetensors"
    main(["games", "export", "--study", str(folder), "--out", str(out)])
    capsys.readouterr()
    of_export, _ = report(capsys, out, "--answers-only")
    assert of_export.pop("source") != of_folder.pop("source")
    assert of_export == of_folder
    agents = of_folder["agents"]
    assert [agent["agent"] for agent in agents] == list(simulated.AGENTS)
    assert all(agent["games"] == 21 and agent["people"] == 7 for agent in agents)


@pytest.mark.slow
def test_agent_metrics_are_over_people(folder, capsys):
    figures, text = report(capsys, folder)
    assert "constructive links" in text and "AD-entropy" in text
    study = StudyFolder(folder, read_study_of(folder))
    export = gather(study)
    marks = 0
    for of in figures["agents"]:
        rows = [row for row, line in enumerate(export.lines) if line["agent"] == of["agent"]]
        games = export.games.select(rows)
        record = GameAnalysis(with_counted_seats(games, ~games.human_seats))
        found = MEASURES["action_entropy"].of(record).mean
        assert of["measures"]["action_entropy"] == pytest.approx(found)
        assert of["measures"]["action_entropy_people"] == 7
        team = MEASURES["constructive"].of(
            GameAnalysis(with_counted_seats(games, np.ones(2, bool)))
        )
        assert of["measures"]["constructive"] == pytest.approx(team.mean)
        people = np.array([export.lines[row]["participant"] for row in rows])
        over = np.array([team.numerator[people == who].sum() for who in np.unique(people)])
        reach = 2.446912 * (over / 3).std(ddof=1) / np.sqrt(7)  # three games per pair
        low, high = of["measures"]["constructive_ci95"]
        assert (high - low) / 2 == pytest.approx(reach, rel=1e-5)
        marks += sum(of["marked"][kind] for kind in ("plays", "discards", "hints"))
    assert marks == 1 and "marked as questionable" in text


def test_gauntlet_is_matched_by_policy_hash(folder, tmp_path, capsys):
    def agents(prefix):
        return [
            {
                "agent": "x",
                "self_play": {"policy_hash": f"{prefix}{name}"},
                "family_summary": {"all": {"mean": number, "worst": -number}},
            }
            for number, name in enumerate(simulated.AGENTS)
        ]

    path, prox = tmp_path / "gauntlet.json", tmp_path / "prox.json"
    path.write_text(json.dumps({"agents": agents("identity of ")}))
    methods = {name: {"all": {"iqm": 0.5}} for name in simulated.AGENTS}
    runs = [{"policy_hash": f"identity of {name}", "method": name} for name in simulated.AGENTS]
    prox.write_text(json.dumps({"agents": runs, "scores": {"methods": methods}}))
    args = (folder, "--answers-only", "--gauntlet", path, "--br-prox", prox)
    found, text = report(capsys, *args)
    assert {tuple(each["about"]) for each in found["across_agents"]} == {
        (said, name)
        for said in ("rating", "score")
        for name in ("gauntlet, mean", "gauntlet, worst", "BR-Prox")
    }
    assert all(each["n"] == 3 and each["p"] is None for each in found["across_agents"])
    assert "too few agents: at least 5" in text
    path.write_text(json.dumps({"agents": agents("")}))
    with pytest.raises(SystemExit):
        report(capsys, folder, "--gauntlet", path)
    assert "expected an agent of the study, got none" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--gauntlet", "--br-prox"])
@pytest.mark.parametrize("other", [{"agents": [{}], "scores": {}}, {"agents": 1, "scores": 1}, []])
def test_output_of_another_command_is_rejected(folder, tmp_path, capsys, flag, other):
    path = tmp_path / "other.json"
    path.write_text(json.dumps(other))
    with pytest.raises(SystemExit):
        report(capsys, folder, "--answers-only", flag, path)
    expected = f"{flag} {path}: expected the output of `hanabi-rl {flag[2:]} --json`, got other"
    assert expected in capsys.readouterr().err


def test_metrics_rank_agents_if_enough():
    def of(number):
        figures = {
            measure.name: Figure(
                6, 6, number + place, Interval(number + place, 0, 0, 0) if number else None
            )
            for place, measure in enumerate(OF_AGENT)
        }
        return PlayFigures(f"agent {number}", 6, figures, [], {})

    assert metrics_of([of(number) for number in range(4)]) == {}
    found = metrics_of([of(number) for number in range(5)])
    assert list(found) == [measure.label for measure in OF_AGENT]
    assert found[OF_AGENT[1].label] == {f"agent {number}": number + 1 for number in range(1, 5)}


def test_folder_without_study_is_rejected(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["study", "report", str(tmp_path)])
    assert "expected the folder of a study" in capsys.readouterr().err
    with pytest.raises(SystemExit):  # a file alone runs the study
        main(["study", str(tmp_path / "none.toml")])
    assert "none.toml" in capsys.readouterr().err
