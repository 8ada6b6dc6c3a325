"""Comparison of zero-shot coordination methods on unseen partners, trained by one command.

ZSC-Eval (Wang et al., arXiv 2310.05208), section 5. Behaviour-preferring pairs are trained; the
most diverse are selected and get best responses. Methods: self-play (SP), a best response to
self-play checkpoints (FCP), a best response to biased partners and such checkpoints (HSP, without
MEP), best responses to members of a diverse population and their checkpoints (MEP, TrajeDi), E3T,
COLE and Any-Play. Finished runs are not repeated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.training_partners import with_total_steps
from hanabi_rl.evaluation.measure.diversity import diversity, farthest, select
from hanabi_rl.evaluation.measure.matrix import EvalSetting
from hanabi_rl.evaluation.measure.partner_set import behaviour_features, read_partners, viable
from hanabi_rl.evaluation.reporting.tables import Part, text_rows, to_text
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.registry import game_from_flag
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.launch.train_partner_set import MEASURED, SELECTED, train_set
from hanabi_rl.learning.config import Steps
from hanabi_rl.runs.run_dir import EVALUATED, LATEST_POLICY, METRICS, member_folders
from hanabi_rl.runs.tracking import read_metrics
from hanabi_rl.storage.files import check_writable
from hanabi_rl.storage.validation import (
    BoundedCount,
    LearningRate,
    PositiveInt,
    Range,
    Seed,
    validate_fields,
)
from hanabi_rl.storage.words import count

_MEMBERS = 1000
"""First seed of population members: with an equal seed, a learner would start as its partner
did."""
Method = Literal["SP", "FCP", "HSP", "E3T", "MEP", "TrajeDi", "COLE", "Any-Play"]
_PRIORITY_EXPONENT = 0.5  # of MEP's second stage, in the paper


@dataclasses.dataclass(frozen=True)
class ZeroShot:
    """Compare zero-shot coordination methods on unseen partners."""

    out: str = "runs/zero-shot"
    """Folder of all runs."""
    preset: str = "small-structured"
    """Preset of behaviour_preferring, best_response and the methods' algorithms (Any-Play's
    networks are feed-forward)."""
    methods: tuple[Method, ...] = get_args(Method)
    """Methods to compare: SP, FCP, HSP, E3T, MEP, TrajeDi, COLE, Any-Play."""
    game: str | None = None
    """Game NAME or NAME:VARIANT, such as overcooked:forced_coordination or hanabi?num_players=3;
    None: the preset's."""
    num_pairs: PositiveInt = 16
    """Number of candidate pairs."""
    partners: PositiveInt = 4
    """Number of selected evaluation partners; as many mid-skill partners are added."""
    runs: Annotated[int, Range(1, _MEMBERS)] = 3
    """Training seeds per method."""
    selfplay_runs: int = 4
    """Self-play runs in FCP's population, and members of MEP's and TrajeDi's, each at its start,
    middle and end. HSP has half as many runs, and three biased partners per replaced run."""
    pair_steps: Steps = 600_000
    """Environment steps of each learner of a pair."""
    response_steps: Steps = 600_000
    """Environment steps of a best response to one partner."""
    selfplay_steps: Steps = 600_000
    """Environment steps of SP and of each population member."""
    agent_steps: Steps = 1_000_000
    """Environment steps of E3T, COLE, Any-Play and best responses to populations."""
    lr: LearningRate = 1e-3
    """Learning rate of all runs."""
    games: BoundedCount = 1000
    """Decks per seat in all evaluations."""
    seed: Seed = 0
    """Seed of candidates, partner selection and decks. Methods have seeds 0 to `runs` - 1,
    population members 1000 and above."""

    def __post_init__(self) -> None:
        validate_fields(self)
        if self.selfplay_runs < 2 or self.selfplay_runs % 2:
            raise ValueError(
                f"selfplay_runs: expected an even number from 2, got {self.selfplay_runs}"
            )
        if not self.methods:
            raise ValueError("methods: expected at least one method, got none")


_EVAL_EVERY = 12  # updates of a self-play run


class ComparisonRuns:
    """Runs of one comparison, each trained on first use."""

    def __init__(self, config: ZeroShot) -> None:
        self.config, self.folder = config, Path(config.out)
        self._needed = set[Path]()
        """Runs of the agent that `agent` makes."""

    def agent(self, method: Method, seed: int) -> tuple[Path, float]:
        """Run folder of an agent, and minutes of training, that of its population included."""
        self._needed.clear()
        run = self.methods[method](seed)
        return run, sum(map(training_minutes, self._needed))

    @property
    def methods(self) -> dict[Method, Callable[[int], Path]]:
        """Method -> the run folder of a seed."""
        return {
            "SP": self.selfplay,
            "FCP": self.fcp,
            "HSP": self.hsp,
            "E3T": partial(self.without_partners, "e3t"),
            "MEP": self.mep,
            "TrajeDi": self.trajedi,
            "COLE": partial(self.without_partners, "cole"),
            # its network is computed for every player
            "Any-Play": partial(self.without_partners, "any_play", current_player_only=False),
        }

    def algorithms(self) -> list[str]:
        """Algorithms whose presets the comparison reads."""
        names = {name.replace("-", "_").lower() for name in self.config.methods}
        chosen = sorted(names & {"e3t", "mep", "trajedi", "cole", "any_play"})
        return ["behaviour_preferring", "best_response", "ippo", *chosen]

    def make(self, algorithm: str, name: str, steps: int, **fields: Any) -> Path:
        """Run folder of an algorithm's preset with these fields."""
        base = self.base(algorithm, steps)
        config = dataclasses.replace(base, run_dir=str(self.folder / name), **fields)
        run_once(algorithm, config)
        run = self.folder / name
        self._needed.add(run)
        return run

    def base(self, algorithm: str, steps: int) -> Any:
        """Preset of an algorithm with the settings of all runs of the comparison."""
        base = preset_config(algorithm, self.config.preset)
        if self.config.game is not None:
            base = dataclasses.replace(base, game=game_from_flag(self.config.game, base.game))
        fields = {"eval_games": 256, "report_games": 512} if isinstance(base.game, Rules) else {}
        if algorithm == "behaviour_preferring":
            fields.pop("report_games", None)
        return dataclasses.replace(
            with_total_steps(base, steps),
            lr=self.config.lr,
            seed=self.config.seed,
            current_player_only=True,
            tensorboard=False,
            **fields,
        )

    def pairs(self) -> Path:
        """Candidates file."""
        config = self.config
        pairs = {"num_pairs": config.num_pairs}
        run = self.make("behaviour_preferring", "pairs", config.pair_steps, **pairs)
        return run / "candidates.json"

    def partners(self) -> Path:
        """Selected partners with best responses."""
        config = self.config
        return train_set(
            self.pairs(),
            config.partners,
            self.folder / "partners",
            self.base("best_response", config.response_steps),
            EvalSetting(config.games, config.seed, False),
        )

    def selfplay(self, seed: int) -> Path:
        """Self-play run with its checkpoints."""
        return self.make(
            "ippo",
            f"sp/s{seed}",
            self.config.selfplay_steps,
            seed=seed,
            save_evaluated=True,
            eval_every=_EVAL_EVERY,
        )

    def train_with_population(
        self, name: str, seed: int, partners: Sequence[str], **fields: Any
    ) -> Path:
        """Best response to a population."""
        base = self.base("best_response", self.config.agent_steps)
        hanabi = isinstance(base.game, Rules)
        # Overcooked's updates are small, as in its presets
        num_steps, blocks = (32, base.num_shuffle_blocks) if hanabi else (64, 1)
        num_envs = (16 if hanabi else 4) * len(partners)
        return self.make(
            "best_response",
            f"{name}/s{seed}",
            self.config.agent_steps,
            seed=seed,
            partners=tuple(partners),
            num_envs=num_envs,
            num_steps=num_steps,
            num_shuffle_blocks=blocks,
            # fewer where the number of partners is odd: rows must divide
            num_minibatches=math.gcd(
                base.num_minibatches, num_envs // blocks * base.game.num_players
            ),
            eval_every=10_000,
            eval_games=64,
            report_games=64,
            **fields,
        )

    def population_checkpoints(self, first: int, count: int) -> list[str]:
        """Checkpoints of a window of self-play runs that belong to no method."""
        window = range(_MEMBERS + first, _MEMBERS + first + count)
        return [policy for seed in window for policy in skill_checkpoints(self.selfplay(seed))]

    def fcp(self, seed: int) -> Path:
        """FCP: a window of self-play runs that moves with the seed."""
        return self.train_with_population(
            "fcp", seed, self.population_checkpoints(seed, self.config.selfplay_runs)
        )

    def hsp(self, seed: int) -> Path:
        """HSP: half of FCP's window, and biased partners that are not evaluation partners."""
        half = self.config.selfplay_runs // 2
        biased = self.biased(3 * half, seed)
        return self.train_with_population(
            "hsp", seed, biased + self.population_checkpoints(seed, half)
        )

    def biased(self, count: int, seed: int) -> list[str]:
        """Biased partners with the most diverse events, among viable ones not selected for
        evaluation."""
        found = read_partners(self.folder / "partners" / MEASURED).partners
        chosen = {p.agent for p in read_partners(self.folder / "partners" / SELECTED).partners}
        rules = load_policy(found[0].agent).rules
        rest = [p for p in viable(found, rules) if p.agent not in chosen]
        if not rest:
            raise ValueError(
                f"--num-pairs: expected more viable pairs than --partners {self.config.partners}, "
                "as HSP trains with the others, got none"
            )
        features = behaviour_features(rest, "p-div", rules)
        members = farthest(features, min(count, len(rest)), np.random.default_rng(seed))
        return [rest[member].agent for member in members]

    def without_partners(self, algorithm: str, seed: int, **fields: Any) -> Path:
        """Run of an algorithm that needs no trained partners."""
        steps = self.config.agent_steps
        return self.make(
            algorithm, f"{algorithm}/s{seed}", steps, seed=seed, eval_every=10_000, **fields
        )

    def mep(self, seed: int) -> Path:
        """MEP: low-scoring members are met more often."""
        members = self.diverse_population("mep", seed)
        return self.train_with_population(
            "mep", seed, members, priority_exponent=_PRIORITY_EXPONENT
        )

    def trajedi(self, seed: int) -> Path:
        """TrajeDi, with the best response in a second stage."""
        return self.train_with_population("trajedi", seed, self.diverse_population("trajedi", seed))

    def diverse_population(self, algorithm: str, seed: int) -> list[str]:
        """Checkpoints of the members of a population of this seed."""
        run = self.make(
            algorithm,
            f"{algorithm}/members-s{seed}",
            self.config.selfplay_steps,
            seed=_MEMBERS + seed,
            members=self.config.selfplay_runs,
            eval_every=_EVAL_EVERY,
        )
        return [name for folder in member_folders(run) for name in skill_checkpoints(folder)]


def skill_checkpoints(run_dir: Path) -> list[str]:
    """A run's policies before the first update, at half skill and at the end. Half skill: score
    nearest to half of the last score."""
    steps = sorted(int(folder.name) for folder in (run_dir / EVALUATED).iterdir())
    folders = [run_dir / EVALUATED / str(step) for step in steps]
    scores = []
    for folder in folders:
        policy = load_policy(folder)
        assert isinstance(policy, NetworkPolicy), "a run saved it"
        scores.append(policy.info.score or 0.0)
    middle = min(range(1, len(steps) - 1), key=lambda i: abs(scores[i] - scores[-1] / 2))
    return [str(folders[place]) for place in (0, middle, -1)]


def training_minutes(run: Path) -> float:
    """Minutes of training of a run, sessions that were stopped included."""
    return float(read_metrics(run / METRICS)[-1]["wall_s"]) / 60


def run_zero_shot(config: ZeroShot) -> tuple[list[str], dict[str, float]]:
    """Train missing runs; return the arguments of `hanabi-rl br-prox` that compare the agents, and
    each method's mean minutes of training (HSP's without the pairs). Raises ValueError and
    RunStopped as the runs."""
    runs = ComparisonRuns(config)
    check_writable("--out", runs.folder)
    for algorithm in runs.algorithms():  # a missing preset is reported before training
        runs.base(algorithm, config.agent_steps)
    updates = runs.base("ippo", config.selfplay_steps).num_updates
    if updates <= _EVAL_EVERY:
        raise ValueError(
            f"--selfplay-steps: expected more than {_EVAL_EVERY} updates, for checkpoints between "
            f"the first and the last, got {config.selfplay_steps:,} steps, {updates} updates"
        )
    runs.folder.mkdir(parents=True, exist_ok=True)
    partners = runs.partners()
    agents: list[str] = []
    groups: list[str] = []
    minutes: dict[str, float] = {}
    for name in dict.fromkeys(config.methods):
        made = [runs.agent(name, seed) for seed in range(config.runs)]
        latest = [str(run / LATEST_POLICY) for run, _ in made]
        agents += latest
        groups.append(f"{name}={','.join(latest)}")
        minutes[name] = float(np.mean([spent for _, spent in made]))
    arguments = [
        *agents,
        *("--partners", str(partners)),
        *("--games", str(config.games)),
        *("--seed", str(config.seed)),
        *("--plot", str(runs.folder / "br-prox.png")),
        *("--group", *groups),
    ]
    return arguments, minutes


def diversity_table(measured: Path, sizes: Sequence[int] = range(2, 9)) -> str:
    """BR-Div of partners selected by BR-Div (best responses' events) and by P-Div (own events). One
    line per number of partners that both can select."""
    found = read_partners(measured).partners
    rules = load_policy(found[0].agent).rules
    usable = viable(found, rules)
    features = {by: behaviour_features(usable, by, rules) for by in ("br-div", "p-div")}
    rows: list[Sequence[str]] = [("partners", "by BR-Div", "by P-Div", "ratio")]
    max_size = min(np.linalg.matrix_rank(of) for of in features.values())
    for size in (size for size in sizes if size <= max_size):
        members = {by: select(of, size).members for by, of in features.items()}
        best, other = (diversity(features["br-div"], members[by]) for by in ("br-div", "p-div"))
        rows.append((f"{size}", f"{best:.4g}", f"{other:.4g}", f"{other / best:.2f}"))
    number = f"{len(usable)} of {count(len(found), 'candidate')}"
    return to_text(number, text_rows(rows, left=False))


def rank_table(figures: Mapping[str, Any], minutes: Mapping[str, float]) -> str:
    """Rank of each method among the others, averaged over partners (1: highest mean J / J_BR), and
    minutes of training."""
    methods = figures["scores"]["methods"]
    means = np.array([found["mean_by_partner"] for found in methods.values()])
    ranks = 1 + (means[None] > means[:, None]).sum(axis=1)  # [method, partner]
    rows: list[Sequence[str]] = [("method", "mean rank", "first with", "minutes")]
    for name, of_method in zip(methods, ranks, strict=True):
        first = f"{(of_method == 1).sum()} of {len(of_method)}"
        rows.append((name, f"{of_method.mean():.2f}", first, f"{minutes[name]:.1f}"))
    parts: list[Part] = [text_rows(rows, left=False)]
    partners = figures["scores"].get("partners", ())
    if zero := sum(max(partner["best_response_return"]) <= 0 for partner in partners):
        parts.append(
            f"{zero} of {len(partners)} partners have a J_BR of 0: every method is first with them."
        )
    return to_text(*parts)
