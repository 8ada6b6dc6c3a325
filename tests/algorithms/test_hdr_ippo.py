"""HDR-IPPO: initial clone, loss, and the effect of the KL weight."""

import dataclasses
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import ask
from support.games import TINY_3P
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.bc import game_input_hashes, training_games
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.clone import load_or_train_clone, validation_games
from hanabi_rl.algorithms.hdr_ippo import ALGORITHM, HDRIPPOConfig, hdr_ippo
from hanabi_rl.algorithms.training_partners import load_partners
from hanabi_rl.data.files import load_games
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import losses
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.learning.partner_population import PartnerPopulation
from hanabi_rl.learning.rollout import self_play
from hanabi_rl.runs.config import saved_config


def perturbed(small: Any) -> Any:
    """The learner with noise on its actor's head: far enough from the clone to have a KL."""
    rng = np.random.default_rng(0)
    actor = small.learner.params["actor"]
    noisy = {
        name: jax.tree.map(
            lambda x: x + rng.normal(scale=0.8, size=x.shape).astype(np.float32), layer
        )
        for name, layer in actor.items()
        if name in ("decoder_0", "logits")
    }
    return small.learner.replace(params={**small.learner.params, "actor": {**actor, **noisy}})


def kl_curve(small: Any, kl_weight: float, updates: int) -> np.ndarray:
    learner, actors, curve = perturbed(small), small.actors, []
    for _ in range(updates):
        learner, actors, metrics = small.update(learner, actors, kl_weight)
        curve.append(metrics["kl_to_bc"])
    return np.asarray(curve)


@pytest.fixture(scope="module")
def curves(small: Any) -> dict[float, np.ndarray]:
    """Mean KL per decision of each of 20 updates, from the same perturbed actor."""
    return {weight: kl_curve(small, weight, 20) for weight in (0.05, 0.5, 1.0)}


def test_too_few_report_games_fail_early() -> None:
    with pytest.raises(ValueError, match="--report-games: expected a whole number from 1,000"):
        HDRIPPOConfig(report_games=999)
    assert HDRIPPOConfig(report_games=1000).report_games == 1000


@pytest.mark.slow  # 60 updates
def test_kl_weight_one_restores_clone(
    curves: dict[float, np.ndarray],
) -> None:
    assert curves[1.0][0] > 0.3
    assert curves[1.0][-5:].mean() <= 0.1 * curves[1.0][0]


@pytest.mark.slow
def test_higher_kl_weight_stays_closer(curves: dict[float, np.ndarray]) -> None:
    final = {weight: curve[-10:].mean() for weight, curve in curves.items()}
    assert final[0.05] > 3 * final[0.5] and final[0.5] > 1.3 * final[1.0]


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_loss_is_weighted_sum_of_terms(small: Any, second_rollout: Any, weight: float) -> None:
    config = small.ppo.config
    _, metrics = small.learn(*second_rollout, weight)
    fraction = metrics["decision_fraction"]  # logged per decision, but in the loss per timestep
    np.testing.assert_allclose(fraction, 0.5, rtol=1e-5)
    value, entropy = (
        config.value_coef * metrics["value_loss"],
        config.entropy_coef * metrics["entropy"] * fraction,
    )
    ippo = metrics["actor_loss"] + value - entropy
    np.testing.assert_allclose(
        metrics["loss"], (1 - weight) * ippo + weight * metrics["kl_to_bc"] * fraction, rtol=1e-5
    )
    assert float(metrics["kl_to_bc"]) > 0 and float(value) > 0 and float(entropy) > 0


def test_kl_weight_falls_with_progress() -> None:
    """From 0.8 to 0.2, linear: 0.65 at a quarter of training. Two decisions of three actions."""
    policy, clone = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), np.full((2, 3), 1 / 3)
    kl = (clone * np.log(clone / policy)).sum(-1)
    config = HDRIPPOConfig(kl_weight=0.8, final_kl_weight=0.2)
    zeros = jnp.zeros(2)
    batch = losses.PPOBatch(
        action=zeros, log_prob=zeros, value=zeros, advantage=zeros, target=zeros,
        actor_weight=jnp.array([0.25, 0.75]), value_weight=zeros,
        reference_logits=jnp.log(clone), progress=jnp.float32(0.25),
    )  # fmt: skip
    ppo = hdr_ippo(config, SimpleNamespace(network=config.bc.network))  # type: ignore[arg-type]
    loss, _ = jax.jit(ppo.objective)(jnp.float32(2.0), jnp.log(policy), batch)
    expected = 0.35 * 2.0 + 0.65 * (0.25 * kl[0] + 0.75 * kl[1])
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_kl_weight_one_freezes_critic(small: Any, second_rollout: Any) -> None:
    """The weight scales the value term too (AH2AC2 eq. 2)."""
    learner = second_rollout.learner.replace(opt_state=small.learner.opt_state)  # no momentum
    after, _ = small.learn(*second_rollout._replace(learner=learner), 1.0)
    unchanged = jax.tree.map(lambda a, b: np.array_equal(a, b), after.params, learner.params)
    assert all(jax.tree.leaves(unchanged["critic"])) and not any(
        jax.tree.leaves(unchanged["actor"])
    )


def test_learner_starts_as_clone(small: Any) -> None:
    """Its actor is the clone's, so on the first rollout both have the same distribution; buffers
    are not shared."""
    actor, clone = small.learner.params["actor"], small.clone.params
    jax.tree.map(np.testing.assert_array_equal, actor, clone)
    experience = small.collect(small.learner, small.actors, small.clone)[1]
    rollout = experience.rollout
    expected = jax.nn.log_softmax(rollout.reference_logits)
    taken = jnp.take_along_axis(expected, rollout.action[..., None], -1)[..., 0]
    np.testing.assert_allclose(rollout.log_prob, taken, atol=1e-5)


def with_partners(folder: Path) -> tuple[HDRIPPOConfig, Any, Any, list[Any]]:
    """A config with two partners, its training setup from a clone, the clone, and the partners."""
    clone, *others = (network_policy(TINY_3P, seed) for seed in range(3))
    names = tuple(str(folder / str(i)) for i in range(2))
    for name, policy in zip(names, others, strict=True):
        save_policy(Path(name), policy, algorithm="bc", steps=1, score=None)
    config = HDRIPPOConfig(game=TINY_3P, eval_games=64, partners=names, partner_prob=0.25)
    return config, ALGORITHM.training(config, clone), clone, others


def test_partners_hold_configured_seat_fraction(tmp_path: Path) -> None:
    _, plan, clone, others = with_partners(tmp_path)
    assert plan.reference is clone and isinstance(plan.partners, PartnerPopulation)
    mine = [jax.tree.map(lambda x, i=i: x[i], plan.partners.stacks[0]) for i in range(2)]
    assert [policy.identity() for policy in mine] == [policy.identity() for policy in others]

    keys = jax.random.split(jax.random.key(0), 20_000)
    draw = jax.jit(jax.vmap(lambda key: plan.ppo.sample_episode(key, jnp.float32(0)).is_learner))
    learns = np.asarray(draw(keys))
    assert learns.any(axis=1).all()  # the learner is in every game
    np.testing.assert_allclose(learns.mean(axis=0), 1 - 0.25 * 2 / 3, atol=0.01)
    blocks = learns[: 128 * 156].reshape(156, -1).mean(axis=1)  # 1,024 environments in 8 blocks
    assert plan.ppo.learner_fraction == pytest.approx(blocks.mean() + blocks.std(), abs=0.005)


@pytest.mark.slow  # compiles three-player games; test_scores.py tests those with several
def test_partner_scores_select_policy(tmp_path: Path) -> None:
    config, plan, _, others = with_partners(tmp_path)
    learner = network_policy(TINY_3P, 9)
    measured = plan.evaluate(learner, config)
    means = [
        evaluate_pair(learner, policy, 32, config.seed, purpose="selection").summary.mean.mean
        for policy in others
    ]
    assert measured[plan.selection_metric] == pytest.approx(np.mean(means))
    assert measured["selfplay_mean"] != pytest.approx(measured[plan.selection_metric])


def test_partner_temperature_divides_logits(tmp_path: Path) -> None:
    policy, name = network_policy(TINY_3P, 0), str(tmp_path / "policy")
    save_policy(Path(name), policy, algorithm="bc", steps=1, score=None)
    plain, surer = load_partners([name, f"{name}?temperature=0.25"], TINY_3P)
    rules = plain.rules
    obs = np.random.default_rng(0).random((8, rules.obs_size)) < 0.5
    seen = (policy.init_carry(8), obs, np.ones((8, rules.num_actions), bool), np.ones(8, bool))
    answers = [np.asarray(ask(agent, *seen)[1]) for agent in (surer, plain)]
    np.testing.assert_allclose(answers[0], 4 * answers[1], rtol=1e-5)


@pytest.mark.parametrize("option", ["safe=0.6,0.1", "colors=1,0"])
def test_partner_with_other_option_is_rejected(tmp_path: Path, option: str) -> None:
    policy, name = network_policy(TINY_3P, 0), str(tmp_path / "policy")
    save_policy(Path(name), policy, algorithm="bc", steps=1, score=None)
    with pytest.raises(ValueError, match="no other option than a temperature"):
        load_partners([f"{name}?{option}"], TINY_3P)


@pytest.mark.parametrize("record", [None, '{"algorithm": "hdr_ippo"}'])
def test_clone_without_bc_run_has_no_validation(tmp_path: Path, record: str | None) -> None:
    if record is not None:
        (tmp_path / "config.json").write_text(record)
    assert validation_games(HDRIPPOConfig(bc_policy=str(tmp_path)), tmp_path / "run") is None


def test_validation_games_default_to_clones(
    bc_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, nowhere = bc_run[0], tmp_path / "run"
    files = json.loads((run / "config.json").read_text())["config"]
    theirs = load_games(files["val"][0])
    for clone in (run, run / "policy-loss"):  # a run of bc, and one of its policies
        found = validation_games(HDRIPPOConfig(bc_policy=str(clone)), nowhere)
        assert found is not None
        np.testing.assert_array_equal(found.actions, theirs.actions)
    fields = HDRIPPOConfig(
        bc_policy="bot:x", bc=BCTrainConfig(val=tuple(files["data"])), game=theirs.rules
    )
    found = validation_games(fields, nowhere)
    assert found is not None and len(found) == 40
    with pytest.raises(ValueError, match="--bc.val: expected games of 5 colours.*, got 2 colours"):
        validation_games(dataclasses.replace(fields, game=Rules()), nowhere)
    twice = dataclasses.replace(fields, bc=dataclasses.replace(fields.bc, val=fields.bc.val * 2))
    with pytest.raises(ValueError, match="duplicate of game"):
        validation_games(twice, nowhere)

    # the clone may have learned from games that another file of that name holds out
    grown = tmp_path / "grown"
    grown.mkdir()
    record = json.loads((run / "config.json").read_text())
    record["config"]["val"] = []
    record["config"]["init_from"] = "who is gone"  # and is not loaded
    (grown / "config.json").write_text(json.dumps(record))
    for name in ("same", "another"):
        saved = saved_config(BCConfig, grown, algorithm="bc")
        clone = dataclasses.replace(saved, init_from=None)
        files_of = game_input_hashes(
            clone, clone.game, training_games(clone, clone.game, clone.seed)
        )
        older_hashes = files_of if name == "same" else dict.fromkeys(files_of, name)
        (grown / "input_hashes.json").write_text(json.dumps(older_hashes))
        found = validation_games(HDRIPPOConfig(bc_policy=str(grown)), nowhere)
        assert (found is not None) == (name == "same")
    assert "No validation figures" in capsys.readouterr().err

    moved = tmp_path / "moved"
    moved.mkdir()
    record = json.loads((run / "config.json").read_text())
    record["config"]["val"] = [str(tmp_path / "gone.safetensors")]
    (moved / "config.json").write_text(json.dumps(record))
    assert validation_games(HDRIPPOConfig(bc_policy=str(moved)), nowhere) is None
    assert "No validation figures" in capsys.readouterr().err


def test_missing_loss_policy_raises(tmp_path: Path, bc_run: Any) -> None:
    """In a run from before `policy-loss` it would be the policy of best self-play."""
    shutil.copytree(bc_run[0], tmp_path / "bc")
    shutil.rmtree(tmp_path / "bc" / "policy-loss")
    config = HDRIPPOConfig(bc_policy=str(tmp_path / "bc"), bc_select="loss")
    with pytest.raises(
        ValueError, match="--bc-select loss: expected .*policy-loss, which .*bc has"
    ):
        load_or_train_clone(config, tmp_path / "run")
    kept = load_or_train_clone(
        dataclasses.replace(config, bc_policy=str(bc_run[0])), tmp_path / "r"
    )
    assert kept.identity() == load_policy(bc_run[0] / "policy-loss").identity()


def test_learner_holds_all_seats_without_partners() -> None:
    plan = ALGORITHM.training(HDRIPPOConfig(game=TINY_3P), network_policy(TINY_3P, 0))
    assert plan.partners is None and plan.selection_metric == "selfplay_mean"
    assert plan.ppo.sample_episode is self_play
