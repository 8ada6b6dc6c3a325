"""Forms that our own pages send: `read_form`."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from hanabi_rl.people.serve.web import check_origin

MAX_FORM = 65536  # bytes


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form of our own. Raises HTTPException."""
    check_origin(request.headers)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM:
            raise HTTPException(413, f"expected a form of {MAX_FORM} bytes at most")
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=200))
    except ValueError:
        raise HTTPException(400, "expected a form") from None
