"""Forms and cookies of a study: `read_form`, `StudyCookie`."""

from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from hanabi_rl.people.serve.web import check_origin
from hanabi_rl.people.study.folder import StudyFolder

MAX_FORM = 65536  # bytes


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields of a form from the study's pages. Raises HTTPException."""
    check_origin(request.headers)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM:
            raise HTTPException(413, f"expected a form of at most {MAX_FORM} bytes")
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=200))
    except ValueError:
        raise HTTPException(400, "expected a form") from None


class StudyCookie:
    """Cookie of the study in `folder`.

    The folder's tag is in its name: browsers keep one jar for all ports of a host, so studies on
    one host would overwrite each other's cookie.
    """

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder
        self.name = f"hanabi_study_{folder.tag}"

    def value(self, connection: HTTPConnection) -> str:
        """Return the cookie as sent, empty if there is none."""
        return connection.cookies.get(self.name, "")

    def code(self, connection: HTTPConnection) -> str:
        """Return the code in the cookie, empty if no participant of this study has it."""
        value = self.value(connection)
        return value if self._folder.find(value) else ""

    def put(self, response: Response, request: Request, value: str, seconds: int) -> None:
        """Set the cookie for `seconds`."""
        response.set_cookie(
            self.name,
            value,
            max_age=seconds,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )

    def delete(self, response: Response) -> None:
        """Delete the cookie."""
        response.delete_cookie(self.name)
