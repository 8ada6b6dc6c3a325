"""`--start-from`: the agent whose parameters a training begins with."""

import dataclasses

from hanabi_rl.agents.names import load_policy
from hanabi_rl.agents.policy import NetworkPolicy, PyTree
from hanabi_rl.env.game import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.nn.kinds import Network


def first_params(name: str, network: Network, rules: Rules) -> PyTree:
    """The parameters of the agent `name`, which has the network that is to be trained; dropout and
    critic, which belong to training, may differ.

    Raises:
        ValueError: there is no such agent, it plays another game, or its network is another one.
    """

    def load() -> NetworkPolicy:
        policy = load_policy(name, rules)
        if not isinstance(policy, NetworkPolicy) or _shape(policy.network) != _shape(network):
            got = getattr(policy, "network", type(policy).__name__)
            raise ValueError(
                f"--start-from {name}: expected an agent with the network that is trained, "
                f"{_shape(network)}, got {got}"
            )
        return policy

    return parallel.on_first_host(load).params


def _shape(network: Network) -> Network:
    """What of a network its parameters and its play depend on."""
    return dataclasses.replace(network, dropout=0.0, critic=())
