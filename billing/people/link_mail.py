"""The mail that brings a member a link that signs them in. The link is sent at once and stored nowhere."""

from billing.alerts.mail import send_mail
from billing.alerts.webhooks import NotDelivered
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import bad_request, see_help
from core.ids import uuid7
from core.redis.client import RedisClient
from core.sql.database import Database


async def tell_link(
    _: Database, __: RedisClient, settings: Settings, email: str, tenant_name: str, url: str
) -> None:
    """Send the link. Raises Refused where the mail server does not take it: the link is lost."""
    text = (
        f"An admin of {tenant_name} made this link for you: it signs you in to Parley as a member of "
        f"{tenant_name}.\n\nOpen it within an hour, once:\n\n{url}\n\n"
        "Then set a password under Account, and you need no link the next time.\n"
    )
    try:
        await send_mail(
            settings, email, f"Sign in to {tenant_name} at Parley", text, f"link-{uuid7(now_ms())}"
        )
    except NotDelivered as error:
        raise bad_request(
            f"no mail could be sent ({error}), so nobody has the link: make another one",
            field="person",
            see=see_help("people.link"),
        ) from error
