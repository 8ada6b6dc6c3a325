"""Bot accounts: credentials, log-in and export of finished games over HTTP.

No representation, error or log contains the password or the session. Over a network both are
encrypted.
"""

import dataclasses
import http.client
import http.cookies
import re
import ssl
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from hanabi_rl.people.live.protocol import COOKIE, VERSION
from hanabi_rl.storage.files import read_private_text

USERNAME, PASSWORD = "HANABI_LIVE_USERNAME", "HANABI_LIVE_PASSWORD"
TIMEOUT_S = 30.0
MAX_RESPONSE_BYTES = 2**20
"""Maximum size of a response; a one-hour game with notes on every card takes 5% of it."""
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_NAME = re.compile(r"[\w.-]{2,15}")


class LoginRefusedError(ValueError):
    """The server rejects this account; do not retry."""


class LoginFailedError(OSError):
    """The server was unreachable or its response was unexpected; retry later."""


@dataclasses.dataclass(frozen=True)
class Account:
    """User name and password of a bot account."""

    username: str
    password: str = dataclasses.field(repr=False)


def read_account(file: Path | None, environment: Mapping[str, str]) -> Account:
    """Read the account from `file` (two lines: user name, password; readable by its owner only) or,
    if `file` is None, from the environment. Raises ValueError without the file's contents."""
    if file is not None:
        expected = "a file of two lines, user name and password"
        lines = read_private_text("--credentials", file, expected).splitlines()
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
                f"expected {where}, or --credentials FILE (mode 600, user name and password on "
                f"one line each), got no {missing}"
            )
    if not _NAME.fullmatch(username) or not password.strip():
        raise ValueError(
            f"{where}: expected a user name of 2 to 15 letters, digits, `_`, `-` or `.`, and a "
            "password"
        )
    return Account(username, password)


@dataclasses.dataclass(frozen=True)
class Server:
    """Address of a hanab.live server."""

    host: str
    port: int
    secure: bool

    @property
    def socket_address(self) -> str:
        """URL of its WebSocket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.secure else 'ws'}://{host}:{self.port}/ws"


def read_server(address: str) -> Server:
    """Parse `https://hanab.live`, `hanab.live` or `http://localhost:8080`. Raises ValueError for an
    invalid address and for one that would receive the password unencrypted."""
    text = address if "://" in address else f"https://{address}"
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    plain = not host or parts.path.strip("/") or parts.query or "@" in parts.netloc
    if plain or parts.scheme not in ("https", "http"):
        raise ValueError(f"--server: expected an address like https://hanab.live, got {address!r}")
    if parts.scheme == "http" and host not in LOCAL_HOSTS:
        raise ValueError(
            f"--server: expected https for {host}: http would send the password unencrypted "
            "(to a machine of your own: `ssh -L` and http://localhost)"
        )
    secure = parts.scheme == "https"
    return Server(host, port or (443 if secure else 80), secure)


def log_in(server: Server, account: Account) -> str:
    """Return the value of the session cookie.

    Raises:
        LoginRefusedError: with the server's message: wrong password, invalid user name.
        LoginFailedError: network or server failure.
    """
    form = {"username": account.username, "password": account.password, "version": VERSION}
    try:
        status, body, cookies = _request(server, "POST", "/login", urllib.parse.urlencode(form))
    except OSError as error:
        raise LoginFailedError(str(error)) from None
    if status in (400, 401, 403):
        reply = body[:2000].decode("utf-8", "replace").replace(account.password, "***")
        text = " ".join(reply.split())[:200]
        raise LoginRefusedError(
            f"{server.host} rejects {account.username} (status {status}): {text}"
        )
    if status != 200:
        raise LoginFailedError(f"{server.host}: log-in failed with status {status}")
    for line in cookies:
        morsel = http.cookies.SimpleCookie(line).get(COOKIE)
        if morsel is not None and morsel.value:
            return morsel.coded_value
    raise LoginFailedError(f"{server.host}: the log-in response has no cookie {COOKIE}")


def export(server: Server, number: int) -> tuple[int, bytes]:
    """Return (status, body) of `GET /export/NUMBER`; needs no session. Raises OSError."""
    return _request(server, "GET", f"/export/{number}")[:2]


def _request(
    server: Server, method: str, path: str, form: str | None = None
) -> tuple[int, bytes, list[str]]:
    """(status, body, cookies). Raises OSError, which contains neither the form nor a cookie."""
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
        return response.status, body, response.headers.get_all("Set-Cookie") or []
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"{server.host}: {type(error).__name__}: {error}") from None
    finally:
        connection.close()
