"""Edits of a key: its name, what it may do, and which pages may use it. Its secret stays as it is."""

from collections.abc import Sequence

from billing.audit.log import record
from billing.tables.tenants import ApiKey
from billing.tenants.edits import lock_settings
from billing.tenants.key_rights import ORIGINS_MAX, checked_origins, checked_scopes
from billing.tenants.keys import find_key, no_such_key
from core.clock import now_ms
from core.errors import bad_request
from core.names import checked_name
from core.sql.database import Database


async def write_key_edit(
    db: Database,
    tenant_id: str,
    key_id: str,
    name: str | None = None,
    scopes: Sequence[str] | None = None,
    origins: Sequence[str] | None = None,
    origins_max: int = ORIGINS_MAX,
) -> ApiKey:
    """Give a key (its id or prefix) another name, other scopes or other origins; None leaves them. Raises
    Refused where it does not work any more, or a fact is invalid."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        key = await find_key(session, tenant_id, key_id)
        if key is None:
            raise no_such_key(key_id, tenant_id)
        if key.revoked_ms is not None or (key.expires_ms is not None and key.expires_ms <= now_ms()):
            raise bad_request(f"pk_{key.prefix} does not work any more", field="key")
        before = key.model_dump()
        if name is not None:
            key.name = checked_name("key", name, "name") if name else ""
        if scopes is not None:
            key.scopes = checked_scopes(scopes, key.user_id)
        if origins is not None:
            key.origins = checked_origins(origins, origins_max) or None
        await record(session, tenant_id, "key.edit", key.id, before, key)
    return key
