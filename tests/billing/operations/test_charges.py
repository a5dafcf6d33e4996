"""A day's charges by operation: its groups, their dearest requests; each sum is that of the books' lines."""

import random
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from billing.booking.adjustments import Correction, correct
from billing.operations import charges, tenants
from billing.operations.charges import AskDay, AskDearest, ChargeBy
from billing.operations.tenants import SetTenant
from billing.periods import HOUR_MS, Calendar, PeriodWindow, window_of_day
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.tables.ledger import UsageLine
from billing.tables.tenants import UsageRow
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageEvent, UsageOwner, encode
from core.operations import Role
from tests.billing.closing.closing_month import closed
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.support.tiers import by_form

WHY = Terms(reason="a test's")
UTC = Calendar(ZoneInfo("UTC"))
DAY = date(2026, 10, 25)  # in Berlin of 25 hours
FACTS = {
    ChargeBy.KEY: "key_id",
    ChargeBy.MODEL: "model",
    ChargeBy.USER: "user_id",
    ChargeBy.PROJECT: "project_id",
    ChargeBy.POOL: "pool",
}


async def tenant_id(stores: Stores, name: str = "acme", zone: str = "") -> str:
    """A tenant's id, once it is in this zone."""
    if zone:
        await answer_of(tenants.set_tenant, stores, OWNER, SetTenant(tenant=name, time_zone=zone), WHY)
    found = await find_tenant(stores.db, name)
    assert found is not None
    return found.tenant_id


def some_events(tenant: str, calendar: Calendar, chosen: random.Random, count: int) -> list[UsageEvent]:
    """Of the day and of the same weekday before, near their edges too."""
    windows = [window_of_day((DAY - timedelta(days=days)).isoformat(), calendar) for days in (0, 7)]
    edges = [edge + shift for window in windows for edge in window for shift in (-1, 0, 1)]
    return [
        an_event(
            f"r{number:04}",
            tenant,
            model=chosen.choice(("small", "large")),
            pool=chosen.choice(("default", "eu")),
            owner=UsageOwner(
                project=chosen.choice(("p1", "p2")),
                key=chosen.choice(("k1", "k2", "k3")),
                user=chosen.choice(("", "u1", "u2")),
            ),
            ended_ms=chosen.choice([*edges, chosen.randrange(*chosen.choice(windows))]),
            input_uncached=chosen.choice((0, 5, 1_000_003)),
            output_text=chosen.randrange(400),
        )
        for number in range(count)
    ]


def _chosen() -> random.Random:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    return random.Random(seed)


async def posted(stores: Stores, events: list[UsageEvent]) -> None:
    """Billed."""
    for pool in ("default", "eu"):
        await post(stores.db, pool, [encode(event) for event in events if event.pool == pool])


async def nano_in(stores: Stores, window: PeriodWindow, tenant: str, **facts: str) -> int:
    """The sum of the lines of a time, one by one."""
    rows = {
        row.request_id: row
        for row in await read(stores.db, UsageRow, tenant)
        if all(getattr(row, name) == value for name, value in facts.items())
    }
    lines = [
        line
        for line in await read(stores.db, UsageLine, tenant)
        if line.request_id in rows and line.tenant_id == tenant
    ]
    return sum(line.amount_nano for line in lines if window.start_ms <= line.ended_ms < window.end_ms)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu"])
async def test_the_groups_of_a_day_add_up_to_it_and_the_rest_is_one_group(stores: Stores, zone: str) -> None:
    """In days of 25 hours, and in those that begin within an hour of UTC's; by each fact."""
    tenant, calendar = await tenant_id(stores, zone=zone), Calendar(ZoneInfo(zone))
    await posted(stores, some_events(tenant, calendar, _chosen(), by_form(60, 400)))
    window, before = (window_of_day((DAY - timedelta(days=days)).isoformat(), calendar) for days in (0, 7))
    for by, fact in FACTS.items():
        ask = AskDay(tenant="acme", day=DAY.isoformat(), by=by, limit=1)
        found = await answer_of(charges.explain_day, stores, OWNER, ask)
        assert found.total.cost.value == await nano_in(stores, window, tenant)
        assert found.total.before.value == await nano_in(stores, before, tenant)
        first, others = found.groups[0], found.others
        assert first.sums.cost.value == await nano_in(stores, window, tenant, **{fact: first.of})
        assert first.sums.before.value == await nano_in(stores, before, tenant, **{fact: first.of})
        for name in ("cost", "before", "added"):
            parts = getattr(first.sums, name).value + getattr(others, name).value
            assert parts == getattr(found.total, name).value
        assert first.sums.requests + others.requests == found.total.requests
        assert found.more == (2 if by in (ChargeBy.KEY, ChargeBy.USER) else 1)


async def test_what_added_most_comes_first_and_of_a_day_that_cost_less_what_took_off_most(
    stores: Stores,
) -> None:
    """And the group that was asked for is told whether it is listed or not."""
    tenant = await tenant_id(stores)
    last, that = (window_of_day(f"2026-10-{day:02}", Calendar(ZoneInfo("UTC"))).start_ms for day in (8, 15))
    tokens = {"k1": (10, 500), "k2": (900, 1000), "k3": (300, 100)}
    events = [
        an_event(f"{key} {at}", tenant, owner=UsageOwner("p1", key), ended_ms=at, output_text=output)
        for key, outputs in tokens.items()
        for at, output in zip((last, that), outputs, strict=True)
    ]
    await posted(stores, events)
    ask = AskDay(tenant="acme", day="2026-10-15", of="k3", limit=2)
    grew = await answer_of(charges.explain_day, stores, OWNER, ask)
    assert [each.of for each in grew.groups] == ["k1", "k2"]
    assert grew.chosen is not None
    assert (grew.chosen.of, grew.chosen.sums.added.value) == ("k3", -80_000)
    fell = await answer_of(charges.explain_day, stores, OWNER, AskDay(tenant="acme", day="2026-10-22"))
    assert [each.of for each in fell.groups] == ["k2", "k1", "k3"]
    assert fell.total.cost.value == 0


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu"])
async def test_the_dearest_requests_of_a_group_and_what_all_others_cost(stores: Stores, zone: str) -> None:
    """They are the dearest, whichever keys, models and hours they are of; with the others they add up."""
    tenant, calendar = await tenant_id(stores, zone=zone), Calendar(ZoneInfo(zone))
    events = some_events(tenant, calendar, _chosen(), by_form(60, 400))
    await posted(stores, events)
    window = window_of_day(DAY.isoformat(), calendar)
    inside = [event for event in events if window.start_ms <= event.ended_ms < window.end_ms]
    owner = {ChargeBy.KEY: "key", ChargeBy.USER: "user", ChargeBy.PROJECT: "project"}
    asked: list[tuple[ChargeBy, str | None]] = [(ChargeBy.KEY, None), (ChargeBy.COST_CENTER, "")]
    asked += [(ChargeBy.KEY, "k2"), (ChargeBy.MODEL, "large"), (ChargeBy.USER, ""), (ChargeBy.POOL, "eu")]
    for by, of in [*asked, (ChargeBy.USER, "u1"), (ChargeBy.PROJECT, "p2")]:
        ask = AskDearest(tenant="acme", day=DAY.isoformat(), by=by, of=of, limit=5)
        found = await answer_of(charges.dearest_requests, stores, OWNER, ask)
        own = inside
        if of is not None and by is not ChargeBy.COST_CENTER:
            own = [
                each
                for each in inside
                if getattr(each.owner if by in owner else each, owner.get(by, by)) == of
            ]
        costs = sorted((each.cost_nano for each in own), reverse=True)
        assert [each.cost.value for each in found.items] == costs[:5]
        assert (found.requests, found.more) == (len(own), max(0, len(own) - 5))
        assert found.total.value == sum(costs)
        assert found.shown.value + found.others.value == found.total.value


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu"])
async def test_the_hours_of_a_day_and_the_days_of_a_month_add_up_to_it(stores: Stores, zone: str) -> None:
    """Also where the day has 25 hours, one of them twice; each hour has its own dearest requests."""
    tenant, calendar = await tenant_id(stores, zone=zone), Calendar(ZoneInfo(zone))
    await posted(stores, some_events(tenant, calendar, _chosen(), by_form(60, 400)))
    asks = [AskDay(tenant="acme", day=DAY.isoformat(), by=ChargeBy.HOUR, of="02:00")]
    asks.append(AskDay(tenant="acme", month="2026-10", by=ChargeBy.DAY))
    for ask in asks:
        found = await answer_of(charges.explain_day, stores, OWNER, ask)
        whole = await answer_of(charges.explain_day, stores, OWNER, replace(ask, by=ChargeBy.KEY, of=None))
        assert found.total == whole.total
        assert (found.more, found.others.requests) == (0, 0)
        names = [each.of for each in found.groups]
        assert names == sorted(names)
        assert ("02:00 again" in names) == (zone == "Europe/Berlin" and ask.by is ChargeBy.HOUR)
        for each in found.groups if ask.by is ChargeBy.HOUR else []:
            hour = AskDearest(tenant="acme", day=DAY.isoformat(), by=ChargeBy.HOUR, of=each.of)
            asked = await answer_of(charges.dearest_requests, stores, OWNER, hour)
            assert (asked.total, asked.requests) == (each.sums.cost, each.sums.requests)
    wrong = AskDearest(tenant="acme", day=DAY.isoformat(), by=ChargeBy.HOUR, of="25:00")
    assert (await refusal_of(charges.dearest_requests, stores, OWNER, wrong)).field == "of"
    hours = AskDay(tenant="acme", month="2026-10", by=ChargeBy.HOUR)
    assert (await refusal_of(charges.explain_day, stores, OWNER, hours)).field == "by"


async def test_a_correction_counts_in_the_cost_of_its_request(stores: Stores) -> None:
    """In the day of its request; requests are in the order of what was billed first."""
    tenant = await tenant_id(stores)
    start = window_of_day("2026-10-15", Calendar(ZoneInfo("UTC"))).start_ms
    await posted(stores, [an_event(id, tenant, ended_ms=start + HOUR_MS) for id in ("r1", "r2")])
    await correct(stores.db, tenant, Correction("r1", {Meter.OUTPUT: 2}, "lost"))
    found = await answer_of(
        charges.dearest_requests, stores, OWNER, AskDearest(tenant="acme", day="2026-10-15")
    )
    assert sum(each.cost.value for each in found.items) == found.shown.value == found.total.value


async def test_what_came_after_its_month_was_closed_is_told_where_it_counts(stores: Stores) -> None:
    """On the first day of the next month, with the requests that ended then; the closed day stays as it was,
    though a dearer request ended on it."""
    tenant = await find_tenant(stores.db, "acme")
    assert tenant is not None
    last, first = (window_of_day(day, UTC).start_ms + HOUR_MS for day in ("2025-03-31", "2025-04-01"))
    events = [
        an_event("early", tenant.tenant_id, ended_ms=last),
        an_event("late", tenant.tenant_id, ended_ms=last, output_text=900),
        an_event("april", tenant.tenant_id, ended_ms=first),
    ]
    await posted(stores, [events[0], events[2]])
    await closed(stores.db, tenant, 3)
    await posted(stores, events)
    for by, of in ((ChargeBy.KEY, "k1"), (ChargeBy.USER, "u1"), (ChargeBy.COST_CENTER, "")):
        asks = [AskDearest(tenant="acme", day=day, by=by, of=of) for day in ("2025-03-31", "2025-04-01")]
        march, april = [await answer_of(charges.dearest_requests, stores, OWNER, ask) for ask in asks]
        assert ([each.request for each in march.items], march.more) == (["early"], 0)
        assert ([each.request for each in april.items], april.more) == (["late", "april"], 0)
        for found in (march, april):
            assert (found.others.value, found.shown) == (0, found.total)
    day = await answer_of(charges.explain_day, stores, OWNER, AskDay(tenant="acme", day="2025-03-31"))
    assert (day.closed, day.total.requests) == (True, 1)


async def test_other_tenants_days_are_unknown_and_so_are_their_groups(stores: Stores) -> None:
    """A member sees their own tenant's alone, billing too; a developer sees no money of all."""
    acme, other = await tenant_id(stores), await tenant_id(stores, "other")
    start = window_of_day("2026-10-15", Calendar(ZoneInfo("UTC"))).start_ms
    await posted(stores, [an_event("r1", acme, ended_ms=start), an_event("r1", other, ended_ms=start)])
    billing = member_of(acme, Role.BILLING)
    day = AskDay(tenant=acme, day="2026-10-15")
    assert (await answer_of(charges.explain_day, stores, billing, day)).total.requests == 1
    for ask, run in (
        (AskDay(tenant=other), charges.explain_day),
        (AskDearest(tenant=other), charges.dearest_requests),
    ):
        assert (await refusal_of(run, stores, billing, ask)).unknown
        assert (await refusal_of(run, stores, member_of(acme, Role.DEVELOPER), ask)).code == "forbidden"
