"""Client of AH2AC2's protocol: `ChallengeClient`. No JAX.

Like the published client, it drops the first frame, reads every key of the first payload except
`info` as an agent and exactly four fields of `info`, raises at `error_details`, and never
reconnects (`submission.py` does). Keys appear only in URLs, as the protocol requires, never in
error messages or logs.
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
"""Timeout of the server's next frame, which includes its partners' moves."""
CONNECTION_ERRORS = (OSError, EOFError, WebSocketException)
"""Exceptions of a connection that cannot be made or breaks."""
_RETRY_AFTER = re.compile(r"try again in (\d+) s")
_QUIET = logging.Logger("hanabi_rl.people.serve.client", logging.CRITICAL)  # URLs hold keys

Rows = dict[str, dict[str, np.ndarray]]
"""Observations by controlled agent: `obs` float[O] and `legal_moves` float[A], 0 or 1."""
Frame = dict[str, Any]
"""One turn of a batch: `batch`, `turn`, and `rows` with `obs`, `legal_moves` and `decides`."""


class ServerError(ValueError):
    """`error_details` or the reason for rejecting a key, in the server's words.

    `again`: the request may be retried, after `wait_s` seconds if the server gives a time.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.again = status >= 500 or "again" in text
        found = _RETRY_AFTER.search(text)
        self.wait_s = float(found[1]) if found else None


class ProtocolError(ValueError):
    """The server does not follow the protocol."""


class KeyGame(NamedTuple):
    """One game of a key, from `evaluation-info`."""

    status: str  # TODO, ACTIVE or DONE
    num_players: int
    agents: tuple[str, ...]  # controlled by the candidate
    score: int | None


@dataclasses.dataclass(frozen=True)
class ChallengeClient:
    """Connection settings of one key. `address`: `http(s)://HOST[:PORT]/[PATH/]`, with a final
    slash; `source`: local address to connect from."""

    address: str
    key: str = dataclasses.field(repr=False)
    source: str | None = None

    def games(self) -> list[KeyGame]:
        """List the games of the key. Raises ServerError for a rejected key, ProtocolError,
        OSError."""
        status, body = self.info()
        done = body["human_ai_eval_done"]
        if not isinstance(done, bool):  # the reason, from a hanabi-rl server
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
        """Open the next official game. Raises ServerError, ProtocolError, CONNECTION_ERRORS."""
        return RemoteGame(self, f"play-next?submission_key={quote(self.key, safe='')}")

    def predict(self, players: int) -> contextlib.closing[RemotePrediction]:
        """Open a prediction connection (hanabi-rl servers only). Raises as `play_next`."""
        key = quote(self.key, safe="")
        query = f"predict?submission_key={key}&num_players={players}"
        return contextlib.closing(RemotePrediction(self, query))

    def info(self) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and content of `evaluation-info`. Raises ProtocolError,
        OSError."""
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
        if status >= 500 or status == 429:  # from a reverse proxy
            raise OSError(f"{self.address} answers with status {status}")
        raise self.protocol_error(f"status {status}: {self._redact(text.decode(errors='replace'))}")

    @contextlib.contextmanager
    def connect(self, query: str) -> Iterator[ClientConnection]:
        """Open a connection and drop its first frame. Raises ProtocolError, CONNECTION_ERRORS."""
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
            socket.recv(timeout=FRAME_TIMEOUT_S)
            yield socket

    def receive(self, socket: ClientConnection) -> dict[str, Any]:
        """Return the next frame. Raises ServerError, ProtocolError, CONNECTION_ERRORS."""
        try:
            answer = orjson.loads(socket.recv(timeout=FRAME_TIMEOUT_S))
        except orjson.JSONDecodeError:
            raise self.protocol_error("a frame that is not JSON") from None
        if not isinstance(answer, dict):
            raise self.protocol_error(f"a frame that is a {type(answer).__name__}")
        if "error_details" in answer:
            raise ServerError(self._redact(answer["error_details"]))
        return answer

    def rows(self, answer: Mapping[str, Any], agents: set[str]) -> Rows:
        """Extract the observations of `agents` from a frame. Raises ProtocolError."""
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
        """Error for a response that does not follow the protocol."""
        return ProtocolError(
            f"{self.address}: expected AH2AC2's protocol, got {' '.join(got.split())[:200]}"
        )

    def _redact(self, text: Any) -> str:
        return str(text).replace(self.key, "(the key)")


class RemoteGame:
    """One game over one connection. `rows`: current observations; `info`: the four fields; `keys`:
    all keys of the last frame."""

    def __init__(self, server: ChallengeClient, query: str) -> None:
        with contextlib.ExitStack() as stack:
            self._server = server
            self._socket = stack.enter_context(server.connect(query))
            first = self.receive()
            self.keys, info = set(first), first.pop("info", None)
            if not isinstance(info, dict) or set(info) != INFO_FIELDS:
                raise server.protocol_error(f"a first frame with info {info}")
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
        """Send any text."""
        self._socket.send(text)

    def receive(self) -> dict[str, Any]:
        """Return the next frame. Raises ServerError, ProtocolError, CONNECTION_ERRORS."""
        return self._server.receive(self._socket)

    def close(self) -> None:
        """Close the connection."""
        self._open.close()


class RemotePrediction:
    """Held-out games over one connection; `frame` is the turn to predict, None at the end."""

    def __init__(self, server: ChallengeClient, query: str) -> None:
        self.frame: Frame | None = {}
        with contextlib.ExitStack() as stack:
            self._server = server
            self._socket = stack.enter_context(server.connect(query))
            self._read_frame()
            self._open = stack.pop_all()

    @property
    def deciding(self) -> list[str]:
        """The rows that need a prediction."""
        assert self.frame is not None
        return [number for number, row in self.frame["rows"].items() if row["decides"]]

    def answer(self, values: dict[str, list[Any]], form: str = "log_probabilities") -> None:
        """Send a list for each deciding row. Raises ServerError, which leaves the frame
        unchanged."""
        self.send(orjson.dumps({form: values}).decode())

    def send(self, text: str) -> None:
        """Send any text and read the next frame."""
        self._socket.send(text)
        self._read_frame()

    def close(self) -> None:
        """Close the connection."""
        self._open.close()

    def _read_frame(self) -> None:
        frame = self._server.receive(self._socket)
        if not frame.get("done") and not {"batch", "batches", "turn", "rows"} <= set(frame):
            raise self._server.protocol_error(f"a turn of {', '.join(frame) or 'nothing'}")
        self.frame = None if frame.get("done") else frame


def server_at(address: str, key: str) -> ChallengeClient:
    """Parse `https://HOST[:PORT][/PATH]`, or `HOST[:PORT]`, which means https as for the published
    client. Raises ValueError."""
    text = address if "://" in address else f"https://{address}"
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or parts.username:
        raise ValueError(f"--server: expected https://HOST[:PORT][/PATH], got {address!r}")
    return ChallengeClient(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/", key)
