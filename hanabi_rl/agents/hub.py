"""Agents on the Hugging Face Hub, `hf:OWNER/NAME[/FILE][@REVISION]`, and their pages.

A file was written by `hanabi-rl export`, or has a published layout (`agents/published.py`).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hanabi_rl.agents.card import in_words
from hanabi_rl.agents.policy import Policy
from hanabi_rl.agents.policy_file import SUFFIX, is_policy, read_card, read_file
from hanabi_rl.agents.published import read_published
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.registry import game_from_text, game_label
from hanabi_rl.storage.hf_hub import Edit, download_file, list_files, upload_files
from hanabi_rl.storage.words import game_name

PREFIX = "hf:"
FILE = "policy.safetensors"
"""File of a repository's agent if the name has no file."""
SCORE, ACCURACY = "self-play score", "moves predicted"
"""Names of the results on an agent's page."""
START = "<!-- hanabi-rl export: every push replaces this part; write above or below it -->"
END = "<!-- hanabi-rl export: end -->"
"""Markers around the part of an agent's page that a push replaces."""
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:/([^@]+))?(?:@(.+))?")


class HubName(NamedTuple):
    """Parsed `hf:OWNER/NAME[/FILE][@REVISION]`."""

    repository: str
    """OWNER/NAME."""
    file: str | None
    """Path of the file in the repository; None: its only one, or `policy.safetensors`."""
    revision: str | None
    """A branch, a tag or a commit; None: the main branch."""


def parse_hub_name(name: str) -> HubName:
    """Parse a Hub name; raises ValueError if it is malformed or its file is not .safetensors."""
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
    """True if the text is OWNER/NAME."""
    found = _NAME.fullmatch(text)
    return found is not None and found[1] == text


def fetch_agent(name: str) -> Path:
    """Return the file of an agent in the Hub's cache; downloaded once per revision.

    Raises:
        ValueError: no such repository, revision or file, or no unique file.
        PermissionError: the repository is gated.
        ConnectionError: it is not in the cache, and the Hub cannot be reached.
    """
    repository, file, revision = parse_hub_name(name)
    if file is None:
        file = _only_file(name, list_files(repository, revision=revision))
    return download_file(
        repository, file, kind="model", revision=revision, then="name its local file instead"
    )


def _only_file(name: str, files: tuple[str, ...]) -> str:
    weights = [file for file in files if file.endswith(SUFFIX)]
    if FILE in weights:
        return FILE
    if len(weights) != 1:
        found = "no .safetensors file" if not weights else f"{len(weights)} .safetensors files"
        raise ValueError(
            f"{name}: expected {FILE}, the file of `hanabi-rl export --push`, or only one {SUFFIX} "
            f"file ({PREFIX}OWNER/NAME/FILE names one of several); got {found}: "
            f"{', '.join(weights or files) or 'the repository is empty'}"
        )
    return weights[0]


def load_from_hub(name: str) -> Policy:
    """Load the agent `hf:OWNER/NAME[/FILE][@REVISION]`.

    Raises as `fetch_agent`; also ValueError for a file that is damaged or has another layout.
    """
    path = fetch_agent(name)
    return read_file(path) if is_policy(path) else read_published(path)


def hub_card(name: str) -> dict[str, Any]:
    """Model card of an agent on the Hub; empty for published weights. Raises as `fetch_agent`."""
    path = fetch_agent(name)
    return read_card(path) if is_policy(path) else {}


def push(
    repository: str, file: Path, card: Mapping[str, Any], *, licence: str | None, private: bool
) -> str:
    """Publish an exported file as `hf:OWNER/NAME`, with its page, and return the commit's address.

    `card` and `licence` are as in `model_page`; a `private` repository is visible only to its
    owner. Raises as `model_page` and `storage.hf_hub.upload_files`.
    """

    def page(before: bytes | None) -> bytes:
        return model_page(repository, card, licence, before).encode()

    files: dict[str, bytes | Edit] = {FILE: file.read_bytes(), "README.md": page}
    return upload_files(repository, files, private=private, message="Agent of hanabi-rl")


def model_page(
    repository: str, card: Mapping[str, Any], licence: str | None, before: bytes | None = None
) -> str:
    """Model card as a Hub page: front matter with the Hub's standard fields, then text.

    On an existing page the part between the two markers and our results are replaced, and missing
    fields are added. Other content is kept.

    Args:
        repository: OWNER/NAME.
        card: model card, as `hanabi-rl export` makes it.
        licence: a licence identifier of the Hub, e.g. `apache-2.0`; None keeps the page's licence,
            or writes `unknown` on a page without one.
        before: README.md of the repository; None if it is missing.

    Raises:
        ValueError: `before` is not UTF-8, has invalid front matter, or lacks one marker.
    """
    where = f"README.md of {repository}"
    try:
        page = (before or b"").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: expected UTF-8: {error}") from error
    found = _FRONT.match(page)
    if found is None and re.match(r"---[ \t]*\r?\n", page):
        raise ValueError(f"{where}: expected a line --- after the fields")
    front, text = (found[1], page[found.end() :]) if found else ("", page)
    fields = _fields_of(front, where)
    about = _fields(repository, card)
    changed = {name: value for name, value in about.items() if name not in fields}
    changed["model-index"] = _results(fields.get("model-index"), about["model-index"], where)
    if licence is not None or "license" not in fields:
        changed["license"] = licence or "unknown"
    name = repository.partition("/")[2]
    text = text if text.strip() else f"\n# {name}\n\n{card['about']}\n\n{START}\n{END}\n"
    section = f"{START}\n\n{_section(repository, card)}\n{END}"
    front = _with_fields(front, fields, changed)
    return f"---\n{front}---\n{_with_section(text, section, where)}"


def _fields(repository: str, card: Mapping[str, Any]) -> dict[str, Any]:
    """Hub fields of an agent, without a licence."""
    from huggingface_hub import EvalResult, ModelCardData

    game = game_name(_game_text(card))
    results = [("mean_reward", SCORE, card["selfplay"]["mean"], game, _game(card))]
    if card["prediction"] is not None:
        prediction = card["prediction"]
        # a shared type would merge data sets under one name
        of = f"{game}-games", prediction["file"]
        results.append(("accuracy", ACCURACY, prediction["accuracy"], *of))
    data = ModelCardData(
        library_name="hanabi-rl",
        pipeline_tag="reinforcement-learning",
        tags=[game, "reinforcement-learning", "human-ai-coordination", card["algorithm"]],
        metrics=[result[0] for result in results],
        model_name=repository.partition("/")[2],
        eval_results=[
            EvalResult(
                task_type="reinforcement-learning",
                dataset_type=dataset,
                dataset_name=of,
                metric_type=kind,
                metric_name=name,
                metric_value=value,
            )
            for kind, name, value, dataset, of in results
        ],
    )
    return {name: value for name, value in data.to_dict().items() if value is not None}


def _fields_of(front: str, where: str) -> dict[str, Any]:
    import yaml

    try:
        fields = yaml.safe_load(front) or {}
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise ValueError(f"{where}: expected YAML between the lines ---: {problem}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"{where}: expected fields between the lines ---, got {front[:60]!r}")
    return fields


def _with_fields(front: str, fields: Mapping[str, Any], changed: Mapping[str, Any]) -> str:
    """`front`, which parses to `fields`, with those in `changed` replaced; other fields and
    comments are kept as text, unless fields of its YAML do not begin lines."""
    import yaml

    parts = re.split(r"(?m)^(?=[^\s#-])", front)  # each but the first begins with a field's name
    for name, value in changed.items():
        field = _yaml({name: value})
        for place, part in enumerate(parts):
            if part.partition(":")[0].strip(" '\"") == name:
                comments = [line for line in part.splitlines(True) if line.startswith("#")]
                parts[place] = field + "".join(comments)
                break
        else:
            if parts[-1] and not parts[-1].endswith("\n"):
                parts[-1] += "\n"
            parts.append(field)
    written = "".join(parts)
    try:
        same = yaml.safe_load(written) == {**fields, **changed}
    except yaml.YAMLError:
        same = False
    return written if same else _yaml({**fields, **changed})


def _yaml(fields: Mapping[str, Any]) -> str:
    import yaml

    written: str = yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True)
    return written


def _results(before: Any, ours: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """Field `model-index` of a page, with our results in place of our previous ones."""
    if not isinstance(before, list) or not before:
        return ours
    try:
        entries = [dict(entry) for entry in before]
        for entry in entries:
            entry["results"] = [each for each in entry.get("results") or [] if not _is_ours(each)]
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{where}: expected model-index to list models, their results and metrics by name, got "
            f"{str(before)[:100]}"
        ) from error
    entries[0]["results"] = [*ours[0]["results"], *entries[0]["results"]]
    return entries


def _is_ours(result: Mapping[str, Any]) -> bool:
    names = {metric.get("name") for metric in result.get("metrics") or []}
    return bool(names) and names <= {SCORE, ACCURACY}


def _section(repository: str, card: Mapping[str, Any]) -> str:
    name = f"{PREFIX}{repository}"
    rows = {
        "game": _game(card),
        "algorithm": f"{card['algorithm']}, {card['steps']} {card['unit']}",
        "features": card["features"],
        "training data": in_words(card, "data"),
        "training partners": in_words(card, "training_partners"),
        "self-play": in_words(card, "selfplay"),
        "action prediction": in_words(card, "prediction"),
        "command": in_words(card, "command"),
        "evaluated": card["measured"],
    }
    of_groups = card["prediction"] is not None and game_name(_game_text(card)) != "hanabi"
    over = "; of prediction, over groups of players" if of_groups else ""
    table = "\n".join(f"| {key} | {_cell(str(text))} |" for key, text in rows.items())
    return f"""\
hanabi-rl is not on a package index yet. In a checkout: `pip install -c constraints.txt -e .`, then

    hanabi-rl evaluate {name}
    hanabi-rl play {name}

From Python: `hanabi_rl.load_policy("{name}")`.

| | |
|---|---|
{table}

Intervals are 95%, over games{over}.
"""


def _game_text(card: Mapping[str, Any]) -> str:
    """Game as in `--game`; cards of earlier versions do not name theirs."""
    return str(card.get("game", "hanabi"))


def _game(card: Mapping[str, Any]) -> str:
    text = _game_text(card)
    if game_name(text) != "hanabi":
        return text
    return f"Hanabi, {game_label(game_from_text(text, Rules(num_players=card['players'])))}"


def _cell(text: str) -> str:
    """Escape text for a cell of a Markdown table, on one line."""
    return re.sub(r"([\\`*_<|~]|(?<=\])\()", r"\\\1", " ".join(text.split()))


def _with_section(text: str, section: str, where: str) -> str:
    """`text` with `section` between its markers, or at its end if it has no markers."""
    counts = text.count(START), text.count(END)
    if counts == (0, 0):
        return f"{text.rstrip()}\n\n{section}\n"
    before, _, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if counts != (1, 1) or not end:
        raise ValueError(
            f"{where}: expected {START} and after it {END}, once each or not at all, got "
            f"{counts[0]} and {counts[1]}; correct the page, then push again"
        )
    return before + section + after
