"""A PostgreSQL server in a temporary folder, if its programs are installed."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanabi_rl.storage.extras import install_command


def programs() -> Path:
    """Folder of the programs; skips the test without them or psycopg."""
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip(f"psycopg is not installed: {install_command('postgres')}")
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    found = shutil.which("initdb")
    places += [Path(found).parent] if found else []
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    pytest.skip("initdb and postgres are not installed")


class Cluster:
    """A server on a socket in `folder`; `new` makes an empty schema for a store."""

    def __init__(self, bin: Path, folder: Path) -> None:
        self._bin, self._folder, self._num_schemas = bin, folder, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._user = {"user": "nobody", "group": "nogroup", "extra_groups": []}  # not as root
        if os.geteuid() != 0:
            self._user = {}
        else:
            shutil.chown(folder, "nobody", "nogroup")
        self._run("initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-D", f"{folder}/data")
        self.start()

    def _run(self, program: str, *args: str) -> None:
        subprocess.run(
            [self._bin / program, *args],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            **self._user,
        )

    def start(self) -> None:
        """Start; return once it responds."""
        log = (self._folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [
                    *(self._bin / "postgres", "-D", self._folder / "data", "-k", self._folder),
                    *("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=120"),
                ],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._user,
            )
        until = time.monotonic() + 60
        while self._process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(Exception):
                self._do("SELECT 1")
                return
            time.sleep(0.05)
        raise AssertionError((self._folder / "log").read_text())

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop and cut connections; with SIGQUIT without further writes."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Stop; start again at the end."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def new(self) -> str:
        """Address of an empty schema: a database would take 8 MB of files."""
        self._num_schemas += 1
        self._do(f"CREATE SCHEMA test_{self._num_schemas}")
        return f"{self._address}&options=-csearch_path%3Dtest_{self._num_schemas}"

    def of_a_user(self, name: str) -> str:
        """Address of the database for a new user without ownership."""
        self._do(f"CREATE ROLE {name} LOGIN")
        return self._address.replace("postgres@", f"{name}@", 1)

    @property
    def _address(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._folder}"

    def _do(self, sql: str) -> None:
        import psycopg

        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(sql.encode())


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """A running server; skips the test without programs."""
    bin = programs()
    with tempfile.TemporaryDirectory(prefix="pg") as folder:  # socket names must be short
        running = Cluster(bin, Path(folder))
        try:
            yield running
        finally:
            running.stop(signal.SIGQUIT)
