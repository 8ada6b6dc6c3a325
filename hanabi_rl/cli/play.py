"""`hanabi-rl play`: play with agents in the browser or as text, or watch agents."""

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
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hanabi_rl.cli import overcooked
from hanabi_rl.cli.agents import Flag, GameName, SeedNames, chosen_decks, load_agents
from hanabi_rl.storage.extras import install_command
from hanabi_rl.storage.validation import Port, PositiveInt, Range, Seconds, Seed
from hanabi_rl.storage.words import game_name

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.games.hanabi.rules import Rules
    from hanabi_rl.people.serve.local import LocalPlay
    from hanabi_rl.people.serve.partner_protocol import LazyPartners, Partners

    Seated = tuple[Rules, list[str], Callable[[], Partners], list[str], bool]
    """Rules; names of the agents in the seats that the user does not take; function that makes
    them; their identities; true if one of them has memory of its partners."""

WEB_MODULES = ("starlette", "uvicorn", "websockets", "jinja2", "orjson")
HOST = "127.0.0.1"  # only this machine, because there are no accounts


def play(
    agents: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[AGENT ...]")
    ] = (),
    game: GameName = None,
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
    seat: int | None = None,
    steps_per_s: Annotated[float, Range(0.5, 100)] | None = None,
    horizon: PositiveInt | None = None,
) -> None:
    """Play Hanabi or Overcooked with agents in the browser, Hanabi also in the terminal, or watch.

    Args:
        agents: your partners, in Overcooked one; default: the best agent of `hanabi-rl gauntlet`.
            One agent takes all other seats; several agents sit clockwise from you. With --watch:
            agents to watch.
        players: number of players, 2 to 5, including you; None: that of the agents or of --game,
            otherwise 2.
        watch: watch agents play, move by move, with the probability of each move.
        terminal: play as text with typed moves, also from a pipe.
        seed: seed of the decks, in Overcooked of the agent's sampled actions; None: a random seed.
        out: folder for finished games, in a format that train/bc.py --data reads.
        port: port of the page on this machine; 0: any free port.
        no_browser: print the address without opening a browser.
        move_delay: seconds before a partner's move appears in the browser.
        reset_memory: ignore what a partner with memory (agent:adhoc-2p) learned about you in the
            games in --out.
        process: command of a program that chooses moves in place of agents, one process per seat,
            with messages as lines of JSON (docs/play.md).
        seat: your seat in Overcooked, 0 or 1; None: in turn.
        steps_per_s: steps per second in Overcooked; None: 6.67.
        horizon: steps of a game of Overcooked; None: the agent's.
    """
    if process is not None and agents:
        raise ValueError(f"expected agents or --process COMMAND, got both: {' '.join(agents)}")
    is_hanabi = game is None or game_name(game) == "hanabi"
    names = _lineup(agents, players, watch, game) if is_hanabi else list(agents)
    if not is_hanabi and len(names) != 1:
        raise ValueError(f"expected one agent for {game}, got {' '.join(names) or 'none'}")
    named = chosen_decks(seed_names, None, seed)[-1]
    if not terminal:
        check_extra("; --terminal does not")
    loaded: list[Policy] = []
    if process is None:
        with progress(f"loading {', '.join(dict.fromkeys(names))}"):
            several = len(names) + (not watch) if len(names) > 1 else None
            loaded = list(load_agents(names, players or several, game))
    if loaded and loaded[0].rules.name != "hanabi":
        if loaded[0].rules.name != "overcooked":
            raise ValueError(f"play: expected hanabi or overcooked, got {loaded[0].rules.name}")
        _check_unused(
            "overcooked",
            {
                "--players": players,
                "--watch": watch,
                "--terminal": terminal,
                "--seed-names": seed_names,
                "--reset-memory": reset_memory,
            },
        )
        app = overcooked.kitchen_app(
            loaded[0], names[0], out, seat=seat, seed=seed, steps_per_s=steps_per_s, horizon=horizon
        )
        listening = listen(HOST, port)
        with contextlib.suppress(KeyboardInterrupt):
            run_page(app, listening, f"games are saved in {out}", open_browser=not no_browser)
        return
    of_overcooked = {"--seat": seat, "--steps-per-s": steps_per_s, "--horizon": horizon}
    _check_unused("hanabi", of_overcooked)
    from hanabi_rl.agents.loading import game_of_flags
    from hanabi_rl.people.serve.folder import GameFolder
    from hanabi_rl.people.serve.local import LocalPlay
    from hanabi_rl.people.serve.partner_protocol import LazyPartners
    from hanabi_rl.play.decks import seed_decks

    with contextlib.ExitStack() as stack:
        if process is None:
            seated = _agents(names, loaded, watch, out)
        else:
            seated = _processes(process, game_of_flags(players, game), watch, stack)
        rules, names, partners, policies, remembers = seated
        if named:
            seed_decks(rules, named)  # fail on invalid names before the page opens

        def make_play(partners: Partners) -> LocalPlay:
            return LocalPlay(
                rules, names, partners, GameFolder(out), seed, policies, remembers,
                reset_memory=reset_memory, seed_names=named,
            )  # fmt: skip

        if terminal:
            _run_terminal(make_play(partners()))
            return
        from hanabi_rl.people.serve.web import make_app

        listening = listen(HOST, port)
        starting = LazyPartners(partners)  # in the background, while the page opens
        with contextlib.suppress(KeyboardInterrupt):
            app = make_app(make_play(starting), move_delay, at_end=starting.give_up)
            run_page(app, listening, f"games are saved in {out}", open_browser=not no_browser)
    exit_compiling(starting)


def exit_compiling(*partners: LazyPartners) -> None:
    """End the process if partners are still being compiled, which cannot be stopped and may abort
    with a message at a regular exit. Every move on a page is already on disk."""
    if any(each.give_up() for each in partners):
        sys.stdout.flush()
        os._exit(0)


def _check_unused(game: str, values: dict[str, Any]) -> None:
    """Raise ValueError if a flag of another game has a value."""
    for flag, value in values.items():
        if value is not None and value is not False:  # 0 is a value
            raise ValueError(f"{flag}: expected no such flag with --game {game}")


def _agents(names: list[str], policies: list[Policy], watch: bool, out: Path) -> Seated:
    from hanabi_rl.agents.policy import runs_search
    from hanabi_rl.agents.preloaded_profile import has_profile
    from hanabi_rl.people.serve.numpy_interpreter import NumPyInterpreter
    from hanabi_rl.people.serve.runner import PartnerRunner
    from hanabi_rl.people.serve.ticks import compiled

    rules = policies[0].rules
    if len(names) == 1:
        seats = rules.num_players - (not watch)
        names, policies = names * seats, policies * seats

    def partners() -> PartnerRunner:
        with progress("getting ready"):
            # for one game, NumPy starts sooner than compiled code; search needs compiled code
            run = compiled if any(map(runs_search, policies)) else NumPyInterpreter()
            return PartnerRunner(policies, rules, run=run, series=out / "series")

    identities = [policy.identity() for policy in policies]
    return rules, names, partners, identities, any(map(has_profile, policies))


def _processes(command: str, rules: Rules, watch: bool, stack: contextlib.ExitStack) -> Seated:
    """The program at every seat, stopped by `stack`."""
    from hanabi_rl.people.serve.process import ProcessPartners

    partners = stack.enter_context(contextlib.closing(ProcessPartners(rules, command)))
    names = [f"process:{command}"] * (rules.num_players - (not watch))
    return rules, names, lambda: partners, [], False


def _lineup(
    agents: Sequence[str], players: int | None, watch: bool, game: str | None = None
) -> list[str]:
    """Names of the agents, or of the default partner; several agents must fill the seats."""
    from hanabi_rl.agents.loading import game_of_flags
    from hanabi_rl.evaluation.measure.gauntlet import default_partner

    if not agents:
        if not 2 <= (players or 2) <= 5:
            raise ValueError(f"--players: expected 2 to 5, got {players}")
        return [default_partner(game_of_flags(players, game).num_players)]
    seats = None if players is None else players - (not watch)
    if len(agents) > 1 and seats not in (None, len(agents)):
        wanted = "1 agent" if seats == 1 else f"1 or {seats} agents"
        raise ValueError(
            f"expected {wanted} for {players} players, got {len(agents)}: {' '.join(agents)}"
        )
    return list(agents)


def _run_terminal(game: LocalPlay) -> None:
    from hanabi_rl.people.serve.terminal import play_terminal, watch_terminal

    try:
        (watch_terminal if game.watched else play_terminal)(game, sys.stdin)
    except KeyboardInterrupt:
        print("\nThe game is saved; repeat the command to continue.")


def run_page(
    app: Starlette, listening: socket.socket, about: str, path: str = "", *, open_browser: bool
) -> None:
    """Serve a page on this machine until Ctrl-C; prints its address and `about`."""
    import uvicorn

    from hanabi_rl.people.serve.web import MAX_MESSAGE

    address = f"http://{HOST}:{listening.getsockname()[1]}/{path}"
    print(f"The table is at {address} (Ctrl-C stops; {about})", flush=True)
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises ValueError for an invalid port; OSError if the port is in use or `host` is not an address
    of this machine.
    """
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
        raise OSError(f"--port: port {port} is in use ({error}); try --port 0") from error
    listening.listen()
    return listening


def check_extra(hint: str = "") -> None:
    """Raise ValueError with `hint` at the end if the extra `serve` is not installed."""
    missing = [name for name in WEB_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"the page needs {', '.join(missing)}: {install_command('serve')}{hint}")


@contextlib.contextmanager
def progress(task: str) -> Iterator[None]:
    """Print `getting ready ...`, then `getting ready: 3.1 s`, on stderr.

    Whole lines, because other threads print too.
    """
    print(f"{task} ...", file=sys.stderr, flush=True)
    started = time.perf_counter()
    try:
        yield
    finally:
        print(f"{task}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
