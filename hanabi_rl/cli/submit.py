"""`hanabi-rl submit`: play the games of a key on a server with AH2AC2's protocol."""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import json as json_format
import os
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import tyro

from hanabi_rl.agents.process import KEY_VARIABLE
from hanabi_rl.cli.agents import Json
from hanabi_rl.cli.play import progress
from hanabi_rl.storage.extras import install_command
from hanabi_rl.storage.files import read_private_text
from hanabi_rl.storage.validation import Range, Seconds, Seed
from hanabi_rl.storage.words import count

if TYPE_CHECKING:
    from hanabi_rl.agents.policy import Policy
    from hanabi_rl.people.serve.client import ChallengeClient, KeyGame
    from hanabi_rl.people.serve.submission import FinishedGame
    from hanabi_rl.runs.run_dir import GracefulStop

STOPPING = "Stopping after the games in progress; Ctrl-C again leaves them for the next start."
STOPPED = "Stopped; repeat the command to continue."


def submit(
    server: str,
    agents: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[AGENT ...]")
    ] = (),
    key: str | None = None,
    key_file: Path | None = None,
    process: str | None = None,
    predict: tuple[int, ...] = (),
    connections: Annotated[int, Range(1, 64)] = 6,
    seed: Seed = 0,
    timeout: Seconds = 600.0,
    json: Json = False,
) -> None:
    """Play the games of a key on a challenge server.

    The server is `hanabi-rl serve` or another with AH2AC2's protocol. The same command continues a
    stopped run, because the server records the games.

    Args:
        server: https://HOST[:PORT][/PATH], or HOST:PORT with https. The environment variable
            SSL_CERT_FILE names the file of a private certificate.
        agents: one agent per number of players in the key's games; a bot plays any number.
        key: key of the games, which other users of this machine can read on the command line;
            --key-file or the environment variable HANABI_RL_KEY are safer.
        key_file: file with the key, mode 600.
        process: command of a program that chooses moves in place of agents, one process per
            connection, with messages as lines of JSON (docs/play.md).
        predict: numbers of players; predict human moves in held-out games instead of playing.
        connections: maximum number of simultaneous games; the server may allow fewer.
        seed: seed of stochastic agents.
        timeout: seconds without a server response before giving up.
    """
    if importlib.util.find_spec("websockets") is None or importlib.util.find_spec("orjson") is None:
        raise ValueError(f"submit needs websockets and orjson: {install_command('serve')}")
    if bool(agents) == (process is not None):
        got = "both" if agents else "neither"
        raise ValueError(f"expected an AGENT or --process COMMAND, got {got}")
    if predict and process is not None:
        raise ValueError("--predict: expected an AGENT with probabilities, got --process")
    from hanabi_rl.people.live.account import LOCAL_HOSTS
    from hanabi_rl.people.serve.client import server_at

    at = server_at(server, read_key(key, key_file))
    if at.address.startswith("http:") and urlsplit(at.address).hostname not in LOCAL_HOSTS:
        print(f"Warning: {at.address} is not encrypted, the key can be read", file=sys.stderr)
    if predict:
        _predict(at, agents_for(agents, sorted(set(predict))), timeout)
        return
    games = at.games()
    if not games:
        raise ValueError(
            "the key has no games: expected a key of official games, not of tests or predictions"
        )
    left = collections.Counter(game.num_players for game in games if game.status != "DONE")
    make = _players(agents, process, left, seed)
    ended, exit_code = _play(at, games, make, connections, timeout)
    after = at.games()
    record = summary(after, ended)
    print(_text(at, record), file=sys.stderr if json else sys.stdout)
    if json:
        print(json_format.dumps(record))
    sys.exit(exit_code or (1 if record["score_mismatches"] else 0))


def read_key(key: str | None, file: Path | None) -> str:
    """Read the key from `--key`, `--key-file` or the environment, in this order.

    Raises ValueError, without the key, if it is missing or malformed.
    """
    where, text = f"the environment's {KEY_VARIABLE}", os.environ.get(KEY_VARIABLE)
    if key is not None:
        where, text = "--key", key
    elif file is not None:
        where = f"--key-file {file}"
        text = read_private_text("--key-file", file, "a file with the key").strip()
    if text is None:
        raise ValueError(f"expected a key: --key-file FILE, {KEY_VARIABLE} or --key KEY, got none")
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{where}: expected a key, got {len(text)} characters that are not a key")
    return text


def agents_for(names: Sequence[str], sizes: Collection[int]) -> dict[int, Policy]:
    """Return num_players in `sizes` -> agent: the agent trained for it, otherwise the bot.

    Raises:
        ValueError: two agents for one number of players, no agent for a number, or an agent of
            another game than the standard game.
    """
    from hanabi_rl.agents.loading import load_policy, plays_any_game
    from hanabi_rl.agents.policy import check_hanabi
    from hanabi_rl.games.hanabi.rules import Rules

    found: dict[int, tuple[str, Policy]] = {}
    bots = [name for name in names if plays_any_game(name)]
    loaded = [(name, load_policy(name)) for name in names if name not in bots]
    free = set(sizes) - {policy.rules.num_players for _, policy in loaded}
    loaded += [(bot, load_policy(bot, Rules(num_players=n))) for bot in bots for n in sorted(free)]
    for name, policy in loaded:
        check_hanabi(policy, name)
        size = policy.rules.num_players
        if not policy.rules.is_standard:
            got = policy.rules.difference_from(Rules(num_players=size))
            raise ValueError(f"{name}: expected an agent of the standard game, got one for {got}")
        if size in found:
            raise ValueError(f"expected one agent for {size} players, got {found[size][0]}, {name}")
        found[size] = name, policy
    if missing := sorted(set(sizes) - set(found)):
        got = ", ".join(f"{name} for {size}" for size, (name, _) in found.items()) or "none"
        raise ValueError(
            f"expected an agent for {' and for '.join(map(str, missing))} players too, got {got}: "
            "the key has games for them"
        )
    return {size: found[size][1] for size in sorted(set(sizes))}


def summary(games: Sequence[KeyGame], ended: Sequence[FinishedGame]) -> dict[str, Any]:
    """Summarise the server's record of a key's games by number of players.

    `score_mismatches`: number of games whose score here differs from the server's.
    """
    import numpy as np

    from hanabi_rl.evaluation.measure.intervals import bootstrap_median, mean_interval

    recorded = collections.Counter[tuple[Any, ...]](
        (game.num_players, game.agents, game.score) for game in games if game.status == "DONE"
    )
    record: dict[str, Any] = {"players": {}}
    for size in sorted({game.num_players for game in games}):
        rows = [game for game in games if game.num_players == size]
        scores = np.array([game.score or 0 for game in rows if game.status == "DONE"])
        of_size: dict[str, Any] = {"games": len(rows), "done": len(scores)}
        if len(scores) > 1:
            mean = mean_interval(scores, min_value=0, max_value=25)
            of_size |= {"mean": mean.mean, "mean_ci95": list(mean.bounds)}
            of_size |= {"median": bootstrap_median(scores).mean, "zero": int((scores == 0).sum())}
            of_size["perfect"] = int((scores == 25).sum())
        record["players"][str(size)] = of_size
    mismatches = collections.Counter[tuple[Any, ...]](ended) - recorded
    return record | {"played": len(ended), "score_mismatches": mismatches.total()}


def _players(
    agents: Sequence[str], process: str | None, left: Collection[int], seed: int
) -> Callable[[int], Any]:
    """Return a function of num_players that makes the player of one connection."""
    from hanabi_rl.games.hanabi.rules import Rules

    if process is not None:
        from hanabi_rl.agents.process import ProcessAgent
        from hanabi_rl.people.serve.process import ProcessPlayer

        ProcessAgent(process)  # fail on an invalid command before the first game
        return lambda size: ProcessPlayer(Rules(num_players=size), process)
    from hanabi_rl.people.serve.policy_player import PolicyPlayer, warm

    policies = agents_for(agents, left)
    with progress("compiling"):
        for policy in policies.values():
            warm(policy)

    def make(size: int) -> PolicyPlayer:
        if size not in policies:
            raise ValueError(f"the server started an unlisted game with {size} players")
        return PolicyPlayer(policies[size], seed)

    return make


def _play(
    at: ChallengeClient,
    games: Sequence[KeyGame],
    make: Callable[[int], Any],
    connections: int,
    timeout: float,
) -> tuple[list[FinishedGame], int]:
    """Play with a progress bar; return the finished games and the exit code after a signal."""
    from hanabi_rl.people.serve.submission import Submission
    from hanabi_rl.runs.run_dir import GracefulStop
    from hanabi_rl.storage.progress import Progress

    before = sum(game.status == "DONE" for game in games)
    submission = Submission(at, make, connections=connections, timeout_s=timeout)
    with (
        GracefulStop(STOPPING) as stop,
        Progress("submit", total=len(games), unit="games", initial=before) as progress,
    ):

        def tick() -> None:
            if stop.requested:
                submission.stop()
            if ended := submission.ended:
                mean = sum(game.score for game in ended) / len(ended)
                progress.update(before + len(ended), mean=mean, playing=submission.playing)

        try:
            submission.run(games, tick)
        except KeyboardInterrupt:
            print(f"\n{STOPPED}", file=sys.stderr, flush=True)
            os._exit(130)  # do not join threads that wait for the server
    if stop.requested:
        print(STOPPED, file=sys.stderr)
    return submission.ended, stop.exit_code


def _predict(at: ChallengeClient, policies: dict[int, Policy], timeout: float) -> None:
    """Predict the games of each number of players in turn."""
    from hanabi_rl.runs.run_dir import GracefulStop

    with GracefulStop("Stopping after this turn; sent predictions are final.") as stop:
        for size, policy in policies.items():
            if not _predict_size(at, size, policy, stop, timeout):
                print(STOPPED, file=sys.stderr)
                sys.exit(stop.exit_code)
            print(f"{size} players: all predictions sent; {at.address} shows their accuracy")


def _predict_size(
    at: ChallengeClient, size: int, policy: Policy, stop: GracefulStop, timeout: float
) -> bool:
    """Predict all games; false if a signal stopped it."""
    from hanabi_rl.people.serve.prediction_client import predict_all
    from hanabi_rl.people.serve.retry import run_threads
    from hanabi_rl.storage.progress import Progress

    stopped, finished = threading.Event(), threading.Event()
    seen: list[int] = []  # current batch, number of batches

    def on_turn(batch: int, batches: int) -> None:
        seen[:] = batch, batches

    def predict() -> None:
        if predict_all(at, policy, on_turn, stopped, timeout):
            finished.set()

    title = f"predict {size} players"
    with contextlib.ExitStack() as stack:
        bars: list[Progress] = []

        def tick() -> None:
            if stop.requested:
                stopped.set()
            if not seen:
                return
            if not bars:
                bar = Progress(title, total=seen[1], unit="batches", initial=seen[0])
                bars.append(stack.enter_context(bar))
            bars[0].update(seen[1] if finished.is_set() else seen[0])

        run_threads([predict], stopped, tick)
    return finished.is_set()


def _text(at: ChallengeClient, record: Mapping[str, Any]) -> str:
    """The summary as text."""
    from hanabi_rl.evaluation.measure.intervals import bounds_text

    lines = [f"Record of {at.address}"]
    for size, of_size in record["players"].items():
        line = f"{size} players: {of_size['done']:,} of {count(of_size['games'], 'game')} done"
        if "mean" in of_size:
            line += (
                f", mean {of_size['mean']:.2f} {bounds_text(of_size['mean_ci95'])}, median "
                f"{of_size['median']:g}, {of_size['zero']:,} with 0 points, "
                f"{of_size['perfect']:,} perfect"
            )
        lines.append(line)
    lines.append(f"{record['played']:,} of them were played in this run.")
    if record["score_mismatches"]:
        mismatches = count(record["score_mismatches"], "game")
        lines.append(f"{mismatches} with another score on the server: contact its operator")
    return "\n".join(lines)
