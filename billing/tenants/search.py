"""Finds tenants, users and keys by an id, a name or the beginning of one. For operators.

All is looked up by index, but for tenants, who are few.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import and_, or_
from sqlmodel import col

from billing.tables.tenants import ApiKey, Tenant, TenantUser
from core.sql.database import Database
from core.sql.lower_case import begins_with, same_letters
from core.sql.selects import select_columns, untyped

# A key as people have it before them: its prefix, or all of its secret, of which the rest is not looked at.
KEY = re.compile(r"(?:pk_)?([0-9a-f]{4,12})(?:_[0-9a-f]*)?", re.ASCII)
PREFIX_END = "g"  # behind all hex digits


class ThingKind(StrEnum):
    """What can be found in the database by its name."""

    TENANT = "tenant"
    USER = "user"
    KEY = "key"


class NamedThing(msgspec.Struct, frozen=True):
    """A thing of a tenant's, and what it is called."""

    kind: ThingKind
    id: str
    tenant: str
    tenant_name: str
    title: str


async def things_named(db: Database, kind: ThingKind, text: str, most: int) -> list[NamedThing]:
    """Things of a kind with exactly this id or name."""
    match kind:
        case ThingKind.TENANT:
            where = [or_(col(Tenant.tenant_id) == text, col(Tenant.name) == text)]
        case ThingKind.USER:
            where = [or_(col(TenantUser.id) == text, _is(col(TenantUser.name), text))]
        case ThingKind.KEY:
            prefix = key_prefix_of(text)
            named = _is(col(ApiKey.name), text)
            where = [or_(col(ApiKey.id) == text, col(ApiKey.prefix) == prefix, named)]
    return await _read(db, kind, where, most)


async def things_beginning(db: Database, kind: ThingKind, text: str, most: int) -> list[NamedThing]:
    """Things of a kind whose name begins so, in whichever case; of keys, the prefix too."""
    match kind:
        case ThingKind.TENANT:
            where = [begins_with(col(Tenant.name), text)]
        case ThingKind.USER:
            where = [begins_with(col(TenantUser.name), text)]
        case ThingKind.KEY:
            prefix = key_prefix_of(text)
            among = col(ApiKey.prefix).between(prefix, f"{prefix}{PREFIX_END}") if prefix else None
            named = begins_with(col(ApiKey.name), text)
            where = [named if among is None else or_(among, named)]
    return await _read(db, kind, where, most)


def key_prefix_of(text: str) -> str:
    """The prefix of a key, or its beginning, in what is before somebody; empty: there is none. Pure."""
    match = KEY.fullmatch(text)
    return match[1] if match else ""


def _is(column: Any, text: str) -> Any:
    return and_(same_letters(column, text), column == text)


async def _read(db: Database, kind: ThingKind, where: Sequence[Any], most: int) -> list[NamedThing]:
    table: Any = {ThingKind.TENANT: Tenant, ThingKind.USER: TenantUser, ThingKind.KEY: ApiKey}[kind]
    of, name = col(Tenant.tenant_id), table.name
    prefix = col(ApiKey.prefix) if kind is ThingKind.KEY else name
    id = of if kind is ThingKind.TENANT else table.id
    statement = select_columns(id, of, col(Tenant.name), name, prefix)
    if kind is not ThingKind.TENANT:
        statement = statement.join_from(Tenant, table, table.tenant_id == of)
    statement = statement.where(*where).order_by(name, of).limit(most)
    async with db.session() as session:
        rows = (await untyped(session).exec(statement)).all()
    return [
        NamedThing(kind, id, tenant, tenant_name, _title(kind, id, name, prefix))
        for id, tenant, tenant_name, name, prefix in rows
    ]


def _title(kind: ThingKind, id: str, name: str | None, prefix: str) -> str:
    return f"{name} (pk_{prefix})" if kind is ThingKind.KEY else name or id
