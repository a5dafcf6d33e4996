"""Which key and user a new sign-in link is for; each is recorded."""

from billing.audit.log import record
from billing.tables.tenants import ApiKey
from billing.tenants.keys import find_key, no_such_key, principal_of_key
from billing.tenants.users import USERS_MAX, name_user
from core.clock import now_ms
from core.errors import bad_request, see
from core.sql.database import Database


async def key_for_link(
    db: Database, tenant_id: str, key_id: str, user: str, users_max: int = USERS_MAX
) -> tuple[ApiKey, str]:
    """The key and the user's id for a new sign-in link. Raises Refused where the key does not work, or the
    user is not the key's own, is missing, or is closed."""
    now = now_ms()
    async with db.transaction() as session:
        key = await find_key(session, tenant_id, key_id)
        if key is None:
            raise no_such_key(key_id, tenant_id)
        if not key.user_id and not user:
            raise bad_request(
                f"pk_{key.prefix} is a service key: name the user the link is for", field="user"
            )
        whom = (await name_user(session, tenant_id, user, now, users_max)).id if user else key.user_id
        if key.user_id not in ("", whom):
            raise bad_request(f"pk_{key.prefix} is bound to another user: leave the user out", field="user")
        await record(session, tenant_id, "key.link", key.id, None, {"user": whom})
    if await principal_of_key(db, tenant_id, key.id, whom) is None:
        raise bad_request(
            f"pk_{key.prefix} does not work any more", field="key", see=see("keys.list", tenant=tenant_id)
        )
    return key, whom
