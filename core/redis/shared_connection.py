"""One connection to Redis that many calls share.

A call is written at once, whoever else waits; the replies come in the order of the calls. For calls that end
at once and may be repeated: nothing that blocks, subscribes or changes the connection.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as ReplyTimeout

from core.redis.client import Argument
from core.tasks import cancel_tasks

REPLY_SECONDS_MAX = 5.0
CLOSED = "the connection was closed"


class MultiplexedConnection:
    """One shared connection, opened by the first call, and again by the first one after it broke, which fails
    all calls that wait. A cancelled caller affects no other. It is given up where nothing is answered for
    `reply_seconds`, at most twice as long. After `aclose` it is never opened again."""

    def __init__(self, pool: ConnectionPool, reply_seconds: float = REPLY_SECONDS_MAX) -> None:
        self._pool = pool
        self._reply_seconds = reply_seconds
        self._closed = False
        self._opening: asyncio.Task[_OpenConnection] | None = None
        self._open: _OpenConnection | None = None

    async def call(self, *command: Argument) -> Any:
        """The reply. Raises ResponseError for an error reply, ConnectionError or TimeoutError (redis-py's)
        where there was none: the command may have been executed all the same."""
        packed = pack(command)
        return await (await self._opened()).send(packed)

    async def calls(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """The replies to several commands, written together; an error stands in the place of its reply."""
        packed = [pack(command) for command in commands]  # all of them can be sent, or none is
        opened = await self._opened()
        replies = await asyncio.gather(*map(opened.send, packed), return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException) and not isinstance(reply, ResponseError):
                raise reply
        return replies

    async def aclose(self) -> None:
        """Close for good; pending calls, also those that wait for the connection, fail."""
        self._closed = True
        try:
            if self._opening is not None:
                await cancel_tasks([self._opening])
        finally:
            if self._open is not None:
                await self._open.aclose()

    async def _opened(self) -> "_OpenConnection":
        if self._closed:
            raise ConnectionLost(CLOSED)
        if self._open is not None and not self._open.broken:
            return self._open
        if self._opening is None or self._opening.done():
            # A task of its own: a cancelled caller does not cancel it for the others.
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(_seen)
        opening = self._opening
        await asyncio.wait([opening])
        if opening.cancelled():
            raise ConnectionLost(CLOSED)
        return opening.result()

    async def _connect(self) -> "_OpenConnection":
        if self._open is not None:
            await self._open.aclose()
        connection = self._pool.make_connection()
        try:
            await connection.connect()
        except BaseException:  # also cancelled, with half of it open
            await connection.disconnect(nowait=True)
            raise
        self._open = _OpenConnection(connection, self._reply_seconds)
        return self._open


class _OpenConnection:
    """An established connection until it breaks."""

    def __init__(self, connection: AbstractConnection, reply_seconds: float) -> None:
        self.broken = False
        self._connection: Any = connection
        # A write needs no timeout of its own: a peer that reads nothing answers nothing either.
        self._connection.socket_timeout = None
        self._reply_seconds = reply_seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._unsent: list[bytes] = []
        self._wanted = asyncio.Event()
        self._answered = 0
        self._watch: asyncio.TimerHandle | None = None
        self._tasks = [self._loop.create_task(self._write()), self._loop.create_task(self._read())]

    def send(self, packed: bytes) -> asyncio.Future[Any]:
        """Future of the reply. Raises ConnectionError where the connection broke before."""
        if self.broken:
            raise ConnectionLost(CLOSED)
        waiting: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(waiting)
        self._unsent.append(packed)
        self._wanted.set()
        if self._watch is None:
            self._watch = self._loop.call_later(self._reply_seconds, self._look, self._answered)
        return waiting

    async def aclose(self) -> None:
        """Fail pending calls, end the tasks, then close the socket without waiting for it."""
        self._break(ConnectionLost(CLOSED))
        try:
            await cancel_tasks(self._tasks)
        finally:
            await self._connection.disconnect(nowait=True)

    async def _write(self) -> None:
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                unsent, self._unsent = self._unsent, []
                await self._connection.send_packed_command(unsent, check_health=False)
        except (RedisError, OSError) as error:
            self._break(error)
        finally:  # whatever ended it: pending calls fail at once
            self._break(ConnectionLost(CLOSED))

    async def _read(self) -> None:
        try:
            while True:
                try:
                    reply = await self._connection.read_response(timeout=math.inf)
                except ResponseError as error:
                    reply = error
                if not self._waiting:
                    raise ConnectionLost("Redis answered what nobody had asked")
                self._answered += 1
                _answer(self._waiting.popleft(), reply)
        except (RedisError, OSError) as error:
            self._break(error)
        finally:  # whatever ended it: pending calls fail at once
            self._break(ConnectionLost(CLOSED))

    def _look(self, answered: int) -> None:
        if not self._waiting:
            self._watch = None
        elif self._answered == answered:
            self._break(ReplyTimeout(f"Redis has not answered for {self._reply_seconds:g} s"))
        else:
            self._watch = self._loop.call_later(self._reply_seconds, self._look, self._answered)

    def _break(self, error: Exception) -> None:
        """Fail all pending calls, once. Their commands may have been executed."""
        if self.broken:
            return
        self.broken = True
        if self._watch is not None:
            self._watch.cancel()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        waiting: deque[asyncio.Future[Any]] = self._waiting
        self._waiting = deque()
        for each in waiting:
            kind = ReplyTimeout if isinstance(error, ReplyTimeout) else ConnectionLost
            _answer(each, kind(str(error)))


def _seen(opening: asyncio.Task["_OpenConnection"]) -> None:
    """Mark a failed opening's error as seen, also where all callers that waited for it were cancelled."""
    if not opening.cancelled():
        opening.exception()


def _answer(waiting: asyncio.Future[Any], reply: Any) -> None:
    if waiting.done():  # its caller no longer waits
        return
    if isinstance(reply, Exception):
        waiting.set_exception(reply)
    else:
        waiting.set_result(reply)


def pack(command: Sequence[Argument]) -> bytes:
    """A command in wire format."""
    in_c: Callable[[tuple[Argument, ...]], bytes] = cast(Any, hiredis).pack_command  # its stub says one part
    try:
        return in_c(tuple(command))
    except TypeError:  # it knows no subclasses of str
        return in_c(tuple(str(part) if isinstance(part, str) else part for part in command))
