"""A real mail server (aiosmtpd, which names its methods after commands) that refuses, hangs up and asks for a
sign-in as a test says."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword

from tests.support.holding_out import closed
from tests.support.patience import wait_until

TAKEN = "250 taken"


@dataclass
class SmtpStub:
    """`says`: at a step (MAIL, RCPT, DATA, QUIT) another reply, or `hang up`. `password`: of `parley`, who
    must sign in. `international`: addresses may be more than ASCII."""

    says: dict[str, str] = field(default_factory=dict[str, str])
    password: str = ""
    tls: ssl.SSLContext | None = None
    international: bool = False
    taken: list[Envelope] = field(default_factory=list[Envelope])
    passwords: list[str] = field(default_factory=list[str])  # that were shown, right or wrong
    port: int = 0

    @property
    def messages(self) -> list[EmailMessage]:
        """What it took, as a reader's program reads it."""
        read: list[Any] = [message_from_bytes(_bytes(each), policy=policy.default) for each in self.taken]
        return read

    async def handle_MAIL(self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: Any):  # noqa: N802
        """The sender."""
        envelope.mail_from = address
        return self.says.get("MAIL", "250 ok")

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: Any):  # noqa: N802
        """One receiver."""
        envelope.rcpt_tos.append(address)
        return self.says.get("RCPT", "250 ok")

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope):  # noqa: N802
        """The message."""
        said = self.says.get("DATA", TAKEN)
        if said.startswith("250"):
            self.taken.append(envelope)
        return said

    async def handle_QUIT(self, _server: Any, _session: Any, _envelope: Any):  # noqa: N802
        """The end."""
        return self.says.get("QUIT", "221 bye")

    def signs_in(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: LoginPassword):
        """Whether a password is the user's."""
        self.passwords.append(data.password.decode())
        right = (data.login, data.password) == (b"parley", self.password.encode())
        return AuthResult(success=right, handled=False)


class _SmtpController(SMTP):
    """One that may hang up in the middle of a message."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.sockets: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Once plain, and once more where TLS begins in it."""
        super().connection_made(transport)
        self.sockets.append(transport.get_extra_info("socket"))

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        """Takes the message, or some of it."""
        if self.event_handler.says.get("DATA") != "hang up":
            return await super().smtp_DATA(arg)
        await self.push("354 go on")
        await self._reader.readline()
        assert isinstance(self.transport, asyncio.Transport)
        self.transport.abort()


@asynccontextmanager
async def post_office(office: SmtpStub) -> AsyncGenerator[SmtpStub]:
    """The office, on a port of its own."""

    serving: list[_SmtpController] = []

    def serve() -> SMTP:
        serving.append(
            server := _SmtpController(
                office,
                enable_SMTPUTF8=office.international,
                tls_context=office.tls,
                require_starttls=office.tls is not None,
                auth_required=bool(office.password),
                authenticator=office.signs_in if office.password else None,
                loop=asyncio.get_running_loop(),
            )
        )
        return server

    async with await asyncio.get_running_loop().create_server(serve, "127.0.0.1", 0) as server:
        office.port = server.sockets[0].getsockname()[1]
        yield office
        await _let_in()
        begun: list[Any] = [each._handler_coroutine for each in serving]
        await asyncio.gather(*begun, return_exceptions=True)  # its clients have gone
        await closed([each for server in serving for each in server.sockets])


async def _let_in() -> None:
    """Who came by now is served, however soon it hung up: the end of a server would leave its socket open."""
    for _ in range(2):  # the loop sees that somebody came, then lets them in
        await asyncio.sleep(0)
    await wait_until(lambda: not any("_accept_connection" in repr(task) for task in asyncio.all_tasks()))


def _bytes(envelope: Envelope) -> bytes:
    assert isinstance(envelope.content, bytes)
    return envelope.content
