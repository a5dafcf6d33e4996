"""Staff for tests: a person with a role, a link that signs them in, and a browser that opened it."""

import httpx

from billing.people.links import make_person_code
from billing.people.persons import create_member
from billing.tables.tenants import PLATFORM
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import Role
from core.sql.database import Database


async def staff_code(
    settings: Settings, db: Database, name: str = "Ann", role: Role = Role.OWNER, tenant: str = PLATFORM
) -> str:
    """The code of a one-time link of a new person, staff or a tenant's member."""
    member = await create_member(db, tenant, name, role)
    return make_person_code(settings.keyring, member.person.id, tenant, now_ms())


async def open_link(browser: httpx.AsyncClient, code: str) -> httpx.Response:
    """Sign in as the page does. A browser that is signed in sends on writes what pages send."""
    reply = await browser.post("/api/sign-in", json={"by": "link", "code": code})
    if reply.is_success:
        browser.headers["x-parley-csrf"] = reply.json()["csrf"]
    return reply
