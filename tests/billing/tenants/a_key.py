"""Keys of a tenant."""

from billing.tables.tenants import ApiKey
from billing.tenants.keys import (
    create_key,
)
from billing.tenants.tenancy import (
    create_tenant,
    find_project,
)
from core.sql.database import Database


async def a_key(db: Database, name: str = "acme", **options: object) -> tuple[ApiKey, str]:
    """A key of a new tenant's default project."""
    tenant = await create_tenant(db, name)
    project = await find_project(db, tenant.tenant_id, "default")
    assert project is not None
    return await create_key(db, tenant.tenant_id, project.id, **options)  # type: ignore[arg-type]
