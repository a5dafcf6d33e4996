"""Async Python client of the session protocol parley.v1 (docs/protocol.md).

    async with Client("http://127.0.0.1:8080", key) as client:
        answer = await client.send("Name three rivers.")
        async for text in answer:
            print(text, end="", flush=True)
        print((await answer.end()).usage)

It reconnects by itself and goes on reading where it stood; what the server did not accept yet is sent again.
`server/client_answer.py` decides what frames mean, `server/client_link.py` keeps a connection.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from core.clock import now_ms
from core.ids import uuid7
from server.client_answer import (
    Acks,
    Counters,
    Ended,
    Event,
    Frame,
    Order,
    ProtocolError,
    Reading,
    Reset,
    Text,
    TextTakenBack,
)
from server.client_answer import Status as Status
from server.client_answer import Usage as Usage
from server.client_link import Link, Stopped

ACK_SECONDS = 0.2
FRAME_BYTES_MAX = 256 * 1024
CLOSED = {"code": "closed", "message": "the client was closed"}
LOGGED = frozenset({"delta", "event", "snap", "retract", "end"})


class Answer:
    """One request as its reader sees it. Read it once: by iterating, by `events()`, or by `end()`."""

    def __init__(self, client: "Client", reading: Reading) -> None:
        self._client = client
        self._reading = reading
        self._changed = asyncio.Event()

    @property
    def id(self) -> str:
        """The request's id."""
        return self._reading.id

    @property
    def text(self) -> str:
        """The answer as far as it was read."""
        return self._reading.text

    async def events(self) -> AsyncIterator[Event]:
        """Everything that happens to the answer, `Ended` last. Raises ProtocolError where it is lost."""
        while self._reading.ended is None:
            if not self._reading.waiting:
                if self._reading.error is not None:
                    raise self._reading.error
                self._changed.clear()
                await self._changed.wait()
                continue
            event = await self._client._apply(self._reading)
            if event is not None:
                yield event

    async def __aiter__(self) -> AsyncIterator[str]:
        """The answer's text piece by piece. Raises TextTakenBack where the server retracts some of it."""
        given = ""
        async for event in self.events():
            text = self._reading.text
            if not text.startswith(given):
                raise TextTakenBack(text)
            if isinstance(event, Text | Reset | Ended) and len(text) > len(given):
                yield text[len(given) :]
                given = text

    async def end(self) -> Ended:
        """Read to the end and say how it ended."""
        async for _ in self.events():
            pass
        assert self._reading.ended is not None
        return self._reading.ended

    async def cancel(self) -> None:
        """Ask to stop. The answer then ends with reason "cancelled" and keeps its text."""
        await self._client.cancel(self.id)

    async def detach(self) -> None:
        """Stop reading. The request goes on; `Client.attach` finds it again."""
        await self._client._detach(self)

    async def _accepted(self) -> None:
        while not self._reading.accepted:
            if self._reading.error is not None:
                raise self._reading.error
            self._changed.clear()
            await self._changed.wait()


class Client:
    """A session. `key`: an API key, or a function that gets a fresh ticket for every connection.

    `window`: smaller windows than the server's, {"events": …, "bytes": …}.
    """

    def __init__(
        self,
        url: str,
        key: str | Callable[[], Awaitable[str]],
        *,
        window: Mapping[str, int] | None = None,
        backoff_seconds: float = 0.5,
    ) -> None:
        self.counters = Counters()
        self._window = dict(window) if window else None
        self._answers: dict[str, Answer] = {}
        self._by_g: dict[int, Answer] = {}
        self._acks = Acks(256, 32 * 1024, 128 * 1024)
        self._frame_bytes_max = FRAME_BYTES_MAX
        self._clock_offset_ms = 0
        self._resume_token: str | None = None
        self._opened = asyncio.Event()
        self._stopped: ProtocolError | None = None
        self._dirty, self._urgent = asyncio.Event(), asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._link = Link(url, key, backoff_seconds, self)

    async def __aenter__(self) -> Self:
        """Connect; an unreachable server is waited for. Raises ProtocolError where it will not have us."""
        self._tasks = [asyncio.create_task(self._stay_connected()), asyncio.create_task(self._acknowledge())]
        try:
            await self._opened.wait()
            if self._stopped is not None:
                raise self._stopped
        except BaseException:
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
        if vector := self._acks.take():
            await self._link.tell({"t": "ack", "a": vector})
        await self._link.tell({"t": "bye"})
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._link.close()

    async def send(
        self,
        content: str | None = None,
        *,
        messages: Sequence[Mapping[str, str]] | None = None,
        conversation: str | None = None,
        model: str | None = None,
        options: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> Answer:
        """Start one turn; returns once the server accepted it. Raises ProtocolError where it is refused.

        The same `id` and body again re-attach to the same answer: nothing runs twice."""
        if self._stopped is not None:
            raise self._stopped
        id = id or self.new_id()
        body = {
            "content": content,
            "messages": list(messages) if messages is not None else None,
            "conversation": conversation,
            "model": model,
            "options": options,
            "metadata": metadata,
        }
        message = {"t": "send", "id": id} | {name: value for name, value in body.items() if value is not None}
        if len(json.dumps(message, ensure_ascii=False).encode()) > self._frame_bytes_max:
            problem = f"a message has at most {self._frame_bytes_max} bytes"
            raise ProtocolError({"code": "too_large", "message": problem, "limit": self._frame_bytes_max})
        answer = self._answers[id] = Answer(self, Reading(id, message))
        await self._link.tell(message)
        await answer._accepted()
        return answer

    async def attach(self, id: str) -> Answer:
        """Read a request from its start, whoever sent it and wherever it stands. Raises ProtocolError."""
        if self._stopped is not None:
            raise self._stopped
        answer = self._answers.get(id)
        if answer is None:
            answer = self._answers[id] = Answer(self, Reading(id, None))
            await self._link.tell({"t": "attach", "id": id, "o": 0})
        await answer._accepted()
        return answer

    async def cancel(self, id: str) -> None:
        """Ask to stop a request, also one that is not accepted yet or was sent by somebody else."""
        answer = self._answers.get(id)
        if answer is not None:
            answer._reading.cancelling = True
        await self._link.tell({"t": "cancel", "id": id})

    def new_id(self) -> str:
        """A new request or conversation id, made from the server's clock."""
        return uuid7(now_ms() + self._clock_offset_ms)

    # What the link asks and tells

    def hello(self, token: str) -> dict[str, Any]:
        """The first frame of a connection."""
        readings = [answer._reading for answer in self._answers.values()]
        requests: list[Frame] = [{"id": each.id, "epoch": each.epoch, "o": each.applied} for each in readings]
        hello: dict[str, Any] = {"t": "hello", "v": 1, "token": token}
        hello["agent"] = {"name": "parley-python", "version": "1"}
        if self._window is not None:
            hello["window"] = self._window
        token_kept = {} if self._resume_token is None else {"token": self._resume_token}
        if token_kept or requests:
            hello["resume"] = {"requests": requests, **token_kept}
        return hello

    async def welcomed(self, welcome: Frame, hello: Frame) -> None:
        """A connection took over: go on with every open answer where it stands."""
        self._resume_token = welcome["resume_token"]
        self._clock_offset_ms = welcome["now"] - now_ms()
        limits, window = welcome["limits"], self._window or {}
        self._frame_bytes_max = limits["frame"]
        self._acks = Acks(
            min(window.get("events", limits["events"]), limits["events"]),
            min(window.get("bytes", limits["bytes"]), limits["bytes"]),
            limits["connection_bytes"],
        )
        self._by_g.clear()
        listed = {each["id"]: each for each in welcome["requests"]}
        asked = {each["id"]: each["o"] for each in hello.get("resume", {}).get("requests", [])}
        for id, found in listed.items():
            if id not in self._answers and found["state"] != "gone":
                await self._link.tell({"t": "detach", "id": id})
        for answer in list(self._answers.values()):
            await self._resume(answer, listed.get(answer.id), asked.get(answer.id))
        self._opened.set()

    async def _resume(self, answer: Answer, found: Frame | None, asked: int | None) -> None:
        reading = answer._reading
        reading.forget_arrived()
        if found is not None and found["state"] == "gone":
            code = found.get("why", "not_resumable")
            return self._fail(answer, {"code": code, "message": "the server no longer has this answer"})
        if found is None and not reading.accepted and reading.message is not None:
            self.counters.resent += asked is not None
            await self._link.tell(reading.message)
        elif found is None or asked != reading.applied:
            await self._reattach(reading)
        else:
            self.counters.resumed += 1
            self._bind(answer, found)
        if reading.cancelling:
            await self._link.tell({"t": "cancel", "id": answer.id})

    async def received(self, frame: Frame) -> None:
        """One frame of the connection that holds."""
        match frame["t"]:
            case kind if kind in LOGGED:
                await self._logged(frame)
            case "accepted" | "attached":
                if (answer := self._answers.get(frame["id"])) is not None:
                    self._bind(answer, frame)
            case "ping":
                await self._link.tell({"t": "pong", "ts": frame["ts"], "a": self._acks.take()})
            case "error":
                self._error(frame)
            case _:
                pass

    def lost(self) -> None:
        """No connection holds: what nobody read yet comes again from where reading stands."""
        self._by_g.clear()
        for answer in self._answers.values():
            answer._reading.forget_arrived()

    async def _logged(self, frame: Frame) -> None:
        answer = self._by_g.get(frame["g"])
        if answer is None:
            return  # late frames of a cursor that was moved
        match answer._reading.take(frame):
            case Order.NEXT:
                answer._changed.set()
            case Order.STALE:
                self.counters.stale += 1
            case Order.GAP:
                self.counters.gaps += 1
                await self._reattach(answer._reading)

    def _error(self, error: Frame) -> None:
        answer = self._answers.get(error.get("id", ""))
        if answer is None:
            return
        if error.get("re") == "cancel":
            answer._reading.cancelling = False
        elif error.get("re") == "attach" or not answer._reading.accepted:
            self._fail(answer, error)

    def _bind(self, answer: Answer, frame: Frame) -> None:
        reading = answer._reading
        reading.accepted, reading.g = True, frame["g"]
        reading.epoch = reading.epoch or frame["epoch"]
        self._by_g[frame["g"]] = answer
        answer._changed.set()

    async def _reattach(self, reading: Reading) -> None:
        self._forget_cursor(reading)
        attach: dict[str, Any] = {"t": "attach", "id": reading.id, "o": reading.applied}
        await self._link.tell(attach | ({"epoch": reading.epoch} if reading.epoch else {}))

    def _forget_cursor(self, reading: Reading) -> None:
        reading.forget_arrived()
        if reading.g is not None:
            self._by_g.pop(reading.g, None)
            self._acks.drop(reading.g)

    async def _apply(self, reading: Reading) -> Event | None:
        """Apply an answer's next frame, because its reader asked for it; acknowledge it soon."""
        before = reading.applied
        frame, event = reading.apply()
        if event is None:
            self.counters.gaps += 1
            await self._reattach(reading)
            return Reset("")
        if isinstance(event, Ended):
            self._answers.pop(reading.id, None)
            self.counters.verified += event.verified
            self.counters.mismatched += not event.verified
        if self._by_g.get(frame["g"]) is not None and (frame["t"] != "event" or "o" in frame):
            if self._acks.note(frame["g"], frame, reading.applied - before, reading.applied):
                self._urgent.set()
            self._dirty.set()
        if isinstance(event, Ended):
            self._by_g.pop(frame["g"], None)
        return event

    async def _detach(self, answer: Answer) -> None:
        if self._answers.pop(answer.id, None) is None:
            return
        self._forget_cursor(answer._reading)
        await self._link.tell({"t": "detach", "id": answer.id})
        answer._reading.error = ProtocolError({"code": "closed", "message": "this answer was detached"})
        answer._changed.set()

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
            if vector := self._acks.take():
                await self._link.tell({"t": "ack", "a": vector})

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
            self._fail_all(ProtocolError(why))

    def _fail_all(self, error: ProtocolError) -> None:
        self._stopped = self._stopped or error
        self._opened.set()
        for answer in list(self._answers.values()):
            answer._reading.error = error
            answer._changed.set()
        self._answers.clear()

    def _fail(self, answer: Answer, error: Frame) -> None:
        self._answers.pop(answer.id, None)
        answer._reading.error = ProtocolError(error)
        answer._changed.set()
