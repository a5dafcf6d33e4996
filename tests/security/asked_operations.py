"""Operations as tests ask them: a tenant with one thing of each kind, and asks that name its things."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
from msgspec import inspect

from billing.ledger.grant_spending import GrantKind
from billing.operations import tenants
from billing.operations.tenants import CreateTenant
from billing.people.invitations import invite
from billing.people.person_sessions import open_person_session
from billing.people.persons import create_member
from billing.people.service_tokens import create_token
from billing.tenants.keys import create_key
from billing.tenants.tenancy import create_project, find_project
from billing.tenants.users import create_user
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.wallets.wallets import NewGrant, grant
from core.actor import Author
from core.operations import MoneyAmount, Operation, Role, registered
from core.sql.database import Database

OWNER = OperationActor(Author("Ann", "command"), Role.OWNER)
NAMES = list(registered())


@dataclass(frozen=True)
class SeededTenant:
    """A tenant with one thing of each kind, by the name of the field that names it."""

    id: str
    things: Mapping[str, str]


async def seeded(stores: Stores, name: str) -> SeededTenant:
    """Make a tenant. All its names hold its own, by which a leak is seen."""
    made = (await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name=name))).tenant
    project = await find_project(stores.db, made, "default")
    assert project is not None
    await create_project(stores.db, made, f"{name}-project")
    key, _ = await create_key(stores.db, made, project.id, name=f"{name}-key")
    user = await create_user(stores.db, made, f"{name}-user")
    await grant(
        stores.db, made, NewGrant(GrantKind.PROMO, 1_000_000_000, f"{name}-grant", None, None, "Ann", "")
    )
    people = await seeded_people(stores.db, made, name)
    return SeededTenant(
        made, {"tenant": made, "key": key.id, "user": user.name or "", "project": f"{name}-project", **people}
    )


async def seeded_people(db: Database, tenant_id: str, name: str) -> dict[str, str]:
    """A member who is signed in, and a token that they made."""
    member = await create_member(db, tenant_id, f"{name}-person", "admin", f"mia@{name}.example")
    async with db.transaction() as session:
        new = await open_person_session(session, member.person, member.membership, "192.0.2.1", "Browser")
    token, _ = await create_token(db, tenant_id, f"{name}-token", "viewer", 30, member.person.id)
    invitation, _ = await invite(db, tenant_id, f"guest@{name}.example", "viewer", member.person.id)
    return {
        "person": member.person.id,
        "session": new.signed_in.session.id,
        "token": token.id,
        "invitation": invitation.id,
    }


def ask_for(declared: Operation, things: Mapping[str, str]) -> msgspec.Struct:
    """A struct that names these things, and holds any value that fits in what is required beside them."""
    found = inspect.type_info(declared.asks)
    assert isinstance(found, inspect.StructType)
    facts: dict[str, Any] = {}
    for field in found.fields:
        if field.encode_name in things:
            facts[field.encode_name] = things[field.encode_name]
        elif field.required:
            facts[field.encode_name] = any_of(field.type)
    return msgspec.convert(facts, declared.asks)


PLAIN: Mapping[type[inspect.Type], Any] = {
    inspect.FloatType: 1.0,
    inspect.BoolType: True,
    inspect.ListType: [],
    inspect.DictType: {},
}


def any_of(kind: inspect.Type) -> Any:
    """Some value of a type."""
    match kind:
        case inspect.Metadata(type=inner):
            return any_of(inner)
        case inspect.UnionType(types=types):
            return any_of(types[0])
        case inspect.IntType(ge=least):
            return least or 1
        case inspect.EnumType(cls=enum):
            return next(iter(members(enum))).value
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.StructType(cls=cls) if cls is MoneyAmount:
            return {"nano": "1000", "currency": "USD"}
        case inspect.StructType(fields=fields):
            return {each.encode_name: any_of(each.type) for each in fields if each.required}
        case _:
            return PLAIN.get(type(kind), "x")


def members(enum: type[Enum]) -> Iterator[Enum]:
    """Members of an enum, typed."""
    return iter(enum)
