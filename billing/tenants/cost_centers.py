"""Cost centers, the payers inside a tenant. A project belongs to one from a time on; earlier charges stay
where they were."""

from collections.abc import Collection, Sequence

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.tables.ledger import CostCenter, ProjectCostCenter
from billing.tables.tenants import Project
from billing.tenants.edits import lock_settings
from core.clock import now_ms
from core.errors import Refused, bad_request, see, see_help, unknown
from core.ids import uuid7
from core.names import checked_name
from core.sql.database import Database, id_first

CODE_MAX = 64
NAMED_MAX = 5  # projects that a refusal names


async def create_cost_center(db: Database, tenant_id: str, code: str, name: str = "") -> CostCenter:
    """Create a cost center. `code` is the tenant's own name for it. Raises Refused where it is taken or
    invalid."""
    if not code.isprintable() or code != code.strip() or not 0 < len(code) <= CODE_MAX:
        message = f"{code!r} is no cost center code: 1 to {CODE_MAX} printable characters"
        raise bad_request(message, field="code")
    name = checked_name("the name of a cost center", name, "name") if name else ""
    now = now_ms()
    center = CostCenter(tenant_id=tenant_id, id=uuid7(now), code=code, name=name, created_ms=now)
    try:
        async with db.transaction() as session:
            session.add(center)
            await record(session, tenant_id, "cost_center.create", center.id, None, center)
    except IntegrityError as error:
        raise bad_request(
            f"there is a cost center {code!r} already (a closed one can be reopened), or no such tenant",
            field="code",
        ) from error
    return center


def no_such_cost_center(named: str, tenant_id: str, field: str = "cost_center") -> Refused:
    """The refusal of an unknown cost center."""
    listed = see("cost_centers.list", tenant=tenant_id)
    return unknown(f"there is no cost center {named!r}", field=field, see=listed)


async def list_cost_centers(db: Database, tenant_id: str) -> Sequence[CostCenter]:
    """A tenant's cost centers by code."""
    statement = select(CostCenter).where(col(CostCenter.tenant_id) == tenant_id)
    async with db.session() as session:
        return (await session.exec(statement.order_by(col(CostCenter.code)))).all()


async def codes_of(db: Database, tenant_id: str, ids: Collection[str]) -> dict[str, str]:
    """The codes of these cost centers of a tenant, by id."""
    of_tenant = select(CostCenter).where(col(CostCenter.tenant_id) == tenant_id)
    async with db.session() as session:
        rows = (await session.exec(of_tenant.where(col(CostCenter.id).in_(ids)))).all()
    return {row.id: row.code for row in rows}


async def find_cost_center(db: Database, tenant_id: str, code_or_id: str) -> CostCenter | None:
    """A tenant's cost center by its id or its code."""
    id, code = col(CostCenter.id), col(CostCenter.code)
    statement = select(CostCenter).where(
        col(CostCenter.tenant_id) == tenant_id, (code == code_or_id) | (id == code_or_id)
    )
    async with db.session() as session:
        return (await session.exec(statement.order_by(*id_first(id, code, [code_or_id])))).first()


async def charge_project_to(
    db: Database, tenant_id: str, project_id: str, cost_center_id: str | None, from_ms: int | None = None
) -> ProjectCostCenter:
    """Charge the project to this cost center, or to nobody, from a time on, by default now.

    Raises Refused where the time has passed, another move is set for it or later, or that one is closed."""
    now = now_ms()
    start = now if from_ms is None else from_ms
    if start < now:
        raise bad_request("the time has passed: what was charged stays where it was", field="start")
    row = ProjectCostCenter(
        tenant_id=tenant_id, project_id=project_id, valid_from_ms=start, cost_center_id=cost_center_id
    )
    later = select(ProjectCostCenter).where(
        col(ProjectCostCenter.tenant_id) == tenant_id,
        col(ProjectCostCenter.project_id) == project_id,
        col(ProjectCostCenter.valid_from_ms) >= start,
    )
    try:
        async with db.transaction() as session:
            await lock_settings(session, tenant_id)
            if cost_center_id is not None:
                center = await session.get(CostCenter, (tenant_id, cost_center_id))
                if center is not None:
                    _check_open(center, "cost_center")
            if (await session.exec(later)).first() is not None:
                message = "another move of this project is set for this time or later"
                raise bad_request(message, field="start")
            session.add(row)
            await record(session, tenant_id, "project.move", project_id, None, row)
    except IntegrityError as error:
        raise bad_request("there is no such project or cost center, or another move came between") from error
    return row


async def charges_of(db: Database, tenant_id: str) -> Sequence[ProjectCostCenter]:
    """All moves of a tenant's projects, oldest first."""
    statement = select(ProjectCostCenter).where(col(ProjectCostCenter.tenant_id) == tenant_id)
    async with db.session() as session:
        return (await session.exec(statement.order_by(col(ProjectCostCenter.valid_from_ms)))).all()


async def close_cost_center(
    db: Database, tenant_id: str, center_id: str, heir_id: str | None = None, to_nobody: bool = False
) -> list[str]:
    """Close a cost center, and charge the projects that it pays for, now or from a later time on, to the
    heir or to nobody, if that is said; return their names.

    Raises Refused, with projects, where it pays for some and neither is said. What was charged stays."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        center = await session.get(CostCenter, (tenant_id, center_id))
        assert center is not None, "the caller found the cost center"
        now = now_ms()
        paid = await _paid_by(session, center, now)
        projects = {row.project_id: "" for row in paid}
        named = select(Project).where(col(Project.tenant_id) == tenant_id, col(Project.id).in_(projects))
        projects = {
            each.id: each.name for each in (await session.exec(named.order_by(col(Project.name)))).all()
        }
        if paid and heir_id is None and not to_nobody:
            raise bad_request(_still_pays(center.code, list(projects.values())), field="move_to")
        if heir_id is not None:
            await _check_heir(session, center, heir_id)
        for row in paid:
            await _move(session, row, heir_id, now)
        await _set_closed(session, center, now)
    return list(projects.values())


async def reopen_cost_center(db: Database, tenant_id: str, center_id: str) -> None:
    """Let projects be charged to a closed cost center again."""
    async with db.transaction() as session:
        await lock_settings(session, tenant_id)
        center = await session.get(CostCenter, (tenant_id, center_id))
        assert center is not None, "the caller found the cost center"
        await _set_closed(session, center, None)


async def _paid_by(session: AsyncSession, center: CostCenter, now: int) -> list[ProjectCostCenter]:
    """What makes this cost center pay: each project's last move until now, and those of later."""
    of_tenant = select(ProjectCostCenter).where(col(ProjectCostCenter.tenant_id) == center.tenant_id)
    moves = (await session.exec(of_tenant.order_by(col(ProjectCostCenter.valid_from_ms)))).all()
    last = {row.project_id: row for row in moves if row.valid_from_ms <= now}
    holding = [*last.values(), *(row for row in moves if row.valid_from_ms > now)]
    return [row for row in holding if row.cost_center_id == center.id]


async def _move(session: AsyncSession, row: ProjectCostCenter, heir_id: str | None, now: int) -> None:
    """Have the heir, or nobody, pay in place of what this row says: from now on, or from its later time."""
    if row.valid_from_ms > now:
        before = row.model_dump()
        row.cost_center_id = heir_id
        session.add(row)
        await record(session, row.tenant_id, "project.move", row.project_id, before, row)
        return
    start = max(now, row.valid_from_ms + 1)
    moved = ProjectCostCenter(
        tenant_id=row.tenant_id, project_id=row.project_id, valid_from_ms=start, cost_center_id=heir_id
    )
    session.add(moved)
    await record(session, row.tenant_id, "project.move", row.project_id, None, moved)


async def _set_closed(session: AsyncSession, center: CostCenter, closed_ms: int | None) -> None:
    """Set or clear when it was closed, and record it. One already in that state keeps its time."""
    before = center.model_dump()
    if (closed_ms is None) != (center.closed_ms is None):
        center.closed_ms = closed_ms
    session.add(center)
    action = "cost_center.reopen" if closed_ms is None else "cost_center.close"
    await record(session, center.tenant_id, action, center.id, before, center)


async def _check_heir(session: AsyncSession, center: CostCenter, heir_id: str) -> None:
    if heir_id == center.id:
        raise bad_request("this one is to be closed: name another one", field="move_to")
    heir = await session.get(CostCenter, (center.tenant_id, heir_id))
    assert heir is not None, "the caller found the cost center"
    _check_open(heir, "move_to")


def _check_open(center: CostCenter, field: str) -> None:
    if center.closed_ms is not None:
        told = f"the cost center {center.code!r} is closed: reopen it, or name another one"
        raise bad_request(told, field=field, see=see_help("cost_centers.reopen"))


def _still_pays(code: str, projects: Sequence[str]) -> str:
    """What is said of one that cannot be closed yet. Pure."""
    named = ", ".join(map(repr, projects[:NAMED_MAX]))
    more = f" and {len(projects) - NAMED_MAX:,} more" if len(projects) > NAMED_MAX else ""
    which = "project" if len(projects) == 1 else "projects"
    asked = "name the cost center that pays from now on, or have nobody pay"
    return f"{code!r} pays for the {which} {named}{more}: {asked}"
