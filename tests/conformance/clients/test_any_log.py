"""Any log, cut and repeated and handed over by chance, is read to the same text by both clients."""

import random
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import async_playwright

from core.clock import now_ms
from core.ids import uuid7
from tests.browser.conftest import FLAGS
from tests.conformance.clients.runner import ClientLine
from tests.conformance.clients.steps import OptionsStep
from tests.conformance.clients.subjects import BrowserSubject, PythonSubject, Subject
from tests.support.browsers import chromium_path
from tests.support.patience import wait_until
from tests.support.scripted_peer import (
    Frame,
    Peer,
    accepted_fields,
    end_fields,
    scripted_peer,
    welcome_fields,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
PIECES = ["a", "é", "😀 ", "word ", "\n", "日本", "e\u0301", ""]
ROUNDS = 3


class Server:
    """Keeps one log and does to its reader whatever the protocol allows, and some repeats besides."""

    def __init__(self, peer: Peer, chance: random.Random) -> None:
        self.peer = peer
        self.chance = chance
        self.log = [chance.choice(PIECES) for _ in range(60)]
        self.flags = {o: self._flag(o) for o in range(1, 61) if chance.random() < 0.15}
        self.snapped = 0
        self.id = uuid7(now_ms())
        self.cursor = 0
        self.g = 1
        self._line: ClientLine | None = None

    @property
    def line(self) -> ClientLine:
        """The newest connection."""
        assert self._line is not None
        return self._line

    def _flag(self, o: int) -> Frame:
        """A flag in place of the text at this offset."""
        self.log[o - 1] = ""
        return {"category": "email", "action": "redact", "scope": "tenant", "p": o, "n": 1}

    def text(self, first: int = 1, last: int | None = None) -> str:
        """What the log says from one offset to another."""
        return "".join(self.log[first - 1 : last])

    async def begin(self) -> None:
        """The client connects and its turn is accepted."""
        self._line = ClientLine(await self.peer.socket())
        await self.line.socket.hear("hello")
        await self.line.tell({"t": "welcome"} | welcome_fields())
        await self.line.socket.hear("send")
        await self.line.tell({"t": "accepted", "id": self.id, "g": self.g} | accepted_fields())

    async def play(self) -> None:
        """Chance after chance until everything was sent and applied."""
        while self.cursor < len(self.log):
            action = self.chance.choices(
                [self.deliver, self.repeat, self.skip, self.snap, self.cut, self.hand_over],
                [12, 2, 1, 1, 1, 2],
            )[0]
            await action()
            await self.settle()

    async def deliver(self) -> None:
        """The next entries, merged by chance."""
        last = min(len(self.log), self.cursor + self.chance.randint(1, 6))
        await self._delta(self.cursor + 1, last)
        self.cursor = last

    async def repeat(self) -> None:
        """What was sent already."""
        if self.cursor:
            first = self.chance.randint(1, self.cursor)
            await self._delta(first, self.chance.randint(first, self.cursor))

    async def skip(self) -> None:
        """Something from further on: the client has to ask for what is missing."""
        if self.cursor + 2 <= len(self.log):
            await self._delta(self.cursor + 2, self.cursor + 2)

    async def snap(self) -> None:
        """All of the text so far, at once: its flags are forgotten."""
        self.snapped = max(self.snapped, self.cursor)
        text = self.text(1, self.cursor)
        await self.line.tell({"t": "snap", "g": self.g, "epoch": 1, "o": self.cursor, "x": text})

    async def cut(self) -> None:
        """The connection is lost."""
        self.peer.cut()
        await self._resume(await self._connected())

    async def hand_over(self) -> None:
        """Another connection takes over while this one goes on for a while."""
        await self.line.tell({"t": "go_away", "why": "drain", "in_ms": 60_000})
        line, asked = await self._connected()
        for _ in range(self.chance.randint(0, 3)):
            await self.deliver() if self.cursor < len(self.log) else None
        await self.settle()
        await self._resume((line, asked))

    async def settle(self) -> None:
        """What was sent has its effect; what the client asks for because of it is granted."""
        while True:
            await self.line.tell({"t": "ping", "ts": 1})
            await self.line.socket.hear("pong")
            self.line.audit()
            attaches = [frame for frame in self.line.socket.heard if frame["t"] == "attach"]
            if not attaches:
                return
            self.line.socket.heard = [frame for frame in self.line.socket.heard if frame["t"] != "attach"]
            await self._attached(attaches[-1]["o"])

    async def _attached(self, o: int) -> None:
        self.cursor = o
        self.line.sent[self.g] = o
        state = {"epoch": 1, "from": o + 1, "head": len(self.log), "state": "running"}
        await self.line.tell({"t": "attached", "id": self.id, "g": self.g} | state)

    async def _connected(self) -> tuple[ClientLine, int]:
        line = ClientLine(await self.peer.socket())
        [asked] = (await line.socket.hear("hello"))["resume"]["requests"]
        assert asked["id"] == self.id
        return line, asked["o"]

    async def _resume(self, connected: tuple[ClientLine, int]) -> None:
        self._line, self.cursor = connected
        self.g = self.chance.randint(1, 9)
        self.line.sent[self.g] = self.cursor
        listed: Frame = {"id": self.id, "g": self.g, "epoch": 1, "from": self.cursor + 1, "state": "running"}
        welcome = welcome_fields() | {"requests": [listed | {"head": len(self.log)}], "resumed": "full"}
        await self.line.tell({"t": "welcome"} | welcome)

    async def _delta(self, first: int, last: int) -> None:
        """Entries of the log: a delta never spans a flag."""
        for at in range(first, last + 1):
            if flag := self.flags.get(at):
                if at > first:
                    await self._text(first, at - 1)
                await self._tell({"t": "event", "g": self.g, "o": at, "k": "flagged", "v": flag}, at)
                first = at + 1
        if first <= last:
            await self._text(first, last)

    async def _text(self, first: int, last: int) -> None:
        p, text = len(self.text(1, first - 1)) if first > 1 else 0, self.text(first, last)
        await self._tell(
            {"t": "delta", "g": self.g, "a": first, "b": last, "p": p, "x": text, "i": last}, last
        )

    async def _tell(self, frame: Frame, last: int) -> None:
        """A frame of the log, perhaps again."""
        sent = self.line.sent.get(self.g, 0)
        await self.line.tell(frame)
        self.line.sent[self.g] = max(sent, last)

    async def end(self) -> None:
        """The end of the log."""
        text = self.text()
        await self.line.tell({"t": "end", "g": self.g, "o": len(self.log) + 1} | end_fields(text))


@pytest_asyncio.fixture(
    loop_scope="module",
    scope="module",
    params=["json", "msgpack", pytest.param("browser", marks=pytest.mark.browser)],
)
async def arena(request: pytest.FixtureRequest) -> AsyncGenerator[tuple[Peer, Subject]]:
    """A peer and a client that will connect to it."""
    async with scripted_peer() as peer:
        if request.param != "browser":
            yield peer, PythonSubject(request.param)
            return
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
            page = await browser.new_page()
            await page.goto(f"{peer.url}/blank")
            yield peer, BrowserSubject(page)
            await browser.close()


@pytest.mark.parametrize("round_", range(ROUNDS))
async def test_any_log_is_read_whole(arena: tuple[Peer, Subject], round_: int):
    """INV-2: Deltas merged by chance, repeats, gaps, snaps, cuts and handovers: the text is the log's,
    verified."""
    peer, subject = arena
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    server = Server(peer, random.Random(seed))
    await subject.start(peer.url, OptionsStep(backoff_ms=1))
    try:
        await subject.send(server.id, {"content": "hello"}, False)
        await server.begin()
        await server.play()
        await server.end()

        async def ended() -> bool:
            answer = await subject.answer(server.id)
            return answer is not None and answer["status"] == "ended"

        await wait_until(ended)
        await server.settle()
        answer = await subject.answer(server.id)
        assert answer is not None
        assert (answer["text"], answer["verified"]) == (server.text(), True)
        assert answer["flags"] == [flag for o, flag in server.flags.items() if o > server.snapped]
        assert (await subject.counters())["mismatched"] == 0
    finally:
        await subject.stop()
        peer.cut()
