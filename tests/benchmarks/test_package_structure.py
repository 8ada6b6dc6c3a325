"""Structure of the package, and the script that prints it, on a small example package."""

from pathlib import Path

import pytest
from support.benchmarks import benchmark

from hanabi_rl.algorithms import registry

ROOT = Path(__file__).parents[2]
structure = benchmark("package_structure")


def test_package_has_no_import_cycles():
    found = structure.figures(ROOT / "hanabi_rl", structure.ENTRY)
    assert found["circles"] == [] and found["subpackage_circles"] == []


def test_run_imports_only_its_algorithm():
    graph = structure.import_graph(ROOT / "hanabi_rl")
    of_run = structure.reachable(graph, "hanabi_rl.launch.script")
    names = list(registry.ALGORITHMS)
    assert not of_run & {f"hanabi_rl.algorithms.{name}" for name in names}
    of_hdr_ippo = structure.reachable(graph, "hanabi_rl.algorithms.hdr_ippo")
    assert "hanabi_rl.algorithms.br_bc" not in of_hdr_ippo


def test_gradient_call_path_is_short():
    """Lines with and without docstrings and comments; modules that one passes through."""
    package = ROOT / "hanabi_rl"
    lines, code = (structure.way(package, structure.WAY, docs=docs) for docs in (True, False))
    assert lines["learning.ppo:PPO.update"] > code["learning.ppo:PPO.update"] > 10
    assert sum(lines.values()) <= 1060 and sum(code.values()) <= 800
    graph = structure.import_graph(package, when_asked=False)
    chain = structure.way_chain(graph, "hanabi_rl", structure.WAY)
    assert chain[0] == "hanabi_rl.launch.script" and len(chain) <= 10


def test_call_path_count_matches_its_names(tmp_path):
    (tmp_path / "p").mkdir()
    source = "x = 1\n\n@one\n@two\ndef f():\n    return 1\n\n"
    source += "class A:\n    y = 2\n\n    def g(self):\n        pass\n"
    (tmp_path / "p" / "m.py").write_text(source)
    found = structure.way(tmp_path / "p", {"m": ("f", "A", "A.g")})
    assert found == {"m:f": 4, "m:A": 5, "m:A.g": 2}
    commented = source.replace("pass", '"""Text\n\n        of g."""\n        # none\n        pass')
    (tmp_path / "p" / "n.py").write_text(commented)
    names = {"n": ("f", "A", "A.g")}
    assert structure.way(tmp_path / "p", names) == {"n:f": 4, "n:A": 9, "n:A.g": 6}
    code = structure.way(tmp_path / "p", names, docs=False)
    assert code == {"n:f": 4, "n:A": 4, "n:A.g": 2}
    for module, name in (("m", "A.h"), ("m", "x"), ("gone", "f")):
        with pytest.raises(ValueError, match=f"expected {name} in p.{module}, got none"):
            structure.way(tmp_path / "p", {module: (name,)})


def test_counts_of_small_package(tmp_path, monkeypatch):
    """a -> b -> c, c -> b (a cycle, counted as one), b -> low; low -> a for type checkers only."""
    package = tmp_path / "p"
    for name, text in {
        "__init__": "",
        "up/__init__": "",
        "up/a": "from p.up import b",
        "up/b": "def f():\n    import p.up.c\nfrom p.down.low import x",
        "up/c": "from p.up.b import f",
        "down/__init__": "",
        "down/low": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.up.a",
    }.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(structure, "WAY", {"up.b": ("f",)})
    found = structure.figures(package, ["p.up.a"])
    assert found["way"] == {"up.b:f": 2} and found["way_lines"] == found["way_code_lines"] == 2
    loaded = structure.import_graph(package, when_asked=False)
    assert structure.way_chain(loaded, "p", ("up.a", "up.b")) == ["p.up.a", "p.up.b"]
    assert found["circles"] == [["p.up.b", "p.up.c"]]
    assert found["subpackage_circles"] == []
    assert found["longest_chain_when_asked"] == ["p.up.a", "p.up.b", "p.down.low"]
    assert found["longest_chain"] == ["p.up.c", "p.up.b", "p.down.low"]
    assert found["entry_imports_when_asked"] == 4  # itself, b, c, low
    assert found["entry_imports"] == 3  # without c, imported inside a function of b
    assert (found["subpackages"], found["arrows"]) == (2, 1)


def test_map_lists_every_module():
    """The site's page needs a docstring in every module."""
    lines = structure.package_map(ROOT / "hanabi_rl").splitlines()
    listed = [line.split("`")[1].rstrip("/") for line in lines if line.startswith("- ")]
    headings = [line[3:].rstrip("/") for line in lines if line.startswith("## ")]
    modules = [name.split(".")[1:] for name in structure.modules(ROOT / "hanabi_rl")]
    assert sorted(listed) == sorted("/".join(parts[1:]) for parts in modules if len(parts) > 1)
    assert set(headings) == {parts[0] for parts in modules if len(parts) > 1}


def test_map_of_small_package(tmp_path):
    package = tmp_path / "p"
    for name, text in {
        "__init__": "",
        "alone": "",
        "zoo/__init__": '"""Animals."""',
        "zoo/cat": '"""`Cat`: by Knott et al. 2021, a pet.\n\nMore. And more."""',
        "zoo/wild/__init__": '"""Big ones."""',
        "zoo/wild/cow": '"""One\nof many. Not shown."""',
        "env/__init__": '"""First of the flow."""',
    }.items():
        path = package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lines = structure.package_map(package).splitlines()
    assert lines[3:] == [
        *["", "## env/", "", "First of the flow.", ""],
        *["", "## zoo/", "", "Animals.", ""],
        "- `cat`: `Cat`: by Knott et al. 2021, a pet.",
        "- `wild/`: Big ones.",
        "- `wild/cow`: One of many.",
    ]
    (package / "zoo" / "dumb.py").write_text("")
    with pytest.raises(ValueError, match=r"p\.zoo\.dumb: expected a docstring"):
        structure.package_map(package)
