"""Bot accounts: sources of credentials, secrecy, log-in and export."""

import http.server
import threading
import urllib.parse

import pytest

from hanabi_rl.people.live.account import (
    Account,
    LoginFailedError,
    LoginRefusedError,
    Server,
    export,
    log_in,
    read_account,
    read_server,
)

PASSWORD = "correct horse & battery"


def write(path, text, mode):
    path.write_text(text)
    path.chmod(mode)
    return path


def test_account_from_environment_or_file(tmp_path):
    environment = {"HANABI_LIVE_USERNAME": "Bot-ann", "HANABI_LIVE_PASSWORD": PASSWORD}
    assert read_account(None, environment) == Account("Bot-ann", PASSWORD)
    file = write(tmp_path / "account", f"Bot-bob\n{PASSWORD}\n", 0o600)
    assert read_account(file, environment) == Account("Bot-bob", PASSWORD)
    assert PASSWORD not in repr(Account("Bot-bob", PASSWORD))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o606, 0o700 | 0o004])
def test_credentials_readable_by_others_are_refused(tmp_path, mode):
    file = write(tmp_path / "account", f"Bot-bob\n{PASSWORD}\n", mode)
    with pytest.raises(ValueError, match="chmod 600") as caught:
        read_account(file, {})
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", PASSWORD, f"{PASSWORD}\nx", f"Bot-bob\n{PASSWORD}\nmore", "Bot-bob\n  \n"]
)
def test_credentials_errors_omit_the_content(tmp_path, text):
    file = write(tmp_path / "account", text, 0o600)
    with pytest.raises(ValueError, match="expected") as caught:
        read_account(file, {})
    assert PASSWORD not in str(caught.value)
    file.write_bytes(b"\xff\n\xff")
    with pytest.raises(ValueError, match="UTF-8"):
        read_account(file, {})


@pytest.mark.parametrize(
    ("environment", "missing"),
    [
        ({}, "USERNAME"),
        ({"HANABI_LIVE_USERNAME": "Bot-ann"}, "PASSWORD"),
        ({"HANABI_LIVE_PASSWORD": PASSWORD}, "USERNAME"),
    ],
)
def test_missing_credential_is_named(environment, missing):
    with pytest.raises(ValueError, match=f"got no HANABI_LIVE_{missing}") as caught:
        read_account(None, environment)
    assert PASSWORD not in str(caught.value)


def test_read_server():
    assert read_server("hanab.live") == Server("hanab.live", 443, True)
    assert read_server("https://hanab.live/").socket_address == "wss://hanab.live:443/ws"
    assert read_server("http://localhost:8080") == Server("localhost", 8080, False)
    assert read_server("http://[::1]:81").socket_address == "ws://[::1]:81/ws"
    with pytest.raises(ValueError, match="send the password unencrypted"):
        read_server("http://hanab.example")
    for wrong in ("", "ftp://x", "https://", "https://x/game", "https://a:b@x", "https://x:99999"):
        with pytest.raises(ValueError, match="--server: expected"):
            read_server(wrong)


@pytest.fixture
def site():
    """Responds to log-ins with `answer`: status, text and headers."""
    forms, answer = [], {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            forms.append((self.path, self.headers["Content-Type"], urllib.parse.parse_qs(body)))
            self.send_response(answer["status"])
            for header in answer.get("headers", ()):
                self.send_header(*header)
            text = answer.get("text", "").encode()
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self):
            forms.append((self.path, dict(self.headers), None))
            self.send_response(answer["status"])
            self.end_headers()
            self.wfile.write(answer.get("text", "").encode())

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield Server("127.0.0.1", server.server_port, False), answer, forms
    server.shutdown()
    thread.join()
    server.server_close()


def test_log_in(site):
    server, answer, forms = site
    cookies = [
        ("Set-Cookie", "other=1; Path=/"),
        ("Set-Cookie", "hanabi.sid=abc%3D.def; Path=/; HttpOnly; SameSite=Strict"),
    ]
    answer |= {"status": 200, "headers": cookies}
    assert log_in(server, Account("Bot-ann", PASSWORD)) == "abc%3D.def"
    form = {"username": ["Bot-ann"], "password": [PASSWORD], "version": ["bot"]}
    assert forms == [("/login", "application/x-www-form-urlencoded", form)]


def test_log_in_refused_or_failed(site):
    server, answer, _ = site
    account = Account("Bot-ann", PASSWORD)
    answer |= {"status": 401, "text": f"no such password: {PASSWORD}"}
    with pytest.raises(LoginRefusedError, match=r"rejects Bot-ann \(status 401\)") as caught:
        log_in(server, account)
    assert PASSWORD not in str(caught.value)
    for status, match in ((502, "status 502"), (302, "302"), (200, "no cookie hanabi.sid")):
        answer |= {"status": status, "headers": [("Location", "http://127.0.0.1:1/")]}
        with pytest.raises(LoginFailedError, match=match):
            log_in(server, account)
    with pytest.raises(LoginFailedError):
        log_in(Server("127.0.0.1", 9, False), account)


def test_export_returns_any_response(site):
    """One request without a session."""
    server, answer, requests = site
    for status, text in ((200, '{"id": 5}'), (404, "Error: no such game"), (500, "")):
        answer |= {"status": status, "text": text}
        assert export(server, 5) == (status, text.encode())
    for path, headers, _ in requests:
        assert path == "/export/5" and headers["User-Agent"] == "hanabi-rl"
        assert "Cookie" not in headers
    with pytest.raises(OSError, match=r"127\.0\.0\.1: ConnectionRefusedError"):
        export(Server("127.0.0.1", 9, False), 5)
