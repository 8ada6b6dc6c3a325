"""Install commands of extras, in a checkout and in an installed package."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from hanabi_rl.cli import main
from hanabi_rl.storage import extras

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "a checkout"
    place.mkdir()
    (place / "pyproject.toml").touch()
    monkeypatch.setattr(extras, "_PLACE", place)
    return place


def test_checkout_install_command_names_folder(checkout: Path) -> None:
    words = shlex.split(extras.install_command("serve"))
    assert words == ["pip", "install", "-e", f"{checkout}[serve]"]


def test_installed_package_command_names_package(checkout: Path) -> None:
    (checkout / "pyproject.toml").unlink()
    words = shlex.split(extras.install_command("serve"))
    assert words == ["pip", "install", "hanabi-rl[serve]"]


def test_named_extras_exist() -> None:
    assert str(ROOT) in extras.install_command("live")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sources = [path.read_text() for path in (ROOT / "hanabi_rl").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"install_command\([\'\"](\w+)", text)}
    assert named == {"serve", "live", "postgres", "wandb", "cluster", "llm"}
    assert named <= set(known["optional-dependencies"])


def test_user_texts_install_from_checkout() -> None:
    """It is on no index yet: `pip install hanabi-rl` would fail or install another package."""
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb"), ROOT / "README.md"]
    files += [*(ROOT / "hanabi_rl").rglob("*.py"), *(ROOT / "hanabi_rl").rglob("*.html")]
    for path in files:
        if path.name != "extras.py":
            lines = path.read_text().splitlines()
            found = [line for line in lines if "install" in line and "hanabi-rl[" in line]
            found += [line for line in lines if "install hanabi-rl" in line]
            assert found == [], path


@pytest.mark.parametrize(
    ("arguments", "missing", "message"),
    [
        (["play", "bot:iggi"], "jinja2", "the page needs jinja2: {serve}; --terminal does not"),
        (["study", "example"], "orjson", "the page needs orjson: {serve} ("),
        (
            ["submit", "bot:iggi", "--server", "h.example"],
            "orjson",
            "submit needs websockets and orjson: ",
        ),
        (
            ["live", "--agent", "bot:iggi", "--credentials", "c"],
            "websockets",
            "the package websockets: {live}",
        ),
    ],
)
def test_missing_extra_error_names_install_command(
    arguments: list[str],
    missing: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else found(name)
    )
    with pytest.raises(SystemExit):
        main(arguments)
    commands = {name: extras.install_command(name) for name in ("serve", "live")}
    assert message.format(**commands) in capsys.readouterr().err
