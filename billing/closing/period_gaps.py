"""Usage that the close of a month would leave out: accepted in it and not in the books."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.periods import PeriodWindow
from billing.quota.unposted_usage import EndedRequest, UnpostedUsage
from billing.tables.tenants import UsageQuarantine, UsageRow
from billing.usage import read_event
from core.redis.unreadable import Unreadable

IDS_AT_ONCE = 500
HELD_MAX = 10_000  # most events to read; beyond it `more` is set
HELD_AT_ONCE = 50  # a compromised worker may have made each of them a MiB


class PeriodGap(msgspec.Struct, frozen=True):
    """Numbers of one pool's missing requests: still open, ended and not delivered, held back."""

    pool: str
    open: int = 0
    undelivered: int = 0
    held: int = 0


@dataclass(frozen=True)
class PeriodGaps:
    """Missing requests of a month by pool. `unreachable`: Redis could not be read; `more`: there are more
    than were counted."""

    pools: Sequence[PeriodGap] = ()
    unreachable: bool = False
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.pools or self.unreachable or self.more)

    def facts(self) -> dict[str, Any]:
        """Facts as a row stores them, and scripts read them."""
        pools = [msgspec.structs.asdict(each) for each in self.pools]
        return {"pools": pools, "redis_away": self.unreachable, "more": self.more}


def gaps_text(facts: dict[str, Any]) -> str:
    """Format the facts of PeriodGaps for people. Pure."""
    said: list[str] = []
    for each in facts["pools"]:
        counts = [f"{each[name]} {what}" for name, what in WORDS.items() if each[name]]
        said.append(f"pool {each['pool']}: {', '.join(counts)}")
    said += ["more than was counted"] if facts["more"] else []
    said += ["Redis could not be asked what is open or undelivered"] if facts["redis_away"] else []
    return "; ".join(said)


WORDS = {"open": "open", "undelivered": "undelivered", "held": "held back"}
TO_DO = {
    "open": "open ones end by themselves",
    "undelivered": "undelivered ones are booked while a biller runs",
    "held": "decide on those that are held back (`parley quarantine list`)",
}


def how_to_close_gaps(lacks: PeriodGaps) -> str:
    """Advice to make a month whole. Pure."""
    said = [what for name, what in TO_DO.items() if any(getattr(each, name) for each in lacks.pools)]
    return "; ".join([*said, *(["start Redis"] if lacks.unreachable else [])]) or "try again in a while"


async def period_gaps(
    session: AsyncSession, tenant_id: str, period: PeriodWindow, found: UnpostedUsage
) -> PeriodGaps:
    """Find usage of a period missing in the present books. `found`: usage under way in Redis, read before."""
    undelivered = await _not_in_books(session, tenant_id, found.ended)
    held, more = await _held(session, tenant_id, period)
    counts = {
        "open": Counter(found.open),
        "undelivered": Counter(each.pool for each in undelivered),
        "held": Counter(held),
    }
    pools = sorted({pool for each in counts.values() for pool in each})
    found_of = [PeriodGap(pool, **{name: each[pool] for name, each in counts.items()}) for pool in pools]
    return PeriodGaps(found_of, found.unreachable, found.more or more)


async def _not_in_books(
    session: AsyncSession, tenant_id: str, ended: Sequence[EndedRequest]
) -> list[EndedRequest]:
    """Ended requests that are neither booked nor held, each once."""
    by_request = {each.request: each for each in ended}
    for ids in _parts(list(by_request)):
        booked = select(UsageRow.request_id).where(
            col(UsageRow.tenant_id) == tenant_id, col(UsageRow.request_id).in_(ids)
        )
        for id in (await session.exec(booked)).all():
            del by_request[id]
    by_hash = {each.event_sha256: each for each in by_request.values()}
    for hashes in _parts(list(by_hash)):
        held = select(UsageQuarantine.event_sha256).where(col(UsageQuarantine.event_sha256).in_(hashes))
        for sha256 in (await session.exec(held)).all():
            del by_hash[sha256]
    return list(by_hash.values())


async def _held(session: AsyncSession, tenant_id: str, period: PeriodWindow) -> tuple[list[str], bool]:
    """Pools of a period's undecided events, and whether there are more events."""
    held = UsageQuarantine
    of_it = (
        col(held.tenant_id) == tenant_id,
        col(held.resolved_ms).is_(None),
        col(held.created_ms) >= period.start_ms,
    )
    pools, seen, last = list[str](), 0, ""
    while seen < HELD_MAX:
        page = select(held.event_sha256, held.pool, held.event, held.created_ms)
        page = page.where(*of_it, col(held.event_sha256) > last).order_by(col(held.event_sha256))
        rows = (await session.exec(page.limit(HELD_AT_ONCE))).all()
        pools += [pool for _, pool, event, created_ms in rows if _is_of(event, created_ms, period)]
        if len(rows) < HELD_AT_ONCE:
            return pools, False
        seen, last = seen + len(rows), rows[-1][0]
    return pools, True


def _is_of(data: bytes, created_ms: int, period: PeriodWindow) -> bool:
    """True where a held event was accepted, or ended, in a period. An unreadable event counts at the time it
    came. Pure."""
    event = read_event(data)
    times = [created_ms] if isinstance(event, Unreadable) else [event.accepted_ms, event.ended_ms]
    return any(period.start_ms <= at < period.end_ms for at in times)


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + IDS_AT_ONCE] for start in range(0, len(ids), IDS_AT_ONCE))
