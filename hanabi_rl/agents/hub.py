"""Agents on the Hugging Face Hub: `hf:OWNER/NAME[/FILE][@REVISION]`, and the page that a published
one gets there.

A file is one that `hanabi-rl export` wrote, or of a published layout (`agents/published.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hanabi_rl.agents.one_file import SUFFIX, is_policy, read_card, read_file
from hanabi_rl.agents.policy import Policy
from hanabi_rl.agents.published import read_published
from hanabi_rl.storage.hub import fetch_file, list_files, put_files

PREFIX = "hf:"
FILE = "policy.safetensors"
"""What a repository's agent is called where no file is named."""
_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:/([^@]+))?(?:@(.+))?")


class HubName(NamedTuple):
    """`hf:OWNER/NAME[/FILE][@REVISION]`, taken apart."""

    repository: str
    """OWNER/NAME."""
    file: str | None
    """The file's path in the repository; None is its only one, or `policy.safetensors`."""
    revision: str | None
    """A branch, a tag or a commit; None is the main branch."""


def parse_hub_name(name: str) -> HubName:
    """Takes a name apart.

    Raises:
        ValueError: it is none, or the file is no .safetensors file.
    """
    found = _NAME.fullmatch(name.removeprefix(PREFIX))
    if found is None:
        raise ValueError(f"expected {PREFIX}OWNER/NAME[/FILE][@REVISION], got {name}")
    repository, file, revision = found.groups()
    if file is not None and not file.endswith(SUFFIX):
        raise ValueError(
            f"{name}: expected a file ending in {SUFFIX} (pickles are never loaded), got {file}"
        )
    return HubName(repository, file, revision)


def is_repository(text: str) -> bool:
    """Whether it names a repository alone: OWNER/NAME."""
    found = _NAME.fullmatch(text)
    return found is not None and found[1] == text


def fetch_agent(name: str) -> Path:
    """The file of an agent, in the Hub's cache; it is asked for once a revision.

    Raises:
        ValueError: no such repository, revision or file, or no file that could be meant.
        PermissionError: the repository is gated.
        ConnectionError: it is not in the cache, and the Hub cannot be reached.
    """
    repository, file, revision = parse_hub_name(name)
    if file is None:
        file = _only_file(name, list_files(repository, revision=revision))
    return fetch_file(
        repository, file, kind="model", revision=revision, then="name it by its path instead"
    )


def _only_file(name: str, files: tuple[str, ...]) -> str:
    weights = [file for file in files if file.endswith(SUFFIX)]
    if FILE in weights:
        return FILE
    if len(weights) != 1:
        what = "no .safetensors file" if not weights else f"{len(weights)} .safetensors files"
        raise ValueError(
            f"{name}: expected {FILE}, as `hanabi-rl export --push` names it, or one {SUFFIX} file "
            f"alone ({PREFIX}OWNER/NAME/FILE names one of several); got {what}: "
            f"{', '.join(weights or files) or 'the repository is empty'}"
        )
    return weights[0]


def load_from_hub(name: str) -> Policy:
    """The agent `hf:OWNER/NAME[/FILE][@REVISION]`.

    Raises:
        ValueError, PermissionError, ConnectionError: as `fetch_agent`; ValueError too for a file
            that is damaged or of another layout.
    """
    path = fetch_agent(name)
    return read_file(path) if is_policy(path) else read_published(path)


def hub_card(name: str) -> dict[str, Any]:
    """The model card in the file of an agent on the Hub; empty where others published it.

    Raises:
        ValueError, PermissionError, ConnectionError: as `fetch_agent`.
    """
    path = fetch_agent(name)
    return read_card(path) if is_policy(path) else {}


def push(
    repository: str, file: Path, card: Mapping[str, Any], *, licence: str, private: bool
) -> str:
    """Publishes an exported file as `hf:OWNER/NAME`, with its page. Returns the commit's address.

    Raises:
        ValueError, PermissionError, ConnectionError: as `storage.hub.put_files`.
    """
    page = model_page(repository, card, licence)
    files = {FILE: file.read_bytes(), "README.md": page.encode()}
    return put_files(repository, files, private=private, message="An agent of hanabi-rl")


def model_page(repository: str, card: Mapping[str, Any], licence: str) -> str:
    """A model card as the Hub shows it: front matter in its standard fields, then text.

    Args:
        repository: OWNER/NAME.
        card: as `hanabi-rl export` makes it.
        licence: an identifier of the Hub, e.g. `apache-2.0`.
    """
    from huggingface_hub import EvalResult, ModelCardData

    game = f"Hanabi, {card['players']} players"
    figures = [("mean_reward", "self-play score", card["selfplay"]["mean"], game)]
    if card["prediction"] is not None:
        prediction = card["prediction"]
        figures.append(("accuracy", "moves predicted", prediction["accuracy"], prediction["file"]))
    data = ModelCardData(
        license=licence,
        library_name="hanabi-rl",
        pipeline_tag="reinforcement-learning",
        tags=["hanabi", "reinforcement-learning", "human-ai-coordination", card["algorithm"]],
        metrics=[kind for kind, _, _, _ in figures],
        model_name=repository.partition("/")[2],
        eval_results=[
            EvalResult(
                task_type="reinforcement-learning",
                dataset_type="hanabi",
                dataset_name=of,
                metric_type=kind,
                metric_name=name,
                metric_value=value,
            )
            for kind, name, value, of in figures
        ],
    )
    score, name = card["selfplay"], f"{PREFIX}{repository}"
    low, high = score["ci95"]
    rows = {
        "game": game,
        "algorithm": f"{card['algorithm']}, {card['steps']} {card['unit']}",
        "is shown": card["tier"],
        "learnt from": card["data"],
        "met in training": ", ".join(card["met"]) or "itself",
        "self-play": f"{score['mean']} [{low}, {high}], {score['zero_share']:.1%} zero, "
        f"{score['games']:,} greedy games",
        "predicts people": _predicts(card["prediction"]),
        "command": f"`{card['command']}`" if card["command"] else "not noted",
        "measured": card["measured"],
    }
    table = "\n".join(f"| {key} | {text} |" for key, text in rows.items())
    return f"""---
{data.to_yaml()}
---

# {data.model_name}

{card["about"]}

    pip install hanabi-rl
    hanabi-rl evaluate {name}
    hanabi-rl play {name}

From Python: `hanabi_rl.load_policy("{name}")`.

| | |
|---|---|
{table}

Intervals are 95%, over games.
"""


def _predicts(prediction: Mapping[str, Any] | None) -> str:
    if prediction is None:
        return "not measured"
    return f"{prediction['accuracy']:.3f} of the moves of {prediction['file']}"
