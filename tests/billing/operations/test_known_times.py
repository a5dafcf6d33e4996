"""Months, days and times that no report has: refused with the field and what is possible, by every report."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from billing.operations.charges import AskDay, ChargeBy, explain_day
from billing.posting.biller import post
from billing.tables.tenants import Tenant
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.units import Stores
from billing.usage import encode
from core.errors import Refused
from core.operations import registered
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER
from tests.billing.operations.acting import stores as stores  # the fixture

BERLIN = ZoneInfo("Europe/Berlin")
ROOMS = ("spend.", "charges.", "chargeback.", "requests.", "statement.", "usage.", "pools.usage")


def reports_with(field: str) -> list[str]:
    """Names of the operations that are asked with this field."""
    return [
        name
        for name, each in registered().items()
        if name.startswith(ROOMS)
        and not each.writes
        and field in {one.name for one in msgspec.structs.fields(each.asks)}
    ]


def at(text: str) -> int:
    """Unix ms of a time in Berlin."""
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1000)


@pytest.fixture
async def november(stores: Stores) -> Stores:
    """The stores on 15 November 2026; acme, of Berlin, was made in September and used since 2 August."""
    found = await find_tenant(stores.db, "acme")
    assert found is not None
    async with stores.db.transaction() as session:
        row = await session.get(Tenant, found.tenant_id)
        assert row is not None
        row.created_ms, row.time_zone = at("2026-09-15"), "Europe/Berlin"
    used = at("2026-08-02")
    event = an_event("r1", found.tenant_id, accepted_ms=used, ended_ms=used + 9)
    await post(stores.db, "default", [encode(event)])
    return replace(stores, now_ms=lambda: at("2026-11-15 12:00"))


async def refused(stores: Stores, name: str, **facts: Any) -> tuple[str | None, str]:
    """The field and the words of a report that is refused."""
    declared = registered()[name]
    known = {each.name for each in msgspec.structs.fields(declared.asks)}
    tenant = {"tenant": "acme"} if "tenant" in known else {}
    days = {"by": "key"} if name == "charges.day" else {}
    ask = msgspec.convert({**tenant, **days, **facts}, declared.asks, strict=False)
    with pytest.raises(Refused) as found:
        await perform(stores, OWNER, declared, ask)
    assert found.value.refusal.code == "bad_request"
    return found.value.refusal.field, found.value.refusal.message


def test_the_sweep_has_something_to_sweep() -> None:
    """A report that is renamed does not slip out of it."""
    assert {"spend.summary", "spend.bridge", "spend.series", "charges.day"} <= {*reports_with("month")}
    assert {"chargeback.report", "chargeback.export"} <= {*reports_with("as_of")}
    assert {"charges.day", "charges.requests"} <= {*reports_with("day")}


@pytest.mark.parametrize("name", reports_with("month"))
async def test_no_report_has_a_month_that_has_not_begun(november: Stores, name: str) -> None:
    """Or is none; the newest that there is is told."""
    for month in ("2026-12", "2027-01", "9998-12"):
        assert await refused(november, name, month=month) == (
            "month",
            f"{month} has not begun: the newest month is 2026-11",
        )
    for wrong in ("2026-13", "November", "0000-01", "99999-01", "2026-11-01", "-1"):
        assert (await refused(november, name, month=wrong))[0] == "month"


@pytest.mark.parametrize(
    "name", [each for each in reports_with("month") if not each.startswith("chargeback.idle")]
)
async def test_no_report_has_a_month_before_the_first(november: Stores, name: str) -> None:
    """Neither made nor used then; which is the first is told."""
    if name in ("spend.pools", "pools.usage"):  # of pools there may be more than of requests
        return
    field, words = await refused(november, name, month="2026-07")
    assert (field, words) == ("month", "there is nothing of 2026-07: acme begins in 2026-08")
    ask = msgspec.convert({"tenant": "acme", "month": "2026-08"}, registered()[name].asks)
    await perform(november, OWNER, registered()[name], ask)


@pytest.mark.parametrize("name", reports_with("as_of"))
async def test_the_books_of_tomorrow_are_not_known(november: Stores, name: str) -> None:
    """A minute ahead is a clock that differs, and is now."""
    for later in ("2026-11-16", "9998-01-01", "2026-11-15T12:02:00+01:00"):
        field, words = await refused(november, name, month="2026-11", as_of=later)
        assert (field, "known up to now" in words) == ("as_of", True)
    assert (await refused(november, name, month="2026-11", as_of="yesterday"))[0] == "as_of"
    assert (await refused(november, name, month="2026-11", as_of="2026-10-25T02:30:00"))[0] == "as_of"


@pytest.mark.parametrize("name", reports_with("day"))
async def test_no_day_is_asked_for_that_has_none(november: Stores, name: str) -> None:
    """Tomorrow, a day before the first month, and what is no day."""
    told = "2026-11-16 has not begun: the newest day is 2026-11-15"
    assert await refused(november, name, day="2026-11-16") == ("day", told)
    assert "begins in 2026-08" in (await refused(november, name, day="2026-07-31"))[1]
    for wrong in ("2026-02-30", "today", "0001-01-01", "9999-12-31"):
        assert (await refused(november, name, day=wrong))[0] == "day"


@pytest.mark.parametrize(("day", "hours"), [("2027-03-28", 23), ("2026-10-25", 25), ("2026-10-24", 24)])
async def test_days_of_changing_clocks_have_their_hours(november: Stores, day: str, hours: int) -> None:
    """Each once, in order, the one that comes twice by two names; all of it ended."""
    later = replace(november, now_ms=lambda: at("2027-04-01"))
    ask = AskDay(tenant="acme", day=day, by=ChargeBy.HOUR, limit=100)
    found = await answer_of(explain_day, later, OWNER, ask)
    begun = datetime.fromisoformat(found.time.start or "").timestamp()
    assert datetime.fromisoformat(found.time.end or "").timestamp() - begun == hours * 3600
    assert found.over
