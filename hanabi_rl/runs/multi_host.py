"""One run on several hosts: how their processes find each other, and which of them talks.

Every host runs the same program on the same games and holds the same parameters; only the
environments, or the games of a minibatch, are shared out among them (`parallel`). The first host
alone measures, and writes the run's folder.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import jax

from hanabi_rl.learning import parallel

FLAG = "--multi-host"
_VARIABLES = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID")  # JAX reads JAX_COORDINATOR_ADDRESS itself
# of a host that ends early, with an error, for the others: they fail once it is gone
_PATIENCE_S = 10


@contextmanager
def connect_hosts(args: Sequence[str]) -> Iterator[None]:
    """Joins this process with those of the other hosts where --multi-host is among `args`; all but
    the first are then silent, unless they fail. Comes before anything that makes JAX look for its
    devices.

    Raises:
        ValueError: where the other hosts cannot be found.
    """
    if FLAG not in args:
        yield
        return
    try:
        hosts, host = (int(os.environ[name]) if name in os.environ else None for name in _VARIABLES)
        jax.distributed.initialize(
            num_processes=hosts, process_id=host, shutdown_timeout_seconds=_PATIENCE_S
        )
    except (ValueError, RuntimeError) as error:
        raise ValueError(
            f"{FLAG}: expected a cluster that JAX knows (SLURM, Open MPI, Kubernetes, a TPU pod), "
            "or "
            f"JAX_COORDINATOR_ADDRESS (HOST:PORT of the first host), {' and '.join(_VARIABLES)}: "
            f"{error}"
        ) from error
    if parallel.process_index() == 0:
        yield
    else:
        with open(os.devnull, "w") as silence, redirect_stdout(silence), redirect_stderr(silence):
            yield
