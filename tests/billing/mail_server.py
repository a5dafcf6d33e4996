"""A mail server on loopback, which keeps what it gets."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class MailServer:
    """Takes every mail, after it refused `refused` of them for now. It knows no TLS and no sign-in."""

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
    """The mail server, on a port of its own."""
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server
