"""Ids of whom a limit, a budget or a question names: a project or a user by name, a key by its prefix."""

from dataclasses import replace

from billing.booking.models import is_known_model
from billing.budgets.key_chains import owner_key_of
from billing.limits import Scope
from billing.tenants.keys import list_keys, no_such_key
from billing.tenants.tenancy import find_project
from billing.tenants.users import user_named
from core.errors import Refused, see, unknown
from core.sql.database import Database


async def counted_id_of(db: Database, tenant_id: str, scope: str, named: str, must_exist: bool = True) -> str:
    """The id under which a limit on whoever is named counts: as `scope_id_of`, of a key the first of its
    chain. Raises Refused for one that the tenant does not have."""
    found = await scope_id_of(db, tenant_id, scope, named, must_exist)
    return await owner_key_of(db, tenant_id, scope, found)


async def scope_id_of(
    db: Database, tenant_id: str, scope: str, named: str, must_exist: bool = True, field: str = "of"
) -> str:
    """The id behind a name. Raises Refused (of the field) for one that the tenant does not have: a limit on a
    mistyped name would count nothing.

    `must_exist` False: an unknown user or model is returned as named, for those who only read."""
    match scope if named else "":
        case Scope.PROJECT:
            return await _project(db, tenant_id, named, field)
        case Scope.KEY:
            return await _key(db, tenant_id, named, field)
        case Scope.USER:
            return await _user(db, tenant_id, named, must_exist, field)
        case Scope.MODEL if must_exist and not await is_known_model(db, tenant_id, named):
            raise unknown(f"there is no model {named!r}", field=field, see=see("models.list"))
        case _:
            return named


async def _project(db: Database, tenant_id: str, named: str, field: str) -> str:
    project = await find_project(db, tenant_id, named)
    if project is None:
        known = see("projects.list", tenant=tenant_id)
        raise unknown(f"there is no project {named!r}", field=field, see=known)
    return project.id


async def _key(db: Database, tenant_id: str, named: str, field: str) -> str:
    for key in await list_keys(db, tenant_id):
        if named in (key.id, key.prefix, f"pk_{key.prefix}"):
            return key.id
    raise Refused(replace(no_such_key(named, tenant_id).refusal, field=field))


async def _user(db: Database, tenant_id: str, named: str, must_exist: bool, field: str) -> str:
    user = await user_named(db, tenant_id, named)
    if user is None and must_exist:
        message = f"there is no user {named!r}, and who is still to come is created first"
        raise unknown(message, field=field, see=see("users.list", tenant=tenant_id))
    return named if user is None else user.id
