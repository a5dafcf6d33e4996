"""The console's door: every route under a bucket, wrong links counted and logged, no metrics behind it."""

from pathlib import Path

import httpx
import pytest
from starlette.routing import Mount, Route
from structlog.testing import capture_logs

from admin.console import Console
from core.configuration.settings import Settings
from core.sql.database import Database
from server.http.call_limit import FREE
from tests.support.redis import Redis
from tests.support.staff import open_link, staff_code

FEW = {"calls_per_address_per_second": 0.1, "failed_signins_per_address_per_minute": 2.0}


@pytest.fixture
async def console(settings: Settings, redis: Redis, sqlite: Database) -> Console:
    """One that answers few calls."""
    return Console(settings.model_copy(update=FEW), redis, sqlite)


def browser(console: Console) -> httpx.AsyncClient:
    """In front of it."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=console.app()), base_url="http://localhost")


async def test_every_route_of_the_console_is_under_its_callers_address(console: Console):
    async with browser(console) as client:
        await client.get("/")
        for route in console.routes():
            assert isinstance(route, Route | Mount)
            method = "POST" if isinstance(route, Route) and "POST" in (route.methods or ()) else "GET"
            reply = await client.request(method, route.path)
            assert (reply.status_code == 429) is (route.path not in FREE), route.path
            assert ("retry-after" in reply.headers) is (reply.status_code == 429), route.path
            assert route.path != "/metrics", "they have a bind of their own"


async def test_wrong_links_are_counted_logged_and_slowed(settings: Settings, redis: Redis, sqlite: Database):
    """A good one is let in all the same."""
    few = settings.model_copy(update={"failed_signins_per_address_per_minute": 2.0})
    async with browser(Console(few, redis, sqlite)) as client:

        async def attempt(code: str) -> int:
            return (await open_link(client, code)).status_code

        wrong = "0" * 32
        with capture_logs() as logs:
            assert [await attempt(wrong) for _ in range(4)] == [401] * 4
        failures = [line for line in logs if line["event"] == "sign_in.failed"]
        assert [(line["address"], line["shown"]) for line in failures] == [("127.0.0.1", "person_link")] * 2
        assert wrong not in str(logs)
        reply = await open_link(client, wrong)
        assert (reply.status_code, int(reply.headers["retry-after"]) >= 1) == (401, True)
        assert await attempt(await staff_code(few, sqlite)) == 200


async def test_sign_ins_of_an_address_are_counted(settings: Settings, redis: Redis, sqlite: Database):
    """Good and bad ones."""
    two = settings.model_copy(update={"signins_per_address_per_minute": 2.0})
    async with browser(Console(two, redis, sqlite)) as client:
        made = [await staff_code(settings, sqlite), "0" * 32] * 2
        replies = [await open_link(client, code) for code in made]
        assert [reply.status_code for reply in replies] == [200, 401, 429, 429]


async def test_the_console_says_so_while_the_database_is_down(
    settings: Settings, redis: Redis, sqlite: Database, tmp_path: Path
):
    """To who is signed in too: typed, with when to come again, and never a fault of ours."""
    async with browser(Console(settings, redis, sqlite)) as client:
        await open_link(client, await staff_code(settings, sqlite))
        cookies = client.cookies
    gone = Database(f"sqlite+aiosqlite:///{tmp_path / 'none' / 'parley.db'}")
    console = Console(settings, redis, gone)
    asked = 0
    async with browser(console) as client:
        client.cookies = cookies
        for route in console.routes():
            if not isinstance(route, Route) or not route.path.startswith(("/api/", "/v1/")):
                continue
            if "{" in route.path or route.path in ("/api/sign-in", "/api/sign-out"):
                continue
            method = next(iter((route.methods or {"GET"}) - {"HEAD"}))
            shown = {"authorization": f"Bearer pk_{'0' * 12}_{'0' * 48}"}
            reply = await client.request(method, route.path, headers=shown)
            assert reply.status_code == 503, route.path
            assert int(reply.headers["retry-after"]) >= 1, route.path
            assert "set-cookie" not in reply.headers, route.path
            asked += 1
    await gone.close()
    assert asked >= 8


async def test_wrong_keys_at_the_usage_api_are_counted_too(
    settings: Settings, redis: Redis, sqlite: Database
):
    """Nobody tries keys there as fast as they like."""
    few = settings.model_copy(update={"failed_signins_per_address_per_minute": 2.0})
    wrong = {"authorization": "Bearer pk_ffffffffffff_" + "0" * 48}
    async with browser(Console(few, redis, sqlite)) as client:
        replies = [(await client.get("/v1/usage", headers=wrong)).status_code for _ in range(4)]
    assert replies == [401, 401, 429, 429]
