"""A network for the real Python client: sockets that are queues, and a loop whose clock the test moves."""

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any

from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from server.protocol.codes import CloseCode
from tests.server.simulation.gateway import SimulatedConnection

TURNS = 12


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop in whose time nothing passes by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        """What the test says."""
        return self.now

    def settle(self) -> None:
        """Run until everything waits for the test."""
        self.run_until_complete(_turns())

    def finish(self, *tasks: "asyncio.Task[Any]") -> None:
        """End whatever still runs, these too, and take their errors."""
        others = [task for task in asyncio.all_tasks(self) if task not in tasks]
        for task in others:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, *others, return_exceptions=True))
        self.run_until_complete(self.shutdown_asyncgens())
        self.close()


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class ClientSocket:
    """The client's end, as far as the client uses a `websockets` connection."""

    def __init__(self, line: "Line") -> None:
        self.transport = SimpleNamespace(abort=self._abort)
        self._line = line
        self._arrived: asyncio.Queue[str | ConnectionClosedError] = asyncio.Queue()
        self._gone: ConnectionClosedError | None = None

    async def send(self, frame: str) -> None:
        """Put a frame on the line."""
        if self._gone is not None:
            raise self._gone
        self._line.to_server.append(frame)

    async def recv(self) -> str:
        """The next frame that was delivered."""
        frame = self._gone or await self._arrived.get()
        if isinstance(frame, ConnectionClosedError):
            self._gone = frame
            raise frame
        return frame

    async def close(self) -> None:
        """An orderly end: frames sent before still arrive."""
        if self._gone is None:
            self._gone = ConnectionClosedError(None, None)
            self._arrived.put_nowait(self._gone)
            self._line.to_server.append(None)

    def deliver(self, frame: str | CloseCode) -> None:
        """A frame arrives, or the server's close."""
        if isinstance(frame, CloseCode):
            close = Close(frame, "")
            self._arrived.put_nowait(ConnectionClosedError(close, close, True))
        else:
            self._arrived.put_nowait(frame)

    def notice(self) -> None:
        """The network tells the client that the line is cut."""
        self._arrived.put_nowait(ConnectionClosedError(None, None))

    def _abort(self) -> None:
        self._gone = ConnectionClosedError(None, None)
        self._line.cut()


class Line:
    """One connection: what is on its way in both directions, in order. None: the client left."""

    def __init__(self, connection: SimulatedConnection) -> None:
        self.connection = connection
        self.socket = ClientSocket(self)
        self.to_server: deque[str | None] = deque()
        self.dead = False

    @property
    def to_client(self) -> deque[Any]:
        """Frames and closes on their way to the client."""
        return self.connection.outbox

    def cut(self) -> None:
        """Everything in flight is lost. A hello that arrived may still supersede the connection after it."""
        self.to_server.clear()
        self.to_client.clear()
        self.dead = True
