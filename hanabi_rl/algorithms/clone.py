"""The cloned policy that a learner starts from, is regularised towards, or plays with."""

import dataclasses
import sys
from pathlib import Path
from typing import Any, Literal

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.policy_folder import CLONE_FOLDER, save_policy
from hanabi_rl.algorithms.base import SharedRun
from hanabi_rl.algorithms.registry import ALGORITHMS, run
from hanabi_rl.data.files import load_games
from hanabi_rl.data.game_records import GameRecords
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.runs.config import RunConfig, saved_config
from hanabi_rl.runs.run_dir import BEST_ACCURACY, BEST_LOSS, BEST_POLICY, check_input_hashes
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.files import read_json

POLICY_BY_CRITERION = {"accuracy": BEST_ACCURACY, "selfplay": BEST_POLICY, "loss": BEST_LOSS}
"""`bc_select` -> the folder of a BC run."""


@dataclasses.dataclass(frozen=True)
class CloneConfig(RunConfig):
    """Settings of algorithms that need a cloned policy."""

    bc_policy: str | None = None
    """BC run, policy folder or ah2ac2:FILE to use as clone. None: train a clone first."""
    bc_select: Literal["accuracy", "selfplay", "loss"] = "accuracy"
    """Policy of the BC run to use: best validation accuracy, best self-play or lowest validation
    cross-entropy (loss)."""
    bc: BCTrainConfig = dataclasses.field(default_factory=BCTrainConfig)
    """Training of the clone, if `bc_policy` is missing."""


def clone_rules(config: CloneConfig) -> Any:
    """Game of the clone in the run, else of the given clone, else of the given games, else of the
    config."""
    kept = Path(config.run_dir or "") / CLONE_FOLDER

    def rules() -> Any:
        if config.resume and kept.exists():
            return load_policy(kept).rules
        if config.bc_policy is not None:
            return load_policy(config.bc_policy).rules
        if config.bc.data and isinstance(config.game, Rules):
            return load_games(config.bc.data[0]).rules
        return config.game

    return parallel.on_main_host(rules)


def clone_title(config: CloneConfig) -> str:
    """Title of the stage that provides the clone."""
    return "Behavioural cloning" if config.bc_policy is None else f"Clone: {config.bc_policy}"


def load_or_train_clone(config: CloneConfig, run_dir: Path) -> NetworkPolicy:
    """The clone: the one in the run, else the given one, else one trained now in `run_dir`/bc.

    Raises:
        RunStopped: after a signal, for `run_dir`.
    """
    kept = run_dir / CLONE_FOLDER
    source = Path(config.bc_policy) if config.bc_policy is not None else run_dir / "bc"
    if config.bc_policy is None and not parallel.on_main_host(kept.exists):
        try:
            run("bc", bc_config(config, source))
        except RunStopped as stopped:  # resumed as part of this run
            raise RunStopped(run_dir, stopped.exit_code) from None

    def keep() -> NetworkPolicy:
        if not kept.exists():
            chosen = source / POLICY_BY_CRITERION[config.bc_select]
            if not chosen.exists() and is_clone(source):
                raise ValueError(
                    f"--bc-select {config.bc_select}: expected {chosen}, which {source} has not "
                    "kept"
                )
            policy = load_policy(chosen if chosen.exists() else source)
            if not isinstance(policy, NetworkPolicy):
                raise ValueError(
                    f"--bc-policy: expected a cloned network policy, got {type(policy).__name__} "
                    f"from {source}"
                )
            save_policy(
                kept, policy, algorithm="bc", steps=0, unit="minibatches", score=None, greedy=True
            )
        reference = load_policy(kept)
        assert isinstance(reference, NetworkPolicy), "saved above"
        return reference

    return parallel.on_main_host(keep)


def is_clone(folder: Path) -> bool:
    """True for the folder of a BC run."""
    path = folder / "config.json"
    return path.exists() and read_json(path).get("algorithm") == "bc"


def same_validation(config: CloneConfig) -> bool:
    """True if runs of several seeds share their validation games; False if each holds out its
    own."""
    return bool(config.bc.val) or config.bc_policy is not None


def validation_games(config: CloneConfig, run_dir: Path) -> Games | GameRecords | None:
    """Games for measuring prediction: `bc.val`, or those on which the clone was validated.

    Returns None if both are unknown, or, with a note on stderr, if the clone's data changed: a new
    split could contain its training games.

    Raises:
        ValueError: `bc.val` cannot be read, is of another game, or contains a game twice.
    """
    # a run imports no other algorithm
    from hanabi_rl.algorithms.bc import game_input_hashes, load_validation, training_games
    from hanabi_rl.algorithms.bc_training import BCConfig

    if config.bc.val:
        games = load_validation(config.bc.val, config.game)
        games.check_rules(config.game, "--bc.val: ")
        return games
    source = Path(config.bc_policy) if config.bc_policy is not None else run_dir / "bc"
    run_of = next(filter(is_clone, (source, source.parent)), None)
    if run_of is None:
        return None
    clone = saved_config(BCConfig, run_of, algorithm="bc")
    clone = dataclasses.replace(clone, init_from=None)  # may be deleted; not needed
    try:
        train, validation = training_games(clone, clone.game, clone.seed)
        check_input_hashes(run_of, game_input_hashes(clone, clone.game, (train, validation)))
    except (OSError, ValueError) as error:
        print(f"No validation figures: the games of {run_of} are gone: {error}", file=sys.stderr)
        return None
    return validation


def bc_config(config: CloneConfig, run_dir: Path) -> RunConfig:
    """Config of the clone that a run without --bc-policy trains in `run_dir`."""
    training = {f.name: getattr(config.bc, f.name) for f in dataclasses.fields(BCTrainConfig)}
    shared = {
        name: getattr(config, name)
        for name in ("game", "preset", "seed", "precision", "tensorboard", "wandb", "report_games")
    }
    return ALGORITHMS["bc"].config(
        **training, **shared, run_dir=str(run_dir), resume=(run_dir / "config.json").exists()
    )


def shared_clone(config: CloneConfig, folder: Path) -> SharedRun | None:
    """One clone for all runs of a sweep, if none is given."""
    if config.bc_policy is not None:
        return None
    clone = dataclasses.replace(bc_config(config, folder / "bc"), resume=False)
    return SharedRun("bc", clone, {"bc_policy": str(folder / "bc")})
