"""Real receivers of alerts for tests: an HTTP server and a mail server on loopback."""

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


@dataclass
class MailServer:
    """Takes every mail, after it refused `refused` of them for now."""

    refused: int = 0
    mails: list[str] = field(default_factory=list[str])
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection (RFC 5321)."""
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            command = line.decode().strip().upper()
            if command == "DATA":
                writer.write(b"354 go on\r\n")
                text = (await reader.readuntil(b"\r\n.\r\n")).decode()
                self.refused -= 1
                if self.refused < 0:
                    self.mails.append(text)
                writer.write(b"250 taken\r\n" if self.refused < 0 else b"451 not now\r\n")
            elif command == "QUIT":
                writer.write(b"221 bye\r\n")
                break
            elif command.startswith("EHLO"):
                writer.write(b"250-here\r\n250 8BITMIME\r\n")
            else:
                writer.write(b"250 ok\r\n")
            await writer.drain()
        writer.close()


@asynccontextmanager
async def mail_server(server: MailServer) -> AsyncGenerator[MailServer]:
    """The mail server on a port of its own."""
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server
