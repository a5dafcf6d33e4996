"""What pools should be, in SQL: one shared pool a model, a history of owners, and an audit row each time."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from billing.audit.compare import compare_states
from billing.audit.log import list_rows
from billing.dedicated_pools.desired import DesiredPool, read_pools
from billing.dedicated_pools.owners import owner_of, owners_of
from billing.dedicated_pools.pools import create_pool, delete_pool, drain_pool, edit_pool
from billing.tables.pools import SHARED, PoolAdmission
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import create_tenant
from chaos.tampering.unguarded import tamper
from core.errors import Refused
from core.sql.database import Database
from tests.billing.dedicated_pools.dedicated import a_pool
from tests.billing.edits import AT_ONCE


@pytest.fixture
async def tenants(database: Database) -> AsyncGenerator[list[str]]:
    """The ids of two. Whatever was done, the audit log has it."""
    yield [(await create_tenant(database, name)).tenant_id for name in ("acme", "other")]
    assert (await compare_states(database, PLATFORM)).faults == []


async def owners(database: Database, pool: str) -> list[str]:
    """Whose the pool was, in order of time."""
    async with database.session() as session:
        return [each.tenant_id for each in (await owners_of(session)).get(pool, [])]


async def test_a_pool_is_read_as_it_was_made_and_edited(database: Database, tenants: list[str]) -> None:
    """Each change has a generation; one that changes nothing has none, nor an audit row."""
    await create_pool(database, a_pool(labels={"zone": "a"}, reserve_interactive_tokens=512))
    made = DesiredPool("a", "m", "v1", 2, {"zone": "a"}, {"interactive": 512}, 1, False)
    assert await read_pools(database) == [made]
    await edit_pool(database, "a", {"workers": 3, "labels": {}})
    assert await read_pools(database) == [DesiredPool("a", "m", "v1", 3, {}, {"interactive": 512}, 2, False)]
    await edit_pool(database, "a", {"workers": 3})
    assert [each.generation for each in await read_pools(database)] == [2]
    assert [row.action for row in await list_rows(database, PLATFORM)][:2] == ["pool.edit", "pool.create"]
    assert await owners(database, "a") == []


async def test_one_active_pool_is_for_a_model_and_a_tenant(database: Database, tenants: list[str]) -> None:
    """Shared, or a tenant's own: where a request goes is never a question. One that drains is none of them.
    The database holds it too."""
    acme, other = tenants
    await create_pool(database, a_pool())
    await create_pool(database, a_pool("b", tenant_id=acme))
    await create_pool(database, a_pool("c", tenant_id=other))
    for refused, edit in (("'a'", {"tenant_id": SHARED}), ("'c'", {"tenant_id": other})):
        with pytest.raises(Refused, match=refused):
            await create_pool(database, a_pool("d", **edit))
        with pytest.raises(Refused, match=refused):
            await edit_pool(database, "b", edit)
    with pytest.raises(IntegrityError):
        await tamper(database, f"UPDATE pool SET tenant_id = '{other}' WHERE pool = 'b'")
    await drain_pool(database, "a")
    await create_pool(database, a_pool("d"))
    assert [each.draining for each in await read_pools(database)] == [True, False, False, False]


async def test_whose_a_pool_was_stands_in_its_history(database: Database, tenants: list[str]) -> None:
    """From the change on, as billing by the hour reads it; a deleted pool is nobody's."""
    acme, other = tenants
    await create_pool(database, a_pool(tenant_id=acme), [other])
    await edit_pool(database, "a", {"tenant_id": other}, [acme])
    await edit_pool(database, "a", {"tenant_id": SHARED}, [])
    await edit_pool(database, "a", {"tenant_id": acme, "project_id": "p"})
    assert await owners(database, "a") == [acme, other, SHARED, acme]
    with pytest.raises(Refused, match="drain it first"):
        await delete_pool(database, "a")
    await drain_pool(database, "a")
    await delete_pool(database, "a")
    async with database.session() as session:
        assert await owner_of(session, "a") == SHARED
    assert await read_pools(database) == []


async def test_others_are_let_into_a_tenants_pool(database: Database, tenants: list[str]) -> None:
    """By name, and no longer once the pool is deleted; a shared pool lets all in."""
    acme, other = tenants
    await create_pool(database, a_pool(tenant_id=acme), [other])

    async def let_in() -> list[str]:
        async with database.session() as session:
            mine = select(PoolAdmission).where(col(PoolAdmission.tenant_id) == other)
            return [each.pool for each in await session.exec(mine)]

    assert await let_in() == ["a"]
    with pytest.raises(Refused, match="lets all in"):
        await edit_pool(database, "a", {"tenant_id": SHARED})
    await drain_pool(database, "a")
    await delete_pool(database, "a")
    assert await let_in() == []


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"workers": 1_025}, "workers"),
        ({"workers": -1}, "workers"),
        ({"labels": {"zone": "a\n"}}, "labels"),
        ({"reserve_standard_tokens": -1}, "reserve_standard_tokens"),
        ({"project_id": "p"}, "project"),
    ],
)
async def test_what_is_out_of_bounds_names_its_field(
    sqlite: Database, columns: dict[str, Any], field: str
) -> None:
    """Made so or edited so; nothing is changed."""
    with pytest.raises(Refused) as refused:
        await create_pool(sqlite, a_pool("b", **columns))
    assert refused.value.refusal.field == field
    await create_pool(sqlite, a_pool())
    with pytest.raises(Refused):
        await edit_pool(sqlite, "a", columns)
    assert [(each.pool, each.generation) for each in await read_pools(sqlite)] == [("a", 1)]
    with pytest.raises(Refused, match="there is no pool"):
        await edit_pool(sqlite, "b", {"workers": 1})
    with pytest.raises(Refused, match="already"):
        await create_pool(sqlite, a_pool())


async def test_changes_at_once_follow_one_another(database: Database, tenants: list[str]) -> None:
    """Of pools of one model one is made; of edits each sees the one before."""
    made = await asyncio.gather(
        *(create_pool(database, a_pool(f"p{n}")) for n in range(AT_ONCE)), return_exceptions=True
    )
    assert [type(each) for each in made if isinstance(each, BaseException)] == [Refused] * (AT_ONCE - 1)
    (pool,) = await read_pools(database)
    await asyncio.gather(*(edit_pool(database, pool.pool, {"workers": 10 + n}) for n in range(AT_ONCE)))
    assert [each.generation for each in await read_pools(database)] == [1 + AT_ONCE]
