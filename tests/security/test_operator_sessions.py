"""Operators' browsers at the console: who gets in, with what cookie, and what ends it."""

from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from admin import operators
from admin.console import Console
from billing.api import end_session
from billing.tables.tenants import PLATFORM
from billing.tenants import sessions
from core.clock import now_ms
from core.configuration.settings import Settings
from core.signing.signed_text import Keyring
from core.sql.database import Database
from server.api import SecurityHeaders
from tests.support.redis import Redis

ORIGIN = "http://console.test"
OWN = {"origin": ORIGIN}
SHIFT_SECONDS = 12 * 3600


@pytest.fixture
async def browser(settings: Settings, redis: Redis, sqlite: Database) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser in front of the console."""
    app = SecurityHeaders(Console(settings, redis, sqlite).app(), settings.tls)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=ORIGIN) as client:
        yield client


async def _sign_in(browser: httpx.AsyncClient, code: str, origin: str = ORIGIN) -> httpx.Response:
    headers = {"x-parley-code": code, "origin": origin, "user-agent": "a browser"}
    return await browser.post(f"{origin}/api/login", headers=headers)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_cookie_is_for_the_consoles_own_pages(
    browser: httpx.AsyncClient, settings: Settings, sqlite: Database, scheme: str
):
    """SameSite=Strict and HttpOnly, for half a day; under TLS for this host alone, and browsers are told to
    stay with it."""
    origin = ORIGIN.replace("http", scheme)
    reply = await _sign_in(browser, operators.make_operator_code(settings.keyring), origin)
    assert reply.status_code == 200
    name, _, facts = reply.headers["set-cookie"].partition("=")
    assert name == ("__Host-parley_operator" if scheme == "https" else "parley_operator")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= {each.strip() for each in facts.split(";")}
    assert ("Secure" in facts) is (scheme == "https")
    assert ("strict-transport-security" in reply.headers) is (scheme == "https")
    assert f"Max-Age={SHIFT_SECONDS};" in facts
    (row,) = await sessions.list_sessions(sqlite, PLATFORM)
    assert row.ends_ms - row.made_ms == SHIFT_SECONDS * 1000


async def test_who_writes_redis_makes_no_operator(
    browser: httpx.AsyncClient, settings: Settings, redis: Redis
):
    """A link is sealed, names whom it is for, and is good once, for an hour."""
    code = operators.make_operator_code(settings.keyring, "Ann")
    assert await redis.keys("parley:operator:*") == []
    forged = operators.make_operator_code(Keyring(b"guessed"))
    for wrong in ("", "x", ".", forged, code[:-1], "0" * 32):
        assert (await _sign_in(browser, wrong)).status_code == 401
    foreign = {"x-parley-code": code, "origin": "https://evil.test"}
    assert (await browser.post("/api/login", headers=foreign)).status_code == 403
    assert (await _sign_in(browser, code)).status_code == 200
    assert (await _sign_in(browser, code)).status_code == 401
    assert await redis.keys("parley:operator:*") != []


async def test_an_old_link_lets_nobody_in(
    browser: httpx.AsyncClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    """After its hour."""
    code = operators.make_operator_code(settings.keyring)
    later = now_ms() + 3_600_001
    monkeypatch.setattr(operators, "now_ms", lambda: later)
    assert (await _sign_in(browser, code)).status_code == 401


async def test_operators_are_listed_and_signed_out(
    browser: httpx.AsyncClient, settings: Settings, sqlite: Database, redis: Redis
):
    """By themselves and by another; the cookie that was copied before is worth nothing after."""
    for ends in ("logout", "revoked", "expired"):
        await _sign_in(browser, operators.make_operator_code(settings.keyring, "Ann"))
        assert (await browser.get("/api/noisy")).status_code == 200
        (row,) = await sessions.list_sessions(sqlite, PLATFORM)
        assert (row.user_id, row.agent, row.key_id) == ("Ann", "a browser", "")
        cookie = {"cookie": f"parley_operator={browser.cookies['parley_operator']}"}
        if ends == "logout":
            foreign = await browser.post("/api/logout", headers={"origin": "https://evil.test"})
            assert foreign.status_code == 403
            reply = await browser.post("/api/logout", headers=OWN)
            assert (reply.status_code, "parley_operator" in browser.cookies) == (200, False)
        elif ends == "revoked":
            assert await end_session(sqlite, redis, PLATFORM, row.id)
        else:
            async with sqlite.transaction() as session:
                row.ends_ms = now_ms()
                session.add(row)
        browser.cookies.clear()
        assert (await browser.get("/api/noisy", headers=cookie)).status_code == 401, ends
        assert await sessions.list_sessions(sqlite, PLATFORM) == []


async def test_a_tenants_session_is_no_operators(
    browser: httpx.AsyncClient, settings: Settings, sqlite: Database
):
    """Nor the other way round: each is looked up where it belongs."""
    _, operators_token = await sessions.open_operator_session(sqlite, "Ann", 60, "", "")
    assert await sessions.principal_of_session(sqlite, operators_token) is None
    row, token = await sessions.open_operator_session(sqlite, "Ann", 60, "", "")
    async with sqlite.transaction() as session:
        await session.delete(row)
        await session.flush()
        facts: dict[str, Any] = {**row.model_dump(), "tenant_id": "t1", "key_id": "k1"}
        session.add(sessions.BrowserSession(**facts))
    reply = await browser.get("/api/noisy", headers={"cookie": f"parley_operator={token}"})
    assert reply.status_code == 401
