"""The HDR-IPPO run: a clone (given, or trained first), regularised self-play from it, and both measured together."""

import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

import jax

from hanabi_rl import parallel
from hanabi_rl.agents.loading import load_policy, save_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.config import BCConfig, BCTraining, HDRIPPOConfig
from hanabi_rl.data.games import load_games
from hanabi_rl.env.rules import Rules
from hanabi_rl.evaluate.plots import plot_hdr_ippo
from hanabi_rl.evaluate.report import make_report, report_figures, report_table
from hanabi_rl.evaluate.selfplay import evaluate_selfplay
from hanabi_rl.learners.hdr_ippo import hdr_ippo, init_from_bc
from hanabi_rl.learners.ppo import PPO, LearnerState
from hanabi_rl.pipelines.bc import BEST_ACCURACY, BEST_SELFPLAY, game_config, run_bc
from hanabi_rl.pipelines.session import Session, open_run_dir, open_session
from hanabi_rl.rollout import ActorState
from hanabi_rl.runs import write_summary
from hanabi_rl.tracking import Progress, announce_stage, read_metrics

REFERENCE = "bc-policy"  # the clone, kept in the run so that it is complete in itself


def run_hdr_ippo(config: HDRIPPOConfig) -> dict[str, Any]:
    """Trains and reports; returns what `summary.json` holds. A finished run is reported again, not repeated."""
    config = dataclasses.replace(config, game=game_config(_rules(config)))
    run_dir = open_run_dir("hdr_ippo", config, config.game.num_players)
    announce_stage(1, 3, "Behavioural cloning" if config.bc_policy is None else f"Clone: {config.bc_policy}")
    bc = reference_policy(config, run_dir)
    announce_stage(2, 3, f"HDR-IPPO, KL weight {config.kl_weight:g}")
    wall_s = train_hdr_ippo(config, run_dir, bc)
    announce_stage(3, 3, f"Measuring over {config.report_games:,} games")
    result = make_report(bc, load_policy(run_dir / "policy"), config.report_games, config.seed)
    steps = config.num_updates * config.num_envs * config.num_steps
    summary = report_figures(result) | {
        "env_steps": steps,
        "wall_s": wall_s,
        "preset": config.preset,
        "kl_weight": config.kl_weight,
    }
    write_summary(run_dir, summary)
    print(f"\n{report_table(result)}\n\nResults: {run_dir} (policy/, learning-curve.png, summary.json)")
    return summary


def _rules(config: HDRIPPOConfig) -> Rules:
    """The game: the given clone's, else that of the given games, else the configured one."""
    if config.bc_policy is not None:
        return load_policy(config.bc_policy).rules
    if config.bc.data:
        return load_games(config.bc.data[0]).rules
    return config.game.rules()


def reference_policy(config: HDRIPPOConfig, run_dir: Path) -> NetworkPolicy:
    """The clone to start from: the one already in the run, else the one given, else trained now in `run_dir`/bc."""
    kept = run_dir / REFERENCE
    if not kept.exists():
        source = Path(config.bc_policy) if config.bc_policy is not None else run_dir / "bc"
        if config.bc_policy is None:
            run_bc(_bc_config(config, source))
        chosen = source / (BEST_ACCURACY if config.bc_select == "accuracy" else BEST_SELFPLAY)
        policy = load_policy(chosen if chosen.exists() else source)
        if not isinstance(policy, NetworkPolicy):
            raise ValueError(
                f"--bc-policy: expected a cloned network policy, got {type(policy).__name__} from {source}"
            )
        save_policy(kept, policy, algorithm="bc", step=0, score=None, greedy=True)
    reference = load_policy(kept)
    assert isinstance(reference, NetworkPolicy), "saved above"
    return reference


def _bc_config(config: HDRIPPOConfig, run_dir: Path) -> BCConfig:
    training = {f.name: getattr(config.bc, f.name) for f in dataclasses.fields(BCTraining)}
    shared = {
        name: getattr(config, name) for name in ("game", "preset", "seed", "tensorboard", "wandb", "report_games")
    }
    return BCConfig(**training, **shared, run_dir=str(run_dir), resume=(run_dir / "config.json").exists())


def train_hdr_ippo(config: HDRIPPOConfig, run_dir: Path, bc: NetworkPolicy) -> float:
    """The training loop. Returns the seconds it took, earlier sessions of a resumed run included."""
    ppo = hdr_ippo(config, bc)
    learner, actors = jax.jit(init_from_bc, static_argnums=0)(ppo, jax.random.key(config.seed), bc)
    with open_session(
        "hdr_ippo", config, run_dir, (learner, actors), bc, params_path="0/params/actor", best_metric="selfplay_mean"
    ) as session:
        trainer = _Trainer(session, config, ppo, learner, actors, bc)
        steps = config.num_envs * config.num_steps
        print(
            f"{config.num_updates:,} updates of {config.num_envs} x {config.num_steps} environment steps "
            f"on {parallel.num_devices()} x {jax.devices()[0].device_kind}",
            file=sys.stderr,
        )
        total, done = config.num_updates * steps, int(trainer.learner.update) * steps
        with Progress("HDR-IPPO", total=total, unit="steps", initial=done) as progress:
            trainer.run(progress)
        wall_s = session.tracker.wall_s
    lines = read_metrics(run_dir / "metrics.jsonl")
    bc_selfplay = next((line["selfplay_mean"] for line in lines if line["step"] == 0), None)
    plot_hdr_ippo(lines, run_dir / "learning-curve.png", bc_selfplay, bc.rules.max_score)
    return wall_s


class _Trainer:
    """The state of an HDR-IPPO run between updates, and the loop over them."""

    def __init__(
        self,
        session: Session,
        config: HDRIPPOConfig,
        ppo: PPO,
        learner: LearnerState,
        actors: ActorState,
        bc: NetworkPolicy,
    ) -> None:
        self.session, self.config, self.bc = session, config, parallel.replicate(bc)
        self.best: float | None = None
        if session.restored is not None:
            learner, actors = session.restored.state
            self.best = (session.restored.loader or {})["best_selfplay"]
        self.learner, self.actors = parallel.replicate(learner), parallel.shard(actors)
        self.update = ppo.compile_update()

    def run(self, progress: Progress) -> None:
        """Updates to the end, with evaluation, logging and checkpoints at their intervals."""
        config, total = self.config, self.config.num_updates
        done = int(self.learner.update)
        if done == 0:
            self.session.tracker.log(0, {"env_steps": 0} | self.evaluate(0))
        last_log = (time.monotonic(), done)
        while done < total:
            self.learner, self.actors, metrics = self.update(self.learner, self.actors, self.bc)
            done += 1
            steps = done * config.num_envs * config.num_steps
            last = done == total
            measured: dict[str, float] = {}
            if done % config.eval_every == 0 or last:
                measured = self.evaluate(done)
            if done % config.log_every == 0 or measured:
                numbers = {name: float(value) for name, value in metrics.items()} | measured
                now = time.monotonic()
                rate = (done - last_log[1]) * config.num_envs * config.num_steps / (now - last_log[0])
                last_log = (now, done)
                self.session.tracker.log(done, {"env_steps": steps, **numbers, "steps_per_s": rate})
                progress.update(steps, score=numbers["train_score"], kl=numbers["kl_to_bc"])
            if done % config.save_every == 0 or last or self.session.stop.requested:
                self.save(done, measured)

    def policy(self) -> NetworkPolicy:
        """The policy as it stands."""
        return self.bc.replace(params=parallel.fetch(self.learner.params["actor"]))

    def evaluate(self, done: int) -> dict[str, float]:
        """Greedy self-play on the selection decks; keeps the best policy (not the clone itself, before the first
        update)."""
        config = self.config
        summary = evaluate_selfplay(self.policy(), config.eval_games, config.seed, purpose="selection").summary
        if done and (self.best is None or summary.mean.mean > self.best):
            self.best = summary.mean.mean
            self.keep("policy", done, self.best)
        return {"selfplay_mean": summary.mean.mean, "selfplay_points": summary.points.mean}

    def keep(self, name: str, done: int, score: float | None) -> None:
        """Writes a policy folder of the run."""
        steps = done * self.config.num_envs * self.config.num_steps
        save_policy(
            self.session.run_dir / name, self.policy(), algorithm="hdr_ippo", step=steps, score=score, greedy=True
        )

    def save(self, done: int, metrics: dict[str, float]) -> None:
        """Writes a checkpoint and `policy-latest`; raises `Stopped` where a signal asked for the end."""
        state = (self.learner, parallel.unshard(self.actors))
        self.session.checkpoints.save(done, state, loader={"best_selfplay": self.best}, metrics=metrics)
        self.keep("policy-latest", done, metrics.get("selfplay_mean"))
        self.session.stop_if_asked()
