"""The second person's mailbox in a run of the books: a mail server on loopback that keeps the codes."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

CODE = re.compile(r"^    ([A-Z2-7-]{32})\r?$", re.MULTILINE)
PROPOSAL = re.compile(r"^proposal: (\S+)\r?$", re.MULTILINE)
SECOND = "second@example.com"


@dataclass
class Mailbox:
    """`codes`: by proposal, as they came."""

    codes: dict[str, str] = field(default_factory=dict[str, str])
    port: int = 0

    @property
    def environment(self) -> dict[str, str]:
        """For commands that send codes here. The others have no second person, whose moves count together."""
        smtp = {"HOST": "127.0.0.1", "PORT": str(self.port), "SECURITY": "none"}
        return {"PARLEY_SECOND_PERSON": SECOND} | {f"PARLEY_SMTP_{name}": each for name, each in smtp.items()}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection (RFC 5321)."""
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            command = line.decode().strip().upper()
            if command == "DATA":
                writer.write(b"354 go on\r\n")
                self._keep((await reader.readuntil(b"\r\n.\r\n")).decode())
            if command == "QUIT":
                break
            writer.write(b"250 ok\r\n")
            await writer.drain()
        writer.close()

    def _keep(self, mail: str) -> None:
        code, proposal = CODE.search(mail), PROPOSAL.search(mail)
        assert code is not None
        assert proposal is not None
        self.codes[proposal[1]] = code[1]


@asynccontextmanager
async def open_mailbox() -> AsyncGenerator[Mailbox]:
    """One, on a port of its own."""
    mailbox = Mailbox()
    async with await asyncio.start_server(mailbox.serve, "127.0.0.1", 0) as server:
        mailbox.port = server.sockets[0].getsockname()[1]
        yield mailbox
