"""Names of usage's owners: from ids to names, and from names to ids. Reads only."""

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlmodel import col, select

from billing.ledger.proofs import OPAQUE_USER
from billing.ledger.transactions import LineKind
from billing.periods import Calendar
from billing.prices.calendars import calendar_in
from billing.prices.rating import Meter
from billing.reports.usage_questions import Facet
from billing.tables.ledger import CostCenter, ProjectCostCenter
from billing.tables.tenants import ApiKey, PriceBook, Project, Tenant
from billing.tenants.cost_centers import find_cost_center
from billing.tenants.tenancy import find_project
from billing.tenants.users import known_users, user_named
from core.names import forms_of
from core.sql.database import Database

NAMED = frozenset({Facet.PROJECT, Facet.COST_CENTER, Facet.USER, Facet.KEY})
"""Facets that the books know by an id."""
UNKNOWN = "(unknown)"


class UsageTerms(NamedTuple):
    """A tenant's days and months, and its currency."""

    calendar: Calendar
    currency: str


async def usage_terms(db: Database, tenant_id: str) -> UsageTerms:
    """Read a tenant's calendar and currency."""
    statement = (
        select(Tenant, PriceBook.currency)
        .join(PriceBook, col(PriceBook.id) == col(Tenant.price_book_id))
        .where(col(Tenant.tenant_id) == tenant_id)
    )
    async with db.session() as session:
        tenant, currency = (await session.exec(statement)).one()
        return UsageTerms(await calendar_in(session, tenant), currency)


async def names_of(db: Database, tenant_id: str, facet: Facet, ids: Collection[str]) -> dict[str, str]:
    """Names by id, of those that have one: of a key with its prefix, of an erased user that word and a
    tag."""
    wanted = sorted({id for id in ids if id})
    match facet:
        case Facet.PROJECT:
            found = await _rows(db, tenant_id, Project, wanted)
            return {row.id: row.name for row in found}
        case Facet.COST_CENTER:
            found = await _rows(db, tenant_id, CostCenter, wanted)
            return {row.id: row.code for row in found}
        case Facet.KEY:
            found = await _rows(db, tenant_id, ApiKey, wanted)
            return {row.id: f"pk_{row.prefix} {row.name}".strip() for row in found}
        case Facet.USER:
            return await known_users(db, tenant_id, wanted)
        case _:
            return {}


async def _rows(db: Database, tenant_id: str, table: Any, ids: Collection[str]) -> list[Any]:
    """Rows by id. A page holds no more ids than rows, so one statement is enough."""
    if not ids:
        return []
    statement = select(table).where(col(table.tenant_id) == tenant_id, col(table.id).in_(ids))
    async with db.session() as session:
        return list((await session.exec(statement)).all())


async def named_id(db: Database, tenant_id: str, project: str | None, facet: Facet, named: str) -> str | None:
    """Id of a name or an id; None where it is unknown or the caller may not see it. `project`: the only one
    that the caller may see. A user without a row keeps the name as id; the empty name gives the empty id."""
    if not named:
        return ""
    if not forms_of(named):
        return None
    match facet:
        case Facet.PROJECT:
            found = await find_project(db, tenant_id, named)
            return found.id if found is not None and project in (None, found.id) else None
        case Facet.COST_CENTER:
            return await _cost_center(db, tenant_id, project, named)
        case Facet.KEY:
            return await _key(db, tenant_id, project, named)
        case Facet.USER:
            user = await user_named(db, tenant_id, named)
            return named if user is None else user.id
        case Facet.METER:
            return named if named in {*Meter} else None
        case Facet.KIND:
            return named if named in {*LineKind} else None
        case _:
            return named


def names_in_audit_log(facet: Facet, id: str) -> str:
    """The form of a name that the audit log records for a question, as nothing can be removed from it later:
    of a user the opaque id, never a name. Pure."""
    return UNKNOWN if facet is Facet.USER and id and not OPAQUE_USER.fullmatch(id) else id


async def _cost_center(db: Database, tenant_id: str, project: str | None, named: str) -> str | None:
    found = await find_cost_center(db, tenant_id, named)
    if found is None or project is None:
        return found and found.id
    statement = select(ProjectCostCenter).where(
        col(ProjectCostCenter.tenant_id) == tenant_id,
        col(ProjectCostCenter.project_id) == project,
        col(ProjectCostCenter.cost_center_id) == found.id,
    )
    async with db.session() as session:
        return found.id if (await session.exec(statement.limit(1))).first() is not None else None


async def _key(db: Database, tenant_id: str, project: str | None, named: str) -> str | None:
    statement = select(ApiKey.id).where(
        col(ApiKey.tenant_id) == tenant_id,
        (col(ApiKey.id) == named) | (col(ApiKey.prefix) == named.removeprefix("pk_")),
    )
    if project is not None:
        statement = statement.where(col(ApiKey.project_id) == project)
    async with db.session() as session:
        return (await session.exec(statement)).first()
