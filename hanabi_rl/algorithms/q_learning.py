"""Value-based learners: recurrent Q-learning from scratch in self-play (R2D2).

The saved policy is the network's advantages, divided by `TEMPERATURE`, as logits: greedy play is
that of the action values, and sampled play is nearly greedy.
"""

import dataclasses

from hanabi_rl.agents.policy import NetworkPolicy
from hanabi_rl.algorithms.ippo import SelfPlayAlgorithm
from hanabi_rl.algorithms.ppo_runner import RLRunConfig, TrainingSetup, selfplay_metrics
from hanabi_rl.learning.q_learning import QLearner, QLearningConfig
from hanabi_rl.learning.q_targets import Mixing
from hanabi_rl.nn.config import NetworkField
from hanabi_rl.nn.networks import NetworkConfig

SAD_NETWORK = NetworkConfig(
    embedding=(512,),
    lstm=(512, 512),
    decoder=(),
    critic=(),
    activation="relu",
    layer_norm=False,
    dropout=0.0,
)
"""Network of Hu and Foerster 2020: one dense layer, two LSTM layers, linear dueling heads."""
TEMPERATURE = 0.01
"""Points of action value per unit of a saved policy's logits."""


@dataclasses.dataclass(frozen=True)
class QRunConfig(QLearningConfig, RLRunConfig):
    """Train agents in self-play from scratch by Q-learning."""

    network: NetworkField = SAD_NETWORK


def evaluate_saved(policy: NetworkPolicy, config: RLRunConfig) -> dict[str, float]:
    """Self-play of the policy as it is saved."""
    return selfplay_metrics(policy.at_temperature(TEMPERATURE), config)


class QLearning(SelfPlayAlgorithm):
    """Q-learning; subclasses select how the values of one timestep combine."""

    config = QRunConfig
    mixing: Mixing
    q_learner: type[QLearner] = QLearner

    def training(self, config: QRunConfig, clone: None) -> TrainingSetup:
        """See `PPOAlgorithm`."""
        return TrainingSetup(
            self.q_learner(config, config.network, mixing=self.mixing),
            f"{self.title} from scratch",
            evaluate=evaluate_saved,
            temperature=lambda policy, config: TEMPERATURE,
        )
