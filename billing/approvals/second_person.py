"""The installation's second person, the only receiver of proposals' codes.

A code is sent at once and never stored, so it does not use the outbox.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

from billing.alerts.addresses import checked_address, checked_url
from billing.alerts.mail import send_mail
from billing.alerts.webhooks import NotDelivered, Webhook, send_webhook, webhook_client
from billing.approvals.proposed_operations import kind_text
from billing.money import to_display, to_text
from billing.tables.approvals import Proposal
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.terminal.safe_text import printable_line

SECRET_CHARS_MIN = 16


@dataclass(frozen=True)
class ProposalSummary:
    """Facts for the second person beside the proposal's row."""

    tenant_name: str
    about: str
    code: str = field(repr=False)


def second_person(settings: Settings) -> str | None:
    """Their mail address or webhook; None: there is none. Raises StartupError or Refused where it is invalid,
    or nothing can be sent there."""
    address = settings.second_person
    if not address:
        return None
    if "://" in address:
        secret = settings.second_person_secret
        if secret is None or len(secret.get_secret_value()) < SECRET_CHARS_MIN:
            raise StartupError(
                "PARLEY_SECOND_PERSON is a webhook: set PARLEY_SECOND_PERSON_SECRET, which signs what it "
                f"gets, of {SECRET_CHARS_MIN} characters or more"
            )
        return checked_url(address, settings.alert_private_targets)
    if not settings.smtp_host:
        raise StartupError("PARLEY_SECOND_PERSON is a mail address: set PARLEY_SMTP_HOST")
    return checked_address(address)


def shown_second(second: str) -> str:
    """The second person's address for logs and people: only the host of a webhook, as the rest may be a
    token. Pure."""
    return f"https://{urlsplit(second).hostname}/…" if "://" in second else second


async def send_code(settings: Settings, proposal: Proposal, told: ProposalSummary) -> None:
    """Send the code. Raises NotDelivered."""
    if "://" not in proposal.second:
        subject, text = mail_of(proposal, told)
        await send_mail(settings, proposal.second, subject, text, proposal.id)
        return
    secret = settings.second_person_secret
    assert secret is not None, "second_person() looked"
    webhook = Webhook(proposal.second, secret.get_secret_value(), settings.alert_private_targets)
    body = json.dumps(facts_of(proposal, told), separators=(",", ":")).encode()
    async with webhook_client() as client:
        await send_webhook(client, webhook, proposal.id, body, now_ms() // 1000)


def mail_of(proposal: Proposal, told: ProposalSummary) -> tuple[str, str]:
    """Subject and text of the mail. Pure."""
    until = datetime.fromtimestamp(proposal.expires_ms // 1000, UTC).isoformat()
    amount = to_display(proposal.amount_nano)
    what = f"{kind_text(proposal.kind)} of {amount}, tenant {printable_line(told.tenant_name)}"
    lines = [
        f"{printable_line(proposal.author)} wants to move money and needs a second person: you.",
        "",
        f"what:     {what}",
        f"about:    {printable_line(told.about)}",
        f"tenant:   {proposal.tenant_id}",
        f"proposal: {proposal.id}",
        "",
        f"If that is right, this code approves it, once, until {until}:",
        "",
        f"    parley approvals approve {proposal.id}",
        f"    {told.code}",
        "",
        f"If it is not: parley approvals reject {proposal.id} --reason WHY",
    ]
    return f"Parley: approve a {what}?", "\n".join(lines) + "\n"


def facts_of(proposal: Proposal, told: ProposalSummary) -> dict[str, str | int]:
    """Body of the webhook. Pure."""
    return {
        "type": "proposal.code",
        "id": proposal.id,
        "tenant": proposal.tenant_id,
        "tenant_name": printable_line(told.tenant_name),
        "kind": proposal.kind,
        "about": printable_line(told.about),
        "amount_nano": proposal.amount_nano,
        "amount_usd": to_text(proposal.amount_nano),
        "author": printable_line(proposal.author),
        "code": told.code,
        "expires_ms": proposal.expires_ms,
    }


__all__ = [
    "NotDelivered",
    "ProposalSummary",
    "facts_of",
    "mail_of",
    "second_person",
    "send_code",
    "shown_second",
]
