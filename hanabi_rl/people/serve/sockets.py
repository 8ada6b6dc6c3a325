"""WebSocket connections of pages and candidates: close code, limit, content of a message."""

from starlette.types import Message

REFUSED = 1008  # close code after which a page does not reconnect
MAX_INVALID_MESSAGES = 10  # invalid messages before the connection is closed


def message_body(message: Message) -> str | bytes:
    """Content of one received message."""
    body: str | bytes = message.get("text") or message.get("bytes") or b""
    return body
