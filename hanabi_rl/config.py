"""Configuration: frozen dataclasses that are the command line (tyro), the presets (TOML) and a
run's `config.json`.

A preset is read first, then every field is a flag. `from_dict(cls, to_dict(config)) == config` for
every config.
"""

import dataclasses
import sys
import tomllib
import types
import typing
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro

from hanabi_rl.env.rules import Rules
from hanabi_rl.nn.networks import FEED_FORWARD, NetworkConfig
from hanabi_rl.nn.precision import Precision
from hanabi_rl.runs.folder import check_resumable, read_config

T = TypeVar("T")

MAY_DIFFER_ON_RESUME = (
    "resume",
    "run_dir",
    "multi_host",
    "total_steps",
    "tensorboard",
    "wandb",
    "log_every",
)

_SCIENTIFIC_INT = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="INT",
    instance_from_str=lambda args: int(float(args[0])),
    is_instance=lambda instance: isinstance(instance, int),
    str_from_instance=lambda instance: [str(instance)],
)
Steps = Annotated[int, _SCIENTIFIC_INT]  # accepts 1e10


def _positive(config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{name}: expected at least 1, got {getattr(config, name)}")


def _divides(what: str, value: int, by: str, divisor: int) -> None:
    if value % divisor:
        raise ValueError(f"{what}={value} must be divisible by {by}={divisor}")


@dataclasses.dataclass(frozen=True)
class GameConfig:
    """The game to play; None stands for the standard rules' value at that number of players."""

    num_players: int = 2
    num_colors: int = 5
    num_ranks: int = 5
    hand_size: int | None = None
    max_info_tokens: int = 8
    max_life_tokens: int = 3

    def rules(self) -> Rules:
        """The resolved rules. Raises ValueError (from `Rules`) for a game that cannot be dealt."""
        return Rules(**dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """What every training script has."""

    game: Annotated[GameConfig, tyro.conf.arg(name="")] = GameConfig()
    preset: str | None = None
    """configs/<algo>/<NAME>.toml or a file; read before the other flags."""
    seed: int = 0
    seeds: tuple[int, ...] = ()
    """Run once per seed, one after another, and print a table over them (instead of --seed)."""
    run_dir: str | None = None
    """Where the run is written; default runs/<algo>-<players>p-<preset>-s<seed>-<UTC time>."""
    resume: bool = False
    """Continue the run in --run-dir from its newest good checkpoint."""
    precision: Precision = "auto"
    """Of the factors of matrix products in training; auto: bfloat16 where the hardware multiplies
    it faster."""
    multi_host: bool = False
    """This process is one of several hosts' that train together (docs/scaling.md)."""
    tensorboard: bool = True
    wandb: bool = False
    """Also log to Weights & Biases (pip install 'hanabi-rl[wandb]')."""
    report_games: int = 5000
    """Greedy games, on decks never used for selection, behind each reported score."""


@dataclasses.dataclass(frozen=True)
class BCTraining:
    """Behavioural cloning (AH2AC2 A.3); the defaults are the 1,000-game two-player baseline of
    Table 14."""

    data: tuple[str, ...] = ()
    """Game files to clone (.safetensors, hanab.live .json/.jsonl). None: games of our own
    convention bot."""
    val: tuple[str, ...] = ()
    """Game files for validation. None: a tenth of the games, split by deck."""
    demo_games: int = 1000
    """How many bot games to clone when no data is given."""
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    batch_size: int = 32
    """Games in a minibatch (each gives one trajectory per player)."""
    epochs: int = 70
    lr: float = 5e-3
    final_lr: float = 1e-4
    """The rate falls linearly from lr to final_lr, which it keeps for the last 10% of training."""
    weight_decay: float = 1e-4
    """AdamW's decay as in AH2AC2's code; 0 is Adam, as in the paper."""
    permute_colors: bool = True
    """One uniform colour permutation per game and epoch."""
    selfplay_games: int = 5000
    """Greedy self-play games behind each model selection."""
    selfplay_every: int = 1
    """Epochs between self-play evaluations (the last epoch is always evaluated)."""

    def __post_init__(self) -> None:
        _positive(self, "demo_games", "batch_size", "epochs", "selfplay_games", "selfplay_every")


@dataclasses.dataclass(frozen=True)
class BCConfig(BCTraining, RunConfig):
    """train/bc.py"""


@dataclasses.dataclass(frozen=True)
class PPOConfig(RunConfig):
    """The PPO core; the defaults are AH2AC2's 1,000-game HDR-IPPO baseline (Table 14)."""

    num_envs: int = 1024
    num_steps: int = 128
    """Environment timesteps of each environment in one update."""
    total_steps: Steps = 10_000_000_000
    """Environment timesteps in all."""
    lr: float = 5e-4
    lr_schedule: Literal["linear", "constant"] = "linear"
    """linear: falls to 0 over the run, constant within an update."""
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_eps: float = 0.2
    value_coef: float = 0.5
    entropy_coef: float = 1e-3
    max_grad_norm: float = 0.5
    epochs: int = 4
    num_minibatches: int = 4
    num_blocks: int = 8
    """Actors are shuffled within this many fixed blocks of environments; the number of devices must
    divide it."""
    loss_average: Literal["timesteps", "decisions"] = "timesteps"
    """timesteps: every term is averaged over all seat-timesteps (AH2AC2); decisions: actor terms
    over decisions only."""
    critic_warmup_updates: int = 0
    """First train the critic alone for this many updates."""
    eval_every: int = 100
    """Updates between greedy self-play evaluations."""
    eval_games: int = 512
    save_every: int = 100
    """Updates between checkpoints."""
    log_every: int = 1
    """Updates between metric lines."""
    report_policy: Literal["best", "final"] = "best"
    """Which policy is reported: the best of the evaluations (`policy/`), or the last
    (`policy-latest/`)."""

    def __post_init__(self) -> None:
        _positive(
            self, "num_envs", "num_steps", "total_steps", "epochs", "num_minibatches", "num_blocks",
            "eval_every", "eval_games", "save_every", "log_every",
        )  # fmt: skip
        _divides("num_envs", self.num_envs, "num_blocks", self.num_blocks)
        actors = self.num_envs // self.num_blocks * self.game.num_players
        _divides(
            "num_envs / num_blocks * num_players", actors, "num_minibatches", self.num_minibatches
        )

    @property
    def num_updates(self) -> int:
        """Updates in the whole run (at least one)."""
        return max(1, self.total_steps // (self.num_envs * self.num_steps))


@dataclasses.dataclass(frozen=True)
class IPPOConfig(PPOConfig):
    """train/ippo.py; train/other_play.py"""

    lr_schedule: Literal["linear", "constant"] = "constant"
    """linear: falls to 0 over the run, constant within an update."""
    entropy_coef: float = 0.01
    network: NetworkConfig = FEED_FORWARD


@dataclasses.dataclass(frozen=True)
class WithClone:
    """What a learner has that needs a cloned policy."""

    bc_policy: str | None = None
    """A BC run, policy folder or ah2ac2:FILE. None: train one first."""
    bc_select: Literal["accuracy", "selfplay"] = "accuracy"
    """Which of the BC run's two policies: best validation accuracy or best self-play."""
    bc: BCTraining = BCTraining()


@dataclasses.dataclass(frozen=True)
class BRBCConfig(WithClone, IPPOConfig):
    """train/br_bc.py"""

    anneal_start: Steps = 1_000_000_000
    """Environment timesteps of pure self-play."""
    anneal_end: Steps = 6_000_000_000
    """Environment timesteps after which one seat alone is the learner's in every game."""
    report_policy: Literal["best", "final"] = "final"
    """Which policy is reported: the best with the clone (`policy/`), or the last
    (`policy-latest/`)."""
    lineup: Literal["independent", "all-or-none"] = "independent"
    """Three players and more: whether the clone takes each other seat by itself, or all of them
    together (AH2AC2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.anneal_start <= self.anneal_end:
            raise ValueError(
                f"anneal_start, anneal_end: expected 0 <= start <= end, got {self.anneal_start}, "
                f"{self.anneal_end}"
            )


@dataclasses.dataclass(frozen=True)
class HDRIPPOConfig(WithClone, PPOConfig):
    """train/hdr_ippo.py"""

    kl_weight: float = 0.25
    """The loss is (1 - kl_weight) * IPPO + kl_weight * KL(BC || policy) (AH2AC2 eq. 2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.kl_weight <= 1.0:
            raise ValueError(f"kl_weight: expected a weight in [0, 1], got {self.kl_weight}")


def to_dict(config: Any) -> dict[str, Any]:
    """A config as JSON-ready nested dictionaries (tuples as lists)."""
    return {
        f.name: to_dict(v) if dataclasses.is_dataclass(v := getattr(config, f.name)) else _plain(v)
        for f in dataclasses.fields(config)
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def from_dict(
    cls: type[T], data: dict[str, Any], default: T | None = None, where: str = "config"
) -> T:
    """Builds a config from nested dictionaries holding all or some of its fields.

    Args:
        cls: the dataclass to build.
        data: field name -> value; a nested config is a dictionary of its own.
        default: supplies the fields that `data` leaves out.
        where: named in errors.

    Raises:
        ValueError: an unknown field, or a value of the wrong type, named with its place.
    """
    hints = typing.get_type_hints(cls)
    known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - known):
        raise ValueError(
            f"{where}: unknown field {unknown[0]!r}; expected one of {', '.join(sorted(known))}"
        )
    base = default if default is not None else cls()
    changes: dict[str, Any] = {}
    for name, value in data.items():
        place = f"{where}.{name}"
        if dataclasses.is_dataclass(current := getattr(base, name)) and isinstance(value, dict):
            changes[name] = from_dict(type(current), value, current, place)
        else:
            changes[name] = _checked(value, hints[name], place)
    return dataclasses.replace(base, **changes)  # type: ignore[type-var]


def _checked(value: Any, hint: Any, place: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        return _checked(value, next(a for a in args if a is not type(None)), place)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_checked(v, args[0], f"{place}[{i}]") for i, v in enumerate(value))
    if origin is Literal:
        if value in args:
            return value
        raise ValueError(f"{place}: expected one of {', '.join(map(repr, args))}, got {value!r}")
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, float) and hint is int and value.is_integer():
        return int(value)
    if (
        not isinstance(hint, type)
        or not isinstance(value, hint)
        or (isinstance(value, bool) and hint is not bool)
    ):
        raise ValueError(f"{place}: expected {getattr(hint, '__name__', hint)}, got {value!r}")
    return value


def load_preset(cls: type[T], algo: str, name: str, configs: Path) -> T:
    """The config that a preset describes.

    Args:
        cls: the config class of the training script.
        algo: the folder of `configs` that holds its presets.
        name: a preset's name, or the path of a .toml file.
        configs: the project's `configs` folder.

    In a preset, `bc = "NAME"` stands for the contents of configs/bc/NAME.toml.

    Raises:
        FileNotFoundError: no such preset; the error lists those there are.
        ValueError: an unknown field or a wrong type, with file and field.
    """
    data = _read_preset(algo, name, configs)
    if isinstance(bc := data.get("bc"), str):
        data["bc"] = {
            k: v
            for k, v in _read_preset("bc", bc, configs).items()
            if k not in ("game", "report_games")
        }
    config = from_dict(cls, data, where=f"{algo}/{name}")
    return dataclasses.replace(config, preset=name)  # type: ignore[type-var]


def _read_preset(algo: str, name: str, configs: Path) -> dict[str, Any]:
    path = Path(name) if name.endswith(".toml") else configs / algo / f"{name}.toml"
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in (configs / algo).glob("*.toml"))) or "none"
        raise FileNotFoundError(f"--preset {name}: no file {path}; presets of {algo}: {names}")
    with path.open("rb") as file:
        try:
            return tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: not a TOML file: {error}") from error


def saved_config(cls: type[T], run_dir: Path, *, algo: str) -> T:
    """The config of the run in `run_dir`; a field that it does not know yet has its default.

    Raises ValueError as `read_config` and `from_dict` do.
    """
    return from_dict(cls, read_config(run_dir, algo=algo), where=str(run_dir / "config.json"))


def check_saved_config(
    config: Any, run_dir: Path, *, algo: str, may_differ: Collection[str]
) -> None:
    """Raises ValueError where `config` is not that of the run in `run_dir`, but for the fields that
    may differ."""
    check_resumable(
        to_dict(saved_config(type(config), run_dir, algo=algo)),
        to_dict(config),
        may_differ=may_differ,
    )


def parse_args(
    cls: type[T], algo: str, configs: Path, default_preset: str, args: Sequence[str] | None = None
) -> T:
    """A training script's config: the preset (`default_preset` where --preset is not given), then
    the flags.

    With --resume the config is the run's own; only its length and its logging may be changed.

    Raises:
        ValueError: --resume without --run-dir, or with a flag that changes what the run computes.
    """
    args = sys.argv[1:] if args is None else args
    if "--resume" not in args:
        default = load_preset(cls, algo, flag_value("--preset", args) or default_preset, configs)
        return tyro.cli(cls, default=default, args=args, description=cls.__doc__)
    run_dir = flag_value("--run-dir", args)
    if run_dir is None:
        raise ValueError("--resume: expected the run to continue in --run-dir, got none")
    saved = saved_config(cls, Path(run_dir), algo=algo)
    config = tyro.cli(cls, default=saved, args=args, description=cls.__doc__)
    check_saved_config(config, Path(run_dir), algo=algo, may_differ=MAY_DIFFER_ON_RESUME)
    return config


def flag_value(flag: str, args: Sequence[str]) -> str | None:
    """The first value of a flag on a command line, or None."""
    for i, arg in enumerate(args):
        if arg == flag and i + 1 < len(args):
            return args[i + 1]
        if arg.startswith(f"{flag}="):
            return arg.split("=", 1)[1]
    return None
