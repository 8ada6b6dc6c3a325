"""Mutations that once passed all other tests: each one fails a test here."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.compiled import legal_actions
from support.games import TINY_3P, random_games
from support.processes import run_python
from support.small_ppo import make_ppo

from hanabi_rl.algorithms import bc_training as bc_run
from hanabi_rl.algorithms import br_bc as br_bc_run
from hanabi_rl.algorithms import ppo_runner, training_partners
from hanabi_rl.data.games import Games
from hanabi_rl.evaluation.measure import clone_comparison, prediction
from hanabi_rl.games.hanabi.hanabi import HanabiEnv
from hanabi_rl.games.hanabi.replay import replay
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import losses, parallel
from hanabi_rl.learning.cloning_games import color_permutations, game_dataset
from hanabi_rl.learning.config import PPOConfig
from hanabi_rl.learning.loader import BatchLoader
from hanabi_rl.learning.observation_views import ObservationView
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.learning.rollout import EMPTY_CONTEXT, Collector, Rollout
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.play.episodes import _sample
from hanabi_rl.runs import trainer


def test_seat_advantages_use_bootstrap_gamma_lambda() -> None:
    """By hand, [T, N, P] at once: A_t = delta_t + gamma lambda A_(t+1), up to the game's end."""
    steps, envs, players, gamma, trace = 7, 3, 2, 0.9, 0.6
    rng = np.random.default_rng(0)
    value, last = rng.normal(size=(steps, envs, players)), rng.normal(size=(envs, players))
    reward, done = rng.normal(size=(steps, envs)), rng.random((steps, envs)) < 0.2
    unread: Any = None
    rollout = Rollout(
        state=unread,
        reset=unread,
        episode=unread,
        action=unread,
        log_prob=unread,
        value=jnp.asarray(value, jnp.float32),
        transition=SimpleNamespace(reward=jnp.asarray(reward, jnp.float32), done=jnp.asarray(done)),
        reference_logits=None,
    )
    ppo: PPO = make_ppo(gamma=gamma, gae_lambda=trace)

    @jax.jit
    def returns(last: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = ppo.returns(rollout, last, None, rollout.transition.reward)
        return found.advantage, found.target

    got_advantage, target = returns(np.asarray(last, np.float32))
    expected, advantage = np.zeros_like(value), np.zeros((envs, players))
    following = np.concatenate([value[1:], last[None]])
    for t in reversed(range(steps)):
        on = 1.0 - done[t][:, None]
        delta = reward[t][:, None] + gamma * on * following[t] - value[t]
        advantage = delta + gamma * trace * on * advantage
        expected[t] = advantage
    np.testing.assert_allclose(got_advantage, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(target, expected + value, rtol=1e-4, atol=1e-5)


def test_optimizer_is_clipped_adam() -> None:
    """By hand: gradients as small as eps, then one that only clipping keeps out of the moments,
    then small ones."""
    optimizer = make_ppo(lr=0.1).optimizer()
    gradients = np.array([[1e-5, -2e-5], [3e-5, 1e-5], [300.0, 400.0], [1e-3, 1e-3], [0.3, -0.1]])
    state, update = optimizer.init({"w": np.zeros(2, np.float32)}), jax.jit(optimizer.update)
    m, v = np.zeros(2), np.zeros(2)
    for t, gradient in enumerate(gradients, 1):
        change, state = update({"w": np.asarray(gradient, np.float32)}, state, None)
        clipped = gradient * min(1.0, 0.5 / np.linalg.norm(gradient))
        m, v = 0.9 * m + 0.1 * clipped, 0.999 * v + 0.001 * clipped**2
        step = -0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-5)
        np.testing.assert_allclose(change["w"], step, rtol=1e-3, err_msg=str(t))


def test_timesteps_have_separate_noise() -> None:
    """With equal logits a seat rarely repeats an action; with one noise per rollout it would do so
    whenever legal."""
    rules = Rules(num_players=2)
    env = HanabiEnv(num_players=2)

    def uniform(params: Any, carry: Any, obs: Any, legal: Any, reset: Any) -> Any:
        return carry, jnp.where(legal, 0.0, -1e10), jnp.zeros(reset.shape)

    @jax.jit
    def play(key: jax.Array) -> Rollout:
        collector = Collector(env, ObservationView(rules), uniform, lambda rows: ())
        return collector.collect(None, collector.init(key, 32), EMPTY_CONTEXT, key, 16)[1]

    rollout = jax.device_get(play(jax.random.key(0)))
    action, player = rollout.action, np.asarray(rollout.state.player)
    moves = np.take_along_axis(action, player[..., None], -1)[..., 0]
    flat = jax.tree.map(lambda x: x.reshape(16 * 32, *x.shape[2:]), rollout.state)
    legal = np.asarray(legal_actions(rules, flat)).any(1).reshape(16, 32, -1)
    could = np.take_along_axis(legal[1:], moves[:-1, :, None], -1)[..., 0]
    assert could.sum() > 200
    assert (moves[1:] == moves[:-1])[could].mean() < 0.3


def test_updates_have_separate_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []

    def note(key: jax.Array) -> None:
        keys.append(np.asarray(jax.random.key_data(key)).tobytes())

    def fake_collect(self: Any, params: Any, actors: Any, context: Any, key: Any, *_: Any) -> Any:
        note(key)
        return None, None, None

    def fake_learn(self: PPO, learner: Any, experience: Any, index: Any, key: jax.Array) -> Any:
        note(key)
        return learner, {}

    monkeypatch.setattr(Collector, "collect", fake_collect)
    monkeypatch.setattr(PPO, "rollout_metrics", lambda *args: {})
    monkeypatch.setattr(PPO, "update_epochs", fake_learn)
    for name in ("returns", "reward"):
        monkeypatch.setattr(PPO, name, lambda *args: None)
    actors: Any = SimpleNamespace(carry=None, index=None)
    for update in range(3):
        learner: Any = SimpleNamespace(update=jnp.int32(update), key=jax.random.key(0), params=None)
        make_ppo().update(learner, actors, EMPTY_CONTEXT)
    assert len(keys) == 6 and len(set(keys)) == 6


def test_sampled_evaluation_resamples_every_turn() -> None:
    words, games = np.zeros(2, np.uint32), np.arange(400)
    logits, sample = np.zeros((400, 10), np.float32), jax.jit(_sample)
    turns = [np.asarray(sample(logits, words, games, np.full(400, t))) for t in range(3)]
    for one, two in ((0, 1), (1, 2), (0, 2)):
        assert (turns[one] == turns[two]).mean() == pytest.approx(0.1, abs=0.06)


def test_recorded_games_are_permuted_separately() -> None:
    """Decks and colour hints, by hand; all recorded moves are legal in their permuted game."""
    games: Games = random_games(TINY_3P, 24, 3)
    batch = next(iter(BatchLoader(24, 24, seed=0).rest_of_epoch()))
    key = jax.random.key(1)
    names = np.asarray(color_permutations(key, 0, batch.index, TINY_3P.num_colors))
    assert len({tuple(row) for row in names}) == 2  # two colours, both orders among 24 games
    examples = jax.jit(game_dataset(games, NetworkConfig(), key).replayed)(batch)
    action, decision = np.asarray(examples.action), np.asarray(examples.decision)
    first_hint, after = 2 * TINY_3P.hand_size, 2 * TINY_3P.hand_size + 2 * TINY_3P.num_colors
    hints = 0
    for place, game in enumerate(batch.index):
        for t in range(games.num_actions[game]):
            expected = int(games.actions[game, t])
            if first_hint <= expected < after:  # seat by seat, colour by colour
                offset, color = divmod(expected - first_hint, TINY_3P.num_colors)
                expected = first_hint + offset * TINY_3P.num_colors + names[place, color]
                hints += names[place, 0] == 1
            assert action[t, place, t % 3] == expected
            assert examples.legal[t, place, t % 3, expected]
            assert decision[t, place].tolist() == [seat == t % 3 for seat in range(3)]
    assert hints > 20


@pytest.fixture
def purposes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Any, ...], str]]:
    """Requested evaluations, which are not played: (type, policies, purpose of their decks)."""
    calls: list[tuple[str, tuple[Any, ...], str]] = []
    score = SimpleNamespace(mean=0.0)
    summary = SimpleNamespace(mean=score, points=score, points_mean=0.0)

    def selfplay(policy: Any, games: int, seed: int = 0, purpose: str = "report") -> Any:
        calls.append(("selfplay", (policy,), purpose))
        return SimpleNamespace(summary=summary, links=list)

    def pair(one: Any, others: Any, games: int, seed: int = 0, purpose: str = "report") -> Any:
        calls.append(("pair", (one, others), purpose))
        return SimpleNamespace(summary=summary)

    def with_partners(
        one: Any, others: Any, games: int, seed: int = 0, *, purpose: str = "report"
    ) -> Any:
        calls.extend(("pair", (one, other), purpose) for other in others)
        return np.zeros((2, len(others), 2, games), int)

    def kl(reference: Any, policy: Any, games: int, seed: int = 0) -> Any:
        calls.append(("kl", (reference, policy), "report"))

    for module in (bc_run, br_bc_run, training_partners, ppo_runner, clone_comparison):
        for name, fake in (
            ("evaluate_selfplay", selfplay), ("clone_selfplay", selfplay), ("evaluate_pair", pair),
            ("kl_between", kl), ("evaluate_with_partners", with_partners),
        ):  # fmt: skip
            if hasattr(module, name):
                monkeypatch.setattr(module, name, fake)
    return calls


def test_ppo_selects_on_selection_decks(purposes: Any) -> None:
    config: Any = SimpleNamespace(eval_games=8, seed=0)
    ppo_runner.selfplay_metrics("policy", config)  # type: ignore[arg-type]
    assert purposes == [("selfplay", ("policy",), "selection")]


def test_bc_selection_decks_and_tie_break(purposes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    accuracies = iter([0.3, 0.5, 0.4, 0.6])

    def predicted(policy: Any, games: Any) -> Any:
        number = SimpleNamespace(mean=next(accuracies))
        return SimpleNamespace(
            accuracy=lambda: number,
            cross_entropy=lambda: number,
            cross_entropy_per_timestep=lambda: number,
        )

    monkeypatch.setattr(bc_run, "predict", predicted)
    saved: list[tuple[str, int]] = []
    monkeypatch.setattr(
        trainer, "save_policy", lambda folder, *_, steps, **__: saved.append((folder.name, steps))
    )
    config: Any = SimpleNamespace(selfplay_every=1, epochs=4, selfplay_games=8, seed=0)
    learner: Any = object.__new__(bc_run.BCLearner)
    learner.bc, learner.learning_rate = SimpleNamespace(policy=lambda state: state), float
    learner.validation, learner.config = None, config
    monkeypatch.setattr(parallel, "fetch", lambda tree: "policy")
    none: Any = None
    schedule = trainer.Schedule(4, range(1, 5), selections=bc_run.SELECTIONS)
    run = trainer.Trainer(Path("run"), "bc", schedule, none, none)
    run.learner, run.state = learner, SimpleNamespace(step=0)
    learner.host_state = run.host_state
    for epoch in range(1, 5):
        learner.loader, run.done = SimpleNamespace(epoch=epoch), epoch
        learner.host_state["sums"] = {"loss": 0.0, "accuracy": 0.0, "decisions": 1.0}
        run.evaluate()
    assert [e for name, e in saved if name == bc_run.BEST_POLICY] == [1, 2, 4]
    assert purposes == [("selfplay", ("policy",), "selection")] * 4


def test_br_bc_selects_on_own_decks(purposes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(br_bc_run, "score_table", lambda rows: "")
    monkeypatch.setattr(br_bc_run, "score_dict", lambda scores: {})
    monkeypatch.setattr(br_bc_run, "link_lines", lambda played: [])
    config, clone = br_bc_run.BRBCConfig(game=TINY_3P), "clone"
    br_bc_run.ALGORITHM.report(config, "response", clone)  # type: ignore[arg-type]
    assert purposes == [
        ("selfplay", ("response",), "report"),
        ("selfplay", ("clone",), "report"),
        ("pair", ("response", "clone"), "report"),
    ]
    purposes.clear()
    training = br_bc_run.ALGORITHM.training(config, clone)  # type: ignore[arg-type]
    assert training.partners == "clone" and training.reference is None
    training.evaluate("learner", config)  # type: ignore[arg-type]
    assert sorted(purposes) == [
        ("pair", ("learner", "clone"), "selection"),
        ("selfplay", ("learner",), "selection"),
    ]


def test_hdr_ippo_report_lineup_and_kl(
    purposes: Any,
) -> None:
    clone_comparison.compare_with_clone("clone", "policy", 1000, 0)  # type: ignore[arg-type]
    assert purposes == [
        ("selfplay", ("clone",), "report"),
        ("selfplay", ("policy",), "report"),
        ("pair", ("policy", "clone"), "report"),
        ("kl", ("clone", "policy"), "report"),
    ]


class Fixed(flax.struct.PyTreeNode):
    """The same logits for any observation."""

    logits: jax.Array  # [A]

    @property
    def rules(self) -> Rules:
        return TINY_3P

    def init_carry(self, batch: int) -> Any:
        return ()

    def identity(self) -> str:
        return "fixed"

    def step(self, carry: Any, obs: Any, legal: Any, reset: Any, key: Any = None) -> Any:
        return carry, jnp.where(legal, self.logits, -1e10)


def test_reported_kl_is_from_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By hand over the legal actions of recorded games, which replace the sampled ones."""
    games: Games = random_games(TINY_3P, 6, 1)
    rng = np.random.default_rng(0)
    reference, policy = (
        Fixed(np.asarray(rng.normal(size=TINY_3P.num_actions), np.float32)) for _ in range(2)
    )
    lineups: list[tuple[Any, bool]] = []

    def play(lineup: Any, rules: Any, decks: Any, seed: int = 0, **options: Any) -> Any:
        lineups.append((lineup, options.get("sample", False)))
        return games

    monkeypatch.setattr(prediction, "play_games", play)
    got = prediction.kl_between(reference, policy, 6)
    assert lineups == [((policy,) * 3, True)]
    played = jax.jit(replay, static_argnums=0)(TINY_3P, games.decks, games.actions)
    legal, decision = np.asarray(played.legal), np.asarray(played.decision)
    expected = np.zeros(6)
    for t, game, seat in np.argwhere(decision):
        p, q = (
            np.exp(np.asarray(one.logits, np.float64))[legal[t, game, seat]]
            for one in (reference, policy)
        )
        p, q = p / p.sum(), q / q.sum()
        expected[game] += (p * np.log(p / q)).sum()
    np.testing.assert_allclose(got.kl, expected, rtol=1e-4)


def test_extreme_ratio_gives_finite_loss() -> None:
    """A row of weight 0 with an action that is e^200 times likelier for the learner than when
    taken."""
    logits = np.array([[0.0, 200.0], [0.0, 0.1]], np.float32)
    nothing = np.zeros(2, np.float32)
    batch = losses.PPOBatch(
        action=np.array([1, 0]),
        log_prob=np.array([-200.0, -0.7], np.float32),
        value=nothing,
        advantage=np.array([-1.0, 1.0], np.float32),
        target=nothing,
        actor_weight=np.array([0.0, 1.0], np.float32),
        value_weight=np.array([0.0, 1.0], np.float32),
    )

    def loss(logits: jax.Array) -> Any:
        return losses.ppo_loss(logits, nothing, batch, PPOConfig(entropy_coef=0.0))

    (total, terms), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(logits)
    assert all(np.isfinite(float(x)) for x in [total, *terms.values()])
    assert np.isfinite(np.asarray(gradient)).all() and (np.asarray(gradient)[0] == 0).all()


def test_cloning_keys_are_used_once() -> None:
    """The learner splits the seed's key in two; the colours' key is neither."""
    split = jax.random.key_data(jax.random.split(jax.random.key(5)))
    color = jax.random.key_data(bc_run.color_key(5))
    assert not (np.asarray(split) == np.asarray(color)).all(-1).any()


DROPOUT = """
import jax, jax.numpy as jnp, numpy as np
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.data.games import Games
from hanabi_rl.learning.cloning import BC, BCTrainConfig
from hanabi_rl.learning.cloning_decisions import decision_dataset
from hanabi_rl.learning.cloning_games import game_dataset
from hanabi_rl.learning.loader import BatchLoader
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig
rules = Rules(num_players=2, num_colors=2, num_ranks=2, hand_size=2)
deck = np.array([c for c in range(4) for _ in range(rules.num_cards_of_rank[c % 2])], np.uint8)
decks = np.stack([np.random.default_rng(i).permutation(deck) for i in range(8)])
numbers = np.zeros(8, np.int32)
games = Games(rules=rules, decks=decks, actions=np.array([[2, 3, 2, 3]] * 8, np.int32),
    num_actions=numbers + 4, scores=numbers, game_ids=numbers, unfinished=numbers > 0)
for network, make in (
    (NetworkConfig(embedding=(8,), lstm=(8,), decoder=(16,), dropout=0.5), game_dataset),
    (StructuredConfig(trunk=(16,), head=16, dropout=0.5), decision_dataset),
):
    bc, examples = BC(BCTrainConfig(network=network, batch_size=8), rules, 10), make(games, network)
    state = parallel.replicate(jax.jit(bc.init)(jax.random.key(0)))
    batch = next(BatchLoader(len(examples), 8, 0).rest_of_epoch())
    _, metrics = bc.compile_update()(state, parallel.replicate(examples), parallel.shard(batch))
    print("LOSS", float(metrics["loss"]))
"""


@pytest.mark.slow
def test_dropout_ignores_device_count() -> None:
    one, two = (
        [float(part) for part in run_python(DROPOUT, devices=n).split("LOSS")[1:]] for n in (1, 2)
    )
    assert len(one) == 2 and one == pytest.approx(two, rel=1e-6)
