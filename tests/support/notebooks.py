"""Notebooks as scripts: `python tests/support/notebooks.py FILE.ipynb` prints one."""

import json
import sys
from pathlib import Path


def script_of(notebook: Path) -> str:
    """Code cells of a notebook as one script. Lines with `!` are shell commands, which must
    succeed; cells that begin with `%%writefile NAME` are the content of a file."""
    lines = ["import pathlib, subprocess"]
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        if source.startswith("%%writefile "):
            name, _, content = source.removeprefix("%%writefile ").partition("\n")
            lines.append(f"pathlib.Path({name!r}).write_text({content!r})")
            continue
        for line in source.replace("\\\n", " ").splitlines():
            command = line.removeprefix("!")
            shell = f"subprocess.run({command!r}, shell=True, check=True)"
            lines.append(line if command == line else shell)
    return "\n".join(lines)


if __name__ == "__main__":
    print(script_of(Path(sys.argv[1])))
