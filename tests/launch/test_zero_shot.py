"""From candidates to partners, and the populations of a comparison."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from support.games import TINY, TINY_3P
from support.policies import network_policy

from hanabi_rl.agents.folder import save_policy
from hanabi_rl.agents.names import load_policy
from hanabi_rl.algorithms.best_response import BestResponseConfig
from hanabi_rl.launch import partner_set
from hanabi_rl.launch.partner_set import better, train_set
from hanabi_rl.launch.zero_shot import ZeroShot, ladder, rank_table
from hanabi_rl.measure.crossplay import evaluate_pair
from hanabi_rl.measure.matrix import Setting
from hanabi_rl.measure.partners import Partner, PartnerSet, read_partners, write_partners


def keep(folder: Path, seed: int, score: float | None = None, players: int = 2) -> str:
    policy = network_policy(TINY if players == 2 else TINY_3P, seed=seed)
    save_policy(folder, policy, algorithm="ippo", steps=seed, score=score)
    return str(folder)


def test_the_chosen_and_their_mid_skill_checkpoints_get_best_responses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def run_once(algorithm: str, config: BestResponseConfig) -> None:
        trained.append((algorithm, config.partners))
        keep(Path(config.run_dir or "") / "policy", seed=100 + len(trained))

    monkeypatch.setattr(partner_set, "run_once", run_once)
    monkeypatch.setattr("hanabi_rl.measure.partners.LEAST_SHARE", -1.0)  # nobody can play yet
    candidates = [
        Partner(
            agent=keep(tmp_path / f"pair-{k}" / "biased", 3 * k),
            best_response=keep(tmp_path / f"pair-{k}" / "response", 3 * k + 1),
            mid_skill=keep(tmp_path / f"pair-{k}" / "mid" / "biased", 3 * k + 2),
        )
        for k in range(3)
    ]
    write_partners(tmp_path / "candidates.json", PartnerSet(partners=tuple(candidates)))
    out = tmp_path / "out"
    path = train_set(
        tmp_path / "candidates.json", 2, out, BestResponseConfig(), Setting(16, 0, False)
    )
    found = read_partners(path)
    chosen = read_partners(out / "selected.json").partners
    assert len(chosen) == 2 and found.candidates == 3 and found.selected_by == "br-div"
    assert [p.agent for p in found.partners] == [
        name for partner in chosen for name in (partner.agent, partner.mid_skill)
    ]
    assert trained == [("best_response", (p.agent,)) for p in found.partners]
    for final, mid in zip(found.partners[::2], found.partners[1::2], strict=True):
        assert mid.note.startswith("mid-skill") and "best-response-mid" in mid.best_response
        own = next(c for c in candidates if c.agent == final.agent).best_response
        assert final.best_response in (own, str(out / Path(own).parent.name / "best-response"))
    # chosen on decks of their own, and measured on others
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
        train_set(tmp_path / "none.json", 1, out, BestResponseConfig(), Setting(16, 0, False))


def test_best_responses_are_of_as_many_players_as_the_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preset is of two; without its game it would be refused by the partner's."""
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

    monkeypatch.setattr(partner_set, "run_once", run_once)
    monkeypatch.setattr(partner_set, "measured_with", measured_with)
    names = [
        keep(tmp_path / f"pair-{k}" / name, 3 * k + j, players=3)
        for k in range(2)
        for j, name in enumerate(("biased", "response", "mid"))
    ]
    candidates = [Partner(*names[k : k + 2], mid_skill=names[k + 2]) for k in (0, 3)]
    write_partners(tmp_path / "c.json", PartnerSet(players=3, partners=tuple(candidates)))
    config = BestResponseConfig(game=TINY)
    train_set(tmp_path / "c.json", 2, tmp_path / "out", config, Setting(16, 0, False))
    assert trained == [TINY_3P] * 4


def test_the_better_of_two_best_responses_is_kept() -> None:
    fresh = Partner(agent="a", best_response="new", score=(2.0, 4.0))
    assert better(fresh, None) is fresh
    assert better(fresh, dataclasses.replace(fresh, score=(2.0, 3.0))) is fresh
    together = dataclasses.replace(fresh, score=(3.0, 3.0))
    assert better(fresh, together) is together


def test_a_ladder_is_the_beginning_half_way_and_the_end_of_a_run(tmp_path: Path) -> None:
    for steps, score in ((0, 0.3), (100, 1.7), (2000, 2.4), (30_000, 4.9), (40_000, 5.0)):
        keep(tmp_path / "policies" / str(steps), steps, score)
    assert [Path(name).name for name in ladder(tmp_path)] == ["0", "2000", "40000"]


def test_populations_are_halves(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="selfplay_runs: expected an even number from 2, got 3"):
        ZeroShot(out=str(tmp_path), selfplay_runs=3)


def test_ranks_are_of_methods_with_each_partner() -> None:
    """a is first with two partners and second with one; b, c share the second place once."""
    means = {"a": [0.9, 0.8, 0.5], "b": [0.7, 0.2, 0.6], "c": [0.7, 0.3, 0.4]}
    methods = {name: {"mean_by_partner": of} for name, of in means.items()}
    lines = rank_table({"scores": {"methods": methods}}).splitlines()[1:]
    assert [line.split() for line in lines] == [
        ["a", "1.33", "2", "of", "3"],
        ["b", "2.00", "1", "of", "3"],
        ["c", "2.33", "0", "of", "3"],
    ]
