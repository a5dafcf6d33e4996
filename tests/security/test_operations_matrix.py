"""Every operation, by every role, on its own tenant, another's and none: made from the registry, so that a
new operation is in it at once. Roles that may not are refused, and of another tenant nothing is ever said."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from billing.approvals.approve import BY_PEOPLE
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import perform
from billing.unit_of_work.units import Stores, Terms
from core.actor import Author
from core.configuration.settings import Settings
from core.errors import Refused
from core.file_answer import FileAnswer
from core.operations import MEMBERS, STAFF, Operation, Role, registered, shown_secrets
from core.sql.database import Database
from tests.security.asked_operations import NAMES, SeededTenant, ask_for, seeded
from tests.support.redis import Redis

OPERATIONS = list(registered().values())
SECRET_WORD = "zzz-othertenant"
OF_ONES_OWN = (
    "safety.",  # a level, which is a tenant's or the platform's: a member's own
    "people.",
    "me.",
    "requests.",
    "runs.",
    "tokens.",
)  # what members name there is looked up in their own tenant


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
    if isinstance(done.answer, FileAnswer):
        async with done.answer.read() as pieces:
            return "answered", b"".join([piece async for piece in pieces]).decode()
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
