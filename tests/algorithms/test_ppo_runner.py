"""PPO runs: evaluation, logging and saving intervals, schedules after resuming, precision and decks
of partners."""

import dataclasses
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY, teacher_games
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.noisy import EpsilonNoise
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms import ppo_runner, training_partners
from hanabi_rl.algorithms.best_response import BestResponseConfig
from hanabi_rl.algorithms.hdr_ippo import ALGORITHM as HDR_IPPO
from hanabi_rl.algorithms.hdr_ippo import HDRIPPOConfig
from hanabi_rl.algorithms.ippo import ALGORITHM, IPPOConfig
from hanabi_rl.algorithms.obl import OBLConfig
from hanabi_rl.algorithms.ppo_runner import (
    PPOAlgorithm,
    PPOLearner,
    restore_schedules,
    run_schedule,
)
from hanabi_rl.data.files import save_games
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.partner_population import PartnerPopulation, with_precision
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.nn.networks import FEED_FORWARD
from hanabi_rl.runs import trainer
from hanabi_rl.runs.run_dir import write_config
from hanabi_rl.runs.tracking import Tracker, read_metrics
from hanabi_rl.runs.trainer import Trainer
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.files import read_json


def scheduled(config: IPPOConfig, folder: Path) -> PPO:
    return restore_schedules("ippo", ALGORITHM.training(config, None).ppo, config, folder)


def test_longer_resumed_run_keeps_schedule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = IPPOConfig(num_envs=16, num_steps=5, total_steps=320, lr=0.1, lr_schedule="linear")
    write_config(tmp_path, to_dict(config), algorithm="ippo", seed=0)
    longer = dataclasses.replace(config, total_steps=480, resume=True)
    assert scheduled(config, tmp_path).schedule_updates == 4
    assert capsys.readouterr().err == ""
    assert scheduled(longer, tmp_path).schedule_updates == 4
    err = capsys.readouterr().err
    assert "ends with update 4" in err and "the 2 updates after it keep its last rate, 0.025" in err
    cosine = {"lr_schedule": "cosine", "final_lr": 0.02}
    write_config(tmp_path, to_dict(dataclasses.replace(config, **cosine)), algorithm="ippo", seed=0)
    scheduled(dataclasses.replace(longer, **cosine), tmp_path)  # type: ignore[arg-type]
    # 0.02 + 0.08 * (1 + cos(3 pi / 4)) / 2
    assert "the cosine learning rate ends with update 4" in (err := capsys.readouterr().err)
    assert "keep its last rate, 0.0317" in err


def test_constant_rate_resumes_without_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = IPPOConfig(num_envs=16, num_steps=5, total_steps=320, lr_schedule="constant")
    write_config(tmp_path, to_dict(config), algorithm="ippo", seed=0)
    longer = dataclasses.replace(config, total_steps=480, resume=True)
    scheduled(longer, tmp_path)
    assert capsys.readouterr().err == ""


def test_shorter_resumed_run_reports_its_steps(tmp_path: Path) -> None:
    class Plain(PPOAlgorithm):
        def report(self, config: Any, policy: NetworkPolicy, clone: Any) -> dict[str, Any]:
            return {}

    for name in ("policy", "policy-latest"):
        save_policy(
            tmp_path / name, network_policy(TINY, 0), algorithm="ippo", steps=960, score=None
        )
    fewer = IPPOConfig(num_envs=16, num_steps=5, total_steps=320, resume=True)
    summary = Plain().measure(fewer, tmp_path, None, None, 1.0)
    assert summary["env_steps"] == read_json(tmp_path / "summary.json")["env_steps"] == 960


class Learner(NamedTuple):
    update: int
    params: dict[str, str]


class Policy(NamedTuple):
    params: str

    def replace(self, params: str) -> "Policy":
        return Policy(params)


def test_run_follows_its_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seven updates of ten steps, evaluated every third and after the last; scores 9, 2, nan, 5:
    the first, before any update, is never the best."""
    for name in ("replicate", "shard", "unshard", "fetch"):
        monkeypatch.setattr(parallel, name, lambda tree: tree)
    scores = iter([9.0, 2.0, float("nan"), 5.0])
    logged: list[tuple[int, set[str]]] = []
    saved: list[tuple[int, Any, Any]] = []
    kept: list[tuple[str, str, int, float | None]] = []
    reported: list[tuple[int, float, float]] = []

    def save_policy(folder: Path, policy: Any, *, steps: int, score: Any, **_: Any) -> None:
        kept.append((str(folder.relative_to("run")), policy.params, steps, score))

    monkeypatch.setattr(trainer, "save_policy", save_policy)
    tracker: Any = SimpleNamespace(log=lambda step, found: logged.append((step, set(found))))
    checkpoints: Any = SimpleNamespace(
        save=lambda step, state, host_state, metrics: saved.append(
            (step, dict(host_state), metrics)
        )
    )
    config: Any = SimpleNamespace(
        num_updates=7, num_envs=2, num_steps=5, eval_every=3, log_every=2, save_every=4,
        save_evaluated=True,
    )  # fmt: skip
    plan: Any = SimpleNamespace(
        selection_metric="s", progress_metric="extra", temperature=None,
        evaluate=lambda policy, config: {"s": next(scores), "other": 0.0},
    )  # fmt: skip

    def update(learner: Learner, actors: Any, partner: Any) -> Any:
        assert partner is context
        later = Learner(learner.update + 1, {"actor": f"after {learner.update + 1}"})
        return later, actors, {"train_score": 0.5 * later.update, "extra": 10.0 * later.update}

    start: Any = Learner(0, {"actor": "after 0"})
    context: Any = "what is given"
    template: Any = Policy("template")
    stop: Any = SimpleNamespace(exit_code=0)
    progress: Any = SimpleNamespace(
        update=lambda steps, score, extra: reported.append((steps, score, extra))
    )
    schedule = run_schedule(config, plan)
    Trainer(Path("run"), "x", schedule, tracker, stop, checkpoints, steps_per_update=10).run(
        PPOLearner(config, plan, template, update, context), start, "games", progress
    )
    assert [step for step, _ in logged] == [0, 2, 3, 4, 6, 7]
    assert [step for step, found in logged if "s" in found] == [0, 3, 6, 7]
    assert reported == [(10 * step, 0.5 * step, 10.0 * step) for step in range(1, 8)]
    assert [(name, name_of, steps) for name, name_of, steps, _ in kept] == [
        ("policies/0", "after 0", 0),
        ("policies/30", "after 3", 30),
        ("policy", "after 3", 30),
        ("policy-latest", "after 4", 40),
        ("policies/60", "after 6", 60),
        ("policies/70", "after 7", 70),
        ("policy", "after 7", 70),
        ("policy-latest", "after 7", 70),
    ]
    assert [score for name, _, _, score in kept if name == "policy"] == [2.0, 5.0]
    assert [step for step, _, _ in saved] == [4, 7]
    assert [host for _, host, _ in saved] == [{"best_score": 2.0}, {"best_score": 5.0}]
    assert saved[0][2] == {} and saved[1][2] == {"s": 5.0, "other": 0.0}


def test_environment_steps_exceed_32_bits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The last update of the paper's 1e10 steps: metrics, progress, policy folders and their
    steps."""
    for name in ("replicate", "shard", "fetch"):
        monkeypatch.setattr(parallel, name, lambda tree: tree)
    config = IPPOConfig(game=TINY, save_evaluated=True)
    done, steps = config.num_updates, 9_999_876_096
    assert (done, done * config.num_envs * config.num_steps) == (76_293, steps)
    policy, none, reported = network_policy(TINY, 0), None, []
    start: Any = Learner(np.int32(done - 1), {"actor": policy.params})
    plan: Any = SimpleNamespace(
        selection_metric="s", progress_metric=None, temperature=None, evaluate=lambda *_: {"s": 1.0}
    )
    progress: Any = SimpleNamespace(update=lambda steps, score: reported.append(steps))

    def update(learner: Any, actors: Any, context: Any) -> Any:
        return learner, actors, {"train_score": jnp.float32(1)}

    learner = PPOLearner(config, plan, policy, update, none)
    stop: Any = SimpleNamespace(exit_code=0)
    with Tracker(tmp_path) as tracker:
        Trainer(
            tmp_path,
            "ippo",
            dataclasses.replace(run_schedule(config, plan), save_latest=False),
            tracker,
            stop,
            steps_per_update=config.num_envs * config.num_steps,
            done=done - 1,
        ).run(learner, start, none, progress)
    assert read_metrics(tmp_path / "metrics.jsonl")[0]["env_steps"] == reported[0] == steps
    for name in ("policy", f"policies/{steps}"):
        kept = load_policy(tmp_path / name)
        assert isinstance(kept, NetworkPolicy) and kept.info.steps == steps


def test_resumed_run_keeps_best_score(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("replicate", "shard", "unshard", "fetch"):
        monkeypatch.setattr(parallel, name, lambda tree: tree)
    state = Learner(5, {"actor": "after 5"}), "games"
    kept: list[float] = []
    monkeypatch.setattr(trainer, "save_policy", lambda *_, score, **__: kept.append(score))
    restored: Any = SimpleNamespace(step=5, state=state, host_state={"best_score": 3.0})
    scores = iter([2.0, 3.0, 3.5])
    plan: Any = SimpleNamespace(
        selection_metric="s", progress_metric=None, temperature=None,
        evaluate=lambda *_: {"s": next(scores)},
    )  # fmt: skip
    config: Any = SimpleNamespace(
        num_updates=8, num_envs=2, num_steps=5, eval_every=1, log_every=1, save_every=8,
        save_evaluated=False,
    )  # fmt: skip
    states: list[Any] = []

    def update(learner: Any, actors: Any, context: None) -> Any:
        states.append((learner, actors))
        return learner, actors, {"train_score": 0.0}

    none: Any = None
    ignored: Any = SimpleNamespace(log=lambda *_: None, update=lambda *_, **__: None, exit_code=0)
    schedule = dataclasses.replace(run_schedule(config, plan), save_latest=False)
    Trainer(Path("run"), "x", schedule, ignored, ignored, restored=restored).run(
        PPOLearner(config, plan, Policy(""), update, none),  # type: ignore[arg-type]
        none,
        "initial games",
        ignored,
    )
    assert states == [state] * 3
    assert kept == [3.5]


def test_partners_play_at_run_precision() -> None:
    network = NetworkPolicy(params={}, rules=Rules(), network=FEED_FORWARD)
    assert network.precision == "float32"
    group = PartnerPopulation(
        stacks=(network, EpsilonNoise(network, epsilon=0.1), "a bot"), stack_sizes=(1, 1, 1)
    )
    plain, wrapped, bot = with_precision(group, "bfloat16").stacks
    assert (plain.precision, wrapped.policy.precision, bot) == ("bfloat16", "bfloat16", "a bot")
    assert wrapped.epsilon == 0.1 and with_precision(None, "bfloat16") is None


def test_partners_share_evaluation_decks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def partner(one: Any, others: Any, decks: int, seed: int, purpose: str) -> Any:
        calls.append((one, tuple(others), decks, seed, purpose))
        scores = np.arange(len(others))[:, None, None] + np.array([[0, 1], [1, 2]])  # seats, decks
        return scores, scores

    monkeypatch.setattr(training_partners, "evaluate_with_partners", partner)
    monkeypatch.setattr(
        training_partners, "selfplay_metrics", lambda policy, config: {"selfplay_mean": 7.0}
    )
    config: Any = SimpleNamespace(eval_games=10, seed=4)
    policy: Any = "policy"
    found = training_partners.partner_metrics(("a", "b", "c"))(policy, config)  # type: ignore[arg-type]
    assert calls == [("policy", ("a", "b", "c"), 3, 4, "selection")]
    assert found == {"selfplay_mean": 7.0, training_partners.PARTNER_SCORE_KEY: 2.0}
    assert training_partners.score_with_partners(policy, list("abcdefghijkl"), config) == [
        *range(1, 13)
    ]  # type: ignore[arg-type]
    assert calls[-1][2] == 1


class Enough(Exception):  # noqa: N818 - no error
    pass


def test_run_uses_seed_and_precision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = IPPOConfig(total_steps=3 * 1024 * 128, seed=9, precision="bfloat16")
    write_config(tmp_path, to_dict(config), algorithm="ippo", seed=9)
    partner = NetworkPolicy(params={}, rules=Rules(), network=FEED_FORWARD)
    calls: list[Any] = []

    def init(*context: Any) -> None:
        calls.append(context)
        raise Enough

    monkeypatch.setattr(PPO, "init", init)
    monkeypatch.setattr(ppo_runner, "quick_jit", lambda function: function)
    plan = dataclasses.replace(
        ALGORITHM.training(config, None),
        reference=partner,
        initial_params=partner.params,
        partners=EpsilonNoise(partner),
    )
    with pytest.raises(Enough):
        ALGORITHM.train(config, tmp_path, plan)
    ((ppo, key, context, actor),) = calls
    assert ppo == dataclasses.replace(plan.ppo, schedule_updates=3)
    assert (jax.random.key_data(key) == jax.random.key_data(jax.random.key(9))).all()
    assert context.reference.precision == context.partners.policy.precision == "bfloat16"
    assert actor is partner.params and context.start_states is None
    plan = dataclasses.replace(plan, initial_params=None)
    with pytest.raises(Enough):
        ALGORITHM.train(config, tmp_path, plan)
    assert calls[1][3] is None and calls[1][2].reference.rules == Rules()  # only the reference


def test_setup_checks_reference_and_initial_params(tmp_path: Path) -> None:
    config = IPPOConfig(game=TINY, num_envs=16, num_steps=4, total_steps=64)
    write_config(tmp_path, to_dict(config), algorithm="ippo", seed=0)
    plan = ALGORITHM.training(config, None)
    policy = network_policy(TINY, 0)  # another network than the config's
    of_plan = partial(dataclasses.replace, plan)
    check, begins = ppo_runner.check_setup, ppo_runner.begins_as_reference
    assert begins(of_plan(reference=policy, initial_params=policy.params))
    assert not begins(of_plan(reference=policy))
    assert not begins(of_plan(initial_params=policy.params))
    with pytest.raises(ValueError, match=r"reference: expected a policy, such as .* got str 'agen"):
        check(of_plan(reference="agent:clone-2p"))
    with pytest.raises(ValueError, match="reference: expected a policy for 2 colours.*game of the"):
        check(of_plan(reference=network_policy(Rules(), 0)))
    with pytest.raises(
        ValueError, match=r"expected parameters, .*NAME\).params, got NetworkPolicy"
    ):
        check(of_plan(initial_params=policy))
    wrong = (
        r"initial_params: expected an actor of NetworkConfig\(embedding=\(512,\).*: the initial "
    )
    leaf = r"actor: leaf decoder_0/bias: expected float32\[512\], stored float32\[\d+\]"
    with pytest.raises(ValueError, match=wrong + leaf):
        ALGORITHM.train(config, tmp_path, of_plan(initial_params=policy.params))
    of_hdr = HDR_IPPO.training(HDRIPPOConfig(game=TINY), policy)
    assert of_hdr.reference is policy and begins(of_hdr)
    missing = "leaf decoder_0/bias .* is missing"
    with pytest.raises(ValueError, match=wrong + f"actor: {missing}"):
        ALGORITHM.train(config, tmp_path, of_plan(initial_params={"actor": policy.params}))


def test_start_states_config(tmp_path: Path) -> None:
    """For a game of n moves, the positions before its first n - 3 moves."""
    assert ppo_runner.load_start_states(IPPOConfig()) is None
    games, names = [teacher_games(TINY, 2, seed) for seed in (0, 1)], []
    for number, some in enumerate(games):
        names.append(str(tmp_path / f"{number}.safetensors"))
        save_games(Path(names[-1]), some)
    config = IPPOConfig(game=TINY, start_states=tuple(names), start_state_prob=0.125)
    starts = ppo_runner.load_start_states(config)
    assert starts is not None and float(starts.prob) == 0.125
    expected = sum(int(n) - 3 for some in games for n in some.num_actions)
    assert starts.states.counters.shape == (expected,)


def test_input_hashes_detect_changed_inputs(tmp_path: Path) -> None:
    """Other games, or another previous level, under the same name."""
    place = tmp_path / "games.safetensors"
    config = OBLConfig(game=TINY, previous_level=str(tmp_path / "below"))
    begins = IPPOConfig(game=TINY, start_states=(str(place),))
    found = []
    for seed in (0, 1, 0):
        policy = network_policy(TINY, seed=seed)
        save_policy(tmp_path / "below", policy, algorithm="obl", steps=0, score=None)
        save_games(place, teacher_games(TINY, 2, seed))
        starts = ppo_runner.load_start_states(begins)
        below, states = (
            ppo_runner.named_input_hashes(config),
            ppo_runner.named_input_hashes(begins, starts),
        )
        assert below == {f"--previous-level {tmp_path / 'below'}": policy.identity()}
        first_as = BestResponseConfig(
            game=TINY, init_from=config.previous_level, partners=("bot:iggi",)
        )
        assert ppo_runner.named_input_hashes(first_as) == {
            "--partners bot:iggi": load_policy("bot:iggi", TINY).identity(),
            f"--init-from {tmp_path / 'below'}": policy.identity(),
        }
        assert list(states) == [f"--start-states {place}"]
        found.append((*below.values(), *states.values()))
    first, other, again = found
    assert first == again and not set(first) & set(other)
    assert ppo_runner.named_input_hashes(IPPOConfig()) == {}


def test_own_input_files_are_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published SHA-256 of "" and "abc" (FIPS 180-2, appendix B.1)."""

    @dataclasses.dataclass(frozen=True)
    class OwnConfig(IPPOConfig):
        prior: str | None = None
        prior_games: tuple[str, ...] = ()
        input_files = ("prior", "prior_games")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "abc").write_text("abc")
    (tmp_path / "empty").write_text("")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert ppo_runner.named_input_hashes(OwnConfig()) == {}
    config = OwnConfig(prior="abc", prior_games=("empty", "abc"))
    found = ppo_runner.named_input_hashes(config)
    assert found == {"--prior abc": abc, "--prior-games empty": empty, "--prior-games abc": abc}
    ppo_runner.record_inputs(config, tmp_path, None)
    (tmp_path / "empty").write_text("more")
    with pytest.raises(ValueError, match=f"--prior-games empty: .*original input .*{empty}"):
        ppo_runner.record_inputs(config, tmp_path, None)


def test_selection_uses_run_decks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def selfplay(*context: Any, purpose: str) -> Any:
        calls.append((*context, purpose))
        mean, points = SimpleNamespace(mean=1.0), SimpleNamespace(mean=2.0)
        return SimpleNamespace(summary=SimpleNamespace(mean=mean, points_mean=points.mean))

    monkeypatch.setattr(ppo_runner, "evaluate_selfplay", selfplay)
    config: Any = SimpleNamespace(eval_games=10, seed=4)
    policy: Any = "policy"
    found = ppo_runner.selfplay_metrics(policy, config)
    assert found == {"selfplay_mean": 1.0, "selfplay_points": 2.0}
    assert calls == [("policy", 10, 4, "selection")]
