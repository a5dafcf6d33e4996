"""R4 and R8 of one tenant: the counts in its Redis slot against the books and against running requests.

Workers settle before the biller posts, so the slot is ahead of SQL by the unread part of `ended`. A slot that
does not move and equals the books agrees with them, whatever others do; a difference counts only once the
streams are drained. Reads only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlmodel import col, select

from billing.budgets.spent import SpendingScope
from billing.ledger.transactions import LineKind
from billing.limits import WALLET
from billing.periods import PeriodWindow
from billing.prices.rating import Meter
from billing.quota.client import Quota
from billing.quota.packing import CONCURRENCY_GRACE_MS
from billing.quota.redis_keys import posted_key
from billing.quota.types import AdmissionState, DirectoryEntry
from billing.reconciliation.comparison import BookSums, Check, Comparison
from billing.tables.tenants import UsageRow
from billing.usage import ENDED_GROUP_BILLER, ended_stream
from billing.wallets.budgets import budget_spending
from billing.wallets.wallets import wallet_state
from core.names import storable_name
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.members import entries_behind, names, reading
from core.redis.unreadable import Unreadable, read
from core.sql.database import Database

HOLDS_READ_MAX = 10_000
IDS_AT_ONCE = 500
SUM_MAX = 1 << 62
ENQUEUE_SECONDS_MAX = 90  # between admission and the queue; the sweep looks after 60 s


@dataclass(frozen=True)
class EndedStreams:
    """The `ended` streams at one moment. `last_ids` tells two moments apart, `unread`: entries that the
    biller has not acknowledged, `oldest_ms`: time at which the oldest of them was written."""

    last_ids: tuple[str, ...]
    unread: int = 0
    oldest_ms: int = 0

    def waiting(self, now_ms: int) -> str:
        """Reason that nothing can be decided now, empty where the streams are drained."""
        if not self.unread:
            return ""
        return (
            f"not drained: {self.unread} unread, the oldest for {max(0, now_ms - self.oldest_ms) // 1000} s"
        )


async def look_at_streams(redis: RedisClient, pools: Iterable[str]) -> EndedStreams:
    """Read the biller's position in the streams of these pools."""
    last_ids: list[str] = []
    unread, oldest = 0, list[int]()
    for pool in sorted(pools):
        last_id, waiting, since_ms = await _look(redis, ended_stream(pool))
        last_ids.append(last_id)
        unread += waiting
        oldest += [since_ms] if waiting else []
    return EndedStreams(tuple(last_ids), unread, min(oldest, default=0))


async def _look(redis: RedisClient, key: str) -> tuple[str, int, int]:
    """The stream's last id, its unread entries (1 or more where nobody counted them), the oldest's ms."""
    try:
        info = await redis.xinfo_stream(key)
    except redis_errors.ResponseError:
        return "", 0, 0  # no such stream: nothing ended there
    last_id = info["last-generated-id"].decode()
    groups = {group["name"].decode(): group for group in await redis.xinfo_groups(key)}
    group = groups.get(ENDED_GROUP_BILLER)
    delivered = group["last-delivered-id"].decode() if group else "0-0"
    pending = int(group["pending"]) if group else 0
    if pending:
        oldest = (await redis.xpending(key, ENDED_GROUP_BILLER))["min"]
    else:
        behind = await entries_behind(redis, key, delivered, 1)
        if not behind:
            return last_id, 0, 0
        oldest = behind[0][0]
    behind_count = int((group or {}).get("lag") or 0)
    since_ms = int((oldest or b"0-0").decode().partition("-")[0])
    return last_id, max(1, pending + behind_count), since_ms


async def slot_sums(redis: RedisClient, tenant_id: str) -> dict[str, int]:
    """Sums counted in the tenant's keys: cost_nano, input, output, requests. Values that are no number are
    left out."""
    fields = await redis.hgetall(posted_key(tenant_id))
    found = [read("sum", lambda field: (field[0].decode(), int(field[1])), field) for field in fields.items()]
    return dict(each for each in found if not isinstance(each, Unreadable) and abs(each[1]) <= SUM_MAX)


class TenantSum(NamedTuple):
    """One of a slot's sums, and its value by the books. `subject`, `unit`: as in a comparison."""

    field: str
    subject: str
    unit: str
    wanted: int


def slot_fields(sums: BookSums) -> list[TenantSum]:
    """The slot's sums as the books have them: usage as it was posted, without corrections. Pure."""
    return [
        TenantSum("cost_nano", "cost", "nano", sums.charged(LineKind.USAGE)),
        TenantSum("input", "input", "tokens", sums.used(Meter.INPUT, Meter.CACHED_INPUT)),
        TenantSum("output", "output", "tokens", sums.used(Meter.OUTPUT, Meter.REASONING)),
        TenantSum("requests", "requests", "requests", sums.requests),
    ]


def posted_sums(tenant_id: str, sums: BookSums, slot: dict[str, int]) -> list[Comparison]:
    """R4: the slot's sums against those of the books. Pure."""
    return [
        Comparison(Check.R4, tenant_id, each.subject, each.unit, each.wanted, slot.get(each.field, 0))
        for each in slot_fields(sums)
    ]


async def compare_budgets(db: Database, quota: Quota, tenant_id: str, now_ms: int) -> list[Comparison]:
    """R4 of every budget window and wallet that Redis counts: its posted sum against the books. Sums not yet
    seeded from the books are left out."""
    compared: list[Comparison] = []
    for each in await quota.budget_sums(tenant_id):
        if each.seed_seq is None:
            continue
        if each.period == WALLET:
            state = await wallet_state(db, tenant_id, now_ms)
            wanted = state.posted_nano if state else 0
        else:
            window = PeriodWindow(each.window_start_ms, each.window_end_ms)
            counted = SpendingScope(each.scope, each.scope_id)
            wanted = (await budget_spending(db, tenant_id, counted, each.period, window)).nano
        name = f"{each.period} of {each.scope} {each.scope_id}".rstrip()
        name += f" from {each.window_start_ms}" if each.period != WALLET else ""
        name += " (shadow)" if each.shadow else ""
        compared.append(Comparison(Check.R4, tenant_id, name, "nano", wanted, each.posted_nano))
    return compared


async def compare_holds(
    db: Database, redis: RedisClient, quota: Quota, tenant_id: str, now_ms: int, drained: bool
) -> Comparison:
    """R8: open admissions whose lease is over, that never reached a queue, or that were billed already.

    A suspect is read again before it counts, so that one that closes meanwhile is not reported."""
    key = f"{{t:{tenant_id}}}conc"
    ids = names(key, await reading(key, redis.zrange(key, 0, HOLDS_READ_MAX - 1), []))
    storable = [id for id in ids if storable_name(id) == id]
    billed = await _billed(db, tenant_id, storable) if drained else set[str]()
    stuck: list[str] = []
    for id in ids:
        found = await quota.directory(tenant_id, id)
        in_pool = found is not None and await _in_pool(redis, found)
        suspect = id in billed or is_stuck(found, in_pool, now_ms)
        if suspect and await redis.zscore(key, id) is not None:
            stuck.append(id)
    detail = f"the first: {stuck[0]}" if stuck else ""
    return Comparison(Check.R8, tenant_id, "holds", "holds", 0, len(stuck), detail)


def is_stuck(found: DirectoryEntry | None, in_pool: bool, now_ms: int) -> bool:
    """True where an open admission should be closed: its record is gone or closed, its lease is over, or no
    queue got it in time. Pure."""
    if found is None or found.state is not AdmissionState.OPEN:
        return True
    late = found.admitted_ms + ENQUEUE_SECONDS_MAX * 1000 < now_ms
    return found.deadline_ms + CONCURRENCY_GRACE_MS < now_ms or (late and not in_pool)


async def _in_pool(client: Any, found: DirectoryEntry) -> bool:
    """True where the pool has the request and it has not ended there."""
    record = f"{{p:{found.pool}}}req:{found.tenant}:{found.id}"
    status = await reading(record, client.hget(record, "status"), None)
    return status is not None and status != b"ended"


async def _billed(db: Database, tenant_id: str, ids: Sequence[str]) -> set[str]:
    """Those of these requests whose usage is in SQL."""
    found: set[str] = set()
    async with db.session() as session:
        for start in range(0, len(ids), IDS_AT_ONCE):
            statement = select(UsageRow.request_id).where(
                col(UsageRow.tenant_id) == tenant_id,
                col(UsageRow.request_id).in_(ids[start : start + IDS_AT_ONCE]),
            )
            found.update((await session.exec(statement)).all())
    return found
