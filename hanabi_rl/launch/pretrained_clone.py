"""The prior of a challenge: a clone of many players, none of the partner's family, which cloning a
few games of the partner begins with."""

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
    """Which prior, and of whom."""

    run_dir: str
    players: tuple[str, ...]
    games: int
    """Of each of them."""
    excluded_families: tuple[str, ...]
    """The partner's families; none where it is in no family that is known."""
    identity: str

    def __str__(self) -> str:
        family = " and ".join(self.excluded_families)
        without = f"none of the partner's family, {family}" if family else "nobody left out"
        return (
            f"cloning begins with {self.run_dir}, a clone of {count(self.games, 'game')} each of "
            f"{', '.join(self.players)}: {without}"
        )


def train_pretrained_clone(
    partner: str, rules: Rules, feature_set: FeatureSet, parent_dir: Path
) -> PretrainedClone:
    """The prior for a challenge of `partner` (A+B: of both), trained where `parent_dir` has none
    yet.

    It is one run for all seeds and numbers of games: its players, games and seed are those of the
    preset `pretrain`, but for the families left out and for who plays another game.

    Raises:
        ValueError: nobody is left to clone, or as a run of cloning does.
        RunStopped: as a run does; the same call goes on.
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
