"""A real receiver of alerts for tests: an HTTP server on loopback. Mail: mail_server.py."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Received:
    """One HTTP request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Answers with what `answer` says of the number of the request, from 1; 0: not at all."""

    answer: Callable[[int], int] = lambda number: 200
    headers: str = ""
    requests: list[Received] = field(default_factory=list[Received])
    port: int = 0

    @property
    def ids(self) -> list[str]:
        """The ids of the messages, in the order in which they came."""
        return [each.headers["parley-message-id"] for each in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])
            }
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append(Received(head[0].split(" ")[1], headers, body))
            status = self.answer(len(self.requests))
            if status == 0:
                await reader.read()  # until the sender gives up
            writer.write(f"HTTP/1.1 {status} X\r\n{self.headers}content-length: 0\r\n\r\n".encode())
            await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def http_receiver(receiver: Receiver) -> AsyncGenerator[Receiver]:
    """The receiver on a port of its own."""
    async with await asyncio.start_server(receiver.serve, "127.0.0.1", 0) as server:
        receiver.port = server.sockets[0].getsockname()[1]
        yield receiver
