"""Operations on projects, cost centers and users: whose they are, and what a dry run leaves."""

from billing.operations import projects, tenants, users
from billing.operations.projects import (
    ChargeProject,
    CreateCostCenter,
    CreateProject,
    ListOfTenant,
    NameProject,
)
from billing.operations.tenants import NameTenant
from billing.operations.users import ListUsers, NameUser
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.operations import Role
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

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
