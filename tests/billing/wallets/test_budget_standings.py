"""Where budgets stand is read from kept sums, and is what the lines say."""

from typing import Any

from sqlalchemy import update

from billing.posting.biller import post
from billing.tables.limits import Budget
from billing.tables.wallets import BudgetWatermark
from billing.tenants.tenancy import create_tenant
from billing.usage import UsageOwner, encode
from billing.wallets.budgets import budget_standings
from core.clock import now_ms
from core.sql.database import Database
from tests.billing.events import an_event

COST = 3_700  # of an_event(), in nano-USD


async def open_budget(database: Database, tenant: str, id: str, scope: str, created_ms: int) -> None:
    """A budget for each of a scope."""
    facts: dict[str, Any] = {
        "id": id,
        "scope": scope,
        "period": "day",
        "thresholds": [100],
        "created_ms": created_ms,
    }
    async with database.transaction() as session:
        session.add(Budget(tenant_id=tenant, limit_nano=9 * COST, **facts))


async def test_standings_are_the_lines_whether_sums_are_kept_or_not(database: Database) -> None:
    """Of budgets for each in their first window, edited ones and those of later windows; and where the sums
    were made anew, as nobody had a budget for a while."""
    tenant, now = (await create_tenant(database, "acme")).tenant_id, now_ms()
    spent: dict[str, int] = {}

    async def spend(*users: str) -> None:
        owners = [UsageOwner(project="p1", key="k1", user=user) for user in users]
        events = [
            an_event(f"{len(spent)}{owner.user}", tenant, owner=owner, accepted_ms=now) for owner in owners
        ]
        await post(database, "default", [encode(event) for event in events])
        spent.update({user: spent.get(user, 0) + COST for user in users})

    async def check(*shown: str) -> None:
        for _ in range(2):
            found = await budget_standings(database, tenant, now, each_max=5)
            each = {standing.counted.scope_id: standing.spent_nano for _, (*of,) in found for standing in of}
            assert each == {user: spent[user] for user in shown} | {"": sum(spent.values())}
            async with database.transaction() as session:  # then by the lines
                await (await session.connection()).execute(
                    update(BudgetWatermark).values(line_seq=BudgetWatermark.line_seq - 1)
                )

    await open_budget(database, tenant, "whole", "tenant", 0)
    await spend("ann")
    await open_budget(database, tenant, "late", "user", now)
    await spend("bob")
    await check("ann", "bob")
    async with database.transaction() as session:
        ended = await session.get(Budget, (tenant, "late"))
        assert ended is not None
        ended.created_ms, ended.ended_ms = 0, now
    await open_budget(database, tenant, "edited", "user", now)
    await check("ann", "bob")
    await spend("cid")  # the first posting since the sums are behind
    await check("ann", "bob", "cid")
