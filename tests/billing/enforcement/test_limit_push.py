"""Edited money limits reach all counts that Redis has of a tenant."""

from billing.enforcement.limit_push import push_limits
from billing.enforcement.limit_settings import set_budget
from billing.limits import MoneyLimit, Scope
from billing.periods import PeriodWindow
from billing.quota.money import COUNTS_MAX, MoneyCounts
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.quota.quota_ledger import QuotaLedger
from tests.billing.wallets.wallet_tenant import a_tenant
from tests.support.redis import Redis

DAY_MS = 86_400_000


async def test_as_many_counts_as_are_read_get_their_limit_at_once(
    sqlite: Database, redis: Redis, settings: Settings
) -> None:
    """A budget of each user, of a tenant with many of them."""
    tenant = await a_tenant(sqlite)
    books = QuotaLedger(sqlite, redis, settings, tenant)
    begun = now_ms() // DAY_MS * DAY_MS
    window = PeriodWindow(begun, begun + DAY_MS)
    counts = [
        MoneyLimit(Scope.USER, f"u{n}", "day", window, 9, hard=True, shadow=False) for n in range(COUNTS_MAX)
    ]
    await redis.zadd(f"{{t:{tenant}}}moneys", {each.key: window.end_ms for each in counts})
    assert len(await MoneyCounts(books.redis).counted(tenant)) == COUNTS_MAX
    for each in (counts[0], counts[-1]):
        await redis.hset(f"{{t:{tenant}}}{each.key}", mapping={"posted": 1, "seed": 0, "limit": 9})
    await set_budget(sqlite, books.redis, tenant, scope="user", period="day", limit_nano=77, hard=True)
    await push_limits(sqlite, books.redis, tenant)
    for each in (counts[0], counts[-1]):
        assert await redis.hget(f"{{t:{tenant}}}{each.key}", "limit") == b"77"
