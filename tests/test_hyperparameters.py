"""The site's pages of hyperparameters against the configs and the presets' files."""

import dataclasses
import json
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.nn.config import AnyNetworkConfig

ROOT = Path(__file__).parents[1]
Key = tuple[str, str]
"""Path of a nested config with a final dot, or empty; class or section, and the field's name."""


class Row(NamedTuple):
    default: Any
    text: str
    presets: dict[str, Any]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    made: dict[str, str] = runpy.run_path(str(ROOT / "docs/hyperparameters.py"))[
        "hyperparameter_pages"
    ]()
    return made


def parsed(text: str) -> Any:
    """A value of the tables; kinds of nested configs and None stay text."""
    try:
        return json.loads(text.replace("_", "") if re.fullmatch(r"[\d_]+", text) else text)
    except json.JSONDecodeError:
        return text


def rows(page: str) -> dict[tuple[str, str, str], Row]:
    """(path, class, field) -> its line; top-level fields have no path."""
    found: dict[tuple[str, str, str], Row] = {}
    for section in re.split(r"(?m)^## ", page)[1:]:
        head = re.match(r"(?:([\w.]+): )?(\w+)", section)
        assert head is not None
        for line in re.findall(r"(?m)^\| `.*$", section):
            name, default, text, cells = re.split(r"(?<!\\) ?\| ?", line.strip())[1:5]
            presets = {
                preset: parsed(value)
                for value, names in re.findall(r"`([^`]*)`: ([^<]*)", cells)
                for preset in names.strip().split(", ")
            }
            key = (f"{head[1]}." if head[1] else "", head[2], name.strip("`"))
            assert key not in found, key
            found[key] = Row(parsed(default.strip("`")), text, presets)
    return found


def leaves(table: dict[str, Any], path: str = "") -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    for name, value in table.items():
        found |= (
            leaves(value, f"{path}{name}.") if isinstance(value, dict) else {(path, name): value}
        )
    return found


def written(algorithm: str, path: Path) -> dict[tuple[str, str], Any]:
    """(path, field) -> value of a preset's file and of those that it extends, with the clone's and
    the players of its name."""
    table = tomllib.loads(path.read_text())
    found: dict[tuple[str, str], Any] = {}
    if extended := table.pop("extends", None):
        base = ROOT / "configs" / (extended if "/" in extended else f"{algorithm}/{extended}")
        found = written(base.parent.name, base.with_suffix(".toml"))
    if isinstance(bc := table.pop("bc", None), str):
        of_clone = written("bc", ROOT / f"configs/bc/{bc}.toml")
        found |= {
            (f"bc.{path}", name): value
            for (path, name), value in of_clone.items()
            if path != "game." and name != "report_games"
        }
    for at, value in leaves(table).items():
        if isinstance(value, list):  # "..." is the extended preset's list
            value = [x for each in value for x in (found[at] if each == "..." else [each])]
        found[at] = value
    if players := re.search(r"(?:^|-)(\d)p(?:-|$)", path.stem):
        found.setdefault(("game.", "num_players"), int(players[1]))
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_page_has_every_field_and_every_value_of_presets(
    pages: dict[str, str], algorithm: str
) -> None:
    found = rows(pages[algorithm])
    assert f"]({algorithm}.md)" in pages["index"]
    default = ALGORITHMS[algorithm].config()

    def check(config: Any, path: str) -> None:
        for field in dataclasses.fields(config):
            of = [row for (at, _, name), row in found.items() if (at, name) == (path, field.name)]
            value = getattr(config, field.name)
            if dataclasses.is_dataclass(value):
                assert len(of) >= 1 and all("](#" in row.text for row in of)
                check(value, f"{path}{field.name}.")
            else:
                plain = list(value) if isinstance(value, tuple) else value
                assert ("None" if plain is None else plain) in [row.default for row in of]

    check(default, "")
    for path in {path for path, _, name in found if path.endswith("network.")}:
        classes = {kind for at, kind, _ in found if at == path}
        assert classes == {cls.__name__ for cls in get_args(AnyNetworkConfig)}
    assert all(row.text or "EventWeights" in kind for (_, kind, _), row in found.items())
    for file in (ROOT / "configs" / algorithm).glob("*.toml"):
        for (path, name), value in written(algorithm, file).items():
            of = [row for (at, _, field), row in found.items() if (at, field) == (path, name)]
            shown = [row.presets.get(file.stem, row.default) for row in of]
            assert value in shown, (file.stem, path, name, value, shown)


def test_listed_values_differ_from_the_default(pages: dict[str, str]) -> None:
    for row in rows(pages["hdr_ippo"]).values():
        assert row.default not in row.presets.values()
    small = rows(pages["hdr_ippo"])["", "HDRIPPOConfig", "kl_weight"]
    assert small.default == 0.25 and small.presets["hp1"] == 0.3 and "small" not in small.presets


def test_every_page_is_in_the_navigation(pages: dict[str, str]) -> None:
    listed = re.findall(r"reference/hyperparameters/(\w+)\.md", (ROOT / "mkdocs.yml").read_text())
    assert listed == [*pages]
