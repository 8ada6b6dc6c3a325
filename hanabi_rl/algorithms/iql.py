"""IQL: each player learns the values of its own actions (Tan 1993), with R2D2."""

from hanabi_rl.algorithms.q_learning import QLearning


class IQL(QLearning):
    """Independent Q-learning."""

    title = "IQL"
    mixing = "independent"


ALGORITHM = IQL()
