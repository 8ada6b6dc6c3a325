"""A whole run of pairs: what it leaves, and what a resumed one trains again."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from support.pairs import PAIRS

from hanabi_rl.agents.names import load_policy
from hanabi_rl.algorithms.behaviour_preferring import BehaviourPreferringConfig, describe
from hanabi_rl.algorithms.registry import run
from hanabi_rl.env.events import EVENTS
from hanabi_rl.learning.finite import NotFiniteError
from hanabi_rl.learning.pairs import Pair
from hanabi_rl.measure.partners import read_partners


@pytest.mark.slow
def test_a_run_writes_candidates_and_a_resumed_one_trains_the_missing_pair(tmp_path: Path) -> None:
    folder = tmp_path / "pairs"
    summary = run("behaviour_preferring", dataclasses.replace(PAIRS, run_dir=str(folder)))
    assert summary["pairs"] == 2 and summary["rewards"] == 406
    assert summary["env_steps"] == 2 * 2 * 4 * 64 * 16
    found = read_partners(folder / "candidates.json")
    assert found.players == 2 and len(found.partners) == 2
    for partner in found.partners:
        names = (partner.agent, partner.best_response, partner.mid_skill)
        assert len({load_policy(name).identity() for name in names}) == 3
        assert partner.score_weight in (0.5, 1.0) and len(partner.event_weights or ()) == len(
            EVENTS
        )
        assert partner.note == describe(partner.event_weights, partner.score_weight)  # type: ignore[arg-type]
    first, second = (load_policy(p.agent).identity() for p in found.partners)
    assert first != second

    kept = (folder / "pair-000" / "pair.json").stat().st_mtime_ns
    (folder / "pair-001" / "pair.json").unlink()
    (folder / "summary.json").unlink()
    run("behaviour_preferring", dataclasses.replace(PAIRS, run_dir=str(folder), resume=True))
    assert (folder / "pair-000" / "pair.json").stat().st_mtime_ns == kept
    again = read_partners(folder / "candidates.json")
    assert load_policy(again.partners[1].agent).identity() == second  # the same run
    longer = dataclasses.replace(
        PAIRS, run_dir=str(folder), resume=True, total_steps=2 * PAIRS.total_steps
    )
    with pytest.raises(ValueError, match="--total-steps: expected 4,096, .*pair-000.*, got 8,192"):
        run("behaviour_preferring", longer)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["pair"], line["step"]) for line in lines] == [(0, 2), (0, 4), (1, 6), (1, 8)]


@pytest.mark.slow
def test_an_update_that_was_not_finite_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two checkpoints, whose metrics are the only ones that are looked at."""
    compiled = Pair.compile_update

    def spoilt(pair: Pair) -> Any:
        update = compiled(pair)
        count = 0

        def once_not_applied(learners: Any, actors: Any, preference: Any) -> Any:
            nonlocal count
            count += 1
            before = jax.tree.map(jnp.copy, learners.response)  # the update takes the arrays
            learnt, actors, metrics = update(learners, actors, preference)
            return (learnt._replace(response=before) if count == 1 else learnt), actors, metrics

        return once_not_applied

    monkeypatch.setattr(Pair, "compile_update", spoilt)
    with pytest.raises(NotFiniteError, match="finite update of the response learner of pair 0"):
        run("behaviour_preferring", dataclasses.replace(PAIRS, run_dir=str(tmp_path / "pairs")))


def test_a_reward_in_words_and_what_is_refused() -> None:
    weights = [0.0] * len(EVENTS)
    weights[EVENTS.index("hint_color")] = 0.5
    weights[EVENTS.index("play_blind")] = -1.0
    assert describe(tuple(weights), 0.5) == "0.5 r + 0.5 hint_color - 1 play_blind"
    with pytest.raises(ValueError, match="--score-weights: expected at least one weight, got none"):
        BehaviourPreferringConfig(score_weights=())
    with pytest.raises(ValueError, match=r"start_states: expected \(\), .* got .'games'"):
        BehaviourPreferringConfig(start_states=("games",))
    with pytest.raises(ValueError, match="report_policy: expected 'best', .* got 'final'"):
        BehaviourPreferringConfig(report_policy="final")
