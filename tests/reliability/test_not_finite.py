"""NaN or infinity stops a run before the update is applied, naming the term; nothing is saved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import TINY

from hanabi_rl.algorithms.bc import run_bc
from hanabi_rl.algorithms.bc_training import BCConfig
from hanabi_rl.algorithms.ippo import ALGORITHM, IPPOConfig
from hanabi_rl.learning import finite, losses
from hanabi_rl.learning.cloning import BC
from hanabi_rl.learning.finite import NotFiniteError
from hanabi_rl.learning.ppo import PPO
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.storage.checkpoint import Checkpointer, read_documents

NETWORKS = {  # as in presets/, so that evaluations compile once for all tests
    "bc": NetworkConfig(embedding=(16,), lstm=(16,), decoder=(16,), critic=(16,), dropout=0.3),
    "ippo": NetworkConfig(
        embedding=(16,),
        lstm=(),
        decoder=(16,),
        critic=(16,),
        activation="relu",
        layer_norm=False,
        dropout=0.0,
    ),
}
GOOD, BAD = 4, 5  # last finite update, and the nonfinite one


@jax.custom_vjp
def spoilt_backwards(x: jax.Array, spoil: jax.Array) -> jax.Array:
    """Identity with a NaN gradient where `spoil`."""
    return x


spoilt_backwards.defvjp(
    lambda x, spoil: (x, spoil),
    lambda spoil, g: (jnp.where(spoil, jnp.nan, g), np.zeros((), jax.dtypes.float0)),
)


def poison(monkeypatch: pytest.MonkeyPatch, learner: type, term: str, value: float) -> None:
    """Make `term` of update `BAD` equal to `value` inside the jitted function."""
    update, count = learner.update, "update" if learner is PPO else "step"
    name = "ppo_loss" if learner is PPO else "bc_loss"
    compute, returns = getattr(losses, name), PPO.returns
    now: list[jax.Array] = []

    def watched(self: Any, state: Any, *rest: Any) -> Any:
        now[:] = [getattr(state, count) == BAD - 1]
        return update(self, state, *rest)

    def loss(*args: Any, **options: Any) -> Any:
        total, metrics = compute(*args, **options)
        if term == "gradient_norm":
            return spoilt_backwards(total, now[0]), metrics
        wrong = jnp.where(now[0], value, 0.0)
        return total + wrong, {key: x + wrong if key == term else x for key, x in metrics.items()}

    def spoilt_returns(self: PPO, *args: Any) -> Any:
        experience = returns(self, *args)
        return experience.replace(target=experience.target + jnp.where(now[0], value, 0.0))

    monkeypatch.setattr(learner, "update", watched)
    if term == "return_mean":
        monkeypatch.setattr(PPO, "returns", spoilt_returns)
    else:
        monkeypatch.setattr(losses, name, loss)


def run(algo: str, folder: Path, game_files: tuple[Path, Path], resume: bool = False) -> Any:
    fields: dict[str, Any] = {
        "run_dir": str(folder),
        "resume": resume,
        "report_games": 1000,
        "tensorboard": False,
        "network": NETWORKS[algo],
    }
    if algo == "bc":
        train, val = map(str, game_files)
        fields |= {"data": (train,), "val": (val,), "batch_size": 20, "epochs": 3}
        return run_bc(BCConfig(**fields, selfplay_games=64, selfplay_every=9))
    fields |= {
        "num_envs": 8,
        "num_steps": 6,
        "total_steps": 6 * 8 * 6,
        "epochs": 2,
        "num_minibatches": 2,
    }
    return ALGORITHM.run(IPPOConfig(**fields, game=TINY, eval_every=9, eval_games=64, save_every=2))


TERMS = [
    *[
        ("ippo", PPO, term)
        for term in ("return_mean", "actor_loss", "value_loss", "entropy", "loss", "gradient_norm")
    ],
    *[("bc", BC, term) for term in ("loss", "gradient_norm")],
]


@pytest.mark.parametrize(("algo", "learner", "term"), TERMS)
def test_run_stops_and_keeps_last_finite_checkpoint(
    algo: str,
    learner: type,
    term: str,
    game_files: Any,
    injections: Callable[..., int],
    tally: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = injections(0, 1)
    if not whole and (algo, term) != ("ippo", "gradient_norm"):
        pytest.skip("short form: one term of PPO")
    row = tally("not a number")
    for value in (np.nan, np.inf, -np.inf)[: 3 if whole and term == "loss" else 1]:
        folder = tmp_path / str(value)
        with monkeypatch.context() as patched:
            poison(patched, learner, term, value)
            with pytest.raises(NotFiniteError) as caught:
                run(algo, folder, game_files)
        steps = sorted(int(path.name) for path in (folder / "checkpoints").iterdir())
        kind = "update" if algo == "ippo" else "minibatch"
        named = f"expected a finite {term} in {kind} {BAD}" in str(caught.value)
        named = named and f"last intact checkpoint: {GOOD}" in str(caught.value)
        harm = None if named and steps[-1] == GOOD else f"{caught.value}; checkpoints {steps}"
        if whole and harm is None and value is np.nan:  # without the fault the run continues
            run(algo, folder, game_files, resume=True)
        row.add(f"{value} in {term} of {algo}", harm)


def test_nonfinite_update_is_not_applied() -> None:
    """Under jit: bit-exact old tree if the tested terms are not finite, new tree otherwise."""
    new, old = {"w": jnp.arange(3.0), "n": jnp.int32(7)}, {"w": jnp.full(3, 9.0), "n": jnp.int32(6)}
    apply = jax.jit(finite.apply_if_finite)
    for bad in (jnp.nan, jnp.inf, -jnp.inf):
        for term in finite.CHECKED_METRICS:
            tree = apply(
                new,
                old,
                {"loss": jnp.float32(1.0), "train_score": jnp.float32(3.0), term: jnp.float32(bad)},
            )
            jax.tree.map(np.testing.assert_array_equal, tree, old)
    tree = apply(new, old, {"loss": jnp.float32(1.0), "train_score": jnp.float32(jnp.nan)})
    jax.tree.map(np.testing.assert_array_equal, tree, new)


def test_first_nonfinite_minibatch_is_reported() -> None:
    metrics = {
        "loss": jnp.array([1.0, 2.0, jnp.nan, jnp.nan]),
        "gradient_norm": jnp.array([1.0, jnp.inf, jnp.nan, jnp.nan]),
    }
    reported = finite.mean_or_first_nonfinite(metrics)
    assert (float(reported["loss"]), finite.first_not_finite(reported)) == (2.0, "gradient_norm")
    means = finite.mean_or_first_nonfinite(
        {"loss": jnp.array([1.0, 2.0]), "clip_fraction": jnp.array([0.0, 1.0])}
    )
    assert (
        float(means["loss"]),
        float(means["clip_fraction"]),
        finite.first_not_finite(means),
    ) == (1.5, 0.5, None)


def test_nan_metric_never_evicts_best_checkpoint(tally: Callable, tmp_path: Path) -> None:
    best = tally("NaN metric")
    with Checkpointer(tmp_path, keep_latest=1) as checkpoints:
        checkpoints.save(1, {"w": jnp.zeros(2)}, metrics={"score": 5.0})
        for step, score in enumerate((np.nan, np.inf, -np.inf, 4.0), start=2):
            checkpoints.save(step, {"w": jnp.zeros(2)}, metrics={"score": score})
            best.add(
                str(score),
                None if checkpoints.steps() == [1, step] else f"kept {checkpoints.steps()}",
            )
    assert read_documents(tmp_path / "1").metrics == {"score": 5.0}
