"""The public API."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from support.processes import run_python

import hanabi_rl


def test_public_names_resolve() -> None:
    for name in hanabi_rl.__all__:
        value = getattr(hanabi_rl, name)
        assert value.__module__.startswith("hanabi_rl."), name
        assert value.__doc__, name
    assert dir(hanabi_rl) == sorted(hanabi_rl.__all__)


def test_docs_list_exactly_the_public_names() -> None:
    docs = Path(__file__).parents[1] / "docs" / "architecture.md"
    section = docs.read_text().split("## Public API")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(hanabi_rl.__all__)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hanabi_rl.nothing  # noqa: B018


def test_version_matches_installed_package() -> None:
    assert importlib.metadata.version("hanabi-rl") == hanabi_rl.__version__


def test_package_import_is_lightweight() -> None:
    code = (
        "import sys, hanabi_rl; print(sorted({'jax', 'numpy', 'jaxmarl', 'distrax'} & "
        "sys.modules.keys()))"
    )
    assert run_python(code) == "[]\n"


def test_run_python_has_requested_devices() -> None:
    assert run_python("import jax; print(jax.device_count())", devices=4) == "4\n"
