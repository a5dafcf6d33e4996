"""Mails that say that a report is there: a link behind sign-in, no numbers. They go to members who may see
money when they are sent, and to nobody else."""

from collections.abc import Mapping
from typing import Any

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.people import Membership, Person
from core.operations import PAYERS

TOPIC = "report"
REPORT_READY = "report.ready"
NO_READER = "they may not see money any more, or have no address"


async def readers_of(session: AsyncSession, tenant_id: str) -> dict[str, str]:
    """Addresses of a tenant's members who may see money, by the person's id; of those who have one."""
    statement = (
        select(Person.id, Person.email)
        .join(Membership, col(Membership.person_id) == col(Person.id))
        .where(
            col(Membership.tenant_id) == tenant_id,
            col(Membership.ended_ms).is_(None),
            col(Membership.role).in_(sorted(PAYERS)),
            col(Person.closed_ms).is_(None),
            col(Person.email).is_not(None),
        )
    )
    return {id: email for id, email in (await session.exec(statement)).all() if email}


def report_text(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Subject and text of such a mail. Pure."""
    subject = f"Parley: the chargeback report of {payload['period']} is ready"
    text = (
        f"The chargeback report of {payload['period']} is ready.\n\n"
        f"Sign in to see it:\n\n{payload['link']}\n\n"
        "An admin of your organisation asked for this mail. It holds no figures.\n"
    )
    return subject, text
