"""The package's public face."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from support.processes import run_python

import hanabi_rl


def test_every_public_name_resolves() -> None:
    for name in hanabi_rl.__all__:
        value = getattr(hanabi_rl, name)
        assert value.__module__.startswith("hanabi_rl."), name
        assert value.__doc__, name
    assert dir(hanabi_rl) == sorted(hanabi_rl.__all__)


def test_the_docs_name_every_public_name_and_no_other() -> None:
    docs = Path(__file__).parents[1] / "docs" / "architecture.md"
    section = docs.read_text().split("## Public API")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(hanabi_rl.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hanabi_rl.nothing  # noqa: B018


def test_the_version_is_the_installed_one() -> None:
    assert importlib.metadata.version("hanabi-rl") == hanabi_rl.__version__


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, hanabi_rl; print(sorted({'jax', 'numpy', 'jaxmarl', 'distrax'} & "
        "sys.modules.keys()))"
    )
    assert run_python(code) == "[]\n"


def test_run_python_has_the_devices_it_was_asked_for() -> None:
    assert run_python("import jax; print(jax.device_count())", devices=4) == "4\n"
