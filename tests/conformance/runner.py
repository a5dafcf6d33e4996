"""Plays one gateway case, step by step (README.md says what each step does)."""

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol

import httpx

from core.clock import monotonic, now_ms
from tests.conformance import cases as c
from tests.conformance.ledger import Answers, BrokenPromise, Frame
from tests.conformance.line import GatewayLine, LineRefused
from tests.conformance.values import BadCase, Names

LOOK_SECONDS = 0.1


class CaseContext(Protocol):
    """Where one case is played: a gateway, its worker, and the case's own keys by name."""

    secrets: dict[str, str]
    sent: set[str]
    is_exact: bool  # its time is its own: a pause of the machine makes nothing seem early

    def connected(
        self, headers: dict[str, str], offered: list[str], answers: Answers
    ) -> AbstractAsyncContextManager[GatewayLine]:
        """A socket that has said nothing yet. Raises UpgradeRefused."""
        ...

    async def http(self, method: str, path: str, *, headers: dict[str, str], json: Any) -> httpx.Response:
        """One HTTP request."""
        ...

    def drain(self) -> None:
        """The gateway is told to stop."""
        ...

    def tenant_of(self, token: str) -> str:
        """Which of the case's tenants a token is of; the own one for what is no key."""
        ...

    async def revoke(self, name: str) -> None:
        """Revoke one of the case's keys."""
        ...

    async def start_worker(self, script: c.WorkerScript) -> None:
        """A worker of the case's own comes."""
        ...

    async def lose_worker(self) -> None:
        """The case's worker dies: nothing is given back."""
        ...

    def go_on(self) -> None:
        """A held worker goes on."""
        ...

    async def wait_end(self, id: str, seconds: float) -> None:
        """Until the request's end is in its log."""
        ...

    async def wait_parked(self, id: str, seconds: float) -> None:
        """Until the pool has parked the request."""
        ...

    async def wait_stored(self, id: str, seconds: float) -> None:
        """Until a conversation's answer is in its row."""
        ...

    async def retire(self, id: str) -> None:
        """Every key of the request is gone, as after its retention."""
        ...


class Houses(Protocol):
    """Who builds stages."""

    def stage(self, case: c.Case) -> AbstractAsyncContextManager[CaseContext]:
        """A place to play one case."""
        ...


async def play(case: c.Case, houses: Houses) -> None:
    """Play a case. Raises BrokenPromise with the step and the last frames."""
    async with houses.stage(case) as stage, AsyncExitStack() as sockets:
        names = Names(stage.secrets, case.each)
        playing = Playing(case, stage, names, sockets)
        for number, step in enumerate(case.steps, start=1):
            try:
                await playing.do(step)
            except (BrokenPromise, TimeoutError, AssertionError) as error:
                problem = "nothing came in time" if isinstance(error, TimeoutError) else str(error)
                at = f"step {number}, {_written(step)}\n{problem}\n({case.why})"
                raise BrokenPromise(f"{at}\n{playing.last_words}") from None


class Playing:
    """One case under way."""

    def __init__(self, case: c.Case, stage: CaseContext, names: Names, sockets: AsyncExitStack) -> None:
        self._case = case
        self._stage = stage
        self._names = names
        self._sockets = sockets
        self._lines: dict[str, GatewayLine] = {}
        self._answers: Answers = {}

    @property
    def last_words(self) -> str:
        """What was said last on each socket."""
        return "\n".join(f"  {name}:\n{line.last_words}" for name, line in self._lines.items())

    async def do(self, step: c.Step) -> None:  # noqa: C901  (one arm an action)
        """Do one step."""
        match step:
            case c.Connect():
                await self._connect(step)
            case c.Open():
                await self._open(step)
            case c.SendMessage():
                await self._send(step)
            case c.SendRaw():
                for _ in range(step.times):
                    await self._line(step).say_raw(step.raw, self._names)
            case c.Expect() | c.SkipUntil():
                await self._expect(step)
            case c.ExpectAll():
                await self._expect_all(step)
            case c.Quiet():
                await self._quiet(step)
            case c.ReadStep():
                await self._read(step)
            case c.ExpectClose() | c.SkipUntilClose():
                await self._expect_close(step)
            case c.CloseSocket():
                await self._lines[step.close].close()
            case c.Cut():
                self._lines[step.cut].cut()
            case c.Http():
                await self._http(step)
            case _:
                await self._direct(step)

    async def _direct(self, step: c.Step) -> None:
        """What happens behind the gateway."""
        stage, names, seconds = self._stage, self._names, step.within_ms / 1000
        match step:
            case c.WaitEnd():
                await stage.wait_end(names.text(step.wait_end), seconds)
            case c.WaitParked():
                await stage.wait_parked(names.text(step.wait_parked), seconds)
            case c.WaitStored():
                await stage.wait_stored(names.text(step.wait_stored), seconds)
            case c.Retire():
                await stage.retire(names.text(step.retire))
            case c.StartWorker():
                await stage.start_worker(step.worker)
            case c.LoseWorker():
                await stage.lose_worker()
            case c.GoOn():
                stage.go_on()
            case c.Revoke():
                await stage.revoke(step.revoke)
            case c.Drain():
                stage.drain()
            case _:
                raise BadCase(f"a step that nobody plays: {step}")

    def _line(self, step: c.Step) -> GatewayLine:
        if step.connection not in self._lines:
            raise BadCase(f"no connection is named {step.connection!r}")
        return self._lines[step.connection]

    # Speaking

    async def _connect(self, step: c.Connect) -> None:
        headers = {name: self._names.text(value) for name, value in step.headers.items()}
        offered = self._names.value(step.subprotocol)
        if offered is None:
            offered = f"parley.v1.{self._case.encoding}"
        listed = [offered] if isinstance(offered, str) else offered
        try:
            line = await self._sockets.enter_async_context(
                self._stage.connected(headers, listed, self._answers)
            )
        except LineRefused as refused:
            if refused.status != step.refused:
                raise BrokenPromise(f"the upgrade was answered HTTP {refused.status}") from refused
            return
        if step.refused is not None:
            raise BrokenPromise(f"the upgrade went through instead of HTTP {step.refused}")
        self._lines[step.connect] = line

    async def _open(self, step: c.Open) -> None:
        await self._connect(c.Connect(connect=step.open))
        line = self._lines[step.open]
        await self._say(line, {"t": "hello", "v": 1, "token": "$key", **step.hello})
        welcome = await self._message(line, step.within_ms / 1000)
        self._match({"t": "welcome", **step.matching}, welcome)
        self._names.bound |= {f"{step.open}.{name}": value for name, value in welcome.items()}

    async def _send(self, step: c.SendMessage) -> None:
        for _ in range(step.times):
            await self._say(self._line(step), step.send)

    async def _say(self, line: GatewayLine, written: Any) -> None:
        message = self._names.value(written)
        match message:
            case {"t": "send", "id": str(id)}:
                self._stage.sent.add(id)
            case {"t": "hello", "token": str(token)}:
                line.ledger.tenant = self._stage.tenant_of(token)
            case _:
                pass
        await line.say(message)

    # Listening

    async def _message(self, line: GatewayLine, seconds: float, pings: bool = False) -> Frame:
        """The next message; the server's pings are passed over unless they are wanted."""
        deadline = monotonic() + seconds
        while True:
            heard = await line.hear(deadline - monotonic())
            if isinstance(heard, int):
                raise BrokenPromise(f"closed {heard} instead of saying something")
            if pings or heard["t"] != "ping":
                return heard

    def _match(self, pattern: Any, frame: Frame) -> None:
        problem = self._names.mismatch(pattern, frame)
        if problem:
            raise BrokenPromise(f"{problem}: {frame}")

    async def _expect(self, step: c.Expect | c.SkipUntil) -> None:
        line, began = self._line(step), monotonic()
        wanted = step.expect if isinstance(step, c.Expect) else step.skip_until
        pings = isinstance(wanted, dict) and wanted.get("t") == "ping"
        while True:
            frame = await self._message(line, began + step.within_ms / 1000 - monotonic(), pings)
            if isinstance(step, c.Expect):
                self._match(wanted, frame)
                break
            if self._names.mismatch(wanted, frame) is None:
                break
        self._not_before(began, step.not_before_ms)

    async def _expect_all(self, step: c.ExpectAll) -> None:
        line, wanted = self._line(step), list(step.expect_all)
        while wanted:
            frame = await self._message(line, step.within_ms / 1000)
            found = next((each for each in wanted if self._names.mismatch(each, frame) is None), None)
            if found is None:
                raise BrokenPromise(f"{frame} matches none of {wanted}")
            wanted.remove(found)

    async def _quiet(self, step: c.Quiet) -> None:
        line = self._line(step)
        try:
            frame = await self._message(line, step.for_ms / 1000) if step.for_ms else None
        except TimeoutError:
            frame = None
        if frame is not None:
            raise BrokenPromise(f"not quiet: {frame}")
        stamp = now_ms() % 1_000_000_007
        await line.say({"t": "ping", "ts": stamp})
        self._match({"t": "pong", "ts": stamp}, await self._message(line, step.within_ms / 1000))

    async def _expect_close(self, step: c.ExpectClose | c.SkipUntilClose) -> None:
        line, began = self._line(step), monotonic()
        code = step.expect_close if isinstance(step, c.ExpectClose) else step.skip_until_close
        while True:
            heard = await line.hear(began + step.within_ms / 1000 - monotonic())
            if isinstance(heard, int):
                break
            if isinstance(step, c.ExpectClose) and heard["t"] != "ping":
                raise BrokenPromise(f"{heard} before the close")
        if heard != code:
            raise BrokenPromise(f"closed {heard} instead of {code}")
        if isinstance(step, c.ExpectClose):
            self._not_before(began, step.not_before_ms)

    def _not_before(self, began: float, milliseconds: int) -> None:
        waited = (monotonic() - began) * 1000
        if self._stage.is_exact and waited < milliseconds:
            raise BrokenPromise(f"it came after {waited:.0f} ms, before {milliseconds} ms")

    async def _read(self, step: c.ReadStep) -> None:
        """Read to the end, acknowledging as a client does."""
        line, g = self._line(step), self._names.value(step.read)
        deadline = monotonic() + step.within_ms / 1000
        reading = line.ledger.readings.get(g)
        if reading is None:
            raise BadCase(f"nothing is read as g {g}")
        end = line.ledger.end(g)  # an earlier step may have passed over it
        while end is None:
            if line.ledger.ack_is_due(g, monotonic()):
                await line.say({"t": "ack", "a": [[g, reading.applied]]})
            try:
                frame = await self._message(line, min(deadline - monotonic(), LOOK_SECONDS))
            except TimeoutError:
                if monotonic() >= deadline:
                    raise
                continue
            end = frame if frame["t"] == "end" and frame["g"] == g else None
        await line.say({"t": "ack", "a": [[g, end["o"]]]})
        if step.end is not None:
            self._match(step.end, end)
        if step.text is not None:
            problem = self._names.mismatch({"text": step.text}, {"text": line.ledger.text(g)})
            if problem:
                raise BrokenPromise(problem)

    async def _http(self, step: c.Http) -> None:
        asked, names = step.http, self._names
        headers = {name: names.text(value) for name, value in asked.headers.items()}
        if asked.key is not None:
            headers["authorization"] = f"Bearer {names.text(f'$key {asked.key}')}"
        path, body = names.text(asked.path), names.value(asked.json)
        reply = await self._stage.http(asked.method, path, headers=headers, json=body)
        if reply.status_code != step.status:
            raise BrokenPromise(f"HTTP {reply.status_code}: {reply.text[:300]}")
        if step.body is not None:
            self._match(step.body, reply.json())


def _written(step: c.Step) -> str:
    shown = str(step)
    return shown if len(shown) <= 300 else shown[:300] + "…"
