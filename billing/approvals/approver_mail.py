"""The mail that tells those who may approve a proposal that it waits. It holds no secret: they sign in."""

import asyncio

from billing.alerts.mail import send_mail
from billing.alerts.webhooks import NotDelivered
from billing.approvals.proposed_operations import kind_text
from billing.money import to_display
from billing.tables.approvals import Proposal
from billing.unit_of_work.second_people import second_people
from billing.unit_of_work.units import Stores
from core.clock import iso_time
from core.configuration.settings import Settings
from core.observability.telemetry import logger
from core.terminal.safe_text import printable_line

SUBJECT = "Parley: a move of money waits for a second person"

log = logger(__name__)


async def tell_approvers(stores: Stores, row: Proposal) -> None:
    """Mail everybody who may approve a proposal and has an address, where a mail server is set. A mail that
    is not taken is logged: the proposal is listed all the same."""
    if not stores.settings.smtp_host:
        return
    async with stores.db.session() as session:
        people = await second_people(session, row.by)
    sent = [_send(stores.settings, row, each.id, each.email) for each in people if each.email]
    await asyncio.gather(*sent)


def mail_text(row: Proposal) -> str:
    """The text of the mail. Pure."""
    return "\n".join(
        [
            f"{printable_line(row.author)} wants to move money, which takes a second person: you may be it.",
            "",
            f"what:     {kind_text(row.kind)} of {to_display(row.amount_nano)}",
            f"proposal: {row.id}",
            f"until:    {iso_time(row.expires_ms)}",
            "",
            "Look at it and decide: sign in to the console, or on the machine",
            "",
            "    parley approvals list",
            f"    parley approvals approve {row.id}",
            "",
        ]
    )


async def _send(settings: Settings, row: Proposal, person: str, address: str) -> None:
    try:
        await send_mail(settings, address, SUBJECT, mail_text(row), f"proposal-{row.id}-{person}")
    except NotDelivered as error:
        log.warning("approvals.mail_failed", proposal=row.id, person=person, error=type(error).__name__)
