"""What a month costs so far, beside the month before, and how long its money lasts."""

from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from billing.ledger.grant_spending import GrantKind
from billing.operations import budgets, spend_summary, tenants
from billing.operations.budgets import SetBudget
from billing.operations.spend_facts import MonthState
from billing.operations.spend_summary import AskSpend, SpendSummary
from billing.operations.tenants import SetTenant
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.wallets.wallets import NewGrant, grant
from core.clock import clock_from
from core.operations import MoneyAmount, Role
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.billing.spending import Moment, noons, spend

NOW = Moment(datetime(2025, 11, 18, 13, 32, tzinfo=UTC))
DOLLAR = 10**9
WHY = Terms(reason="a test's")


@pytest.fixture(autouse=True)
def now() -> Generator[None]:
    """All happens on 18 November 2025."""
    with clock_from(NOW):
        yield


async def summary(stores: Stores, name: str = "acme", month: str | None = None) -> SpendSummary:
    """What its owner sees."""
    return await answer_of(spend_summary.show_spend, stores, OWNER, AskSpend(tenant=name, month=month))


async def tenant_id(stores: Stores, name: str = "acme", **terms: Any) -> str:
    """The tenant with other terms: its id."""
    set_ = SetTenant(tenant=name, **terms)
    return (await answer_of(tenants.set_tenant, stores, OWNER, set_, WHY)).tenant


async def test_a_month_so_far_beside_the_same_days_before(stores: Stores) -> None:
    """Today is left out of the comparison, as it is not over; of the books up to the nano."""
    await spend(stores.db, "acme", noons(date(2025, 10, 1), [10] * 31 + [12] * 17 + [5]))
    await spend(stores.db, "other", noons(date(2025, 11, 1), [1000] * 3))
    found = await summary(stores)
    assert (found.month, found.state, found.currency) == ("2025-11", MonthState.OPEN, "USD")
    assert found.cost == MoneyAmount.of((17 * 12 + 5) * DOLLAR)
    assert found.compared is not None
    assert (found.compared.by, found.compared.before_by) == (date(2025, 11, 17), date(2025, 10, 17))
    assert (found.compared.cost.value, found.compared.before.value) == (204 * DOLLAR, 170 * DOLLAR)
    assert [each.over for each in found.days] == [True] * 17 + [False]
    assert sum(each.cost.value for each in found.before) == 310 * DOLLAR
    assert (found.at, found.closes) == ("2025-11-18T13:32:00+00:00", "2025-12-02T00:00:00+00:00")


async def test_the_budget_ends_where_the_path_crosses_it(stores: Stores) -> None:
    """By the expected path and by the bounds of the band."""
    await spend(stores.db, "acme", noons(date(2025, 9, 20), [10] * 59))
    limit = SetBudget(tenant="acme", limit=MoneyAmount.of(255 * DOLLAR))
    await answer_of(budgets.set_budget, stores, OWNER, limit, WHY)
    found = await summary(stores)
    assert found.forecast is not None
    assert found.forecast.cost.value == pytest.approx(
        290 * DOLLAR, rel=0.02
    )  # at half past one, noon is over
    assert found.forecast.low.value < found.forecast.cost.value < found.forecast.high.value
    assert (found.forecast.days[0].day, found.forecast.days[-1].day) == (
        date(2025, 11, 18),
        date(2025, 11, 30),
    )
    [budget] = found.budgets
    assert (budget.left.value, budget.percent, budget.owner) == (85 * DOLLAR, 66, "")
    assert budget.lasts
    early, day, late = budget.lasts.early, budget.lasts.day, budget.lasts.late
    assert early is not None
    assert late is not None
    assert date(2025, 11, 18) < early <= date(2025, 11, 27) <= late
    assert day == date(2025, 11, 27)


async def test_a_grant_that_lapses_does_not_pay_on(stores: Stores) -> None:
    """The wallet ends earlier than its sum would."""
    owner = await tenant_id(stores)
    await spend(stores.db, "acme", noons(date(2025, 9, 20), [10] * 59))
    assert (await summary(stores)).wallet is None
    soon = NOW.unix_ms + 3 * 86_400_000
    await grant(stores.db, owner, NewGrant(GrantKind.PROMO, 500 * DOLLAR, "one", expires_ms=soon))
    await grant(stores.db, owner, NewGrant(GrantKind.PAID, 75 * DOLLAR, "two"))
    wallet = (await summary(stores)).wallet
    assert wallet is not None
    assert wallet.left.value == 575 * DOLLAR
    assert wallet.lasts is not None
    assert wallet.lasts.day in (date(2025, 11, 28), date(2025, 11, 29))


@pytest.mark.parametrize(
    ("zone", "midnight"),
    [("Asia/Kolkata", "2025-11-10T18:30:00+00:00"), ("Asia/Kathmandu", "2025-11-10T18:15:00+00:00")],
)
async def test_days_are_those_of_odd_zones(stores: Stores, zone: str, midnight: str) -> None:
    """An hour of UTC that is in two days counts in each with its own part."""
    await tenant_id(stores, time_zone=zone)
    at = datetime.fromisoformat(midnight)
    await spend(stores.db, "acme", {at - timedelta(minutes=5): 3, at: 4, at + timedelta(minutes=50): 8})
    costs = {
        each.day.day: each.cost.value // DOLLAR for each in (await summary(stores)).days if each.cost.value
    }
    assert costs == {10: 3, 11: 12}


async def test_a_day_of_25_hours_is_one_day(stores: Stores) -> None:
    """Clocks went back in Berlin on 26 October 2025; the next day begins at 23:00 UTC."""
    await tenant_id(stores, time_zone="Europe/Berlin")
    day = datetime(2025, 10, 25, 22, tzinfo=UTC)
    await spend(
        stores.db, "acme", {day: 1, day + timedelta(hours=24, minutes=59): 2, day + timedelta(hours=25): 4}
    )
    found = await summary(stores, month="2025-10")
    assert {each.day.day: each.cost.value // DOLLAR for each in found.days if each.cost.value} == {
        26: 3,
        27: 4,
    }


async def test_a_month_that_is_over_has_no_forecast(stores: Stores) -> None:
    """It is compared whole, and says when it will be closed, if at all."""
    await spend(stores.db, "acme", noons(date(2025, 9, 1), [10] * 61))
    found = await summary(stores, month="2025-10")
    assert (found.state, found.forecast, found.budgets, found.wallet) == (MonthState.OVER, None, [], None)
    assert found.compared is not None
    assert (found.compared.cost.value, found.compared.before.value) == (310 * DOLLAR, 300 * DOLLAR)
    assert found.closes == "2025-11-02T00:00:00+00:00"
    never = replace(stores, settings=stores.settings.model_copy(update={"close_months_after_hours": 0}))
    assert (await summary(never, month="2025-10")).closes is None


async def test_a_new_tenant_sees_zeros(stores: Stores) -> None:
    """And no forecast, no comparison, nothing booked."""
    found = await summary(stores)
    assert (found.cost.value, found.forecast, found.booked) == (0, None, None)
    assert found.compared is not None
    assert (found.compared.cost.value, found.compared.before.value) == (0, 0)


async def test_it_is_for_whoever_sees_money(stores: Stores) -> None:
    """Of their own tenant; to others there is none."""
    acme = await tenant_id(stores)
    for role in (Role.ADMIN, Role.BILLING):
        ask = AskSpend(tenant=acme)
        assert (await answer_of(spend_summary.show_spend, stores, member_of(acme, role), ask)).tenant == acme
        other = member_of("another", role)
        assert (await refusal_of(spend_summary.show_spend, stores, other, ask)).unknown
    for month, why in (("2026-01", "has not begun"), ("soon", "is no month")):
        refusal = await refusal_of(
            spend_summary.show_spend, stores, OWNER, AskSpend(tenant=acme, month=month)
        )
        assert (refusal.field, why in refusal.message) == ("month", True)
