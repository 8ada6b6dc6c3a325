"""Bots in plain Python and agents in other processes as policies: `HostPolicy`.

Compiled code calls back to the host at every timestep (`jax.pure_callback`). The carry names a
session, one seat of one game, and the number of observations that it has read. A session that has
read more of them is replayed up to that number, so a step depends on its inputs alone.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from hanabi_rl.agents.bots.base import Bot
from hanabi_rl.agents.process import illegal_move_text, make_question, position_text
from hanabi_rl.games.hanabi.observation import observation_slices
from hanabi_rl.games.hanabi.observation_decoder import ObservationDecoder
from hanabi_rl.games.hanabi.rules import Rules
from hanabi_rl.games.hanabi.seat_view import PlayerView
from hanabi_rl.nn.networks import ILLEGAL_LOGIT

Act = Callable[[int, PlayerView], int]
"""(number of the session, view of the current player) -> action id of a legal move."""

_MIN_SESSIONS = 1024
_PACKAGE = str(Path(__file__).parents[1])


class HostError(ValueError):
    """Error of a bot on the host, with the line of the user's code."""


class HostPolicy(Bot):
    """Policy whose moves are chosen on the host; its logits are 0 for the move, otherwise
    `ILLEGAL_LOGIT`."""

    sessions: Sessions | None = flax.struct.field(pytree_node=False, default=None)
    name: ClassVar[str] = "host"
    runs_on_host: ClassVar[bool] = True

    def identity(self) -> str:
        """See `Policy.identity`; given when the policy is made."""
        assert self.sessions is not None
        return self.sessions.identity

    def init_carry(self, batch: int) -> jax.Array:
        """int32 [batch, 2]: session (0: none yet) and number of observations that it has read."""
        return jnp.zeros((batch, 2), jnp.int32)

    def step(
        self,
        carry: jax.Array,
        obs: jax.Array,
        legal: jax.Array,
        reset: jax.Array,
        key: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        """See `Policy.step`."""
        assert self.sessions is not None
        seen = jnp.packbits(obs[:, : read_size(self.rules)] > 0, axis=-1)
        own = ~legal[:, self.rules.noop]
        carry, action = jax.pure_callback(
            self.sessions.step,
            (
                jax.ShapeDtypeStruct(carry.shape, jnp.int32),
                jax.ShapeDtypeStruct(reset.shape, jnp.int32),
            ),
            *(carry, seen, own, reset),
            vmap_method="sequential",
        )
        chosen = jnp.arange(legal.shape[-1]) == action[:, None]
        return carry, jnp.where(chosen, 0.0, ILLEGAL_LOGIT).astype(jnp.float32)


def read_size(rules: Rules) -> int:
    """Number of leading entries of an observation that an `ObservationDecoder` reads."""
    start: int = observation_slices(rules)["beliefs"].start
    return start


class _Session:
    """One seat of one game, from its deal on."""

    def __init__(self, number: int, act: Act) -> None:
        self.number, self.act = number, act
        self.seen: list[tuple[bytes, bool]] = []  # packed observations, True on the seat's turns
        self.decoder: ObservationDecoder | None = None  # None until the seat is known
        self.over = False
        self.lost = False  # its first observation was within a game


class Sessions:
    """All sessions of one agent; `make` returns the function that plays one of them.

    Least recently used sessions are forgotten, after those whose seat began another game.
    """

    def __init__(self, rules: Rules, make: Callable[[], Act], identity: str) -> None:
        self.rules, self.identity, self._make = rules, identity, make
        self._sections = observation_slices(rules)
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        self._limit, self._started, self._lock = _MIN_SESSIONS, 0, threading.Lock()

    def step(self, carry: Any, seen: Any, own: Any, reset: Any) -> tuple[np.ndarray, np.ndarray]:
        """Step B seats.

        Args:
            carry: int32[B, 2] of `HostPolicy.init_carry`.
            seen: observations without beliefs, uint8[B, bytes], one bit per entry.
            own: bool[B], True on the seat's own turn.
            reset: bool[B], True at the first observation of a game.

        Returns:
            The new carry, and action ids int32[B], the no-op on other turns.
        """
        with self._lock, _kept_error():
            carry, seen, own, reset = (np.asarray(x) for x in (carry, seen, own, reset))
            self._limit = max(self._limit, 2 * self.rules.num_players * len(carry))
            after, actions = np.empty_like(carry), np.full(len(carry), self.rules.noop, np.int32)
            for row, (number, read) in enumerate(carry.tolist()):
                session = self._session(number, read, bool(reset[row]))
                actions[row] = self._read(session, seen[row].tobytes(), bool(own[row]))
                after[row] = session.number, len(session.seen)
            return after, actions

    def _session(self, number: int, read: int, new: bool) -> _Session:
        """The session of a row after `read` observations."""
        session = self._sessions.get(number)
        if number == 0 or new:
            if session is not None:  # forgotten first
                self._sessions.move_to_end(number, last=False)
            return self._start()
        if session is None:
            raise HostError(f"expected at most {self._limit:,} games at once")
        if len(session.seen) > read:
            again = self._start()
            for bits, mine in session.seen[:read]:
                self._read(again, bits, mine)
            return again
        self._sessions.move_to_end(number)
        return session

    def _start(self) -> _Session:
        self._started = self._started % (2**31 - 1) + 1
        session = self._sessions[self._started] = _Session(self._started, self._make())
        if len(self._sessions) > self._limit:
            self._sessions.popitem(last=False)
        return session

    def _read(self, session: _Session, bits: bytes, mine: bool) -> int:
        """Read one observation; return the seat's action, the no-op on other turns."""
        obs = np.unpackbits(np.frombuffer(bits, np.uint8), count=read_size(self.rules))
        first, moved = not session.seen, obs[self._sections["last_kind"]].any()
        session.seen.append((bits, mine))
        session.lost |= bool(first and moved)
        if session.lost and mine:
            raise HostError("expected games from their deal, got a position within a game")
        if session.over or session.lost:
            return self.rules.noop
        if session.decoder is None and (mine or moved):
            # seat 0 made the first move
            actor = int(obs[self._sections["last_player"]].argmax()) if moved else 0
            seat = -actor % self.rules.num_players
            session.decoder = ObservationDecoder(self.rules, seat)
            if moved:
                session.decoder.follow(obs)  # in place of the deal, whose content is not read
        if (decoder := session.decoder) is None:
            return self.rules.noop
        # a slot whose game has ended can show another seat
        if moved and obs[self._sections["last_player"]].argmax() != decoder.next_actor():
            session.over = True
            return self.rules.noop
        decoder.follow(obs)
        session.over = decoder.over(obs)
        if session.over or not mine:
            return self.rules.noop
        return session.act(session.number, decoder.view(obs))


def python_act(make: Callable[[], Any], label: str) -> Callable[[], Act]:
    """Sessions of a class with `act(view)`: `make` creates one object per seat and game.

    `act` gets the `view` of a program's question (docs/play.md) with its `legal` and `last`, and
    returns an action id or an entry of `legal`. Errors begin with `label`.
    """

    def begin() -> Act:
        with user_code(label):
            bot = make()

        def act(number: int, view: PlayerView) -> int:
            question = make_question(number, view)
            shown = {**question["view"], "legal": question["legal"], "last": question["last"]}
            with user_code(label):
                answer = bot.act(shown)
            action: Any = answer.get("action") if isinstance(answer, Mapping) else answer
            legal = {option["action"] for option in question["legal"]}
            if isinstance(action, bool | np.bool_) or action not in legal:
                raise HostError(
                    f"{label}: act, {position_text(number, view)}: expected an entry of "
                    f'view["legal"] or its action, got {answer!r}'
                    f"{illegal_move_text(action, view)}"
                )
            return int(action)

        return act

    return begin


@contextmanager
def user_code(label: str) -> Iterator[None]:
    """Turn an exception of a user's code into a `HostError` with `label` and the code's line."""
    try:
        yield
    except Exception as error:
        own = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(_PACKAGE) and "/site-packages/" not in frame.filename
        ]
        where = f" ({own[-1].filename}, line {own[-1].lineno}: {own[-1].line})" if own else ""
        text = " ".join(str(error).split())
        raise HostError(f"{label}: {type(error).__name__}: {text}{where}") from error


_last_error: list[Exception] = []


@contextmanager
def _kept_error() -> Iterator[None]:
    """Keep an exception, of which XLA passes on only the text."""
    try:
        yield
    except ValueError as error:
        _last_error[:] = [error if isinstance(error, HostError) else HostError(str(error))]
        raise _last_error[0] from error


@contextmanager
def host_errors() -> Iterator[None]:
    """Raise the exception of a bot or program on the host in place of JAX's."""
    _last_error.clear()
    try:
        yield
    except (RuntimeError, ValueError) as error:  # JAX raises either
        raise host_error(error) from None


def host_error(error: Exception) -> Exception:
    """The host's exception behind JAX's `error`, or `error`."""
    is_host = _last_error and "HostError" in str(error)
    return _last_error[0] if is_host else error


def _is_other_error(record: logging.LogRecord) -> bool:
    return not isinstance((record.exc_info or (None, None))[1], HostError)


# JAX logs the traceback of a callback's exception, which `host_errors` reports
logging.getLogger("jax._src.callback").addFilter(_is_other_error)
