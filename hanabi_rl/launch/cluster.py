"""Runs of a sweep as a Slurm job array, submitted with submitit.

Imported for --launcher; submitit is the optional extra `cluster`. Each job creates or resumes one
run in its folder, as in a sweep without a launcher. A job that must stop saves first; at the end of
its Slurm time submitit requeues it, and it resumes. `<sweep>/jobs/` holds the output and submitit's
files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hanabi_rl.algorithms.registry import stored_config
from hanabi_rl.launch.process_setup import configure_process
from hanabi_rl.launch.sweep_config import SlurmConfig
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.dataclass_io import to_dict
from hanabi_rl.storage.extras import install_command
from hanabi_rl.storage.files import read_json, write_json
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    import submitit
    from submitit.core.utils import DelayedSubmission

FOLDER = "jobs"
"""Subfolder of a sweep with submitit's files."""
_SUBMITTED = "submitted.json"  # run folder, relative to the sweep's -> its newest Slurm job
_LOG_LEVEL = "SUBMITIT_LOG_LEVEL"


@dataclasses.dataclass(frozen=True)
class Job:
    """One run, pickled and called by submitit in a separate process."""

    run: Callable[[str, Any], Mapping[str, Any]]
    """(algorithm, config) -> summary; resumes an unfinished run."""
    algorithm: str
    config: RunConfig

    @property
    def run_dir(self) -> str:
        """The run's folder, which identifies the job."""
        return str(self.config.run_dir)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a dictionary: the config's class, in a user's file, may not be importable."""
        return _stored_job, (self.run, self.algorithm, to_dict(self.config))

    def __call__(self) -> Mapping[str, Any]:
        """Summary of the run; raises as the run does.

        Exits with the run's exit code after a signal. After the signal that Slurm sends before the
        time limit, submitit first requeues the job.
        """
        configure_process()  # the node's settings
        command = f"hanabi-rl train {self.algorithm} --resume --run-dir {self.run_dir}"
        print(f"Command to resume this job's run: {command}", flush=True)
        with _signals_save_first() as hand_over:
            try:
                return self.run(self.algorithm, self.config)
            except (RunStopped, SystemExit) as stopped:
                hand_over()
                sys.exit(stopped.exit_code if isinstance(stopped, RunStopped) else stopped.code)

    def checkpoint(self) -> DelayedSubmission:
        """This job, for submitit to requeue: the state is in the run's folder."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def _stored_job(run: Any, algorithm: str, stored: dict[str, Any]) -> Job:
    return Job(run, algorithm, stored_config(algorithm, stored))


@contextlib.contextmanager
def _signals_save_first() -> Iterator[Callable[[], None]]:
    """Make SIGTERM and submitit's signal stop a run like Ctrl-C: after saving, or at once outside
    training. Yields a function that then passes submitit its signal, if that was the reason."""
    import submitit

    number = signal.Signals[f"SIG{submitit.JobEnvironment.USR_SIG}"]
    submitit_handler, received = signal.getsignal(number), []

    def save_first(number: int, frame: Any) -> None:
        received.append(number)
        signal.raise_signal(signal.SIGTERM)

    def hand_over() -> None:
        if received and callable(submitit_handler):
            submitit_handler(number, None)  # requeues the job and ends the process

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number)),
        number: signal.signal(number, save_first),
    }
    try:
        yield hand_over
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def submit_slurm(folder: Path, config: SlurmConfig, stages: Sequence[Sequence[Job]]) -> None:
    """Submit jobs to Slurm, one array per stage; each stage starts after the previous one succeeds.

    Jobs of an earlier call that are pending or running are kept. The failures of ended jobs are
    printed, and the jobs are submitted again.

    Raises ValueError if Slurm is missing or rejects the jobs, or submitit is not installed.
    """
    check_installed()
    submitted = folder / FOLDER / _SUBMITTED
    ids: dict[str, str] = read_json(submitted) if submitted.exists() else {}

    def place(job: Job) -> str:
        """Independent of how the sweep's folder is spelled."""
        return os.path.relpath(job.run_dir, folder)

    active = _active_slurm_jobs() if ids else set()
    after: list[str] = []
    for stage in stages:
        new = [job for job in stage if ids.get(place(job)) not in active]
        for job in new:
            if (earlier := ids.get(place(job))) is not None:
                print(f"{job.run_dir}: {_slurm_failure(folder, earlier)}", file=sys.stderr)
        if new:
            sent = _submit_array(folder, config, new, after)
            ids |= {place(job): job_id for job, job_id in zip(new, sent, strict=True)}
            write_json(submitted, ids)
            where = f"job {sent[0].split('_')[0]}; logs: {submitted.parent}"
            print(f"{count(len(new), 'run')} submitted to Slurm as {where}", file=sys.stderr)
        after = [ids[place(job)] for job in stage]


def job_name(folder: Path) -> str:
    """Job name of a sweep: its folder's name and a hash of its path."""
    whole = folder.resolve()
    return f"{whole.name}-{hashlib.sha256(str(whole).encode()).hexdigest()[:8]}"


def _submit_array(
    folder: Path, config: SlurmConfig, jobs: Sequence[Job], after: Sequence[str]
) -> list[str]:
    """Ids of new Slurm jobs, which start after those of `after` succeed."""
    import submitit

    parameters: dict[str, Any] = {
        "job_name": job_name(folder),
        "partition": config.slurm_partition,
        "time": config.slurm_time,
        "gpus_per_node": config.slurm_gpus or None,
        "cpus_per_task": config.slurm_cpus,
        "mem": config.slurm_mem,
        "setup": list(config.slurm_setup) or None,
        "array_parallelism": config.slurm_at_once,
        "additional_parameters": dict(text.split("=", 1) for text in config.slurm_extra),
    }
    if after:
        parameters["dependency"] = f"afterok:{':'.join(after)}"
        parameters["additional_parameters"]["kill-on-invalid-dep"] = "yes"
    try:
        executor = submitit.SlurmExecutor(folder / FOLDER, max_num_timeout=config.slurm_requeues)
        executor.update_parameters(**parameters)
        return [handle.job_id for handle in executor.submit_array(jobs)]
    except (RuntimeError, OSError) as error:  # no srun or sbatch, or the job is rejected
        raise ValueError(f"--launcher slurm: Slurm rejected the jobs: {error}") from error


def _active_slurm_jobs() -> set[str]:
    """Ids of this user's pending and running jobs. Raises ValueError if Slurm fails."""
    command = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise ValueError(f"--launcher slurm: {' '.join(command)}: {reason}") from error
    return set(done.stdout.split())


def _slurm_failure(folder: Path, job_id: str) -> str:
    from submitit.slurm.slurm import SlurmJob

    handle = SlurmJob[Any](folder / FOLDER, job_id)
    return f"{_failure(handle) or 'ended, but its run is not finished'}; submitted again"


def _failure(handle: submitit.Job[Any]) -> str | None:
    """Failure of an ended job, with its log; None if it succeeded."""
    log = f"(log: {handle.paths.stderr})"
    if not handle.paths.result_pickle.exists():
        return f"job {handle.job_id} was stopped before its run finished {log}"
    if (error := handle.exception()) is None:
        return None
    # submitit's text has the traceback between two lines of dashes
    lines = str(error).partition("\n---")[2].rpartition("\n---")[0].splitlines()
    return f"job {handle.job_id} failed: {(lines or [str(error)])[-1]} {log}"


def check_installed() -> None:
    """Import submitit. Raises ValueError if it is not installed."""
    # otherwise its import closes all logging handlers, and absl's close their streams
    previous = os.environ.get(_LOG_LEVEL)
    os.environ[_LOG_LEVEL] = "NOCONFIG"
    try:
        import submitit  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"--launcher needs the submitit package: {install_command('cluster')}"
        ) from error
    finally:
        del os.environ[_LOG_LEVEL]
        if previous is not None:
            os.environ[_LOG_LEVEL] = previous
