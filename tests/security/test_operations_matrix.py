"""Every operation, by every role, on its own tenant, another's and none: made from the registry, so that a
new operation is in it at once. Roles that may not are refused, and of another tenant nothing is ever said."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from billing.approvals.approve import BY_PEOPLE
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
from billing.unit_of_work.perform import answer_of, perform
from billing.unit_of_work.units import Stores, Terms
from billing.wallets.wallets import NewGrant, grant
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import MEMBERS, STAFF, MoneyAmount, Operation, Role, registered, shown_secrets
from core.sql.database import Database
from tests.support.redis import Redis

OWNER = OperationActor(Author("Ann", "command"), Role.OWNER)
OPERATIONS = list(registered().values())
NAMES = [each.name for each in OPERATIONS]
SECRET_WORD = "zzz-othertenant"
OF_ONES_OWN = (
    "people.",
    "me.",
    "requests.",
    "runs.",
    "tokens.",
)  # what members name there is looked up in their own tenant


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


@dataclass(frozen=True)
class TwoTenants:
    """The tenant of the members who call, and another one."""

    stores: Stores
    own: SeededTenant
    other: SeededTenant

    def actor(self, role: Role) -> OperationActor:
        """Somebody with this role: staff, or a member of the own tenant."""
        return OperationActor(Author("Mia", "api"), role, None if role in STAFF else self.own.id)


@pytest.fixture
async def two(settings: Settings, sqlite: Database, redis: Redis) -> TwoTenants:
    """Two tenants on SQLite and a real Valkey."""
    stores = Stores(settings, sqlite, lambda: redis)
    return TwoTenants(stores, await seeded(stores, "acme"), await seeded(stores, SECRET_WORD))


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


async def said(
    two: TwoTenants, declared: Operation, role: Role, things: Mapping[str, str]
) -> tuple[str, Any]:
    """What an operation answers in a dry run: `answered` and its JSON, or `refused` and the refusal."""
    ask = ask_for(declared, things)
    terms = Terms(reason="matrix", dry_run=declared.writes)
    try:
        done = await perform(two.stores, two.actor(role), declared, ask, terms)
    except Refused as refused:
        return "refused", refused.refusal
    return "answered", msgspec.json.encode(done.answer, enc_hook=shown_secrets).decode()


@pytest.mark.parametrize("name", NAMES)
async def test_only_its_roles_may(two: TwoTenants, name: str) -> None:
    """Whoever may is answered or told what is wrong with the question; all others are told who may."""
    declared = registered()[name]
    for role in Role:
        how, what = await said(two, declared, role, two.own.things)
        if role not in declared.may:
            assert (how, what.code) == ("refused", "forbidden"), role
            assert what.message.startswith(f"your role, {role}, may not do this")
        else:
            assert how == "answered" or what.code != "forbidden" or what.message == BY_PEOPLE, (role, what)


@pytest.mark.parametrize("name", NAMES)
async def test_of_another_tenant_nothing_is_said(two: TwoTenants, name: str) -> None:
    """Members who name another tenant, or their own with another's things, learn nothing: they get what they
    get for things that are not there."""
    declared = registered()[name]
    mixed = {**two.other.things, "tenant": two.own.id}
    for role in sorted(declared.may & MEMBERS):
        for things in (two.other.things, {**two.other.things, "tenant": SECRET_WORD}, mixed):
            how, what = await said(two, declared, role, things)
            if how == "answered":
                assert two.other.id not in what, (role, things)
                assert SECRET_WORD not in what.replace(things.get("user", "-"), ""), (role, things)
                continue
            if "tenant" in declared.path_fields and things is not mixed:
                assert what.unknown, (role, what)
            nobodys = {field: "nobody" for field in things} | {"tenant": things["tenant"]}
            _, of_nobody = await said(two, declared, role, nobodys)
            same = what.message
            for field, value in things.items():
                same = same.replace(value, nobodys[field])
            assert same == getattr(of_nobody, "message", same), (role, things)


def test_each_role_may_something_and_no_operation_is_anybodys() -> None:
    """Roles of tenants never may what has no tenant in its path, but for lists of their own."""
    for role in Role:
        assert any(role in each.may for each in OPERATIONS), role
    for each in OPERATIONS:
        if each.may & MEMBERS and "tenant" not in each.path_fields:
            assert not each.writes or each.name.startswith(OF_ONES_OWN), each.name
