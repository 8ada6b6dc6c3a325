"""What learning does for each `NetworkKind.inputs`: view, critic's privileged input, examples."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.learning.cloning import Dataset
from hanabi_rl.learning.cloning_decisions import decision_dataset
from hanabi_rl.learning.cloning_games import game_dataset
from hanabi_rl.learning.encoding import own_hand_one_hot
from hanabi_rl.learning.game_view import GameView
from hanabi_rl.learning.observation_views import CurrentPlayerView, ObservationView
from hanabi_rl.learning.rollout import PrivilegedInputFn
from hanabi_rl.learning.structured_view import StructuredView, true_hand_of_current_player
from hanabi_rl.nn.config import NetworkKind
from hanabi_rl.nn.networks import Inputs
from hanabi_rl.nn.precision import Precision
from hanabi_rl.nn.structured_network import StructuredConfig


class LearningInputs(NamedTuple):
    """Functions for one kind of inputs."""

    view: Callable[[Rules, Any, bool], ObservationView]
    """(rules, network, current player only) -> observation view."""
    privileged: PrivilegedInputFn
    """Privileged input of a critic."""
    dataset: Callable[[Games, Any, jax.Array | None, Precision, int], Dataset]
    """(games, network, key of the colour permutations, precision, games per series) -> examples to
    clone."""


def _observation_view(
    rules: Rules, network: NetworkKind, current_player_only: bool
) -> ObservationView:
    del network
    return CurrentPlayerView(rules) if current_player_only else ObservationView(rules)


def _structured_view(
    rules: Rules, network: StructuredConfig, current_player_only: bool
) -> StructuredView:
    del current_player_only  # always
    return StructuredView(rules, network.features, network.profile)


def observation_view(
    rules: Any, network: NetworkKind, current_player_only: bool
) -> ObservationView:
    """Observation view of a game for a network.

    Raises:
        ValueError: the network reads features of Hanabi, and the game is another.
    """
    if isinstance(rules, Rules):
        return LEARNING_INPUTS[network.inputs].view(rules, network, current_player_only)
    if network.inputs != "observations":
        raise ValueError(
            f"network.kind: expected one that reads observations, which {rules.name} needs, got "
            f"{network.kind}"
        )
    return GameView(rules, network)


LEARNING_INPUTS: dict[Inputs, LearningInputs] = {
    "observations": LearningInputs(_observation_view, own_hand_one_hot, game_dataset),
    "structured": LearningInputs(_structured_view, true_hand_of_current_player, decision_dataset),
}
