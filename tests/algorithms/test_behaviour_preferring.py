"""Complete runs of pairs: files, and training after resuming."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY_3P
from support.pairs import PAIRS

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.algorithms import behaviour_preferring as bp
from hanabi_rl.algorithms.behaviour_preferring import (
    BehaviourPreferringConfig,
    PairLearner,
    Snapshot,
    describe,
    make_pair,
)
from hanabi_rl.algorithms.registry import run
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.evaluation.measure.partner_set import read_partners
from hanabi_rl.games.hanabi.events import EVENTS
from hanabi_rl.learning import parallel
from hanabi_rl.learning.finite import NotFiniteError
from hanabi_rl.learning.pairs import LearnerPair, PerLearner
from hanabi_rl.runs.run_dir import write_config
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.dataclass_io import to_dict


@pytest.mark.slow
def test_resumed_run_trains_missing_pair(tmp_path: Path) -> None:
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
        assert partner.note == describe(partner.event_weights, partner.score_weight, EVENTS)  # type: ignore[arg-type]
    first, second = (load_policy(p.agent).identity() for p in found.partners)
    assert first != second

    saved = (folder / "pair-000" / "pair.json").stat().st_mtime_ns
    (folder / "pair-001" / "pair.json").unlink()
    (folder / "summary.json").unlink()
    run("behaviour_preferring", dataclasses.replace(PAIRS, run_dir=str(folder), resume=True))
    assert (folder / "pair-000" / "pair.json").stat().st_mtime_ns == saved
    again = read_partners(folder / "candidates.json")
    assert load_policy(again.partners[1].agent).identity() == second  # the same run
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["pair"], line["step"]) for line in lines] == [(0, 2), (0, 4), (1, 6), (1, 8)]


def test_pairs_of_other_length_are_rejected(tmp_path: Path) -> None:
    """Before anything is compiled."""
    config = dataclasses.replace(PAIRS, run_dir=str(tmp_path))
    write_config(tmp_path, to_dict(config), algorithm="behaviour_preferring", seed=config.seed)
    longer = dataclasses.replace(config, resume=True, total_steps=2 * config.total_steps)
    with pytest.raises(ValueError, match=r"--total-steps: expected 4,096, as .* began.*got 8,192"):
        run("behaviour_preferring", longer)


@pytest.mark.slow
def test_non_finite_update_between_checkpoints_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two checkpoints, the only logged metrics."""
    compiled = LearnerPair.compile_update

    def broken_update(pair: LearnerPair) -> Any:
        update = compiled(pair)
        count = 0

        def once_not_finite(learners: Any, actors: Any, preference: Any) -> Any:
            nonlocal count
            count += 1
            learned, actors, metrics = update(learners, actors, preference)
            if count == 1:
                metrics = metrics._replace(response=metrics.response | {"loss": jnp.float32("nan")})
            return learned, actors, metrics

        return once_not_finite

    monkeypatch.setattr(LearnerPair, "compile_update", broken_update)
    with pytest.raises(NotFiniteError, match="finite loss in the response .* pair 0, update 1"):
        run("behaviour_preferring", dataclasses.replace(PAIRS, run_dir=str(tmp_path / "pairs")))


class Learner(NamedTuple):
    update: int


def test_pair_has_own_key_and_even_checkpoints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """21 updates with 4 checkpoints: after 5, 10, 16 and 21. Learners are stand-ins."""
    config = dataclasses.replace(PAIRS, num_checkpoints=4, total_steps=21 * 64 * 16, seed=11)
    calls: list[Any] = []

    def init(key: jax.Array) -> list[Any]:
        calls.append(np.asarray(jax.random.key_data(key)).tobytes())
        return [(Learner(update=0), {}), (Learner(update=0), {})]

    def update(learners: PerLearner, actors: PerLearner, preference: Any) -> Any:
        calls.append((np.asarray(preference.event_weights).ravel()[:1], actors))
        later = PerLearner(*(Learner(update=learner.update + 1) for learner in learners))
        return later, actors, PerLearner({"loss": 0.25}, {"loss": 0.5})

    monkeypatch.setattr(parallel, "replicate", lambda tree: tree)
    monkeypatch.setattr(parallel, "shard", lambda tree: tree)
    monkeypatch.setattr(parallel, "fetch", lambda tree: tree)
    monkeypatch.setattr(
        bp.PairLearner,
        "measure",
        lambda self, learners: Snapshot(n := learners.biased.update, 4.0 - n / 7, None),  # type: ignore[arg-type]
    )
    logged: list[tuple[int, dict[str, Any]]] = []
    reported: list[int] = []
    tracker: Any = SimpleNamespace(log=lambda step, found: logged.append((step, found)))
    progress: Any = SimpleNamespace(update=lambda steps, **_: reported.append(steps))

    def train(config: BehaviourPreferringConfig, number: int, stop: Any) -> list[Snapshot]:
        wanted = (0.5,) * len(EVENTS), 1.0
        learner = PairLearner(config, number, wanted, None, update)  # type: ignore[arg-type]
        learner.train(init, tmp_path, tracker, stop, progress)  # type: ignore[arg-type]
        return learner.snapshots

    stop: Any = SimpleNamespace(exit_code=0)
    for number in (0, 1):
        assert [found.update for found in train(config, number, stop)] == [5, 10, 16, 21]
    keys = [found for found in calls if isinstance(found, bytes)]
    assert len(keys) == len(set(keys)) == 2 and len(calls) == 2 + 2 * 21
    assert [step for step, _ in logged] == [5, 10, 16, 21, 26, 31, 37, 42]
    assert reported == [2 * 64 * 16 * step for step in range(1, 43)]
    assert logged[-1][1]["response/loss"] == 0.5 and logged[-1][1]["pair"] == 1
    train(dataclasses.replace(config, seed=12), 0, stop)
    assert calls[44] not in keys

    class Signalled:
        """Stops after a number of updates of a pair."""

        def __init__(self, updates: int) -> None:
            self.at = len(calls) + 1 + updates

        @property
        def exit_code(self) -> int:
            """See `GracefulStop`."""
            return 130 if len(calls) >= self.at else 0

    assert len(train(config, 0, Signalled(updates=21))) == 4  # complete: it is saved
    with pytest.raises(RunStopped):
        train(config, 0, Signalled(updates=20))


def test_pair_saves_final_and_mid_skill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its end, and its state where it scored nearest to half of that."""
    saved: list[tuple[str, Any, int, float]] = []

    def save(folder: Path, policy: Any, *, algorithm: str, steps: int, score: float) -> None:
        saved.append((str(folder.relative_to(tmp_path)), policy, steps, score))
        folder.mkdir(parents=True)

    monkeypatch.setattr(bp, "save_policy", save)
    snapshots = [
        Snapshot(update, score, PerLearner(f"b{update}", f"r{update}"))
        for update, score in ((1, 0.5), (2, 1.5), (3, 4.0))
    ]
    bp._keep_pair(tmp_path, PAIRS, ((0.0,) * len(EVENTS), 0.5), snapshots)
    steps = 64 * 16
    assert saved == [
        ("biased", "b3", 3 * steps, 4.0),
        ("response", "r3", 3 * steps, 4.0),
        ("mid/biased", "b2", 2 * steps, 1.5),
        ("mid/response", "r2", 2 * steps, 1.5),
    ]
    record = json.loads((tmp_path / "pair.json").read_text())
    assert (record["score"], record["mid_score"], record["mid_steps"]) == (4.0, 1.5, 2 * steps)
    assert record["curve"] == [[steps, 0.5], [2 * steps, 1.5], [3 * steps, 4.0]]


def test_response_holds_one_random_seat() -> None:
    config = dataclasses.replace(PAIRS, game=TINY_3P, num_minibatches=3)
    pair = make_pair(config)
    assert (pair.response.learner_fraction, pair.biased.learner_fraction) == (
        1 / 3,
        pytest.approx(2 / 3),
    )
    keys = jax.random.split(jax.random.key(0), 200)
    for ppo, seats in ((pair.response, 1), (pair.biased, 2)):
        draw = jax.jit(jax.vmap(lambda key, p=ppo: p.sample_episode(key, jnp.zeros(())).is_learner))
        learns = np.asarray(draw(keys))
        assert (learns.sum(axis=1) == seats).all() and np.ptp(learns.mean(axis=0)) < 0.15


def test_indivisible_blocks_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = make_pair(PAIRS)
    monkeypatch.setattr(parallel, "num_devices", lambda: 3)
    with pytest.raises(ValueError, match=r"num_shuffle_blocks=\d+ must be divisible by devices=3"):
        pair.compile_update()


def test_reward_text_and_invalid_rewards() -> None:
    weights = [0.0] * len(EVENTS)
    weights[EVENTS.index("hint_color")] = 0.5
    weights[EVENTS.index("play_blind")] = -1.0
    assert describe(tuple(weights), 0.5, EVENTS) == "0.5 r + 0.5 hint_color - 1 play_blind"
    with pytest.raises(ValueError, match="--score-weights: expected at least one weight, got none"):
        BehaviourPreferringConfig(score_weights=())
    with pytest.raises(ValueError, match=r"start_states: expected \(\), .* got .'games'"):
        BehaviourPreferringConfig(start_states=("games",))
    with pytest.raises(ValueError, match="--multi-host: expected one host"):
        BehaviourPreferringConfig(multi_host=True)
    with pytest.raises(ValueError, match="report_policy: expected 'best', .* got 'final'"):
        BehaviourPreferringConfig(report_policy="final")


@pytest.mark.slow
def test_three_player_pair_is_scored_per_seat(tmp_path: Path) -> None:
    """The response alone among copies of the biased partner, at every seat."""
    config = dataclasses.replace(PAIRS, game=TINY_3P, num_pairs=1, run_dir=str(tmp_path / "pairs"))
    summary = run("behaviour_preferring", config)
    found = read_partners(tmp_path / "pairs" / "candidates.json")
    assert (summary["num_players"], found.players) == (3, 3)
    (partner,) = found.partners
    response, biased = (load_policy(name) for name in (partner.best_response, partner.agent))
    played = evaluate_pair(response, biased, PAIRS.eval_games, PAIRS.seed, purpose="selection")
    assert summary["pair_score_mean"] == pytest.approx(played.summary.mean.mean)
