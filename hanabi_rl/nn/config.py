"""Union of all network configs; `kind` in a preset selects one."""

from typing import Annotated

import tyro

from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.nn.structured_network import StructuredConfig

AnyNetworkConfig = NetworkConfig | StructuredConfig
NetworkField = Annotated[AnyNetworkConfig, tyro.conf.AvoidSubcommands]
"""Network field of a config; its flags are those of the preset's kind."""
