"""What the subcommands share: how an agent is named, and flags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy

Agent = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT")]
Agents = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="AGENT [AGENT ...]")
]
File = tyro.conf.Positional[Path]
PUBLISHED = ("ah2ac2:", "obl:")  # how published policies are named; agents/published.py reads them
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def load_agent(agent: str, players: int | None) -> Policy:
    """An agent by name: a bot plays `players` (default 2), a trained policy must have been trained
    for them."""
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.env.game import Rules

    if agent.startswith("bot:"):
        return load_policy(agent, Rules(num_players=players or 2))
    policy = load_policy(agent)
    if players not in (None, policy.rules.num_players):
        raise ValueError(
            f"{agent}: expected --players {policy.rules.num_players}, which it was trained for, "
            f"got {players}"
        )
    return policy


def load_agents(agents: Sequence[str], players: int | None) -> list[Policy]:
    """Several agents for one game: bots play what the trained ones were trained for.

    Raises ValueError for trained agents of different games.
    """
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.env.game import Rules

    trained = {
        agent: load_agent(agent, players)
        for agent in dict.fromkeys(agents)
        if not agent.startswith("bot:")
    }
    first = next(iter(trained), None)
    rules = Rules(num_players=players or 2) if first is None else trained[first].rules
    for agent, policy in trained.items():
        if policy.rules.num_players != rules.num_players:
            raise ValueError(
                f"expected agents for one number of players, got {first} for {rules.num_players} "
                f"and {agent} for {policy.rules.num_players}"
            )
        if policy.rules != rules:
            raise ValueError(
                f"expected agents of one game, got {first} for {rules} and {agent} for "
                f"{policy.rules}"
            )
    return [
        load_policy(agent, rules) if agent.startswith("bot:") else trained[agent]
        for agent in agents
    ]
