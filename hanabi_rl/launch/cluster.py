"""The runs of a sweep as jobs of Slurm, an array that submitit sends.

Imported where --launcher is given; submitit is the optional extra `cluster`. A job is one run, made
or resumed in its folder as a sweep without a launcher does it. A job that is told to stop saves
first: at the end of its Slurm time submitit queues it again, and it goes on. What the jobs print,
and submitit's own files, are in `<sweep>/jobs/`.
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

from hanabi_rl.launch.process_setup import configure_process
from hanabi_rl.launch.sweep_config import SlurmConfig
from hanabi_rl.runs.config import RunConfig
from hanabi_rl.runs.session import RunStopped
from hanabi_rl.storage.extras import install_command
from hanabi_rl.storage.files import read_json, write_json
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    import submitit
    from submitit.core.utils import DelayedSubmission

FOLDER = "jobs"
"""Of a sweep's folder: where submitit's files are."""
_SUBMITTED = "submitted.json"  # run folder, as seen from the sweep's -> its newest Slurm job
_LOG_LEVEL = "SUBMITIT_LOG_LEVEL"


@dataclasses.dataclass(frozen=True)
class Job:
    """One run, as submitit pickles and calls it in a process of its own."""

    run: Callable[[str, Any], Mapping[str, Any]]
    """(algorithm, config) -> summary; resumes what there is of the run."""
    algorithm: str
    config: RunConfig

    @property
    def run_dir(self) -> str:
        """The run's folder, which names the job."""
        return str(self.config.run_dir)

    def __call__(self) -> Mapping[str, Any]:
        """The run's summary. Ends the process with the run's exit code where a signal stopped it;
        after the signal that Slurm sends before the time is over, submitit queues the job again
        first. Raises as the run does."""
        configure_process()  # a node's own
        by_hand = f"hanabi-rl train {self.algorithm} --resume --run-dir {self.run_dir}"
        print(f"The run of this job; once begun, it goes on by hand with {by_hand}", flush=True)
        with _signals_save_first() as hand_over:
            try:
                return self.run(self.algorithm, self.config)
            except (RunStopped, SystemExit) as stopped:
                hand_over()
                sys.exit(stopped.exit_code if isinstance(stopped, RunStopped) else stopped.code)

    def checkpoint(self) -> DelayedSubmission:
        """What submitit queues in this job's place: itself, for the run's state is in its
        folder."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


@contextlib.contextmanager
def _signals_save_first() -> Iterator[Callable[[], None]]:
    """SIGTERM and submitit's own signal stop a run as Ctrl-C does: in a training loop after saving,
    elsewhere at once. Yields what then hands submitit its signal, if that was it."""
    import submitit

    number = signal.Signals[f"SIG{submitit.JobEnvironment.USR_SIG}"]
    submitit_handler, received = signal.getsignal(number), []

    def save_first(number: int, frame: Any) -> None:
        received.append(number)
        signal.raise_signal(signal.SIGTERM)

    def hand_over() -> None:
        if received and callable(submitit_handler):
            submitit_handler(number, None)  # queues the job again and ends the process

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
    """Hands jobs to Slurm, an array for each stage that starts when the one before has succeeded.
    Jobs of an earlier call that still wait or run are left to it; of those that ended without a
    result it is told why, and they are submitted again.

    Raises:
        ValueError: no Slurm here, it refuses the jobs, or submitit is not installed.
    """
    check_installed()
    submitted = folder / FOLDER / _SUBMITTED
    ids: dict[str, str] = read_json(submitted) if submitted.exists() else {}

    def place(job: Job) -> str:
        """The same however the sweep's folder is named."""
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
            print(f"{count(len(new), 'run')} sent to Slurm as {where}", file=sys.stderr)
        after = [ids[place(job)] for job in stage]


def job_name(folder: Path) -> str:
    """What a sweep's jobs are called: its folder's name, and what no folder of that name elsewhere
    has."""
    whole = folder.resolve()
    return f"{whole.name}-{hashlib.sha256(str(whole).encode()).hexdigest()[:8]}"


def _submit_array(
    folder: Path, config: SlurmConfig, jobs: Sequence[Job], after: Sequence[str]
) -> list[str]:
    """The ids of new Slurm jobs, which start when those of `after` have succeeded."""
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
    except (RuntimeError, OSError) as error:  # no srun or sbatch, or it refuses the job
        raise ValueError(f"--launcher slurm: Slurm does not take the jobs: {error}") from error


def _active_slurm_jobs() -> set[str]:
    """The ids of this user's jobs that wait or run. Raises ValueError where Slurm does not say."""
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
    return f"{_failure(handle) or 'ended, but its run is not finished'}; sent again"


def _failure(handle: submitit.Job[Any]) -> str | None:
    """Why a job that has ended did not succeed, and where its log is; None where it did."""
    log = f"(log: {handle.paths.stderr})"
    if not handle.paths.result_pickle.exists():
        return f"job {handle.job_id} was stopped before its run was finished {log}"
    if (error := handle.exception()) is None:
        return None
    # submitit's text: the traceback between two lines of dashes
    lines = str(error).partition("\n---")[2].rpartition("\n---")[0].splitlines()
    return f"job {handle.job_id} failed: {(lines or [str(error)])[-1]} {log}"


def check_installed() -> None:
    """Imports submitit. Raises ValueError where it is not installed."""
    # Else its import closes every handler of logging that there is, and absl's their streams.
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
