"""Evaluation partners from candidates, and populations of a comparison."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.games import TINY, TINY_3P
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.best_response import BestResponseConfig
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.matrix import EvalSetting
from hanabi_rl.evaluation.measure.partner_set import (
    EvalPartner,
    PartnerSet,
    read_partners,
    write_partners,
)
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch import train_partner_set, zero_shot
from hanabi_rl.launch.train_partner_set import better_response, folder_name, train_set
from hanabi_rl.launch.zero_shot import (
    ComparisonRuns,
    ZeroShot,
    diversity_table,
    rank_table,
    skill_checkpoints,
)


def keep(folder: Path, seed: int, score: float | None = None, players: int = 2) -> str:
    policy = network_policy(TINY if players == 2 else TINY_3P, seed=seed)
    save_policy(folder, policy, algorithm="ippo", steps=seed, score=score)
    return str(folder)


def candidate(folder: Path, seed: int) -> EvalPartner:
    """The three policies of a pair, different from other pairs'."""
    return EvalPartner(
        agent=keep(folder / "biased", seed),
        best_response=keep(folder / "response", seed + 1),
        mid_skill=keep(folder / "mid" / "biased", seed + 2),
    )


def test_diversity_table_compares_both_selections(tmp_path: Path) -> None:
    """Two of three candidates have equal responses: no three of them differ."""
    own = keep(tmp_path / "p", 0)
    events = ((3.0, 1.0), (3.0, 1.0), (1.0, 3.0))
    partners = tuple(
        EvalPartner(
            own,
            score=(2.0, 2.0),
            response_events=(of, of),
            partner_events=((1.0 + k, k % 2), (1.0, 2.0)),
        )
        for k, of in enumerate(events)
    )
    path = tmp_path / "measured.json"
    write_partners(path, PartnerSet(players=2, partners=partners))
    head, _, *lines = diversity_table(path).splitlines()
    assert head == "3 of 3 candidates" and [line.split()[0] for line in lines] == ["2"]
    best, other, ratio = map(float, lines[0].split()[1:])
    assert best >= other and ratio == pytest.approx(other / best, abs=0.01)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """(algorithm, partners, run folder) of all requested runs; each gives a random policy."""
    runs: list[Any] = []

    def run_once(algorithm: str, config: BestResponseConfig) -> None:
        runs.append((algorithm, config.partners, config.run_dir))
        keep(Path(config.run_dir or "") / "policy", seed=100 + len(runs))

    monkeypatch.setattr(train_partner_set, "run_once", run_once)
    monkeypatch.setattr(Rules, "min_pair_score", -1.0)  # no policy can play yet
    return runs


def test_selected_and_mid_skill_get_best_responses(tmp_path: Path, trained: list[Any]) -> None:
    candidates = [candidate(tmp_path / f"pair-{k}", 3 * k) for k in range(3)]
    write_partners(tmp_path / "candidates.json", PartnerSet(partners=tuple(candidates)))
    out = tmp_path / "out"
    path = train_set(
        tmp_path / "candidates.json", 2, out, BestResponseConfig(), EvalSetting(16, 0, False)
    )
    found = read_partners(path)
    chosen = read_partners(out / "selected.json").partners
    assert len(chosen) == 2 and found.candidates == 3 and found.selected_by == "br-div"
    assert [p.agent for p in found.partners] == [
        name for partner in chosen for name in (partner.agent, partner.mid_skill)
    ]
    assert [run[:2] for run in trained] == [("best_response", (p.agent,)) for p in found.partners]
    for final, mid in zip(found.partners[::2], found.partners[1::2], strict=True):
        assert mid.note.startswith("mid-skill")
        own = next(c for c in candidates if c.agent == final.agent).best_response
        fresh = {run[1][0]: run[2] for run in trained}
        assert final.best_response in (own, fresh[final.agent])
        assert mid.best_response == fresh[mid.agent]
    # selected on one set of decks, evaluated on another
    measured = read_partners(out / "measured.json").partners
    for partners, purpose in ((measured, "selection"), (found.partners, "report")):
        for partner in partners:
            response, policy = load_policy(partner.best_response), load_policy(partner.agent)
            played = evaluate_pair(response, policy, 16, 0, purpose=purpose)
            assert np.mean(partner.score) == pytest.approx(played.summary.mean.mean)
    write_partners(
        tmp_path / "none.json",
        PartnerSet(partners=(dataclasses.replace(candidates[0], mid_skill=""),)),
    )
    with pytest.raises(ValueError, match="expected a best_response and a mid_skill of"):
        train_set(tmp_path / "none.json", 1, out, BestResponseConfig(), EvalSetting(16, 0, False))


def test_best_responses_use_candidates_player_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preset is for two; without its game the partner's would be rejected."""
    trained = []

    def run_once(algorithm: str, config: BestResponseConfig) -> None:
        trained.append(config.game)

    def measured_with(partners, setting, title, purpose, players=None):
        rng = np.random.default_rng(0)
        counts = [tuple(map(tuple, rng.random((3, 14)).tolist())) for _ in partners]
        return [
            dataclasses.replace(p, score=(3.0,) * 3, response_events=c, partner_events=c)
            for p, c in zip(partners, counts, strict=True)
        ]

    monkeypatch.setattr(train_partner_set, "run_once", run_once)
    monkeypatch.setattr(train_partner_set, "add_best_response_scores", measured_with)
    names = [
        keep(tmp_path / f"pair-{k}" / name, 3 * k + j, players=3)
        for k in range(2)
        for j, name in enumerate(("biased", "response", "mid"))
    ]
    candidates = [EvalPartner(*names[k : k + 2], mid_skill=names[k + 2]) for k in (0, 3)]
    write_partners(tmp_path / "c.json", PartnerSet(players=3, partners=tuple(candidates)))
    config = BestResponseConfig(game=TINY)
    train_set(tmp_path / "c.json", 2, tmp_path / "out", config, EvalSetting(16, 0, False))
    assert trained == [TINY_3P] * 4


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[tuple[str, str]]]]:
    """(purpose, pairs) of all evaluations, with random scores and events."""
    calls: list[tuple[str, list[tuple[str, str]]]] = []
    rng = np.random.default_rng(0)

    def measure_pairs(partners: Any, policies: Any, setting: Any, purpose: Any, *on: Any) -> Any:
        calls.append((purpose, [(p.agent, p.best_response) for p in partners]))
        drawn = {"response_events": rng.random((2, 14)), "partner_events": rng.random((2, 14))}
        events = {name: tuple(map(tuple, rows.tolist())) for name, rows in drawn.items()}
        return [dataclasses.replace(p, score=(1.0, rng.random()), **events) for p in partners]

    monkeypatch.setattr(train_partner_set, "measure_pairs", measure_pairs)
    return calls


def test_only_final_scores_use_report_decks(
    tmp_path: Path, trained: list[Any], measured: list[tuple[str, list[tuple[str, str]]]]
) -> None:
    """Partners and best responses are selected on other decks."""
    candidates = tuple(candidate(tmp_path / f"pair-{k}", 3 * k) for k in range(2))
    write_partners(tmp_path / "candidates.json", PartnerSet(partners=candidates))
    path = train_set(
        tmp_path / "candidates.json", 1, tmp_path, BestResponseConfig(), EvalSetting(4, 0, False)
    )
    found = read_partners(path)
    assert found.purpose == "report"
    assert [purpose for purpose, _ in measured] == ["selection", "selection", "report"]
    assert measured[1][1] == [(partners[0], run_dir) for _, partners, run_dir in trained]
    assert measured[2][1] == [(p.agent, p.best_response) for p in found.partners]


def test_equal_pair_names_have_separate_folders(
    tmp_path: Path, trained: list[Any], measured: Any
) -> None:
    """Pair 3 of two runs; and a mid-skill checkpoint that equals the final pair."""
    candidates = [candidate(tmp_path / f"s{seed}" / "pair-003", 3 * seed) for seed in range(2)]
    candidates[1] = dataclasses.replace(
        candidates[1], mid_skill=keep(tmp_path / "s1" / "pair-003" / "mid" / "biased", 3)
    )
    write_partners(tmp_path / "candidates.json", PartnerSet(partners=tuple(candidates)))
    arguments = tmp_path / "candidates.json", 2, tmp_path, BestResponseConfig()
    train_set(*arguments, EvalSetting(4, 0, False))
    folders = {run[1]: run[2] for run in trained}
    assert set(folders) == {
        (candidates[0].agent,),
        (candidates[0].mid_skill,),
        (candidates[1].agent,),
    }
    assert len(set(folders.values())) == len(trained) == 3
    assert all("pair-003" in folder for folder in folders.values())
    train_set(*arguments, EvalSetting(4, 0, False))  # the same ones again
    assert {run[1]: run[2] for run in trained[3:]} == folders


def test_bots_have_separate_folders(tmp_path: Path) -> None:
    names = ["bot:smart", "bot:simple", "bot:rules?seed=1", "bot:rules?seed=2", "agent:ippo-2p"]
    folders = [folder_name(name, load_policy(name).identity()) for name in names]
    assert len(set(folders)) == 5 and folders[0].startswith("bot_smart-")
    assert all("/" not in folder and ":" not in folder for folder in folders)


def test_duplicate_candidate_is_rejected(tmp_path: Path, trained: list[Any]) -> None:
    first = candidate(tmp_path / "a", 0)
    again = dataclasses.replace(first, agent=keep(tmp_path / "b" / "biased", 0))
    write_partners(tmp_path / "candidates.json", PartnerSet(partners=(first, again)))
    with pytest.raises(ValueError, match="got the same one as .*/a/biased and as .*/b/biased"):
        train_set(
            tmp_path / "candidates.json", 2, tmp_path / "o", BestResponseConfig(), EvalSetting(4, 0)
        )
    assert not (tmp_path / "o").exists()


def test_better_best_response_is_used() -> None:
    fresh = EvalPartner(agent="a", best_response="new", score=(2.0, 4.0))
    assert better_response(fresh, None) is fresh
    assert better_response(fresh, dataclasses.replace(fresh, score=(2.0, 3.0))) is fresh
    together = dataclasses.replace(fresh, score=(3.0, 3.0))
    assert better_response(fresh, together) is together


def test_skill_checkpoints_are_start_middle_end(tmp_path: Path) -> None:
    for steps, score in ((0, 0.3), (100, 1.7), (2000, 2.4), (30_000, 4.9), (40_000, 5.0)):
        keep(tmp_path / "policies" / str(steps), steps, score)
    assert [Path(name).name for name in skill_checkpoints(tmp_path)] == ["0", "2000", "40000"]


def test_learner_seeds_differ_from_population_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would start as the partner whose first checkpoint is in the population."""
    seeds: dict[str, int] = {}
    partners: dict[str, tuple[str, ...]] = {}

    def run_once(algorithm: str, config: Any) -> None:
        name = str(Path(config.run_dir).relative_to(tmp_path))
        seeds[name], partners[name] = config.seed, getattr(config, "partners", ())

    monkeypatch.setattr(zero_shot, "run_once", run_once)
    monkeypatch.setattr(
        zero_shot, "skill_checkpoints", lambda run: [str(run.relative_to(tmp_path))]
    )
    monkeypatch.setattr(
        zero_shot, "member_folders", lambda run: [run / f"members/{k}" for k in range(4)]
    )
    monkeypatch.setattr(ComparisonRuns, "biased", lambda self, count, seed: ["bot:random"])
    runs = ComparisonRuns(ZeroShot(out=str(tmp_path), runs=3, selfplay_runs=4))
    for method in (runs.selfplay, runs.fcp, runs.hsp, runs.mep, runs.trajedi):
        for seed in range(3):
            method(seed)
    names = {member for of in partners.values() for member in of} - {"bot:random"}
    members = {name.partition("/members/")[0] for name in names}
    methods = "sp", "fcp", "hsp", "mep", "trajedi"
    learners = {f"{method}/s{seed}" for method in methods for seed in range(3)}
    assert len(members) == 6 + 3 + 3 and set(seeds) == learners | members
    assert len(names) == 6 + 4 * (3 + 3)
    assert not {seeds[name] for name in learners} & {seeds[name] for name in members}
    assert len({partners[f"fcp/s{seed}"] for seed in range(3)}) == 3
    assert [len(partners[f"{method}/s0"]) for method in methods[1:]] == [4, 3, 4, 4]


@pytest.mark.parametrize("game", [None, "overcooked:forced_coordination"])
def test_presets_accept_settings_of_comparison(tmp_path: Path, game: str | None) -> None:
    config = ZeroShot(out=str(tmp_path), game=game)
    if game:
        config = dataclasses.replace(config, preset="overcooked")
    runs = ComparisonRuns(config)
    algorithms = "behaviour_preferring", "best_response", "ippo"
    for algorithm in (*algorithms, "e3t", "mep", "trajedi", "cole", "any_play"):
        base = runs.base(algorithm, 700_000)
        assert (base.total_steps, base.lr) == (700_000, config.lr)
        assert getattr(base.game, "kitchen", None) == (game and "forced_coordination")


def test_missing_presets_are_reported_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before an hour of runs of the algorithms that have the preset."""

    def run_once(algorithm: str, config: Any) -> None:
        raise AssertionError(f"{algorithm} was trained")

    monkeypatch.setattr(zero_shot, "run_once", run_once)
    with pytest.raises(FileNotFoundError, match="--preset small: no file .*/mep/small.toml"):
        zero_shot.run_zero_shot(ZeroShot(out=str(tmp_path), preset="small", methods=("SP", "MEP")))
    with pytest.raises(ValueError, match="^--game: hanabi: unknown field 'num_rank'"):
        zero_shot.run_zero_shot(ZeroShot(out=str(tmp_path), game="hanabi?num_rank=2"))


def test_selfplay_runs_must_be_even(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="selfplay_runs: expected an even number from 2, got 3"):
        ZeroShot(out=str(tmp_path), selfplay_runs=3)


def test_methods_are_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []
    for name in ("selfplay", "fcp", "hsp", "mep", "trajedi"):

        def make(self: Any, seed: int, name: str = name) -> Path:
            made.append((name, seed))
            return tmp_path / name / f"s{seed}"

        monkeypatch.setattr(ComparisonRuns, name, make)
    alone: list[tuple[str, str, int, dict[str, Any]]] = []

    def run(self: Any, algorithm: str, name: str, steps: int, **fields: Any) -> Path:
        alone.append((algorithm, name, steps, fields))
        return tmp_path / name

    monkeypatch.setattr(ComparisonRuns, "make", run)
    monkeypatch.setattr(ComparisonRuns, "partners", lambda self: tmp_path / "partners.json")
    of_three = ZeroShot(out=str(tmp_path), runs=1, methods=("E3T", "COLE", "Any-Play"))
    zero_shot.run_zero_shot(of_three)
    fields = {"seed": 0, "eval_every": 10_000}
    steps = of_three.agent_steps
    assert alone == [
        ("e3t", "e3t/s0", steps, fields),
        ("cole", "cole/s0", steps, fields),
        ("any_play", "any_play/s0", steps, fields | {"current_player_only": False}),
    ]
    config = ZeroShot(out=str(tmp_path), runs=2, methods=("TrajeDi", "MEP"))
    arguments, minutes = zero_shot.run_zero_shot(config)
    assert minutes == {"TrajeDi": 0, "MEP": 0}  # nothing was trained
    assert made == [("trajedi", 0), ("trajedi", 1), ("mep", 0), ("mep", 1)]
    groups = arguments[arguments.index("--group") + 1 :]
    folders = [f"{tmp_path}/{name}/s{seed}/policy-latest" for name, seed in made]
    assert groups == [f"TrajeDi={','.join(folders[:2])}", f"MEP={','.join(folders[2:])}"]
    with pytest.raises(ValueError, match="methods: expected at least one method, got none"):
        ZeroShot(methods=())


def test_ranks_average_over_partners() -> None:
    """a is first with two partners and second with one; b, c share the second place once."""
    means = {"a": [0.9, 0.8, 0.5], "b": [0.7, 0.2, 0.6], "c": [0.7, 0.3, 0.4]}
    methods = {name: {"mean_by_partner": of} for name, of in means.items()}
    minutes = {"c": 0.25, "a": 12.34, "b": 3}
    lines = rank_table({"scores": {"methods": methods}}, minutes).splitlines()[1:]
    assert [line.split() for line in lines] == [
        ["a", "1.33", "2", "of", "3", "12.3"],
        ["b", "2.00", "1", "of", "3", "3.0"],
        ["c", "2.33", "0", "of", "3", "0.2"],
    ]


def test_zero_best_responses_are_reported() -> None:
    methods = {name: {"mean_by_partner": [1.0, value]} for name, value in (("a", 0.5), ("b", 0.2))}
    partners = [{"best_response_return": best} for best in ([0.0, 0.0], [4.0, 0.0])]
    figures = {"scores": {"methods": methods, "partners": partners}}
    last = rank_table(figures, {"a": 1, "b": 2}).splitlines()[-1]
    assert last == "1 of 2 partners have a J_BR of 0: every method is first with them."
