"""Rebuilds from the books, automatically, the sums of tenants whose Redis lost data (R4).

Only where a loss is proven: since the sums last equalled the books, they moved to another server, began
again, or all vanished; where they never equalled, they began after the first request was booked. Any other
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

MEMORY = "memory"  # chain of the ReconMark that holds the SumsOrigin that last agreed
TRY_SECONDS = 0.25
CLOCKS_DIFFER_MS = 5_000
TIME = re.compile(rb"[0-9]{1,15}")
ROUND_SECONDS_MAX = 20.0  # of one run over all tenants; the next run continues
CAUSE = "Redis lost data"

_SINCE = quota_script("since", SinceCall, SinceReply, "base")


class SumsRebuilder(Protocol):
    """Rebuilds a tenant's sums from the books. Raises Refused while usage is on its way."""

    async def repair(self, tenant_id: str, cause: str = "") -> list[Comparison]: ...


class SumsOrigin(NamedTuple):
    """The Redis server and the start of a tenant's sums. `name` identifies them; `began_ms`: time of the
    first request counted there, 0 where that is not known."""

    name: str
    began_ms: int

    @property
    def server(self) -> str:
        """The server's run id."""
        return self.name.partition(" ")[0]


def has_lost_sums(
    compared: Sequence[Comparison], agreed: str, memory: SumsOrigin, booked_ms: int | None
) -> bool:
    """Decide whether Redis lost a tenant's sums: R4 differs, and either all totals are zero or the sums are
    not those that last `agreed` with the books. `agreed` empty: none are recorded; then sums that began after
    the books' first request, `booked_ms`, have lost it. Pure."""
    differing = [each for each in compared if each.state is ComparisonState.DIFFERS]
    if not differing:
        return False
    totals = [each for each in compared if each.subject in ("cost", "input", "output", "requests")]
    if not totals:  # nothing was compared
        return False
    if not any(each.actual for each in totals):
        return True
    if agreed:
        return agreed != memory.name
    return booked_ms is not None and memory.began_ms > booked_ms + CLOCKS_DIFFER_MS


async def rebuild_lost_sums(
    db: Database, redis: RedisClient, repairs: SumsRebuilder, compared: Sequence[Comparison]
) -> list[Comparison]:
    """Rebuild the sums that Redis lost; return the new R4 of the tenants that were repaired."""
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
        # Read the books only where this decides: not of tenants that agree or have a mark.
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
    """The R4 comparisons by tenant."""
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
    """R4 after the repair; empty where it was refused until the deadline: the next run tries again."""
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
    """The origin of a tenant's sums; None where its keys are broken."""
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
    """Time at which a tenant's first request was booked."""
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
