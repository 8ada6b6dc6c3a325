"""Web pages of a study: consent, forms, game table and withdrawal (`make_study`).

This is a web worker without JAX. Participants are identified by the code in a cookie. No cookie is
set before the consent, and no participant is added unless the browser returns the consent's cookie.
Nothing is logged.

All URLs in pages are relative, so that a proxy may serve a study under any path. Forms name their
participant, because another participant may begin in the same browser after a form was opened.
"""

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

from hanabi_rl.people.serve.lifecycle import RefusedError
from hanabi_rl.people.serve.request_limits import RequestLimiter, address_of
from hanabi_rl.people.serve.sockets import REFUSED
from hanabi_rl.people.serve.web import HERE, WithHeaders, check_origin
from hanabi_rl.people.study.design import SCALE
from hanabi_rl.people.study.folder import SECRET, new_secret
from hanabi_rl.people.study.participant import (
    Answers,
    Participant,
    Step,
    form_title,
    next_step,
    parse_step,
    questions_of,
)
from hanabi_rl.people.study.play import ParticipantGames
from hanabi_rl.people.study.requests import StudyCookie, read_form

NO_COOKIE = (
    "Your browser kept no cookie, so the study cannot recognise you on its next page. Nothing was "
    "stored. Allow cookies for this site, then begin again."
)
WRONG_CODE = "No participant has this code. Please check every letter."
ANSWERED = (
    "These questions have already been answered, perhaps in another tab. The first answers are "
    "kept."
)
NOT_ASKED = "These questions are no longer asked."
NOT_YOURS = "Another participant has begun in this browser since this form was opened."
UNKNOWN = "The study does not recognise this browser: its cookie is gone, or your data was deleted."
_CODE_S = 180 * 86400  # lifetime of the code in the browser
_CONSENT_S = 600  # lifetime of the consent before the code replaces it


class Pages:
    """Request handlers of a study."""

    def __init__(self, play: ParticipantGames, move_delay: float, limiter: RequestLimiter) -> None:
        self.play, self.folder, self.study = play, play.folder, play.folder.study
        self.sockets, self.limiter = play.sockets(move_delay), limiter
        self._templates = Jinja2Templates(HERE / "templates")
        version = self.study.consent.version.encode()
        self._agreed = f"agreed-{hashlib.sha256(version).hexdigest()[:16]}"
        self._cookie = StudyCookie(self.folder)

    async def start(self, request: Request) -> Response:
        """Consent page; in a known browser, the page of a returning participant."""
        if self._participant(request) is not None:
            return self.page(request, "study_known.html", code="")
        complete = self.folder.complete(self.folder.participants())
        secret = new_secret()  # in the form, so that submitting it twice adds one participant
        return self.page(request, "study_consent.html", complete=complete, secret=secret)

    async def agree(self, request: Request) -> Response:
        """Store consent to this version of the text in a cookie, for `begin`."""
        form = await read_form(request)
        version, secret = form.get("version"), form.get("secret", "")
        valid = version == self.study.consent.version and SECRET.fullmatch(secret)
        if valid and self._cookie.code(request).endswith(secret):  # double click
            return RedirectResponse("next", 303)
        if self._participant(request) is not None or not valid:
            return RedirectResponse("./", 303)
        response = RedirectResponse("begin", 303)
        self._cookie.put(response, request, f"{self._agreed}.{secret}", _CONSENT_S)
        return response

    async def begin(self, request: Request) -> Response:
        """Add the participant, if the browser returns the cookie: without cookies the next page
        could not identify the participant, and every attempt would use up a place."""
        if self._participant(request) is not None:
            return RedirectResponse("next", 303)
        consent, _, secret = self._cookie.value(request).partition(".")
        if consent != self._agreed or not SECRET.fullmatch(secret):
            return self.page(request, "study_text.html", text=NO_COOKIE)
        try:
            self.limiter.check_opening(address_of(request.client))
            person, code = self.folder.join(secret)
        except RefusedError as error:
            response = self.page(request, "study_text.html", text=f"{error}.")
            self._cookie.delete(response)
            return response
        if self.folder.clock() - person.consented_at > _CONSENT_S:  # form of an earlier participant
            response = RedirectResponse("./", 303)
            self._cookie.delete(response)
            return response
        return self._set_code(request, code, "next")

    async def ask_different(self, request: Request) -> Response:
        """Confirmation page for a new participant in a browser that another one has used."""
        person = self._require_participant(request)
        complete = self.folder.complete(self.folder.participants())
        return self.page(
            request, "study_different.html", code="", owner=_owner(person), complete=complete
        )

    async def different(self, request: Request) -> Response:
        """Forget this browser's participant, who can continue only with the code."""
        person, form = self._require_participant(request), await read_form(request)
        response = RedirectResponse("./", 303)
        if _is_owner(person, form):
            self._cookie.delete(response)
            await self._release_browser(person)
        return response

    async def take_code(self, request: Request) -> Response:
        """Continue in this browser as the participant with this code."""
        form, previous = await read_form(request), self._participant(request)
        participant = self._find(request, _code_in(form))
        if isinstance(participant, str):
            return self.page(request, "study_code.html", code="", problem=participant)
        if previous is not None and previous.number != participant.number:
            await self._release_browser(previous)
        return self._set_code(request, _code_in(form), "begin")

    async def _release_browser(self, person: Participant) -> None:
        """Close a participant's connections, because another one begins in this browser."""
        self.play.waiting.leave(person.number)
        for played in person.games:
            await self.sockets.disconnect(
                played.game.game_id, "another participant begins in this browser"
            )

    async def next(self, request: Request) -> Response:
        """Show the participant's next step, or redirect to it."""
        person = self._require_participant(request)
        step = next_step(self.study, person)
        begins = step.kind in ("check", "play") and not ("check" in person.answers or person.games)
        if begins and "ready" not in request.query_params and (page := self.play.instructions()):
            return self.page(request, page[0], **page[1])
        if step.kind == "play":
            try:
                game_id = self.play.deal(person, step.place)
            except RefusedError:  # withdrew concurrently
                return RedirectResponse("./", 303)
            if game_id is None:
                return self.page(request, "study_wait.html")
            return RedirectResponse(f"game/{game_id}", 303)
        if step.kind == "done":
            return self._done(request, person)
        agents_played = person.agents_played()
        return self.page(
            request,
            "study_form.html",
            step=step,
            owner=_owner(person),
            first=not person.answers and not person.games,
            heading=form_title(step),
            questions=questions_of(self.study, step),
            ranked=[self._games_with(person, agent) for agent in agents_played]
            if step.kind == "end" and len(agents_played) > 1
            else [],
            more=len(person.plan) - len(person.games)
            if step.kind in ("after", "partner") and not person.stopped
            else 0,
        )

    async def answer(self, request: Request) -> Response:
        """Process a form with any number of answers; show answers that cannot be saved."""
        form, person = await read_form(request), self._participant(request)
        step = parse_step(form.get("step", ""))
        answers = self._read_answers(form, step, person)
        if problem := self._save_answers(form, step, person, answers):
            is_owner = problem in (ANSWERED, NOT_ASKED)
            texts = self._answer_texts(step, answers, person if is_owner else None)
            texts += [] if is_owner else _ranks_in(form)
            values = {"problem": problem, "mine": is_owner, "answers": texts}
            values |= {} if is_owner else {"code": ""}
            if texts:
                return self.page(request, "study_lost.html", status=409, **values)
        if form.get("then") == "stop":
            return RedirectResponse("stop", 303)
        return RedirectResponse("checked" if step.kind == "check" else "next", 303)

    def _save_answers(
        self, form: dict[str, str], step: Step, person: Participant | None, answers: Answers
    ) -> str | None:
        """Save the answers of a form; return the reason if they cannot be saved."""
        if person is None:
            return UNKNOWN
        if not _is_owner(person, form):
            return NOT_YOURS
        if step.kind == "done":
            return NOT_ASKED
        if step == next_step(self.study, person):
            saved = self._change(person, lambda now: now.with_answers(step.name, answers))
            return None if saved else UNKNOWN
        if step.name not in person.answers:
            return NOT_ASKED
        return None if answers.items() <= person.answers[step.name].items() else ANSWERED

    def _read_answers(
        self, form: dict[str, str], step: Step, person: Participant | None
    ) -> Answers:
        """Parse the answers in a form; a ranking only if the participant is known."""
        read = {
            question.name: question.read(form.get(f"q_{question.name}", ""))
            for question in questions_of(self.study, step)
        }
        answers: Answers = {name: value for name, value in read.items() if value is not None}
        if step.kind == "end" and person is not None:
            answers |= self._ranking(person, form)
        return answers

    def _answer_texts(
        self, step: Step, answers: Answers, person: Participant | None
    ) -> list[tuple[str, str | int]]:
        """Pairs of question and answer. A ranking names games, never agents."""
        questions = questions_of(self.study, step)
        texts = [(each.text, answers[each.name]) for each in questions if each.name in answers]
        if person is not None and "ranking" in answers:
            for agent in person.agents_played():
                if place := answers["ranking"].get(self.study.agents[agent].label):
                    texts.append((f"The partner of {self._games_with(person, agent)}", place))
        return texts

    async def checked(self, request: Request) -> Response:
        """Correct answers and explanations of the check."""
        person = self._require_participant(request)
        if "check" not in person.answers:
            return RedirectResponse("next", 303)
        return self.page(
            request,
            "study_checked.html",
            answers=person.answers["check"],
            correct=person.number_correct(self.study),
            goes_on=person.may_play(self.study),
        )

    async def ask_stop(self, request: Request) -> Response:
        """Confirmation page for the end of all games."""
        person = self._require_participant(request)
        if not _can_stop(person):
            return RedirectResponse("next", 303)
        return self.page(
            request,
            "study_stop.html",
            owner=_owner(person),
            more=len(person.plan) - len(person.games),
            playing=any(played.is_open for played in person.games),
        )

    async def stop(self, request: Request) -> Response:
        """End the games of a participant, who goes on to the last questions."""
        person, form = self._require_participant(request), await read_form(request)
        if not _is_owner(person, form) or not _can_stop(person):
            return RedirectResponse("next", 303)
        self.play.waiting.leave(person.number)
        for played in person.games:
            if played.is_open:
                with contextlib.suppress(RefusedError):
                    self.play.leave(played.game.game_id)
                    await self.sockets.show(played.game.game_id)
        self._change(person, lambda now: now.with_stop())
        return RedirectResponse("next", 303)

    async def table(self, request: Request) -> Response:
        """Page of one of the participant's games."""
        person, game_id = self._require_participant(request), request.path_params["game"]
        if not self.play.holds(person, game_id):
            raise HTTPException(404, "you have no such game")
        if (page := self.play.page(game_id)) is None:
            return RedirectResponse("../next", 303)
        values = page[1] | {"owner": _owner(person), "is_warm_up": self.play.is_warm_up(game_id)}
        return self.page(request, page[0], **values)

    async def socket(self, socket: WebSocket) -> None:
        """WebSocket of a game."""
        game_id = socket.path_params["game"]
        try:
            check_origin(socket.headers)
            is_owner = self.play.holds(self._require_participant(socket), game_id)
        except HTTPException:
            is_owner = False
        if not is_owner:
            await socket.close(REFUSED, "you have no such game")
            return
        await socket.accept()
        await self.sockets.serve(socket, game_id)

    async def withdraw(self, request: Request) -> Response:
        """Delete all data of the participant with the code."""
        form = await read_form(request)
        person = self._find(request, _code_in(form))
        if isinstance(person, str):
            return self.page(request, "study_withdraw.html", problem=person)
        if not self.folder.withdraw(person.number, "the participant"):
            return self.page(request, "study_withdraw.html", problem=WRONG_CODE)
        game_ids, pairs = self.play.forget(person.number)
        for game_id in game_ids:
            await self.sockets.end(game_id)
        for game_id in pairs:
            await self.sockets.show(game_id)
        text = "Your games and answers are deleted. Thank you anyway."
        response = self.page(request, "study_text.html", text=text)
        if self._participant(request) is None:  # keep another participant's cookie
            self._cookie.delete(response)
        return response

    def _find(self, request: Request, code: str) -> Participant | str:
        """Return the participant with this code, or an error text; limits attempts per address."""
        address = address_of(request.client)
        try:
            self.limiter.check_key(address)
        except RefusedError as error:
            return f"{error}."
        person = self.folder.find(code)
        if person is None:
            self.limiter.wrong_key(address)
            return WRONG_CODE
        return person

    def _set_code(self, request: Request, code: str, path: str) -> Response:
        """Redirect to `path` as the participant with this code."""
        response = RedirectResponse(path, 303)
        self._cookie.put(response, request, code, _CODE_S)
        return response

    def page(self, request: Request, name: str, status: int = 200, **values: Any) -> Response:
        """Render a template; an empty `code` hides the code."""
        base = {
            "study": self.study,
            "code": self._cookie.code(request),
            "scale": range(1, SCALE + 1),
            "base": _base(request),
        }
        return self._templates.TemplateResponse(request, name, base | values, status)

    def _done(self, request: Request, person: Participant) -> Response:
        """Last page, the first to name the partners; in Overcooked they are never named."""
        partners = [
            (self._games_with(person, agent), self._name_of(person, agent))
            for agent in person.agents_played()
            if self.study.is_hanabi
        ]
        screened = not person.may_play(self.study)
        return self.page(request, "study_done.html", partners=partners, screened=screened)

    def _name_of(self, person: Participant, agent: int) -> str:
        """Names of the agents that played as this partner; with fallback, more than one."""
        games = zip(person.plan, person.games, strict=False)
        names = dict.fromkeys(played.agent for (of, _), played in games if of == agent)
        return " and ".join(names)

    def _games_with(self, person: Participant, agent: int) -> str:
        places = [
            str(place + 1)
            for place, (of, _) in enumerate(person.plan[: len(person.games)])
            if of == agent and person.games[place].game.moves
        ]
        return f"game{'s' if len(places) > 1 else ''} {' and '.join(places)}"

    def _ranking(self, person: Participant, form: dict[str, str]) -> Answers:
        """Rank of each ranked partner, 1 for the best."""
        agents_played = person.agents_played()
        ranks = list(map(str, range(1, len(agents_played) + 1)))
        places = {
            self.study.agents[agent].label: int(value)
            for number, agent in enumerate(agents_played)
            if (value := form.get(f"rank_{number}", "")) in ranks
        }
        return {"ranking": places} if places else {}

    def _change(self, person: Participant, change: Callable[[Participant], Participant]) -> bool:
        """Return False if the participant withdrew concurrently."""
        try:
            self.folder.change(person.number, change)
        except RefusedError:
            return False
        return True

    def _participant(self, connection: HTTPConnection) -> Participant | None:
        return self.folder.find(self._cookie.code(connection))

    def _require_participant(self, connection: HTTPConnection) -> Participant:
        person = self._participant(connection)
        if person is None:
            raise HTTPException(303, headers={"Location": _base(connection) or "./"})
        return person


def _base(connection: HTTPConnection) -> str:
    """Relative URL of the first page."""
    return "../" if "game" in connection.path_params else ""


def _code_in(form: dict[str, str]) -> str:
    """The code in a form, in the spelling of the cookie."""
    return form.get("code", "").strip().upper()


def _ranks_in(form: dict[str, str]) -> list[tuple[str, str | int]]:
    """Pairs of partner and rank in a form whose participant is unknown."""
    ranks = [(name.removeprefix("rank_"), form[name]) for name in form if name.startswith("rank_")]
    return [(f"Partner {int(n) + 1}", rank) for n, rank in ranks if n.isdecimal() and rank]


def _owner(person: Participant) -> str:
    """Identifier of a participant in forms and browser settings that does not reveal the code."""
    return person.code_hash[:16]


def _is_owner(person: Participant, form: dict[str, str]) -> bool:
    return form.get("owner", _owner(person)) == _owner(person)


def _can_stop(person: Participant) -> bool:
    going_on = any(played.is_open for played in person.games)
    return not person.stopped and (going_on or len(person.games) < len(person.plan))


def make_study(
    play: ParticipantGames,
    move_delay: float = 0.8,
    limiter: RequestLimiter | None = None,
    at_end: Callable[[], object] = lambda: None,
) -> Starlette:
    """Create the application; arguments as of `web.make_app`."""
    pages = Pages(play, move_delay, limiter or RequestLimiter())

    async def alive(request: Request) -> Response:
        return PlainTextResponse("alive\n")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await pages.sockets.close()
        at_end()

    def page(template: str, **values: Any) -> Callable[[Request], Response]:
        return lambda request: pages.page(request, template, **values)

    def post(path: str, take: Callable[[Request], Awaitable[Response]]) -> Route:
        return Route(path, take, methods=["POST"])

    return Starlette(
        routes=[
            Route("/", pages.start),
            Route("/begin", pages.begin),
            Route("/no", page("study_text.html", text="Nothing was stored. Goodbye.")),
            Route("/different", pages.ask_different),
            Route("/code", page("study_code.html", code="")),
            Route("/next", pages.next),
            Route("/checked", pages.checked),
            Route("/game/{game:int}", pages.table),
            Route("/stop", pages.ask_stop),
            Route("/withdraw", page("study_withdraw.html")),
            Route("/healthz", alive),
            post("/agree", pages.agree),
            post("/different", pages.different),
            post("/code", pages.take_code),
            post("/answer", pages.answer),
            post("/stop", pages.stop),
            post("/withdraw", pages.withdraw),
            WebSocketRoute("/game/{game:int}/ws", pages.socket),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[Middleware(WithHeaders), Middleware(GZipMiddleware, minimum_size=500)],
        lifespan=lifespan,
    )
