"""Public functions: train an algorithm; play agents in self-play, cross-play and the gauntlet."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from hanabi_rl.agents.loading import load_agents, load_policy
from hanabi_rl.agents.policy import Policy
from hanabi_rl.agents.provenance import training_partners
from hanabi_rl.agents.python_agent import as_policy
from hanabi_rl.algorithms.base import Algorithm
from hanabi_rl.algorithms.registry import find_algorithm, run
from hanabi_rl.evaluation.measure import gauntlet as of_gauntlet
from hanabi_rl.evaluation.measure.cells import CellCache
from hanabi_rl.evaluation.measure.intervals import Interval
from hanabi_rl.evaluation.measure.matrix import (
    CrossPlayMatrix,
    EvalSetting,
    make_agents,
    play_matrix,
)
from hanabi_rl.evaluation.measure.selfplay import SelfPlayResult, evaluate_selfplay
from hanabi_rl.evaluation.reporting.gauntlet import partner_parts
from hanabi_rl.evaluation.reporting.matrix import matrix_parts, short_labels, write_matrix
from hanabi_rl.evaluation.reporting.tables import to_text
from hanabi_rl.evaluation.reporting.training_report import score_table
from hanabi_rl.games.game import Game
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.registry import game_class, game_from_text
from hanabi_rl.launch.presets import configs_folder, load_preset, presets_of
from hanabi_rl.launch.sweep import run_once, seed_configs, seeds_report
from hanabi_rl.runs.callbacks import Callback, use_callbacks
from hanabi_rl.runs.config import saved_config
from hanabi_rl.runs.run_dir import LATEST_POLICY, create_run, missing_parents, remove_empty
from hanabi_rl.storage.dataclass_io import from_dict
from hanabi_rl.storage.jax_settings import with_fixed_settings
from hanabi_rl.storage.words import game_name

if TYPE_CHECKING:
    from hanabi_rl.data.games import Games

Agent: TypeAlias = "str | Path | Policy | type | TrainedRun"
"""Name or path of an agent as in every command, a policy, a class of agents, or a trained run."""


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A finished run."""

    run_dir: Path
    summary: dict[str, Any]
    """Contents of `summary.json`."""
    policy: Policy
    """The reported policy."""


@dataclasses.dataclass(frozen=True)
class TrainedSeeds:
    """Finished runs that differ only by seed."""

    runs: list[TrainedRun]
    """In the order of the seeds."""
    text: str

    def table(self) -> str:
        """The table over seeds that `hanabi-rl train --seeds` prints; empty for one seed."""
        return self.text

    __str__ = table


@overload
def train(
    algorithm: str | Algorithm,
    preset: str | None = "quick",
    *,
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    seeds: None = None,
    **fields: Any,
) -> TrainedRun: ...


@overload
def train(
    algorithm: str | Algorithm,
    preset: str | None = "quick",
    *,
    seeds: Iterable[int],
    callbacks: Sequence[Callback] = (),
    **fields: Any,
) -> TrainedSeeds: ...


def train(
    algorithm: str | Algorithm,
    preset: str | None = "quick",
    *,
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    seeds: Iterable[int] | None = None,
    **fields: Any,
) -> TrainedRun | TrainedSeeds:
    """Train as `hanabi-rl train` does, with its printed report.

    Args:
        algorithm: name of an algorithm, or your own: an instance or `python:FILE.py:CLASS`.
        preset: preset of the algorithm, of another one (`"ippo/small"`), or a .toml file; None: the
            config's defaults. With another `game` than Hanabi, quick is that game's preset, or
            overcooked's settings.
        callbacks: functions called with the `TrainingEvaluation` of each evaluation during
            training, the initial one included; raising `StopTraining` in one ends training.
        resume: continue the run in `run_dir` with its saved config instead of a preset. As on the
            command line, only the fields of length and logging may change.
        seeds: train one run per seed, in `run_dir`/s<seed> or new folders. In a given `run_dir` the
            same call skips finished runs and continues the others.
        fields: fields of the config that replace the preset's: `total_steps=100_000`,
            `network={"kind": "gru"}`, `game=Rules(3)`, `game="overcooked:cramped_room"`.

    Raises ValueError for an unknown algorithm, preset or field, for invalid values, and for a
    folder that holds another run.
    """
    entry = find_algorithm(algorithm)
    if seeds is not None and (resume or "seed" in fields):
        raise ValueError(
            f"train: expected seeds without {'resume' if resume else 'seed'}, got both"
        )
    named = fields.pop("game", None)
    # text is parsed below, with the preset's other parameters; here its class chooses the preset
    game = game_class(game_name(named))() if isinstance(named, str) else named
    if preset == "quick" and isinstance(game, Game):
        own = configs_folder() / presets_of(entry.name, entry.config) / f"{game.name}.toml"
        preset = game.name if own.exists() else "overcooked"
    config = entry.config()
    if resume:
        if fields.get("run_dir") is None:
            raise ValueError("train: resume: expected the run's folder in run_dir, got none")
        config = saved_config(entry.config, Path(fields["run_dir"]), algorithm=entry.name)
        fields["resume"] = True
    elif preset is not None:
        config = load_preset(entry.config, entry.name, preset, configs_folder())
    if game is not None:
        fields["game"] = game_from_text(named, config.game) if isinstance(named, str) else game
    objects: dict[str, Any] = {
        name: value for name, value in fields.items() if dataclasses.is_dataclass(value)
    }
    values = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in fields.items()
        if name not in objects
    }
    config = from_dict(entry.config, values, config, where="train")
    config = dataclasses.replace(config, **objects)
    with use_callbacks(entry.name, callbacks):
        if seeds is None:
            return _trained(entry, config, run)
        config = dataclasses.replace(config, seeds=tuple(seeds))
        runs = [_trained(entry, of_seed, run_once) for of_seed in seed_configs(entry, config)]
    return TrainedSeeds(runs, seeds_report(entry, config, [one.summary for one in runs]))


def _trained(
    entry: Algorithm, config: Any, run: Callable[[Algorithm, Any], dict[str, Any]]
) -> TrainedRun:
    """Train one run, without `run_dir` in a new folder."""
    made: list[Path] = []
    if config.run_dir is not None:
        folder = Path(config.run_dir)
    else:
        made = missing_parents(Path("runs"))
        players = entry.infer_rules(config).num_players
        folder = create_run(entry.name, num_players=players, preset=config.preset, seed=config.seed)
        made.insert(0, folder)
    try:
        summary = run(entry, dataclasses.replace(config, run_dir=str(folder)))
    except BaseException:
        remove_empty(made)
        raise
    final = getattr(config, "report_policy", "best") == "final"
    return TrainedRun(folder, summary, load_policy(folder / LATEST_POLICY if final else folder))


@dataclasses.dataclass(frozen=True)
class SelfPlayScores:
    """Scores of one agent in self-play."""

    name: str
    result: SelfPlayResult

    @property
    def mean(self) -> Interval:
        """Mean score with its 95% interval over decks: `mean`, `low`, `high`."""
        return self.result.summary.mean

    @property
    def games(self) -> Games:
        """The games."""
        return self.result.records

    def table(self) -> str:
        """The table that `hanabi-rl evaluate` prints."""
        return score_table([(self.name, self.result.summary)])

    __str__ = table


@with_fixed_settings(prng=True)
def evaluate(
    agent: Agent,
    games: int = 1000,
    seed: int = 0,
    *,
    game: Rules | Game | str | None = None,
    players: int | None = None,
    sample: bool = False,
) -> SelfPlayScores:
    """Play an agent in self-play, one game per deck.

    Args:
        seed: seed of the decks and of sampled actions.
        game: game of an agent that plays any game, or `NAME` or `NAME:VARIANT` of one; default:
            that of the trained agents, otherwise Hanabi.
        players: number of players of such an agent in Hanabi; default 2.
        sample: sample actions instead of taking the most likely; games other than Hanabi have
            their own default.
    """
    ((name, policy),) = _load([agent], players, game)
    return SelfPlayScores(name, evaluate_selfplay(policy, games, seed, sample=sample))


@dataclasses.dataclass(frozen=True)
class CrossPlayScores:
    """Scores of agents with each other. Row: the agent in one seat; column: all other seats."""

    matrix: CrossPlayMatrix

    @property
    def names(self) -> list[str]:
        """Names of the A agents, in the order of rows and columns."""
        return [agent.label for agent in self.matrix.agents]

    @property
    def means(self) -> np.ndarray:
        """Mean scores, float64[A, A]."""
        return self.matrix.means

    @cached_property
    def intervals(self) -> np.ndarray:
        """95% intervals over decks, float64[A, A, 2]: low, high."""
        return np.array([[cell.mean.bounds for cell in row] for row in self.matrix.cells])

    def table(self) -> str:
        """The tables that `hanabi-rl cross-play` prints."""
        return to_text(*matrix_parts(self.matrix))

    def save(self, folder: str | Path) -> None:
        """Write `matrix.csv`, `matrix.json` and `matrix.png`."""
        write_matrix(self.matrix, Path(folder))

    __str__ = table


@with_fixed_settings(prng=True)
def cross_play(
    agents: Sequence[Agent] | Mapping[str, Agent],
    games: int = 1000,
    seed: int = 0,
    *,
    game: Rules | Game | str | None = None,
    players: int | None = None,
    sample: bool = False,
    cache: str | Path | None = None,
) -> CrossPlayScores:
    """Play every agent with every other, on the same decks, at every seat.

    Args:
        agents: a list, or name in the table -> agent; a trained run has its folder's name.
        games: decks per cell, each with the row's agent at every seat.
        cache: folder for the games of each cell; further calls play only new cells.

    Other arguments are those of `evaluate`. Raises ValueError for agents of different games or an
    agent given twice.
    """
    chosen = list(agents) if isinstance(agents, Mapping) else None
    given = list(agents.values()) if isinstance(agents, Mapping) else agents
    loaded = _load(given, players, game)
    names, policies = chosen or [name for name, _ in loaded], [policy for _, policy in loaded]
    lineup = make_agents(policies, names, names)
    cells = None if cache is None else CellCache(Path(cache))
    return CrossPlayScores(play_matrix(lineup, EvalSetting(games, seed, sample), cache=cells))


@dataclasses.dataclass(frozen=True)
class GauntletScores:
    """Scores of one agent with unseen partners."""

    result: of_gauntlet.GauntletResult

    @property
    def name(self) -> str:
        """Name of the agent."""
        return self.result.agent

    @property
    def mean(self) -> float:
        """Mean over the partners' families."""
        return self._over_families()[0]

    @property
    def worst(self) -> float:
        """Mean score with the worst family."""
        return self._over_families()[1]

    @property
    def families(self) -> dict[str, Interval]:
        """Mean score with each family, with its 95% interval over series."""
        return self.result.families()

    @property
    def partners(self) -> dict[str, Interval]:
        """Mean score with each partner."""
        return {one.partner.name: one.mean for one in self.result.partner_results}

    def table(self) -> str:
        """The table that `hanabi-rl gauntlet` prints."""
        return to_text(*partner_parts(self.result)).lstrip("\n")

    __str__ = table

    def _over_families(self) -> tuple[float, float]:
        return self.result.family_summary() or (float("nan"), float("nan"))


@with_fixed_settings(prng=True)
def gauntlet(
    agent: Agent,
    games: int = 100,
    seed: int = 0,
    *,
    series: int | None = None,
    players: int | None = None,
    game: Rules | Game | str | None = None,
    families: Mapping[str, Sequence[str]] | None = None,
    validation: bool = False,
) -> GauntletScores:
    """Play an agent with unseen partners, bots and agents of every bundled family.

    Args:
        games: games per partner and seat, a multiple of `series`.
        series: games in a row with the same partner; None: 5, in games other than Hanabi 1.
        families: names of more partners by family, such as `{"clones": ["runs/bc"]}`.
        validation: partners for the selection of agents instead of those for reports.

    Other arguments are those of `evaluate`.
    """
    ((name, policy),) = _load([agent], players, game)
    series = of_gauntlet.default_series(policy.rules) if series is None else series
    if series < 1 or games % series:
        raise ValueError(f"games: expected a multiple of series={series}, got {games}")
    partners = of_gauntlet.gauntlet_partners(policy, families, validation)
    place = agent.run_dir if isinstance(agent, TrainedRun) else agent
    seen = training_partners(str(place)) if isinstance(place, str | Path) else ()
    return GauntletScores(
        of_gauntlet.run_gauntlet(name, policy, partners, seen, games // series, series, seed)
    )


def _load(
    agents: Sequence[Agent], players: int | None, game: Rules | Game | str | None = None
) -> list[tuple[str, Policy]]:
    """Agents of one game with unique names."""
    if isinstance(agents, str | Path):
        raise TypeError(f"expected a list of agents, got {agents!r}")
    runs = {id(run.policy): run.run_dir.name for run in agents if isinstance(run, TrainedRun)}
    agents = [agent.policy if isinstance(agent, TrainedRun) else agent for agent in agents]
    named = [str(agent) for agent in agents if isinstance(agent, str | Path)]
    fixed = [one for one in agents if not isinstance(one, str | Path | type)]
    rules = as_policy(fixed[0]).rules if fixed else None
    if isinstance(game, str) and (fixed or not named):
        rules = game_from_text(game, rules or Rules(num_players=players or 2))
    elif game is not None and not isinstance(game, str):
        rules = game
    if rules is not None:
        loaded = {name: load_policy(name, rules) for name in named}
    else:
        text = game if isinstance(game, str) else None
        loaded = dict(zip(named, load_agents(named, players, text), strict=True))
        rules = loaded[named[0]].rules if named else Rules(num_players=players or 2)
    if players not in (None, rules.num_players):
        raise ValueError(f"players: expected {rules.num_players} in this game, got {players}")
    labels = dict(zip(named, short_labels(named), strict=True))
    found: list[tuple[str, Policy]] = []
    for agent in agents:
        if isinstance(agent, str | Path):
            name, policy = labels[str(agent)], loaded[str(agent)]
        else:
            policy = as_policy(agent, rules)
            kind = agent if isinstance(agent, type) else type(agent)
            name = runs.get(id(agent)) or getattr(agent, "name", "") or kind.__name__
        taken = [other for other, _ in found]
        if name in taken and not isinstance(agent, str | Path):
            name = next(
                f"{name} {n}" for n in range(2, len(agents) + 2) if f"{name} {n}" not in taken
            )
        if game is not None and policy.rules != rules:
            raise ValueError(
                f"{name}: expected an agent of {rules.difference_from(policy.rules)}, got one of "
                f"{policy.rules.difference_from(rules)}"
            )
        found.append((name, policy))
    return found
