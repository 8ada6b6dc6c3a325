"""Folders of a sweep's points, and checks of all points before training."""

import copy
from pathlib import Path
from typing import Any

import pytest

from hanabi_rl.algorithms.br_bc import BRBCConfig
from hanabi_rl.algorithms.registry import ALGORITHMS, find_algorithm
from hanabi_rl.data.files import save_games
from hanabi_rl.data.games import Games
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.launch import sweep as sweeping
from hanabi_rl.launch.sweep import error_note, run_seeds, run_sweep
from hanabi_rl.launch.sweep_config import parse_sweep
from hanabi_rl.play.demos import demo_games

CONFIGS = Path(__file__).parents[2] / "configs"


def names(*args: str) -> list[str]:
    return [point.name for point in parse_sweep(CONFIGS, "quick", args)[2]]


@pytest.mark.parametrize(
    ("algorithm", "grid", "readable"),
    [
        ("bc", 'data=[["../../g/x"],["../../g/y"],["/g/x"],["x"]]', "data=g-x-"),
        ("bc", 'lr=[1,2] data=[["../a/x"]]', "lr=1,data=a-x-"),
        ("bc", 'val=[["a/x","b"],["a/xxb"]]', "val=a-xxb-"),
        ("bc", 'demos=[["runs/a","bot:simple"],["runs/a/"]]', "demos=runs-axbot:simple-"),
        ("bc", 'init_from=["../a","./a","a","../../a"]', "init_from=a-"),
        ("br_bc", 'bc_policy=["../../../../A","A/../../B","hf:A/B"]', "bc_policy=A-"),
        ("best_response", 'partners=[["../r/s0"],["../r/s1"]]', "partners=r-s0-"),
        ("ippo", 'start_states=[["/tmp/a"],["/tmp/b"]]', "start_states=tmp-a-"),
        ("obl", 'previous_level=["../r/s0","../r/s1"]', "previous_level=r-s0-"),
    ],
)
def test_points_have_separate_folders(algorithm: str, grid: str, readable: str) -> None:
    found = names("--algorithm", algorithm, "--grid", *grid.split(" "))
    assert len(set(found)) == len(found) and found[0].startswith(readable)
    root = Path("sweep").resolve()
    assert all((root / name).resolve().parent == root for name in found)
    assert found == names("--algorithm", algorithm, "--grid", *grid.split(" "))  # resumed


def test_path_name_ignores_other_fields() -> None:
    found = names("--algorithm", "bc", "--grid", "lr=[0.1,0.2]", 'data=[["../a/x"],["../b/x"]]')
    paths = [name.partition(",")[2] for name in found]
    assert paths[:2] == paths[2:] and paths[0] != paths[1]


def test_ambiguous_values_have_separate_folders() -> None:
    found = names("--algorithm", "bc", "--grid", 'demos=[["ax","b"],["a","xb"]]')
    assert len(set(found)) == 2 and all(name.startswith("demos=axxb-") for name in found)


def test_valid_point_names_are_unchanged() -> None:
    """A sweep is resumed by its names."""
    grid = 'partners=[["agent:clone-3p","bot:rules?seed=0..9"],["../x"]]'
    first, other = names("--algorithm", "best_response", "--grid", grid)
    assert first == "partners=agent:clone-3pxbot:rules?seed=0..9" and other != "partners=../x"
    longest = "a" * (255 - len("init_from="))
    assert names("--algorithm", "bc", "--grid", f'init_from=["{longest}"]') == [
        f"init_from={longest}"
    ]


def test_names_above_255_bytes_are_shortened(tmp_path: Path) -> None:
    plain = (
        "total_steps=[1000000] num_envs=[128] num_steps=[64] epochs=[1,2] num_minibatches=[4] "
        "lr=[0.001] gamma=[0.99] gae_lambda=[0.95] clip_eps=[0.2] entropy_coef=[0.01] "
        "value_coef=[0.5] max_grad_norm=[0.5] eval_every=[100] eval_games=[512] save_every=[100] "
        'log_every=[1] report_games=[5000] start_state_prob=[0.5] lr_schedule=["linear"]'
    )
    letters = 'init_from=["' + "ä" * 130 + '", "' + "ä" * 131 + '"]'  # two bytes each
    many = "demos=[[" + ", ".join(['"bot:convention"'] * 20) + '], ["bot:simple"]]'
    for algorithm, grid in (("ippo", plain.split(" ")), ("bc", [letters]), ("bc", [many])):
        found = names("--algorithm", algorithm, "--grid", *grid)
        assert len(set(found)) == 2
        for name in found:
            (tmp_path / name).mkdir()
            assert len(name.encode()) <= 255


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """(algorithm, config) of every run; no run is trained."""
    configs: list[Any] = []

    def run_once(algorithm: Any, config: Any) -> dict[str, Any]:
        found = find_algorithm(algorithm)
        configs.append((found.name, config))
        return dict.fromkeys(found.summary_columns, 1.0)

    monkeypatch.setattr(sweeping, "run_once", run_once)
    for name in ("br_bc", "hdr_ippo"):
        quiet = copy.copy(ALGORITHMS[name])
        monkeypatch.setattr(quiet, "on_sweep_end", lambda sweep: None)
        monkeypatch.setattr(f"hanabi_rl.algorithms.{name}.ALGORITHM", quiet)
    return configs


@pytest.mark.parametrize("algorithm", ["br_bc", "hdr_ippo"])
def test_unused_clone_is_not_trained(algorithm: str, planned: list[Any], tmp_path: Path) -> None:
    chosen = ("--algorithm", algorithm, "--run-dir", str(tmp_path), "--preset", "quick-lstm")
    one, other = "agent:clone-2p", "agent:convention-2p"
    for grid in ((f'bc_policy=["{one}","{other}"]',), ("lr=[1]", f'bc_policy=["{other}"]')):
        planned.clear()
        run_sweep(*parse_sweep(CONFIGS, "quick", (*chosen, "--grid", *grid)))
        assert [name for name, _ in planned] == [algorithm] * len(planned)
        assert planned[-1][1].bc_policy == other
    planned.clear()
    run_sweep(*parse_sweep(CONFIGS, "quick", (*chosen, "--grid", "lr=[1, 2]")))
    assert [name for name, _ in planned] == ["bc", algorithm, algorithm]
    assert {config.bc_policy for _, config in planned[1:]} == {str(tmp_path / "bc")}


@pytest.fixture(scope="module")
def two() -> Games:
    return demo_games(Rules(), "random", 5, seed=0)


@pytest.fixture(scope="module")
def three() -> Games:
    return demo_games(Rules(num_players=3), "random", 5, seed=0)


def test_points_can_have_different_games(
    two: Games, three: Games, planned: list[Any], tmp_path: Path
) -> None:
    """In any order, and as a single run has it."""
    for name, games in (("2", two), ("3", three)):
        save_games(tmp_path / f"{name}.json", games)
    chosen = ("--algorithm", "bc", "--preset", "quick-lstm", "--run-dir", str(tmp_path))
    for order in ((2, 3), (3, 2)):
        planned.clear()
        files = ", ".join(f'["{tmp_path}/{name}.json"]' for name in order)
        run_sweep(*parse_sweep(CONFIGS, "quick", (*chosen, "--grid", f"data=[{files}]")))
        assert [config.game.num_players for _, config in planned] == list(order)


def test_point_with_other_player_count_fails_early(
    two: Games, three: Games, planned: list[Any], tmp_path: Path
) -> None:
    for name, games in (("2", two), ("3", three)):
        save_games(tmp_path / f"{name}.json", games)
    files = ", ".join(f'["{tmp_path}/{name}.json"]' for name in (2, 3))
    chosen = ("--algorithm", "bc", "--preset", "2p-human-facts", "--run-dir", str(tmp_path))
    message = "^--preset 2p-human-facts: expected 2 players, as in the preset's name, got 3, as in "
    with pytest.raises(ValueError, match=message):
        run_sweep(*parse_sweep(CONFIGS, "quick", (*chosen, "--grid", f"data=[{files}]")))
    assert planned == []


@pytest.mark.parametrize(
    ("algorithm", "grid", "message"),
    [
        ("bc", ('init_from=["agent:clone-2p", "gone"]',), "^--init-from gone: expected an agent"),
        ("bc", ("lr=[1]", 'init_from=["agent:human-3p"]'), "expected an agent for 2 players"),
        ("obl", ('previous_level=["agent:obl-2p", "gone"]',), "expected an agent.*got gone"),
    ],
)
def test_unusable_initial_agent_fails_early(
    algorithm: str, grid: tuple[str, ...], message: str, planned: list[Any], tmp_path: Path
) -> None:
    preset = "2p-human" if algorithm == "bc" else "quick"
    chosen = ("--algorithm", algorithm, "--preset", preset, "--run-dir", str(tmp_path))
    with pytest.raises(ValueError, match=message):
        run_sweep(*parse_sweep(CONFIGS, "quick", (*chosen, "--grid", *grid)))
    assert planned == []


@pytest.mark.parametrize(
    ("flags", "folder"),
    [
        (("--preset", "2p", "--grid", "lr=[1]"), "sweep-ippo-2p"),
        (("--preset", "2p", "--num-players", "3", "--grid", "lr=[1]"), "sweep-ippo"),
        (("--preset", "2p", "--grid", "game.num_players=[2, 3]"), "sweep-ippo"),
        (("--preset", "3p", "--grid", "lr=[1]"), "sweep-ippo-3p"),
        (("--preset", "quick", "--num-players", "3", "--grid", "lr=[1]"), "sweep-ippo-quick"),
    ],
)
def test_sweep_folder_names_one_player_count(flags: tuple[str, ...], folder: str) -> None:
    sweep, _, _ = parse_sweep(CONFIGS, "quick", ("--algorithm", "ippo", *flags))
    assert sweep.run_dir == f"runs/{folder}"


@pytest.mark.parametrize(
    "args",
    [
        ("--algorithm", "ippo", "--grid", "lr=[1]"),
        ("--grid", "lr=[1]"),
        ("--grid", "lr=[1]", "kl_weight=[0.5]"),
    ],
)
def test_paper_flag_needs_paper_sweep(args: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="^--paper: expected a sweep of hdr_ippo over kl_weight o"):
        names(*args, "--paper")
    assert parse_sweep(CONFIGS, "quick", ("--kl-weights", "0.5", "--paper"))[0].paper
    assert not parse_sweep(CONFIGS, "ablation", ())[0].paper


def test_error_note_names_shared_inputs() -> None:
    def note(algorithm: str, seeds: tuple[int, ...] = (0, 1), **fields: Any) -> str:
        return error_note("±", seeds, [ALGORITHMS[algorithm].config(**fields)])

    assert note("hdr_ippo", bc_policy="clone") == (
        "±: standard error over 2 seeds with the same clone (--bc-policy); variation over clones "
        "is not included"
    )
    assert "the same initial agent (--init-from); variation over init" in note("bc", init_from="a")
    assert "the same level below (--previous-level)" in note("obl", previous_level="a")
    both = note("br_bc", bc_policy="a", partners=("b",))
    assert "the same clone (--bc-policy) and partners (--partners); variation over cl" in both
    assert note("hdr_ippo") == note("ippo") == note("hdr_ippo", (0,), bc_policy="clone") == ""


def test_sweep_and_script_print_error_note(
    planned: list[Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    note = "standard error over 2 seeds with the same clone (--bc-policy); variation over clones"
    chosen = ("--algorithm", "br_bc", "--run-dir", str(tmp_path), "--preset", "quick-lstm")
    flags = ("--grid", "lr=[1, 2]", "--seeds", "0", "1")
    run_sweep(*parse_sweep(CONFIGS, "quick", (*chosen, *flags)))
    assert f"\n±: {note}" in capsys.readouterr().out
    learner = ALGORITHMS["br_bc"]
    run_seeds(learner, BRBCConfig(bc_policy="agent:clone-2p", seeds=(0, 1)))
    assert f"\ns.e.: {note}" in capsys.readouterr().out
    run_seeds(learner, learner.config(seeds=(0, 1)))  # a clone per seed
    assert "standard error" not in capsys.readouterr().out
