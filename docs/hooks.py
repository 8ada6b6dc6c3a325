"""mkdocs hooks that generate pages at build: the Python reference from docstrings, commands from
`--help`, hyperparameters from the configs, presets, agents and measures from their registries,
modules, tutorials and leaderboard."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hyperparameters import hyperparameter_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import hanabi_rl
from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.cli import main
from hanabi_rl.cli.glossary import GLOSSARY
from hanabi_rl.evaluation.measure.leaderboard_file import read_board
from hanabi_rl.evaluation.measure.registry import MEASURES, measures_of
from hanabi_rl.launch.presets import configs_folder
from hanabi_rl.runs.metric_names import METRICS


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "api": _api(),
        "commands": "\n".join(_commands()),
        "presets": "\n".join(_presets()),
        "agents": _agents(),
        "measures": "\n".join(_measures()),
        "glossary": "\n".join(_glossary()),
        "training-metrics": "\n".join(_training_metrics()),
        "modules": _modules(),
    }
    made = {f"reference/{name}.md": content for name, content in pages.items()}
    for name, content in hyperparameter_pages().items():
        made[f"reference/hyperparameters/{name}.md"] = content
    for path in sorted((Path(config.docs_dir) / "tutorials").glob("*.ipynb")):
        made[f"tutorials/{path.stem}.md"] = _tutorial(path)
    made["results-tables.md"] = "\n".join(_result_tables(Path(config.docs_dir) / "results"))
    made["leaderboard.md"] = "\n".join(_leaderboard(Path(config.docs_dir) / "leaderboard"))
    for place, content in made.items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, *, config: MkDocsConfig, **_: Any) -> str:
    """Adapt GitHub's Markdown to the site: image widths, the table in place of a line that only
    links its CSV file, links to generated pages, no links to files outside `docs/`."""
    docs = Path(config.docs_dir)
    markdown = re.sub(
        r"^\[[\w-]+\.csv\]\((results/[\w-]+\.csv)\)$",
        lambda found: _csv_table(docs / found[1]),
        markdown,
        flags=re.MULTILINE,
    )
    markdown = re.sub(
        r'<img src="([^":]+)" alt="([^"]*)" width="(\d+)">', r'![\2](\1){ width="\3" }', markdown
    )
    markdown = re.sub(r"(\]\([^):]+)\.ipynb(?=[)#])", r"\1.md", markdown)
    markdown = markdown.replace("](leaderboard/)", "](leaderboard.md)")
    markdown = markdown.replace("](results/README.md)", "](results-tables.md)")
    markdown = re.sub(r"\]\(results/([^)\s]+)\.csv\)", r"](results-tables.md#\1)", markdown)
    return re.sub(r"\[(`[^`\]]+`)\]\(\.\./[^)]+\)", r"\1", markdown)


def on_post_build(*, config: MkDocsConfig) -> None:
    """Check local links and images of the built site. Raises PluginError for a missing file."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        for address in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text()):
            if page.name == "404.html" or re.match(r"[a-z]+:", address):
                continue
            place = page.parent / address
            if not (place / "index.html" if place.is_dir() else place).exists():
                raise PluginError(f"{page.relative_to(site)}: no file {address}")


def _tutorial(path: Path) -> str:
    """A notebook as a page."""
    blocks = []
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            text = _fenced(text)
        blocks.append(text)
    download = f"Notebook: `docs/tutorials/{path.name}`"
    return "\n\n".join([*blocks, f"*{download}.*"])


def _fenced(source: str) -> str:
    """A code cell as a block: a file, commands without `!`, or Python."""
    if source.startswith("%%writefile "):
        name, _, content = source.removeprefix("%%writefile ").partition("\n")
        return f'```{Path(name).suffix[1:]} title="{name}"\n{content}\n```'
    commands = re.sub(r"^!", "", source, flags=re.MULTILINE)
    return f"```{'python' if commands == source else 'bash'}\n{commands}\n```"


def _api() -> str:
    names = "\n\n".join(f"::: hanabi_rl.{name}" for name in sorted(hanabi_rl.__all__))
    return (
        "# Python\n\n`from hanabi_rl import ...`; each name loads on first use. All other names "
        f"are internal.\n\n{names}\n"
    )


def _printed(*arguments: str) -> str:
    """Output of a `hanabi-rl` command."""
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen), contextlib.suppress(SystemExit):
        main(list(arguments))
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).strip()


def _commands() -> Iterator[str]:
    """Help of every command and subcommand."""
    os.environ["COLUMNS"] = "84"
    yield "# Commands\n\nOutput of `hanabi-rl COMMAND --help`."
    for name in _subcommands(_printed("--help")):
        text = _printed(name, "--help")
        yield f"\n## {name}\n\n```text\n{text}\n```"
        if name == "train":
            yield "\nOptions: [hyperparameters](hyperparameters/index.md) of each algorithm."
        for command in _subcommands(text):
            text = _printed(name, command, "--help")
            yield f"\n### {name} {command}\n\n```text\n{text}\n```"


def _subcommands(text: str) -> list[str]:
    """Subcommands in the first line of a help text: `usage: hanabi-rl [-h] {train,sweep}`."""
    found = re.match(r"usage: [a-z -]+\[-h\] \{([a-z,-]+)\}", text)
    return found[1].split(",") if found else []


def _presets() -> Iterator[str]:
    """Every preset with the first comment of its file."""
    yield (
        "# Presets\n\n`python train/ALGORITHM.py --preset NAME`, or `hanabi-rl train ALGORITHM "
        "--preset NAME`: files of values that differ from the defaults. Every field is a flag; "
        "`--help` lists them."
    )
    for algorithm in ALGORITHMS:
        yield f"\n## {algorithm}\n\n| preset | |\n|---|---|"
        for path in sorted((configs_folder() / algorithm).glob("*.toml")):
            yield f"| `{path.stem}` | {_first_comment(path)} |"


def _first_comment(path: Path) -> str:
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines).replace("|", "\\|")


def _agents() -> str:
    return (
        "# Agents and bots\n\nNames for every command that takes an agent: output of `hanabi-rl "
        f"agents`.\n\n```text\n{_printed('agents')}\n```\n"
    )


def _measures() -> Iterator[str]:
    yield "# Measures\n\nMeasures of recorded games. Intervals: 95%, over games, grouped by deck."
    for group in dict.fromkeys(measure.group for measure in MEASURES.values()):
        yield f"\n## {group}\n\n| key | | unit | source |\n|---|---|---|---|"
        for measure in measures_of(group):
            label = measure.label.strip().replace("|", "\\|")
            yield f"| `{measure.name}` | {label} | {measure.unit} | {measure.source} |"


def _glossary() -> Iterator[str]:
    yield "# Glossary\n\nAs `hanabi-rl glossary` prints it; [concepts](../concepts.md) has more."
    for term, meaning in GLOSSARY.items():
        yield f"\n**{term}**: {meaning}"


def _training_metrics() -> Iterator[str]:
    yield (
        "# Training metrics\n\nNames in `metrics.jsonl`, TensorBoard and Weights & Biases "
        "(`--wandb`), and in the records of `train(..., callbacks=[f])`."
    )
    for group, metrics in METRICS.items():
        yield f"\n## {group[0].upper()}{group[1:]}\n\n| name | |\n|---|---|"
        for name, text in metrics.items():
            yield f"| `{name}` | {text.replace('|', chr(92) + '|')} |"


def _modules() -> str:
    """Every module with the first sentence of its docstring."""
    root = Path(__file__).parents[1]
    package_map = runpy.run_path(str(root / "benchmarks" / "package_structure.py"))["package_map"]
    return str(package_map(root / "hanabi_rl"))


def _result_tables(folder: Path) -> Iterator[str]:
    """Every CSV file of `folder`, each under its line of README.md."""
    for line in (folder / "README.md").read_text().splitlines():
        entry = re.fullmatch(r"- \[(.+)\.csv\]\(.+?\): (.+)", line)
        if entry is None:
            yield line
            continue
        name, about = entry[1], entry[2].replace("](../", "](")
        table = _csv_table(folder / f"{name}.csv")
        yield f'\n### {name}\n\n{about} [CSV](results/{name}.csv "Download")\n\n{table}'


def _csv_table(path: Path) -> str:
    """The CSV file as a Markdown table; intervals and ranges join the cell of their value."""
    header, *rows = csv.reader(path.read_text().splitlines())
    pairs = {
        "low high": "[{},&nbsp;{}]",
        "min max": "({},&nbsp;{})",
        "first second": "({},&nbsp;{})",
    }
    suffixes = [*" ".join(pairs).split(), "se", "sd"]
    joined = {f"{column} {suffix}" for column in header for suffix in suffixes}
    columns = [column for column in header if column not in joined]
    lines = [columns, ["---"] * len(columns)]
    for row in rows:
        values = dict(zip(header, row, strict=True))
        cells = []
        for column in columns:
            cell = values[column]
            for pair, form in pairs.items():
                low, high = (values.get(f"{column} {suffix}") for suffix in pair.split())
                if low:
                    cell += f" {form.format(low, high)}"
            for suffix in ("se", "sd"):
                if values.get(f"{column} {suffix}"):
                    cell += f"&nbsp;±&nbsp;{values[f'{column} {suffix}']}"
            cells.append(cell)
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _leaderboard(folder: Path) -> Iterator[str]:
    """The leaderboards and the way to add a row."""
    yield (
        "# Leaderboard\n\nAgents with fixed partners on fixed decks, in every mixed lineup, greedy "
        "(AH2AC2's protocol, appendix A.6), with 95% intervals over games. To add a row by pull "
        "request, publish the agent (`hanabi-rl export RUN --push OWNER/NAME`), then play the "
        "games and write the row:\n\n```bash\nhanabi-rl leaderboard --board "
        "docs/leaderboard/2p.json --agents hf:OWNER/NAME@COMMIT --submitted-by YOU\n```\n\n`pytest "
        "tests/evaluation/measure/test_leaderboard_file.py` checks the file. The maintainer who "
        "merges it repeats the command: the file must not change.\n"
    )
    for path in sorted(folder.glob("*.json")):
        board = read_board(path)
        partners = ", ".join(f"`{proxy.agent}`" for proxy in board.proxies)
        yield (
            f"## {board.players} players\n\n{board.about} Partners: {partners}. {board.games:,} "
            f"games per row, deck seed {board.seed}.\n\n| agent | mean | median | zero | perfect "
            "| submitted by |\n|---|---|---|---|---|---|"
        )
        for row in board.rows:
            low, high = row.ci95
            yield (
                f"| `{row.agent}` | {row.mean:.2f} [{low:.2f}, {high:.2f}] | {row.median:g} | "
                f"{row.zero_rate:.1%} | {row.perfect_rate:.1%} | {row.submitted_by} |"
            )
        yield ""
