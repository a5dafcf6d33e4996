"""E-mail: one message to one address over the installation's mail server."""

import asyncio
import smtplib
import ssl
from contextlib import closing, suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

from billing.alerts.mail_connection import MailConnection
from billing.alerts.webhooks import NotDelivered
from core.configuration.settings import Settings
from core.network.interruptible_socket import InterruptibleSocket
from core.observability.error_facts import kind

STEP_SECONDS_MAX = 10.0
SECONDS_MAX = 60.0


async def send_mail(settings: Settings, address: str, subject: str, text: str, message_id: str) -> None:
    """Hand a message to the mail server. Raises NotDelivered where it does not take it.

    `message_id` is its Message-ID, the same for a repetition."""
    message = EmailMessage()
    sender = settings.smtp_from or f"parley@{settings.smtp_host}"
    message["From"] = sender
    message["To"] = address
    message["Subject"] = subject
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2] or 'parley'}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    line = InterruptibleSocket()
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await asyncio.to_thread(_send, settings, message, line)
    except TimeoutError as error:
        raise NotDelivered(f"the mail server did not take it in {SECONDS_MAX:.0f} s") from error
    except smtplib.SMTPNotSupportedError as error:
        raise NotDelivered(
            "the mail server offers no STARTTLS, or no sign-in (PARLEY_SMTP_SECURITY)"
        ) from error
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(f"mail server: {kind(error)}") from error
    finally:
        line.hang_up()  # a thread outlives its waiter, and would send what is sent again


def _send(settings: Settings, message: EmailMessage, line: InterruptibleSocket) -> None:
    assert settings.smtp_host is not None
    context = ssl.create_default_context()
    tls = context if settings.smtp_security == "tls" else None
    server = MailConnection(settings.smtp_host, settings.smtp_port, STEP_SECONDS_MAX, line, tls)
    with closing(server):
        if settings.smtp_security == "starttls":
            server.starttls(context=context)
        if settings.smtp_user:
            password = settings.smtp_password
            server.login(settings.smtp_user, password.get_secret_value() if password else "")
        server.ehlo_or_helo_if_needed()
        if not f"{message['From']}{message['To']}".isascii() and not server.has_extn("smtputf8"):
            raise NotDelivered("the mail server takes no addresses beyond ASCII (SMTPUTF8)")
        server.send_message(message)
        with suppress(smtplib.SMTPException, OSError):
            server.quit()  # it has the message: how it says goodbye does not matter
