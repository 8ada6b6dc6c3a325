"""`benchmarks/unseen_families.py`: families left out, and the table by hand."""

import json
import tomllib
from pathlib import Path

import pytest
from support.benchmarks import benchmark

from hanabi_rl.algorithms.registry import ALGORITHMS
from hanabi_rl.evaluation.measure.gauntlet import FAMILIES
from hanabi_rl.launch.cli_args import parse_args
from hanabi_rl.launch.presets import configs_folder

unseen_families = benchmark("unseen_families")
PRESET = Path(__file__).parents[2] / "configs" / "best_response" / f"{unseen_families.PRESET}.toml"
LEFT = {  # partners left of 56, counted by hand
    "rule lists": 46,
    "simple": 46,
    "smart": 51,
    "conventions": 47,
    "self-play RL": 52,
    "rule family": 38,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_exactly_one_family_is_left_out(family):
    partners = tomllib.loads(PRESET.read_text())["partners"]
    left = unseen_families.without(family, partners)
    assert len(left) == LEFT[family]
    words = {
        "rule lists": ("internal", "outer", "iggi", "piers", "van-den-bergh"),
        "simple": ("simple", "value", "holmes"),
        "smart": ("smart",),
        "conventions": ("convention", "br-bc", "clone", "hgroup"),
        "self-play RL": ("ippo",),
        "rule family": ("rules",),
    }[family]
    assert not [name for name in left if any(word in name for word in words)]


def test_table_counts_complete_seeds(tmp_path):
    for row, family in enumerate(FAMILIES):
        for seed in (0, 1, 2):
            if family == "smart" and seed == 2:
                continue  # not trained yet
            run = tmp_path / unseen_families.folder(family, seed)
            run.mkdir()
            means = {name: {"mean": 20.0, "mean_ci95": [19.0, 21.0]} for name in FAMILIES}
            mean = 15.0 + row + 0.6 * seed
            means[family] = {"mean": mean, "mean_ci95": [mean - 0.5, mean + 0.5]}
            means["rule family"] = (
                means["rule family"] if family == "rule family" else {"mean": 0.0}
            )
            figures = {"families": means, "self_play": {"mean": 22.0 + seed}}
            (run / "gauntlet.json").write_text(json.dumps(figures))
    lines = unseen_families.table(tmp_path).splitlines()
    of_seeds = "0: 17.00 [16.50, 17.50], 1: 17.60 [17.10, 18.10]"
    assert " ".join(lines[3].split()) == f"smart 17.30 22.50 20.00 {of_seeds}"
    # of seeds 0 and 1: 17.5 and 18.1; Student's t of one degree of freedom is 12.706
    assert lines[-1] == "over families, seeds 0, 1: 17.80 [13.99, 21.61]; worst 15.30"


def test_training_commands_are_valid():
    words = unseen_families.training("simple", 7)
    parse = ALGORITHMS["best_response"].config
    config = parse_args(parse, "best_response", configs_folder(), "quick", words[1:])
    assert config.seed == 7 and config.init_from is None and len(config.partners) == 46
