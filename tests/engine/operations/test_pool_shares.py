"""What tenants take of a pool, beside the share that is theirs."""

import pytest

from billing.api import Stores, create_tenant, local_actor
from billing.unit_of_work.perform import answer_of
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.operations.pool_shares import AskShares, shares_of, show_shares
from engine.operations.tenant_rows import TenantRow
from engine.queue.types import TenantTerms
from tests.engine.builders import Pool, request
from tests.support.redis import Redis

FAR_MS = 4_000_000_000_000


def test_the_fair_share_is_by_weight_of_who_is_there() -> None:
    """What a tenant takes is its part of the KV tokens in flight; of none nobody takes a share."""
    rows = [
        TenantRow("a", waiting=0, running=3, blocked=False, weight=1.0, tokens=300, served=9),
        TenantRow("b", waiting=2, running=1, blocked=True, weight=3.0, tokens=100, served=9),
    ]
    a, b = shares_of(rows, {"a": "acme"})
    assert (a.tenant_name, a.share, a.fair_share, a.at_cap) == ("acme", 0.75, 0.25, False)
    assert (b.tenant_name, b.share, b.fair_share, b.at_cap) == ("b", 0.25, 0.75, True)
    (idle,) = shares_of([TenantRow("a", 1, 0, False, 1.0, 0, 0)], {})
    assert (idle.share, idle.fair_share) == (None, 1.0)


async def test_shares_are_of_the_pool_as_it_is(redis: Redis, settings: Settings, database: Database) -> None:
    """Who runs and who only waits is there, with the weight of its terms."""
    stores = Stores(settings, database, lambda: redis)
    pool = Pool(redis, settings, clock=None)  # pyright: ignore[reportArgumentType]
    acme, other = [(await create_tenant(database, name)).tenant_id for name in ("acme", "other")]
    await pool.running(tenant=acme, deadline_ms=FAR_MS)
    await pool.queue.enqueue(request(tenant=other, deadline_ms=FAR_MS))
    assert await pool.queue.set_tenant(other, TenantTerms(weight=3.0))
    shown = await answer_of(show_shares, stores, local_actor(), AskShares(pool="default"))
    seen = {each.tenant_name: each for each in shown.tenants}
    assert (seen["acme"].running, seen["acme"].share, seen["acme"].fair_share) == (1, 1.0, 0.25)
    assert (seen["other"].waiting, seen["other"].share) == (1, pytest.approx(0))
