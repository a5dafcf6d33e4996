"""The list of who changed what: whose it is, what it is narrowed by, and its pages."""

from typing import Any

import msgspec
import pytest

from billing.limits import Dimension, Scope
from billing.operations import budgets, keys, limits, projects, tenants, users
from billing.operations.audit import AuditFacts, ListAudit, list_audit
from billing.operations.audit_names import last_known, names_in
from billing.operations.budgets import SetBudget
from billing.operations.keys import CreateKey
from billing.operations.limits import SetLimit
from billing.operations.projects import CreateProject
from billing.operations.tenants import NameTenant, SetTenant
from billing.operations.users import NameUser
from billing.people.people_names import STAFF, people_named
from billing.tables.audit import AuditLog
from billing.tables.people import Invitation, Membership, Person
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.actor import Author
from core.operations import MoneyAmount, Role
from core.sql.database import insert_rows
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

STAFF_ID = "01890000-0000-7000-8000-000000000001"
BOB = OperationActor(Author("Bob", "api"), Role.OPERATOR)


async def changed(stores: Stores) -> str:
    """Id of acme, to which Ann and Bob did something; so did Ann to other."""
    shown = await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant="acme"))
    for name in ("acme", "other"):
        zone = SetTenant(tenant=name, time_zone="Europe/Berlin")
        await answer_of(tenants.set_tenant, stores, OWNER, zone, Terms(reason="they moved"))
    limit = SetLimit(tenant="acme", scope=Scope.TENANT, dimension=Dimension.CONCURRENCY, limit=9)
    await answer_of(limits.set_limit, stores, BOB, limit, Terms(reason="ticket 7"))
    await answer_of(users.create_user, stores, BOB, NameUser(tenant="acme", user="ann"))
    return shown.tenant


async def listed(stores: Stores, who: OperationActor = OWNER, **asked: object) -> list[AuditFacts]:
    """All that fits, page by page."""
    found, after = list[AuditFacts](), ""
    while True:
        ask = ListAudit(limit=2, after=after, **asked)  # pyright: ignore[reportArgumentType]
        page = await answer_of(list_audit, stores, who, ask)
        found, after = found + page.items, page.next or ""
        assert len(page.items) <= 2
        if not after:
            return found


async def test_it_is_narrowed_by_owner_author_kind_thing_and_time(stores: Stores) -> None:
    """Each alone, newest first; users stand there by their names."""
    acme = await changed(stores)
    of_acme = await listed(stores, tenant="acme")
    assert [each.action for each in of_acme] == ["user.create", "limit.set", "tenant.set", "tenant.create"]
    assert [each.seq for each in of_acme] == [4, 3, 2, 1]
    assert {(each.tenant, each.tenant_name) for each in of_acme} == {(acme, "acme")}
    assert of_acme[0].target == "ann"
    assert of_acme[1].after is not None
    assert of_acme[1].after["reason"] == "ticket 7"
    assert [each.action for each in await listed(stores, author="Bob")] == ["user.create", "limit.set"]
    assert {each.tenant_name for each in await listed(stores, kind="tenant.set")} == {"acme", "other"}
    assert len(await listed(stores, kind="tenant", tenant="other")) == 2
    assert [each.action for each in await listed(stores, target=of_acme[1].target)] == ["limit.set"]
    assert await listed(stores, since="2099-01-01", until="2099-01-02") == []
    assert await listed(stores, until="2001-01-01") == []
    of_platform = await listed(stores, tenant="(platform)")
    assert {each.tenant_name for each in of_platform} <= {"(platform)"}


async def test_pages_leave_nothing_out_and_repeat_nothing(stores: Stores) -> None:
    """Also where several chains have rows of one moment."""
    await changed(stores)
    every = (await answer_of(list_audit, stores, OWNER, ListAudit())).items
    assert await listed(stores) == every
    assert len({(each.tenant, each.seq) for each in every}) == len(every) >= 6


async def test_members_see_what_was_done_to_their_tenant(stores: Stores) -> None:
    """Administrators alone; no other tenant's, and nothing of the platform."""
    acme = await changed(stores)
    admin = member_of(acme, Role.ADMIN)
    assert {each.tenant for each in await listed(stores, admin)} == {acme}
    for named in ("other", "(platform)"):
        assert (await refusal_of(list_audit, stores, admin, ListAudit(tenant=named))).unknown
    for who in (member_of(acme, Role.DEVELOPER), OperationActor(Author("Sam", "api"), Role.SUPPORT)):
        assert (await refusal_of(list_audit, stores, who, ListAudit())).code == "forbidden"


@pytest.mark.parametrize(
    ("field", "value"),
    [("kind", "limit.%"), ("kind", ""), ("since", "soon"), ("until", "1x"), ("after", "x")],
)
async def test_what_is_wrong_is_named(stores: Stores, field: str, value: str) -> None:
    """By its field."""
    ask = ListAudit(**{field: value})  # pyright: ignore[reportArgumentType]
    refusal = await refusal_of(list_audit, stores, OWNER, ask)
    assert refusal.field == field if value else refusal.code == "bad_request"


def row_of(tenant: str, author: str, action: str, target: str, after: object = None) -> AuditLog:
    """A row of a tenant's chain, as it is shown."""
    said = msgspec.json.encode(after).decode()
    facts: dict[str, Any] = {
        "tenant_id": tenant,
        "author": author,
        "action": action,
        "target": target,
        "after": said,
    }
    rest: dict[str, Any] = {
        "seq": 9,
        "at_ms": 1,
        "source": "api",
        "before": "null",
        "previous_sha256": "",
        "sha256": "",
    }
    return AuditLog(**facts, **rest)


async def test_changes_name_what_they_are_of(stores: Stores) -> None:
    """By the name that a thing has now: keys with their prefixes, budgets by whose they are."""
    acme = await changed(stores)
    admin = member_of(acme, Role.ADMIN)
    made = CreateProject(tenant="acme", name="lab")
    lab = (await answer_of(projects.create_project, stores, OWNER, made)).project
    key = (
        await answer_of(keys.create_key, stores, OWNER, CreateKey(tenant="acme", project="lab", name="ci"))
    ).key
    budget = SetBudget(tenant="acme", scope=Scope.PROJECT, of="lab", limit=MoneyAmount.of(7_000_000_000))
    await answer_of(budgets.set_budget, stores, OWNER, budget)
    rows = {each.action: each for each in await listed(stores, admin)}
    assert rows["project.create"].names[lab] == "lab"
    assert rows["key.create"].names == {key.key: f"{key.prefix} ci", lab: "lab"}
    assert rows["budget.set"].names[rows["budget.set"].target] == "budget of project lab, month"
    assert rows["limit.set"].names[rows["limit.set"].target] == "concurrency of the whole tenant"
    every = await listed(stores)
    assert all(each.names == {} for each in every)  # of all tenants: they are named where one is asked for


async def test_a_change_names_nothing_of_another_tenant(stores: Stores) -> None:
    """Not even where a row of one's own has the id of its thing."""
    acme = await changed(stores)
    made = CreateProject(tenant="other", name="secret")
    foreign = (await answer_of(projects.create_project, stores, OWNER, made)).project
    row = row_of(acme, "Ann", "project.create", foreign, {"scope": "project", "scope_id": foreign})
    assert await names_in(stores.db, acme, [row], people=True, staff=False) == [{}]


def test_a_thing_that_is_gone_keeps_the_name_of_its_row() -> None:
    """What it was called last, or which report it was."""
    assert last_known({"name": "lab", "id": "x"}) == "lab"
    assert last_known({"rows": "project", "columns": "model"}) == "project by model"
    assert last_known({"limit": 7}) == ""


async def test_members_do_not_learn_who_works_for_the_platform(stores: Stores) -> None:
    """Its people are its staff to them; the platform's own see who it was."""
    acme = await changed(stores)
    async with stores.db.transaction() as session:
        await insert_rows(session, [Person(id=STAFF_ID, name="Olga", created_ms=1)])
        await insert_rows(
            session, [Membership(tenant_id=PLATFORM, person_id=STAFF_ID, role="support", created_ms=1)]
        )
    row = row_of(acme, STAFF_ID, "tenant.read", acme)
    for staff, name in ((False, STAFF), (True, "Olga")):
        assert await names_in(stores.db, acme, [row], people=True, staff=staff) == [{STAFF_ID: name}]
    assert await names_in(stores.db, acme, [row], people=False, staff=True) == [{}]


async def test_tokens_and_invitations_that_acted_are_named_too(stores: Stores) -> None:
    """By the token's name and the address that was invited; one that is of another tenant is not."""
    acme = await changed(stores)
    async with stores.db.transaction() as session:
        await insert_rows(session, [invited(acme, "i1"), invited("elsewhere", "i2")])
    authors = ["invitation i1", "invitation i2", "token none"]
    assert await people_named(stores.db, acme, authors) == {"invitation i1": "invitation mia@example.com"}


def invited(tenant: str, id: str) -> Invitation:
    """Somebody who was invited."""
    return Invitation(
        tenant_id=tenant,
        id=id,
        code_sha256=f"sha256 of {tenant} {id}",
        email="mia@example.com",
        role="admin",
        by="",
        created_ms=1,
        expires_ms=2,
    )
