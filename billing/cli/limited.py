"""Whom a limit or a budget is for, as commands show it. A key stands for its chain of rotations."""

from typing import Any

from billing.cli.run_command import with_user_name
from billing.limits import Scope
from billing.tenants.keys import list_keys
from core.sql.database import Database


async def with_whom(
    db: Database, tenant_id: str, facts: dict[str, Any], scope_id: str, *fields: str
) -> dict[str, Any]:
    """Facts of a limit with users' names in place of the ids in these fields; one on a key (`scope_id`) says
    for which keys it holds."""
    if facts["scope"] == Scope.KEY and scope_id:
        chain = [f"pk_{key.prefix}" for key in await list_keys(db, tenant_id) if key.owner_key == scope_id]
        if chain:
            facts = facts | {
                "holds_for": chain,
                "note": "for the whole chain: what a key is rotated into, too",
            }
    return await with_user_name(db, tenant_id, facts, *fields)
