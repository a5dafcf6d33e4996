"""What safety found, by day, category and action, on SQLite and on Postgres."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from sqlalchemy import event

from billing.periods import Calendar, Period, window_at, zone_named
from billing.posting.biller import post
from billing.reports.safety_verdicts import (
    DAYS_MAX,
    RefusedPrompts,
    SafetyDay,
    VerdictCount,
    last_days,
    verdicts_by_day,
)
from billing.tables.refusals import RefusalMinute
from billing.tenants.tenancy import create_tenant, set_tenant
from billing.usage import encode
from core.sql.database import Database
from tests.billing.events import an_event

NOW_MS = 1_800_000_000_000  # 2027-01-15 08:00 UTC
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
POLICY = "a" * 64
BLOCKED = {"reason": "blocked", "code": "safety_blocked"}
Verdicts = Mapping[str, Mapping[str, int]]


async def ended(
    db: Database, tenant: str, request: str, at_ms: int, verdicts: Verdicts, **facts: Any
) -> None:
    """A request that ended, with what was found in it."""
    event = an_event(
        request,
        tenant,
        accepted_ms=at_ms - 1_000,
        ended_ms=at_ms,
        policy=POLICY,
        verdicts=verdicts,
        **facts,
    )
    batch, _ = await post(db, "default", [encode(event)])
    assert not batch.held


async def refused(db: Database, tenant: str, at_ms: int, code: str, why: str, number: int) -> None:
    """Refusals of one minute."""
    async with db.transaction() as session:
        where: dict[str, Any] = {
            "tenant_id": tenant,
            "minute_ms": at_ms,
            "key_id": "k1",
            "user_id": "",
            "code": code,
        }
        session.add(RefusalMinute(**where, number=number, why=why, last_ids=[]))


async def test_verdicts_are_summed_by_the_tenants_days(database: Database) -> None:
    """A request counts on the day on which it ended, in the tenant's zone; others' are not in it."""
    tenant = await create_tenant(database, "acme")
    tenant = await set_tenant(database, tenant.tenant_id, time_zone="Asia/Kolkata")
    other = await create_tenant(database, "globex")
    id, midnight = tenant.tenant_id, window_at(Period.DAY, zone_named("Asia/Kolkata"), NOW_MS).start_ms
    await ended(database, id, "r1", midnight, {"card": {"redact": 2}, "email": {"flag": 1}})
    await ended(
        database,
        id,
        "r2",
        NOW_MS - 1,
        {"card": {"redact": 1, "block": 1}},
        reason="blocked",
        code="safety_blocked",
    )
    await ended(database, id, "r3", NOW_MS - 2, {"card": {"prompt_redact": 4}})
    await ended(database, id, "r4", midnight - 1, {"card": {"redact": 5}})
    await ended(database, id, "r5", midnight - 2 * DAY_MS, {"card": {"redact": 7}})
    await ended(database, other.tenant_id, "r6", NOW_MS - 1, {"card": {"redact": 11}})
    for whose, at_ms, code, why, number in (
        (id, midnight, "safety_blocked", "card block", 2),
        (id, NOW_MS - 60_000, "safety_blocked", "card block", 3),
        (id, NOW_MS - 60_000, "rate_limited", "user requests_per_minute", 9),
        (id, midnight + 60_000, "safety_blocked", "employee_2 block", 7),
        (id, midnight - 60_000, "safety_blocked", "card block", 11),
        (other.tenant_id, midnight, "safety_blocked", "card block", 13),
    ):
        await refused(database, whose, at_ms, code, why, number)
    today, yesterday = await verdicts_by_day(database, tenant, 2, NOW_MS)
    assert today == SafetyDay(
        window_at(Period.DAY, zone_named("Asia/Kolkata"), NOW_MS),
        3,
        1,
        [
            VerdictCount("card", "answer", "block", 1, 1),
            VerdictCount("card", "answer", "redact", 3, 2),
            VerdictCount("card", "prompt", "redact", 4, 1),
            VerdictCount("email", "answer", "flag", 1, 1),
        ],
        [RefusedPrompts("card", 5), RefusedPrompts("employee_2", 7)],
    )
    assert (yesterday.requests, yesterday.found) == (1, [VerdictCount("card", "answer", "redact", 5, 1)])
    everybody = await verdicts_by_day(database, None, 1, NOW_MS)
    assert VerdictCount("card", "answer", "redact", 12, 2) in everybody[0].found  # of the UTC day


async def test_the_most_days_take_few_statements(database: Database) -> None:
    """Not some for each day, for which a caller would wait for seconds."""
    made: list[str] = []
    event.listen(database.engine.sync_engine, "before_cursor_execute", lambda *said: made.append(said[2]))
    days = await verdicts_by_day(database, None, DAYS_MAX, NOW_MS)
    assert (len(days), {day.requests for day in days}) == (DAYS_MAX, {0})
    assert len(made) <= 30


def test_days_go_back_to_the_first_one() -> None:
    """And no further."""
    found = last_days(Calendar(zone_named("Europe/Berlin")), 400, 3 * DAY_MS)
    assert found[-1].start_ms <= 0
    assert len(found) == 4
    assert all(later.start_ms == earlier.end_ms for later, earlier in pairwise(found))
