"""R4 of tenants whose Redis lost data: counted anew from the books, without anybody's asking.

Only where a loss is proven: the sums stand on another server, began anew, or are all gone, since they were
last equal to the books; where they never were, they began after the first request was booked. Any other
difference is a fault that people must see.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from sqlmodel import col, select

from billing import instruments
from billing.ledger.transactions import TxnKind
from billing.quota.redis_keys import posted_key
from billing.quota.script_calls import SinceCall, SinceReply
from billing.quota.scripts import quota_script
from billing.reconciliation.comparison import Check, Comparison, ComparisonState
from billing.reconciliation.repair_pauses import paused_until_ms, rebuild_count, rebuild_marks, store_rebuild
from billing.tables.ledger import LedgerTxn
from billing.tables.reconciliation import ReconMark
from core.clock import now_ms
from core.errors import Refused
from core.observability.error_facts import error_facts, error_summary
from core.observability.telemetry import logger
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.runtime.failed_rounds import is_store_down
from core.sql.database import Database, upsert

log = logger(__name__)

MEMORY = "memory"  # the chain under which ReconMark keeps which Redis was last found to agree
TRY_SECONDS = 0.25
CLOCKS_DIFFER_MS = 5_000
TIME = re.compile(rb"[0-9]{1,15}")
ROUND_SECONDS_MAX = 20.0  # of one look at all tenants: the next one goes on
CAUSE = "Redis lost data"

_SINCE = quota_script("since", SinceCall, SinceReply, "base")


class SumsRebuilder(Protocol):
    """What counts a tenant's sums anew from the books. Raises Refused while usage is on its way."""

    async def repair(self, tenant_id: str, cause: str = "") -> list[Comparison]: ...


class SumsOrigin(NamedTuple):
    """Where a tenant's sums are. `name` tells it from every other; `began_ms`: when the first request was
    counted there, 0 where that is not known."""

    name: str
    began_ms: int

    @property
    def server(self) -> str:
        """Which server that is, since it was started."""
        return self.name.partition(" ")[0]


def has_lost_sums(
    compared: Sequence[Comparison], agreed: str, memory: SumsOrigin, booked_ms: int | None
) -> bool:
    """Whether Redis lost what it had of a tenant: its R4 differs, and it is not the memory that `agreed` with
    the books, or has no sums at all. `agreed` empty: none did since that is kept; then a memory that began
    after the books had a request, `booked_ms`, lost that one. Pure."""
    differing = [each for each in compared if each.state is ComparisonState.DIFFERS]
    if not differing:
        return False
    totals = [each for each in compared if each.subject in ("cost", "input", "output", "requests")]
    if not totals:  # nobody could compare it
        return False
    if not any(each.actual for each in totals):
        return True
    if agreed:
        return agreed != memory.name
    return booked_ms is not None and memory.began_ms > booked_ms + CLOCKS_DIFFER_MS


async def rebuild_lost_sums(
    db: Database, redis: RedisClient, repairs: SumsRebuilder, compared: Sequence[Comparison]
) -> list[Comparison]:
    """Of all that was compared, R4 of those tenants that were healed, as it is now."""
    of_tenant = _by_tenant(compared)
    agreed, healed_before = await _agreed(db), await rebuild_marks(db)
    healed: list[Comparison] = []
    agreeing: dict[str, str] = {}
    until = time.monotonic() + ROUND_SECONDS_MAX
    for tenant_id, found in sorted(of_tenant.items()):
        memory = await _memory(redis, tenant_id)
        if memory is None:
            continue
        mark = agreed.get(tenant_id, "")
        # Only there does it decide: books of who agrees, or has a mark, are not read.
        is_asked = not mark and any(each.state is ComparisonState.DIFFERS for each in found)
        booked_ms = await _first_booked_ms(db, tenant_id) if is_asked else None
        if has_lost_sums(found, mark, memory, booked_ms):
            if _is_paused(healed_before.get(tenant_id), tenant_id, memory):
                continue
            try:
                found = await _repaired(repairs, tenant_id, found, until)
            except Exception as error:
                if is_store_down(error):
                    raise
                log.error("reconciliation.rebuild_failed", tenant=tenant_id, **error_facts(error))
                continue
            healed += found
            if found:
                times = rebuild_count(healed_before.get(tenant_id), memory.server, now_ms()) + 1
                await store_rebuild(db, tenant_id, memory.server, times, now_ms())
        if found and all(each.state is ComparisonState.EQUAL for each in found):
            agreeing[tenant_id] = memory.name
    await _keep(db, {who: what for who, what in agreeing.items() if agreed.get(who) != what})
    return healed


def _by_tenant(compared: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """R4 alone."""
    of_tenant: dict[str, list[Comparison]] = {}
    for each in compared:
        if each.check is Check.R4:
            of_tenant.setdefault(each.tenant_id, []).append(each)
    return of_tenant


def _is_paused(mark: ReconMark | None, tenant_id: str, memory: SumsOrigin) -> bool:
    until_ms = paused_until_ms(mark, memory.server, now_ms())
    if until_ms:
        instruments.rebuild_paused.add(1)
        times = mark.seq if mark is not None else 0
        log.error("reconciliation.rebuild_paused", tenant=tenant_id, healed=times, paused_until_ms=until_ms)
    return bool(until_ms)


async def _repaired(
    repairs: SumsRebuilder, tenant_id: str, before: Sequence[Comparison], until: float
) -> list[Comparison]:
    """R4 after the repair; none where it is refused all the time: the next look tries again."""
    why = ""
    while not why or time.monotonic() < until:
        try:
            found = await repairs.repair(tenant_id, CAUSE)
        except Refused as refused:
            why = refused.refusal.message
            await asyncio.sleep(TRY_SECONDS)
            continue
        instruments.sums_rebuilt.add(1)
        for each in before:
            if each.difference:
                log.warning(
                    "reconciliation.sums_rebuilt",
                    tenant=tenant_id,
                    subject=each.subject,
                    books=each.expected,
                    redis=each.actual,
                )
        return found
    log.warning("reconciliation.rebuild_waiting", tenant=tenant_id, why=why)
    return []


async def _memory(redis: RedisClient, tenant_id: str) -> SumsOrigin | None:
    """The one that has a tenant's sums; None where its keys are broken."""
    try:
        found = await _SINCE(redis, [posted_key(tenant_id)], SinceCall())
    except redis_errors.ResponseError as error:
        log.error("reconciliation.sums_unreadable", tenant=tenant_id, error=error_summary(error))
        return None
    if not all(TIME.fullmatch(each or b"0") for each in (found.since, found.began)):
        log.error("reconciliation.sums_unreadable", tenant=tenant_id, error="what a worker wrote is no time")
        return None
    return SumsOrigin(f"{found.server} {found.since.decode()}", int(found.began or 0))


async def _first_booked_ms(db: Database, tenant_id: str) -> int | None:
    """When the first request of a tenant came into the books."""
    usage = (col(LedgerTxn.tenant_id) == tenant_id, col(LedgerTxn.kind) == TxnKind.USAGE)
    statement = select(LedgerTxn.posted_ms).where(*usage).order_by(col(LedgerTxn.seq)).limit(1)
    async with db.session() as session:
        return (await session.exec(statement)).first()


async def _agreed(db: Database) -> dict[str, str]:
    async with db.session() as session:
        marks = await session.exec(select(ReconMark).where(col(ReconMark.chain) == MEMORY))
        return {mark.tenant_id: mark.sha256 for mark in marks}


async def _keep(db: Database, agreeing: dict[str, str]) -> None:
    same: dict[str, Any] = {"chain": MEMORY, "seq": 0, "line_seq": 0, "sums": {}, "verified_ms": now_ms()}
    rows = [{"tenant_id": who, "sha256": memory, **same} for who, memory in sorted(agreeing.items())]
    if rows:
        async with db.transaction() as session:
            await upsert(session, rows, ReconMark)
