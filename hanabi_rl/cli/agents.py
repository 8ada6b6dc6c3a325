"""What the subcommands share: how an agent is named, and flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

Agent = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT")]
File = tyro.conf.Positional[Path]
PUBLISHED = ("ah2ac2:", "obl:")  # how published policies are named; agents/published.py reads them
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def load_agent(agent: str, players: int | None) -> Policy:
    """An agent by name: a bot plays `players` (default 2), a trained policy must have been trained for them."""
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.env.game import Rules

    if agent.startswith("bot:"):
        return load_policy(agent, Rules(num_players=players or 2))
    policy = load_policy(agent)
    if players not in (None, policy.rules.num_players):
        raise ValueError(
            f"{agent}: expected --players {policy.rules.num_players}, which it was trained for, got {players}"
        )
    return policy
