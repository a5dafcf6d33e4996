"""The lock of settings: whoever edits something of a tenant, or of the platform, sees the edit before.

Taken first in the transaction, before the heads of the books and of the audit log.
"""

from sqlmodel.ext.asyncio.session import AsyncSession

from billing.tables.tenants import PLATFORM, Tenant
from core.errors import bad_request
from core.sql.locks import lock_until_commit


async def lock_settings(session: AsyncSession, tenant_id: str) -> Tenant | None:
    """Lock a tenant's settings until the transaction (`Database.transaction`) ends, and return the tenant,
    open or closed; with PLATFORM the operators' own settings, which are no tenant's: None. Rows that were
    read before are as they were then: read them after it.

    Raises Refused where there is no such tenant."""
    if tenant_id == PLATFORM:
        await lock_until_commit(session, "settings")
        return None
    tenant = await session.get(Tenant, tenant_id, with_for_update=True)
    if tenant is None:
        raise bad_request(f"there is no tenant {tenant_id!r}")
    return tenant
