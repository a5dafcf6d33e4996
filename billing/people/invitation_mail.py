"""The mail that brings an invitation. Its link is sent at once and stored nowhere."""

from datetime import UTC, datetime

from billing.alerts.mail import send_mail
from billing.alerts.webhooks import NotDelivered
from billing.tables.people import Invitation
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import find_tenant
from core.configuration.settings import Settings
from core.errors import bad_request, see_help
from core.redis.client import RedisClient
from core.sql.database import Database


async def tell_invitation(
    db: Database, _: RedisClient, settings: Settings, row: Invitation, url: str
) -> None:
    """Send the link, with the name of its tenant. Raises Refused where the mail server does not
    take it: the invitation stands, and its link is lost."""
    until = datetime.fromtimestamp(row.expires_ms / 1000, UTC).date()
    tenant = None if row.tenant_id == PLATFORM else await find_tenant(db, row.tenant_id)
    name = "" if tenant is None else " ".join(tenant.name.split())
    whose = f"join {name} on Parley" if name else "manage Parley"
    text = (
        f"You are invited to {whose}, as {row.role}.\n\n"
        f"Open this link until {until}, once:\n\n{url}\n\n"
        "If you did not expect this, ignore it: nothing happens.\n"
    )
    try:
        await send_mail(settings, row.email, f"You are invited to {whose}", text, f"invitation-{row.id}")
    except NotDelivered as error:
        raise bad_request(
            f"the invitation was made, but no mail could be sent ({error}): invite them again",
            field="email",
            see=see_help("people.invite"),
        ) from error
