"""Async Python client of the session protocol parley.v1 (docs/protocol.md).

    async with Client("http://127.0.0.1:8080", key) as client:
        answer = await client.send("Name three rivers.")
        async for text in answer:
            print(text, end="", flush=True)
        print((await answer.end()).usage)

It reconnects by itself and goes on reading where it stood; what the server did not accept yet is sent again.
`answer.py` decides what frames mean, `readings.py` keeps the open answers, `reader.py` is an answer as its
reader sees it, `link.py` keeps a connection.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from parley_client.acks import Acks
from parley_client.answer import Counters, Event, Frame, OpenAnswer, ProtocolError
from parley_client.connection import ConnectionState, Encoding, GatewayClosed, Stopped
from parley_client.ids import GatewayClock, uuid7
from parley_client.link import Key, Link, LinkSettings
from parley_client.reader import Answer
from parley_client.readings import OpenAnswers

ACK_SECONDS = 0.2
AUTH_RETRY_SECONDS_MIN, AUTH_RETRY_SECONDS_MAX = 0.25, 5.0
FRAME_BYTES_MAX = 256 * 1024
CLOSED = {"code": "closed", "message": "the client was closed"}
LOGGED = frozenset({"delta", "event", "snap", "retract", "end"})
Told = TypeVar("Told")
WhyWaiting = Callable[[ProtocolError], None]
_log = logging.getLogger(__name__)
AGENT = {"name": "parley-python", "version": "1"}


class Client:
    """A session. `key`: an API key, or a function that gets a fresh ticket for every connection and when the
    one in use is about to end; it raises SignedOut where it can get none.

    `window`: smaller windows than the server's, {"events": …, "bytes": …}. `batch`: fewer, larger pieces of
    text after an answer's first second. `trace`: events carry their origin in the log. `on_state` is called
    whenever the connection is open, lost or stopped, and says why.
    """

    def __init__(
        self,
        url: str,
        key: Key,
        *,
        window: Mapping[str, int] | None = None,
        batch: bool = True,
        trace: bool = False,
        encoding: Encoding = "json",
        backoff_seconds: float = 0.5,
        on_state: Callable[[ConnectionState], None] | None = None,
    ) -> None:
        self._on_state = on_state
        self._waiting: ProtocolError | None = None
        self._waiting_sends: dict[str, WhyWaiting] = {}
        self._window = dict(window) if window else None
        self._caps = ["batch"] * batch + ["trace"] * trace
        self._readings = OpenAnswers(trace)
        self._answers: dict[str, Answer] = {}
        self._frame_bytes_max = FRAME_BYTES_MAX
        self._clock = GatewayClock()
        self._resume_token: str | None = None
        self._welcomes = 0
        self._opened = asyncio.Event()
        self._stopped: ProtocolError | None = None
        self._dirty, self._urgent = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._link = Link(LinkSettings(url, key, encoding, backoff_seconds), self.counters, self)

    @property
    def counters(self) -> Counters:
        """Counts of what happened so far."""
        return self._readings.counters

    @property
    def connected(self) -> bool:
        """True while a welcomed connection is open."""
        return self._link.connected

    @property
    def stopped(self) -> ProtocolError | None:
        """The reason why the client will not connect again; None: it is or will be connected."""
        return self._stopped

    @property
    def waiting(self) -> ProtocolError | None:
        """The reason why there is no connection now, while the client tries to have one again; else None."""
        return self._waiting

    async def __aenter__(self) -> Self:
        """Connect; waits for an unreachable server. Raises ProtocolError where it refuses us."""
        self._spawn(self._stay_connected())
        self._spawn(self._acknowledge())
        try:
            await self._opened.wait()
            if self._stopped is not None:
                raise self._stopped
        except BaseException as error:
            self._explain(error)
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session."""
        await self.close()

    async def close(self) -> None:
        """End the session. Its requests go on; `attach` finds them again."""
        if vector := self._readings.acks.take():
            await self._link.tell({"t": "ack", "a": vector})
        await self._link.tell({"t": "bye"})
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._link.close()

    async def send(
        self,
        content: str | None = None,
        *,
        messages: Sequence[Mapping[str, str]] | None = None,
        conversation: str | None = None,
        system: str | None = None,
        continues: str | None = None,
        model: str | None = None,
        options: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
        on_waiting: WhyWaiting | None = None,
    ) -> Answer:
        """Start one turn; returns once the server accepted it. Raises ProtocolError where it is refused.

        The same `id` and body again re-attach to the same answer: nothing runs twice. `continues`: in place
        of content, the id of the newest answer in the conversation, which ended "length", or of its request:
        the text goes on there. `on_waiting` is told why it waits while there is no connection."""
        if self._stopped is not None:
            raise self._stopped
        id = id or self.new_id()
        body = {
            "content": content,
            "messages": list(messages) if messages is not None else None,
            "conversation": conversation,
            "system": system,
            "continue": continues,
            "model": model,
            "options": options,
            "metadata": metadata,
        }
        message = {"t": "send", "id": id} | {name: value for name, value in body.items() if value is not None}
        if len(msgspec.json.encode(message)) > self._frame_bytes_max:
            problem = f"a message has at most {self._frame_bytes_max} bytes"
            raise ProtocolError({"code": "too_large", "message": problem, "limit": self._frame_bytes_max})
        if on_waiting is not None:
            self._waiting_sends[id] = on_waiting
            self._say_waiting(on_waiting)
        try:
            return await self._read(id, message)
        except asyncio.CancelledError as error:
            self._explain(error)
            raise
        finally:
            self._waiting_sends.pop(id, None)

    async def attach(self, id: str) -> Answer:
        """Read a request from its start, whoever sent it and in any state. Raises ProtocolError."""
        if self._stopped is not None:
            raise self._stopped
        return await self._read(id, None)

    async def cancel(self, id: str) -> None:
        """Ask to stop a request, also one that is not accepted yet or was sent by somebody else."""
        if (reading := self._readings.get(id)) is not None:
            reading.cancelling = True
        await self._link.tell({"t": "cancel", "id": id})

    def new_id(self) -> str:
        """A new request or conversation id, made from the server's clock."""
        return uuid7(self._clock.now_ms())

    # Called by the link

    def hello(self, token: str) -> dict[str, Any]:
        """The first frame of a connection."""
        requests = self._readings.asked()
        hello: dict[str, Any] = {"t": "hello", "v": 1, "token": token, "agent": AGENT, "caps": self._caps}
        if self._window is not None:
            hello["window"] = self._window
        token_kept = {} if self._resume_token is None else {"token": self._resume_token}
        if token_kept or requests:
            hello["resume"] = {"requests": requests, **token_kept}
        return hello

    async def welcomed(self, welcome: Frame, hello: Frame) -> None:
        """Go on with every open answer over a connection that took over."""
        self._welcomes += 1
        self._resume_token = welcome["resume_token"]
        self._clock.set(welcome["now"])
        limits, window = welcome["limits"], self._window or {}
        self._frame_bytes_max = limits["frame"]
        acks = Acks(
            min(window.get("events", limits["events"]), limits["events"]),
            min(window.get("bytes", limits["bytes"]), limits["bytes"]),
            limits["connection_bytes"],
        )
        asked = {each["id"] for each in hello.get("resume", {}).get("requests", [])}
        await self._tell(self._readings.resume(welcome["requests"], asked, acks))
        self._opened.set()

    async def received(self, frame: Frame) -> None:
        """Take one frame of the open connection."""
        match frame["t"]:
            case kind if kind in LOGGED:
                await self._tell(self._readings.receive(frame))
                self._acknowledge_soon()
            case "accepted" | "attached":
                self._readings.bind(frame)
            case "ping":
                await self._link.tell({"t": "pong", "ts": frame["ts"], "a": self._readings.acks.take()})
            case "error":
                if (seconds := self._readings.refused(frame)) is not None:
                    self._spawn(self._attach_again(frame["id"], seconds))
            case "auth_required":
                self._spawn(self._authenticate(frame["expires_in_ms"] / 1000))
            case _:
                pass

    def lost(self) -> None:
        """Note that no connection is open."""
        self._readings.lost()

    def became(self, state: ConnectionState) -> None:
        """Note where the connection stands, and tell who wants to know."""
        self._waiting = state.why if state.state == "waiting" else None
        for on_waiting in list(self._waiting_sends.values()):
            self._say_waiting(on_waiting)
        if self._on_state is not None:
            _call(self._on_state, state)

    # Called by answers

    async def detach(self, reading: OpenAnswer) -> None:
        """Stop reading an answer."""
        await self._tell(self._readings.detach(reading))

    async def apply(self, reading: OpenAnswer) -> Event:
        """Apply an answer's next frame, because its reader asked for it; acknowledge it soon."""
        event, frames = self._readings.apply(reading)
        self._acknowledge_soon()
        await self._tell(frames)
        return event

    def _say_waiting(self, on_waiting: WhyWaiting) -> None:
        if self._waiting is not None:
            _call(on_waiting, self._waiting)

    def _explain(self, error: BaseException) -> None:
        """Note on an error that cuts a wait short what it waited for."""
        if self._waiting is not None:
            error.add_note(f"not connected: {self._waiting}")

    async def _read(self, id: str, message: Frame | None) -> Answer:
        """Send or attach, and wait until the server has it."""
        reading = self._readings.get(id)
        fresh = reading is None
        if reading is None:
            reading = self._readings.add(id, message)
            self._answers[id] = Answer(self, reading)
        answer = self._answers[id]
        if message is not None or fresh:
            await self._link.tell(message or {"t": "attach", "id": id, "o": 0})
        try:
            await answer.accepted()
        except asyncio.CancelledError:
            self._spawn(self.detach(reading))  # nobody will read it
            raise
        finally:
            self._forget_finished()
        return answer

    def _forget_finished(self) -> None:
        for id in [id for id in self._answers if self._readings.get(id) is None]:
            del self._answers[id]

    async def _tell(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            await self._link.tell(frame)

    def _acknowledge_soon(self) -> None:
        if self._readings.acks.urgent:
            self._urgent.set()
        if self._readings.acks.pending:
            self._dirty.set()

    async def _acknowledge(self) -> None:
        while True:
            await self._dirty.wait()
            try:
                async with asyncio.timeout(ACK_SECONDS):
                    await self._urgent.wait()
            except TimeoutError:
                pass
            self._dirty.clear()
            self._urgent.clear()
            if vector := self._readings.acks.take():
                await self._link.tell({"t": "ack", "a": vector})

    async def _attach_again(self, id: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._tell(self._readings.attach_again(id))

    async def _authenticate(self, expires_in: float) -> None:
        """Show a fresh token before the one in use ends; else the server closes, and we reconnect."""
        loop = asyncio.get_running_loop()
        welcomes, until = self._welcomes, loop.time() + expires_in
        while welcomes == self._welcomes and self.connected and loop.time() < until:
            try:
                token = await self._link.token()
            except Stopped:
                return
            except GatewayClosed:
                left = until - loop.time()
                wait = min(AUTH_RETRY_SECONDS_MAX, max(AUTH_RETRY_SECONDS_MIN, left / 4))
                await asyncio.sleep(wait * random.uniform(0.5, 1))
                continue
            if welcomes == self._welcomes:
                await self._link.tell({"t": "auth", "token": token})
            return

    async def _stay_connected(self) -> None:
        why = {"code": "internal", "message": "the client broke down"}
        try:
            await self._link.run()
        except Stopped as stopped:
            why = {"code": stopped.code, "message": stopped.message}
        except asyncio.CancelledError:
            why = CLOSED
            raise
        finally:
            self._stopped = self._stopped or ProtocolError(why)
            self._readings.fail_all(why)
            self._answers.clear()
            self.became(ConnectionState("stopped", self._stopped))
            self._opened.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _call(listener: Callable[[Told], None], told: Told) -> None:
    """Tell the application; a fault of it must not keep us from connecting."""
    try:
        listener(told)
    except Exception:  # noqa: BLE001  (the application's fault)
        _log.exception("a listener of the client failed")
