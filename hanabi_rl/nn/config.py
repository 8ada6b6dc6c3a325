"""What every network config owns, and the union of all; `kind` in a preset selects one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Protocol, get_args

import flax.linen as nn
import jax
import tyro

from hanabi_rl.nn.conv_network import ConvConfig
from hanabi_rl.nn.gru_network import GRUConfig
from hanabi_rl.nn.kitchen_network import KitchenConfig
from hanabi_rl.nn.networks import Inputs, MemoryNetwork, NetworkConfig, Schedule
from hanabi_rl.nn.precision import Precision
from hanabi_rl.nn.structured_network import StructuredConfig
from hanabi_rl.nn.transformer_network import TransformerConfig
from hanabi_rl.storage.dataclass_io import subclasses
from hanabi_rl.storage.user_modules import OWN_CLASSES, import_user_modules

PyTree = Any


class NetworkKind(Protocol):
    """Interface of a network config, a frozen dataclass.

    Modules are time first: `T` timesteps of `B` rows; a row is the history of one seat, or single
    decisions if the network has no carry.
    """

    def __hash__(self) -> int:
        """Configs are static arguments of compiled functions."""

    @property
    def kind(self) -> str:
        """Name in presets, policy files and identities."""

    @property
    def inputs(self) -> Inputs:
        """What the network reads; it selects functions in `agents.policy.policy_steps` and in
        `learning/network_inputs.py`."""

    @property
    def feature_spec(self) -> str | None:
        """Names of features that an observation view computes; None: observations."""

    @property
    def reduction(self) -> Callable[[jax.Array], jax.Array] | None:
        """Function of observations [..., *obs_shape] to a small array that the network reads as
        well; rollouts of games other than Hanabi store it. None: it reads only observations."""

    @property
    def input_layers(self) -> tuple[str, ...]:
        """All layers that read observations, if they are dense layers on the flat observation, of
        which a game may omit entries (`Game.sufficient_entries`); otherwise empty."""

    @property
    def has_carry(self) -> bool:
        """True if the network remembers earlier timesteps itself, and so needs a row per seat."""

    @property
    def equivariant(self) -> bool:
        """True if permuting the colours permutes the logits exactly."""

    @property
    def critic(self) -> tuple[int, ...]:
        """Widths of the critic's layers before its output."""

    @property
    def cloning_schedule(self) -> Schedule:
        """Fall of the learning rate in behavioural cloning."""

    @property
    def cloning_max_grad_norm(self) -> float | None:
        """Gradient clipping threshold of behavioural cloning; None: no clipping."""

    def initial_carry(self, batch: int) -> PyTree:
        """Carry before the first timestep of a game, leaves [batch, ...]."""

    def actor(self, num_actions: int, precision: Precision = "float32") -> nn.Module:
        """Policy network. For observations: (carry, inputs [T, B, ...], legal bool [T, B, A], reset
        bool [T, B], deterministic, rows int32 [B] for dropout) -> (carry, logits [T, B, A])."""

    def actor_critic(self, num_actions: int, precision: Precision = "float32") -> nn.Module:
        """Network of PPO with subtrees `actor` and `critic`: (carry, inputs [T, B, ...], legal bool
        [T, B, A], reset bool [T, B], privileged [T, B, X] or None) -> (carry, logits [T, B, A],
        value [T, B])."""

    def spec(self) -> dict[str, Any]:
        """`kind` and fields, for policy files."""

    def identity_spec(self) -> dict[str, Any]:
        """`spec` as it enters identities, which later names of fields do not change."""


AnyNetworkConfig = (
    NetworkConfig | StructuredConfig | GRUConfig | TransformerConfig | KitchenConfig | ConvConfig
)
"""All network configs of the package. Subclasses of `MemoryNetwork` defined elsewhere are found by
their `kind` too, once their module is imported."""

if TYPE_CHECKING:
    NetworkField = AnyNetworkConfig
else:
    NetworkField = Annotated[AnyNetworkConfig | MemoryNetwork, tyro.conf.AvoidSubcommands]
"""Network field of a config; its flags are those of the preset's kind."""


def network_class(kind: Any) -> type[AnyNetworkConfig]:
    """Config class of the networks of a `kind`. Raises ValueError for an unknown kind."""
    import_user_modules()
    found: dict[Any, Any] = dict.fromkeys(("lstm", "feed_forward"), NetworkConfig)
    for cls in (*get_args(AnyNetworkConfig), *subclasses(MemoryNetwork)):
        if isinstance(own := vars(cls).get("kind"), str):
            found[own] = cls
    if kind not in [*found]:
        raise ValueError(f"expected one of {', '.join(sorted(found))}, got {kind!r}; {OWN_CLASSES}")
    return found[kind]
