"""The console's door: every route under a bucket, wrong links counted and logged, no metrics behind it."""

import httpx
import pytest
from redis.asyncio import Redis
from starlette.routing import Mount, Route
from structlog.testing import capture_logs

from admin import operators
from admin.console import Console
from core.database import Database
from core.settings import Settings
from server.http.calls import FREE

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
            assert route.path != "/metrics", "they have a bind of their own"


async def test_wrong_links_are_counted_logged_and_slowed(settings: Settings, redis: Redis, sqlite: Database):
    """A good one is let in all the same."""
    few = settings.model_copy(update={"failed_signins_per_address_per_minute": 2.0})
    async with browser(Console(few, redis, sqlite)) as client:

        async def attempt(code: str) -> int:
            return (await client.post("/api/login", headers={"x-parley-code": code})).status_code

        wrong = "0" * 32
        with capture_logs() as logs:
            assert [await attempt(wrong) for _ in range(4)] == [401, 401, 429, 429]
        failures = [line for line in logs if line["event"] == "sign-in failed"]
        assert [(line["address"], line["shown"]) for line in failures] == [("127.0.0.1", "operator")] * 2
        assert wrong not in str(logs)
        assert await attempt(operators.make_operator_code(few.keyring)) == 200
