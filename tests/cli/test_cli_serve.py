"""`hanabi-rl serve`, `entries` and `keys` from the command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.postgres import cluster, programs
from support.serving import agree, claim, write_moves

from hanabi_rl.cli import main
from hanabi_rl.people.serve.inference_process import Identities, InferenceProcess, StartupError
from hanabi_rl.people.serve.store import Store


def run(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    main([*map(str, args)])
    return capsys.readouterr().out


def test_missing_psycopg_fails_before_listening(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "hanabi_rl.people.serve.postgres", raising=False)
    monkeypatch.setattr("hanabi_rl.cli.serve.listen", None)
    with pytest.raises(SystemExit):
        main(["serve", "--store", "postgresql:///x"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hanabi-rl: a store in PostgreSQL needs psycopg: pip install")


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.param == "sqlite":
        yield None
    else:
        with cluster() as running:
            yield running.new()


def test_candidate_lifecycle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str | None
) -> None:
    at = ("--state", tmp_path) if address is None else ("--state", tmp_path, "--store", address)
    assert "mine is entered" in run(capsys, "entries", "add", "mine", "--team", "us", *at)
    sizes = ("--games-2p", 8, "--games-3p", 18)
    text = run(capsys, "keys", "create", "mine", *sizes, *at).strip()
    place = tmp_path / "challenge.sqlite" if address is None else address
    store = Store(place, secret=tmp_path / "challenge.secret")
    key = store.key(text)
    assert key is not None
    assert [row.num_players for row in store.rows(key)] == [2] * 8 + [3] * 18
    agree(store, {2: ("bot:simple",), 3: ("bot:iggi", "bot:value")})
    lease = claim(store, key)
    write_moves(store, lease, 0, [0], (3, 3))
    listed = run(capsys, "keys", "list", *at)
    assert "proxies for 3 players: bot:iggi, bot:value\n" in listed
    assert text not in listed and f"{key.hint}...  1 done, 0 active, 25 todo" in listed
    test = run(capsys, "keys", "create", "mine", "--kind", "test", *at).strip()
    opened = store.key(test)
    assert opened is not None and opened.kind == "test" and store.rows(opened) == []
    run(capsys, "keys", "revoke", key.hint, *at)
    assert store.key(text) is None and store.key(test) is not None
    store.close()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("keys", "create", "nobody"), "expected the name of an entry, got 'nobody'"),
        (("keys", "revoke", "hk_eval_x"), "expected the hint of a key that is not revoked"),
    ],
)
def test_unknown_entries_and_keys_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], message: str
) -> None:
    run(capsys, "entries", "add", "mine", "--state", tmp_path)
    assert message in refused(capsys, *args, "--state", tmp_path)


def test_only_serve_and_entries_create_a_challenge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--state", tmp_path / "challeng")
    for args in (("list",), ("create", "mine"), ("revoke", "hk_eval_x")):
        error = refused(capsys, "keys", *args, *at)
        assert "--state: expected the folder of a challenge, got " in error
    for name in ("", " "):
        error = refused(capsys, "entries", "add", name, *at)
        assert f"expected a name for the leaderboard, got {name!r}" in error
    assert not list(tmp_path.iterdir())


def test_unreachable_database_prints_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    programs()
    address = f"postgresql://me:hidden@/x?host={tmp_path}"
    with pytest.raises(SystemExit) as stopped:
        main(["keys", "list", "--state", str(tmp_path), "--store", address])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and "the database: " in error and len(error.splitlines()) == 1
    assert "hidden" not in error


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hid%zzden@db.example/x",
        "postgresql://me:hidden@[db.example/x",
        "postgresql://me:hid@hidden@db.example/x",
        "postgresql://me:5/hidden@db.example/x",
        "postgresql://me:hid den@db.example/x",
        "postgresql://me@db.example/x?sslmod=hidden",
    ],
)
def test_invalid_store_address_hides_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    programs()
    error = refused(capsys, "keys", "list", "--state", tmp_path, "--store", address)
    assert "expected postgresql://" in error
    assert not re.search("hid|den|zz", error)
    assert not list(tmp_path.iterdir())


def test_read_only_database_prints_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster() as running:
        at = ("--state", tmp_path, "--store", running.of_a_user("hanabi"))
        assert "the database: permission denied for schema public" in refused(
            capsys, "keys", "list", *at
        )


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """The error line of a command with exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, args)])
    said = capsys.readouterr()
    assert stopped.value.code == 2 and said.out == "" and len(said.err.splitlines()) == 1
    return said.err


def test_unloadable_proxy_leaves_no_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The inference process reports the error."""
    state = tmp_path / "challenge"
    serve = ("serve", "--state", state, "--port", 0, "--proxies-2p", "bot:convetion")
    assert "--proxies-2p: " in (error := refused(capsys, *serve)) and "'bot:convetion'" in error
    assert not state.exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--slots", 0), "--slots: expected a whole number from 1 to 10,000,000, got 0"),
        (("--web-workers", -1), "--web-workers: expected a whole number from 1 to 1,024, got -1"),
        (("--port", 65536), "--port: expected a whole number from 0 to 65,535, got 65,536"),
        (("--host", "192.0.2.1"), "--host: expected an address of this machine, got 192.0.2.1"),
        (("--tls-cert", "cert.pem"), "expected both --tls-cert and --tls-key, got one of them"),
        (("--tls-cert", "a", "--tls-key", "b"), "--tls-cert a --tls-key b: expected a certificate"),
        (("--prediction-games", "none.safetensors"), "got none.safetensors, which does not exist"),
    ],
)
def test_serve_flags_are_checked_first(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.setattr(InferenceProcess, "load", lambda self: pytest.fail("started"))
    assert message in refused(capsys, "serve", "--state", tmp_path / "challenge", *flags)
    assert not list(tmp_path.iterdir())


def test_mismatched_keys_and_proxies_print_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(self: InferenceProcess) -> Identities:
        return {n: {name: name.partition("?")[0] for name in a} for n, a in self._agents.items()}

    monkeypatch.setattr(InferenceProcess, "load", load)
    monkeypatch.setattr(InferenceProcess, "compile", lambda self: pytest.fail("it was not refused"))
    at = ("--state", tmp_path)
    run(capsys, "entries", "add", "mine", *at)
    run(capsys, "keys", "create", "mine", "--games-2p", 4, "--games-3p", 0, *at)
    serve = ("serve", *at, "--port", 0, "--proxies-2p")
    three = ("bot:random", "bot:simple", "bot:iggi", "--proxies-3p")
    assert "6 lineups of 2 players, got 4" in refused(capsys, *serve, *three)
    assert "--proxies-2p: expected a proxy for the 4 games" in refused(capsys, *serve)
    twice = refused(capsys, *serve, "bot:simple", "bot:simple?seed=1")
    assert "bot:simple and bot:simple?seed=1 are the same agent" in twice
    with Store(tmp_path / "challenge.sqlite").database.transaction("write") as db:
        db.execute("INSERT INTO proxies VALUES (2, 0, 'bot:value', 'bot:value')")
        db.execute("UPDATE games SET status = 'done', line_up = '[-1, 0]'")
    assert "were started with bot:value, got bot:simple; use those" in refused(
        capsys, *serve, "bot:simple", "--proxies-3p"
    )


def test_uncompilable_agents_print_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile(self: InferenceProcess) -> None:
        raise StartupError("XlaRuntimeError: RESOURCE_EXHAUSTED\nOut of memory")

    monkeypatch.setattr(InferenceProcess, "load", lambda self: {})
    monkeypatch.setattr(InferenceProcess, "compile", compile)
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "--state", str(tmp_path), "--port", "0", "--proxies-2p", "--proxies-3p"])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and len(error.splitlines()) == 1
    assert "RESOURCE_EXHAUSTED Out of memory" in error
