"""Operations on projects, cost centers and users: whose they are, and what a dry run leaves."""

from datetime import UTC, datetime, timedelta

import msgspec

from billing.audit.log import list_rows
from billing.operations import chargeback, projects, tenants, users
from billing.operations.chargeback import AskChargeback
from billing.operations.projects import (
    ChargeProject,
    CloseCostCenter,
    CreateCostCenter,
    CreateProject,
    ListOfTenant,
    NameCostCenter,
    NameProject,
)
from billing.operations.tenants import NameTenant
from billing.operations.users import ListUsers, NameUser
from billing.posting.biller import post
from billing.tenants import cost_centers
from billing.tenants.tenancy import find_project
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageOwner, encode
from core.clock import now_ms
from core.operations import Role
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.support.patience import wait_until

DRY = Terms(dry_run=True)
OWN, OTHERS = ListOfTenant(tenant="acme"), ListOfTenant(tenant="other")


async def test_another_tenants_project_and_cost_center_are_unknown(stores: Stores) -> None:
    """By name and by id; nothing of theirs changes."""
    made = await answer_of(projects.create_project, stores, OWNER, CreateProject(tenant="acme", name="lab"))
    center = await answer_of(
        projects.create_cost_center, stores, OWNER, CreateCostCenter(tenant="acme", code="4711")
    )
    for named in ("lab", made.project):
        ask = NameProject(tenant="other", project=named)
        for run in (projects.close_project, projects.reopen_project):
            refusal = await refusal_of(run, stores, OWNER, ask)
            assert (refusal.unknown, refusal.field) == (True, "project")
    for named in ("4711", center.cost_center):
        ask = ChargeProject(tenant="other", project="default", cost_center=named)
        refusal = await refusal_of(projects.charge_project, stores, OWNER, ask)
        assert (refusal.unknown, refusal.field) == (True, "cost_center")
    assert (await answer_of(projects.list_cost_centers, stores, OWNER, OTHERS)).items == []
    listed = (await answer_of(projects.list_projects, stores, OWNER, OWN)).items
    assert [(each.name, each.cost_center, each.closed) for each in listed] == [
        ("default", "", None),
        ("lab", "", None),
    ]


async def test_what_is_only_tried_is_not_there(stores: Stores) -> None:
    """A project, a cost center, a charge, and a user who would be closed."""
    await answer_of(projects.create_project, stores, OWNER, CreateProject(tenant="acme", name="lab"), DRY)
    center = CreateCostCenter(tenant="acme", code="4711")
    await answer_of(projects.create_cost_center, stores, OWNER, center, DRY)
    assert (await answer_of(projects.list_cost_centers, stores, OWNER, OWN)).items == []
    await answer_of(projects.create_cost_center, stores, OWNER, center)
    charge = ChargeProject(tenant="acme", project="default", cost_center="4711")
    assert (await answer_of(projects.charge_project, stores, OWNER, charge, DRY)).cost_center == "4711"
    (only,) = (await answer_of(projects.list_projects, stores, OWNER, OWN)).items
    assert (only.name, only.cost_center) == ("default", "")
    closed = await answer_of(users.close_user, stores, OWNER, NameUser(tenant="acme", user="ann"), DRY)
    assert closed.closed is not None
    assert (await answer_of(users.list_users, stores, OWNER, ListUsers(tenant="acme"))).items == []


async def test_a_developer_reads_who_pays_and_changes_nothing(stores: Stores) -> None:
    """An administrator of the tenant does, in their own tenant only."""
    acme = (await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))).tenant
    developer, admin = member_of(acme, Role.DEVELOPER), member_of(acme, Role.ADMIN)
    assert len((await answer_of(projects.list_projects, stores, developer, OWN)).items) == 1
    ask = CreateProject(tenant="acme", name="lab")
    assert (await refusal_of(projects.create_project, stores, developer, ask)).code == "forbidden"
    await answer_of(projects.create_project, stores, admin, ask)
    elsewhere = CreateProject(tenant="other", name="lab")
    assert (await refusal_of(projects.create_project, stores, admin, elsewhere)).unknown


async def test_things_are_found_by_a_part_of_their_names(stores: Stores) -> None:
    """In whichever case and form of Unicode; what stands for anything in SQL stands for itself. A cursor is
    good for its own question alone."""
    for name in ("Labs 100%", "Été", "lab_b"):
        await answer_of(projects.create_project, stores, OWNER, CreateProject(tenant="acme", name=name))
        await answer_of(users.create_user, stores, OWNER, NameUser(tenant="acme", user=name))
        center = CreateCostCenter(tenant="acme", code=f"c-{name}", name="Books")
        await answer_of(projects.create_cost_center, stores, OWNER, center)
    for part, found in (
        ("LAB", ["Labs 100%", "lab_b"]),
        ("0%", ["Labs 100%"]),
        ("b_", ["lab_b"]),
        ("E\u0301t", ["Été"]),
        ("/", []),
    ):
        ask = ListOfTenant(tenant="acme", name=part)
        listed = (await answer_of(projects.list_projects, stores, OWNER, ask)).items
        assert [each.name for each in listed] == found, part
        known = await answer_of(users.list_users, stores, OWNER, ListUsers(tenant="acme", name=part))
        assert [each.user for each in known.items] == found, part
        centers = (await answer_of(projects.list_cost_centers, stores, OWNER, ask)).items
        assert sorted(each.code for each in centers) == sorted(f"c-{name}" for name in found), part
    books = ListOfTenant(tenant="acme", name="book", limit=2)
    page = await answer_of(projects.list_cost_centers, stores, OWNER, books)
    assert len(page.items) == 2
    other = ListOfTenant(tenant="acme", name="c-", after=page.next or "")
    assert (await refusal_of(projects.list_cost_centers, stores, OWNER, other)).field == "after"


async def charged(stores: Stores, project: str, code: str, start: datetime | None = None) -> None:
    """A project of acme that a cost center pays for; both are made where they are not there."""
    listed = (await answer_of(projects.list_projects, stores, OWNER, OWN)).items
    if project not in [each.name for each in listed]:
        await answer_of(projects.create_project, stores, OWNER, CreateProject(tenant="acme", name=project))
    centers = (await answer_of(projects.list_cost_centers, stores, OWNER, OWN)).items
    if code not in [each.code for each in centers]:
        ask = CreateCostCenter(tenant="acme", code=code)
        await answer_of(projects.create_cost_center, stores, OWNER, ask)
    charge = ChargeProject(tenant="acme", project=project, cost_center=code, start=start)
    await answer_of(projects.charge_project, stores, OWNER, charge)


async def payers(stores: Stores) -> dict[str, str]:
    listed = (await answer_of(projects.list_projects, stores, OWNER, OWN)).items
    return {each.name: each.cost_center for each in listed if each.cost_center}


def closing(code: str, move_to: str = "") -> CloseCostCenter:
    return CloseCostCenter(tenant="acme", cost_center=code, move_to=move_to)


async def test_a_cost_center_that_pays_is_not_closed_without_an_heir(stores: Stores) -> None:
    """The refusal names its projects, also those that it pays for later on; so are an heir that is none."""
    for name in "abcdef":
        await charged(stores, name, "4711")
    await charged(stores, "g", "4712")
    later = datetime.now(UTC) + timedelta(days=9)
    await charged(stores, "g", "4711", later)
    refusal = await refusal_of(projects.close_cost_center, stores, OWNER, closing("4711"))
    assert refusal.field == "move_to"
    assert "'a', 'b', 'c', 'd', 'e' and 2 more" in refusal.message
    for code, heir in (("4711", "4711"), ("4711", "none"), ("none", "")):
        refusal = await refusal_of(projects.close_cost_center, stores, OWNER, closing(code, heir))
        assert refusal.field == ("cost_center" if code == "none" else "move_to")


async def test_an_heir_pays_from_now_on(stores: Stores) -> None:
    """Also for what the closed one was to pay for later. A project that moved away before stays there."""
    await charged(stores, "lab", "4711")
    await charged(stores, "web", "4711")
    await charged(stores, "web", "4712")
    await charged(stores, "web", "4711", datetime.now(UTC) + timedelta(days=9))
    await charged(stores, "own", "4712")
    done = await answer_of(projects.close_cost_center, stores, OWNER, closing("4711", "4712"))
    assert (done.code, done.moved, done.closed is not None) == ("4711", ["lab", "web"], True)
    assert await payers(stores) == {"lab": "4712", "own": "4712", "web": "4712"}
    acme = (await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))).tenant
    moves = await cost_centers.charges_of(stores.db, acme)
    (closed, *_), last = [each.cost_center_id for each in moves], moves[-1].cost_center_id
    assert (last != closed, moves[-1].valid_from_ms > now_ms()) == (True, True)
    actions = [row.action for row in await list_rows(stores.db, acme)]
    assert actions.count("project.move") == 7
    assert actions.count("cost_center.close") == 1


async def test_a_project_is_taken_off_its_cost_center(stores: Stores) -> None:
    """Charged to nobody, it is listed without one, later usage is the tenant's own, and the last cost center
    can be closed."""
    await charged(stores, "lab", "4711")
    ask = ChargeProject(tenant="acme", project="lab", cost_center="")
    assert (await answer_of(projects.charge_project, stores, OWNER, ask)).cost_center == ""
    assert await payers(stores) == {}
    tenant = (await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))).tenant
    project = await find_project(stores.db, tenant, "lab")
    assert project is not None
    taken = now_ms()
    await wait_until(lambda: now_ms() > taken)
    owner = UsageOwner(project.id, "k", "u")
    event = an_event("r1", tenant, owner=owner, accepted_ms=now_ms(), ended_ms=now_ms())
    await post(stores.db, "default", [encode(event)])
    month = AskChargeback(tenant="acme", month=datetime.now(UTC).strftime("%Y-%m"), rows="cost_center")
    (line,) = (await answer_of(chargeback.report, stores, OWNER, month)).lines
    assert line.head.name == ""
    closed = await answer_of(projects.close_cost_center, stores, OWNER, closing("4711"))
    assert (closed.closed is not None, closed.moved) == (True, [])


async def test_a_cost_center_is_closed_with_nobody_to_pay(stores: Stores) -> None:
    """Also for what it was to pay for later. Nobody and an heir at once are refused."""
    await charged(stores, "lab", "4711")
    await charged(stores, "web", "4711", datetime.now(UTC) + timedelta(days=9))
    both = msgspec.structs.replace(closing("4711", "4711"), to_nobody=True)
    assert (await refusal_of(projects.close_cost_center, stores, OWNER, both)).field == "move_to"
    alone = msgspec.structs.replace(closing("4711"), to_nobody=True)
    assert (await answer_of(projects.close_cost_center, stores, OWNER, alone)).moved == ["lab", "web"]
    assert await payers(stores) == {}
    tenant = (await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))).tenant
    held = {each.project_id: each.cost_center_id for each in await cost_centers.charges_of(stores.db, tenant)}
    assert set(held.values()) == {None}


async def test_nothing_is_charged_to_a_closed_cost_center(stores: Stores) -> None:
    """Neither by a move nor as an heir, until it is reopened. Closing twice keeps the first time, and its
    code stays taken."""
    await charged(stores, "lab", "4711")
    await charged(stores, "lab", "4712")
    first = await answer_of(projects.close_cost_center, stores, OWNER, closing("4711"))
    again = await answer_of(projects.close_cost_center, stores, OWNER, closing("4711"))
    assert (first.closed, first.moved) == (again.closed, [])
    charge = ChargeProject(tenant="acme", project="lab", cost_center="4711")
    refusal = await refusal_of(projects.charge_project, stores, OWNER, charge)
    assert (refusal.field, refusal.message) == (
        "cost_center",
        "the cost center '4711' is closed: reopen it, or name another one",
    )
    refusal = await refusal_of(projects.close_cost_center, stores, OWNER, closing("4712", "4711"))
    assert refusal.field == "move_to"
    taken = CreateCostCenter(tenant="acme", code="4711")
    assert "reopened" in (await refusal_of(projects.create_cost_center, stores, OWNER, taken)).message
    named = NameCostCenter(tenant="acme", cost_center="4711")
    assert (await answer_of(projects.reopen_cost_center, stores, OWNER, named)).closed is None
    await answer_of(projects.charge_project, stores, OWNER, charge)
    assert await payers(stores) == {"lab": "4711"}


async def test_what_was_charged_to_a_closed_cost_center_keeps_its_name(stores: Stores) -> None:
    """Reports of before name it, and later usage is the heir's."""
    await charged(stores, "lab", "4711")
    await charged(stores, "web", "4712")
    tenant = (await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))).tenant
    project = await find_project(stores.db, tenant, "lab")
    assert project is not None
    owner = UsageOwner(project.id, "k", "u")

    async def used(request: str) -> None:
        at = now_ms()
        event = an_event(request, tenant, owner=owner, accepted_ms=at, ended_ms=at)
        await post(stores.db, "default", [encode(event)])

    await used("r1")
    await answer_of(projects.close_cost_center, stores, OWNER, closing("4711", "4712"))
    closed = now_ms()
    await wait_until(lambda: now_ms() > closed)
    await used("r2")
    month = datetime.now(UTC).strftime("%Y-%m")
    ask = AskChargeback(tenant="acme", month=month, rows="cost_center")
    report = await answer_of(chargeback.report, stores, OWNER, ask)
    assert sorted(line.head.name for line in report.lines) == ["4711", "4712"]
