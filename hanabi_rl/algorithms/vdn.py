"""VDN: the value of a timestep is the sum of all players' values (Sunehag et al. 2018), with R2D2.

A player that is not in turn has only the no-op (Hu and Foerster 2020). A network that is computed
for the current player only, as structured ones are, gives idle players the value 0.
"""

from hanabi_rl.algorithms.q_learning import QLearning


class VDN(QLearning):
    """Value decomposition network."""

    title = "VDN"
    mixing = "sum"


ALGORITHM = VDN()
