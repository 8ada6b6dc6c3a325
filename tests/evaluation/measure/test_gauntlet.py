"""The gauntlet: its partners, its results against NumPy, and its command."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.games import LENIENT
from support.policies import network_policy
from support.tables import text_of
from support.tiny_games import Dice

from hanabi_rl.agents.loading import load_agents, load_policy
from hanabi_rl.agents.policy_folder import checkpoint_policy, save_policy
from hanabi_rl.agents.provenance import training_partners
from hanabi_rl.cli import main
from hanabi_rl.cli.agents import parse_families
from hanabi_rl.evaluation.measure import gauntlet
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.gauntlet import (
    GauntletPartner,
    GauntletResult,
    PartnerResult,
    UnfinishedScores,
    family_of,
    gauntlet_partners,
)
from hanabi_rl.evaluation.reporting.gauntlet import (
    gauntlet_dict,
    gauntlet_parts,
    partner_columns,
    partner_parts,
    plot_gauntlet,
)
from hanabi_rl.evaluation.reporting.tables import table, to_text
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.storage.checkpoint import Checkpointer


def partner_result(name: str, family: str, seen: bool, seed: int) -> PartnerResult:
    scores = np.random.default_rng(seed).integers(0, 26, (2, 6, 3))
    return PartnerResult(GauntletPartner(name, family, load_policy("bot:random")), seen, scores)


@pytest.fixture
def result() -> GauntletResult:
    others = [
        partner_result("a", "x", True, 1),
        partner_result("b", "x", False, 2),
        partner_result("c", "y", True, 3),
    ]
    return GauntletResult("agent", partner_result("agent", gauntlet.SELF_PLAY, False, 0), others)


def test_families_have_equal_weight(result: GauntletResult) -> None:
    a, b, c = (found.scores.astype(float) for found in result.partner_results)
    mean_x = (a.mean() + b.mean()) / 2
    assert result.family("x").mean == pytest.approx(mean_x)
    by_series = ((a + b) / 2).mean(axis=(0, 2))
    std_error = by_series.std(ddof=1) / np.sqrt(6)
    assert result.family("x").std_error == pytest.approx(std_error)
    assert result.family_summary() == pytest.approx(
        ((mean_x + c.mean()) / 2, min(mean_x, c.mean()))
    )
    assert result.families(seen_in_training=False).keys() == {"x"}
    assert result.families(seen_in_training=False)["x"].mean == pytest.approx(b.mean())
    seen = {name: mean.mean for name, mean in result.families(seen_in_training=True).items()}
    assert seen == {"x": pytest.approx(a.mean()), "y": pytest.approx(c.mean())}
    # intervals over the six series, families with equal weight
    both = (by_series + c.mean(axis=(0, 2))) / 2
    overall = result.mean_over_families()
    assert overall.mean == pytest.approx(both.mean())
    reach = 2.570582 * both.std(ddof=1) / np.sqrt(6)  # Student's t, five degrees of freedom
    assert overall.bounds == pytest.approx([both.mean() - reach, both.mean() + reach])
    unseen = result.mean_over_families(seen_in_training=False)
    assert unseen.mean == pytest.approx(b.mean())
    assert result.worst_family() == min(result.families().items(), key=lambda of: of[1].mean)
    assert result.zero_rate() == pytest.approx(np.mean([(x == 0).mean() for x in (a, b, c)]))


def test_gain_is_last_minus_first_game(result: GauntletResult) -> None:
    scores = np.stack([found.scores.astype(float) for found in result.partner_results]).mean(
        axis=(0, 1)
    )
    gain = scores[:, 2] - scores[:, 0]
    assert result.gain().mean == pytest.approx(gain.mean())
    assert result.gain().std_error == pytest.approx(gain.std(ddof=1) / np.sqrt(6))
    first = result.partner_results[0]
    expected = first.scores.mean(axis=(0, 1))
    assert [of.mean for of in first.by_game] == pytest.approx(expected.tolist())


def test_text_and_figures_say_the_same(result: GauntletResult) -> None:
    figures = json.loads(json.dumps(gauntlet_dict(result)))
    lines = text_of(partner_parts, result).splitlines()[1:]
    assert lines[3].startswith("a*") and lines[4].startswith("b ")
    for line, found in zip(lines[3:6], figures["partners"], strict=True):
        assert f"{found['mean']:.2f}  [" in line
        assert line.split()[-3:] == [f"{mean:.2f}" for mean in found["by_game"]]
    seen = figures["family_summary"]["seen_in_training"]
    for name in ("mean", "worst"):
        low, high = seen[f"{name}_ci95"]
        assert f"{name} {seen[name]:.2f} [{low:.2f}, {high:.2f}]" in lines[6]
    assert lines[6].endswith(f"({seen['worst_family']})")
    head, row = text_of(gauntlet_parts, [result, result]).splitlines()[:2]
    cells = dict(zip(head.split(), row.split(), strict=True))
    assert cells["y"] == f"{figures['families']['y']['mean']:.2f}*"
    assert cells["x"] == f"{figures['families']['x']['mean']:.2f}"
    assert cells["worst"] == f"{figures['family_summary']['all']['worst']:.2f}"
    assert cells["gain"] == f"{figures['gain']:+.2f}"


def test_fraction_of_known_best_responses(
    result: GauntletResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Family x has one unknown best response, so only y has a fraction."""
    a, b, c = result.partner_results
    known = [
        dataclasses.replace(each, partner=each.partner._replace(best_response=best))
        for each, best in ((a, 20.0), (b, None), (c, 16.0))
    ]
    with_known = dataclasses.replace(result, partner_results=known)
    of_best = [a.scores.mean() / 20, None, c.scores.mean() / 16]
    figures = json.loads(json.dumps(gauntlet_dict(with_known)))
    assert [each["fraction_of_best_response"] for each in figures["partners"]] == pytest.approx(
        of_best
    )
    assert figures["fraction_of_best_response"] == {"y": pytest.approx(of_best[2])}
    lines = text_of(partner_parts, with_known).splitlines()[1:]
    assert f"  {of_best[0]:.0%}  " in lines[3] and "%" in lines[4].split("]")[1]
    assert f"  {of_best[2]:.0%}  " in text_of(gauntlet_parts, [with_known]).splitlines()[1]
    assert "of best" not in text_of(partner_parts, result) + text_of(gauntlet_parts, [result])

    every = [
        dataclasses.replace(each, partner=each.partner._replace(best_response=best))
        for each, best in ((a, 10.0), (b, 30.0), (c, 16.0))
    ]
    whole = dataclasses.replace(
        result, partner_results=every
    )  # fractions of means, not means of fractions
    mean_x = (a.scores.mean() + b.scores.mean()) / 2
    assert whole.fractions_of_best_response() == pytest.approx(
        {"x": mean_x / 20, "y": c.scores.mean() / 16}
    )
    expected = (mean_x + c.scores.mean()) / (20 + 16)
    assert whole.fraction_of_best_response() == pytest.approx(expected)
    assert f"  {expected:.0%}  " in text_of(gauntlet_parts, [whole]).splitlines()[1]
    assert result.fraction_of_best_response() is None

    file = tmp_path / "best.json"
    monkeypatch.setattr(gauntlet, "BEST_RESPONSE_FILE", file)
    assert gauntlet_partners(load_policy("bot:random"))[0].best_response is None
    content = {"gauntlet_version": gauntlet.VERSION, "players": {"2": {"bot:iggi": {"mean": 18.5}}}}
    file.write_text(json.dumps(content))
    best = {
        partner.name: partner.best_response
        for partner in gauntlet_partners(load_policy("bot:random"))
    }
    assert best["bot:iggi"] == 18.5 and best["bot:piers"] is None
    assert (
        gauntlet.best_response_scores(Rules(num_players=3))
        == gauntlet.best_response_scores(LENIENT)
        == {}
    )
    file.write_text(json.dumps(content | {"gauntlet_version": 0}))
    assert gauntlet.best_response_scores(Rules()) == {}


def test_plot_distinguishes_many_agents(
    result: GauntletResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: saved.append(figure))
    results = [dataclasses.replace(result, agent=f"agent {number}") for number in range(9)]
    plot_gauntlet(results, tmp_path / "gauntlet.png", "title", 25)
    handles, labels = saved[0].axes[0].get_legend_handles_labels()
    looks = {(bars.lines[0].get_color(), bars.lines[0].get_marker()) for bars in handles}
    assert len(looks) == len(labels) == 9


def test_partners_exclude_agent_and_duplicates() -> None:
    two, three = load_policy("bot:iggi"), load_policy("bot:iggi", Rules(num_players=3))
    found = gauntlet_partners(two, {"people": ("bot:flawed", "bot:iggi")})
    names = [partner.name for partner in found]
    assert "bot:iggi" not in names and len(set(names)) == len(names)
    assert "agent:hgroup-2p" in names
    families = {partner.name: partner.family for partner in found}
    assert families["bot:flawed"] == "people" and families["bot:piers"] == "rule lists"
    of_three = [partner.name for partner in gauntlet_partners(three)]
    assert "agent:human-3p" in of_three and not any(name.endswith("-2p") for name in of_three)


def test_validation_partners_are_in_no_report() -> None:
    found = gauntlet_partners(load_policy("bot:iggi"), {"x": ["bot:flawed"]}, validation=True)
    names = {"iggi", "piers", "outer", "van-den-bergh"}
    assert {p.name for p in found} == {f"bot:jaxaht-{name}" for name in names} | {"bot:flawed"}
    assert {partner.best_response for partner in found} == {None}
    assert not {p.name for p in found} & {p for of in gauntlet.FAMILIES.values() for p in of}
    assert "bot:jaxaht-iggi" not in {
        partner.name for partner in gauntlet_partners(load_policy("bot:jaxaht-iggi"), {}, True)
    }


def test_command_matches_pair_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent of a run, and an Orbax checkpoint of another as partner."""
    policies = [network_policy(LENIENT, seed) for seed in range(2)]
    agent, partner_folder = str(tmp_path / "agent"), str(tmp_path / "checkpoints" / "5")
    save_policy(Path(agent), policies[0], algorithm="x", steps=0, score=None)
    document = checkpoint_policy(policies[1], params_path="actor")
    with Checkpointer(tmp_path / "checkpoints", policy=document) as checkpoints:
        checkpoints.save(5, {"actor": policies[1].params})
    monkeypatch.setitem(gauntlet._BY_GAME, "hanabi", {"chance": ("bot:random",)})
    picture = tmp_path / "out" / "g.png"
    arguments = ["--games", "8", "--series", "1", "--seed", "3", "--plot", str(picture), "--json"]
    main(["gauntlet", agent, "--family", f"runs={partner_folder}", *arguments])
    (found,) = json.loads(capsys.readouterr().out)["agents"]
    assert [partner["partner"] for partner in found["partners"]] == ["bot:random", partner_folder]
    for partner in found["partners"][1:]:
        pair = evaluate_pair(load_policy(agent), load_policy(partner["partner"]), 8, 3).summary
        assert partner["mean"] == pytest.approx(pair.mean.mean)
        assert partner["mean_ci95"] == pytest.approx(pair.mean.bounds)
    assert picture.stat().st_size > 5000


def test_seats_of_overcooked_are_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Errand bots share one compiled program per errand; short games."""
    game = "overcooked:forced_coordination"
    added = "bot:errand?smoothing=0.5"
    arguments = ["--game", game, "--games", "4", "--seed", "3", "--json"]
    main(["gauntlet", "bot:errand", "--family", f"mine={added}", *arguments])
    output = capsys.readouterr()
    assert "in series" not in output.err and "sampled" in output.err
    (found,) = json.loads(output.out)["agents"]
    by_name = {partner["partner"]: partner for partner in found["partners"]}
    # the default errand is soup: the agent is not its own partner
    errands = {f"bot:errand?errand={errand}" for errand in ("onions", "dishes")}
    assert by_name.keys() == errands | {"bot:still", "bot:random", added}
    agent, partner = load_agents(["bot:errand", added], None, game)
    pair = evaluate_pair(agent, partner, 4, 3)
    seats = [pair.seat_summary(seat).mean.mean for seat in range(2)]
    assert by_name[added]["by_seat"] == pytest.approx(seats)
    assert by_name[added]["mean"] == pytest.approx(np.mean(seats))
    assert found["families"]["mine"]["mean"] == pytest.approx(np.mean(seats))


def test_intervals_of_negative_scores() -> None:
    """Of a game without bounds; three series of one game."""
    policy: Any = SimpleNamespace(rules=Dice())
    found = PartnerResult(
        GauntletPartner("a", "x", policy), False, np.array([[[-20.0], [-25.0], [-15.0]]])
    )
    whole = GauntletResult("agent", found, [found])
    reach = 4.302653 * 5 / np.sqrt(3)  # Student's t, two degrees of freedom
    for interval in (found.mean, *found.by_game, *found.by_seat, whole.family("x")):
        assert interval.bounds == pytest.approx([-20 - reach, -20 + reach])


def test_options_of_added_agents_may_have_commas() -> None:
    text = ["x=bot:iggi?safe=0.6,0.1&noise=0.2,bot:smart,runs/2", "y=A?safe=0.6,0.1", "x=B"]
    assert parse_families(text) == {
        "x": ["bot:iggi?safe=0.6,0.1&noise=0.2", "bot:smart", "runs/2", "B"],
        "y": ["A?safe=0.6,0.1"],
    }


def test_stopped_gauntlet_keeps_its_rows_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped at the second partner of the second agent; then the rest alone is played."""
    policies = {name: load_policy(name) for name in ("bot:iggi", "bot:piers", "bot:smart")}
    names = {policy.identity(): name for name, policy in policies.items()}
    partners = [GauntletPartner(name, "x", policies[name]) for name in ("bot:piers", "bot:smart")]
    asked: list[tuple[str, str]] = []
    stop_at: tuple[str, str] | None = ("bot:piers", "bot:smart")

    def play(agent: Any, others: Any, games: int, seed: int, **_: Any) -> Any:
        pair = (names[agent.identity()], names[others[0].identity()])
        if pair == stop_at:
            raise KeyboardInterrupt
        asked.append(pair)
        scores = np.random.default_rng([seed, *map(ord, "".join(pair))]).integers(0, 26, (2, games))
        return scores[None], scores[None]

    monkeypatch.setenv("HANABI_RL_CACHE", str(tmp_path))
    monkeypatch.setattr(gauntlet, "gauntlet_partners", lambda *_: partners)
    monkeypatch.setattr(gauntlet, "evaluate_with_partners", play)
    command = ["gauntlet", "bot:iggi", "bot:piers", "--games", "10"]
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 130
    first = capsys.readouterr()
    assert "2 of 3 partners of bot:piers" in first.err and "Repeat the command" in first.err
    before, stop_at = [*asked], None
    main([*command, "--seed", "1"])  # other games
    assert asked[len(before) :] == [*before, ("bot:piers", "bot:smart")]
    capsys.readouterr()
    del asked[:]
    main(command)
    assert asked == [("bot:piers", "bot:smart")]
    whole = capsys.readouterr().out
    assert whole.startswith(first.out) and "families unseen: mean" in whole
    del asked[:]
    main(command)  # finished: measured again
    assert asked == [*before, ("bot:piers", "bot:smart")]
    assert capsys.readouterr().out == whole
    assert [*tmp_path.glob("gauntlet/*")] == []


def test_unfinished_scores_belong_to_one_command(tmp_path: Path) -> None:
    unfinished = UnfinishedScores(tmp_path / "new")
    one, two = load_policy("bot:iggi"), load_policy("bot:piers")
    three = load_policy("bot:iggi", Rules(3))
    first = unfinished.path(one, two, 4, 5, 0)
    others = [(two, one, 4, 5, 0), (one, one, 4, 5, 0), (one, two, 5, 4, 0), (one, two, 3, 5, 0)]
    others += [(one, two, 4, 5, 1), (three, three, 4, 5, 0)]
    assert len({first, *(unfinished.path(*each) for each in others)}) == 7
    assert first == unfinished.path(load_policy("bot:iggi"), two, 4, 5, 0)
    scores = np.arange(12).reshape(2, 3, 2)
    unfinished.save(first, scores)
    found = unfinished.load(first)
    assert found is not None and found.dtype == scores.dtype
    np.testing.assert_array_equal(found, scores)
    yesterday = time.time() - 25 * 3600
    os.utime(first, (yesterday, yesterday))
    assert unfinished.load(first) is None
    for damaged in (b"", b"\x93NUMPY"):
        first.write_bytes(damaged)
        assert unfinished.load(first) is None
    (tmp_path / "file").touch()
    nowhere = UnfinishedScores(tmp_path / "file")
    path = nowhere.path(one, two, 4, 5, 0)
    nowhere.save(path, scores)
    assert nowhere.load(path) is None
    nowhere.clear()
    unfinished.clear()
    assert unfinished.load(first) is None


@pytest.mark.parametrize("of_hanabi", [True, False])
def test_rows_printed_one_by_one_are_the_table(of_hanabi: bool, result: GauntletResult) -> None:
    """Names of any length; in Overcooked scores of three digits and of one."""
    rows = [result.self_play, *result.partner_results]
    if not of_hanabi:
        policy = load_policy("bot:still", Overcooked())
        rows = [
            dataclasses.replace(
                row, partner=row.partner._replace(policy=policy), scores=scale * row.scores
            )
            for scale, row in zip((20, 0, 1, 30), rows, strict=True)
        ]
    long = rows[1].partner._replace(name="a-longer-name", best_response=20.0)
    rows[1] = dataclasses.replace(rows[1], partner=long)
    columns = partner_columns([row.partner for row in rows], 3)
    lines = [to_text(table([], columns))]
    lines += [to_text(table([row], columns, head=False)) for row in rows]
    assert "\n".join(lines) == to_text(table(rows, columns))
    whole = GauntletResult("agent", rows[0], rows[1:])
    assert "\n".join(["", "agent", *lines, ""]) in text_of(partner_parts, whole)


def test_one_series_says_what_intervals_need(result: GauntletResult) -> None:
    def note(series: int, length: int) -> str:
        def cut(row: PartnerResult) -> PartnerResult:
            return dataclasses.replace(row, scores=row.scores[:, :series, :length])

        every = [cut(row) for row in (result.self_play, *result.partner_results)]
        return text_of(partner_parts, GauntletResult("agent", every[0], every[1:]))

    assert "n/a" in note(1, 3) and "--games 6" in note(1, 3)
    assert "n/a" in note(1, 1) and "--games 2" in note(1, 1)
    assert "n/a" not in note(2, 3) and "--games" not in note(2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bot:iggi", "--games", "7"], "--games: expected a multiple of --series 5, got 7"),
        (["bot:iggi", "--series", "0"], "--series: expected"),
        (["bot:rules?seed=1", "bot:rules?seed=01"], "expected policies that differ"),
        (
            ["bot:iggi", "--family", "x=bot:flawed", "y=bot:flawed"],
            "--family: expected each agent once, got bot:flawed twice",
        ),
        (
            ["bot:iggi", "--family", "x=bot:smart"],
            "bot:smart is already in the gauntlet (bot:smart, family smart)",
        ),
        (["bot:iggi", "--family", "x=nobody"], "expected an agent"),
        (["bot:iggi", "--family", "bot:smart"], "expected --family NAME=AGENT,AGENT, got"),
        (
            ["bot:iggi", "--family", "smart=bot:flawed"],
            "--family smart=...: the gauntlet has a family smart",
        ),
        (
            ["bot:errand", "--game", "overcooked:cramped_room", "--validation"],
            "validation: expected an agent of hanabi, got overcooked",
        ),
        (
            ["bot:errand", "--game", "overcooked:cramped_room", "--series", "2", "--games", "4"],
            "--series, games_per_series: expected 1 in overcooked, got 2",
        ),
    ],
)
def test_gauntlet_errors_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gauntlet", *arguments])
    error = capsys.readouterr().err.strip()
    assert ended.value.code == 2 and message in error and len(error.splitlines()) == 1


def test_training_partners_come_from_config(tmp_path: Path) -> None:
    policy = network_policy(Rules(), seed=0)
    save_policy(tmp_path / "run" / "policy", policy, algorithm="x", steps=0, score=None)
    config: dict[str, Any] = {"config": {"partners": ["bot:rules?seed=1..2", "bot:simple"]}}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    expected = ("bot:rules?seed=1", "bot:rules?seed=2", "bot:simple")
    for name in ("run", "run/policy", "run/policy/policy.safetensors", "run/checkpoints/5"):
        assert training_partners(str(tmp_path / name)) == expected
    assert training_partners("bot:smart") == training_partners(str(tmp_path)) == ()


def test_options_do_not_hide_training_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bot's own parameters are not options: another seed is another partner."""
    trained = (
        "bot:smart?noise=0.15",
        "bot:iggi?gullible=2&temperature=0.5",
        "bot:rules?seed=900&noise=0.1",
        "bot:rules?epsilon=0&seed=901",
        "agent:human-3p?temperature=0.3",
        "bot:of-another-version?seed=1",
    )
    expected = {
        "bot:smart": True,
        "bot:iggi?noise=0.5": True,
        "bot:rules?seed=900": True,
        "bot:rules?seed=901": False,
        "bot:rules": False,
        "agent:human-3p": True,
        "bot:simple": False,
        "bot:of-another-version?seed=1": True,
    }
    policy = load_policy("bot:random")
    monkeypatch.setattr(
        gauntlet,
        "evaluate_with_partners",
        lambda _, them, *a, **b: (np.zeros((len(them), 2, 1)), None),
    )
    partners = [GauntletPartner(name, "x", policy) for name in expected]
    result = gauntlet.run_gauntlet(
        "agent", policy, partners, trained, num_series=1, games_per_series=1
    )
    assert {each.partner.name: each.seen_in_training for each in result.partner_results} == expected


def test_family_ignores_options() -> None:
    names = ("bot:holmes", "bot:rules?seed=7", "bot:iggi?safe=1,1", "agent:clone-2p", "bot:random")
    families = ["simple", "rule family", "rule lists", "conventions", None]
    assert [family_of(name) for name in names] == families
