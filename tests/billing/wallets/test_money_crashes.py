"""A biller that is killed in the middle: wallets, budgets and alerts are those of the usage, each once."""

import asyncio
import os
import random
import signal
import sys

from billing.ledger.grant_spending import GrantKind
from billing.tables.limits import Budget
from billing.tables.wallets import AlertTarget, BudgetAlert, Outbox
from billing.tenants.tenancy import create_tenant
from billing.wallets.budgets import budget_faults
from billing.wallets.wallets import NewGrant, grant, wallet_state
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.billing.posting.billers import a_biller, end, row_count, until_acknowledged
from tests.billing.wallets.wallet_tenant import balances, sound
from tests.support.patience import wait_until
from tests.support.processes import begun
from tests.support.redis import Redis


async def test_kill_9_of_a_biller_leaves_no_wallet_budget_or_alert_in_between(
    database: Database, database_url: str, redis: Redis, settings: Settings
) -> None:
    """INV-33: All of a batch is one transaction, so
    what a death takes, it takes as a whole, and the next biller does it."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    tenant = (await create_tenant(database, "acme")).tenant_id
    pending = [an_event(f"r{number}", tenant, output_text=rng.randrange(500)) for number in range(600)]
    cost = sum(event.cost_nano for event in pending)
    await grant(database, tenant, NewGrant(GrantKind.PROMO, cost // 3, "a"))
    await grant(database, tenant, NewGrant(GrantKind.PAID, cost // 3, "b"))
    async with database.transaction() as session:
        session.add(AlertTarget(tenant_id=tenant, id="one", kind="email", address="x", created_ms=0))
        for scope in ("tenant", "key"):
            budget = Budget(
                tenant_id=tenant,
                id=scope,
                scope=scope,
                period="month",
                limit_nano=cost,
                thresholds=[10, 50, 100],
                created_ms=0,
            )
            session.add(budget)
    arguments = ["-m", "tests.billing.biller_process", str(settings.home), settings.redis_endpoint]
    for count in range(2):
        process = await begun([sys.executable, *arguments, database_url])
        try:
            await end(redis, [pending.pop() for _ in range(100)], settings)
            await wait_until(lambda least=100 * count: more_than(database, tenant, least))
            await asyncio.sleep(rng.uniform(0, 0.05))  # a random moment, nothing waits for it
        finally:
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
    await end(redis, pending, settings)
    async with a_biller(database, redis, settings):
        await until_acknowledged(redis)
    await sound(database, tenant)
    assert await budget_faults(database, tenant) == []
    assert await balances(database, tenant) == {
        "promo_expense": cost // 3,
        "stripe_clearing": cost // 3,
        "receivable": cost - 2 * (cost // 3),
        **{name: -nano for name, nano in (await revenue(database, tenant)).items()},
    }
    state = await wallet_state(database, tenant, now_ms())
    assert state is not None
    assert (state.posted_nano, state.limit_nano) == (cost, cost)
    alerts: list[BudgetAlert] = await read(database, BudgetAlert, tenant)
    assert sorted((row.scope, row.threshold) for row in alerts) == [
        *(("key", each) for each in (10, 50, 100)),
        *(("tenant", each) for each in (10, 50, 100)),
        *(("wallet", each) for each in (5, 20)),
    ]
    assert len(await read(database, Outbox, tenant)) == len(alerts)


async def more_than(database: Database, tenant: str, count: int) -> bool:
    """Whether more than `count` requests of the tenant are posted."""
    return await row_count(database, tenant) > count


async def revenue(database: Database, tenant: str) -> dict[str, int]:
    """What was earned, by account."""
    found = await balances(database, tenant)
    return {name: -nano for name, nano in found.items() if name.startswith("revenue:")}
