"""Contents of a release: one version, a valid citation, working workflows, a complete wheel."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import hanabi_rl

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_version_is_defined_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "hanabi_rl/__init__.py"
    heading = re.search(r"^## (\S+) \(", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading is not None and heading[1] == hanabi_rl.__version__
    assert hanabi_rl.__version__ not in (ROOT / "CITATION.cff").read_text()


def test_citation_has_required_fields() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert citation["title"] and citation["message"] and citation["authors"]
    assert citation["license"] == "Apache-2.0"
    (paper,) = citation["references"]
    assert paper["title"] and paper["authors"] and "arxiv.org" in paper["url"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_is_consistent(path: Path) -> None:
    """One action per step, existing dependencies and files."""
    workflow = yaml.safe_load(path.read_text())
    assert workflow[True]  # `on`, parsed as YAML 1.1
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    for job in jobs.values():
        assert job["runs-on"] == "ubuntu-latest"
        assert job.get("needs", next(iter(jobs))) in jobs
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            for name in re.findall(r"(?:bash|-c) ([\w./]+)", step.get("run", "")):
                assert (ROOT / name).is_file(), name


def test_publishing_uses_no_token() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets" not in text and "password" not in text
    publish = yaml.safe_load(text)["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"} and publish["environment"] == "pypi"


def test_sdist_paths_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    for name in project["targets"]["sdist"]["include"]:
        assert (ROOT / name).exists(), name
    for name in project["targets"]["wheel"]["force-include"]:
        assert (ROOT / name).exists(), name


def test_container_runs_the_serve_command() -> None:
    lines = (ROOT / "configs" / "serve" / "Containerfile").read_text().splitlines()
    (entry,) = [line for line in lines if line.startswith("ENTRYPOINT")]
    assert '"serve", "--host", "0.0.0.0", "--port", "8643"' in entry
    assert "EXPOSE 8643" in lines
