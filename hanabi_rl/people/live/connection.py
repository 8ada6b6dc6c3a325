"""Connection of a `LiveBot` to a server: frames, effects, reconnects with back-off."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from hanabi_rl.people.live.account import (
    Account,
    LoginFailedError,
    LoginRefusedError,
    Server,
    export,
    log_in,
)
from hanabi_rl.people.live.bot import LiveBot
from hanabi_rl.people.live.effects import (
    Effect,
    Fetch,
    Forget,
    GameEnded,
    LogLine,
    RequestMove,
    Send,
)
from hanabi_rl.people.live.protocol import COOKIE, write_frame
from hanabi_rl.people.live.send_rate import BackOff, SendRateLimiter
from hanabi_rl.people.serve.partner_protocol import PartnerAction

TICK_S = 0.5
MAX_MESSAGE = 2**23
MAX_FAILED_CONNECTIONS = 3
"""Maximum consecutive connections that the server ends with an error: another program may use the
account, or the server may reject it."""

log = logging.getLogger("hanabi_rl.people.live")
_socket_log = logging.getLogger("hanabi_rl.people.live.socket")
_socket_log.setLevel(logging.WARNING)  # lower levels would log the session cookie


class AgentBackend(Protocol):
    """Chooses moves, and saves and deletes games and memory."""

    async def query(self, request: RequestMove) -> PartnerAction:
        """Return the agent's move."""

    async def on_game_ended(self, ended: GameEnded) -> None:
        """Save what may be saved of a finished game."""

    async def forget(self, forget: Forget) -> None:
        """Delete the saved memory of a player."""


class Connection:
    """Connection of `bot` to `server` as `account`; `agents` chooses the moves."""

    def __init__(
        self,
        bot: LiveBot,
        server: Server,
        account: Account,
        agents: AgentBackend,
        rate_limiter: SendRateLimiter | None = None,
        back_off: BackOff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bot, self._server, self._account, self._agents = bot, server, account, agents
        self._rate_limiter = rate_limiter or SendRateLimiter()
        self._back_off = back_off or BackOff()
        self._clock = clock
        self._queue: asyncio.Queue[Send] = asyncio.Queue()
        self._querying: set[asyncio.Task[None]] = set()
        self._fetching: set[asyncio.Task[None]] = set()
        self._saving: set[asyncio.Task[None]] = set()

    def close(self) -> bool:
        """Take no new seats; end after the games in progress and the searches for missed games.
        False if it was called before, or if there is nothing to wait for."""
        again = self._bot.closing
        self._do(self._bot.close())
        return not again and not self._bot.is_closed

    async def run(self) -> None:
        """Run until it is cancelled, or until the last game ends after `close`.

        Raises:
            LoginRefusedError: the server rejects the account.
        """
        failed = 0
        try:
            while not self._bot.is_closed:
                started = self._clock()
                reason = await self._connect_once()
                if self._bot.is_closed:
                    return
                self._back_off.record_duration(self._clock() - started)
                failed = failed + 1 if self._bot.last_error else 0
                if failed == MAX_FAILED_CONNECTIONS:
                    raise LoginRefusedError(
                        f"the server ended {MAX_FAILED_CONNECTIONS} connections in a row: "
                        f"{self._bot.last_error} "
                        "(does another program use this account?)"
                    )
                wait = self._back_off.next_s()
                log.warning("%s; connecting again in %.0f s", reason, wait)
                await asyncio.sleep(wait)
        finally:
            for task in self._fetching:
                task.cancel()
            await asyncio.gather(*self._saving)

    async def _connect_once(self) -> str:
        """Run one connection; return why it ended."""
        self._bot.on_connected()
        try:
            cookie = await asyncio.to_thread(log_in, self._server, self._account)
            async with connect(
                self._server.socket_address,
                additional_headers={"Cookie": f"{COOKIE}={cookie}"},
                user_agent_header="hanabi-rl",
                max_size=MAX_MESSAGE,
                open_timeout=30,
                ping_interval=30,
                ping_timeout=30,
                close_timeout=5,
                proxy=None,
                logger=_socket_log,
            ) as socket:
                log.info("connected to %s as %s", self._server.host, self._account.username)
                await self._exchange(socket)
            return "the connection ended"
        except LoginFailedError as error:
            return str(error)
        except InvalidStatus as error:
            return f"the server refused the socket with status {error.response.status_code}"
        except (OSError, InvalidHandshake, WebSocketException) as error:
            return f"no connection: {type(error).__name__}: {error}"

    async def _exchange(self, socket: ClientConnection) -> None:
        self._queue = asyncio.Queue()
        tasks = [
            asyncio.create_task(coroutine)
            for coroutine in (self._read(socket), self._write(socket), self._tick())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            left = [*tasks, *self._querying]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _read(self, socket: ClientConnection) -> None:
        async for frame in socket:
            self._do(self._bot.receive(frame, self._clock()))

    async def _write(self, socket: ClientConnection) -> None:
        while True:
            send = await self._queue.get()
            while (wait := self._rate_limiter.wait_s(self._clock())) > 0:
                await asyncio.sleep(wait)
            if send.token is not None and not self._bot.is_current(send.token):
                continue  # the turn has passed
            self._rate_limiter.sent(self._clock())
            await socket.send(write_frame(send.command, send.fields))

    async def _tick(self) -> None:
        while not self._bot.is_closed:
            self._do(self._bot.tick(self._clock()))
            await asyncio.sleep(TICK_S)
        await asyncio.sleep(TICK_S)  # send the last messages

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._queue.put_nowait(effect)
            elif isinstance(effect, RequestMove):
                task = asyncio.create_task(self._query(effect))
                self._querying.add(task)
                task.add_done_callback(self._querying.discard)
            elif isinstance(effect, Fetch):
                task = asyncio.create_task(self._fetch(effect.number))
                self._fetching.add(task)
                task.add_done_callback(self._fetching.discard)
            elif isinstance(effect, GameEnded | Forget):
                task = asyncio.create_task(self._save(effect))
                self._saving.add(task)
                task.add_done_callback(self._saving.discard)
            elif isinstance(effect, LogLine):
                log.info("%s", effect.text)

    async def _query(self, request: RequestMove) -> None:
        """Query the agent and apply its move after the delay; on failure the bot retries later."""
        started = self._clock()
        try:
            action = await self._agents.query(request)
        except Exception:
            log.exception("table %d: the agent failed", request.token.table)
            return
        await asyncio.sleep(max(0.0, request.move_delay_s - (self._clock() - started)))
        self._do(self._bot.on_move(request.token, action, self._clock()))

    async def _fetch(self, number: int) -> None:
        try:
            status, body = await asyncio.to_thread(export, self._server, number)
        except OSError as error:
            status, body = 0, str(error).encode()
        self._do(self._bot.on_response(number, status, body, self._clock()))

    async def _save(self, effect: GameEnded | Forget) -> None:
        try:
            if isinstance(effect, GameEnded):
                await self._agents.on_game_ended(effect)
            else:
                await self._agents.forget(effect)
        except Exception:
            action = "save a game" if isinstance(effect, GameEnded) else "forget a player"
            log.exception("could not %s", action)
