"""Where budgets stand is read from kept sums, and is what the lines say."""

from typing import Any

from sqlalchemy import update

from billing.posting.biller import post
from billing.tables.limits import Budget
from billing.tables.tenants import ApiKey, Project
from billing.tables.wallets import BudgetWatermark
from billing.tenants.tenancy import create_tenant
from billing.usage import UsageOwner, encode
from billing.wallets.budgets import budget_standings
from core.clock import now_ms
from core.sql.database import Database
from tests.billing.events import an_event

COST = 3_700  # of an_event(), in nano-USD


async def open_budget(
    database: Database, tenant: str, id: str, scope: str, created_ms: int, of: str = ""
) -> None:
    """A budget for each of a scope, or of one."""
    facts: dict[str, Any] = {
        "id": id,
        "scope": scope,
        "scope_id": of,
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


async def test_budgets_in_which_nothing_was_posted_stand_at_what_was_used_before(database: Database) -> None:
    """Of an owner who used nothing it is nothing; of one who did before the budget was set it is in the
    lines, also where another's sum is kept, and of a key that was rotated from one that is used no more."""
    tenant, now = (await create_tenant(database, "acme")).tenant_id, now_ms()
    ann = UsageOwner(project="p1", key="k1", user="ann")
    await open_budget(database, tenant, "each", "model", 0)
    for name in ("first", "second"):
        event = an_event(name, tenant, owner=ann, accepted_ms=now, ended_ms=now)
        await post(database, "default", [encode(event)])
    key = ApiKey(
        tenant_id=tenant,
        id="k1",
        project_id="p1",
        name="old",
        prefix="k1",
        secret_sha256="k1",
        owner_key="k0",
        scopes=["chat"],
        priority_max="standard",
        created_ms=0,
    )
    async with database.transaction() as session:
        session.add(Project(tenant_id=tenant, id="p1", name="p1", created_ms=0))
        await session.flush()
        session.add(key)
    asked = {"user": ("ann", "bob"), "project": ("p1", "p2"), "key": ("k0", "k9")}
    for scope, ids in asked.items():
        for id in ids:
            await open_budget(database, tenant, f"of {id}", scope, now, id)
    found = await budget_standings(database, tenant, now)
    spent = {stands[0].counted.scope_id: stands[0].spent_nano for budget, stands in found if budget.scope_id}
    assert spent == {"ann": 2 * COST, "p1": 2 * COST, "k0": 2 * COST, "bob": 0, "p2": 0, "k9": 0}
