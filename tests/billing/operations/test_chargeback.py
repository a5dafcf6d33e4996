"""Chargeback by operation: a month by two facts, the months, who may see them, and what is refused."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from billing.operations import chargeback, projects
from billing.operations.chargeback import AskChargeback, ChargebackReport, HeadKind
from billing.operations.projects import ChargeProject, CreateCostCenter
from billing.operations.shared_fields import NameTenant
from billing.operations.statement import AskStatement, show_statement
from billing.posting import biller
from billing.posting.biller import post
from billing.tenants.tenancy import find_project
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageOwner, encode
from core.clock import iso_time, now_ms
from core.operations import PAYERS, Role
from tests.billing.closing.closing_month import GRADUATED, a_request, a_tenant, closed, in_month
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

WHY = Terms(reason="a test's")
JANUARY = AskChargeback(tenant="tiered", month="2025-01", rows="project")


async def reported(stores: Stores, ask: AskChargeback = JANUARY) -> ChargebackReport:
    """What staff is shown."""
    return await answer_of(chargeback.report, stores, OWNER, ask)


def cells(told: ChargebackReport) -> dict[tuple[str, str], int]:
    """The cells that are not zero, by what stands at their row and column."""
    return {
        (line.head.name or line.head.kind, head.name or head.kind): cell.value
        for line in told.lines
        for head, cell in zip(told.heads, line.cells, strict=True)
        if cell.value
    }


async def test_a_closed_month_and_the_same_month_before_its_close(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the close booked has a column of its own; as of before it is not there, and the month is open.
    The total is the statement's. The months say what each costs."""
    tenant = await a_tenant(stores.db, GRADUATED, name="tiered")
    events = [a_request(1, tenant, 1, 40_000), a_request(2, tenant, 2, 7)]
    monkeypatch.setattr(biller, "now_ms", lambda: in_month(3))
    await post(stores.db, "default", [encode(each) for each in events])
    before = await reported(stores)
    assert cells(before) == {("p1", "smollm2"): events[0].cost_nano}
    assert before.closed is None
    booked = await closed(stores.db, tenant, 1)
    assert booked.closed_ms is not None
    after = await reported(stores)
    assert booked.amount_nano < 0
    assert cells(after) == {("p1", "smollm2"): events[0].cost_nano, ("nobody", "tiers"): booked.amount_nano}
    assert after.closed == iso_time(booked.closed_ms)
    statement = await answer_of(show_statement, stores, OWNER, AskStatement(tenant="tiered", month="2025-01"))
    assert after.total == statement.total.cost
    as_of = msgspec.structs.replace(JANUARY, as_of="2025-03-20")
    earlier = await reported(stores, as_of)
    assert (earlier.lines, earlier.closed, earlier.as_of) == (before.lines, None, "2025-03-20T00:00:00+00:00")
    assert (await reported(stores, msgspec.structs.replace(as_of, as_of="2025-03-09"))).lines == []
    later = replace(stores, now_ms=lambda: in_month(3))
    months = await answer_of(chargeback.list_months, later, OWNER, NameTenant(tenant="tiered"))
    assert [(each.month, each.closed, each.cost.value) for each in months.items] == [
        ("2025-03", None, 0),
        ("2025-02", None, events[1].cost_nano),
        ("2025-01", after.closed, after.total.value),
    ]


async def test_names_are_shown_as_people_know_them(stores: Stores) -> None:
    """A cost center by its code and its name, in any script; a project and a key by their names."""
    name = "خدمة العملاء 😀 =SUM(A1)"
    center = CreateCostCenter(tenant="acme", code="4100", name=name)
    tenant, now = (await reported(stores, AskChargeback(tenant="acme"))).tenant, now_ms()
    await answer_of(projects.create_cost_center, stores, OWNER, center, WHY)
    charge = ChargeProject(tenant="acme", project="default", cost_center="4100")
    await answer_of(projects.charge_project, stores, OWNER, charge, WHY)
    found = await find_project(stores.db, tenant, "default")
    assert found is not None
    event = an_event("r1", tenant, owner=UsageOwner(found.id, "k9", "u1"), ended_ms=now + 1000)
    await post(stores.db, "default", [encode(event)])
    month = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m")
    told = await reported(stores, AskChargeback(tenant="acme", month=month, columns="project"))
    assert cells(told) == {(f"4100 {name}", "default"): event.cost_nano}


@pytest.mark.parametrize("role", [*Role])
async def test_who_may_see_money_sees_that_of_their_own_tenant(stores: Stores, role: Role) -> None:
    """Staff and a tenant's payers; to a member another tenant does not exist."""
    mine = member_of((await reported(stores, AskChargeback(tenant="acme"))).tenant, role)
    for run, ask in ((chargeback.report, AskChargeback), (chargeback.list_months, NameTenant)):
        if role not in PAYERS:
            continue
        assert await answer_of(run, stores, mine, ask(tenant="acme"))
        assert (await refusal_of(run, stores, mine, ask(tenant="other"))).unknown
    if role in (Role.DEVELOPER, Role.VIEWER):
        refused = await refusal_of(chargeback.report, stores, mine, AskChargeback(tenant="acme"))
        assert refused.code == "forbidden"


async def test_what_is_no_report_is_refused_at_its_field(stores: Stores) -> None:
    """The same fact twice, no month, no time."""
    for changes, field in (
        ({"columns": "project"}, "columns"),
        ({"month": "2025-13"}, "month"),
        ({"as_of": "yesterday", "month": None}, "as_of"),
    ):
        ask = msgspec.structs.replace(JANUARY, tenant="acme", **changes)
        assert (await refusal_of(chargeback.report, stores, OWNER, ask)).field == field


async def test_ten_thousand_users_are_a_few_and_the_others(stores: Stores) -> None:
    """Nothing is cut off: how many others there are, and what they cost, is told."""
    tenant = await a_tenant(stores.db, GRADUATED, name="tiered")
    events = [
        msgspec.structs.replace(
            a_request(n, tenant, 1, 10 + n), owner=UsageOwner("p1", f"k{n % 3}", f"u{n:03}")
        )
        for n in range(200)
    ]
    await post(stores.db, "default", [encode(each) for each in events])
    ask = msgspec.structs.replace(JANUARY, rows="user", columns="key", top_rows=4, top_columns=2)
    told = await reported(stores, ask)
    assert [line.head.name for line in told.lines] == ["u199", "u198", "u197", "u196", ""]
    assert (told.lines[-1].head.kind, told.lines[-1].head.more) == (HeadKind.OTHER, 196)
    assert (told.heads[-1].kind, told.heads[-1].more) == (HeadKind.OTHER, 1)
    assert told.total.value == sum(each.cost_nano for each in events)
