"""`hanabi-rl serve`: AH2AC2's challenge on a machine of one's own; `entries` and `keys` run it."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from hanabi_rl.cli.play import check_extra, listen
from hanabi_rl.people.serve.request_limits import NetworkLimits
from hanabi_rl.storage.validation import BoundedCount, Port, Range

if TYPE_CHECKING:
    from hanabi_rl.people.serve.store import Store

STATE = Path("challenge")


def serve(
    state: Path = STATE,
    store: str | None = None,
    proxies_2p: tuple[str, ...] = ("agent:hgroup-2p", "agent:convention-2p"),
    proxies_3p: tuple[str, ...] = ("agent:human-3p", "agent:human-3p-population"),
    prediction_games: tuple[Path, ...] = (),
    host: str = "127.0.0.1",
    port: Port = 8643,
    slots: BoundedCount = 512,
    web_workers: Annotated[int, Range(1, 1024)] = 1,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    limits: NetworkLimits = NetworkLimits(),  # noqa: B008 (frozen)
) -> None:
    """Run the challenge: candidates with a key play with proxies, and end on a leaderboard.

    The published ah2ac2 client plays unmodified (AH2AC2_EVALUATION_BASE_URL=HOST:PORT; it insists
    on TLS).

    Args:
        state: the folder of the store and its secret; everything that happened is in it.
        store: the address of a PostgreSQL database, postgresql://..., to keep it there. Several
            servers may share it, each with the same challenge.secret in its folder.
        proxies_2p: the agents that candidates meet with two players; none: no such games.
        proxies_3p: with three.
        prediction_games: .safetensors files of held-out human games to predict, one per number of
            players.
        host: the address to listen at; 0.0.0.0 is every one.
        port: 0 takes any that is free.
        slots: games of each number of players that are kept at a time; more are played again when
            their turn comes.
        web_workers: processes that share the port, each with an inference process of its own.
        tls_cert: a certificate, with --tls-key; without, put a proxy in front.
        tls_key: its key.
        limits: what one network address may do, in each web process.
    """
    check_extra()
    if store is not None:
        from hanabi_rl.people.serve.store import check_postgres

        check_postgres(store)
    _check(slots, web_workers, tls_cert, tls_key)
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from hanabi_rl.people.serve.candidate_api import MAX_MESSAGE, agents_of
    from hanabi_rl.people.serve.challenge import open_challenge
    from hanabi_rl.people.serve.held_out import read_all
    from hanabi_rl.people.serve.inference_process import InferenceProcess
    from hanabi_rl.people.serve.prediction_api import MAX_MESSAGE as MAX_PREDICTION
    from hanabi_rl.people.serve.proxies import with_identities
    from hanabi_rl.people.serve.request_timeouts import GuardedConfig

    proxies = {players: names for players, names in ((2, proxies_2p), (3, proxies_3p)) if names}
    agents = agents_of(proxies)
    agents |= {players: agents.get(players, []) for players in read_all(prediction_games)}
    listening = listen(host, port)
    bound = listening.getsockname()[1]
    name, many = f"{socket.gethostname()}:{bound}", web_workers > 1
    place, secret = _where(state, store)
    inference = InferenceProcess(agents, slots)
    with contextlib.suppress(KeyboardInterrupt), listening, contextlib.closing(inference):
        # what is wrong with an agent, or with what the store holds for them, is said here
        agreeable = with_identities(proxies, inference.load())
        with _store(state, store) as kept:
            kept.fix_proxies(agreeable)
        print(
            f"The challenge is at {'http' if tls_cert is None else 'https'}://{host}:{bound}/ once "
            "its agents are compiled (Ctrl-C stops; everything is in "
            f"{state if store is None else 'the database'})",
            flush=True,
        )
        inference.compile()
        if many:
            inference.close()  # each process has its own, and finds what was compiled
        config = GuardedConfig(
            functools.partial(
                open_challenge, place, secret, name, many, inference, proxies, prediction_games
            ),
            limits,
            workers=web_workers,
            log_level="warning",
            access_log=False,  # addresses hold keys
            h11_max_incomplete_event_size=limits.head_bytes,
            ws_max_size=MAX_PREDICTION if prediction_games else MAX_MESSAGE,
            ws_ping_timeout=120.0,  # candidates compile for tens of seconds
            timeout_graceful_shutdown=5,
            ssl_certfile=tls_cert,
            ssl_keyfile=tls_key,
        )
        if many:  # starts again what dies
            Multiprocess(config, [listening]).run()
        else:
            uvicorn.Server(config).run(sockets=[listening])


def add_entry(
    name: tyro.conf.Positional[str],
    team: str = "",
    link: str = "",
    state: Path = STATE,
    store: str | None = None,
) -> None:
    """Enter a candidate.

    Args:
        name: on the leaderboard.
        team: whose it is.
        link: to a paper or code.
        state: the folder of the store.
        store: see `serve`.
    """
    with _store(state, store) as kept:
        kept.add_entry(name, team, link)
    print(f"{name} is entered: `hanabi-rl keys create {name}` makes its key")


def create_key(
    entry: tyro.conf.Positional[str],
    kind: Literal["eval", "test"] = "eval",
    games_2p: Annotated[int, Range(0, 10_000_000)] = 1000,
    games_3p: Annotated[int, Range(0, 10_000_000)] = 1000,
    state: Path = STATE,
    store: str | None = None,
) -> None:
    """Make a key of an entry; it is printed this once.

    Args:
        entry: the name of the candidate.
        kind: eval: games that count, once each; test: any number with random partners.
        games_2p: games with two players.
        games_3p: games with three.
        state: the folder of the store.
        store: see `serve`.
    """
    games = {2: games_2p, 3: games_3p} if kind == "eval" else {}
    games = {players: number for players, number in games.items() if number}
    with _store(state, store) as kept:
        print(kept.add_key(entry, kind, games))


def revoke_key(
    hint: tyro.conf.Positional[str], state: Path = STATE, store: str | None = None
) -> None:
    """End a key.

    Args:
        hint: its first characters, as `list` shows them.
        state: the folder of the store.
        store: see `serve`.
    """
    with _store(state, store) as kept:
        kept.revoke(hint)


def list_keys(state: Path = STATE, store: str | None = None) -> None:
    """List whom games are played with, the entries, their evaluation keys and how far they are.

    Args:
        state: the folder of the store.
        store: see `serve`.
    """
    from hanabi_rl.people.serve.prediction_store import Predictions
    from hanabi_rl.people.serve.standings import progress

    with _store(state, store) as kept:
        for players, proxies in kept.proxies().items():
            names = ", ".join(proxy.name for proxy in proxies)
            print(f"games of {players} players are played with {names}")
        for entry in kept.entries():
            print(entry["name"])
            for key in entry["keys"]:
                counts = progress(kept.rows(key))
                if predicted := Predictions(kept).count(key):
                    counts["moves predicted"] = predicted
                print(
                    f"  {key.hint}...  " + ", ".join(f"{n:,} {what}" for what, n in counts.items())
                )


ENTRY_COMMANDS = {"add": add_entry}
KEY_COMMANDS = {"create": create_key, "list": list_keys, "revoke": revoke_key}


def _check(slots: int, web_workers: int, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Raises ValueError, which names the flag."""
    for flag, value in (("--slots", slots), ("--web-workers", web_workers)):
        if value < 1:
            raise ValueError(f"{flag}: expected 1 or more, got {value}")
    if tls_cert is None and tls_key is None:
        return
    if tls_cert is None or tls_key is None:
        raise ValueError("expected --tls-cert and --tls-key, got one of them")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls_cert, tls_key)
    except OSError as error:
        raise ValueError(
            f"--tls-cert {tls_cert} --tls-key {tls_key}: expected a certificate and its key in "
            f"PEM files, got: {error}"
        ) from error


def _store(state: Path, address: str | None) -> contextlib.closing[Store]:
    from hanabi_rl.people.serve.store import Store

    place, secret = _where(state, address)
    return contextlib.closing(Store(place, secret=secret))


def _where(state: Path, address: str | None) -> tuple[Path | str, Path]:
    """A store and its secret."""
    place = state / "challenge.sqlite" if address is None else address
    return place, state / "challenge.secret"
