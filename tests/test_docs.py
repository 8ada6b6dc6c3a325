"""The documentation's links, as who reads it on GitHub follows them; `mkdocs build --strict` checks
the site's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/tutorials/*.ipynb")]


def text_of(page: Path) -> str:
    """A page, or the text of a notebook's cells that are no code."""
    if page.suffix == ".md":
        return page.read_text()
    cells = json.loads(page.read_text())["cells"]
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    for place in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text_of(page)):
        assert (page.parent / place).exists(), place
