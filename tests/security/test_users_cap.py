"""A tenant with as many users as it may have, which names new ones as fast as it may."""

from typing import Any

import pytest
from sqlalchemy import event

from billing.tenants.tenancy import create_tenant
from billing.tenants.users import user_named
from core.errors import Refused
from core.sql.database import Database
from server.access.users import Users

COUNTING, WRITING = "count(tenant_user", "BEGIN IMMEDIATE"


async def test_who_names_one_too_many_holds_up_nobody(database: Database):
    """Counting 100,000 users takes 20 ms: it is done now and then, and nobody's writing waits for it."""
    tenant, seen = (await create_tenant(database, "acme")).tenant_id, list[str]()
    other = (await create_tenant(database, "globex")).tenant_id
    users = Users(database, 2)
    ids = [await users.id_of(tenant, name) for name in ("zoe", "bob")]

    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(database.engine.sync_engine, "before_cursor_execute", note)
    for number in range(5):
        with pytest.raises(Refused, match="PARLEY_USERS_PER_TENANT_MAX"):
            await users.id_of(tenant, f"one-more-{number}")
    event.remove(database.engine.sync_engine, "before_cursor_execute", note)
    assert [COUNTING in each for each in seen].count(True) == 1
    assert not [each for each in seen if each.startswith((WRITING, "INSERT"))]
    assert await user_named(database, tenant, "one-more-0") is None
    assert [await Users(database, 2).id_of(tenant, name) for name in ("zoe", "bob")] == ids
    assert await users.id_of(tenant, "zoe") == ids[0]
    assert await users.id_of(other, "zoe") != ids[0]
    users.changed()
    with pytest.raises(Refused):
        await users.id_of(tenant, "one-more")
