"""The headers that lock pages down stand on every answer of gateway and console, whatever its status."""

import pytest

from chaos.bench.fuzz import targets
from chaos.bench.fuzz.inputs import Route
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.support.redis import Redis

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-dns-prefetch-control": "off",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
# The console's page has a font of its own.
FONTED = {"content-security-policy": f"{HEADERS['content-security-policy']}; font-src 'self'"}
OTHERS = [
    Route("GET", "/nowhere"),
    Route("PUT", "/"),
    Route("GET", "/web/nothing.js"),
    Route("GET", "/web/%00"),
]


@pytest.mark.parametrize("process", ["gateway", "console"])
async def test_every_answer_has_the_whole_set(
    process: str, settings: Settings, sqlite: Database, redis: Redis
):
    """Each route's answer to a stranger, and what no route answers: missing one, a page could be framed or a
    text be taken for a script."""
    async with targets.opened(process, settings, sqlite, redis) as target:
        for route in [*target.routes, *OTHERS]:
            if route.socket:
                continue
            path = route.path.replace("{id}", "x")
            head = f"{route.method} {path} HTTP/1.1\r\nhost: 127.0.0.1:8080\r\nconnection: close\r\n\r\n"
            line = await target.served.ask([head.encode()], "127.0.0.1", whole=True)
            lines = bytes(line.written).partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
            shown = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            wanted = HEADERS | (FONTED if route.path.startswith("/console/") else {})
            assert {name: shown.get(name) for name in HEADERS} == wanted, (route, targets.status(line))
            kept = (
                "no-store" if process == "gateway" and "json" in shown.get("content-type", "") else "no-cache"
            )
            assert shown["cache-control"] in (kept, "no-store"), route
            takes_keys = route.path.startswith("/v1/") or (process == "console" and "/api/" in route.path)
            assert ("www-authenticate" in shown) is (takes_keys and b" 401 " in line.written[:15]), route
