"""Limits by key hold for its whole chain of rotations, in the books as in Redis; SQLite and Postgres."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from billing.booking.adjustments import Correction, correct
from billing.budgets.spent import SpendingScope
from billing.enforcement.limit_cache import LimitCache
from billing.enforcement.limit_settings import list_budgets, list_policies, set_budget, set_policy
from billing.enforcement.push_wallets import push_money_limits
from billing.limits import MoneyLimit, UnitLimit
from billing.periods import FIRST_MS, LAST_MS, PeriodWindow
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.quota.client import Quota
from billing.reconciliation.comparison import ComparisonState
from billing.reconciliation.run import EVERYTHING, Reconciliation
from billing.tables.ledger import LedgerHead
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.tenants import UsageRow
from billing.tables.wallets import BudgetAlert, BudgetSpent
from billing.tenants.keys import rotate_key
from billing.usage import UsageEvent, UsageOwner, encode
from billing.wallets.budgets import budget_faults, budget_spending, budget_standings
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.billing.limited import NANO
from tests.billing.quota.quota_ledger import COST
from tests.billing.tenants.a_key import a_key
from tests.support.redis import Redis

EVER = PeriodWindow(FIRST_MS, LAST_MS)
HOUR = 3_600


@dataclass
class KeyChain:
    """A tenant with a key that was rotated into another, and with a key of its own chain."""

    db: Database
    redis: Redis
    quota: Quota
    tenant: str
    project: str
    first: str
    second: str

    def event(self, id: str, key: str) -> UsageEvent:
        """A request that ended, asked for with this key."""
        owner = UsageOwner(project=self.project, key=key)
        event = an_event(id, self.tenant, owner=owner, prices=NANO, input_uncached=12, input_cached=0)
        return msgspec.structs.replace(event, cost_nano=COST, accepted_ms=now_ms())

    async def spend(self, id: str, key: str) -> None:
        """One that is posted, and counted in Redis."""
        event = self.event(id, key)
        batch, _ = await post(self.db, "A", [encode(event)])
        assert not batch.held, batch.held
        async with self.db.session() as session:
            head = await session.get(LedgerHead, self.tenant)
        assert head is not None
        await self.quota.settle(event, head.line_seq)

    async def limits(self) -> tuple[UnitLimit | MoneyLimit, ...]:
        """What a gateway finds for the chain."""
        found = await LimitCache(self.db).limits_for(
            self.tenant, self.project, self.first, "", "smollm2", now_ms()
        )
        return *found.units, *found.money

    async def spent(self) -> int:
        """By the books, ever."""
        counted = SpendingScope("key", self.first)
        return (await budget_spending(self.db, self.tenant, counted, "lifetime", EVER)).nano


@pytest.fixture
async def chain(database: Database, redis: Redis, settings: Settings) -> KeyChain:
    """Both keys are valid."""
    first, _ = await a_key(database)
    second, _ = await rotate_key(database, first.tenant_id, first.id, HOUR)
    quota = Quota(redis, settings, database)
    return KeyChain(database, redis, quota, first.tenant_id, first.project_id, first.id, second.id)


async def test_the_books_count_a_chain_of_keys_once(chain: KeyChain) -> None:
    """What either key spends moves one kept sum, reaches thresholds together, and is proven; usage still says
    which key was used."""
    of: dict[str, Any] = {"scope": "key", "period": "lifetime", "thresholds": [50, 100]}
    budget = await set_budget(
        chain.db, chain.redis, chain.tenant, limit_nano=4 * COST, scope_id=chain.second, **of
    )
    assert budget.scope_id == chain.first
    await chain.spend("r1", chain.first)
    await chain.spend("r2", chain.second)
    third, _ = await rotate_key(chain.db, chain.tenant, chain.second, HOUR)
    await chain.spend("r3", third.id)
    await chain.spend("r4", "another")
    assert await chain.spent() == 3 * COST
    ((_, (standing,)),) = await budget_standings(chain.db, chain.tenant, now_ms())
    assert (standing.counted.scope_id, standing.spent_nano) == (chain.first, 3 * COST)
    alerts: list[BudgetAlert] = await read(chain.db, BudgetAlert, chain.tenant)
    assert [(row.scope_id, row.threshold) for row in alerts] == [(chain.first, 50)]
    kept: list[BudgetSpent] = await read(chain.db, BudgetSpent, chain.tenant)
    assert [(row.scope_id, row.spent_nano) for row in kept] == [(chain.first, 3 * COST)]
    assert await budget_faults(chain.db, chain.tenant) == []
    rows: list[UsageRow] = await read(chain.db, UsageRow, chain.tenant)
    assert {row.key_id for row in rows} == {chain.first, chain.second, third.id, "another"}


async def test_redis_counts_a_chain_as_the_books_do(chain: KeyChain, settings: Settings) -> None:
    """From a cold count, while answers are booked, after a correction, and by reconciliation."""
    await set_budget(
        chain.db,
        chain.redis,
        chain.tenant,
        scope="key",
        scope_id=chain.first,
        period="month",
        limit_nano=9_000,
    )
    await chain.spend("r1", chain.second)
    (limit,) = await chain.limits()
    assert isinstance(limit, MoneyLimit)
    assert limit.scope_id == chain.first
    await chain.quota._money.seed(chain.db, chain.tenant, [limit])
    await chain.spend("r2", chain.first)
    await chain.spend("r3", chain.second)

    async def posted() -> list[tuple[str, int]]:
        found = await chain.quota.budget_sums(chain.tenant)
        return [(each.scope_id, each.posted_nano) for each in found]

    assert await posted() == [(chain.first, 3 * COST)]
    await correct(chain.db, chain.tenant, Correction("r3", {Meter.OUTPUT: 0}, "x"))
    await push_money_limits(chain.db, chain.redis, chain.tenant, "r3")
    assert await posted() == [(chain.first, 2 * COST + 12)]
    run = Reconciliation(chain.db, chain.redis, settings)
    found = [each for each in await run.run(EVERYTHING, chain.tenant, True) if "of key" in each.subject]
    assert [each.state for each in found] == [ComparisonState.EQUAL]


async def test_an_edit_by_any_key_of_a_chain_replaces_the_chain_s_limit(chain: KeyChain) -> None:
    """Also one that 0.1.0 stored under a later key: until then it holds for the chain."""
    rate: dict[str, Any] = {"scope": "key", "dimension": "requests_per_minute"}
    async with chain.db.transaction() as session:
        session.add(
            QuotaPolicy(
                tenant_id=chain.tenant, id="old", scope_id=chain.second, limit_units=7, created_ms=1, **rate
            )
        )
        session.add(
            Budget(
                tenant_id=chain.tenant,
                id="old",
                scope="key",
                scope_id=chain.second,
                period="day",
                limit_nano=7,
                thresholds=[100],
                created_ms=1,
            )
        )
    limits = await chain.limits()
    assert {each.scope_id for each in limits} == {chain.first}
    assert len(limits) == 2
    await chain.spend("r1", chain.first)
    alerts: list[BudgetAlert] = await read(chain.db, BudgetAlert, chain.tenant)
    assert [(row.scope_id, row.budget_id) for row in alerts] == [(chain.first, "old")]
    for key in (chain.first, chain.second):
        new = await set_policy(chain.db, chain.redis, chain.tenant, scope_id=key, limit=5, **rate)
        assert [row.id for row in await list_policies(chain.db, chain.tenant)] == [new.id]
        money: dict[str, Any] = {"scope": "key", "period": "day", "limit_nano": 5}
        budget = await set_budget(chain.db, chain.redis, chain.tenant, scope_id=key, **money)
        assert [row.id for row in await list_budgets(chain.db, chain.tenant)] == [budget.id]
        assert new.scope_id == budget.scope_id == chain.first
