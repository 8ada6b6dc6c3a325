"""Sweeps as jobs of a fake Slurm."""

import csv
import dataclasses
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.games import TINY
from support.processes import run_python

from hanabi_rl.algorithms.ippo import IPPOConfig
from hanabi_rl.launch import cluster
from hanabi_rl.launch.sweep import SweepIncomplete, run_once, run_sweep, sweep_command
from hanabi_rl.launch.sweep_config import GridPoint, SweepConfig
from hanabi_rl.nn.networks import NetworkConfig
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.extras import install_command

ENVS, STEPS, UPDATES = 16, 12, 3
POINTS = [GridPoint(f"lr={lr}", {"lr": lr}) for lr in (1e-3, 1e-2)]
RUNS = [f"{point.name}/s0" for point in POINTS]


@pytest.fixture(scope="module")
def base() -> IPPOConfig:
    """3 updates on a small game, evaluated at the end."""
    return IPPOConfig(
        game=TINY,
        network=NetworkConfig(embedding=(16,), lstm=(), decoder=(16,), critic=(16,)),
        num_envs=ENVS,
        num_steps=STEPS,
        epochs=1,
        num_minibatches=2,
        total_steps=ENVS * STEPS * UPDATES,
        eval_every=9,
        eval_games=1000,
        save_every=1,
        report_games=1000,
        tensorboard=False,
        report_policy="final",
    )


def small_sweep(folder: Path, **changes: Any) -> SweepConfig:
    return SweepConfig(algorithm="ippo", preset="test", run_dir=str(folder), **changes)


@pytest.fixture(scope="module")
def swept(base: IPPOConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep without a launcher."""
    return run_sweep(small_sweep(tmp_path_factory.mktemp("sweep")), base, POINTS)


def rows(folder: Path) -> list[dict[str, str]]:
    """Rows of `sweep.csv` without time and folder."""
    with (folder / "sweep.csv").open() as file:
        return [
            {key: value for key, value in row.items() if key not in ("wall_s", "run_dir")}
            for row in csv.DictReader(file)
        ]


def job(folder: Path, run: Callable[[str, Any], Mapping[str, Any]]) -> cluster.Job:
    """Job that calls `run`, a local function, which is pickled by value."""
    return cluster.Job(run, "ippo", RunConfig(run_dir=str(folder)))


@pytest.mark.slow
def test_timeout_signal_saves_and_requeues(tmp_path: Path) -> None:
    def run(algorithm: str, config: Any) -> dict[str, Any]:
        from hanabi_rl.runs.run_dir import GracefulStop

        saved = Path(config.run_dir)
        if saved.exists():
            saved.write_text("resumed")
            return {}
        with GracefulStop() as stop:
            signal.raise_signal(signal.SIGUSR2)
            saved.write_text("saved")
        raise RunStopped(saved, stop.exit_code)

    import submitit

    local = submitit.LocalExecutor(folder=tmp_path / "jobs")
    local.submit(job(tmp_path / "run", run)).result()
    assert (tmp_path / "run").read_text() == "resumed"
    (log,) = (tmp_path / "jobs").glob("*_log.err")
    assert "Requeued job" in log.read_text()


SBATCH = """#!/bin/bash
echo "$1" >> "$SLURM_FAKE/submitted"
echo "Submitted batch job $((100 * $(wc -l < "$SLURM_FAKE/submitted")))"
"""
SRUN = """#!/bin/bash
out=/dev/null; err=/dev/null
while [[ $1 == --* ]]; do
    case $1 in --output) out=$2; shift 2;; --error) err=$2; shift 2;; *) shift;; esac
done
id=$SLURM_ARRAY_JOB_ID
fill() { local path=${1//%A/$id}; path=${path//%a/$SLURM_ARRAY_TASK_ID}; echo "${path//%t/0}"; }
exec "$@" >> "$(fill "$out")" 2>> "$(fill "$err")"
"""
SQUEUE = """#!/bin/bash
cat "$SLURM_FAKE/queue"
"""


class FakeSlurm:
    """Slurm's commands on PATH, which record submissions; `run` runs a job as Slurm would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in {"sbatch": SBATCH, "srun": SRUN, "squeue": SQUEUE}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.queue()

    def queue(self, *ids: str) -> None:
        """Set the pending and running jobs of squeue."""
        (self.folder / "queue").write_text("".join(f"{job_id}\n" for job_id in ids))

    @property
    def scripts(self) -> list[Path]:
        """Scripts submitted with sbatch, in order; ids count in hundreds."""
        file = self.folder / "submitted"
        return [Path(line) for line in file.read_text().splitlines()] if file.exists() else []

    def run(self, script: Path, job: int, task: int | None = None) -> int:
        environment = os.environ | {"SLURM_JOB_ID": str(job if task is None else job + task)}
        if task is not None:
            environment |= {"SLURM_ARRAY_JOB_ID": str(job), "SLURM_ARRAY_TASK_ID": str(task)}
        return subprocess.run(["bash", str(script)], env=environment, timeout=300).returncode


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_FAKE", str(folder))
    return FakeSlurm(folder)


def script_of(sbatch: Path, job: int) -> Path:
    """Path of submitit's script once the job's id is known."""
    return sbatch if sbatch.exists() else sbatch.parent / f"{job}_submission.sh"


@pytest.mark.slow
def test_same_command_submits_and_collects_array(
    swept: Path,
    base: IPPOConfig,
    slurm: FakeSlurm,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sweep = small_sweep(
        tmp_path / "sweep-a",
        launcher="slurm",
        slurm_partition="gpu",
        slurm_time=90,
        slurm_gpus=2,
        slurm_cpus=6,
        slurm_mem="24G",
        slurm_setup=("export SET_UP=1", "echo ready"),
        slurm_extra=("account=lab", "qos=high"),
        slurm_at_once=8,
    )
    with pytest.raises(SweepIncomplete, match="0 of 2 runs are finished"):
        run_sweep(sweep, base, POINTS)
    script = script_of(slurm.scripts[0], 100)
    jobs = tmp_path / "sweep-a" / "jobs"
    lines = script.read_text().splitlines()
    for option in (
        "partition=gpu",
        "time=90",
        "gpus-per-node=2",
        "cpus-per-task=6",
        "mem=24G",
        "account=lab",
        "qos=high",
        "array=0-1%2",
        f"job-name={cluster.job_name(tmp_path / 'sweep-a')}",
        f"output={jobs}/%A_%a_0_log.out",
    ):
        assert f"#SBATCH --{option}" in lines
    assert lines.index("export SET_UP=1") + 1 == lines.index("echo ready")
    assert lines[-1].startswith("srun ") and f"{sys.executable} -u -m submitit" in lines[-1]
    assert lines[-1].endswith(f"-m submitit.core._submit {jobs}")
    from submitit.core.utils import DelayedSubmission

    for task, (run, point) in enumerate(zip(RUNS, POINTS, strict=True)):
        function = DelayedSubmission.load(jobs / f"100_{task}_submitted.pkl").function
        assert (function.run, function.algorithm) == (run_once, "ippo")
        assert function.config == dataclasses.replace(
            base, **point.values, run_dir=str(tmp_path / "sweep-a" / run)
        )

    slurm.queue("100_0", "100_1")  # both are pending: nothing is submitted again
    with pytest.raises(SweepIncomplete, match="0 of 2 runs are finished"):
        run_sweep(sweep, base, POINTS)
    assert len(slurm.scripts) == 1

    assert slurm.run(script, 100, 0) == 0
    log = (jobs / "100_0_0_log.out").read_text()
    assert f"train ippo --resume --run-dir {tmp_path}/sweep-a/{RUNS[0]}" in log
    slurm.queue("100_1")
    capsys.readouterr()
    with pytest.raises(SweepIncomplete, match="1 of 2 runs are finished"):
        run_sweep(sweep, base, POINTS)
    assert len(slurm.scripts) == 1
    assert rows(tmp_path / "sweep-a") == rows(swept)[:1]
    out = capsys.readouterr().out
    assert POINTS[0].name in out and POINTS[1].name not in out

    slurm.queue()  # the other was cancelled: it alone is reported and submitted again
    with pytest.raises(SweepIncomplete):
        run_sweep(sweep, base, POINTS)
    err = capsys.readouterr().err
    assert f"{RUNS[1]}: job 100_1 was stopped before its run finished" in err
    assert f"(log: {jobs}/100_1_0_log.err); submitted again" in err
    again = script_of(slurm.scripts[1], 200)
    assert "--array" not in again.read_text()
    assert slurm.run(again, 200) == 0
    run_sweep(sweep, base, POINTS)
    assert rows(tmp_path / "sweep-a") == rows(swept) and len(slurm.scripts) == 2


def test_array_waits_for_shared_run(slurm: FakeSlurm, tmp_path: Path) -> None:
    def run(algorithm: str, config: Any) -> dict[str, Any]:
        return {}

    stages = [[job(tmp_path / "bc", run)], [job(tmp_path / name, run) for name in "abc"]]
    cluster.submit_slurm(tmp_path, SweepConfig(slurm_gpus=0), stages)
    first, second = (
        script_of(path, 100 * number).read_text() for number, path in enumerate(slurm.scripts, 1)
    )
    assert "dependency" not in first and "--array" not in first and "gpus" not in first
    assert "#SBATCH --dependency=afterok:100" in second
    assert "#SBATCH --kill-on-invalid-dep=yes" in second and "#SBATCH --array=0-2%3" in second
    slurm.queue(
        "100", "200_0", "200_2"
    )  # one of the array has ended, and waits for the clone again
    cluster.submit_slurm(tmp_path, SweepConfig(), stages)
    assert "#SBATCH --dependency=afterok:100" in script_of(slurm.scripts[2], 300).read_text()
    assert len(slurm.scripts) == 3


def test_job_name_ignores_folder_spelling(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(algorithm: str, config: Any) -> dict[str, Any]:
        return {}

    for parent in ("one", "two"):
        (tmp_path / parent).mkdir()
        folder = tmp_path / parent / "sweep"
        cluster.submit_slurm(folder, SweepConfig(), [[job(folder / "lr=1/s0", run)]])
    scripts = [script_of(path, 100 * (1 + n)).read_text() for n, path in enumerate(slurm.scripts)]
    names = [re.findall("--job-name=(.*)", script)[0] for script in scripts]
    assert len(names) == len(set(names)) == 2 and all(name.startswith("sweep-") for name in names)
    slurm.queue("100", "200")
    monkeypatch.chdir(tmp_path / "one")
    for named in (Path("sweep"), Path("../one/sweep")):
        cluster.submit_slurm(named, SweepConfig(), [[job(named / "lr=1/s0", run)]])
    assert len(slurm.scripts) == 2
    assert cluster.job_name(Path("sweep")) == names[0]


def test_failed_slurm_job_is_reported(
    slurm: FakeSlurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(algorithm: str, config: Any) -> dict[str, Any]:
        raise ValueError("no such clone")

    stages = [[job(tmp_path / name, run) for name in "ab"]]
    cluster.submit_slurm(tmp_path, SweepConfig(), stages)
    assert slurm.run(script_of(slurm.scripts[0], 100), 100, 1) != 0
    slurm.queue("100_0")
    cluster.submit_slurm(tmp_path, SweepConfig(), stages)
    err = capsys.readouterr().err
    assert f"{tmp_path}/b: job 100_1 failed: ValueError: no such clone (log: {tmp_path}" in err


def test_missing_or_rejecting_slurm_is_reported(
    slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [[job(tmp_path / "a", lambda algorithm, config: {})]]
    (slurm.folder / "sbatch").write_text(
        "#!/bin/bash\necho 'invalid partition: gpux' >&2; exit 1\n"
    )
    with pytest.raises(ValueError, match="--launcher slurm: .*invalid partition: gpux"):
        cluster.submit_slurm(tmp_path, SweepConfig(), stages)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="--launcher slurm: .*srun"):
        cluster.submit_slurm(tmp_path, SweepConfig(), stages)


def test_missing_submitit_fails_before_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    args = ["--algorithm", "ippo", "--preset", "one-rank", "--grid", "lr=[1e-3]"]
    with pytest.raises(ValueError, match=re.escape(install_command("cluster"))):
        sweep_command([*args, "--launcher", "slurm", "--run-dir", str(tmp_path / "sweep")])
    assert not (tmp_path / "sweep").exists()


@pytest.mark.slow  # a process
def test_local_sweep_does_not_import_submitit() -> None:
    run_python(
        "import sys\n"
        "import hanabi_rl.launch.sweep, hanabi_rl.algorithms.ippo\n"
        "assert not {'submitit', 'hanabi_rl.launch.cluster'} & sys.modules.keys()\n"
    )


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("slurm_time", 0, "--slurm-time: expected a whole number from 1 to .*, got 0"),
        ("slurm_at_once", 0, "--slurm-at-once: expected a whole number from 1 to .*, got 0"),
        ("slurm_extra", ("account",), "--slurm-extra: expected OPTION=VALUE, got 'account'"),
    ],
)
def test_slurm_options_are_validated(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SweepConfig(**{field: value})
