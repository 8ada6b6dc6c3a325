"""Public functions: the same numbers as direct play, typed results, errors."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.policies import network_policy
from support.runs import read_lines

import hanabi_rl
from hanabi_rl import (
    Bot,
    Rules,
    StopTraining,
    TrainingEvaluation,
    cross_play,
    evaluate,
    gauntlet,
    load_policy,
    play_games,
    train,
)
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.evaluation.measure import gauntlet as of_gauntlet
from hanabi_rl.games.overcooked.overcooked import Overcooked
from hanabi_rl.play.decks import evaluation_decks
from hanabi_rl.play.game_episodes import play_episodes
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.storage.files import read_json

RULES = Rules(num_players=2, num_colors=2, num_ranks=3, hand_size=2, max_life_tokens=2)


class First(Bot):
    """Plays its lowest or highest legal action."""

    last: bool = False

    def init_carry(self, batch: int) -> tuple[()]:
        return ()

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        order = jnp.arange(legal.shape[1], dtype=jnp.float32) * (1.0 if self.last else -1.0)
        return carry, jnp.where(legal, order, -1e10)


class Listed:
    """Plain Python: the legal action in the middle."""

    def act(self, view: dict[str, Any]) -> int:
        return view["legal"][len(view["legal"]) // 2]["action"]  # type: ignore[no-any-return]


def test_evaluate_plays_the_report_decks_of_the_seed() -> None:
    found = evaluate(First(RULES), games=16, seed=3)
    games = play_games((First(RULES),) * 2, RULES, evaluation_decks(RULES, 16, 3))
    np.testing.assert_array_equal(found.games.actions, games.actions)
    assert found.mean.mean == games.scores.mean()
    assert found.mean.low <= found.mean.mean <= found.mean.high
    assert found.name == "First" and "First" in str(found) == found.table()


def test_cross_play_means_are_over_seats(tmp_path: Path) -> None:
    agents = [First(RULES), First(RULES, last=True), Listed]
    found = cross_play(agents, games=8, seed=1, cache=tmp_path)
    assert found.names == ["First", "First 2", "Listed"]
    assert found.means.shape == (3, 3) and found.intervals.shape == (3, 3, 2)
    decks = evaluation_decks(RULES, 8, 1)
    for i, j in itertools.combinations(range(2), 2):
        seats = [
            play_games((agents[i], agents[j]), RULES, decks, 1, seating=seating).scores
            for seating in ([0, 1], [1, 0])
        ]
        assert found.means[i, j] == found.means[j, i] == np.mean(seats)
    assert (found.intervals[..., 0] <= found.means).all()
    assert "Listed" in found.table() and len(list(tmp_path.glob("*.npz"))) == 6
    found.save(tmp_path / "out")
    assert (tmp_path / "out/matrix.json").exists()
    again = cross_play(agents[:2], games=8, seed=1, cache=tmp_path)
    assert again.means.tolist() == found.means[:2, :2].tolist()


def test_agents_have_the_given_names_or_those_of_their_runs(tmp_path: Path) -> None:
    policy = First(RULES)
    named = cross_play({"low": policy, "high": First(RULES, last=True)}, games=4)
    assert named.names == ["low", "high"] and "high" in named.table()
    listed = cross_play([policy, First(RULES, last=True)], games=4)
    assert named.means.tolist() == listed.means.tolist()
    runs = [train(Fake(), None, game=RULES, run_dir=tmp_path / name) for name in "ab"]
    runs[1] = dataclasses.replace(runs[1], policy=network_policy(RULES, 5))
    assert cross_play([*runs, policy], games=4).names == ["a", "b", "First"]
    found = evaluate(runs[1], games=4)
    assert found.name == "b" and found.mean == evaluate(runs[1].policy, games=4).mean
    with pytest.raises(ValueError, match="the same one as a and as b"):
        cross_play({"a": policy, "b": policy}, games=4)


def test_gauntlet_knows_the_partners_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(Fake(), None, game=RULES, run_dir=tmp_path / "a")
    asked: list[str] = []
    monkeypatch.setattr("hanabi_rl.api.training_partners", lambda name: asked.append(name) or ())
    partner = of_gauntlet.GauntletPartner("x", "x", First(RULES))
    monkeypatch.setattr(of_gauntlet, "gauntlet_partners", lambda *_: [partner])
    assert gauntlet(run, games=2, series=1).name == "a" and asked == [str(tmp_path / "a")]


def test_names_and_objects_play_one_game() -> None:
    found = cross_play([First(RULES), "bot:random"], games=4)
    assert found.names == ["First", "bot:random"] and found.matrix.rules == RULES
    with pytest.raises(TypeError, match="expected a list of agents, got 'bot:random'"):
        cross_play("bot:random")
    with pytest.raises(TypeError, match="expected a hanabi_rl.Bot, .* got int 3"):
        evaluate(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the same one as First and as First 2"):
        cross_play([First(RULES), First(RULES)], games=4)


def test_game_of_agents_that_play_any_game() -> None:
    short = Overcooked("cramped_room", horizon=30)
    found = evaluate("bot:errand", games=3, seed=2, game=short)
    errand = load_policy("bot:errand", short)
    played = play_episodes((errand, errand), 3, 2)
    np.testing.assert_array_equal(found.games.actions, played.actions)
    with_random = cross_play(["bot:errand", "bot:random"], games=2, game=short)
    assert with_random.matrix.rules == short and with_random.names == ["bot:errand", "bot:random"]
    again = evaluate(errand, games=3, seed=2, game=short)
    np.testing.assert_array_equal(again.games.actions, played.actions)
    assert cross_play([errand], games=2, game="overcooked").matrix.rules == short
    for agent in (errand, First(RULES)):
        with pytest.raises(ValueError, match="expected an agent of .*(ring|overcooked)"):
            evaluate(agent, games=3, game="overcooked:coordination_ring")
    for name in ("hanabi", None):
        of_three = cross_play([First], games=2, players=3, game=name)
        assert of_three.matrix.rules == Rules(num_players=3)
    for agent, game in ((First, "hanabi?num_players=3"), (First(RULES), None)):
        with pytest.raises(ValueError, match="players: expected [23] in this game, got 4"):
            evaluate(agent, games=3, players=4, game=game)


def test_gauntlet_averages_families(monkeypatch: pytest.MonkeyPatch) -> None:
    partners = [
        of_gauntlet.GauntletPartner(str(n), family, First(RULES, last=bool(n % 2)))
        for n, family in enumerate(("a", "a", "b"))
    ]
    monkeypatch.setattr(of_gauntlet, "gauntlet_partners", lambda *_: partners)
    found = gauntlet(First(RULES), games=4, seed=2, series=2)
    means = {name: interval.mean for name, interval in found.partners.items()}
    assert [*means] == ["0", "1", "2"] and [*found.families] == ["a", "b"]
    assert found.families["a"].mean == pytest.approx((means["0"] + means["1"]) / 2)
    assert found.mean == pytest.approx((found.families["a"].mean + means["2"]) / 2)
    assert found.worst == min(interval.mean for interval in found.families.values())
    assert found.name == "First" and "families unseen" in found.table()
    with pytest.raises(ValueError, match="games: expected a multiple of series=5, got 7"):
        gauntlet(First(RULES), games=7)


def save(folder: Path, seed: int) -> None:
    save_policy(folder, network_policy(RULES, seed), algorithm="fake", steps=0, score=None)


@dataclasses.dataclass(frozen=True)
class FakeConfig(RunConfig):
    """Config of an algorithm that trains nothing."""

    lr: float = 0.5
    report_policy: str = "best"


class Fake(Algorithm):
    config = FakeConfig
    name = "fake"  # type: ignore[assignment]

    def run(self, config: FakeConfig) -> dict[str, Any]:
        if config.lr > 1:
            raise ValueError("lr: too high")
        self.game = config.game
        for number, folder in enumerate(("policy", "policy-latest")):
            save(Path(config.run_dir or "") / folder, number)
        return {"lr": config.lr, "seed": config.seed}


def test_train_returns_the_reported_policy(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    run = train(Fake(), preset=None, game=RULES, lr=0.25, seed=7)
    assert run.summary == {"lr": 0.25, "seed": 7}
    assert run.run_dir.parent == Path("runs") and run.run_dir.name.startswith("fake-2p-default-s7-")
    assert run.policy.identity() == network_policy(RULES, 0).identity()
    last = train(Fake(), None, game=RULES, report_policy="final", run_dir=tmp_path / "x")
    assert last.run_dir == tmp_path / "x"
    assert last.policy.identity() == network_policy(RULES, 1).identity()
    fake = Fake()
    train(fake, None, game="overcooked:forced_coordination", run_dir=tmp_path / "y")
    assert fake.game == Overcooked(kitchen="forced_coordination")
    with pytest.raises(ValueError, match="lr: too high"):
        train(Fake(), None, lr=2.0)
    assert len(list((tmp_path / "runs").iterdir())) == 1  # no folder of a failed start
    (tmp_path / "mine").mkdir()
    for place in ("mine", "mine/deep/er", "mine/x"):
        with pytest.raises(ValueError, match="lr: too high"):
            train(Fake(), None, lr=2.0, run_dir=tmp_path / place)
    assert [*(tmp_path / "mine").iterdir()] == []  # the user's own folder stays
    with pytest.raises(ValueError, match="expected"):  # fails with the folder locked
        train("best_response", "small", partners=("bot:nobody",), run_dir=tmp_path / "z")
    assert not (tmp_path / "z").exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: train("ipo"), "did you mean ippo"),
        (lambda: train("ippo", "quik"), "did you mean quick"),
        (lambda: train(Fake()), "presets of fake: none"),
        (lambda: train("ippo", total_step=3), "train: unknown field 'total_step'.*total_steps?"),
        (lambda: train("ippo", seeds=(1, 2), seed=1), "expected seeds without seed, got both"),
        (lambda: train("ippo", seeds=(1, 1)), "expected different seeds, got 1 twice"),
        (lambda: train("ippo", resume=True), "resume: expected the run's folder in run_dir, got n"),
        (lambda: train("ippo", lr="x"), "train.lr: expected float, got 'x'"),
        (lambda: load_policy("agent:hgrup-2p"), "did you mean hgroup-2p"),
        (lambda: load_policy("hgroup-2p"), "did you mean agent:hgroup-2p"),
        (lambda: load_policy("bot:igi"), "did you mean bot:iggi"),
        (lambda: load_policy("bot:iggi?smothing=1"), "did you mean smoothing"),
    ],
)
def test_unknown_names_suggest_similar_ones(call: Any, message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        call()


def test_preset_of_another_algorithm(tmp_path: Path) -> None:
    class Small(Fake):
        def run(self, config: Any) -> dict[str, Any]:
            save(Path(config.run_dir) / "policy", 0)
            return {"colors": config.game.num_colors, "preset": config.preset}

        config = hanabi_rl.IPPOConfig  # type: ignore[assignment]

    small = load_small()
    found = train(Small(), "ippo/small", run_dir=tmp_path / "run").summary
    assert found == {"colors": small.game.num_colors, "preset": "small"}


def load_small() -> Any:
    from hanabi_rl.launch.presets import preset_config

    return preset_config("ippo", "small")


def test_game_as_text_changes_the_game_of_the_preset() -> None:
    """Eight colours are too many for five ranks, not for the preset's one rank."""
    with pytest.raises(ValueError, match="lr: expected .*, got 'fast'"):
        train("other_play", "one-rank", game="hanabi?num_colors=8", lr="fast")
    with pytest.raises(ValueError, match="num_colors=8 and num_ranks=5"):
        train("ippo", game="hanabi?num_colors=8", lr="fast")


def test_train_runs_an_algorithm_and_a_callback_stops_it(tmp_path: Path) -> None:
    """Stopped after 1 of 3 updates and resumed, it equals the run that was never stopped."""
    fields: dict[str, Any] = {
        "total_steps": 3 * 256, "num_envs": 32, "num_steps": 8, "num_minibatches": 2,
        "eval_games": 8, "report_games": 8, "tensorboard": False, "eval_every": 1,
    }  # fmt: skip
    whole = train("ippo", "small", run_dir=tmp_path / "whole", **fields)
    assert whole.policy.identity() == load_policy(tmp_path / "whole").identity()
    assert whole.summary["eval_games"] == 8 == evaluate(whole.policy, 8).games.scores.size
    assert jax.tree.leaves(whole.policy)

    seen: list[TrainingEvaluation] = []

    def stop(found: TrainingEvaluation) -> None:
        seen.append(found)
        assert math.isfinite(found.metrics["selfplay_mean"])
        if found.steps:
            raise StopTraining

    run = train("ippo", "small", callbacks=[stop], run_dir=tmp_path / "a", **fields)
    assert [found.steps for found in seen] == [0, 256] and seen[1].total_steps == 768
    assert {*seen[1].metrics, "step", "wall_s"} == {*read_lines(run.run_dir)[1]}
    assert run.summary["env_steps"] == 256 and (run.run_dir / "learning-curve.png").exists()
    assert run.summary["selfplay_mean"] == evaluate(run.policy, 8).mean.mean
    with pytest.raises(ValueError, match="lr: the run has .*, got 0.5"):
        train("ippo", resume=True, run_dir=run.run_dir, lr=0.5)
    resumed = train("ippo", resume=True, run_dir=run.run_dir)
    assert resumed.policy.identity() == whole.policy.identity()
    for folder in ("policy", "policy-latest"):
        found, expected = (load_policy(one.run_dir / folder) for one in (run, whole))
        assert found.identity() == expected.identity()
    assert read_json(run.run_dir / "summary.json")["env_steps"] == 768
