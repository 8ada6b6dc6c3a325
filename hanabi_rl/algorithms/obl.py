"""OBL: off-belief learning (Hu et al. 2021), level by level.

Level 1 draws no inference from the reasons for a move: it is the best grounded play, on which
independent runs agree. A higher level starts from the previous one, interprets the past as its
moves and plays the future itself, so it relies on the previous level's behaviour and not on new
conventions.
"""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import tyro

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.agents.structured.policy_step import widen_params
from hanabi_rl.algorithms.ippo import IPPOConfig, SelfPlayAlgorithm
from hanabi_rl.algorithms.ppo_runner import TrainingSetup
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.start_states import StartStates
from hanabi_rl.learning import parallel
from hanabi_rl.learning.beliefs import BeliefLearner, BeliefTraining, self_play_collector
from hanabi_rl.learning.config import LRSchedule, check_divides
from hanabi_rl.learning.finite import NotFiniteError
from hanabi_rl.learning.off_belief import OffBeliefPPO, PreviousLevel
from hanabi_rl.learning.rewards import HanabiShaping
from hanabi_rl.nn.config import NetworkField
from hanabi_rl.nn.precision import Precision
from hanabi_rl.nn.structured_network import FeatureSet, StructuredConfig, structured_config
from hanabi_rl.runs.config import with_game
from hanabi_rl.storage.progress import Progress
from hanabi_rl.storage.trees import read_tree, write_tree
from hanabi_rl.storage.validation import PositiveInt, UnitInterval

BELIEF = "belief.safetensors"


@dataclasses.dataclass(frozen=True)
class OBLConfig(IPPOConfig):
    """Train agents without conventions, level by level (off-belief learning, Hu et al. 2021)."""

    previous_level: str | None = None
    """Previous level: an OBL run or any structured agent of equal widths; past moves are
    interpreted as its moves. None: level 1."""
    belief: BeliefTraining = dataclasses.field(default_factory=BeliefTraining)
    """Training of the belief, above level 1."""
    num_hands: PositiveInt = 1
    """Sampled hands per decision, averaged."""
    max_rounds: PositiveInt = 1
    """Maximum rounds in a fictitious game before the critic's estimate, weighted by `gae_lambda`. 1
    in the paper."""
    lr_schedule: LRSchedule = "linear"
    gamma: UnitInterval = 0.999
    shaping: Annotated[HanabiShaping, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=HanabiShaping
    )
    network: NetworkField = dataclasses.field(default_factory=StructuredConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.game, Rules):
            raise ValueError(
                f"--game: expected Hanabi in off-belief learning, got {self.game.name}"
            )
        structured_config(self.network)
        belief = self.belief
        if self.previous_level is not None:  # level 1 has no belief
            check_divides(
                "belief.num_envs * belief.num_steps",
                belief.num_envs * belief.num_steps,
                "belief.num_minibatches",
                belief.num_minibatches,
            )
        shaping = self.shaping
        refused = {
            "--privileged-critic": self.privileged_critic,
            "--start-states": self.start_states,
            "--teaming-weight": shaping.teaming_weight,
            "--g1-weight, --g2-weight, --g3-weight": bool(
                shaping.g1_weight or shaping.g2_weight or shaping.g3_weight
            ),
        }
        for name, value in refused.items():
            if value:
                raise ValueError(
                    f"{name}: expected none in off-belief learning, whose returns are of "
                    f"fictitious games; got {value}"
                )


def check_obl_level(config: OBLConfig) -> None:
    """Raise ValueError for settings of higher levels if `previous_level` is missing.

    Called when training starts, not when a config is made: a preset is read before
    --previous-level.
    """
    if config.previous_level is None and config.belief != BeliefTraining():
        preset = "" if config.preset is None else f"the preset {config.preset} or "
        raise ValueError(
            "--previous-level: expected the level below (a run of train/obl.py, or another "
            "structured "
            f"agent), got none, but {preset}--belief.* sets `belief`, which only a level above "
            "another learns; level 1: --preset quick"
        )


def load_previous_level(config: OBLConfig) -> NetworkPolicy:
    """Policy named by `previous_level`.

    Raises:
        ValueError: it cannot be loaded, or the config's network cannot start from it.
    """
    assert config.previous_level is not None
    policy = load_policy(config.previous_level)
    wanted = config.network
    got: Any = getattr(policy, "network", type(policy).__name__)
    if getattr(got, "kind", None) == wanted.kind:
        same = ("features", "dropout", "critic")  # fields that may differ
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
    """Self-play with fictitious returns."""

    config = OBLConfig
    title = "OBL"

    def run(self, config: OBLConfig) -> dict[str, Any]:
        """See `PPOAlgorithm`; the game is that of the previous level.

        Raises ValueError also as `check_obl_level` and `load_previous_level` do.
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
        """See `PPOAlgorithm`; above level 1 the belief is learned first and saved in the run."""
        if config.previous_level is not None:
            assert isinstance(training.ppo, OffBeliefPPO), "made above"
            below = parallel.on_main_host(lambda: previous_level_state(config, run_dir / BELIEF))
            ppo = dataclasses.replace(training.ppo, previous_level=below)
            training = dataclasses.replace(training, ppo=ppo)
        return super().train(config, run_dir, training, starts)


def previous_level_state(config: OBLConfig, path: Path) -> PreviousLevel:
    """The previous level with its belief, from the file or learned now and saved there."""
    policy = load_previous_level(config)
    network = structured_config(policy.network)
    features = structured_config(config.network).features
    if not path.exists():
        belief = learn_belief(config.belief, policy, features, config.seed, config.precision)
        write_tree(path, jax.tree.map(np.asarray, belief))
    shown = dataclasses.replace(network, features=features)
    actor = widen_params(config.game, network, policy.params, shown)
    return PreviousLevel(actor=actor, belief=read_tree(path))


def learn_belief(
    config: BeliefTraining,
    policy: NetworkPolicy,
    feature_set: FeatureSet,
    seed: int,
    precision: Precision = "float32",
) -> Any:
    """Learn the belief of players that see `feature_set`, under the moves of a structured policy.

    Returns its parameters.

    Raises:
        NotFiniteError: the loss is not finite.
    """
    learner = BeliefLearner(
        config, policy.rules, feature_set, self_play_collector(policy, precision)
    )
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
