"""Events that were held back: decided on once, and what is accepted is in the books exactly once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from sqlalchemy import text
from sqlmodel import col, select

from billing.booking.assess import Quarantined, assess
from billing.posting.biller import post
from billing.posting.quarantine import accept, dismiss, held_events
from billing.prices.book import NewVersion, add_version
from billing.prices.files import FlatPrices
from billing.quota.client import Quota
from billing.tables.audit import AuditLog
from billing.tables.tenants import UsageQuarantine
from billing.tenants.tenancy import create_tenant
from billing.usage import PinnedPrices, UsageEvent, encode
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import proven
from tests.billing.reconciliation.billed import admitted
from tests.support.redis import Redis


async def one_held(database: Database, *events: UsageEvent) -> str:
    """Posts the events, of which the last is held back."""
    await post(database, "default", [encode(event) for event in events])
    (held,) = await held_events(database)
    return held.event_sha256


async def test_an_event_with_a_wrong_cost_is_billed_by_its_prices(database: Database) -> None:
    """Once it is accepted; a second decision is refused."""
    wrong = msgspec.structs.replace(an_event(), cost_nano=1)
    event = await one_held(database, wrong)
    assert (await proven(database)).lines == 0
    assert await accept(database, event, "the worker was wrong") == "billed"
    assert (await proven(database)).amount_nano == an_event().cost_nano
    for again in (accept, dismiss):
        with pytest.raises(Refused):
            await again(database, event, "again")
    (resolved,) = await held_events(database, resolved=True)
    assert resolved.resolution == "accepted (billed): the worker was wrong"
    assert await held_events(database) == []


async def test_of_decisions_at_once_one_is_taken(database: Database) -> None:
    """Billed or dismissed, and the event says which."""
    event = await one_held(database, msgspec.structs.replace(an_event(), cost_nano=1))
    decisions = [decide(database, event, "r") for decide in (accept, dismiss) * 4]
    done = await asyncio.gather(*decisions, return_exceptions=True)
    assert [type(each) for each in done].count(Refused) == 7
    (resolved,) = await held_events(database, resolved=True)
    billed = (await proven(database)).lines > 0
    assert (resolved.resolution or "").startswith("accepted" if billed else "dismissed")


async def test_a_later_event_becomes_the_difference(database: Database) -> None:
    """The request was billed with 7 output tokens; the later event says 9."""
    first = an_event(input_cached=0)
    later = an_event(input_cached=0, output_text=9)
    event = await one_held(database, first, later)
    (held,) = await held_events(database)
    assert held.reason == Quarantined.CONFLICTING
    assert await accept(database, event, "late tokens") == "corrected by 1 lines"
    found = await proven(database)
    assert (found.amount_nano, found.txns) == (later.cost_nano, 2)


async def test_what_waits_is_listed_oldest_first_and_what_was_decided_newest_first(sqlite: Database) -> None:
    """A thousand of each at most: who sent more of them hides none for good, as they are decided on."""
    facts: dict[str, Any] = {"tenant_id": "t", "request_id": "", "pool": "p", "reason": "", "detail": ""}
    facts["event"] = b""
    async with sqlite.transaction() as session:
        for at in range(1_001):
            facts = {
                "tenant_id": "t",
                "request_id": "",
                "pool": "p",
                "reason": "",
                "detail": "",
                "event": b"",
            }
            one = UsageQuarantine(event_sha256=f"w{at}", created_ms=5_000 - at, **facts)
            done = UsageQuarantine(event_sha256=f"d{at}", created_ms=at, resolved_ms=5_000 - at, **facts)
            session.add_all([one, done])
    waiting = await held_events(sqlite)
    assert [each.created_ms for each in waiting] == list(range(4_000, 5_000))
    decided = await held_events(sqlite, resolved=True)
    assert [each.resolved_ms for each in decided] == list(range(5_000, 4_000, -1))


async def test_what_is_dismissed_books_nothing(database: Database) -> None:
    """An event that cannot be read can only be dismissed."""
    await post(database, "default", [b"rubbish"])
    (held,) = await held_events(database)
    with pytest.raises(Refused):
        await accept(database, held.event_sha256, "why not")
    await dismiss(database, held.event_sha256, "rubbish")
    assert await held_events(database) == []
    with pytest.raises(Refused):
        await dismiss(database, "none", "x")


async def test_an_accept_that_died_before_its_note_is_made_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Billed, not noted: the next one finds it in the books and bills nothing more."""
    event = await one_held(database, msgspec.structs.replace(an_event(), cost_nano=1))

    async def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr("billing.posting.quarantine._resolve", die)
        with pytest.raises(KeyboardInterrupt):
            await accept(database, event, "x")
    assert await accept(database, event, "x") == "the books said so already"
    assert (await proven(database)).amount_nano == an_event().cost_nano


NOBODYS = PinnedPrices(book="", version=0, input_nano=0, cached_input_nano=0, output_nano=0)


async def test_what_nobody_priced_is_held_and_priced_when_a_price_exists(database: Database) -> None:
    """Usage without a price is never billed at nothing. It is held as unpriced; accepting it
    is refused until there is a price, and bills by it then."""
    tenant = await create_tenant(database, "acme")
    event = an_event(tenant=tenant.tenant_id, model="new-model", prices=NOBODYS)
    sha256 = await one_held(database, event)
    (held,) = await held_events(database)
    assert (held.reason, held.detail) == (Quarantined.UNPRICED, "nobody knows the prices of new-model")
    own = {"new-model": FlatPrices(1_000_000, 1_000_000, 2_000_000, 0)}
    await priced_only(database, tenant.tenant_id, {})
    with pytest.raises(Refused, match="no price"):
        await accept(database, sha256, "now")
    await priced_only(database, tenant.tenant_id, own)
    assert await accept(database, sha256, "priced since") == "billed"
    assert (await proven(database, tenant.tenant_id)).amount_nano == 12 * 1 + 7 * 2


async def priced_only(database: Database, tenant_id: str, prices: dict[str, FlatPrices]) -> None:
    """Give the tenant a book of its own without a parent, with these prices."""
    book = f"own-{tenant_id}"
    any_price = prices or {"another": FlatPrices(1, 1, 1, 0)}
    await add_version(database, NewVersion(book, any_price, tenant_id=tenant_id))
    async with database.transaction() as session:
        connection = await session.connection()
        await connection.execute(
            text("UPDATE tenant SET price_book_id = :book WHERE tenant_id = :tenant"),
            {"book": book, "tenant": tenant_id},
        )


def test_a_request_that_used_nothing_needs_no_price() -> None:
    """It never ran: there is nothing to bill, and nothing to alarm anybody of."""
    nothing = an_event(prices=NOBODYS, input_uncached=0, input_cached=0, output_text=0, reason="cancelled")
    assert assess("default", [encode(nothing)], now_ms=1).held == []


@pytest.mark.parametrize("quantity", [-1, 1 << 53, (1 << 63) - 1])
async def test_quantities_that_cannot_be_are_held_and_never_accepted(
    quantity: int, database: Database
) -> None:
    """A negative quantity would be a refund, one of 2^63 a bill without bounds."""
    event = await one_held(database, msgspec.structs.replace(an_event(), output_text=quantity))
    (held,) = await held_events(database)
    assert held.reason == Quarantined.UNSTORABLE
    with pytest.raises(Refused):
        await accept(database, event, "let it be")
    assert (await proven(database)).lines == 0


async def test_a_decision_is_in_the_record_of_what_administrators_did(database: Database) -> None:
    """Who decided on which event, and why."""
    event = await one_held(database, msgspec.structs.replace(an_event(), cost_nano=1))
    await dismiss(database, event, "a test of the worker")
    async with database.session() as session:
        (row,) = (await session.exec(select(AuditLog).where(col(AuditLog.source) != "migration"))).all()
    assert (row.tenant_id, row.action, row.target) == ("t1", "quarantine.dismiss", event)
    assert "a test of the worker" in row.after


@pytest.mark.parametrize("decision", [accept, dismiss])
async def test_a_decision_brings_the_tenants_slot_in_line(
    decision: Callable[[Database, str, str, Quota], Awaitable[object]],
    database: Database,
    redis: Redis,
    settings: Settings,
) -> None:
    """A worker settled the cost that it believed in; what counts in the end is what the books say (R4)."""
    wrong = msgspec.structs.replace(an_event(), cost_nano=1)
    quota = Quota(redis, settings, database)
    await admitted(redis, settings, wrong.request)
    await quota.settle(wrong)
    event = await one_held(database, wrong)
    await decision(database, event, "looked at", quota)
    sums = await quota.posted("t1")
    assert sums is not None
    assert (
        sums.cost_nano == (await proven(database)).amount_nano == (decision is accept) * an_event().cost_nano
    )
