"""Human-like Hanabi partners in JAX: behavioural cloning, HDR-IPPO, and evaluation.

Public names load on first use, so that `import hanabi_rl` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hanabi_rl.agents.loading import load_policy as load_policy
    from hanabi_rl.agents.policy import NetworkPolicy as NetworkPolicy
    from hanabi_rl.agents.policy import Policy as Policy
    from hanabi_rl.agents.policy import act as act
    from hanabi_rl.agents.policy_folder import save_policy as save_policy
    from hanabi_rl.data.files import load_games as load_games
    from hanabi_rl.data.files import save_games as save_games
    from hanabi_rl.data.games import Games as Games
    from hanabi_rl.games.check import check_env as check_env
    from hanabi_rl.games.game import Game as Game
    from hanabi_rl.games.hanabi.hanabi import HanabiEnv as HanabiEnv
    from hanabi_rl.games.hanabi.jaxmarl import make_jaxmarl as make_jaxmarl
    from hanabi_rl.games.hanabi.rules import Rules as Rules
    from hanabi_rl.play.episodes import play_games as play_games
    from hanabi_rl.play.game_episodes import play_episodes as play_episodes

__version__ = "0.1.0"

_HOME = {
    "Game": "games.game",
    "Games": "data.games",
    "HanabiEnv": "games.hanabi.hanabi",
    "NetworkPolicy": "agents.policy",
    "Policy": "agents.policy",
    "Rules": "games.hanabi.rules",
    "act": "agents.policy",
    "check_env": "games.check",
    "load_games": "data.files",
    "load_policy": "agents.loading",
    "make_jaxmarl": "games.hanabi.jaxmarl",
    "play_episodes": "play.game_episodes",
    "play_games": "play.episodes",
    "save_games": "data.files",
    "save_policy": "agents.policy_folder",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hanabi_rl' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"hanabi_rl.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
