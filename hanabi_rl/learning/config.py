"""Learner settings: frozen dataclasses whose fields are command-line flags."""

import dataclasses
from typing import Annotated, Literal

import tyro

from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.registry import GameField
from hanabi_rl.learning.rewards import GameShaping, HanabiShaping, ShapingField
from hanabi_rl.learning.schedules import Course, course
from hanabi_rl.nn.networks import Schedule
from hanabi_rl.nn.precision import Precision
from hanabi_rl.storage.validation import (
    INT32_MAX,
    MAX_EXACT_INT,
    InvalidValueError,
    LearningRate,
    NonNegative,
    PositiveInt,
    Range,
    UnitInterval,
    validate_fields,
)


def _whole(text: str) -> float:
    """Parse `1e10` as an integer; other numbers stay floats, which `validate_fields` rejects."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return int(number) if number.is_integer() else number


_SCIENTIFIC_INT = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="INT",
    instance_from_str=lambda args: _whole(args[0]),
    is_instance=lambda instance: isinstance(instance, int),
    str_from_instance=lambda instance: [str(instance)],
)
Steps = Annotated[int, _SCIENTIFIC_INT, Range(1, MAX_EXACT_INT)]  # accepts 1e10
NonNegativeSteps = Annotated[int, _SCIENTIFIC_INT, Range(0, MAX_EXACT_INT)]


LRSchedule = Literal["linear", "cosine", "constant"]


def check_divides(what: str, value: int, by: str, divisor: int) -> None:
    """Raise ValueError if `divisor` does not divide `value`."""
    if value % divisor:
        raise ValueError(f"{what}={value} must be divisible by {by}={divisor}")


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Settings of every training run."""

    game: GameField = dataclasses.field(default_factory=Rules)
    """Game and its parameters; `--game NAME` selects another one than Hanabi."""
    precision: Precision = "auto"
    """Precision of matrix products in training. auto: bfloat16 where the hardware is faster with
    it."""

    def __post_init__(self) -> None:
        validate_fields(self)


@dataclasses.dataclass(frozen=True)
class RolloutConfig(TrainingConfig):
    """Settings of learners that collect rollouts; see `PPOConfig` for their values."""

    num_envs: PositiveInt = 1024
    """Environments that run in parallel."""
    num_steps: PositiveInt = 128
    """Timesteps per environment in one update."""
    total_steps: Steps = 10_000_000_000
    """Environment timesteps in total."""
    lr: LearningRate = 5e-4
    """Learning rate of Adam (Kingma & Ba 2015), at the start."""
    lr_schedule: LRSchedule = "linear"
    """Course of the learning rate from `lr` to `final_lr` over the run, in steps of one update
    (cosine: Loshchilov & Hutter 2017, eq. 5); constant: always `lr`."""
    final_lr: LearningRate = 0.0
    """Learning rate at the end of training."""
    gamma: UnitInterval = 0.99
    """Discount per environment timestep."""
    max_grad_norm: Annotated[float, Range(0.0, exclusive_low=True)] = 0.5
    """Maximum global norm of the gradient."""
    num_shuffle_blocks: PositiveInt = 8
    """Environments are shuffled within this many fixed blocks; must be divisible by the number of
    devices."""
    shaping: ShapingField = dataclasses.field(default_factory=HanabiShaping)
    """Training reward. Reported scores are always true scores."""
    current_player_only: bool = False
    """In Hanabi, compute a feed-forward network for the current player only, as structured networks
    always do; minibatches then omit partners' moves (`best_response`, `e3t`). Halves the work with
    2 players."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_hanabi, hanabis = isinstance(self.game, Rules), isinstance(self.shaping, HanabiShaping)
        if not is_hanabi and self.shaping == HanabiShaping():  # the default
            object.__setattr__(self, "shaping", GameShaping())
        elif is_hanabi != hanabis:
            wanted = "HanabiShaping" if is_hanabi else "GameShaping (the preset's [shaping])"
            raise ValueError(f"shaping: expected {wanted} for {self.game.name}, got {self.shaping}")
        if self.lr_schedule == "constant" and self.final_lr:
            raise ValueError(
                f"final_lr: expected 0 with a constant learning rate, got {self.final_lr:g}; "
                "choose --lr-schedule linear or cosine"
            )
        check_divides("num_envs", self.num_envs, "num_shuffle_blocks", self.num_shuffle_blocks)
        # optax counts gradient steps in 32 bits: past that the learning rate would stop falling
        steps = self.gradient_steps_per_update
        if self.num_updates > INT32_MAX // steps:
            most = (INT32_MAX // steps + 1) * self.num_envs * self.num_steps - 1
            raise InvalidValueError(
                "total_steps",
                f"expected at most {most:,} with {self.num_envs} x {self.num_steps} and "
                f"{steps} minibatches in an update, got {self.total_steps:,}",
            )

    @property
    def gradient_steps_per_update(self) -> int:
        """Steps of the optimiser in one update."""
        raise NotImplementedError

    @property
    def updates_without_steps(self) -> int:
        """Updates before the first step of the optimiser."""
        return 0

    @property
    def num_updates(self) -> int:
        """Updates in the whole run, at least one."""
        return max(1, self.total_steps // (self.num_envs * self.num_steps))


@dataclasses.dataclass(frozen=True)
class PPOConfig(RolloutConfig):
    """PPO settings. Defaults: AH2AC2's 1,000-game HDR-IPPO baseline (Table 14)."""

    gae_lambda: UnitInterval = 0.95
    """Trace decay of generalised advantage estimation (Schulman et al. 2016, eq. 16)."""
    td_error: Literal["standard", "as-published"] = "standard"
    """Temporal-difference error. as-published: reward + gamma + next value, the error in AH2AC2's
    HDR-IPPO trainer (docs/ah2ac2.md); standard: reward + gamma * next value."""
    clip_eps: Annotated[float, Range(0.0, exclusive_low=True)] = 0.2
    """Clipping range of the probability ratio (Schulman et al. 2017, eq. 7)."""
    final_clip_eps: Annotated[float, Range(0.0, exclusive_low=True)] | None = None
    """Clipping range at the end of training, reached along `coef_schedule`; None: `clip_eps`."""
    clip_value: bool = True
    """Clip the critic's change to `clip_eps` points of its previous estimate."""
    value_coef: NonNegative = 0.5
    """Weight of the value loss (Schulman et al. 2017, eq. 9: c1)."""
    entropy_coef: NonNegative = 1e-3
    """Weight of the entropy bonus (Schulman et al. 2017, eq. 9: c2)."""
    final_entropy_coef: NonNegative | None = None
    """Weight of the entropy bonus at the end of training, reached along `coef_schedule`; None:
    `entropy_coef`."""
    coef_schedule: Schedule = "linear"
    """Course of the fields with a `final_` value, except for the learning rate, over the run."""
    epochs: PositiveInt = 4
    """Passes over each rollout."""
    num_minibatches: PositiveInt = 4
    """Minibatches per epoch."""
    privileged_critic: bool = False
    """Let the critic, which no policy contains, read the true cards of the seat's own hand."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.privileged_critic and not isinstance(self.game, Rules):
            raise ValueError(
                f"privileged_critic: expected False in {self.game.name}, which has no hidden hands"
            )
        actors = self.num_envs // self.num_shuffle_blocks * self.game.num_players
        check_divides(
            "num_envs / num_shuffle_blocks * num_players",
            actors,
            "num_minibatches",
            self.num_minibatches,
        )

    def course(self, name: str) -> Course:
        """Course of the field `name` over training: constant, or to `final_NAME`."""
        return course(self.coef_schedule, getattr(self, name), getattr(self, f"final_{name}"))

    @property
    def gradient_steps_per_update(self) -> int:
        """See `RolloutConfig`."""
        return self.epochs * self.num_minibatches
