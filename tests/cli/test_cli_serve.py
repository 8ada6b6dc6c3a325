"""`hanabi-rl entries` and `keys`: who may play, and how far they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.postgres import cluster, programs
from support.serving import agree

from hanabi_rl.cli import main
from hanabi_rl.serve.store import Store


def run(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    main([*map(str, args)])
    return capsys.readouterr().out


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.param == "sqlite":
        yield None
    else:
        with cluster() as running:
            yield running.new()


def test_a_candidate_from_its_entry_to_its_last_key(
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
    grant = store.claim(key)
    store.finish(grant, 0, [0], 3, 3)
    listed = run(capsys, "keys", "list", *at)
    assert "games of 3 players are played with bot:iggi, bot:value\n" in listed
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
def test_what_does_not_exist_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*args, "--state", str(tmp_path)])
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_a_database_that_does_not_answer_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    programs()
    address = f"postgresql://me:hidden@/x?host={tmp_path}"
    with pytest.raises(SystemExit) as stopped:
        main(["keys", "list", "--state", str(tmp_path), "--store", address])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and "the database: " in error and len(error.splitlines()) == 1
    assert "hidden" not in error
