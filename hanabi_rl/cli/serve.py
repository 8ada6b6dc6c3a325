"""`hanabi-rl serve`, `entries` and `keys`: server of AH2AC2's challenge and its administration."""

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
State = Annotated[Path, tyro.conf.arg(help="folder of the challenge: database, games and secret")]
StoreAddress = Annotated[
    str | None,
    tyro.conf.arg(
        help="address postgresql://... of a PostgreSQL database, in place of the database in "
        "--state. Servers that share it need the same file challenge.secret in --state"
    ),
]


def serve(
    state: State = STATE,
    store: StoreAddress = None,
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
    """Serve AH2AC2's challenge: candidates with a key play with proxies and enter a leaderboard.

    The published ah2ac2 client works unmodified with AH2AC2_EVALUATION_BASE_URL=HOST:PORT; it
    requires TLS.

    Args:
        proxies_2p: partners in games with two players; without agents there are no such games.
        proxies_3p: partners in games with three players; without agents there are no such games.
        prediction_games: .safetensors files of held-out human games for action prediction, one per
            number of players.
        host: address to listen on; 0.0.0.0: all addresses.
        port: port to listen on; 0: any free port.
        slots: games in memory per number of players; further games are replayed when they continue.
        web_workers: number of web processes that share the port, each with an inference process.
        tls_cert: TLS certificate, with --tls-key; without it, use a TLS proxy.
        tls_key: key of --tls-cert.
        limits: limits per network address, in each web process.
    """
    check_extra()
    if store is not None:
        from hanabi_rl.people.serve.store import check_postgres

        check_postgres(store)
    check_tls(tls_cert, tls_key)
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
        # fail early on agents that do not load or differ from those in the store
        identified = with_identities(proxies, inference.load())
        with _store(state, store) as opened:
            opened.fix_proxies(identified)
        print(
            f"The challenge is at {'http' if tls_cert is None else 'https'}://{host}:{bound}/ once "
            "its agents are compiled (Ctrl-C stops; everything is in "
            f"{state if store is None else 'the database'})",
            flush=True,
        )
        inference.compile()
        if many:
            inference.close()  # each web process starts its own, with the compilation cache
        config = GuardedConfig(
            functools.partial(
                open_challenge, place, secret, name, many, inference, proxies, prediction_games
            ),
            limits,
            workers=web_workers,
            log_level="warning",
            access_log=False,  # URLs contain keys
            h11_max_incomplete_event_size=limits.head_bytes,
            ws_max_size=MAX_PREDICTION if prediction_games else MAX_MESSAGE,
            ws_ping_timeout=120.0,  # candidates compile for tens of seconds
            timeout_graceful_shutdown=5,
            ssl_certfile=tls_cert,
            ssl_keyfile=tls_key,
        )
        if many:  # restarts processes that die
            Multiprocess(config, [listening]).run()
        else:
            uvicorn.Server(config).run(sockets=[listening])


def add_entry(
    name: tyro.conf.Positional[str],
    team: str = "",
    link: str = "",
    state: State = STATE,
    store: StoreAddress = None,
) -> None:
    """Add a candidate to the challenge.

    Args:
        name: name of the candidate on the leaderboard.
        team: name of its authors.
        link: URL of a paper or code.
    """
    if not name.strip():
        raise ValueError(f"expected a name for the leaderboard, got {name!r}")
    with _store(state, store) as opened:
        opened.add_entry(name, team, link)
    print(f"{name} is entered; `hanabi-rl keys create {name}` creates its key")


def create_key(
    entry: tyro.conf.Positional[str],
    kind: Literal["eval", "test"] = "eval",
    games_2p: Annotated[int, Range(0, 10_000_000)] = 1000,
    games_3p: Annotated[int, Range(0, 10_000_000)] = 1000,
    state: State = STATE,
    store: StoreAddress = None,
) -> None:
    """Create a key for a candidate and print it; it cannot be printed again.

    Args:
        entry: name of the candidate.
        kind: eval: games that count, each once; test: any number of games with random partners.
        games_2p: number of games with two players, for eval.
        games_3p: number of games with three players, for eval.
    """
    games = {2: games_2p, 3: games_3p} if kind == "eval" else {}
    games = {players: number for players, number in games.items() if number}
    with _existing_store(state, store) as opened:
        print(opened.add_key(entry, kind, games))


def revoke_key(
    hint: tyro.conf.Positional[str], state: State = STATE, store: StoreAddress = None
) -> None:
    """Revoke a key.

    Args:
        hint: first characters of the key, as `keys list` prints them.
    """
    with _existing_store(state, store) as opened:
        opened.revoke(hint)


def list_keys(state: State = STATE, store: StoreAddress = None) -> None:
    """List the proxies, the candidates, and the progress of each evaluation key."""
    from hanabi_rl.people.serve.prediction_store import Predictions
    from hanabi_rl.people.serve.standings import progress

    with _existing_store(state, store) as opened:
        for players, proxies in opened.proxies().items():
            print(f"proxies for {players} players: {', '.join(proxy.name for proxy in proxies)}")
        for entry in opened.entries():
            print(entry["name"])
            for key in entry["keys"]:
                counts = progress(opened.rows(key))
                if predicted := Predictions(opened).count(key):
                    counts["moves predicted"] = predicted
                print(f"  {key.hint}...  " + ", ".join(f"{n:,} {of}" for of, n in counts.items()))


ENTRY_COMMANDS = {"add": add_entry}
KEY_COMMANDS = {"create": create_key, "list": list_keys, "revoke": revoke_key}


def check_tls(tls_cert: Path | None, tls_key: Path | None) -> None:
    """Raise ValueError if the certificate and its key do not load."""
    if tls_cert is None and tls_key is None:
        return
    if tls_cert is None or tls_key is None:
        raise ValueError("expected both --tls-cert and --tls-key, got one of them")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls_cert, tls_key)
    except OSError as error:
        raise ValueError(
            f"--tls-cert {tls_cert} --tls-key {tls_key}: expected a certificate and its key in "
            f"PEM files, got: {error}"
        ) from error


def _existing_store(state: Path, address: str | None) -> contextlib.closing[Store]:
    """Raise ValueError without a database in `state`, which `serve` and `entries add` create."""
    place, _ = _where(state, address)
    if isinstance(place, Path) and not place.is_file():
        raise ValueError(
            f"--state: expected the folder of a challenge, got {state}, which has no {place.name}; "
            "`hanabi-rl entries add` creates it"
        )
    return _store(state, address)


def _store(state: Path, address: str | None) -> contextlib.closing[Store]:
    from hanabi_rl.people.serve.store import Store

    place, secret = _where(state, address)
    return contextlib.closing(Store(place, secret=secret))


def _where(state: Path, address: str | None) -> tuple[Path | str, Path]:
    """Address of the store and path of its secret."""
    place = state / "challenge.sqlite" if address is None else address
    return place, state / "challenge.secret"
