"""Budgets: what was spent in which window, and the alerts of it, each once."""

import asyncio
import random
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, update
from sqlmodel import col

from billing.booking.adjustments import Correction, correct
from billing.booking.assess import assess
from billing.budgets.spent import BudgetSum, SpendingScope, TenantBudgets
from billing.ledger.grant_spending import GrantKind
from billing.periods import FIRST_MS, LAST_MS, Period, PeriodWindow, window_at
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.tables.limits import Budget
from billing.tables.wallets import (
    AlertTarget,
    BudgetAlert,
    BudgetSpent,
    BudgetWatermark,
    Outbox,
    Wallet,
    WalletGrant,
)
from billing.tenants.tenancy import create_tenant, set_tenant
from billing.usage import UsageEvent, UsageOwner, encode
from billing.wallets.budgets import (
    BudgetSpending,
    budget_faults,
    budget_spending,
    budget_standings,
    check_budgets,
    exhausted_at,
)
from billing.wallets.ledger_check import wallet_faults
from billing.wallets.wallets import NewGrant, expire, grant
from core.clock import now_ms
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import proven, read

COST = 3_700  # of an_event(), in nano-USD
EVER = PeriodWindow(FIRST_MS, LAST_MS)
BERLIN = ZoneInfo("Europe/Berlin")


async def a_tenant(database: Database, zone: str = "UTC", *targets: str) -> str:
    """A tenant with webhooks of these names."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    await set_tenant(database, tenant, time_zone=zone)
    async with database.transaction() as session:
        for name in targets:
            session.add(AlertTarget(tenant_id=tenant, id=name, kind="webhook", address="x", created_ms=0))
    return tenant


async def a_budget(database: Database, tenant: str, limit_nano: int, **facts: Any) -> Budget:
    """An open lifetime budget of the tenant that alerts at 50 and 100 per cent, but for `facts`."""
    defaults: dict[str, Any] = {
        "id": "b1",
        "scope": "tenant",
        "period": "lifetime",
        "thresholds": [50, 100],
        "created_ms": 0,
    }
    row = Budget(tenant_id=tenant, limit_nano=limit_nano, **(defaults | facts))
    async with database.transaction() as session:
        session.add(row)
    return row


async def alerts(database: Database, tenant: str) -> list[tuple[str, int]]:
    """(whose, threshold) of what was reached."""
    rows: list[BudgetAlert] = await read(database, BudgetAlert, tenant)
    return sorted((row.scope_id or row.scope, row.threshold) for row in rows)


async def use(database: Database, *events: UsageEvent) -> None:
    """Post one batch."""
    await post(database, "default", [encode(event) for event in events])


async def test_a_threshold_alerts_once_with_a_message_for_each_target(database: Database) -> None:
    """INV-33: In the transaction that reaches it, and never again: not by a replay, nor by a correction that
    goes below it and usage that reaches it anew."""
    tenant = await a_tenant(database, "UTC", "one", "two")
    await a_budget(database, tenant, 2 * COST)
    await use(database, an_event("r1", tenant))
    assert await alerts(database, tenant) == [("tenant", 50)]
    await use(database, an_event("r1", tenant))
    await correct(database, tenant, Correction("r1", {Meter.OUTPUT: 0}, "x"))
    await use(database, an_event("r2", tenant), an_event("r3", tenant))
    assert await alerts(database, tenant) == [("tenant", 50), ("tenant", 100)]
    messages: list[Outbox] = await read(database, Outbox, tenant)
    told = sorted((row.target_id, row.payload["threshold"], row.payload["spent_nano"]) for row in messages)
    assert told == [("one", 50, COST), ("one", 100, 8_300), ("two", 50, COST), ("two", 100, 8_300)]
    assert await budget_faults(database, tenant) == []


async def test_several_billers_alert_once(database: Database) -> None:
    """Whoever commits first: the others wait for the tenant's books, and find it done."""
    tenant = await a_tenant(database, "UTC", "one")
    await a_budget(database, tenant, 10 * COST, thresholds=[10, 50, 100])
    events = [an_event(f"r{number}", tenant) for number in range(12)]
    random.shuffle(events)
    await asyncio.gather(*(use(database, event) for event in events), use(database, *events))
    assert await alerts(database, tenant) == [("tenant", 10), ("tenant", 50), ("tenant", 100)]
    assert len(await read(database, Outbox, tenant)) == 3
    assert await budget_spending(
        database, tenant, SpendingScope("tenant", ""), "lifetime", EVER
    ) == BudgetSpending(12 * COST, 48)


async def test_an_edit_of_a_limit_forgets_nothing_of_what_was_spent(database: Database) -> None:
    """What an administrator sets is what is enforced. Ended, and set again after more usage,
    the budget stands where all usage puts it; the same limit alerts no second time, another one does."""
    tenant = await a_tenant(database)
    await a_budget(database, tenant, 4 * COST)
    await use(database, an_event("r1", tenant), an_event("r2", tenant))
    async with database.transaction() as session:
        await (await session.connection()).execute(delete(Budget).where(col(Budget.tenant_id) == tenant))
    await use(database, an_event("r3", tenant))
    await a_budget(database, tenant, 4 * COST, id="b2")
    await use(database, an_event("r4", tenant))
    assert await alerts(database, tenant) == [("tenant", 50), ("tenant", 100)]
    await a_budget(database, tenant, 8 * COST, id="b3", mode="shadow")
    await check_budgets(database, tenant)
    assert await alerts(database, tenant) == [("tenant", 50), ("tenant", 50), ("tenant", 100)]
    assert await budget_faults(database, tenant) == []


async def test_a_request_counts_where_it_was_accepted_for_whom_it_was(database: Database) -> None:
    """INV-33: Each day is the tenant's own, late events count in
    theirs, and each user has a budget, but for the one who has its own."""
    tenant = await a_tenant(database, "Europe/Berlin")
    await a_budget(database, tenant, 2 * COST, scope="user", period="day", thresholds=[100])
    await a_budget(
        database, tenant, 3 * COST, id="b2", scope="user", scope_id="vip", period="day", thresholds=[100]
    )
    midnight = int(
        datetime(2026, 3, 28, 23, tzinfo=UTC).timestamp() * 1000
    )  # 29 March in Berlin has 23 hours

    def by(user: str, request: str, at_ms: int) -> UsageEvent:
        owner = UsageOwner(project="p1", key="k1", user=user)
        return an_event(request, tenant, owner=owner, accepted_ms=at_ms, ended_ms=at_ms + 1)

    for number, user in enumerate(("ann", "vip", "")):
        await use(database, *(by(user, f"{number}-{n}", midnight + n) for n in (-1, 0)))
    assert await alerts(database, tenant) == []
    day = window_at(Period.DAY, BERLIN, midnight)
    assert day.end_ms - day.start_ms == 23 * 3_600_000
    await use(database, by("ann", "last", day.end_ms - 1), by("ann", "next", day.end_ms))
    await use(database, by("vip", "late", midnight - 5), by("vip", "later", midnight - 6))
    assert await alerts(database, tenant) == [("ann", 100), ("vip", 100)]
    assert (
        await budget_spending(database, tenant, SpendingScope("user", "ann"), "day", day)
    ).nano == 2 * COST
    rows: list[BudgetAlert] = await read(database, BudgetAlert, tenant)
    starts = {row.scope_id: row.window_start_ms for row in rows}
    assert starts == {"ann": day.start_ms, "vip": window_at(Period.DAY, BERLIN, midnight - 1).start_ms}
    assert await budget_faults(database, tenant) == []


async def test_order_and_repeats_of_events_change_no_sum_and_no_alert(database: Database) -> None:
    """The kept sums are those of the lines, whatever came
    when, whoever made a correction between, also after they were lost."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chosen, tenant = random.Random(seed), await a_tenant(database, "America/Sao_Paulo")
    for number, scope in enumerate(("tenant", "project", "key", "user", "model")):
        period = chosen.choice(list(Period)).value
        await a_budget(database, tenant, 90_000, id=str(number), scope=scope, period=period)
    start = int(datetime(2018, 11, 3, 12, tzinfo=UTC).timestamp() * 1000)  # clocks skip midnight the next day
    events = [
        an_event(
            f"r{number:02}",
            tenant,
            model=chosen.choice(("small", "large")),
            owner=UsageOwner(project="p1", key=chosen.choice(("k1", "k2")), user=chosen.choice(("", "u1"))),
            accepted_ms=start + chosen.randrange(30) * 3_600_000,
            output_text=chosen.choice((0, 1, 50)),
        )
        for number in range(30)
    ]
    deliveries = [*events, *chosen.sample(events, 10)]
    chosen.shuffle(deliveries)
    for at in range(0, len(deliveries), 8):
        await use(database, *deliveries[at : at + 8])
        wanted = Correction(deliveries[at].request, {Meter.INPUT: chosen.randrange(500)}, f"c{at}")
        await correct(database, tenant, wanted)
        if at == 16:
            async with database.transaction() as session:
                await (await session.connection()).execute(delete(BudgetWatermark))
    assert await budget_faults(database, tenant) == []
    sums: list[BudgetSpent] = await read(database, BudgetSpent, tenant)
    total = (await proven(database, tenant)).amount_nano
    assert sum(row.spent_nano for row in sums if row.scope == "tenant") == total
    for row in sums:
        window = PeriodWindow(row.window_start_ms, row.window_end_ms)
        found = await budget_spending(
            database, tenant, SpendingScope(row.scope, row.scope_id), row.period, window
        )
        assert found.nano == row.spent_nano
    assert (
        await budget_spending(database, tenant, SpendingScope("tenant", ""), "lifetime", EVER)
    ).nano == total
    before = await alerts(database, tenant)
    await use(database, *events)
    assert await alerts(database, tenant) == before


async def test_a_kept_sum_that_is_wrong_is_found(database: Database) -> None:
    """And so is a wallet that says something else than its books."""
    tenant = await a_tenant(database)
    await a_budget(database, tenant, 9 * COST, period="day")
    await grant(database, tenant, NewGrant(GrantKind.PAID, 9 * COST, "a"))
    await use(database, an_event("r1", tenant, accepted_ms=now_ms()))
    for whole in (True, False):
        assert (
            await budget_faults(database, tenant, whole) == await wallet_faults(database, tenant, whole) == []
        )
    async with database.transaction() as session:
        connection = await session.connection()
        await connection.execute(update(BudgetSpent).values(spent_nano=1))
        await connection.execute(update(WalletGrant).values(left_nano=1))
        await connection.execute(update(Wallet).values(posted_nano=1))
    for whole, number in ((True, 3), (False, 2)):  # a grant's rest, what is owed, what was posted
        assert len(await budget_faults(database, tenant, whole)) == 1
        assert len(await wallet_faults(database, tenant, whole)) == number


async def test_an_override_holds_until_its_time_and_ends_by_itself(sqlite: Database) -> None:
    """What holds now is always said, with when it begins anew."""
    tenant, now = await a_tenant(sqlite), now_ms()
    budget = await a_budget(sqlite, tenant, COST, override_nano=9 * COST, override_until_ms=now + 60_000)
    await use(sqlite, an_event("r1", tenant))
    assert await alerts(sqlite, tenant) == []
    ((_, (standing,)),) = await budget_standings(sqlite, tenant, now)
    assert (standing.limit_nano, standing.left_nano, standing.percent) == (9 * COST, 8 * COST, 11)
    ((_, (later,)),) = await budget_standings(sqlite, tenant, now + 60_000)
    assert (later.limit_nano, later.left_nano, later.percent) == (COST, 0, 100)
    assert later.budget.id == budget.id


async def test_a_budget_for_each_shows_who_spent_the_most(sqlite: Database) -> None:
    """And not those who have a budget of their own."""
    tenant = await a_tenant(sqlite)
    await a_budget(sqlite, tenant, 5 * COST, scope="model")
    await a_budget(sqlite, tenant, COST, id="b2", scope="model", scope_id="large")
    events = [an_event(f"{name}{n}", tenant, model=name) for name in ("small", "tiny") for n in range(2)]
    await use(sqlite, *events, an_event("more", tenant, model="tiny"), an_event("l", tenant, model="large"))
    (_, each), (_, named) = await budget_standings(sqlite, tenant, now_ms(), each_max=5)
    assert [(found.counted.scope_id, found.spent_nano) for found in each] == [
        ("tiny", 3 * COST),
        ("small", 2 * COST),
    ]
    assert [(found.counted.scope_id, found.left_nano) for found in named] == [("large", 0)]


async def test_a_wallet_alerts_when_little_of_the_last_top_up_is_left(database: Database) -> None:
    """At 20 and at 5 per cent of it; the next top-up alerts anew; what expires counts as gone."""
    tenant, ends = await a_tenant(database, "UTC", "one"), now_ms() + 3_600_000
    await grant(database, tenant, NewGrant(GrantKind.PAID, 5 * COST, "a"))
    await use(database, *(an_event(f"r{n}", tenant) for n in range(3)))
    assert await alerts(database, tenant) == []
    await use(database, an_event("r3", tenant))  # 20 per cent are left, no nano less
    assert [threshold for _, threshold in await alerts(database, tenant)] == [20]
    await use(database, an_event("r4", tenant))
    assert [threshold for _, threshold in await alerts(database, tenant)] == [5, 20]
    await grant(database, tenant, NewGrant(GrantKind.PAID, 100 * COST, "b", expires_ms=ends))
    await use(database, an_event("r5", tenant))
    assert len(await alerts(database, tenant)) == 2
    await expire(database, tenant, ends)
    assert len(await alerts(database, tenant)) == 4
    messages: list[Outbox] = await read(database, Outbox, tenant)
    assert [row.payload["type"] for row in messages] == ["wallet.low"] * 4


def test_the_pace_of_a_window_says_when_its_limit_is_reached() -> None:
    """Half spent in a quarter of the time: at half time. Never later than the window ends."""
    window = PeriodWindow(1_000, 5_000)
    assert exhausted_at(100, 50, window, 2_000) == 3_000
    assert exhausted_at(100, 20, window, 2_000) is None
    assert exhausted_at(100, 100, window, 2_000) == 2_000
    assert exhausted_at(100, 0, window, 2_000) is None
    assert exhausted_at(0, 0, window, 2_000) == 2_000
    assert exhausted_at(100, 25, window, 2_000) is None  # with the window's end it begins anew
    assert exhausted_at(100, 26, window, 2_000) == 4_846
    assert exhausted_at(100, 1, window, 1_000) is None
    assert exhausted_at(100, 99, window, 1_200) is None  # a moment says nothing of the pace
    assert exhausted_at(100, 99, window, 1_201) == 1_203


@pytest.mark.parametrize(
    ("scope", "whose"),
    [("tenant", ""), ("project", "p1"), ("key", "k1"), ("user", "u1"), ("model", "smollm2"), ("moon", None)],
)
def test_a_request_counts_for_whom_it_was_asked(scope: str, whose: str | None) -> None:
    """In a budget of just that one, or of each; who has no project, key, user or model is nobody."""
    facts: dict[str, Any] = {"tenant_id": "t", "scope": scope, "period": "day", "limit_nano": 1}
    facts["thresholds"] = []
    each, own, other = (
        Budget(id=id, created_ms=0, scope_id=of, **facts)
        for id, of in (("e", ""), ("o", whose or "x"), ("n", "y"))
    )
    of = TenantBudgets("t", "UTC", [own, each, other])
    asked = assess("default", [encode(an_event())], 0).good[0].row
    nobody = msgspec.structs.replace(asked, project_id="", key_id="", user_id="", model="")
    wanted = (
        [] if whose is None else [BudgetSum(SpendingScope(scope, whose), "day", PeriodWindow(0, 86_400_000))]
    )
    assert of.sums_of(asked) == wanted
    assert of.sums_of(nobody) == (wanted if scope == "tenant" else [])


async def test_what_is_kept_is_moved_and_only_where_it_is_behind_made_anew(sqlite: Database) -> None:
    """A posting reads no more than its own lines; one that finds a gap trusts nothing that is there."""
    tenant = await a_tenant(sqlite)
    await a_budget(sqlite, tenant, 10 * COST)
    await use(sqlite, an_event("r1", tenant))
    await change(sqlite, update(BudgetSpent).values(spent_nano=1))
    other = (await create_tenant(sqlite, "other")).tenant_id
    nothing = an_event("r0", tenant, input_uncached=0, input_cached=0, output_text=0)
    await use(sqlite, an_event("r2", tenant), nothing, an_event("r3", tenant), an_event("r1", other))
    assert [row.spent_nano for row in await kept(sqlite, tenant)] == [1 + 2 * COST]
    await change(sqlite, update(BudgetWatermark).values(line_seq=BudgetWatermark.line_seq - 1))
    await change(sqlite, update(BudgetSpent).values(scope_id="gone"))
    await use(sqlite, an_event("r4", tenant))
    assert [(row.scope_id, row.spent_nano) for row in await kept(sqlite, tenant)] == [("", 4 * COST)]


async def kept(database: Database, tenant: str) -> list[BudgetSpent]:
    """The sums of a tenant."""
    return await read(database, BudgetSpent, tenant)


async def change(database: Database, what: Any) -> None:
    """Behind the code's back."""
    async with database.transaction() as session:
        await (await session.connection()).execute(what)


@given(st.integers(0, LAST_MS - 1), st.sampled_from([each.value for each in Period]))
def test_a_request_counts_in_the_one_window_that_it_is_in(at_ms: int, period: str) -> None:
    """Also where the window is known from another request."""
    budget = Budget(
        tenant_id="t", id="b", scope="tenant", period=period, limit_nano=1, thresholds=[], created_ms=0
    )
    of = TenantBudgets("t", "Australia/Lord_Howe", [budget])
    zone = ZoneInfo(of.time_zone)
    for moment in (at_ms, max(0, at_ms - 86_400_000), at_ms):
        assert of.window_of(period, moment) == window_at(Period(period), zone, moment)


async def test_an_event_from_outside_of_the_calendar_is_billed_and_counts_in_no_budget(
    sqlite: Database,
) -> None:
    """It holds up nobody else's."""
    tenant = await a_tenant(sqlite)
    await a_budget(sqlite, tenant, COST, period="month")
    await use(sqlite, an_event("far", tenant, accepted_ms=LAST_MS), an_event("near", tenant))
    assert await alerts(sqlite, tenant) == [("tenant", 50), ("tenant", 100)]
    rows: list[BudgetSpent] = await read(sqlite, BudgetSpent, tenant)
    assert [row.spent_nano for row in rows] == [COST]
    assert await budget_faults(sqlite, tenant) == []
