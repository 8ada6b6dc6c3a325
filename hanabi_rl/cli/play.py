"""`hanabi-rl play`: a person at a table with agents, in the browser or as text; or two agents to
watch."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import socket
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from hanabi_rl.cli.agents import Flag, SeedNames, chosen_decks, load_agents
from hanabi_rl.storage.extras import install_command
from hanabi_rl.storage.validation import Port, Seconds, Seed

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.games.hanabi.rules import Rules
    from hanabi_rl.people.serve.local import LocalPlay
    from hanabi_rl.people.serve.partner_protocol import LazyPartners, Partners

    Seated = tuple[Rules, list[str], Callable[[], Partners], list[str], bool]
    """The game, who sits at the seats that nobody holds, what makes them play, their identities,
    and whether one of them remembers whom it plays with."""

WEB_MODULES = ("starlette", "uvicorn", "websockets", "jinja2", "orjson")
HOST = "127.0.0.1"  # nobody but this machine; there are no accounts here


def play(
    agents: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[AGENT ...]")
    ] = (),
    players: int | None = None,
    watch: Flag = False,
    terminal: Flag = False,
    seed: Seed | None = None,
    seed_names: SeedNames = None,
    out: Path = Path("games"),
    port: Port = 8642,
    no_browser: Flag = False,
    move_delay: Seconds = 0.8,
    reset_memory: Flag = False,
    process: str | None = None,
) -> None:
    """Play Hanabi with an agent, in the browser or (--terminal) as text; finished games are kept.

    Args:
        agents: your partners (default: the best agent of `hanabi-rl gauntlet`). One agent takes
            all other seats; several are seated clockwise from you. With --watch: agents to watch.
        players: 2 to 5, you included; by default 2, or what the agents were trained for.
        watch: watch agents play, move by move, with the probability of each move.
        terminal: as text, moves typed; reads a pipe too.
        seed: seed of the decks; None: a random one.
        seed_names: hanab.live deals to play in turn, by the site's seeds: p2v0s1..50, p2v0s7
            p2v0s12; after the last the first follows.
        out: the folder that games are kept in, as train/bc.py --data reads them.
        port: of the page on this machine; 0 takes any that is free.
        no_browser: only print the address.
        move_delay: seconds before a partner's move is shown in the browser.
        reset_memory: start without what a partner with memory (agent:adhoc-2p) learned of you in
            the games in --out.
        process: in the place of agents a program that is asked for moves in lines of JSON
            (docs/play.md), started once a seat.
    """
    if process is not None and agents:
        raise ValueError(f"expected agents or --process COMMAND, got both: {' '.join(agents)}")
    named = chosen_decks(seed_names, None, seed)[-1]
    names = _lineup(agents, players, watch)
    if not terminal:
        check_extra("; --terminal does not")
    from hanabi_rl.people.serve.folder import GameFolder
    from hanabi_rl.people.serve.local import LocalPlay
    from hanabi_rl.people.serve.partner_protocol import LazyPartners
    from hanabi_rl.play.decks import seed_decks

    with contextlib.ExitStack() as stack:
        if process is None:
            seated = _agents(names, players, watch, out)
        else:
            seated = _processes(process, players or 2, watch, stack)
        rules, names, partners, policies, remembers = seated
        if named:
            seed_decks(rules, named)  # names that are wrong stop before the page opens

        def table_with(partners: Partners) -> LocalPlay:
            folder = GameFolder(out)
            return LocalPlay(
                rules,
                names,
                partners,
                folder,
                seed,
                policies,
                remembers,
                reset_memory=reset_memory,
                seed_names=named,
            )

        if terminal:
            _run_terminal(table_with(partners()))
            return
        listening = listen(HOST, port)
        starting = LazyPartners(partners)  # the table is laid meanwhile
        with contextlib.suppress(KeyboardInterrupt):
            table = table_with(starting)
            _run_page(
                table, out, listening, starting, open_browser=not no_browser, move_delay=move_delay
            )
    if starting.give_up():
        # what is being made cannot be stopped, and may abort with a message at an ordinary exit;
        # every move that anybody saw is on disk
        sys.stdout.flush()
        os._exit(0)


def _agents(names: list[str], players: int | None, watch: bool, out: Path) -> Seated:
    """Loads the agents that were named."""
    from hanabi_rl.agents.policy import runs_search
    from hanabi_rl.agents.preloaded_profile import has_profile
    from hanabi_rl.people.serve.numpy_interpreter import NumPyInterpreter
    from hanabi_rl.people.serve.runner import PartnerRunner
    from hanabi_rl.people.serve.ticks import compiled

    with progress(f"loading {', '.join(dict.fromkeys(names))}"):
        policies = load_agents(names, players or _players(names, watch))
    names = _fill(names, policies[0], watch)
    rules = policies[0].rules
    lineup = list(policies) * len(names) if len(policies) == 1 else list(policies)

    def partners() -> PartnerRunner:
        with progress("getting ready"):
            # one game at a time: sooner than compiled, but for a search, which computes far more
            run = compiled if any(map(runs_search, lineup)) else NumPyInterpreter()
            return PartnerRunner(lineup, rules, run=run, series=out / "series")

    identities = [policy.identity() for policy in lineup]
    return rules, names, partners, identities, any(map(has_profile, lineup))


def _processes(command: str, players: int, watch: bool, stack: contextlib.ExitStack) -> Seated:
    """The program at every seat, ended by `stack`."""
    from hanabi_rl.games.hanabi.rules import Rules
    from hanabi_rl.people.serve.process import ProcessPartners

    rules = Rules(num_players=players)
    partners = stack.enter_context(contextlib.closing(ProcessPartners(rules, command)))
    return rules, [f"process:{command}"] * (players - (not watch)), lambda: partners, [], False


def _lineup(agents: Sequence[str], players: int | None, watch: bool) -> list[str]:
    """The agents as named; more than one must fill the seats."""
    names = list(agents) or [_best_partner(players or 2)]
    seats = None if players is None else players - (not watch)
    if len(names) > 1 and seats not in (None, len(names)):
        wanted = "1 agent" if seats == 1 else f"1 or {seats} agents"
        raise ValueError(
            f"expected {wanted} for {players} players, got {len(names)}: {' '.join(names)}"
        )
    return names


def _best_partner(players: int) -> str:
    """Raises ValueError."""
    from hanabi_rl.evaluation.measure.gauntlet import default_partner

    if not 2 <= players <= 5:
        raise ValueError(f"--players: expected 2 to 5, got {players}")
    return default_partner(players)


def _players(names: Sequence[str], watch: bool) -> int | None:
    """The number of players that several agents say."""
    return len(names) + (not watch) if len(names) > 1 else None


def _fill(names: Sequence[str], policy: Policy, watch: bool) -> list[str]:
    seats = policy.rules.num_players - (not watch)
    return list(names) * seats if len(names) == 1 else list(names)


def _run_terminal(table: LocalPlay) -> None:
    from hanabi_rl.people.serve.terminal import play_terminal, watch_terminal

    try:
        (watch_terminal if table.watched else play_terminal)(table, sys.stdin)
    except KeyboardInterrupt:
        print("\nThe game is kept as it is: the same command goes on with it.")


def _run_page(
    table: LocalPlay,
    out: Path,
    listening: socket.socket,
    starting: LazyPartners,
    *,
    open_browser: bool,
    move_delay: float,
) -> None:
    import uvicorn

    from hanabi_rl.people.serve.web import MAX_MESSAGE, make_app

    address = f"http://{HOST}:{listening.getsockname()[1]}/"
    print(f"The table is at {address} (Ctrl-C stops; games are kept in {out})", flush=True)
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(
        make_app(table, move_delay, at_end=starting.give_up),
        log_level="warning",
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ValueError for a port that is none, OSError where it is taken,
    or `host` is no address of this machine."""
    if not 0 <= port < 2**16:
        raise ValueError(f"--port: expected 0 to {2**16 - 1}, got {port}")
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise OSError(f"--host: expected an address of this machine, got {host}") from error
        raise OSError(f"port {port} of this machine is taken ({error}): try --port 0") from error
    listening.listen()
    return listening


def check_extra(hint: str = "") -> None:
    """Raises ValueError, which ends with `hint`, where the extra `serve` is not installed."""
    missing = [name for name in WEB_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"the page needs {', '.join(missing)}: {install_command('serve')}{hint}")


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """`getting ready ...`, then `getting ready: 3.1 s` on stderr.

    Whole lines: another thread may print meanwhile, and a pipe may hold stdout too.
    """
    print(f"{what} ...", file=sys.stderr, flush=True)
    started = time.perf_counter()
    try:
        yield
    finally:
        print(f"{what}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
