"""OBL: off-belief learning (Hu et al. 2021), level by level.

Level 1 reads nothing into why a move was made: the best play by the facts, in which independent
runs agree. A level above begins as the one below (`previous_level`), reads the past as that one's
moves and plays the future as itself, so that what it comes to rely on is what the level below
does, and not a convention of its own.
"""

import dataclasses
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.structured.policy_step import widen_params
from hanabi_rl.algorithms.ippo import IPPOConfig, SelfPlayAlgorithm
from hanabi_rl.algorithms.ppo_runner import TrainingSetup
from hanabi_rl.games.hanabi.start_states import StartStates
from hanabi_rl.learning import parallel
from hanabi_rl.learning.beliefs import BeliefLearner, BeliefTraining, self_play_collector
from hanabi_rl.learning.finite import NotFiniteError
from hanabi_rl.learning.off_belief import OffBeliefPPO, PreviousLevel, check_network
from hanabi_rl.nn.config import NetworkField
from hanabi_rl.nn.precision import Precision
from hanabi_rl.nn.structured_network import FeatureSet, StructuredConfig
from hanabi_rl.runs.config import with_game
from hanabi_rl.runs.progress import Progress
from hanabi_rl.storage.trees import read_tree, write_tree
from hanabi_rl.storage.validation import PositiveInt, UnitInterval

BELIEF = "belief.safetensors"


@dataclasses.dataclass(frozen=True)
class OBLConfig(IPPOConfig):
    """Train agents that assume no conventions, level by level (off-belief learning)."""

    previous_level: str | None = None
    """The level below: an OBL run, or any agent of a structured network with the same widths, as
    whose moves the past is read. None: level 1."""
    belief: BeliefTraining = dataclasses.field(default_factory=BeliefTraining)
    num_hands: PositiveInt = 1
    """Hands drawn anew for a decision; what they bring is averaged."""
    max_rounds: PositiveInt = 1
    """Rounds played in a fictitious game at most before the critic says what the rest is worth;
    their returns are weighed by `gae_lambda`. 1 is the paper's."""
    lr_schedule: Literal["linear", "constant"] = "linear"
    """linear: falls to 0 over the run, constant within an update."""
    gamma: UnitInterval = 0.999
    network: NetworkField = dataclasses.field(default_factory=StructuredConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_network(self.network)
        refused = {
            "--privileged-critic": self.privileged_critic,
            "--start-states": self.start_states,
            "--teaming-weight": self.teaming_weight,
            "--g1-weight, --g2-weight, --g3-weight": bool(
                self.g1_weight or self.g2_weight or self.g3_weight
            ),
        }
        for name, given in refused.items():
            if given:
                raise ValueError(
                    f"{name}: expected none in off-belief learning, whose returns are of "
                    f"fictitious games; got {given}"
                )


def check_obl_level(config: OBLConfig) -> None:
    """Raises ValueError for what only a level above another can be told, where none is below: a
    preset such as `above` would train level 1 without a word. Not when a config is made: a preset
    is read before `--previous-level` is."""
    if config.previous_level is None and config.belief != BeliefTraining():
        preset = "" if config.preset is None else f"the preset {config.preset} or "
        raise ValueError(
            "--previous-level: expected the level below (a run of train/obl.py, or another "
            "structured "
            f"agent), got none, but {preset}--belief.* sets `belief`, which only a level above "
            "another learns; level 1: --preset quick"
        )


def load_previous_level(config: OBLConfig) -> NetworkPolicy:
    """The policy that `previous_level` names.

    Raises:
        ValueError: it cannot be read, or is none that the config's network can begin as.
    """
    assert config.previous_level is not None
    policy = load_policy(config.previous_level)
    wanted, got = config.network, getattr(policy, "network", type(policy).__name__)
    if isinstance(got, StructuredConfig):
        same = ("level", "dropout", "critic")  # what need not be alike, or not quite
        got = dataclasses.replace(got, **{name: getattr(wanted, name) for name in same})
    if got != wanted or getattr(wanted, "profile", False):
        raise ValueError(
            f"--previous-level {config.previous_level}: expected a structured network like this "
            "run's, "
            f"{wanted}, without a profile, got {got}"
        )
    assert isinstance(policy, NetworkPolicy), "it has a network"
    return policy


class OBL(SelfPlayAlgorithm):
    """Every seat is the learner's; the returns are fictitious."""

    config = OBLConfig
    title = "OBL"

    def run(self, config: OBLConfig) -> dict[str, Any]:
        """See `PPOAlgorithm`; the game is that of the level below.

        Raises ValueError as `check_obl_level` and `load_previous_level`, too.
        """
        check_obl_level(config)
        if config.previous_level is not None:
            game = parallel.on_main_host(lambda: load_previous_level(config).rules)
            config = with_game(config, game, "the level below")
        return super().run(config)

    def training(self, config: OBLConfig, clone: None) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        ppo = OffBeliefPPO(
            config, config.network, num_hands=config.num_hands, max_rounds=config.max_rounds
        )
        stage = "Off-belief learning"
        if config.previous_level is None:
            return TrainingSetup(ppo, f"{stage}, level 1")
        return TrainingSetup(ppo, f"{stage}, the level above {config.previous_level}")

    def train(
        self,
        config: OBLConfig,
        run_dir: Path,
        training: TrainingSetup,
        starts: StartStates | None = None,
    ) -> float:
        """See `PPOAlgorithm`; above level 1 the belief comes first, which the run keeps."""
        if config.previous_level is not None:
            assert isinstance(training.ppo, OffBeliefPPO), "made above"
            below = parallel.on_main_host(lambda: previous_level_state(config, run_dir / BELIEF))
            ppo = dataclasses.replace(training.ppo, previous_level=below)
            training = dataclasses.replace(training, ppo=ppo)
        return super().train(config, run_dir, training, starts)


def previous_level_state(config: OBLConfig, path: Path) -> PreviousLevel:
    """The level below, with the belief of the file, or one learnt now and written there."""
    policy = load_previous_level(config)
    assert isinstance(config.network, StructuredConfig), "check_network"
    assert isinstance(policy.network, StructuredConfig), "level_below"
    level = config.network.level
    if not path.exists():
        belief = learn_belief(config.belief, policy, level, config.seed, config.precision)
        write_tree(path, jax.tree.map(np.asarray, belief))
    shown = dataclasses.replace(policy.network, level=level)
    actor = widen_params(config.game, policy.network, policy.params, shown)
    return PreviousLevel(actor=actor, belief=read_tree(path))


def learn_belief(
    config: BeliefTraining,
    policy: NetworkPolicy,
    level: FeatureSet,
    seed: int,
    precision: Precision = "float32",
) -> Any:
    """The parameters of the belief of holders who are shown `level`, under the moves of a
    structured policy; with a progress bar.

    Raises:
        NotFiniteError: the loss was not a number.
    """
    learner = BeliefLearner(config, policy.rules, level, self_play_collector(policy, precision))
    init_key, key = jax.random.split(jax.random.key(seed))
    belief = jax.jit(learner.init)(init_key)
    update = jax.jit(learner.update, donate_argnums=1)
    each = config.num_envs * config.num_steps
    with Progress("Belief", total=config.num_updates * each, unit="steps") as progress:
        for done in range(1, config.num_updates + 1):
            belief, metrics = update(policy.params, belief, key)
            shown = {name: float(value) for name, value in metrics.items()}
            if not np.isfinite(shown["nats"]):
                raise NotFiniteError(
                    f"belief: expected a finite loss in update {done}, got {shown}"
                )
            progress.update(done * each, **shown)
    return jax.device_get(belief.params)


ALGORITHM = OBL()
