"""What the learners can be told; frozen dataclasses, whose fields are flags of the command line."""

import dataclasses
from typing import Annotated, Literal

import tyro

from hanabi_rl.games.hanabi.rules import Rules
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
    """`1e10` as the whole number that it is; what is none is left for `validate_fields` to
    refuse."""
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


def check_divides(what: str, value: int, by: str, divisor: int) -> None:
    """Raises ValueError where `divisor` does not divide `value`."""
    if value % divisor:
        raise ValueError(f"{what}={value} must be divisible by {by}={divisor}")


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """What every training decides."""

    game: Annotated[Rules, tyro.conf.arg(name="")] = dataclasses.field(default_factory=Rules)
    precision: Precision = "auto"
    """Of the factors of matrix products in training; auto: bfloat16 where the hardware multiplies
    it faster."""

    def __post_init__(self) -> None:
        validate_fields(self)


@dataclasses.dataclass(frozen=True)
class PPOConfig(TrainingConfig):
    """The PPO core; the defaults are AH2AC2's 1,000-game HDR-IPPO baseline (Table 14)."""

    num_envs: PositiveInt = 1024
    num_steps: PositiveInt = 128
    """Environment timesteps of each environment in one update."""
    total_steps: Steps = 10_000_000_000
    """Environment timesteps in all."""
    lr: LearningRate = 5e-4
    lr_schedule: Literal["linear", "constant"] = "linear"
    """linear: falls to 0 over the run, constant within an update."""
    gamma: UnitInterval = 0.99
    gae_lambda: UnitInterval = 0.95
    td_error: Literal["standard", "as-published"] = "standard"
    """as-published: reward + gamma + next estimate, where reward + gamma * next estimate is meant:
    the slip of AH2AC2's HDR-IPPO trainer (docs/ah2ac2.md)."""
    clip_eps: Annotated[float, Range(0.0, exclusive_low=True)] = 0.2
    clip_value: bool = True
    """Whether the critic, too, is held within `clip_eps` (points) of its former estimate."""
    value_coef: NonNegative = 0.5
    entropy_coef: NonNegative = 1e-3
    max_grad_norm: Annotated[float, Range(0.0, exclusive_low=True)] = 0.5
    epochs: PositiveInt = 4
    num_minibatches: PositiveInt = 4
    num_shuffle_blocks: PositiveInt = 8
    """Actors are shuffled within this many fixed blocks of environments; the number of devices must
    divide it."""
    keep_points: bool = False
    """Train on a return that keeps the points on the last life (what is reported never does) and
    fades to the true score: see `shaping_anneal_start` and `shaping_anneal_end`."""
    life_cost: NonNegative = 0.0
    """Points that a lost life costs in the training return; it fades as `keep_points` does."""
    shaping_anneal_start: UnitInterval = 0.0
    """The share of training after which `keep_points` and `life_cost` begin to fade, linearly."""
    shaping_anneal_end: UnitInterval = 1.0
    """The share of training from which the return is the true score."""
    teaming_weight: float = 0.0
    """Points in the training return for each constructive link (Biswas et al.): a card that scores
    brings as much again for its colour if a hint had named it, and for its rank (below 0 it costs
    as much: cards are played on less); all through training."""
    g1_weight: float = 0.0
    """Points in the training return for a discard of a card known to be playable (less than 0 to
    discourage it), ..."""
    g2_weight: float = 0.0
    """... for a play of a card known not to be playable, ..."""
    g3_weight: float = 0.0
    """... and for a play of a card known to be (Siu et al. 2025); all through training."""
    privileged_critic: bool = False
    """The critic, which is in no policy, also sees the true cards of the seat's own hand."""
    current_player_only: bool = False
    """A feed-forward network reads for the seat to move alone, as structured ones always do, and
    minibatches then leave partners' moves out (`best_response`, `e3t`, ...): each spares with two
    players half of the work."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divides("num_envs", self.num_envs, "num_shuffle_blocks", self.num_shuffle_blocks)
        if not 0.0 <= self.shaping_anneal_start <= self.shaping_anneal_end <= 1.0:
            raise ValueError(
                "shaping_anneal_start, shaping_anneal_end: expected 0 <= shaping_anneal_start <= "
                "shaping_anneal_end <= 1,"
                f" got {self.shaping_anneal_start}, {self.shaping_anneal_end}"
            )
        actors = self.num_envs // self.num_shuffle_blocks * self.game.num_players
        check_divides(
            "num_envs / num_shuffle_blocks * num_players",
            actors,
            "num_minibatches",
            self.num_minibatches,
        )
        # optax counts them in 32 bits and stops there: the rate would fall no further
        minibatches = self.epochs * self.num_minibatches
        if self.num_updates > INT32_MAX // minibatches:
            most = (INT32_MAX // minibatches + 1) * self.num_envs * self.num_steps - 1
            raise InvalidValueError(
                "total_steps",
                f"expected at most {most:,} with {self.num_envs} x {self.num_steps} and "
                f"{minibatches} minibatches in an update, got {self.total_steps:,}",
            )

    @property
    def num_updates(self) -> int:
        """Updates in the whole run (at least one)."""
        return max(1, self.total_steps // (self.num_envs * self.num_steps))
