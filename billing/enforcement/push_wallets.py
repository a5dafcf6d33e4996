"""Updates enforcement after bookings outside of the biller, in the same operation: the counts in Redis,
running answers, and the gateways. A repetition changes nothing."""

from billing.budgets.key_chains import owner_key_of
from billing.enforcement.wallet_watch import publish_wallet_changed
from billing.limits import WALLET, MoneyLimit, Scope
from billing.quota.money import MoneyCounts
from billing.tables.tenants import UsageRow
from core.errors import bad_request
from core.redis.client import RedisClient
from core.sql.database import Database


async def push_money_limits(db: Database, redis: RedisClient, tenant_id: str, request_id: str) -> None:
    """Update enforcement after a request's lines were booked. Only its own counts are read again, so that a
    tenant with thousands of budgets takes no longer."""
    async with db.session() as session:
        request = await session.get(UsageRow, (tenant_id, request_id))
    if request is not None:
        billed, owner = request, await owner_key_of(db, tenant_id, Scope.KEY, request.key_id)
        try:
            await MoneyCounts(redis).reseed(db, tenant_id, lambda limit: counts_in(limit, billed, owner))
        except TimeoutError as error:
            raise bad_request(f"it is booked, but Redis was not told ({error}): say it again") from error
    await publish_wallet_changed(db, redis, tenant_id)


def counts_in(limit: MoneyLimit, request: UsageRow, owner_key: str) -> bool:
    """True where a request's cost belongs to this count. `owner_key`: of its key's chain. Pure."""
    ids = {
        Scope.TENANT: "",
        Scope.PROJECT: request.project_id,
        Scope.KEY: owner_key,
        Scope.USER: request.user_id,
        Scope.MODEL: request.model,
    }
    in_window = limit.window.start_ms <= request.accepted_ms < limit.window.end_ms
    return (in_window or limit.period == WALLET) and ids[limit.scope] == limit.scope_id
