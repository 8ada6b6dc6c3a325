"""Links of the documentation as on GitHub; `mkdocs build --strict` checks the site's."""

import csv
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    ROOT / "docs" / "results" / "README.md",
    *ROOT.glob("docs/tutorials/*.ipynb"),
]


def text_of(page: Path) -> str:
    """A page, or the text cells of a notebook."""
    if page.suffix == ".md":
        return page.read_text()
    cells = json.loads(page.read_text())["cells"]
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve_to_repository_files(page: Path) -> None:
    for place in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text_of(page)):
        assert (page.parent / place).exists(), place


def test_result_tables_are_listed_and_rectangular() -> None:
    folder = ROOT / "docs" / "results"
    listed = re.findall(r"(?m)^- \[(.+\.csv)\]\(\1\): ", (folder / "README.md").read_text())
    assert sorted(listed) == sorted(path.name for path in folder.glob("*.csv"))
    for name in listed:
        header, *rows = csv.reader((folder / name).read_text().splitlines())
        assert len(set(header)) == len(header) and rows, name
        assert all(len(row) == len(header) for row in rows), name
