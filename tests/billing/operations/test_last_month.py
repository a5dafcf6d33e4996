"""What dry runs of budgets and limits tell of last month, by the hours that rollups have."""

from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from billing.cli.last_month import last_month_words
from billing.limits import Dimension, Mode, Scope
from billing.operations import budgets, limits
from billing.operations.budgets import OverrideBudget, SetBudget
from billing.operations.last_month import LastMonth
from billing.operations.limits import EditLimit, SetLimit
from billing.periods import Period, PeriodWindow
from billing.reports import last_month as reports
from billing.reports.last_month import last_month, windows_in
from billing.tables.ledger import RollupHour
from billing.tables.tenants import Tenant
from billing.tenants.keys import create_key, rotate_key
from billing.tenants.tenancy import create_project, find_tenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.operations import MoneyAmount
from tests.billing.operations.acting import OWNER
from tests.billing.operations.acting import stores as stores  # the fixture

DRY = Terms(dry_run=True)
BERLIN = ZoneInfo("Europe/Berlin")
USD = 1_000_000_000


def at(text: str) -> int:
    """Unix ms of a time in Berlin."""
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1000)


async def acme_in_november(stores: Stores) -> tuple[Stores, str]:
    """The stores on 15 November 2026, and the id of acme, which is of Berlin and a year old."""
    found = await find_tenant(stores.db, "acme")
    assert found is not None
    async with stores.db.transaction() as session:
        row = await session.get(Tenant, found.tenant_id)
        assert row is not None
        row.created_ms, row.time_zone = at("2025-11-15"), "Europe/Berlin"
    return replace(stores, now_ms=lambda: at("2026-11-15")), found.tenant_id


async def used(stores: Stores, tenant: str, *hours: tuple[str, str, int, int], **facts: str) -> None:
    """Hours of usage: when, the key, requests and USD."""
    async with stores.db.transaction() as session:
        for when, key, requests, usd in hours:
            who = {"project_id": "p", "cost_center_id": "", "user_id": "", "model": "m", "pool": "d"} | facts
            tokens = dict.fromkeys(("input_cached", "output_text", "output_reasoning", "errors"), 0)
            sums = {"requests": requests, "input_uncached": requests * 10, "amount_nano": usd * USD}
            hour = {"tenant_id": tenant, "hour_ms": at(when), "key_id": key}
            row = RollupHour.model_validate(hour | who | tokens | sums)
            session.add(row)


async def told(stores: Stores, usd: int, **facts: object) -> LastMonth | None:
    """What a budget of so much would have done."""
    ask = SetBudget(tenant="acme", limit=MoneyAmount.of(usd * USD), **facts)  # pyright: ignore[reportArgumentType]
    found = (await answer_of(budgets.set_budget, stores, OWNER, ask, DRY)).last_month
    assert found is None or isinstance(found, LastMonth)
    return found


def those(found: LastMonth | None) -> list[tuple[str, int, int]]:
    """Name, requests and USD of each that is named."""
    assert found is not None
    return [(each.name, each.requests, each.cost.value // USD) for each in found.most]


async def test_a_budget_names_whom_it_would_have_refused(stores: Stores) -> None:
    """From the hour after the one in which it was reached; a rotated key is its chain, and neither other
    months, other tenants nor charges without a request count."""
    stores, acme = await acme_in_november(stores)
    project = (await create_project(stores.db, acme, "lab")).id
    old = (await create_key(stores.db, acme, project, name="evals"))[0].id
    new = (await rotate_key(stores.db, acme, old, overlap_seconds=3600))[0].id
    await used(stores, acme, ("2026-10-01 00:00", old, 5, 60), ("2026-10-03 10:00", old, 4, 40))
    await used(stores, acme, ("2026-10-03 10:00", "k2", 9, 9), ("2026-10-31 23:00", "k2", 2, 1))
    await used(stores, acme, ("2026-10-20 08:00", new, 7, 70), ("2026-09-30 23:00", new, 1, 1_000))
    await used(stores, acme, ("2026-11-01 00:00", new, 1, 1_000))
    await used(stores, acme, ("2026-10-02 00:00", "", 1, 500), model="GPU h200")
    await used(stores, "t-else", ("2026-10-02 00:00", "k3", 1, 500))
    found = await told(stores, 100)
    assert found is not None
    assert (found.month, found.by, found.begins, found.times, found.others) == (
        "2026-10",
        Scope.KEY,
        "2026-10-20T08:00:00+02:00",
        1,
        0,
    )
    assert those(found) == [("evals", 7, 70), ("k2", 2, 1)]
    assert (found.requests, found.cost.value) == (9, 71 * USD)
    nobody = await told(stores, 1_000)
    assert nobody is not None
    assert (nobody.most, nobody.requests, nobody.begins) == ([], 0, None)


async def test_a_budget_of_each_refuses_each_by_itself(stores: Stores) -> None:
    """But whom a budget of their own replaces it for; beyond five, a number and the sums."""
    stores, acme = await acme_in_november(stores)
    for number in range(8):
        hours = [(f"2026-10-0{day} 10:00", f"k{number}", number, 10 * number) for day in (1, 2)]
        await used(stores, acme, *hours, user_id=f"u{number}")
    found = await told(stores, 5, scope=Scope.USER)
    assert found is not None
    assert (found.by, found.others, found.requests) == (Scope.USER, 2, sum(range(8)))
    assert those(found)[0] == ("u7", 7, 70)
    lab = (await create_project(stores.db, acme, "lab")).id
    await used(
        stores, acme, ("2026-10-05 10:00", "k1", 1, 9), ("2026-10-06 10:00", "k1", 3, 9), project_id=lab
    )
    own = SetBudget(tenant="acme", limit=MoneyAmount.of(9_999 * USD), scope=Scope.PROJECT, of="lab")
    assert "lab" in [name for name, *_ in those(await told(stores, 5, scope=Scope.PROJECT))]
    await answer_of(budgets.set_budget, stores, OWNER, own)
    assert [name for name, *_ in those(await told(stores, 5, scope=Scope.PROJECT))] == ["p"]
    assert those(await told(stores, 5, scope=Scope.PROJECT, of="lab")) == [("k1", 3, 9)]


async def test_a_budget_of_many_who_reach_it_tells_the_same(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether those who reach it are few enough to be named in a statement, or all are read."""
    stores, acme = await acme_in_november(stores)
    for number in range(8):
        hours = [(f"2026-10-0{day} 10:00", f"k{number}", 1, number) for day in (1, 2)]
        await used(stores, acme, *hours, user_id=f"u{number}")
    named = await told(stores, 5, scope=Scope.KEY)
    assert [name for name, *_ in those(named)] == ["k7", "k6", "k5"]
    monkeypatch.setattr(reports, "NAMED_AT_ONCE", 2)
    assert await told(stores, 5, scope=Scope.KEY) == named


async def test_a_daily_budget_begins_anew_at_the_tenants_midnight(stores: Stores) -> None:
    """On the day of 25 hours too: its last hour still counts in it."""
    stores, acme = await acme_in_november(stores)
    long = [(f"2026-10-25 {hour:02}:00", "k1", 1, 1) for hour in range(24)]
    await used(stores, acme, *long, ("2026-10-26 00:00", "k1", 1, 1), ("2026-10-24 23:00", "k1", 1, 1))
    found = await told(stores, 23, period=Period.DAY)
    assert found is not None
    assert (found.requests, found.times, found.begins) == (1, 1, "2026-10-25T23:00:00+01:00")
    zero = await told(stores, 0, period=Period.DAY)
    assert zero is not None
    assert (zero.requests, zero.times) == (26, 3)
    assert await told(stores, 1, period=Period.LIFETIME) is None
    assert await told(stores, 1, soft=True) is None
    assert await told(stores, 1, mode=Mode.SHADOW) is None


def test_windows_of_a_month_are_whole_and_without_gaps() -> None:
    """Weeks from the Monday before it, days by the clocks of its zone."""
    month = last_month(BERLIN, at("2026-11-15"))
    assert month == PeriodWindow(at("2026-10-01"), at("2026-11-01"))
    weeks, days = windows_in(Period.WEEK, BERLIN, month), windows_in(Period.DAY, BERLIN, month)
    assert (weeks[0].start_ms, len(weeks), len(days)) == (at("2026-09-28"), 5, 31)
    assert {day.end_ms - day.start_ms for day in days} == {86_400_000, 90_000_000}
    assert all(one.end_ms == next.start_ms for one, next in pairwise(days))


async def test_a_limit_tells_hours_in_which_more_came(stores: Stores) -> None:
    """Than it lets through in a whole hour, its burst included; of what is no rate, nothing."""
    stores, acme = await acme_in_november(stores)
    await used(stores, acme, ("2026-10-01 10:00", "k1", 61, 1), ("2026-10-01 11:00", "k1", 62, 1))
    await used(stores, acme, ("2026-10-02 11:00", "k2", 40, 1), ("2026-10-02 11:00", "k3", 40, 1))
    await used(stores, acme, ("2026-10-03 11:00", "k2", 900, 1), model="other")
    ask = SetLimit(tenant="acme", scope=Scope.TENANT, dimension=Dimension.REQUESTS, limit=1, models="m*")
    found = (await answer_of(limits.set_limit, stores, OWNER, ask, DRY)).last_month
    assert isinstance(found, LastMonth)
    assert (found.hour_lets_through, found.times, found.begins) == (61, 2, "2026-10-01T11:00:00+02:00")
    assert sorted((each.name, each.hours) for each in found.most) == [("k1", 1), ("k2", 1), ("k3", 1)]
    each = SetLimit(tenant="acme", scope=Scope.KEY, dimension=Dimension.TOKENS, limit=10)
    made = await answer_of(limits.set_limit, stores, OWNER, each)
    assert not made.last_month
    edit = EditLimit(tenant="acme", limit_id=made.limit_id, limit=100)
    edited = (await answer_of(limits.edit_limit, stores, OWNER, edit, DRY)).last_month
    assert isinstance(edited, LastMonth)
    assert [(one.name, one.hours) for one in edited.most] == [("k2", 1)]
    few = SetLimit(tenant="acme", scope=Scope.TENANT, dimension=Dimension.CONCURRENCY, limit=1)
    assert (await answer_of(limits.set_limit, stores, OWNER, few, DRY)).last_month is None


async def test_a_command_says_it_in_a_sentence(stores: Stores) -> None:
    """Of a budget with amounts, of a rate with what an hour lets through."""
    stores, acme = await acme_in_november(stores)
    await used(stores, acme, ("2026-10-01 10:00", "k1", 61, 1), ("2026-10-01 11:00", "k1", 62, 2))
    found = await told(stores, 1)
    assert found is not None
    assert last_month_words(found) == (
        "in 2026-10 it would have refused 62 requests of $2.00, from 2026-10-01T11:00:00+02:00 on: "
        "k1 62 ($2.00)"
    )
    ask = SetLimit(tenant="acme", scope=Scope.TENANT, dimension=Dimension.REQUESTS, limit=1)
    rate = (await answer_of(limits.set_limit, stores, OWNER, ask, DRY)).last_month
    assert isinstance(rate, LastMonth)
    assert last_month_words(rate).startswith(
        "in 1 hours of 2026-10 more came than it lets through in one (61)"
    )


async def test_a_dry_override_tells_whom_it_would_have_refused(stores: Stores) -> None:
    """By the limit that would stand in the budget's place, and by its own where the override ends."""
    stores, acme = await acme_in_november(stores)
    await used(stores, acme, ("2026-10-01 00:00", "k1", 5, 60), ("2026-10-03 10:00", "k1", 4, 40))
    set_one = SetBudget(tenant="acme", limit=MoneyAmount.of(50 * USD))
    made = await answer_of(budgets.set_budget, stores, OWNER, set_one)
    found = list[int]()
    for usd in (200, 10):
        other = OverrideBudget(
            tenant="acme", budget=made.budget, limit=MoneyAmount.of(usd * USD), until="2099-01-01"
        )
        would = (await answer_of(budgets.override_budget, stores, OWNER, other, DRY)).last_month
        assert isinstance(would, LastMonth)
        found.append(would.requests)
    ended = OverrideBudget(tenant="acme", budget=made.budget)
    would = (await answer_of(budgets.override_budget, stores, OWNER, ended, DRY)).last_month
    assert isinstance(would, LastMonth)
    assert [*found, would.requests] == [0, 4, 4]
