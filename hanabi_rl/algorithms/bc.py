"""Behavioural cloning run: from games to three policies (best self-play, best validation accuracy,
lowest validation cross-entropy)."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hanabi_rl.agents.identity import agent_hash
from hanabi_rl.agents.loading import expand_seed_ranges, load_policy
from hanabi_rl.agents.structured.hint_memory import has_conventions
from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.algorithms.bc_training import BCConfig, train_bc
from hanabi_rl.data.files import load_distinct_games, load_games, load_nonempty_games
from hanabi_rl.data.game_records import (
    GameRecords,
    join_records,
    load_game_records,
    split_by_group,
)
from hanabi_rl.data.games import Games, concatenate_games
from hanabi_rl.data.split import split_games
from hanabi_rl.evaluation.measure.prediction import Prediction, predict
from hanabi_rl.evaluation.measure.selfplay import SelfPlayResult, clone_selfplay, summary_dict
from hanabi_rl.evaluation.reporting.training_report import link_lines, score_table
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.learning.cloning import BCTrainConfig
from hanabi_rl.nn.structured_network import FeatureSet
from hanabi_rl.play.demos import demo_games, demonstrators
from hanabi_rl.play.game_episodes import play_episodes, records_of
from hanabi_rl.runs.config import with_game
from hanabi_rl.runs.run_dir import (
    BEST_ACCURACY,
    BEST_LOSS,
    BEST_POLICY,
    write_input_hashes,
    write_summary,
)
from hanabi_rl.runs.session import open_run_dir
from hanabi_rl.runs.tracking import read_metrics
from hanabi_rl.storage.words import count

VALIDATION_FRACTION = 0.1
HELD_OUT_GROUPS = 0.2
"""Fraction of the groups of players held out in games other than Hanabi."""
MIN_TRAIN_GAMES = 5
"""Minimum number of games from which a tenth can be held out."""
KEPT_POLICIES = {
    BEST_POLICY: "best self-play",
    BEST_ACCURACY: "best accuracy",
    BEST_LOSS: "least loss",
}


def training_games(config: BCTrainConfig, rules: Any, seed: int) -> tuple[Any, Any]:
    """Return the games to clone and the games to validate on: `Games` of Hanabi, or `GameRecords`.

    Without data, games of `demos` are generated once and cached. Without validation files, a tenth
    of the games is held out, split by deck.

    Raises:
        GameDataError: a file has invalid games, or a validation game occurs twice.
        ValueError: files of different games or without a human seat, training games among the
            validation games, fewer than `MIN_TRAIN_GAMES` games or too few decks without validation
            files, an unknown bot, or a bot whose own rules are among the features.
    """
    if not isinstance(rules, Rules):
        return training_records(config, rules, seed)
    if config.data:
        games = concatenate_games([load_nonempty_games(path) for path in config.data])
    else:
        games = pool_games(config, rules)
    if not _cloned_seats(games).any():
        raise ValueError("--data: expected games with a human seat, got none to clone")
    if config.val:
        validation = load_distinct_games(config.val)
        if not _cloned_seats(validation).any():
            raise ValueError("--val: expected games with a human seat, got none to predict")
        validation.check_rules(games.rules, "--val: ")
        validation.check_disjoint(games, "--val", "--data")
        if shared := int(validation.on_decks_of(games).sum()):
            print(
                f"--val: {shared} of {len(validation)} games are on decks of --data (decks that "
                "differ in the seat that begins are one)",
                file=sys.stderr,
            )
        return games, validation
    flag = "--data" if config.data else "--demo-games"
    if len(games) < MIN_TRAIN_GAMES:
        raise ValueError(
            f"{flag}: expected at least {MIN_TRAIN_GAMES} games, or --val with others, got "
            f"{len(games)}"
        )
    try:
        train, validation = split_games(
            games, (1 - VALIDATION_FRACTION, VALIDATION_FRACTION), seed=seed
        )
    except ValueError as error:
        decks, files = games.num_decks, ", ".join(config.data or config.demos)
        raise ValueError(
            f"{flag}: expected games of enough decks to hold out a tenth by deck, or --val with "
            f"others, got {count(len(games), 'game')} of {decks} in {files}"
        ) from error
    return train, validation


def training_records(
    config: BCTrainConfig, rules: Any, seed: int
) -> tuple[GameRecords, GameRecords]:
    """`training_games` of another game than Hanabi: files, or sampled games of the agents `demos`
    in self-play. Without validation files a fifth of the groups of players, or of the played games,
    is held out. Raises ValueError without either, and as `load_game_records`."""
    if config.data:
        records = load_game_records(config.data, rules)
    elif config.demos == BCTrainConfig.demos:
        raise ValueError(
            f"--data: expected files with games of {rules.name}, or agents in --demos whose games "
            "are cloned, got none"
        )
    else:
        records = join_records(
            [_played(name, rules, config.demo_games) for name in expand_seed_ranges(config.demos)]
        )
    if config.val:
        return records, load_game_records(config.val, rules, "--val")
    return split_by_group(records, HELD_OUT_GROUPS, seed)


def _played(name: str, rules: Any, games: int) -> GameRecords:
    return records_of(rules, play_episodes(demonstrators(rules, name), games, purpose="demos"))


def _cloned_seats(games: Games) -> np.ndarray:
    """bool[N, P]: seats whose moves are cloned or predicted."""
    every = np.ones((len(games), games.rules.num_players), bool)
    return every if games.human_seats is None else games.human_seats


def pool_games(config: BCTrainConfig, rules: Rules) -> Games:
    """Games of `demos`, one player after another, from the cache if available.

    Raises ValueError as `training_games` does.
    """
    parts = []
    for player in expand_seed_ranges(config.demos):
        check_features_for_bot(getattr(config.network, "features", None), player)
        parts.append(demo_games(rules, player, config.demo_games, seed=0))
    return concatenate_games(parts)


def announce_pool(config: BCTrainConfig) -> None:
    """Print on stderr which games are cloned if no data is given."""
    if config.data:
        return
    players = expand_seed_ranges(config.demos)
    each = f"{count(config.demo_games, 'game')} of {'each of ' if len(players) > 1 else ''}"
    print(f"No data: cloning {each}{', '.join(players)}, the same for every seed.", file=sys.stderr)


def game_input_hashes(
    config: BCTrainConfig, rules: Any, games: tuple[Any, Any] | None = None
) -> dict[str, str]:
    """SHA-256 of a config's inputs by flag and name (`run_dir.check_input_hashes`): the initial
    agent, and the game files or the players of generated games.

    Args:
        games: result of `training_games`; None if no file is to be read.
    """
    players = () if config.data else expand_seed_ranges(config.demos)
    found = {
        f"--demos {name}": agent_hash([each.identity() for each in demonstrators(rules, name)])
        for name in players
    }
    if config.init_from is not None:
        found[f"--init-from {config.init_from}"] = load_policy(config.init_from).identity()
    if games is None:
        return found
    for flag, names, of_files in zip(
        ("--data", "--val"), (config.data, config.val), games, strict=True
    ):
        if names:
            found[f"{flag} {' '.join(names)}"] = agent_hash("games", of_files.content())
    return found


def clones_own_features(feature_set: FeatureSet | None, bot: str) -> bool:
    """True if a clone of `bot` would see the bot's own rules: the conventions features are what
    `bot:convention` infers, so nothing would be left to learn."""
    return feature_set is not None and has_conventions(feature_set) and "convention" in bot


def check_features_for_bot(feature_set: FeatureSet | None, bot: str) -> None:
    """Raise ValueError if `clones_own_features`."""
    if clones_own_features(feature_set, bot):
        raise ValueError(
            "network.features: expected facts or hint-history for a clone of bot:convention, whose "
            f"own rules `conventions` shows, got {feature_set}"
        )


def run_bc(config: BCConfig) -> dict[str, Any]:
    """Clone, evaluate and report; return the contents of `summary.json`. A finished run is only
    reported."""
    if isinstance(config.game, Rules):
        announce_pool(config)
    train, validation = training_games(config, config.game, config.seed)
    config = with_game(config, train.rules, "the recorded games")
    with open_run_dir("bc", config, train.rules.num_players) as run_dir:
        hashes = game_input_hashes(config, train.rules, (train, validation))
        parallel.on_main_host(lambda: write_input_hashes(run_dir, hashes))
        train_bc(config, run_dir, train, validation)
        summary = parallel.on_main_host(lambda: report(config, run_dir, validation))
    print(f"\nResults: {run_dir}")
    return summary


def report(config: BCConfig, run_dir: Path, validation: Any) -> dict[str, Any]:
    """Evaluate the saved policies, print the table and write `summary.json`."""
    summary: dict[str, Any] = {
        "num_players": validation.rules.num_players,
        "preset": config.preset,
        "eval_games": config.report_games,
    }
    rows, links = [], list[str]()
    measured: dict[str, tuple[SelfPlayResult, Prediction]] = {}
    for folder, name in KEPT_POLICIES.items():
        if folder == BEST_LOSS and not (run_dir / folder).exists():
            continue  # no validation loss was finite
        policy = load_policy(run_dir / folder)
        # several criteria often select the same epoch
        if (identity := policy.identity()) not in measured:
            measured[identity] = (
                clone_selfplay(policy, config.report_games, config.seed),
                predict(policy, validation),
            )
        played, read = measured[identity]
        rows.append((name, played.summary))
        if folder == BEST_POLICY:
            links = link_lines(played)
        prefix = folder.replace("-", "_")
        summary |= {
            f"{prefix}_selfplay_{key}": value for key, value in summary_dict(played.summary).items()
        }
        for key, interval in {
            "val_accuracy": read.accuracy(),
            "val_loss": read.cross_entropy(),
            "val_loss_per_timestep": read.cross_entropy_per_timestep(),
        }.items():
            summary |= {f"{prefix}_{key}": interval.mean, f"{prefix}_{key}_ci95": interval.bounds}
        print(
            f"BC, {name}: validation accuracy {read.accuracy():.3f}, loss "
            f"{read.cross_entropy():.3f} per decision, "
            f"{read.cross_entropy_per_timestep():.3f} per timestep"
        )
    print(score_table(rows))
    print("\n".join(links))
    losses = [line["val_loss"] for line in read_metrics(run_dir / "metrics.jsonl")]
    # null: not finite
    summary["min_val_loss"] = min((loss for loss in losses if loss is not None), default=None)
    summary["run_dir"] = str(run_dir)
    write_summary(run_dir, summary)
    return summary


def load_validation(names: Sequence[str], rules: Any) -> Any:
    """Validation games of `rules`. Raises ValueError as `load_distinct_games`."""
    if isinstance(rules, Rules):
        return load_distinct_games(names)
    return load_game_records(names, rules, "--val")


def pooled_validation(config: BCConfig, run_dirs: list[Path]) -> str:
    """Prediction of the best-accuracy policies on the games of `val`, mean over seeds, with
    intervals bootstrapped over games."""
    games = load_validation(config.val, config.game)
    reads = [predict(load_policy(run_dir / BEST_ACCURACY), games) for run_dir in run_dirs]
    pooled = Prediction(*(np.sum(column, axis=0) for column in zip(*reads, strict=True)))
    return (
        f"Best-accuracy policies, mean of {count(len(reads), 'seed')} [95% over games]: accuracy "
        f"{pooled.accuracy():.3f}, "
        f"loss {pooled.cross_entropy():.3f} per decision, "
        f"{pooled.cross_entropy_per_timestep():.3f} per timestep"
    )


class BehaviouralCloning(Algorithm):
    """Behavioural cloning; see the module's docstring."""

    config = BCConfig
    summary_columns: ClassVar = {
        "policy_accuracy_val_accuracy": "val accuracy",
        "policy_accuracy_val_loss": "val loss",
        "policy_loss_val_loss": "least loss",
        "policy_selfplay_mean": "self-play",
        "policy_selfplay_points_mean": "points",
    }
    validation_key = "policy_val_loss"

    def run(self, config: BCConfig) -> dict[str, Any]:
        """See `run_bc`."""
        return run_bc(config)

    def infer_rules(self, config: BCConfig) -> Any:
        """Game of the data, if any; of Hanabi's only."""
        is_hanabi = isinstance(config.game, Rules)
        return load_games(config.data[0]).rules if config.data and is_hanabi else config.game

    def input_hashes(self, config: BCConfig) -> dict[str, str]:
        """See `game_input_hashes`; no games are generated."""
        games = training_games(config, config.game, config.seed) if config.data else None
        return game_input_hashes(config, config.game, games)

    def seeds_share_validation(self, config: BCConfig) -> bool:
        """True with `val`: held-out training games differ between seeds."""
        return bool(config.val)

    def pooled_report(self, config: BCConfig, summaries: list[dict[str, Any]]) -> str:
        """See `pooled_validation`."""
        return pooled_validation(config, [Path(summary["run_dir"]) for summary in summaries])


ALGORITHM = BehaviouralCloning()
