"""Names of the things whose ids stand in a tenant's audit rows, as the tenant knows them. Reads only: one
question for each kind of thing, and never of another tenant's."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlmodel import col, select

from billing.limits import Scope
from billing.people.people_names import IDS_AT_ONCE, people_named
from billing.reports.usage_names import names_of
from billing.reports.usage_questions import Facet
from billing.tables.audit import AuditLog
from billing.tables.limits import Budget, QuotaPolicy
from core.sql.database import Database

NAMED_TABLES = "project cost_center api_key budget quota_policy invitation service_token membership person"
# What a fact, or by the noun of a row's action its target, is the id of.
PLACES = {
    "project": Facet.PROJECT,
    "project_id": Facet.PROJECT,
    "cost_center": Facet.COST_CENTER,
    "cost_center_id": Facet.COST_CENTER,
    "key": Facet.KEY,
    "rotated_from": Facet.KEY,
    "owner_key": Facet.KEY,
}
SCOPES = {Scope.PROJECT: Facet.PROJECT, Scope.KEY: Facet.KEY, Scope.USER: Facet.USER}
PEOPLE = frozenset({"person_id", "by"})

Facts = Mapping[str, Any]
Sided = tuple[AuditLog, tuple[Facts, Facts]]
Limit = Budget | QuotaPolicy


async def names_in(
    db: Database, tenant_id: str, rows: Sequence[AuditLog], *, people: bool, staff: bool
) -> list[dict[str, str]]:
    """The names of each of a tenant's rows, which are as they are shown: by id, of those that have one. A
    thing that is gone has the last one that its row tells. `people`: also of those who sign in; `staff`: the
    names of the platform's people too, who are STAFF to everybody else."""
    sided = [(row, _sides(row)) for row in rows]
    limits = await _limits(db, tenant_id, {row.target for row in rows})
    names = await _owners(db, tenant_id, [*_owned(sided), *_owners_of(limits)])
    names |= {limit.id: limit_name(limit, names) for limit in limits}
    if people:
        names |= await people_named(db, tenant_id, _people_in(sided), staff)
    return [_told(each, names) for each in sided]


def limit_name(limit: Limit, names: Mapping[str, str]) -> str:
    """A budget or limit in words: `budget of project lab, month`. Pure."""
    whose = names.get(limit.scope_id, limit.scope_id)
    of = f"{limit.scope} {whose}" if whose else f"each {limit.scope}"
    if limit.scope == Scope.TENANT:
        of = "the whole tenant"
    if isinstance(limit, Budget):
        return f"budget of {of}, {limit.period}"
    return f"{limit.dimension.replace('_', ' ')} of {of}"


def last_known(facts: Facts) -> str:
    """What a row itself calls its thing; empty where it does not. Pure."""
    if facts.get("rows") and facts.get("columns"):
        return f"{facts['rows']} by {facts['columns']}"
    return next((str(facts[name]) for name in ("name", "code", "address") if facts.get(name)), "")


def _told(sided: Sided, names: Mapping[str, str]) -> dict[str, str]:
    row, (before, after) = sided
    texts = {value for side in (before, after) for value in side.values() if isinstance(value, str)}
    found = {id: names[id] for id in {row.author, row.target, *texts} if id in names}
    told = last_known(after) or last_known(before)
    return found if row.target in found or not told or told == row.target else {**found, row.target: told}


def _sides(row: AuditLog) -> tuple[Facts, Facts]:
    return _facts(row.before), _facts(row.after)


def _facts(text: str) -> Facts:
    return msgspec.json.decode(text, type=dict[str, Any] | None) or dict[str, Any]()


def _owned(sided: Iterable[Sided]) -> Iterable[tuple[Facet, str]]:
    """Ids of projects, cost centers and keys."""
    for row, sides in sided:
        if kind := PLACES.get(row.action.partition(".")[0]):
            yield kind, row.target
        for side in sides:
            scoped = SCOPES.get(side.get("scope", ""))
            for name, value in side.items():
                kind = scoped if name == "scope_id" else PLACES.get(name)
                if kind and isinstance(value, str):
                    yield kind, value


def _owners_of(limits: Iterable[Limit]) -> Iterable[tuple[Facet, str]]:
    for limit in limits:
        if kind := SCOPES.get(Scope(limit.scope)):
            yield kind, limit.scope_id


def _people_in(sided: Iterable[Sided]) -> set[str]:
    people = set[str]()
    for row, sides in sided:
        people |= {row.author, row.target}
        people |= {str(side[name]) for side in sides for name in PEOPLE if name in side}
    return people


async def _owners(db: Database, tenant_id: str, sought: Iterable[tuple[Facet, str]]) -> dict[str, str]:
    ids: dict[Facet, set[str]] = {}
    for kind, id in sought:
        ids.setdefault(kind, set()).add(id)
    names = dict[str, str]()
    for kind, every in ids.items():
        for some in _in_parts(every):
            names |= await names_of(db, tenant_id, kind, some)
    return names


async def _limits(db: Database, tenant_id: str, ids: Collection[str]) -> list[Limit]:
    found: list[Limit] = []
    async with db.session() as session:
        for some in _in_parts(ids):
            for table in (Budget, QuotaPolicy):
                statement = select(table).where(col(table.tenant_id) == tenant_id, col(table.id).in_(some))
                found += (await session.exec(statement)).all()
    return found


def _in_parts(ids: Collection[str]) -> Iterable[Sequence[str]]:
    ordered = sorted(ids)
    return (ordered[at : at + IDS_AT_ONCE] for at in range(0, len(ordered), IDS_AT_ONCE))
