"""One handler: whatever a route, an upgrade or a frame raises becomes a typed answer and one log line without
values, on the gateway and on the console.

Every route is swept, so that a new one is held to it too.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Route

from admin.api.problems import reply_of
from admin.console import Console
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from server.api import SecurityHeaders
from server.context import make_context
from server.http.app import routes
from server.http.guard import PROBLEM, guarded
from server.http.health import Health
from server.protocol.codes import ErrorCode, refusal
from tests.security.sinks import CANARY, Sinks
from tests.support.redis import Redis

Raising = Callable[[Any], Any]


@pytest.fixture(params=["gateway", "console"])
def served(
    request: pytest.FixtureRequest, settings: Settings, redis: Redis, sqlite: Database
) -> list[BaseRoute]:
    """All that a process serves over HTTP."""
    if request.param == "console":
        return Console(settings, redis, sqlite).routes()
    edge = make_context(settings, "gw-test", sqlite, redis)
    return routes(edge, Health(edge))


def _each(served: list[BaseRoute], raising: Raising) -> Iterator[tuple[Route, str]]:
    """Every route with an endpoint that raises, and a path that leads to it."""
    for route in served:
        if isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                broken = Route(route.path, raising, methods=[method])
                yield broken, route.path.replace("{id}", CANARY)


async def _raise(request: Any) -> None:
    prompt = f"{CANARY} {request.headers['authorization']}"
    raise RuntimeError(prompt) from KeyError(prompt)


async def test_every_route_answers_typed_and_logs_one_line(served: list[BaseRoute], sinks: Sinks):
    """500 `internal` and nothing of its cause; type and place in the log, and no value in any sink."""
    for route, path in _each(served, _raise):
        (method,) = (route.methods or set()) - {"HEAD"}
        app = SecurityHeaders(guarded([route], reply_of))
        transport = httpx.ASGITransport(app=app)
        sinks.forget()
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway.test") as client:
            reply = await client.request(method, path, headers={"authorization": f"Bearer {CANARY}"})
        assert reply.status_code == 500, path
        told = reply.json()
        if path.startswith("/api/"):
            assert reply.headers["content-type"] == "application/problem+json"
            assert (told["type"], told["detail"]) == ("urn:parley:problem:internal", PROBLEM)
        else:
            assert told["error"] == {"code": "internal", "message": PROBLEM, "retry": True}
        assert reply.headers["x-content-type-options"] == "nosniff"
        (line,) = sinks.lines
        assert "RuntimeError" in line
        assert "test_handler.py:" in line
        assert CANARY not in sinks.everything


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (Refused(refusal(ErrorCode.RATE_LIMITED, "later")), 429),
        (RedisConnectionError(CANARY), 503),
        (OSError(CANARY), 503),
        (RecursionError(CANARY), 500),
    ],
)
async def test_what_is_not_there_is_told_from_what_is_broken(raised: Exception, status: int, sinks: Sinks):
    """A refusal is no fault and is not logged; a server that does not answer is 503."""

    async def raising(_request: Any) -> None:
        raise raised

    transport = httpx.ASGITransport(app=guarded([Route("/", raising)]))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway.test") as client:
        assert (await client.get("/")).status_code == status
    assert len(sinks.lines) == (status != 429)
    assert CANARY not in sinks.everything


async def test_a_client_that_left_is_no_fault(sinks: Sinks):
    """It is answered nothing, and the log is not filled with it."""

    async def leaving(_request: Any) -> None:
        raise ClientDisconnect

    transport = httpx.ASGITransport(app=guarded([Route("/", leaving)]), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway.test") as client:
        with contextlib.suppress(AssertionError):  # the transport misses an answer
            await client.get("/")
    assert sinks.lines == []


async def test_a_path_with_a_slash_too_many_leads_nowhere(served: list[BaseRoute]):
    """No answer sends a browser to where its Host header says."""
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=guarded(served)), base_url="http://evil.example"
    ) as client:
        for path in ("/v1/login/", "/v1/models/", "/api/status/", "/healthz/", "/web"):
            reply = await client.get(path)
            assert "evil.example" not in reply.headers.get("location", ""), path
