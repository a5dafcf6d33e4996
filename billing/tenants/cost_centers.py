"""Cost centers, the payers inside a tenant. A project belongs to one from a time on; earlier charges stay
where they were."""

from collections.abc import Collection, Sequence

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from billing.audit.log import record
from billing.tables.ledger import CostCenter, ProjectCostCenter
from billing.tenants.edits import lock_settings
from core.clock import now_ms
from core.errors import Refused, bad_request, see, unknown
from core.ids import uuid7
from core.names import checked_name
from core.sql.database import Database, id_first

CODE_MAX = 64


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
            f"there is a cost center {code!r} already, or no such tenant", field="code"
        ) from error
    return center


def no_such_cost_center(named: str, tenant_id: str) -> Refused:
    """The refusal of an unknown cost center."""
    listed = see("cost_centers.list", tenant=tenant_id)
    return unknown(f"there is no cost center {named!r}", field="cost_center", see=listed)


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
    db: Database, tenant_id: str, project_id: str, cost_center_id: str, from_ms: int | None = None
) -> ProjectCostCenter:
    """Charge the project to this cost center from a time on, by default now.

    Raises Refused where the time has passed, or another move is set for it or later."""
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
