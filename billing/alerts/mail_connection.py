"""SMTP connection of aiosmtplib that is bounded in time as a whole, and closes without waiting for the
server."""

import asyncio
import socket
from contextlib import suppress
from email.message import EmailMessage
from typing import cast

import aiosmtplib

from billing.alerts.webhooks import NotDelivered
from core.configuration.settings import Settings
from core.observability.error_facts import kind

CONNECT_SECONDS_MAX = 20.0  # until the server accepts our login
SECONDS_MAX = 60.0  # for the whole delivery


class MailConnection(aiosmtplib.SMTP):
    """A connection that sends nothing after it is closed, and does not wait for the server's goodbye."""

    def close(self) -> None:
        """Close at once. The next attempt repeats whatever the server has not read yet."""
        if self.transport is not None:
            cast(asyncio.Transport, self.transport).abort()
        super().close()


async def deliver(settings: Settings, message: EmailMessage) -> None:
    """Hand a message to the mail server. Raises NotDelivered where it does not take it."""
    password = settings.smtp_password
    server = MailConnection(
        hostname=settings.smtp_host,
        port=settings.smtp_port,
        username=settings.smtp_user or None,
        password=password.get_secret_value() if password else "",
        timeout=None,  # Python 3.11's wait_for, by which it counts, may swallow a cancel
        use_tls=settings.smtp_security == "tls",
        start_tls=settings.smtp_security == "starttls",
    )
    begun = asyncio.get_running_loop().time()
    deadline = begun + SECONDS_MAX
    try:
        async with asyncio.timeout_at(min(begun + CONNECT_SECONDS_MAX, deadline)):
            await server.connect(local_hostname=await asyncio.to_thread(_own_name))
        async with asyncio.timeout_at(deadline):
            await server.send_message(message)
        with suppress(aiosmtplib.SMTPException, OSError):
            async with asyncio.timeout_at(deadline):
                await server.quit()  # it has the message, so a failed goodbye is ignored
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        raise NotDelivered(_told(error)) from error
    finally:
        server.close()


def _own_name() -> str:
    """The name of this machine that a mail server is greeted with (RFC 5321, 4.1.4)."""
    name = socket.getfqdn()
    return name if "." in name else "[127.0.0.1]"


def _told(error: Exception) -> str:
    """Reason that the server refused the message, without the server's own words."""
    if isinstance(error, aiosmtplib.SMTPNotSupported):
        return "the mail server takes no addresses beyond ASCII (SMTPUTF8)"
    if type(error) is aiosmtplib.SMTPException:
        return "the mail server offers no STARTTLS, or no sign-in (PARLEY_SMTP_SECURITY)"
    if type(error) is TimeoutError:
        return "the mail server did not take it in time"
    if not isinstance(error, aiosmtplib.SMTPException | OSError):
        return "the sender is no mail address (PARLEY_SMTP_FROM)"
    cause = error.__cause__ if isinstance(error, aiosmtplib.SMTPConnectError) else None
    return f"mail server: {kind(cause or error)}"
