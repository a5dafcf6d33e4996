"""Decisions on quarantined usage events: a person accepts or dismisses one, and the reason is kept."""

from collections.abc import Sequence

import msgspec
from sqlmodel import col, func, select

from billing.audit.log import record
from billing.booking.adjustments import Correction, correct
from billing.booking.amount_bounds import AmountBounds, check_tokens
from billing.booking.assess import INTEGER_MAX, Quarantined
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
    bounds: AmountBounds | None = None,
) -> str:
    """Accept a held event, by its own prices; return a description of the effect. A repetition books nothing
    more.

    A request that was not billed is billed now; for one that was, the difference is booked as a correction.
    An event without prices gets those of its time, else today's. Raises Refused where the event cannot be
    read, priced or counted, or has more tokens than its model allows. `quota`: updates the tenant's keys;
    `bounds`: limits the money that it moves."""
    async with one_at_a_time(db, DECISIONS):
        return await _accept(db, event_sha256, reason, quota, bounds)


async def _accept(
    db: Database, event_sha256: str, reason: str, quota: Quota | None, bounds: AmountBounds | None
) -> str:
    held = await _held(db, event_sha256)
    event = _readable(held)
    async with db.session() as session:
        billed = await session.get(UsageRow, (event.tenant, event.request))
        if billed is None:
            await check_tokens(session, event.fingerprint, _tokens(event))
    if billed is None:
        priced = await _priced(db, event)
        if bounds is not None:
            bounds.check(priced.cost_nano)
        batch, posted = await post(db, held.pool, [encode(priced)])
        if not posted:
            raise bad_request(
                f"the event cannot be billed: {batch.held[0].detail if batch.held else 'billed meanwhile'}"
            )
        if quota is not None:
            await quota.settle(priced, batch.line_seqs[event.tenant, event.request])
            await push_money_limits(db, quota.redis, event.tenant, event.request)
        done = "billed"
    else:
        quantities = {
            Meter.INPUT: event.input_uncached,
            Meter.CACHED_INPUT: event.input_cached,
            Meter.OUTPUT: event.output_text,
            Meter.REASONING: event.output_reasoning,
        }
        cause = f"event {event_sha256[:16]}"
        check = None if bounds is None else bounds.check_move
        lines = await correct(db, event.tenant, Correction(event.request, quantities, cause), check)
        if quota is not None:
            await push_money_limits(db, quota.redis, event.tenant, event.request)
        done = f"corrected by {len(lines)} lines" if lines else "the books said so already"
    await _resolve(db, held, "quarantine.accept", f"accepted ({done}): {reason}")
    return done


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
        await _resolve(db, held, "quarantine.dismiss", f"dismissed: {reason}")


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


async def _resolve(db: Database, held: UsageQuarantine, action: str, resolution: str) -> None:
    async with db.transaction() as session:
        held.resolved_ms, held.resolution = now_ms(), resolution
        await session.merge(held)
        after = {"request": held.request_id, "reason": held.reason, "resolution": resolution}
        await record(session, held.tenant_id, action, held.event_sha256, None, after)
