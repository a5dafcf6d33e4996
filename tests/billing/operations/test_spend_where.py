"""Where a tenant's month goes, why it costs more, what the cache saved: by operation, on real books."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from billing.booking.adjustments import Correction, correct
from billing.operations import tenants
from billing.operations.spend_bridge import AskBridge, SpendBridge, show_bridge
from billing.operations.spend_cache import show_cache
from billing.operations.spend_month import AskMonth
from billing.operations.spend_series import AskSeries, SpendBy, SpendSeries, show_series
from billing.operations.tenants import SetTenant
from billing.periods import Calendar, month_number
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.reports.bridge_windows import BridgeAgainst
from billing.reports.usage_report import GroupBy, usage_in
from billing.tables.ledger import CostCenter, RollupHour, RollupPrice
from billing.tables.tenants import PLATFORM, Price, PriceVersion
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageOwner, encode
from chaos.tampering.unguarded import tamper
from core.operations import Role
from core.sql.database import insert_rows
from tests.billing.events import PRICES, an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

WHY = Terms(reason="a test's")
NUMBERS = count()
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns")


def at(text: str, zone: str = "UTC") -> int:
    """Unix ms of a local time."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).timestamp() * 1000)


async def acme(stores: Stores, zone: str = "UTC", now: str = "2026-11-18T14:30") -> tuple[Stores, str]:
    """The stores at a local time of acme's, whose id is the second."""
    await answer_of(tenants.set_tenant, stores, OWNER, SetTenant(tenant="acme", time_zone=zone), WHY)
    found = await find_tenant(stores.db, "acme")
    assert found is not None
    return replace(stores, now_ms=lambda: at(now, zone)), found.tenant_id


async def used(stores: Stores, tenant: str, ended_ms: int, key: str = "k1", **changes: Any) -> int:
    """A request that ended then, of a key: its cost."""
    user = changes.pop("user", "u1")
    event = an_event(
        f"q{next(NUMBERS)}", tenant, ended_ms=ended_ms, owner=UsageOwner("p1", key, user), **changes
    )
    await post(stores.db, "default", [encode(event)])
    return event.cost_nano


async def series(stores: Stores, tenant: str, by: SpendBy = SpendBy.MODEL, **ask: Any) -> SpendSeries:
    """The answer to a payer, checked: parts add up to each day, and days to the month."""
    who = member_of(tenant, Role.BILLING)
    found = await answer_of(show_series, stores, who, AskSeries(tenant=tenant, by=by, **ask))
    parts = [
        *found.groups,
        *([found.nobody] if found.nobody else []),
        *([found.others] if found.others else []),
    ]
    for place, day in enumerate(found.days):
        assert sum(each.days[place].cost.value for each in parts) == day.total.cost.value
        assert sum(each.days[place].tokens for each in parts) == day.total.tokens
    for each in parts:
        assert sum(one.cost.value for one in each.days) == each.month.cost.value
    assert sum(day.total.cost.value for day in found.days) == found.total.cost.value
    return found


async def dearer(stores: Stores, valid_from_ms: int) -> None:
    """A version of the default book of a time that has passed, with dearer output. (Importing refuses it.)"""
    facts: dict[str, Any] = {"book_id": "default", "version": 2, "tenant_id": PLATFORM}
    prices: dict[str, Any] = {
        "input_nano": 100_000_000,
        "cached_input_nano": 25_000_000,
        "output_nano": 440_000_000,
    }
    async with stores.db.transaction() as session:
        session.add(PriceVersion(**facts, valid_from_ms=valid_from_ms, created_ms=0))
        await session.flush()
        session.add(Price(**facts, model="smollm2", **prices))


@pytest.mark.parametrize("zone", ZONES)
async def test_days_are_those_of_the_tenants_zone(stores: Stores, zone: str) -> None:
    """The first and the last second of a month and of days, also where hours are split; today is open."""
    here, tenant = await acme(stores, zone)
    cost = await used(here, tenant, at("2026-10-31T23:59:59", zone))
    for when in ("2026-11-01T00:00", "2026-11-01T23:59:59", "2026-11-02T00:00", "2026-11-18T14:29"):
        await used(here, tenant, at(when, zone))
    found = await series(here, tenant)
    costs = {day.date: day.total.cost.value for day in found.days if day.total.cost.value}
    assert costs == {"2026-11-01": 2 * cost, "2026-11-02": cost, "2026-11-18": cost}
    assert [day.date for day in found.days if day.open] == ["2026-11-18"]
    assert len(found.days) == 18
    october = await series(here, tenant, month="2026-10")
    assert (len(october.days), october.days[-1].total.cost.value, october.total.tokens) == (31, cost, 19)
    assert not any(day.open for day in october.days)


async def test_clocks_that_turn_make_a_day_of_25_hours(stores: Stores) -> None:
    """And the days around it lose nothing."""
    here, tenant = await acme(stores, "America/St_Johns")
    begin = at("2026-11-01T00:00", "America/St_Johns")
    for hour in range(26):
        await used(here, tenant, begin + hour * 3_600_000 + 1)
    found = await series(here, tenant)
    assert [day.total.tokens // 19 for day in found.days[:2]] == [25, 1]


@pytest.mark.parametrize("by", list(SpendBy))
async def test_five_are_named_and_all_others_are_one(stores: Stores, by: SpendBy) -> None:
    """Whatever they are told apart by; of nobody is no group among them."""
    here, tenant = await acme(stores)
    now = at("2026-11-17T12:00")
    for number in range(8):
        owner = UsageOwner(f"p{number}", f"k{number}", f"u{number}" if number else "")
        event = an_event(
            f"r{number}", tenant, model=f"m{number}", owner=owner, ended_ms=now, output_text=1000 - number
        )
        await post(here.db, "default", [encode(event)])
    found = await series(here, tenant, by)
    nobody = {SpendBy.COST_CENTER: 8, SpendBy.USER: 1}.get(by, 0)
    groups = {SpendBy.COST_CENTER: 0, SpendBy.POOL: 1}.get(by, 8 - nobody)
    assert (found.nobody is not None) == (nobody > 0)
    assert len(found.groups) == min(5, groups)
    assert (found.others.count if found.others else 0) == max(0, groups - 5)
    assert [each.month.cost.value for each in found.groups] == sorted(
        (each.month.cost.value for each in found.groups), reverse=True
    )
    assert found.total.tokens == sum(12 + 1000 - number for number in range(8))


@pytest.mark.parametrize("by", list(SpendBy))
async def test_a_group_costs_what_the_statement_says(stores: Stores, by: SpendBy) -> None:
    """Of whatever group and whichever rollups it is read from, also while they are made again."""
    here, tenant = await acme(stores, "Asia/Kathmandu")
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen = random.Random(seed)
    events = [
        an_event(
            f"r{number}",
            tenant,
            model=chosen.choice(("a", "b", "c")),
            pool=chosen.choice(("default", "eu")),
            owner=UsageOwner("p1", f"k{chosen.randrange(9)}", chosen.choice(("", "u1", "u2"))),
            ended_ms=chosen.randrange(at("2026-10-31T12:00"), at("2026-11-18T08:00")),
            output_text=chosen.randrange(10_000),
        )
        for number in range(80)
    ]
    for pool in ("default", "eu"):
        await post(here.db, pool, [encode(event) for event in events if event.pool == pool])
    calendar = Calendar(ZoneInfo("Asia/Kathmandu"))
    month = calendar.window(month_number(2026, 11))
    sums = {each.group: each for each in await usage_in(here.db, tenant, month, GroupBy(by.value), calendar)}
    for lags in (False, True):
        if lags:
            await tamper(here.db, *(f"DELETE FROM {table}" for table in ("rollup_hour", "rollup_price")))
            await tamper(here.db, "UPDATE ledger_head SET rolled_seq = 0")
        found = await series(here, tenant, by)
        for group in [*found.groups, *([found.nobody] if found.nobody else [])]:
            assert group.month.cost.value == sums[group.id].amount_nano
        assert found.total.cost.value == sum(each.amount_nano for each in sums.values())
        assert found.total.tokens == sum(
            each.input_uncached + each.input_cached + each.output_text for each in sums.values()
        )


async def test_ten_thousand_cost_centers_are_a_small_answer(stores: Stores) -> None:
    """Five by name, whatever their script; the others are counted and summed, none is cut off."""
    here, tenant = await acme(stores)
    hour, many = at("2026-11-17T12:00"), 10_000
    who: dict[str, Any] = {"project_id": "p", "user_id": "", "key_id": "k", "model": "m", "pool": "default"}
    sums: dict[str, Any] = {"errors": 0, "input_uncached": 0, "input_cached": 0, "output_reasoning": 0}
    hours = [
        RollupHour(
            tenant_id=tenant,
            hour_ms=hour,
            cost_center_id=f"c{number}",
            **who,
            **sums,
            requests=1,
            output_text=number,
            amount_nano=number * 10,
        )
        for number in range(1, many + 1)
    ]
    tokens = sum(each.output_text for each in hours)
    line: dict[str, Any] = {
        "meter": "output",
        "kind": "usage",
        "price_book_id": "default",
        "price_version": 1,
    }
    async with here.db.transaction() as session:
        await insert_rows(session, hours, RollupHour)
        session.add(
            RollupPrice(
                tenant_id=tenant,
                hour_ms=hour,
                model="m",
                **line,
                quantity=tokens,
                amount_nano=tokens * 10,
            )
        )
        for number, code in ((many, "مالية"), (many - 1, "財務部")):
            id = f"c{number}"
            session.add(CostCenter(tenant_id=tenant, id=id, code=code, name=code, created_ms=0))
    found = await series(here, tenant, SpendBy.COST_CENTER)
    assert [each.name for each in found.groups] == ["مالية", "財務部", "c9998", "c9997", "c9996"]
    assert found.others is not None
    assert found.others.count == many - 5
    assert found.total.tokens == tokens
    assert len(msgspec.json.encode(found)) < 40_000


async def test_jumps_are_explained(stores: Stores) -> None:
    """A key that cost much more than on the same weekday before, a refund, a new price version."""
    here, tenant = await acme(stores)
    await dearer(here, at("2026-11-10"))
    await used(here, tenant, at("2026-11-05T10:00"), "k2", input_uncached=1_000_000)
    await used(here, tenant, at("2026-11-12T10:00"), "k2", input_uncached=90_000_000)
    await used(here, tenant, at("2026-11-12T10:00"), "k1")
    await used(here, tenant, at("2026-11-13T10:00"), "k1", input_uncached=5_000_000)
    await correct(here.db, tenant, Correction(f"q{next(NUMBERS) - 1}", None, "slow"))
    found = await series(here, tenant)
    assert [(each.letter, each.date, each.kind.value) for each in found.marks] == [
        ("A", "2026-11-10", "price"),
        ("B", "2026-11-12", "jump"),
        ("C", "2026-11-13", "correction"),
    ]
    price, jump, refund = found.marks
    assert price.text == "Price version 2: output of smollm2 from 0.40 to 0.44 a million tokens."
    assert jump.text == "Key k2 cost 9.00 after 0.10 the Thursday before."
    assert refund.text.startswith("Refund \u22120.50 (smollm2)")


async def test_another_tenants_month_is_nobodys(stores: Stores) -> None:
    """To a member no other tenant exists, and what it uses is in no sum of theirs."""
    here, tenant = await acme(stores)
    other = await find_tenant(stores.db, "other")
    assert other is not None
    await used(here, other.tenant_id, at("2026-11-17T12:00"))
    who = member_of(tenant, Role.BILLING)
    for run, ask in ((show_series, AskSeries), (show_bridge, AskBridge), (show_cache, AskMonth)):
        assert (await refusal_of(run, here, who, ask(tenant="other"))).unknown
        wrong = await refusal_of(run, here, who, ask(tenant=tenant, month="2026-13"))
        assert wrong.field == "month"
    empty = await series(here, tenant)
    assert (empty.groups, empty.others, empty.nobody, empty.total.tokens) == ([], None, None, 0)
    assert (await bridge(here, tenant)).difference.value == 0
    assert (await answer_of(show_cache, here, who, AskMonth(tenant=tenant))).models == []
    ahead = await refusal_of(show_series, here, who, AskSeries(tenant=tenant, month="2027-03"))
    assert ahead.field == "month"


async def bridge(stores: Stores, tenant: str, **ask: Any) -> SpendBridge:
    """The answer to a payer, checked: the steps add up."""
    who = member_of(tenant, Role.BILLING)
    found = await answer_of(show_bridge, stores, who, AskBridge(tenant=tenant, **ask))
    steps = sum(each.amount.value for each in found.steps)
    assert steps == found.difference.value == found.after.cost.value - found.before.cost.value
    return found


@pytest.mark.parametrize("zone", ZONES)
async def test_the_same_days_are_compared_and_today_is_left_out(stores: Stores, zone: str) -> None:
    """Of a month that runs; or all of the month before, or of one that is over."""
    here, tenant = await acme(stores, zone)
    cost = await used(here, tenant, at("2026-10-17T23:59", zone))
    for when in ("2026-10-18T00:00", "2026-11-17T23:59", "2026-11-17T23:59", "2026-11-18T00:00"):
        await used(here, tenant, at(when, zone))
    same = await bridge(here, tenant)
    assert (same.before.name, same.after.name, same.open_day) == ("1 to 17 October", "1 to 17 November", True)
    assert (same.before.cost.value, same.after.cost.value) == (cost, 2 * cost)
    amounts = {each.part.value: each.amount.value for each in same.steps if each.amount.value}
    assert amounts == {"volume": cost}
    assert same.steps[0].why == "19 more tokens (19 to 38) at October\u2019s average prices"
    whole = await bridge(here, tenant, against=BridgeAgainst.MONTH)
    assert (whole.before.name, whole.before.cost.value) == ("October", 2 * cost)
    over = await bridge(here, tenant, month="2026-10")
    assert (over.before.name, over.after.name, over.against) == ("September", "October", BridgeAgainst.MONTH)
    assert not over.open_day


async def test_the_first_day_of_a_month_has_nothing_to_compare(stores: Stores) -> None:
    """And says no day of it is over."""
    here, tenant = await acme(stores, now="2026-11-01T10:00")
    await used(here, tenant, at("2026-10-01T10:00"))
    found = await bridge(here, tenant)
    assert (found.after.days, found.before.days, found.difference.value, found.open_day) == (0, 0, 0, True)
    assert (
        await refusal_of(show_bridge, here, OWNER, AskBridge(tenant="acme", month="1970-01"))
    ).field == "month"


async def test_a_short_month_is_set_against_the_days_that_both_have(stores: Stores) -> None:
    """The 1st to the 28th, where March is compared with February."""
    here, tenant = await acme(stores, now="2026-04-02T10:00")
    await used(here, tenant, at("2026-02-03T12:00"))
    found = await bridge(here, tenant, month="2026-03", against=BridgeAgainst.SAME_DAYS)
    assert (found.before.name, found.after.name) == ("February", "1 to 28 March")


async def test_refunds_are_a_part_of_their_own(stores: Stores) -> None:
    """With their dates."""
    here, tenant = await acme(stores)
    cost = await used(here, tenant, at("2026-11-13T10:00"))
    await correct(here.db, tenant, Correction(f"q{next(NUMBERS) - 1}", None, "slow"))
    found = await bridge(here, tenant)
    (step,) = [each for each in found.steps if each.part.value == "corrections"]
    assert (step.amount.value, step.why) == (-cost, "Refund of 2026-11-13")


async def test_the_cache_saves_by_the_price_that_was_pinned(stores: Stores) -> None:
    """What cached tokens would have cost as input under their version, less what they cost; and no refund of
    other tokens changes that."""
    here, tenant = await acme(stores)
    await dearer(here, at("2026-11-10"))
    async with here.db.transaction() as session:
        session.add(
            Price(
                book_id="default",
                version=2,
                tenant_id=PLATFORM,
                model="*",
                input_nano=300_000_000,
                cached_input_nano=30_000_000,
                output_nano=400_000_000,
            )
        )
    dear = msgspec.structs.replace(PRICES, version=2, input_nano=300_000_000, cached_input_nano=30_000_000)
    when = at("2026-11-12T10:00")
    await used(here, tenant, when, input_uncached=60, input_cached=40)
    await used(here, tenant, when, model="other", input_uncached=30, input_cached=70, prices=dear)
    await used(here, tenant, when, model="third", input_uncached=5, input_cached=0)
    await correct(here.db, tenant, Correction(f"q{next(NUMBERS) - 1}", {Meter.OUTPUT: 1}, "less"))
    who = member_of(tenant, Role.BILLING)
    found = await answer_of(show_cache, here, who, AskMonth(tenant=tenant))
    told = [(each.model, each.input_tokens, each.cached_tokens, each.saved.value) for each in found.models]
    assert told == [
        ("other", 100, 70, 70 * 270),
        ("smollm2", 100, 40, 40 * 75),
        ("third", 5, 0, 0),
    ]
    total = (found.total.input_tokens, found.total.cached_tokens, found.total.saved.value)
    assert total == (205, 110, 70 * 270 + 40 * 75)
    assert (found.unpriced, found.more) == (0, 0)
