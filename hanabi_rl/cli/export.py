"""`hanabi-rl export`: a trained policy as one small file with a model card."""

from __future__ import annotations

import datetime
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from hanabi_rl.cli.agents import Agent
from hanabi_rl.storage.ranges import Count, Seed

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import NetworkPolicy


def export(
    agent: Agent,
    out: tyro.conf.Positional[Path],
    about: str,
    data: str = "none",
    command: str = "",
    predict: Path | None = None,
    games: Count = 5000,
    seed: Seed = 1,
) -> None:
    """Write a trained policy to one file, in half precision, with a model card in its header. Any
    command takes the file as an agent; the card's figures are those of the file.

    Args:
        agent: a policy folder, a run's folder or a checkpoints/<step>.
        out: the file, *.safetensors.
        about: what the agent is, in a sentence.
        data: what it learnt from, for the card.
        command: what trained it, for the card.
        predict: games on which to measure how well it predicts people, for the card.
        games: of greedy self-play, for the card.
        seed: of their decks: none that the training selected or reported on, if it was another
            seed's.
    """
    from hanabi_rl.agents.names import load_policy
    from hanabi_rl.agents.one_file import rounded, write_file
    from hanabi_rl.agents.origin import trained_with
    from hanabi_rl.agents.policy import NetworkPolicy
    from hanabi_rl.storage.files import to_json

    policy = load_policy(agent)
    if not isinstance(policy, NetworkPolicy):
        raise ValueError(f"{agent}: expected a trained policy without options to export")
    policy = rounded(policy)
    card = {
        "about": about,
        "players": policy.rules.num_players,
        "algorithm": policy.info.algorithm,
        "tier": getattr(policy.network, "level", policy.network.kind),
        "data": data,
        "met": list(trained_with(agent)),
        "steps": policy.info.steps,
        "unit": policy.info.unit,
        "selfplay": _selfplay(policy, games, seed),
        "prediction": _prediction(policy, predict),
        "command": command,
        "commit": _commit(Path(agent)),
        "measured": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d} on {platform.machine()}",
    }
    write_file(out, policy, to_json(card), half=True)
    print(f"Written: {out} ({out.stat().st_size:,} bytes)", file=sys.stderr)


def _commit(run: Path) -> str | None:
    """The code that trained a run, as it noted it; None of what is no run."""
    from hanabi_rl.storage.files import read_json

    config = run / "config.json"
    return read_json(config).get("commit") if config.is_file() else None


def _selfplay(policy: NetworkPolicy, games: int, seed: int) -> dict[str, Any]:
    from hanabi_rl.measure.selfplay import evaluate_selfplay

    summary = evaluate_selfplay(policy, games, seed).summary
    return {
        "mean": round(summary.mean.mean, 3),
        "ci95": [round(bound, 3) for bound in summary.mean.bounds],
        "zero_share": round(summary.zero_share, 4),
        "games": games,
        "seed": seed,
    }


def _prediction(policy: NetworkPolicy, file: Path | None) -> dict[str, Any] | None:
    if file is None:
        return None
    import numpy as np

    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.measure.prediction import predict

    figures = predict(policy, load_distinct_games([file])).as_dict()
    return {"file": file.name, **{key: np.round(value, 4) for key, value in figures.items()}}
