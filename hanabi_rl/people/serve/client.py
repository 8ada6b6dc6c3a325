"""The candidate's side of AH2AC2's protocol: `ChallengeClient`, with one game (`RemoteGame`) or
the reading of held-out games (`RemotePrediction`) per connection. No JAX.

It behaves as the published client does: it drops the first frame whatever it is, reads every key of
the first payload but `info` as an agent and exactly four fields of `info`, raises at
`error_details`, and never reconnects (`submission.py` does). A key is in addresses alone, as the
protocol has it: in no text of an error, and in no log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np
import orjson
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

INFO_FIELDS = {"num_players", "candidate_controlling", "is_debug", "game_id"}
ROW_FIELDS = {"obs", "legal_moves"}
FRAME_TIMEOUT_S = 300.0
"""For the server's next frame, and so for its partners' moves."""
CONNECTION_ERRORS = (OSError, EOFError, WebSocketException)
"""What a connection that cannot be made, or breaks, raises."""
_RETRY_AFTER = re.compile(r"try again in (\d+) s")
_QUIET = logging.Logger("hanabi_rl.people.serve.client", logging.CRITICAL)  # addresses hold keys

Rows = dict[str, dict[str, np.ndarray]]
"""What each agent that one controls sees: `obs` float[O] and `legal_moves` float[A], 0 or 1."""
Frame = dict[str, Any]
"""One turn of a batch: `batch`, `turn`, and `rows` of `obs`, `legal_moves` and `decides`."""


class ServerError(ValueError):
    """`error_details`, or why a key opens nothing, in the server's words.

    `again`: it may be asked again later, after `wait_s` seconds where it says so.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.again = status >= 500 or "again" in text
        found = _RETRY_AFTER.search(text)
        self.wait_s = float(found[1]) if found else None


class ProtocolError(ValueError):
    """What answers does not speak the protocol."""


class KeyGame(NamedTuple):
    """One game of a key, as `evaluation-info` lists it."""

    status: str  # TODO, ACTIVE or DONE
    num_players: int
    agents: tuple[str, ...]  # that its candidate controls
    score: int | None


@dataclasses.dataclass(frozen=True)
class ChallengeClient:
    """A server as the holder of one key meets it. `address` ends with a slash:
    `http(s)://HOST[:PORT]/[PATH/]`; `source` is the address of this machine that connects."""

    address: str
    key: str = dataclasses.field(repr=False)
    source: str | None = None

    def games(self) -> list[KeyGame]:
        """The games of the key. Raises ServerError for a key that opens nothing, ProtocolError,
        OSError."""
        status, body = self.info()
        done = body["human_ai_eval_done"]
        if not isinstance(done, bool):  # how a server of ours says why
            raise ServerError(self._redact(done), status)
        try:
            return [
                KeyGame(
                    str(game["status"]),
                    int(game["num_players"]),
                    tuple(game["candidate_controlling"]),
                    game["score"],
                )
                for game in body["all_envs"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise self.protocol_error(f"a list of games without {error}") from None

    def play_next(self) -> RemoteGame:
        """The next official game. Raises ServerError, ProtocolError, CONNECTION_ERRORS."""
        return RemoteGame(self, f"play-next?submission_key={quote(self.key, safe='')}")

    def predict(self, players: int) -> contextlib.closing[RemotePrediction]:
        """A connection that predicts (a server of ours alone has it). Raises as `play_next`."""
        key = quote(self.key, safe="")
        query = f"predict?submission_key={key}&num_players={players}"
        return contextlib.closing(RemotePrediction(self, query))

    def info(self) -> tuple[int, dict[str, Any]]:
        """HTTP status and content of `evaluation-info`. Raises ProtocolError, OSError."""
        request = f"{self.address}evaluation-info/{quote(self.key, safe='')}"
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        except urllib.error.URLError as error:
            raise OSError(f"{self.address} does not answer: {error.reason}") from None
        with contextlib.suppress(orjson.JSONDecodeError):
            body = orjson.loads(text)
            if isinstance(body, dict) and {"all_envs", "human_ai_eval_done"} <= set(body):
                return status, body
        if status >= 500 or status == 429:  # of whoever stands before the server
            raise OSError(f"{self.address} answers with status {status}")
        raise self.protocol_error(f"status {status}: {self._redact(text.decode(errors='replace'))}")

    @contextlib.contextmanager
    def connect(self, query: str) -> Iterator[ClientConnection]:
        """A connection whose first frame was dropped. Raises ProtocolError, CONNECTION_ERRORS."""
        with contextlib.ExitStack() as stack:
            opening = connect(
                self.address.replace("http", "ws", 1) + query,
                open_timeout=60,
                max_size=2**20,
                ping_timeout=120,
                close_timeout=2,
                source_address=None if self.source is None else (self.source, 0),
                logger=_QUIET,
            )
            try:
                socket = stack.enter_context(opening)
            except InvalidStatus as error:
                status = error.response.status_code
                if status < 500 and status != 429:
                    got = f"status {status} for {query.partition('?')[0]}"
                    raise self.protocol_error(got) from None
                raise
            socket.recv(timeout=FRAME_TIMEOUT_S)  # whatever it is
            yield socket

    def receive(self, socket: ClientConnection) -> dict[str, Any]:
        """The next frame. Raises ServerError, ProtocolError, CONNECTION_ERRORS."""
        try:
            answer = orjson.loads(socket.recv(timeout=FRAME_TIMEOUT_S))
        except orjson.JSONDecodeError:
            raise self.protocol_error("a frame that is no JSON") from None
        if not isinstance(answer, dict):
            raise self.protocol_error(f"a frame that is a {type(answer).__name__}")
        if "error_details" in answer:
            raise ServerError(self._redact(answer["error_details"]))
        return answer

    def rows(self, answer: Mapping[str, Any], agents: set[str]) -> Rows:
        """What the agents see, as a frame has it. Raises ProtocolError."""
        rows: Rows = {}
        for agent in sorted(agents):
            row = answer.get(agent)
            if not isinstance(row, dict) or not set(row) >= ROW_FIELDS:
                expected = f"{' and '.join(sorted(ROW_FIELDS))} of {agent}"
                got = f"a frame of {', '.join(answer) or 'nothing'}, not {expected}"
                raise self.protocol_error(got)
            rows[agent] = {name: np.array(row[name]) for name in ROW_FIELDS}
        return rows

    def protocol_error(self, got: str) -> ProtocolError:
        """What is raised for an answer that is none of the protocol's."""
        return ProtocolError(
            f"expected AH2AC2's protocol of {self.address}, got {' '.join(got.split())[:200]}"
        )

    def _redact(self, text: Any) -> str:
        """What a server says, which may say our key."""
        return str(text).replace(self.key, "(the key)")


class RemoteGame:
    """One game over one connection. `rows` is what is seen now, `info` the four fields, `keys` all
    that the last frame had."""

    def __init__(self, server: ChallengeClient, query: str) -> None:
        with contextlib.ExitStack() as stack:
            self._server = server
            self._socket = stack.enter_context(server.connect(query))
            first = self.receive()
            self.keys, info = set(first), first.pop("info", None)
            if not isinstance(info, dict) or set(info) != INFO_FIELDS:
                raise server.protocol_error(f"a first frame whose info is {info}")
            self.info: dict[str, Any] = info
            self._agents = set(self.info["candidate_controlling"])
            self.rows, self.done, self.score = server.rows(first, self._agents), False, 0.0
            self._open = stack.pop_all()

    def step(self, actions: dict[str, int]) -> None:
        """Send the actions of all agents. Raises ServerError, ProtocolError, CONNECTION_ERRORS."""
        self.send(orjson.dumps(actions).decode())
        answer = self.receive()
        if not {"done", "score"} <= set(answer):
            raise self._server.protocol_error("a frame without done and score")
        self.keys = set(answer)
        self.done, self.score = answer.pop("done"), answer.pop("score")
        self.rows = self._server.rows(answer, self._agents)

    def send(self, text: str) -> None:
        """Anything."""
        self._socket.send(text)

    def receive(self) -> dict[str, Any]:
        """The next frame. Raises ServerError, ProtocolError, CONNECTION_ERRORS."""
        return self._server.receive(self._socket)

    def close(self) -> None:
        """Leaves."""
        self._open.close()


class RemotePrediction:
    """Held-out games over one connection; `frame` is the turn to answer, None at the end."""

    def __init__(self, server: ChallengeClient, query: str) -> None:
        self.frame: Frame | None = {}
        with contextlib.ExitStack() as stack:
            self._server = server
            self._socket = stack.enter_context(server.connect(query))
            self._read_frame()
            self._open = stack.pop_all()

    @property
    def deciding(self) -> list[str]:
        """The rows to answer for."""
        assert self.frame is not None
        return [number for number, row in self.frame["rows"].items() if row["decides"]]

    def answer(self, values: dict[str, list[Any]], form: str = "log_probabilities") -> None:
        """A list for each row that decides. Raises ServerError; the frame is the same then."""
        self.send(orjson.dumps({form: values}).decode())

    def send(self, text: str) -> None:
        """Anything."""
        self._socket.send(text)
        self._read_frame()

    def close(self) -> None:
        """Leaves."""
        self._open.close()

    def _read_frame(self) -> None:
        frame = self._server.receive(self._socket)
        if not frame.get("done") and not {"batch", "batches", "turn", "rows"} <= set(frame):
            raise self._server.protocol_error(f"a turn of {', '.join(frame) or 'nothing'}")
        self.frame = None if frame.get("done") else frame


def server_at(address: str, key: str) -> ChallengeClient:
    """The server that a person names: `https://HOST[:PORT][/PATH]`, or `HOST[:PORT]`, which is
    https as for the published client. Raises ValueError."""
    text = address if "://" in address else f"https://{address}"
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or parts.username:
        raise ValueError(f"--server: expected https://HOST[:PORT][/PATH], got {address!r}")
    return ChallengeClient(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/", key)
