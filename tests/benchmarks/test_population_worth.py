"""`benchmarks/population_worth.py`: cost and scores of an agent by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.benchmarks import benchmark
from support.games import TINY
from support.policies import network_policy

from hanabi_rl.evaluation.measure.gauntlet import GauntletPartner, GauntletResult, PartnerResult

worth = benchmark("population_worth")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(algorithm, environment steps of all members) of each run; a run of N steps takes N s."""
    runs: list[tuple[str, int]] = []

    def run_once(algorithm, config) -> None:
        folder = Path(config.run_dir)
        steps, members = config.total_steps, getattr(config, "members", 1)
        for of in (
            [folder / "members" / f"{k}" for k in range(members)] if members > 1 else [folder]
        ):
            for step in (0, steps // 2, steps):
                (of / "evaluated" / f"{step}").mkdir(parents=True, exist_ok=True)
        lines = [{"step": 0, "wall_s": 1.0}, {"step": 1, "wall_s": float(steps * members)}]
        (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
        runs.append((algorithm, steps * members))

    monkeypatch.setattr("hanabi_rl.launch.zero_shot.run_once", run_once)
    monkeypatch.setattr(
        "hanabi_rl.launch.zero_shot.skill_checkpoints", lambda run: [f"{run}/{k}" for k in range(3)]
    )
    return runs


@pytest.mark.parametrize("method", [*worth.IN_ONE_RUN, *worth.WITH_POPULATION])
def test_every_agent_costs_the_same_steps(tmp_path, trained, method):
    one_run, population = worth.comparison(tmp_path)
    runs = one_run if method in worth.IN_ONE_RUN else population
    run, minutes = runs.agent(method, 0)
    steps = sum(of for _, of in trained)
    assert steps == pytest.approx(2_400_000, rel=0.02)  # whole updates
    assert minutes == pytest.approx(steps / 60)
    assert runs.agent(method, 1)[1] == pytest.approx(minutes)  # not of both seeds
    assert run.name == "s0"


def test_row_of_two_seeds():
    found = [
        {"minutes": 4.0, "self-play": 23.0, "unseen": 10.0, "smart": 12.0},
        {"minutes": 5.0, "self-play": 22.0, "unseen": 13.0, "smart": 8.0},
    ]
    assert worth.line("SP", found) == {
        "method": "SP",
        "seeds": 2,
        "unseen min": 10.0,
        "unseen max": 13.0,
        "minutes": 4.5,
        "self-play": 22.5,
        "unseen": 11.5,
        "smart": 10.0,
    }


def test_scores_are_kept_by_policy(tmp_path, monkeypatch):
    """Families of one and two partners count alike; another policy plays games of its own."""
    seen = []

    def run_gauntlet(name, policy, partners, training_partners, num_series, games):
        seen.append((policy, num_series, games))

        def result(family: str, score: int) -> PartnerResult:
            partner = GauntletPartner(family, family, policy)
            return PartnerResult(partner, False, np.full((2, 3, 2), score))

        partners = [result("a", 1), result("b", 2), result("b", 4)]
        return GauntletResult(name, result("self-play", 6), partners)

    monkeypatch.setattr(worth, "run_gauntlet", run_gauntlet)
    monkeypatch.setattr(worth, "gauntlet_partners", lambda policy: [])
    first, second = (network_policy(TINY, seed) for seed in (1, 2))
    expected = {"self-play": 6.0, "unseen": 2.0, "a": 1.0, "b": 3.0}
    assert [worth.scores(of, tmp_path) for of in (first, first, second)] == [expected] * 3
    assert seen == [(first, 20, 5), (second, 20, 5)]
