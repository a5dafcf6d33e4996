"""Decisions on quarantined usage events: a person accepts or dismisses one, and the reason is kept."""

from collections.abc import Sequence

import msgspec
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.approvals.one_person import OneDecision
from billing.audit.log import record
from billing.booking.adjustments import Correction, correct
from billing.booking.assess import INTEGER_MAX, Assessed, Quarantined
from billing.booking.models import check_tokens
from billing.booking.recent_moves import ACCEPTED
from billing.enforcement.push_wallets import push_money_limits
from billing.posting.biller import post
from billing.prices.book import pinned_prices
from billing.prices.rating import Meter, counts_of, rate
from billing.quota.client import Quota
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.usage import UsageEvent, encode, read_event
from core.clock import now_ms
from core.errors import Refused, bad_request
from core.redis.unreadable import Unreadable
from core.sql.database import Database
from core.sql.locks import one_at_a_time

LISTED_MAX = 1_000
DECISIONS = "decisions"  # name of the lock: nobody dismisses what another is just billing


async def held_events(db: Database, resolved: bool = False) -> Sequence[UsageQuarantine]:
    """Events that wait for a decision, oldest first; or decided ones, newest first. For operators."""
    statement = select(UsageQuarantine)
    if resolved:
        statement = statement.where(col(UsageQuarantine.resolved_ms).is_not(None))
        statement = statement.order_by(col(UsageQuarantine.resolved_ms).desc())
    else:
        statement = statement.where(col(UsageQuarantine.resolved_ms).is_(None))
        statement = statement.order_by(col(UsageQuarantine.created_ms))
    async with db.session() as session:
        return (await session.exec(statement.limit(LISTED_MAX))).all()


async def held_by_tenant(db: Database) -> dict[str, int]:
    """Number of events that wait for a decision, by tenant; empty: of an event that names none."""
    statement = select(UsageQuarantine.tenant_id, func.count()).group_by(col(UsageQuarantine.tenant_id))
    async with db.session() as session:
        rows = (await session.exec(statement.where(col(UsageQuarantine.resolved_ms).is_(None)))).all()
    return {tenant: int(count) for tenant, count in rows}


async def accept(
    db: Database,
    event_sha256: str,
    reason: str,
    quota: Quota | None = None,
    limits: OneDecision | None = None,
) -> str:
    """Accept a held event, by its own prices; return a description of the effect. A repetition books nothing
    more.

    A request that was not billed is billed now; for one that was, the difference is booked as a correction.
    An event without prices gets those of its time, else today's. Raises Refused where the event cannot be
    read, priced or counted, or has more tokens than its model allows. `quota`: updates the tenant's keys;
    `limits`: of the money that it moves, looked at where it is booked."""
    async with one_at_a_time(db, DECISIONS):
        held = await _held(db, event_sha256)
        event = _readable(held)
        async with db.session() as session:
            billed = await session.get(UsageRow, (event.tenant, event.request))
            if billed is None:
                await check_tokens(session, event.fingerprint, _tokens(event))
        if billed is None:
            done = await _bill(db, held, event, reason, quota, limits)
        else:
            done = await _correct(db, event_sha256, event, quota, limits)
            await _decide(db, held, ACCEPTED, _accepted(done, reason))
        return done


async def _bill(
    db: Database,
    held: UsageQuarantine,
    event: UsageEvent,
    reason: str,
    quota: Quota | None,
    limits: OneDecision | None,
) -> str:
    """Bill the request. The audit log's row is of the same transaction, so that the next move counts it."""
    priced, done = await _priced(db, event), "billed"
    resolution = _accepted(done, reason)

    async def beside(session: AsyncSession, posted: Sequence[Assessed]) -> None:
        nano = sum(each.row.cost_nano for each in posted)
        if limits is not None:
            await limits.check(session, event.tenant, nano)
        await _record(session, held, ACCEPTED, resolution, nano)

    batch, posted = await post(db, held.pool, [encode(priced)], beside=beside)
    if not posted:
        raise bad_request(
            f"the event cannot be billed: {batch.held[0].detail if batch.held else 'billed meanwhile'}"
        )
    if quota is not None:
        await quota.settle(priced, batch.line_seqs[event.tenant, event.request])
        await push_money_limits(db, quota.redis, event.tenant, event.request)
    async with db.transaction() as session:
        await _resolve(session, held, resolution)
    return done


async def _correct(
    db: Database, event_sha256: str, event: UsageEvent, quota: Quota | None, limits: OneDecision | None
) -> str:
    """Book the difference to what was billed."""
    quantities = {
        Meter.INPUT: event.input_uncached,
        Meter.CACHED_INPUT: event.input_cached,
        Meter.OUTPUT: event.output_text,
        Meter.REASONING: event.output_reasoning,
    }
    cause = f"event {event_sha256[:16]}"

    async def check(session: AsyncSession, nano: int) -> None:
        if limits is not None:
            await limits.check(session, event.tenant, nano)

    lines = await correct(db, event.tenant, Correction(event.request, quantities, cause), check)
    if quota is not None:
        await push_money_limits(db, quota.redis, event.tenant, event.request)
    return f"corrected by {len(lines)} lines" if lines else "the books said so already"


def _accepted(done: str, reason: str) -> str:
    return f"accepted ({done}): {reason}"


def _tokens(event: UsageEvent) -> int:
    return event.input_uncached + event.input_cached + event.output_text + event.output_reasoning


async def dismiss(db: Database, event_sha256: str, reason: str, quota: Quota | None = None) -> None:
    """Decide that a held event does not count. Raises Refused where there is no such undecided event.
    `quota`: settles the request at no cost in the tenant's keys, if the event was held for its cost or
    price."""
    async with one_at_a_time(db, DECISIONS):
        held = await _held(db, event_sha256)
        if quota is not None and held.reason in (Quarantined.COST_MISMATCH, Quarantined.UNPRICED):
            event = _readable(held)
            await quota.settle(msgspec.structs.replace(event, cost_nano=0), line_seq=0)
        await _decide(db, held, "quarantine.dismiss", f"dismissed: {reason}")


async def _priced(db: Database, event: UsageEvent) -> UsageEvent:
    """The event with the cost by its own prices, or by those of its model where it has none."""
    prices = event.prices
    if not prices.book:
        try:
            prices = await pinned_prices(db, event.tenant, event.model, event.accepted_ms)
        except Refused:
            prices = await pinned_prices(db, event.tenant, event.model)
    try:
        _, cost_nano = rate(counts_of(event), prices)
    except ValueError as error:
        raise bad_request(f"the event cannot be counted ({error}): dismiss it") from error
    if cost_nano >= INTEGER_MAX:
        raise bad_request("the event costs more than the books can hold: dismiss it")
    return msgspec.structs.replace(event, prices=prices, cost_nano=cost_nano)


async def _held(db: Database, event_sha256: str) -> UsageQuarantine:
    async with db.session() as session:
        held = await session.get(UsageQuarantine, event_sha256)
    if held is None:
        raise bad_request(f"there is no held event {event_sha256!r}")
    if held.resolved_ms is not None:
        raise bad_request(f"this event was decided on already: {held.resolution}")
    return held


def _readable(held: UsageQuarantine) -> UsageEvent:
    event = read_event(held.event)
    if isinstance(event, Unreadable):
        raise bad_request(f"the {event}: dismiss it")
    return event


async def _decide(db: Database, held: UsageQuarantine, action: str, resolution: str) -> None:
    async with db.transaction() as session:
        await _resolve(session, held, resolution)
        await _record(session, held, action, resolution)


async def _resolve(session: AsyncSession, held: UsageQuarantine, resolution: str) -> None:
    held.resolved_ms, held.resolution = now_ms(), resolution
    await session.merge(held)
    await session.flush()


async def _record(
    session: AsyncSession, held: UsageQuarantine, action: str, resolution: str, nano: int = 0
) -> None:
    """Write the decision into the audit log. `nano`: what it billed."""
    after = {"request": held.request_id, "reason": held.reason, "resolution": resolution}
    moved = {"amount_nano": nano} if nano else {}
    await record(session, held.tenant_id, action, held.event_sha256, None, {**after, **moved})
