"""Takes money out of a wallet: first from the allowance in Redis, then in the books. Money that running
answers hold, or that unbooked answers used, is not taken."""

from billing.booking.amount_bounds import MoveCheck
from billing.enforcement.limit_push import push_limits
from billing.enforcement.wallet_watch import publish_wallet_changed
from billing.limits import wallet_limit
from billing.money import to_display
from billing.quota.script_calls import TakeCall
from billing.quota.scripts import quota_script
from billing.wallets.undo import Undo, UndoResult, book_undo, preview_undo
from core.errors import bad_request
from core.redis.client import RedisClient
from core.sql.database import Database

# For this long no gateway's older reading restores the wallet's limit. A crash here leaves it low as long.
BOOKED_MS_MAX = 5_000

_TAKE = quota_script("take", TakeCall, bytes, "base", "money")


async def take_credit(
    db: Database, redis: RedisClient, tenant_id: str, undo: Undo, check: MoveCheck | None = None
) -> UndoResult:
    """Take the money, and update enforcement. Raises Refused, with nothing changed, where it is not
    available, or `check` refuses its amount."""
    planned = await preview_undo(db, tenant_id, undo)
    if not planned.done:
        if check is not None:  # here too, so that what is refused mostly takes nothing in Redis
            async with db.session() as session:
                await check(session, planned.amount_nano)
        await push_limits(db, redis, tenant_id)
    try:
        if not planned.done:
            await _take_in_redis(redis, tenant_id, planned.amount_nano)
        return await book_undo(db, tenant_id, undo, check)
    finally:
        await publish_wallet_changed(db, redis, tenant_id)


async def _take_in_redis(redis: RedisClient, tenant_id: str, amount_nano: int) -> None:
    call = TakeCall(now_ms=0, amount_nano=amount_nano, booked_ms_max=BOOKED_MS_MAX)
    key = f"{{t:{tenant_id}}}{wallet_limit(0, 0).key}"
    free_nano = int(await _TAKE(redis, [key], call))
    if free_nano >= 0:
        raise bad_request(
            f"{to_display(free_nano)} can be taken now: the rest is held by answers that run, or was used by "
            "some that are not booked yet; wait, or cancel them (`parley requests cancel`)"
        )
