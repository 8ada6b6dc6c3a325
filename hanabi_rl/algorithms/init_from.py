"""`--init-from`: initial parameters from an agent."""

from hanabi_rl.agents.loading import load_policy
from hanabi_rl.agents.policy import NetworkPolicy, Policy, PyTree, widen_params
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning import parallel
from hanabi_rl.nn.config import AnyNetworkConfig


def load_initial_params(name: str, network: AnyNetworkConfig, rules: Rules) -> PyTree:
    """Parameters for the network in training that reproduce the play of the agent `name`.

    The network may read more structured features than the agent; dropout and critic may differ.

    Raises:
        ValueError: the agent does not exist, plays another game, or has another network.
    """

    def load() -> PyTree:
        try:
            return _params_for(network, load_policy(name, rules))
        except ValueError as error:
            raise ValueError(
                f"--init-from {name}: {error} (--init-from None: random initial parameters)"
            ) from error

    return parallel.on_main_host(load)


def _params_for(network: AnyNetworkConfig, policy: Policy) -> PyTree:
    if not isinstance(policy, NetworkPolicy):
        raise ValueError(f"expected a trained network, got {type(policy).__name__}")
    return widen_params(policy, network)
