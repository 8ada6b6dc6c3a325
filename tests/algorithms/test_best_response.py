"""Best responses: partners, learning, and the report of a run."""

import dataclasses
import json
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import init_params
from support.games import TINY, TINY_3P
from support.policies import network_policy

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import save_policy
from hanabi_rl.algorithms.best_response import (
    ALGORITHM,
    BestResponseConfig,
    infer_rules_from_partners,
    partner_prob_at,
)
from hanabi_rl.algorithms.ppo_runner import named_input_hashes
from hanabi_rl.algorithms.registry import run
from hanabi_rl.algorithms.training_partners import Lineup, load_population
from hanabi_rl.evaluation.measure.crossplay import evaluate_pair
from hanabi_rl.learning import parallel
from hanabi_rl.learning.partner_population import stack_policies
from hanabi_rl.learning.prioritized_partners import PrioritizedPartnerPPO
from hanabi_rl.learning.rollout import TrainContext
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.runs.run_dir import write_input_hashes

SMALL = NetworkConfig(
    embedding=(32,),
    lstm=(),
    decoder=(32,),
    critic=(32,),
    activation="relu",
    layer_norm=False,
    dropout=0.0,
)
FIELDS = {
    "num_envs": 64,
    "num_steps": 32,
    "epochs": 4,
    "num_minibatches": 4,
    "lr": 3e-3,
    "eval_every": 15,
    "eval_games": 500,
    "save_every": 100,
    "report_games": 500,
    "tensorboard": False,
    "game": TINY,
    "network": SMALL,
}


@pytest.mark.slow
def test_best_response_exploits_flawed_bot(
    tmp_path: Path,
) -> None:
    """`bot:flawed` plays with probability 1/4 and scores 0.00 with itself: a best response gives it
    no opportunity."""
    bot = load_policy("bot:flawed", TINY)
    config = BestResponseConfig(
        **FIELDS, partners=("bot:flawed",), total_steps=60 * 64 * 32, run_dir=str(tmp_path / "br")
    )
    summary = run("best_response", config)
    alone = evaluate_pair(bot, bot, 500).summary.mean.mean
    policy = load_policy(tmp_path / "br")
    found = evaluate_pair(policy, bot, 500, config.seed).summary.mean.mean
    assert summary["with_partners"]["bot:flawed"]["mean"] == pytest.approx(found)
    assert summary["crossplay_with_partners_mean"] == pytest.approx(found)
    assert found > alone + 1.0
    stored = json.loads((tmp_path / "br" / "summary.json").read_text())
    assert stored["with_partners"]["bot:flawed"]["mean"] == pytest.approx(found)


def test_learner_holds_one_seat_with_partners(
    tmp_path: Path,
) -> None:
    for seed in (0, 1):
        policy = network_policy(TINY, seed=seed)
        save_policy(tmp_path / str(seed), policy, algorithm="ippo", steps=seed, score=None)
    names = tuple(str(tmp_path / str(seed)) for seed in (0, 1))
    config = BestResponseConfig(game=TINY, network=SMALL, partners=names)
    plan = ALGORITHM.training(config, None)
    keys = jax.random.split(jax.random.key(0), 200)
    draw = jax.jit(jax.vmap(lambda key: plan.ppo.sample_episode(key, jnp.zeros(())).is_learner))
    learns = np.asarray(draw(keys))
    assert (learns.sum(axis=1) == 1).all() and 0.35 < learns[:, 0].mean() < 0.65
    first = jax.tree.leaves(load_policy(names[0]).params)[0]
    stacked = jax.tree.leaves(plan.partners.stacks[0].params)[0]  # type: ignore[union-attr]
    np.testing.assert_array_equal(stacked[0], first)
    assert plan.partners.size == 2  # type: ignore[union-attr]


def test_training_can_begin_in_self_play(capsys: pytest.CaptureFixture[str]) -> None:
    """Two players: a partner holds the other seat with partner_prob times the annealing factor."""
    partners = {"partners": ("bot:random",), "partner_prob": 0.8}
    config = BestResponseConfig(
        game=TINY, network=SMALL, anneal_start=100, anneal_end=300, **partners
    )
    ppo = ALGORITHM.training(config, None).ppo
    assert ppo.learner_fraction == 1.0  # in self-play no decision is omitted
    assert "No partner" not in capsys.readouterr().err
    short = dataclasses.replace(config, total_steps=config.num_envs * config.num_steps)
    ALGORITHM.training(dataclasses.replace(short, anneal_start=10**6, anneal_end=10**6), None)
    assert "No partner takes a seat: self-play until" in capsys.readouterr().err
    keys = jax.random.split(jax.random.key(0), 4000)
    draw = jax.jit(jax.vmap(lambda k, t: ppo.sample_episode(k, t).is_learner, in_axes=(0, None)))
    for timesteps, prob in ((0, 0.0), (100, 0.0), (150, 0.2), (250, 0.6), (300, 0.8), (9e9, 0.8)):
        learns = np.asarray(draw(keys, jnp.float32(timesteps)))
        assert learns.any(axis=1).all()
        assert abs((~learns).sum(axis=1).mean() - prob) < 0.025  # 3 standard deviations
    constant = BestResponseConfig(game=TINY, network=SMALL, **partners)
    assert partner_prob_at(jnp.zeros(()), constant) == jnp.float32(0.8)
    with pytest.raises(ValueError, match="anneal_start, anneal_end: expected 0 <= start <= end"):
        BestResponseConfig(game=TINY, network=SMALL, anneal_start=5, anneal_end=4, **partners)


@pytest.mark.parametrize(
    ("partner_prob", "lineup", "mean"),
    [
        (1.0, "independent", 1 / 3),
        (0.6, "independent", 1 - 0.6 * 2 / 3),
        (0.9, "all-or-none", 1 - 0.9 * 2 / 3),
        (0.9, "some-or-none", 1 - 0.9 / 2),
        (1.0, "some-or-none", 1 / 2),
    ],
)
def test_minibatches_exclude_partner_decisions(
    partner_prob: float, lineup: Lineup, mean: float
) -> None:
    """In a block of environments, at most one block in four has more learner decisions than the
    minibatches read, and then hardly more."""
    for priority in (0.0, 0.5):
        config = BestResponseConfig(
            game=TINY_3P,
            network=SMALL,
            num_envs=128,
            num_minibatches=3,
            partner_prob=partner_prob,
            lineup=lineup,
            priority_exponent=priority,
            partners=("bot:rules?seed=0", "bot:rules?seed=1"),
        )
        ppo = ALGORITHM.training(config, None).ppo
        assert isinstance(ppo, PrioritizedPartnerPPO) == (priority > 0)
        if isinstance(ppo, PrioritizedPartnerPPO):
            assert (ppo.num_env_groups, ppo.beta) == (2, priority)
    draw = jax.jit(jax.vmap(lambda key: ppo.sample_episode(key, jnp.zeros(())).is_learner))
    learns = np.asarray(draw(jax.random.split(jax.random.key(1), 16 * 500)))
    blocks = learns.reshape(500, -1).mean(axis=1)
    assert abs(blocks.mean() - mean) < 0.01
    assert ppo.learner_fraction == pytest.approx(mean + blocks.std(), abs=0.005)
    more = np.maximum(blocks - ppo.learner_fraction, 0.0)
    assert (more > 1e-6).mean() < 0.25 and more.mean() < 0.01


def test_resume_requires_original_partners(tmp_path: Path) -> None:
    """A partner is named by its folder, whose content may change."""
    partner, folder = tmp_path / "partner", tmp_path / "run"
    folder.mkdir()
    save = partial(save_policy, partner, algorithm="ippo", steps=1, score=None)
    save(policy=network_policy(TINY, seed=0))
    names = ("bot:flawed", str(partner))
    config = BestResponseConfig(game=TINY, network=SMALL, partners=names)
    for _ in range(2):
        write_input_hashes(folder, named_input_hashes(config))
    known = json.loads((folder / "input_hashes.json").read_text())
    assert known == {f"--partners {name}": load_policy(name, TINY).identity() for name in names}
    save(policy=network_policy(TINY, seed=1))
    with pytest.raises(
        ValueError, match=f"--partners {partner}: expected the run's original input"
    ):
        ALGORITHM.train(config, folder, ALGORITHM.training(config, None))
    assert json.loads((folder / "input_hashes.json").read_text()) == known


def test_devices_have_environments_for_every_partner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written or compiled."""
    fields = {"game": TINY, "network": SMALL, "partners": ("bot:flawed", "bot:iggi")}
    plan = ALGORITHM.training(BestResponseConfig(**fields), None)
    monkeypatch.setattr(parallel, "num_devices", lambda: 2)
    for sizes, message in [
        (
            {"num_envs": 6, "num_shuffle_blocks": 2},
            "--num-envs: num_envs / devices=3 .* by partners=2",
        ),
        (
            {"num_envs": 12, "num_shuffle_blocks": 3},
            "--num-shuffle-blocks: num_shuffle_blocks=3 .* by devices=2",
        ),
    ]:
        config = BestResponseConfig(**fields, **sizes, num_minibatches=1)
        with pytest.raises(ValueError, match=message):
            ALGORITHM.train(config, tmp_path, plan)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow  # traces a rollout of the standard game
def test_partners_can_have_smaller_features() -> None:
    """`facts` has an empty memory, which still is one row per seat of every environment."""
    network = StructuredConfig(
        features="hint-history", trunk=(16,), head=8, card=(8,), critic=(16,)
    )
    config = BestResponseConfig(
        network=network,
        num_envs=16,
        num_steps=4,
        total_steps=10**6,
        partners=("agent:ippo-2p", "agent:br-bc-2p"),
    )
    plan = ALGORITHM.training(config, None)
    context = TrainContext(partners=plan.partners)
    learner, actors = jax.eval_shape(plan.ppo.init, jax.random.key(0), context)
    (memory,) = jax.tree.leaves(actors.partner_carry)
    assert memory.shape == (16, 2, 2, 5, 0)
    collect = partial(plan.ppo.collector.collect, num_steps=4, timesteps=0)
    key = jax.random.key(1)
    saved, _, _ = jax.eval_shape(collect, learner.params, actors, context, key)
    assert jax.tree.map(jnp.shape, saved) == jax.tree.map(jnp.shape, actors)


@pytest.mark.slow  # compiles for seconds
def test_partner_error_rates_share_one_program() -> None:
    """A partner without errors acts as without the wrapper; without errors there is no wrapper."""
    plain = load_population(["bot:flawed", "bot:piers"], TINY)
    assert [type(policy).__name__ for policy in plain] == ["Flawed", "Piers"]
    erring = ["bot:flawed", "bot:piers", "bot:flawed?noise=0.25"]
    partners = load_population(erring, TINY)
    group, alone = stack_policies(partners).stacks
    assert stack_policies(partners).stack_sizes == (2, 1)
    np.testing.assert_allclose(group.epsilon, [0.0, 0.25])
    np.testing.assert_allclose(alone.epsilon, [0.0])

    seat = (jnp.ones((1, TINY.obs_size)), jnp.ones((1, TINY.num_actions), bool), jnp.array([True]))
    carry = jax.vmap(lambda one: one.init_carry(1))(group)
    _, logits = jax.vmap(lambda one, own: one.step(own, *seat))(group, carry)
    for name, answer in zip(erring[::2], logits, strict=True):
        policy = load_policy(name, TINY)
        _, expected = policy.step(policy.init_carry(1), *seat)
        got, wanted = (jax.nn.softmax(x) for x in (answer, expected))
        np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_partners_set_game_except_bots(tmp_path: Path) -> None:
    save_policy(tmp_path / "p", network_policy(TINY, seed=0), algorithm="ippo", steps=0, score=None)
    of_both = BestResponseConfig(partners=("bot:simple", str(tmp_path / "p")))
    assert infer_rules_from_partners(of_both) == TINY
    assert (
        infer_rules_from_partners(BestResponseConfig(game=TINY, partners=("bot:simple",))) == TINY
    )
    with pytest.raises(ValueError, match="--partners: expected at least one agent, got none"):
        infer_rules_from_partners(BestResponseConfig())
    with pytest.raises(ValueError, match="--partner-prob: expected a number from 0 to 1, got 2"):
        BestResponseConfig(partner_prob=2.0)


@pytest.mark.slow
def test_best_response_starts_from_init_agent(tmp_path: Path) -> None:
    """With a learning rate of 0 it still is that agent at the end."""
    first = NetworkPolicy(init_params(TINY, SMALL, jax.random.key(5)), TINY, SMALL)
    save_policy(tmp_path / "agent", first, algorithm="ippo", steps=0, score=None)
    short = {"num_envs": 8, "num_steps": 2, "total_steps": 16, "num_minibatches": 1, "epochs": 1}
    config = BestResponseConfig(
        **{**FIELDS, **short, "lr": 0.0},
        partners=("bot:flawed",),
        init_from=str(tmp_path / "agent"),
        run_dir=str(tmp_path / "run"),
    )
    run("best_response", config)
    saved = load_policy(tmp_path / "run")
    assert isinstance(saved, NetworkPolicy)
    jax.tree.map(np.testing.assert_array_equal, saved.params, first.params)


def test_init_agent_must_match_network() -> None:
    named = {"partners": ("bot:simple",), "init_from": "agent:adhoc-2p"}
    network = StructuredConfig(features="conventions", profile=True, critic=(16,))
    begins_as = ALGORITHM.training(
        BestResponseConfig(**named, network=network), None
    ).initial_params
    agent = load_policy("agent:adhoc-2p")
    assert isinstance(agent, NetworkPolicy)
    jax.tree.map(np.testing.assert_array_equal, begins_as, agent.params)
    config = BestResponseConfig(**named)
    with pytest.raises(ValueError, match="adhoc-2p: expected the network that is trained"):
        ALGORITHM.training(config, None)


def test_priority_rejects_mixed_partner_structures() -> None:
    config = BestResponseConfig(
        **FIELDS, partners=("bot:flawed", "bot:simple"), priority_exponent=0.5
    )
    with pytest.raises(ValueError, match="expected partners of one kind.* got 2 kinds"):
        ALGORITHM.training(config, None)
