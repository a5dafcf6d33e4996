"""R6: what a pool's heartbeats say is billed, idle or free."""

from billing.dedicated_pools.hours import HOUR_MS
from billing.dedicated_pools.posting import post_hours
from billing.dedicated_pools.store import store
from billing.reconciliation.comparison import ComparisonState
from billing.reconciliation.pools import BOOKED_AFTER_MS, compare_pool_time, metered_pools
from core.sql.database import Database
from tests.billing.dedicated_pools.dedicated import (
    HOUR,
    a_tenant,
    after,
    an_interval,
    dedicate,
)


async def test_ready_time_is_in_the_books_or_a_difference(database: Database) -> None:
    """An hour that is over and was not billed is found; once it is booked, all is accounted for. An hour that
    may still be booked is not looked at."""
    tenant = await a_tenant(database)
    await dedicate(database, "b", tenant.tenant_id)
    await store(database, [an_interval(0, 0, 3_600, "v", "b")])
    assert await metered_pools(database) == {"b"}
    over = HOUR + HOUR_MS + BOOKED_AFTER_MS
    (early,) = await compare_pool_time(database, "b", over - 1)
    assert (early.expected, early.state) == (0, ComparisonState.EQUAL)
    (unbilled,) = await compare_pool_time(database, "b", over)
    assert (unbilled.expected, unbilled.difference, unbilled.state) == (
        3_600,
        -3_600,
        ComparisonState.DIFFERS,
    )
    await post_hours(database, after(1))
    (booked,) = await compare_pool_time(database, "b", over)
    assert (booked.state, booked.detail) == (ComparisonState.EQUAL, "billed 3600, idle 0, free 0")
