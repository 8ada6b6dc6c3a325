"""Human-like Hanabi partners in JAX: behavioural cloning, HDR-IPPO, and evaluation.

Public names load on first use, so that `import hanabi_rl` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hanabi_rl.agents.bots.base import Bot as Bot
    from hanabi_rl.agents.loading import load_policy as load_policy
    from hanabi_rl.agents.policy import NetworkPolicy as NetworkPolicy
    from hanabi_rl.agents.policy import Policy as Policy
    from hanabi_rl.agents.policy import act as act
    from hanabi_rl.agents.policy_folder import save_policy as save_policy
    from hanabi_rl.algorithms.base import Algorithm as Algorithm
    from hanabi_rl.algorithms.hdr_ippo import hdr_objective as hdr_objective
    from hanabi_rl.algorithms.ippo import IPPOConfig as IPPOConfig
    from hanabi_rl.algorithms.ippo import SelfPlayAlgorithm as SelfPlayAlgorithm
    from hanabi_rl.algorithms.ppo_runner import TrainingSetup as TrainingSetup
    from hanabi_rl.api import CrossPlayScores as CrossPlayScores
    from hanabi_rl.api import GauntletScores as GauntletScores
    from hanabi_rl.api import SelfPlayScores as SelfPlayScores
    from hanabi_rl.api import TrainedRun as TrainedRun
    from hanabi_rl.api import TrainedSeeds as TrainedSeeds
    from hanabi_rl.api import cross_play as cross_play
    from hanabi_rl.api import evaluate as evaluate
    from hanabi_rl.api import gauntlet as gauntlet
    from hanabi_rl.api import train as train
    from hanabi_rl.data.files import load_games as load_games
    from hanabi_rl.data.files import save_games as save_games
    from hanabi_rl.data.games import Games as Games
    from hanabi_rl.games.check import check_env as check_env
    from hanabi_rl.games.game import Game as Game
    from hanabi_rl.games.game import Outcome as Outcome
    from hanabi_rl.games.hanabi.actions import action_slices as action_slices
    from hanabi_rl.games.hanabi.cards import next_cards as next_cards
    from hanabi_rl.games.hanabi.hanabi import HanabiEnv as HanabiEnv
    from hanabi_rl.games.hanabi.jaxmarl import make_jaxmarl as make_jaxmarl
    from hanabi_rl.games.hanabi.rules import Rules as Rules
    from hanabi_rl.games.hanabi.seat_observation import decode_observation as decode_observation
    from hanabi_rl.learning.config import PPOConfig as PPOConfig
    from hanabi_rl.learning.ppo import PPO as PPO
    from hanabi_rl.learning.rewards import GameShaping as GameShaping
    from hanabi_rl.learning.rollout import TrainContext as TrainContext
    from hanabi_rl.nn.networks import NetworkConfig as NetworkConfig
    from hanabi_rl.play.decks import evaluation_decks as evaluation_decks
    from hanabi_rl.play.episodes import play_games as play_games
    from hanabi_rl.play.game_episodes import play_episodes as play_episodes
    from hanabi_rl.runs.callbacks import StopTraining as StopTraining
    from hanabi_rl.runs.callbacks import TrainingEvaluation as TrainingEvaluation

__version__ = "0.1.0"

_HOME = {
    "Algorithm": "algorithms.base",
    "Bot": "agents.bots.base",
    "CrossPlayScores": "api",
    "Game": "games.game",
    "GameShaping": "learning.rewards",
    "Games": "data.games",
    "GauntletScores": "api",
    "HanabiEnv": "games.hanabi.hanabi",
    "IPPOConfig": "algorithms.ippo",
    "NetworkConfig": "nn.networks",
    "NetworkPolicy": "agents.policy",
    "Outcome": "games.game",
    "PPO": "learning.ppo",
    "PPOConfig": "learning.config",
    "Policy": "agents.policy",
    "Rules": "games.hanabi.rules",
    "SelfPlayAlgorithm": "algorithms.ippo",
    "SelfPlayScores": "api",
    "StopTraining": "runs.callbacks",
    "TrainContext": "learning.rollout",
    "TrainedRun": "api",
    "TrainedSeeds": "api",
    "TrainingEvaluation": "runs.callbacks",
    "TrainingSetup": "algorithms.ppo_runner",
    "act": "agents.policy",
    "action_slices": "games.hanabi.actions",
    "cross_play": "api",
    "decode_observation": "games.hanabi.seat_observation",
    "evaluate": "api",
    "evaluation_decks": "play.decks",
    "gauntlet": "api",
    "hdr_objective": "algorithms.hdr_ippo",
    "load_games": "data.files",
    "load_policy": "agents.loading",
    "make_jaxmarl": "games.hanabi.jaxmarl",
    "next_cards": "games.hanabi.cards",
    "check_env": "games.check",
    "play_episodes": "play.game_episodes",
    "play_games": "play.episodes",
    "save_games": "data.files",
    "save_policy": "agents.policy_folder",
    "train": "api",
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
