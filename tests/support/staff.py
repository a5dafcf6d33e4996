"""Staff for tests: a person with a role, a link that signs them in, and a browser that opened it."""

import httpx

from billing.people.actors import actor_of_session
from billing.people.links import make_person_code
from billing.people.person_sessions import open_person_session
from billing.people.persons import Member, create_member, find_member
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import OperationActor
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import Role
from core.sql.database import Database


async def staff_code(
    settings: Settings, db: Database, name: str = "Ann", role: Role = Role.OWNER, tenant: str = PLATFORM
) -> str:
    """The code of a one-time link of a new person, staff or a tenant's member."""
    member = await _new_member(db, tenant, name, role)
    return make_person_code(settings.keyring, member.person.id, tenant, now_ms())


async def signed_in_person(db: Database, name: str, role: Role) -> OperationActor:
    """One of the staff, made here and signed in."""
    made = await _new_member(db, PLATFORM, name, role)
    async with db.transaction() as session:
        opened = await open_person_session(session, made.person, made.membership, "127.0.0.1", "test")
    return actor_of_session(opened.signed_in, loopback=True)


async def open_link(browser: httpx.AsyncClient, code: str) -> httpx.Response:
    """Sign in as the page does. A browser that is signed in sends on writes what pages send."""
    reply = await browser.post("/api/sign-in", json={"by": "link", "code": code})
    if reply.is_success:
        browser.headers["x-parley-csrf"] = reply.json()["csrf"]
    return reply


async def _new_member(db: Database, tenant: str, name: str, role: Role) -> Member:
    """With a number behind the name where somebody of the staff has it."""
    names, number = [name, *(f"{name} {each}" for each in range(2, 20))], 0
    while tenant == PLATFORM and await _is_taken(db, names[number]):
        number += 1
    return await create_member(db, tenant, names[number], role)


async def _is_taken(db: Database, name: str) -> bool:
    try:
        await find_member(db, PLATFORM, name)
    except Refused:
        return False
    return True
