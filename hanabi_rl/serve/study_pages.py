"""A study in the browser: consent, forms, the table of `web.py`, and withdrawal: `make_study`.

A web worker: it imports no JAX. A person is known by the code in a cookie. None is set before the
consent, and nobody is taken in whose browser did not bring the consent's back. Nothing here logs.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates
from starlette.websockets import WebSocket

from hanabi_rl.serve.forms import on_to, read_form
from hanabi_rl.serve.guard import Guard, address_of
from hanabi_rl.serve.lifecycle import RefusedError
from hanabi_rl.serve.participant import Answers, Participant
from hanabi_rl.serve.participants import SECRET, new_secret
from hanabi_rl.serve.study import SCALE
from hanabi_rl.serve.study_play import StudyPlay
from hanabi_rl.serve.study_steps import heading_of, next_step, questions_of
from hanabi_rl.serve.web import HERE, Lobby, WithHeaders, check_origin

COOKIE = "hanabi_study"
NO_COOKIE = (
    "Your browser kept no cookie, so that the study would not know you on its next page. Nothing "
    "was stored. Allow cookies for this site, and agree once more."
)
_MONTHS = 180 * 86400  # seconds that a browser keeps the code
_MINUTES = 600  # and what stands there from the consent to the code


class Pages:
    """What a study shows and takes."""

    def __init__(self, play: StudyPlay, pause: float, guard: Guard) -> None:
        self.play, self.folder, self.study = play, play.folder, play.folder.study
        self.lobby, self.guard = Lobby(play, pause), guard
        self._templates = Jinja2Templates(HERE / "templates")
        version = self.study.consent.version.encode()
        self._agreed = f"agreed-{hashlib.sha256(version).hexdigest()[:16]}"

    async def start(self, request: Request) -> Response:
        """What the study is, and whether one agrees."""
        if self._person(request) is not None:
            return RedirectResponse("/next", 303)
        complete = self.folder.complete(self.folder.everyone())
        secret = new_secret()  # with the form, so that one that is sent twice is of one person
        return self._page(request, "study_consent.html", complete=complete, secret=secret)

    async def agree(self, request: Request) -> Response:
        """The person agrees to the consent text of this version: `begin` finds that in a cookie."""
        form = await read_form(request)
        version, secret = form.get("version"), form.get("secret", "")
        ours = version == self.study.consent.version and SECRET.fullmatch(secret)
        if self._person(request) is not None or not ours:
            return RedirectResponse("/", 303)
        return on_to("/begin", request, COOKIE, f"{self._agreed}.{secret}", _MINUTES)

    async def begin(self, request: Request) -> Response:
        """From here on things are kept, if the browser keeps the cookie: else nobody would be known
        on the next page, and every try would take another's place."""
        if self._person(request) is not None:
            return RedirectResponse("/next", 303)
        agreed, _, secret = request.cookies.get(COOKIE, "").partition(".")
        if agreed != self._agreed or not SECRET.fullmatch(secret):
            return self._page(request, "study_text.html", text=NO_COOKIE)
        try:
            self.guard.check_opening(address_of(request.client))
            _, code = self.folder.join(secret)
        except RefusedError as error:
            response = self._page(request, "study_text.html", text=f"{error}.")
            response.delete_cookie(COOKIE)
            return response
        return on_to("/next", request, COOKIE, code, _MONTHS)

    async def refuse(self, request: Request) -> Response:
        """The person does not agree."""
        return self._page(request, "study_text.html", text="Nothing was stored. Goodbye.")

    async def next(self, request: Request) -> Response:
        """Whatever comes next."""
        person = self._known(request)
        step = next_step(self.study, person)
        if step.kind == "play":
            try:
                game_id = self.play.deal(person, step.place)
            except RefusedError:  # withdrawn in this moment
                return RedirectResponse("/", 303)
            if game_id is None:
                return self._page(request, "study_wait.html")
            return RedirectResponse(f"/game/{game_id}", 303)
        if step.kind == "done":
            return self._done(request, person)
        met = person.met(self.study)
        return self._page(
            request,
            "study_form.html",
            step=step,
            heading=heading_of(step),
            questions=questions_of(self.study, step),
            ranked=[self._games_with(person, agent) for agent in met]
            if step.kind == "end" and len(met) > 1
            else [],
            more=len(person.plan) - len(person.games)
            if step.kind in ("after", "partner") and not person.stopped
            else 0,
        )

    async def answer(self, request: Request) -> Response:
        """A form filled in, as far as the person liked."""
        person = self._known(request)
        form = await read_form(request)
        step = next_step(self.study, person)
        if form.get("step") == step.name:  # else it was sent before
            asked = questions_of(self.study, step)
            given = {
                question.name: question.read(form.get(f"q_{question.name}", ""))
                for question in asked
            }
            answers: Answers = {name: value for name, value in given.items() if value is not None}
            if step.kind == "end":
                answers |= self._ranking(person, form)
            self._change(person, lambda now: now.with_answers(step.name, answers))
        return RedirectResponse("/checked" if step.kind == "check" else "/next", 303)

    async def checked(self, request: Request) -> Response:
        """What is right, and why, of what the person answered in the check."""
        person = self._known(request)
        if "check" not in person.answers:
            return RedirectResponse("/next", 303)
        return self._page(
            request,
            "study_checked.html",
            given=person.answers["check"],
            right=person.number_right(self.study),
            goes_on=person.may_play(self.study),
        )

    async def stop(self, request: Request) -> Response:
        """The person has had enough: no more games, but the last questions."""
        person = self._known(request)
        await read_form(request)
        self.play.waits_no_more(person.number)
        for played in person.games:
            if played.game.status == "active":
                with contextlib.suppress(RefusedError):
                    self.play.leave(played.game.game_id)
                    await self.lobby.show(played.game.game_id)
        self._change(person, lambda now: now.with_stop())
        return RedirectResponse("/next", 303)

    async def table(self, request: Request) -> Response:
        """The table of one of the person's games."""
        person = self._known(request)
        if not self.play.holds(person, request.path_params["game"]):
            raise HTTPException(404, "no such game of yours")
        return self._page(
            request,
            "table.html",
            watched=False,
            players=self.play.rules.num_players,
            warms_up=self.play.warms_up(request.path_params["game"]),
        )

    async def socket(self, socket: WebSocket) -> None:
        """The socket of the table."""
        game_id = socket.path_params["game"]
        try:
            check_origin(socket.headers)
            mine = self.play.holds(self._known(socket), game_id)
        except HTTPException:
            mine = False
        if not mine:
            await socket.close(1008, "no such game of yours")
            return
        await socket.accept()
        await self.lobby.serve(socket, game_id)

    async def ask_withdraw(self, request: Request) -> Response:
        """Whether everything is to be deleted, by the code."""
        return self._page(request, "study_withdraw.html", given=request.cookies.get(COOKIE, ""))

    async def withdraw(self, request: Request) -> Response:
        """Deletes everything of who holds the code."""
        form, address = await read_form(request), address_of(request.client)
        try:
            self.guard.check_key(address)
        except RefusedError as error:
            return self._page(request, "study_text.html", text=f"{error}.")
        person = self.folder.find(form.get("code", ""))
        if person is None or not self.folder.withdraw(person.number, "the participant"):
            self.guard.wrong_key(address)
            problem = "Nobody takes part with this code: look at every letter."
            return self._page(request, "study_withdraw.html", given="", problem=problem)
        gone, twins = self.play.forget(person.number)
        for game_id in gone:
            await self.lobby.end(game_id)
        for game_id in twins:
            await self.lobby.show(game_id)
        text = "Your games and answers are deleted. Thank you all the same."
        response = self._page(request, "study_text.html", text=text)
        if self._person(request) is None:  # who else takes part in this browser stays
            response.delete_cookie(COOKIE)
        return response

    def _page(self, request: Request, name: str, **shown: Any) -> Response:
        code = request.cookies.get(COOKIE, "") if self._person(request) else ""
        shown |= {"study": self.study, "code": code, "scale": range(1, SCALE + 1)}
        return self._templates.TemplateResponse(request, name, shown)

    def _done(self, request: Request, person: Participant) -> Response:
        """Only now it is told who the partners were."""
        partners = [
            (self._games_with(person, agent), self._name_of(person, agent))
            for agent in person.met(self.study)
        ]
        screened = not person.may_play(self.study)
        return self._page(request, "study_done.html", partners=partners, screened=screened)

    def _name_of(self, person: Participant, agent: int) -> str:
        """Who it was; where a person was awaited and nobody came, who played instead."""
        games = zip(person.plan, person.games, strict=False)
        names = dict.fromkeys(played.agent for (who, _), played in games if who == agent)
        return " and ".join(names)

    def _games_with(self, person: Participant, agent: int) -> str:
        places = [
            str(place + 1)
            for place, (who, _) in enumerate(person.plan[: len(person.games)])
            if who == agent and person.games[place].game.moves
        ]
        return f"game{'s' if len(places) > 1 else ''} {' and '.join(places)}"

    def _ranking(self, person: Participant, form: dict[str, str]) -> Answers:
        """Each partner's place, 1 for the best, of those that were given one."""
        met = person.met(self.study)
        places = {
            self.study.agents[agent].name: int(given)
            for number, agent in enumerate(met)
            if (given := form.get(f"rank_{number}", "")) in map(str, range(1, len(met) + 1))
        }
        return {"ranking": places} if places else {}

    def _change(self, person: Participant, change: Callable[[Participant], Participant]) -> None:
        with contextlib.suppress(RefusedError):  # withdrawn in this moment
            self.folder.change(person.number, change)

    def _person(self, connection: HTTPConnection) -> Participant | None:
        return self.folder.find(connection.cookies.get(COOKIE, ""))

    def _known(self, connection: HTTPConnection) -> Participant:
        person = self._person(connection)
        if person is None:
            raise HTTPException(303, headers={"Location": "/"})
        return person


def make_study(play: StudyPlay, pause: float = 0.8, guard: Guard | None = None) -> Starlette:
    """The application; `pause` is the seconds before a partner's move is shown."""
    pages = Pages(play, pause, guard or Guard())

    async def alive(request: Request) -> Response:
        return PlainTextResponse("alive\n")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await pages.lobby.close()

    def post(path: str, take: Callable[[Request], Awaitable[Response]]) -> Route:
        return Route(path, take, methods=["POST"])

    return Starlette(
        routes=[
            Route("/", pages.start),
            Route("/begin", pages.begin),
            Route("/no", pages.refuse),
            Route("/next", pages.next),
            Route("/checked", pages.checked),
            Route("/game/{game:int}", pages.table),
            Route("/withdraw", pages.ask_withdraw),
            Route("/healthz", alive),
            post("/agree", pages.agree),
            post("/answer", pages.answer),
            post("/stop", pages.stop),
            post("/withdraw", pages.withdraw),
            WebSocketRoute("/game/{game:int}/ws", pages.socket),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[Middleware(WithHeaders), Middleware(GZipMiddleware, minimum_size=500)],
        lifespan=lifespan,
    )
