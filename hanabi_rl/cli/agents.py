"""What the subcommands share: how an agent is named, and flags; and the list of agents."""

from __future__ import annotations

import json as json_format
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
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def load_agent(agent: str, players: int | None) -> Policy:
    """`load_agents` of one."""
    return load_agents([agent], players)[0]


def load_agents(agents: Sequence[str], players: int | None) -> list[Policy]:
    """See `hanabi_rl.agents.names.load_agents`, which is imported where it is needed: `--help` is
    quick."""
    from hanabi_rl.agents import names

    return names.load_agents(agents, players)


def list_agents(json: Flag = False) -> None:
    """List the agents that can be named, their parameters, and the options that every agent takes:
    AGENT?option=value&...

    Args:
        json: print one line of JSON.
    """
    from hanabi_rl.agents.names import known_agents

    known = known_agents()
    if json:
        print(json_format.dumps(known))
        return
    width = max(len(agent["name"]) for agent in known["agents"])
    for agent in known["agents"]:
        version = f" (version {agent['version']})" if "version" in agent else ""
        print(f"{agent['name']:<{width}}  {agent['about']}{version}")
        for name, parameter in agent.get("parameters", {}).items():
            print(f"{'':<{width}}  ?{name}={parameter['default']} ({parameter['type']})")
    print("options of every agent")
    for about in known["options"].values():
        print(f"{'':<{width}}  ?{about}")
