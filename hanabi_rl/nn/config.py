"""Every kind of network, as a field of a config: `kind` in a preset says which."""

from typing import Annotated

import tyro

from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig

AnyNetworkConfig = NetworkConfig | StructuredConfig
NetworkField = Annotated[AnyNetworkConfig, tyro.conf.AvoidSubcommands]
"""On a command line, the fields of the kind that the preset chose."""
