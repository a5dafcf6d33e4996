"""Keeps money that is taken out of a wallet from answers: it is taken from the allowance in Redis before the
books are committed. Money that running answers hold, or that unbooked answers used, is not taken. Between the
two nobody else sets the wallet's limit, whenever it was read."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from billing.enforcement.limit_push import push_limits
from billing.enforcement.wallet_watch import publish_wallet_changed
from billing.limits import wallet_limit
from billing.money import to_display
from billing.quota.money import MoneyCounts
from billing.quota.script_calls import EndTakeCall, TakeCall
from billing.quota.scripts import quota_script
from core.clock import now_ms
from core.errors import Refused, bad_request, see_help
from core.redis.client import RedisClient
from core.sql.database import Database

BOOKING_SECONDS_MAX = 20.0
# Nobody restores the limit for this long, if the taker dies; longer than booking may take.
BOOKED_MS_MAX = 30_000
# Gateways may send what they read so long before the end of a take, and by clocks so far apart.
OLDER_MS = 5_000

_TAKE = quota_script("take", TakeCall, bytes, "base", "money", "takes")
_END_TAKE = quota_script("end_take", EndTakeCall, bool, "base", "money", "takes")


@asynccontextmanager
async def held_credit(
    db: Database, redis: RedisClient, tenant_id: str, amount_nano: int
) -> AsyncGenerator[str]:
    """Keep money from answers while the block commits that it is taken; what is refused is given back. Once
    it is committed, the caller calls `end_take` with the take's name, which the block gets.

    Raises Refused, with nothing changed, where answers hold the money. Where it is not known if it was
    committed, the take ends by itself, and the books tell what is left."""
    await _count_wallet(db, redis, tenant_id)
    take = secrets.token_hex(8)
    await _take_in_redis(redis, tenant_id, amount_nano, take)
    try:
        async with asyncio.timeout(BOOKING_SECONDS_MAX):
            yield take
    except Refused:
        await _end_take(redis, tenant_id, take, given_back=True)
        await publish_wallet_changed(db, redis, tenant_id)  # what others told meanwhile was not taken
        raise
    except TimeoutError as error:
        raise TimeoutError("it may be booked or not: say it again in a minute, it is done once") from error


async def end_take(_: Database, redis: RedisClient, tenant_id: str, take: str) -> None:
    """End a take whose booking is committed."""
    await _end_take(redis, tenant_id, take, given_back=False)


async def _count_wallet(db: Database, redis: RedisClient, tenant_id: str) -> None:
    """Let Redis count the wallet, under its present limit: what it does not count is not fenced off."""
    try:
        await MoneyCounts(redis).seed(db, tenant_id, [wallet_limit(0, now_ms())])
    except TimeoutError as error:
        raise bad_request(f"nothing is taken ({error}): say it again") from error
    await push_limits(db, redis, tenant_id)


async def _take_in_redis(redis: RedisClient, tenant_id: str, amount_nano: int, take: str) -> None:
    call = TakeCall(take=take, amount_nano=amount_nano, booked_ms_max=BOOKED_MS_MAX)
    free_nano = int(await _TAKE(redis, [_wallet_key(tenant_id)], call))
    if free_nano >= 0:
        raise bad_request(
            f"{to_display(free_nano)} can be taken now: the rest is held by answers that run, or was used by "
            "some that are not booked yet; wait, or cancel them",
            see=see_help("requests.cancel"),
        )


async def _end_take(redis: RedisClient, tenant_id: str, take: str, *, given_back: bool) -> None:
    call = EndTakeCall(take=take, given_back=given_back, older_ms=OLDER_MS)
    await _END_TAKE(redis, [_wallet_key(tenant_id)], call)


def _wallet_key(tenant_id: str) -> str:
    return f"{{t:{tenant_id}}}{wallet_limit(0, 0).key}"
