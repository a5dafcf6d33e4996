"""E-mail: one message to one address over the installation's mail server."""

from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

from core.configuration.settings import Settings


async def send_mail(settings: Settings, address: str, subject: str, text: str, message_id: str) -> None:
    """Hand a message to the mail server. Raises NotDelivered where it does not take it.

    `message_id` is its Message-ID, the same for a repetition."""
    from billing.alerts.mail_connection import deliver  # commands that send nothing do without an SMTP client

    message = EmailMessage()
    sender = settings.smtp_from or f"parley@{settings.smtp_host}"
    message["From"] = sender
    message["To"] = address
    message["Subject"] = subject
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2] or 'parley'}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    await deliver(settings, message)
