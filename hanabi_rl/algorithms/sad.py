"""SAD: VDN whose players also see the greedy action behind the last move in training (Hu and
Foerster 2020), with R2D2; without their auxiliary task."""

from hanabi_rl.algorithms.q_learning import QLearning
from hanabi_rl.learning.sad import SADLearner


class SAD(QLearning):
    """Simplified action decoder."""

    title = "SAD"
    mixing = "sum"
    q_learner = SADLearner


ALGORITHM = SAD()
