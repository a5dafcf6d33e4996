"""Operations on projects, which keys belong to, and on cost centers, which pay for projects."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select

from billing.operations.shared_fields import AUDIT, CONTROL, TenantName
from billing.tables.ledger import CostCenter
from billing.tables.tenants import Project
from billing.tenants import cost_centers, tenancy
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.errors import bad_request
from core.operations import ADMINS, MEMBERS, OPERATORS, STAFF, ListedPage, Uses, operation
from core.sql.database import Database
from core.sql.lower_case import holds

PROJECT_EDITORS = OPERATORS | ADMINS
WRITES_PROJECT = Uses(writes=f"tenant project {AUDIT}", keys=CONTROL)

ProjectName = Annotated[str, Meta(description="The project's name or id.")]

CenterName = Annotated[str, Meta(description="The cost center's code or id.")]


class CreateProject(msgspec.Struct, frozen=True, kw_only=True):
    """A new project."""

    tenant: TenantName
    name: Annotated[str, Meta(description="Its name, which no other of the tenant has.")]


class NameProject(msgspec.Struct, frozen=True, kw_only=True):
    """Which project of which tenant."""

    tenant: TenantName
    project: ProjectName


class ListOfTenant(ListQuestion, frozen=True, kw_only=True):
    """Whose, and which of them."""

    tenant: TenantName
    name: Annotated[
        str, Meta(max_length=200, description="Only those with this in their name; or in a code.")
    ] = ""


class ChargeProject(NameProject, frozen=True, kw_only=True):
    """Which project is charged to what, from when on."""

    cost_center: Annotated[str, Meta(description="The cost center's code or id; empty: nobody pays.")]
    start: Annotated[Annotated[datetime, Meta(tz=True)] | None, Meta(description="By default now.")] = None


class CreateCostCenter(msgspec.Struct, frozen=True, kw_only=True):
    """A new cost center."""

    tenant: TenantName
    code: Annotated[str, Meta(description="The tenant's own name for it.")]
    name: Annotated[str, Meta(description="What it is.")] = ""


class NameCostCenter(msgspec.Struct, frozen=True, kw_only=True):
    """Which cost center of which tenant."""

    tenant: TenantName
    cost_center: CenterName


class CloseCostCenter(NameCostCenter, frozen=True, kw_only=True):
    """Which cost center ends, and which one pays in its place."""

    move_to: Annotated[
        str,
        Meta(description="The code or id of the cost center that pays for its projects from now on."),
    ] = ""
    to_nobody: Annotated[bool, Meta(description="Nobody pays for its projects from now on.")] = False


class ProjectFacts(msgspec.Struct, frozen=True):
    """A project."""

    project: str
    name: str
    created: str | None
    closed: str | None

    @classmethod
    def of(cls, row: Project) -> "ProjectFacts":
        """The facts of a row."""
        return cls(row.id, row.name, iso_time(row.created_ms), iso_time(row.closed_ms))


class ListedProject(msgspec.Struct, frozen=True):
    """A project in a list. `cost_center`: the code of the one that pays now; empty: none."""

    project: str
    name: str
    cost_center: str
    created: str | None
    closed: str | None


class ProjectCharge(msgspec.Struct, frozen=True):
    """To which cost center (its code; empty: none) a project (its name) is charged, from when on."""

    project: str
    cost_center: str
    start: str | None = msgspec.field(name="from")


class CostCenterFacts(msgspec.Struct, frozen=True):
    """A cost center."""

    cost_center: str
    code: str
    name: str
    created: str | None
    closed: str | None

    @classmethod
    def of(cls, row: CostCenter) -> "CostCenterFacts":
        """The facts of a row."""
        return cls(row.id, row.code, row.name, iso_time(row.created_ms), iso_time(row.closed_ms))


class ClosedCostCenter(msgspec.Struct, frozen=True):
    """A cost center that was closed. `moved`: the names of the projects that another one, or nobody,
    pays for now."""

    cost_center: str
    code: str
    closed: str | None
    moved: list[str]


@operation(
    "projects.create",
    "POST /tenants/{tenant}/projects",
    may=PROJECT_EDITORS,
    audit="project.create",
    reason=True,
    uses=Uses(writes=f"tenant project {AUDIT}"),
)
async def create_project(change: Change, ask: CreateProject) -> ProjectFacts:
    """Create a project."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    projects_max = change.settings.projects_per_tenant_max
    return ProjectFacts.of(await tenancy.create_project(change.db, owner, ask.name, projects_max))


@operation(
    "projects.list",
    "GET /tenants/{tenant}/projects",
    may=STAFF | MEMBERS,
    uses=Uses(reads="tenant project cost_center project_cost_center"),
)
async def list_projects(look: Look, ask: ListOfTenant) -> ListedPage[ListedProject]:
    """List a tenant's projects and the cost center of each, oldest first."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    moves = await cost_centers.charges_of(look.db, owner)
    paid = {each.project_id: each.cost_center_id for each in moves if each.valid_from_ms <= look.now_ms()}
    held = {project: center for project, center in paid.items() if center is not None}
    codes = await cost_centers.codes_of(look.db, owner, set(held.values()))
    pays = {project: codes[center] for project, center in held.items()}

    def listed(row: Project) -> ListedProject:
        created, closed = iso_time(row.created_ms), iso_time(row.closed_ms)
        return ListedProject(row.id, row.name, pays.get(row.id, ""), created, closed)

    statement = select(Project).where(col(Project.tenant_id) == owner)
    if ask.name:
        statement = statement.where(holds(Project.name, ask.name))
    return await listed_page(look, ask, statement, col(Project.id), listed)


@operation(
    "projects.close",
    "POST /tenants/{tenant}/projects/{project}/close",
    may=PROJECT_EDITORS,
    audit="project.close",
    reason=True,
    uses=WRITES_PROJECT,
)
async def close_project(change: Change, ask: NameProject) -> ProjectFacts:
    """Refuse the keys of a project from now on, and close their connections.

    What they have queued and running goes on."""
    return await _set_closed(change, ask, True)


@operation(
    "projects.reopen",
    "POST /tenants/{tenant}/projects/{project}/reopen",
    may=PROJECT_EDITORS,
    audit="project.reopen",
    reason=True,
    uses=WRITES_PROJECT,
)
async def reopen_project(change: Change, ask: NameProject) -> ProjectFacts:
    """Let the keys of a project in again."""
    return await _set_closed(change, ask, False)


@operation(
    "projects.charge_to",
    "POST /tenants/{tenant}/projects/{project}/charge-to",
    may=PROJECT_EDITORS,
    audit="project.move",
    reason=True,
    uses=Uses(reads="project cost_center", writes=f"tenant project_cost_center {AUDIT}"),
)
async def charge_project(change: Change, ask: ChargeProject) -> ProjectCharge:
    """Charge a project to a cost center, or to nobody, from now or a later time on.

    What was charged before stays where it was."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    project = await _project(change.db, owner, ask.project)
    center = await _cost_center(change, owner, ask.cost_center, "cost_center") if ask.cost_center else None
    from_ms = None if ask.start is None else int(ask.start.timestamp() * 1000)
    row = await cost_centers.charge_project_to(change.db, owner, project.id, center and center.id, from_ms)
    return ProjectCharge(project.name, center.code if center else "", iso_time(row.valid_from_ms))


@operation(
    "cost_centers.create",
    "POST /tenants/{tenant}/cost-centers",
    may=PROJECT_EDITORS,
    audit="cost_center.create",
    reason=True,
    uses=Uses(reads="tenant", writes=f"cost_center {AUDIT}"),
)
async def create_cost_center(change: Change, ask: CreateCostCenter) -> CostCenterFacts:
    """Create a cost center."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    return CostCenterFacts.of(await cost_centers.create_cost_center(change.db, owner, ask.code, ask.name))


@operation(
    "cost_centers.list",
    "GET /tenants/{tenant}/cost-centers",
    may=STAFF | MEMBERS,
    uses=Uses(reads="tenant cost_center"),
)
async def list_cost_centers(look: Look, ask: ListOfTenant) -> ListedPage[CostCenterFacts]:
    """List a tenant's cost centers by code."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    statement = select(CostCenter).where(col(CostCenter.tenant_id) == owner)
    if ask.name:
        statement = statement.where(holds(CostCenter.code, ask.name) | holds(CostCenter.name, ask.name))
    return await listed_page(look, ask, statement, col(CostCenter.code), CostCenterFacts.of)


@operation(
    "cost_centers.close",
    "POST /tenants/{tenant}/cost-centers/{cost_center}/close",
    may=PROJECT_EDITORS,
    audit="cost_center.close project.move",
    reason=True,
    uses=Uses(reads="project", writes=f"tenant cost_center project_cost_center {AUDIT}"),
)
async def close_cost_center(change: Change, ask: CloseCostCenter) -> ClosedCostCenter:
    """Close a cost center: no project is charged to it any more, and reports keep what was.

    Projects that it pays for are named, or charged to another one or to nobody from now on."""
    if ask.move_to and ask.to_nobody:
        raise bad_request("name the cost center that pays from now on, or nobody, not both", field="move_to")
    center = await _cost_center(change, ask.tenant, ask.cost_center, "cost_center")
    heir = await _cost_center(change, ask.tenant, ask.move_to, "move_to") if ask.move_to else None
    moved = await cost_centers.close_cost_center(
        change.db, center.tenant_id, center.id, heir and heir.id, ask.to_nobody
    )
    row = await _cost_center(change, ask.tenant, center.id, "cost_center")
    return ClosedCostCenter(row.id, row.code, iso_time(row.closed_ms), moved)


@operation(
    "cost_centers.reopen",
    "POST /tenants/{tenant}/cost-centers/{cost_center}/reopen",
    may=PROJECT_EDITORS,
    audit="cost_center.reopen",
    reason=True,
    uses=Uses(writes=f"tenant cost_center {AUDIT}"),
)
async def reopen_cost_center(change: Change, ask: NameCostCenter) -> CostCenterFacts:
    """Let projects be charged to a closed cost center again."""
    center = await _cost_center(change, ask.tenant, ask.cost_center, "cost_center")
    await cost_centers.reopen_cost_center(change.db, center.tenant_id, center.id)
    return CostCenterFacts.of(await _cost_center(change, ask.tenant, center.id, "cost_center"))


async def _cost_center(change: Change, tenant: str, named: str, field: str) -> CostCenter:
    owner = (await change.tenant(tenant)).tenant_id
    center = await cost_centers.find_cost_center(change.db, owner, named)
    if center is None:
        raise cost_centers.no_such_cost_center(named, owner, field)
    return center


async def _set_closed(change: Change, ask: NameProject, closed: bool) -> ProjectFacts:
    owner = (await change.tenant(ask.tenant)).tenant_id
    project = await _project(change.db, owner, ask.project)
    row = await tenancy.write_closed_project(change.db, owner, project.id, closed)
    change.after(tenancy.tell_access, owner)
    return ProjectFacts.of(row)


async def _project(db: Database, tenant_id: str, named: str) -> Project:
    project = await tenancy.find_project(db, tenant_id, named)
    if project is None:
        raise tenancy.no_such_project(named, tenant_id)
    return project


OPERATIONS = (
    create_project,
    list_projects,
    close_project,
    reopen_project,
    charge_project,
    create_cost_center,
    list_cost_centers,
    close_cost_center,
    reopen_cost_center,
)
