"""`hanabi-rl export`: write a policy to one file with a model card, or publish it on the Hub."""

from __future__ import annotations

import datetime
import platform
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli.agents import Agent, Flag
from hanabi_rl.storage.validation import BoundedCount, Range, Seed

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import NetworkPolicy


_AGENT_HELP = (
    "policy folder, run folder, checkpoints/<step>, or exported file; its card provides defaults"
)


def export(
    agent: Annotated[Agent, tyro.conf.arg(help=_AGENT_HELP)],
    out: tyro.conf.Positional[Path | None] = None,
    about: str = "",
    data: str = "",
    command: str = "",
    predict: Path | None = None,
    games: BoundedCount = 5000,
    seed: Seed = 1,
    bits: Annotated[int, Range(4, 11)] = 11,
    push: Annotated[str | None, tyro.conf.arg(metavar="OWNER/NAME")] = None,
    private: Flag = False,
    license: str | None = None,
) -> None:
    """Write a trained policy to one file, or publish it on the Hugging Face Hub.

    The file has half-precision parameters and a model card in its header, with scores of exactly
    these parameters. Any command takes the file, or hf:OWNER/NAME, as an agent.

    Args:
        out: output file, *.safetensors.
        about: description of the agent for the card, one sentence.
        data: training data, for the card.
        command: training command, for the card; default: the command of the run.
        predict: recorded games for the prediction accuracy on the card.
        games: self-play games for the scores on the card: greedy in Hanabi, sampled in Overcooked.
        seed: seed of the self-play decks; use another than the training seed, because training
            selects the policy on decks of its seed.
        bits: significant binary digits of each parameter, at most the 11 of half precision; fewer
            compress better in a wheel or an archive.
        push: Hub repository to publish to, created if missing; log in first: `hf auth login`.
        private: create a private repository.
        license: licence of the published agent in the Hub's spelling: apache-2.0, cc-by-4.0, ...;
            None: the licence on the repository's page, otherwise unknown.
    """
    from hanabi_rl.agents import hub
    from hanabi_rl.agents.loading import load_policy
    from hanabi_rl.agents.policy import NetworkPolicy
    from hanabi_rl.agents.policy_file import SUFFIX, round_to_half, write_file
    from hanabi_rl.storage.files import check_writable, to_json
    from hanabi_rl.storage.hf_hub import check_logged_in

    if out is None and push is None:
        raise ValueError("expected an output file or --push OWNER/NAME, got neither")
    if push is not None and not hub.is_repository(push):
        raise ValueError(f"--push: expected OWNER/NAME, got {push}")
    if push is not None:
        check_logged_in()
    check_writable("OUT", out, (SUFFIX,))
    policy = load_policy(agent)
    if not isinstance(policy, NetworkPolicy):
        raise ValueError(f"{agent}: expected a trained policy without options to export")
    identity, policy = policy.identity(), round_to_half(policy, bits)
    fields = {"about": about, "data": data, "command": command}
    prediction: dict[str, Any] = {}  # keep that of an existing card if the parameters are the same
    if predict:
        prediction = {"prediction": _prediction(policy, predict)}  # first, because it may fail
    elif policy.identity() != identity:
        prediction = {"prediction": None}
    selfplay = {"selfplay": _selfplay(policy, games, seed)}
    card = to_json(_card(agent, policy, fields) | selfplay | prediction)
    with tempfile.TemporaryDirectory() as folder:
        path = out or Path(folder) / hub.FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, policy, card, half=True)
        print(f"Written: {out or path.name} ({path.stat().st_size:,} bytes)", file=sys.stderr)
        if push is not None:
            address = hub.push(push, path, card, licence=license, private=private)
            print(f"Published as {hub.PREFIX}{push}: {address}", file=sys.stderr)


def _card(agent: str, policy: NetworkPolicy, fields: Mapping[str, str]) -> dict[str, Any]:
    """Card without results: `fields`, then the fields of an existing card."""
    from hanabi_rl.agents.provenance import NOT_RECORDED, read_model_card, run_metadata

    known = {
        "about": f"A policy of {policy.info.algorithm} for {policy.rules.num_players} players.",
        **run_metadata(agent, policy),
        "data": NOT_RECORDED,  # names of local files are meaningless to others
        "selfplay": None,
        "prediction": None,
        **_of_run(Path(agent)),
    }
    named = {key: text for key, text in fields.items() if text}
    measured = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d} on {platform.machine()}"
    return known | read_model_card(agent) | named | {"measured": measured}


def _of_run(place: Path) -> dict[str, str | None]:
    """Command and commit of the run that contains `place`; "" and None outside a run."""
    from hanabi_rl.algorithms.registry import ALGORITHMS
    from hanabi_rl.launch.cli_args import command_of
    from hanabi_rl.launch.presets import configs_folder
    from hanabi_rl.runs.config import saved_config
    from hanabi_rl.storage.files import read_json

    found: dict[str, str | None] = {"command": "", "commit": None}
    for run in (place, *place.resolve().parents[:2]):
        with suppress(ValueError, OSError):  # config missing, or of another program or version
            record = read_json(run / "config.json")
            if not isinstance(record, dict) or "config" not in record:
                continue
            found["commit"] = record.get("commit")
            algorithm = str(record.get("algorithm"))
            if algorithm in ALGORITHMS:
                config = saved_config(ALGORITHMS[algorithm].config, run, algorithm=algorithm)
                found["command"] = command_of(algorithm, config, configs_folder())
            break
    return found


def _selfplay(policy: NetworkPolicy, games: int, seed: int) -> dict[str, Any]:
    from hanabi_rl.evaluation.measure.selfplay import evaluate_selfplay
    from hanabi_rl.storage.files import to_json

    summary = evaluate_selfplay(policy, games, seed).summary
    return {
        "mean": round(summary.mean.mean, 3),
        "ci95": to_json([round(bound, 3) for bound in summary.mean.bounds]),
        "zero_rate": round(summary.zero_rate, 4),
        "games": games,
        "sampled": not policy.rules.is_greedy,
        "seed": seed,
    }


def _prediction(policy: NetworkPolicy, file: Path) -> dict[str, Any]:
    import numpy as np

    from hanabi_rl.data.files import load_distinct_games
    from hanabi_rl.data.game_records import load_game_records
    from hanabi_rl.evaluation.measure.prediction import predict

    rules, name = policy.rules, str(file)
    is_hanabi = rules.name == "hanabi"
    games = (
        load_distinct_games([name]) if is_hanabi else load_game_records([name], rules, "--predict")
    )
    figures = predict(policy, games).as_dict()
    return {"file": file.name, **{key: np.round(value, 4) for key, value in figures.items()}}
