"""A bot's account: where its password comes from, and what is asked over HTTP: the log-in that
gives a session, and finished games.

Neither the password nor the session is in a representation, an error or a log. Over a network they
travel encrypted or not at all.
"""

from __future__ import annotations

import dataclasses
import http.client
import http.cookies
import os
import re
import ssl
import stat
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from hanabi_rl.people.live.protocol import COOKIE, VERSION
from hanabi_rl.storage.files import check_readable, open_text

USERNAME, PASSWORD = "HANABI_LIVE_USERNAME", "HANABI_LIVE_PASSWORD"
TIMEOUT_S = 30.0
MAX_RESPONSE_BYTES = 2**20
"""Of an answer; a game of an hour with notes on every card takes a twentieth."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_NAME = re.compile(r"[\w.-]{2,15}")


class LoginRefusedError(ValueError):
    """The server does not let this account in; asking again changes nothing."""


class LoginFailedError(OSError):
    """The server could not be asked, or did not answer as it should; later it may."""


@dataclasses.dataclass(frozen=True)
class Account:
    """Who logs in."""

    username: str
    password: str = dataclasses.field(repr=False)


def read_account(file: Path | None, environment: Mapping[str, str]) -> Account:
    """The account that `file` names (two lines, user name and password; nobody else may read it),
    or where there is none, the environment. Raises ValueError without what is in them."""
    if file is not None:
        check_readable("--credentials", file, "a file of two lines, user name and password")
        lines = _read_private(file).splitlines()
        where = str(file)
        if len(lines) < 2 or any(line.strip() for line in lines[2:]):
            raise ValueError(
                f"{file}: expected two lines, user name and password, got {len(lines)} lines"
            )
        username, password = lines[0].strip(), lines[1]
    else:
        where = f"{USERNAME} and {PASSWORD}"
        username, password = environment.get(USERNAME, ""), environment.get(PASSWORD, "")
        if not username or not password:
            missing = USERNAME if not username else PASSWORD
            raise ValueError(
                f"expected the account in {where} (or --credentials FILE with mode 600, user name "
                f"and password on a line each), got no {missing}"
            )
    if not _NAME.fullmatch(username) or not password.strip():
        raise ValueError(
            f"{where}: expected a user name of 2 to 15 letters, digits, `_`, `-` or `.`, and a "
            "password"
        )
    return Account(username, password)


def _read_private(file: Path) -> str:
    """Raises ValueError where others may read the file."""
    with open_text(file) as opened:
        found = os.fstat(opened.fileno())
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(
                f"{file}: expected a file that its owner alone may read (chmod 600), got mode "
                f"{stat.S_IMODE(found.st_mode):o}"
            )
        try:
            return opened.read()
        except UnicodeDecodeError:
            raise ValueError(f"{file}: expected text in UTF-8") from None


@dataclasses.dataclass(frozen=True)
class Server:
    """Where a server of the kind is."""

    host: str
    port: int
    secure: bool

    @property
    def socket_address(self) -> str:
        """Of its web socket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.secure else 'ws'}://{host}:{self.port}/ws"


def read_server(address: str) -> Server:
    """`https://hanab.live`, `hanab.live`, `http://localhost:8080`. Raises ValueError for an address
    that is none, or one to which a password would travel in the open."""
    text = address if "://" in address else f"https://{address}"
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    plain = not host or parts.path.strip("/") or parts.query or "@" in parts.netloc
    if plain or parts.scheme not in ("https", "http"):
        raise ValueError(f"--server: expected an address like https://hanab.live, got {address!r}")
    if parts.scheme == "http" and host not in _LOCAL:
        raise ValueError(
            f"--server: expected https for {host}: over http the password could be read on its way "
            "(to another machine of yours: `ssh -L` and http://localhost)"
        )
    secure = parts.scheme == "https"
    return Server(host, port or (443 if secure else 80), secure)


def log_in(server: Server, account: Account) -> str:
    """The value of the session's cookie.

    Raises:
        LoginRefusedError: with the server's words: a wrong password, a name that it does not take.
        LoginFailedError: the network's or the server's failure.
    """
    form = {"username": account.username, "password": account.password, "version": VERSION}
    try:
        answer = _ask(server, "POST", "/login", urllib.parse.urlencode(form))
    except OSError as error:
        raise LoginFailedError(str(error)) from None
    if answer.status in (400, 401, 403):
        reply = answer.body[:2000].decode("utf-8", "replace").replace(account.password, "***")
        text = " ".join(reply.split())[:200]
        raise LoginRefusedError(
            f"{server.host} does not let {account.username} in ({answer.status}): {text}"
        )
    if answer.status != 200:
        raise LoginFailedError(f"{server.host}: the log-in was answered with {answer.status}")
    for line in answer.cookies:
        morsel = http.cookies.SimpleCookie(line).get(COOKIE)
        if morsel is not None and morsel.value:
            return morsel.coded_value
    raise LoginFailedError(f"{server.host}: the log-in gave no cookie {COOKIE}")


def export(server: Server, number: int) -> tuple[int, bytes]:
    """Status and body of `GET /export/NUMBER`: a finished game, for which no session is needed.
    Raises OSError where there is no answer."""
    answer = _ask(server, "GET", f"/export/{number}")
    return answer.status, answer.body


@dataclasses.dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    cookies: list[str]


def _ask(server: Server, method: str, path: str, form: str | None = None) -> _Answer:
    """Raises OSError, which says neither the form nor a cookie."""
    connection = (
        http.client.HTTPSConnection(
            server.host, server.port, timeout=TIMEOUT_S, context=ssl.create_default_context()
        )
        if server.secure
        else http.client.HTTPConnection(server.host, server.port, timeout=TIMEOUT_S)
    )
    headers = {"User-Agent": "hanabi-rl"}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        connection.request(method, path, form, headers)
        response = connection.getresponse()
        body = response.read(MAX_RESPONSE_BYTES)
        return _Answer(response.status, body, response.headers.get_all("Set-Cookie") or [])
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"{server.host}: {type(error).__name__}: {error}") from None
    finally:
        connection.close()
