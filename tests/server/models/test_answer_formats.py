"""Answers of a shape at the gateway: what was tried passes, what was found wrong is refused with the place,
and a tenant whose patterns are turned off has none."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from billing.tenants import tenancy
from core.tasks import cancel_tasks
from engine.trials.server import TrialServer
from tests.engine.builders import FINGERPRINT
from tests.server.site import RawPeer, Site
from tests.support.patience import wait_until

LIST = {"type": "regex", "pattern": r"(\d+, )*\d+"}
IN_A_SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "x", "schema": {"type": "array", "items": {"type": "string", "pattern": "a+"}}},
}
CHOICE = {"type": "choice", "choices": ["a", "b"]}


class Trier:
    """Finds patterns with an x in them ambiguous."""

    async def problem(self, packed: str) -> str:
        """As the host would."""
        return "pattern: ambiguous: at character 3" if "x+" in packed else ""


@pytest.fixture(autouse=True)
async def _trying(gateway: Site) -> AsyncGenerator[None]:  # pyright: ignore[reportUnusedFunction]
    """A node that tries what the gateway asks."""
    desk = TrialServer(gateway.settings, gateway.redis)
    task = asyncio.create_task(desk.serve(Trier(), FINGERPRINT))
    yield
    await cancel_tasks([task])


async def asked(peer: RawPeer, shape: dict[str, Any]) -> dict[str, Any]:
    """The answer to a send with this shape: accepted, or an error."""
    id = await peer.send("hi", options={"response_format": shape})
    while (frame := await peer.hear(id=id))["t"] not in ("accepted", "error"):
        pass
    return frame


async def test_a_shape_that_was_found_wrong_is_refused_with_the_place(gateway: Site):
    """`bad_request`, and nothing of it is left; others go on, and the queue knows them as shaped."""
    async with gateway.welcomed() as peer:
        error = await asked(peer, {"type": "regex", "pattern": "(x+)+"})
        assert (error["t"], error["code"], error["retry"]) == ("error", "bad_request", False)
        assert error["message"] == "options.response_format: pattern: ambiguous: at character 3"
        assert [name async for name in gateway.redis.scan_iter("*req:*")] == []
        accepted = await asked(peer, LIST)
        assert accepted["t"] == "accepted"
        record: Any = gateway.redis.hget(f"{{p:default}}req:{gateway.tenant}:{accepted['id']}", "shaped")
        assert await record == b"1"


async def test_patterns_are_turned_off_by_tenant(gateway: Site):
    """Those of a schema too, on connections that are open, and on again; other shapes stay."""

    async def turn(regex: bool) -> None:
        await tenancy.set_tenant(gateway.database, gateway.tenant, regex=regex)
        await tenancy.publish_news(gateway.redis, gateway.tenant, tenancy.ACCESS_CHANGED)

    async with gateway.welcomed() as peer:
        assert (await asked(peer, LIST))["t"] == "accepted"
        await turn(regex=False)

        async def refused() -> bool:
            return (await asked(peer, LIST))["t"] == "error"

        await wait_until(refused)
        for shape in (LIST, IN_A_SCHEMA):
            error = await asked(peer, shape)
            assert error["code"] == "bad_request"
            assert "parley tenants set --regex on" in error["message"]
        assert (await asked(peer, CHOICE))["t"] == "accepted"
        await turn(regex=True)
        await wait_until(lambda: taken(peer))


async def taken(peer: RawPeer) -> bool:
    """Whether a pattern is accepted."""
    return (await asked(peer, IN_A_SCHEMA))["t"] == "accepted"
