"""One run on several hosts: connection of their processes, output of the first only.

All hosts run the same program on the same games with the same parameters; only the environments, or
the games of a minibatch, are divided among them (`parallel`). Only the first host evaluates and
writes the run's folder.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import jax

from hanabi_rl.learning import parallel

FLAG = "--multi-host"
_VARIABLES = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID")  # JAX itself reads JAX_COORDINATOR_ADDRESS
# after a host fails, the others wait this long before they fail
_SHUTDOWN_TIMEOUT_S = 10


@contextmanager
def connect_hosts(args: Sequence[str]) -> Iterator[None]:
    """Connect the hosts if --multi-host is among `args`; silence all but the first.

    Call it before JAX initializes its devices. A host that fails still prints its error. Raises
    ValueError if the other hosts are not found.
    """
    if FLAG not in args:
        yield
        return
    try:
        hosts, host = (int(os.environ[name]) if name in os.environ else None for name in _VARIABLES)
        jax.distributed.initialize(
            num_processes=hosts, process_id=host, shutdown_timeout_seconds=_SHUTDOWN_TIMEOUT_S
        )
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"{FLAG}: expected a cluster that JAX knows (SLURM, Open MPI, Kubernetes, a TPU pod), "
            "or JAX_COORDINATOR_ADDRESS (HOST:PORT of the first host), "
            f"{' and '.join(_VARIABLES)}: {error}"
        ) from error
    if parallel.process_index() == 0:
        yield
    else:
        with open(os.devnull, "w") as silence, redirect_stdout(silence), redirect_stderr(silence):
            yield
