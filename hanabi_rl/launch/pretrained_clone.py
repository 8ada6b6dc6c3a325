"""Pretrained clone of a challenge: cloned from many agents outside the partner's family.

Cloning a few games of the partner starts from it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from hanabi_rl.agents.loading import expand_seed_ranges, is_bundled_for, load_policy
from hanabi_rl.algorithms.bc import clones_own_features
from hanabi_rl.evaluation.measure.gauntlet import family_of
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch.presets import preset_config
from hanabi_rl.launch.sweep import run_once
from hanabi_rl.nn.structured_network import FeatureSet
from hanabi_rl.play.demos import agent_name, players_of
from hanabi_rl.storage.words import count

PRESET = "pretrain"


@dataclasses.dataclass(frozen=True)
class PretrainedClone:
    """A pretrained clone and its training data."""

    run_dir: str
    players: tuple[str, ...]
    games: int
    """Games per player."""
    excluded_families: tuple[str, ...]
    """Families of the partner; empty if unknown."""
    identity: str

    def __str__(self) -> str:
        return (
            f"cloning starts from {self.run_dir}, a clone of {count(self.games, 'game')} each of "
            f"{', '.join(self.players)}; excluded families: "
            f"{' and '.join(self.excluded_families) or 'none'}"
        )


def train_pretrained_clone(
    partner: str, rules: Rules, feature_set: FeatureSet, parent_dir: Path
) -> PretrainedClone:
    """Clone for a challenge with `partner` (A+B: both), trained if `parent_dir` has none.

    One run serves all seeds and numbers of games: players, games and seed are those of the preset
    `pretrain`, without the partner's families and agents for other games.

    Raises:
        ValueError: no player is left, or as a cloning run.
        RunStopped: as a run; the same call resumes.
    """
    base: Any = preset_config("bc", PRESET)
    found = {family_of(agent_name(name)) for name in players_of(partner)}
    families = tuple(sorted(name for name in found if name is not None))

    def is_other(name: str) -> bool:
        each = [agent_name(one) for one in players_of(name)]
        return not any(family_of(one) in families or not is_bundled_for(one, rules) for one in each)

    players = tuple(
        name
        for name in expand_seed_ranges(base.demos)
        if is_other(name) and not clones_own_features(feature_set, name)
    )
    if not players:
        raise ValueError(f"--pretrain: expected players of other families than {partner}, got none")
    without = "".join(f"-without-{name.replace(' ', '-')}" for name in families)
    run_dir = parent_dir / f"prior-{rules.num_players}p-{feature_set}{without}"
    config = dataclasses.replace(
        base,
        game=rules,
        demos=players,
        network=dataclasses.replace(base.network, features=feature_set),
        run_dir=str(run_dir),
    )
    run_once("bc", config)
    identity = load_policy(run_dir).identity()
    return PretrainedClone(str(run_dir), players, base.demo_games, families, identity)
