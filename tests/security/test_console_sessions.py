"""People's browsers at the console: who gets in, with what cookie, and what ends it."""

from collections.abc import AsyncGenerator

import httpx
import pytest

from admin.api.callers import KNOWN_COOKIE
from admin.console import Console
from billing.people import links, person_sessions
from billing.people.links import make_person_code
from billing.people.memberships import set_role
from billing.people.persons import close_person, create_member
from billing.tables.tenants import PLATFORM
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import Role
from core.signing.signed_text import Keyring
from core.sql.database import Database
from server.api import SecurityHeaders
from tests.support.redis import Redis
from tests.support.staff import open_link, staff_code

ORIGIN = "http://console.localhost"
SHIFT_SECONDS = 12 * 3600


@pytest.fixture
async def browser(settings: Settings, redis: Redis, sqlite: Database) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser in front of the console."""
    app = SecurityHeaders(Console(settings, redis, sqlite).app(), settings.tls)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=ORIGIN) as client:
        yield client


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_cookie_is_for_the_consoles_own_pages(
    browser: httpx.AsyncClient, settings: Settings, sqlite: Database, scheme: str
):
    """SameSite=Strict and HttpOnly, for half a day; under TLS for this host alone, and browsers are told to
    stay with it."""
    browser.base_url = httpx.URL(ORIGIN.replace("http", scheme))
    reply = await open_link(browser, await staff_code(settings, sqlite))
    assert reply.status_code == 200
    prefix = "__Host-" if scheme == "https" else ""
    cookies = [each.partition("=") for each in reply.headers.get_list("set-cookie")]
    assert [name for name, _, _ in cookies] == [f"{prefix}parley_staff", f"{prefix}{KNOWN_COOKIE}"]
    for _, _, facts in cookies:
        assert {"HttpOnly", "Path=/", "SameSite=strict"} <= {each.strip() for each in facts.split(";")}
        assert ("Secure" in facts) is (scheme == "https")
    assert ("strict-transport-security" in reply.headers) is (scheme == "https")
    assert f"Max-Age={SHIFT_SECONDS};" in cookies[0][2]
    (row,) = await person_sessions.list_person_sessions(sqlite, PLATFORM)
    assert row.ends_ms - row.made_ms == SHIFT_SECONDS * 1000


async def test_who_writes_redis_makes_no_operator(
    browser: httpx.AsyncClient, settings: Settings, sqlite: Database
):
    """A link is sealed, names whom it is for, and is good once; a page of another site uses up none."""
    ann = (await create_member(sqlite, PLATFORM, "Ann", Role.OWNER)).person.id
    code = make_person_code(settings.keyring, ann, PLATFORM, now_ms())
    forged = make_person_code(Keyring(b"guessed"), ann, PLATFORM, now_ms())
    nobodys = make_person_code(settings.keyring, "nobody", PLATFORM, now_ms())
    for wrong in ("", "x", ".", forged, nobodys, code[:-1], "0" * 32):
        assert (await open_link(browser, wrong)).status_code == 401
    body = {"by": "link", "code": code}
    foreign = await browser.post("/api/sign-in", json=body, headers={"origin": "https://evil.test"})
    assert foreign.status_code == 403
    assert [(await open_link(browser, code)).status_code for _ in range(2)] == [200, 401]


async def test_an_old_link_lets_nobody_in(browser: httpx.AsyncClient, settings: Settings, sqlite: Database):
    """After its hour."""
    ann = (await create_member(sqlite, PLATFORM, "Ann", Role.OWNER)).person.id
    old = make_person_code(settings.keyring, ann, PLATFORM, now_ms() - links.LINK_SECONDS * 1000 - 1)
    assert (await open_link(browser, old)).status_code == 401


@pytest.mark.parametrize("ends", ["sign-out", "session", "role", "person"])
async def test_what_ends_a_session_ends_it_at_once(
    browser: httpx.AsyncClient, settings: Settings, sqlite: Database, ends: str
):
    """The cookie that was copied before is worth nothing after."""
    await create_member(sqlite, PLATFORM, "Bob", Role.OWNER)  # who is left
    await open_link(browser, await staff_code(settings, sqlite))
    assert (await browser.get("/api/noisy")).status_code == 200
    cookie = {"cookie": f"parley_staff={browser.cookies['parley_staff']}"}
    (row,) = await person_sessions.list_person_sessions(sqlite, PLATFORM)
    if ends == "sign-out":
        foreign = await browser.post("/api/sign-out", headers={"origin": "https://evil.test"})
        assert foreign.status_code == 403
        reply = await browser.post("/api/sign-out")
        assert (reply.status_code, "parley_staff" in browser.cookies) == (200, False)
    elif ends == "session":
        assert await person_sessions.end_person_session(sqlite, PLATFORM, row.id) is not None
    elif ends == "role":
        await set_role(sqlite, PLATFORM, row.person_id, Role.SUPPORT)
    else:
        await close_person(sqlite, row.person_id)
    browser.cookies.clear()
    assert (await browser.get("/api/noisy", headers=cookie)).status_code == 401
    assert await person_sessions.list_person_sessions(sqlite, PLATFORM) == []
