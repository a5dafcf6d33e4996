"""Limits by key at a gateway while a key is rotated: one count for the old key and the new one."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from billing.api import rotate_key, set_budget, set_policy
from billing.posting.biller import main as biller_main
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.server.requests.refusals import refusal
from tests.server.site import Site, running_site
from tests.support.patience import wait_until
from tests.support.redis import Redis


@dataclass
class Overlap:
    """A gateway and a biller; both secrets of the key are valid."""

    site: Site
    new_id: str
    secrets: tuple[str, str]

    async def told(self, what: str) -> list[dict[str, Any]]:
        """What GET /v1/limits says to each of the two."""
        found: list[dict[str, Any]] = []
        async with httpx.AsyncClient(base_url=self.site.url) as client:
            for secret in self.secrets:
                reply = await client.get("/v1/limits", headers={"authorization": f"Bearer {secret}"})
                found += reply.json()[what]
        return found

    async def answered(self, secret: str) -> int:
        """One request; what it cost, in nano-USD."""
        async with self.site.welcomed(secret) as peer:
            await peer.send()
            end = await peer.hear("end")
        assert end["reason"] == "stop"
        return end["cost"]["nano"]


@pytest.fixture
async def overlap(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Overlap]:
    """In the hour in which both work."""
    stop = asyncio.Event()
    async with running_site(settings, sqlite, redis) as site:
        new, secret = await rotate_key(sqlite, site.tenant, site.key_id, 3_600, redis)
        biller = asyncio.create_task(biller_main(settings, stop))
        yield Overlap(site, new.id, (site.key, secret))
        stop.set()
        await biller


async def test_a_rate_is_of_old_and_new_key_together(overlap: Overlap):
    """Set on the successor, used by both, refused to both, and told to both alike."""
    site = overlap.site
    rate: dict[str, Any] = {"dimension": "requests_per_minute", "limit": 1, "burst": 2}
    await set_policy(site.database, site.redis, site.tenant, scope="key", scope_id=overlap.new_id, **rate)
    async with site.answering("ok"):
        for secret in overlap.secrets:
            await overlap.answered(secret)
        for secret in overlap.secrets:
            async with site.welcomed(secret) as peer:
                error = await refusal(peer)
                assert (error["code"], error["scope"]) == ("rate_limited", "key")
    assert [(each["scope_id"], each["used"]) for each in await overlap.told("limits")] == [
        (site.key_id, 2)
    ] * 2


async def test_places_are_of_old_and_new_key_together(overlap: Overlap):
    """Of a limit that each key has for itself, too: what waits of one leaves the other no place."""
    site = overlap.site
    await set_policy(site.database, site.redis, site.tenant, scope="key", dimension="concurrency", limit=1)
    async with site.welcomed(overlap.secrets[0]) as old, site.welcomed(overlap.secrets[1]) as new:
        await refusal(old)
        error = await new.hear("error", id=await new.send())
        assert (error["code"], error["scope"], error["dimension"]) == ("rate_limited", "key", "concurrency")


async def test_a_budget_does_not_begin_anew_with_a_rotation(overlap: Overlap):
    """What the old key spent counts for the new one: Redis has it from the books, and counts on what both
    spend; lowered, it refuses both."""
    site = overlap.site
    of: dict[str, Any] = {"scope": "key", "period": "month"}
    async with site.answering("ok"):
        spent = await overlap.answered(overlap.secrets[0])
        await set_budget(
            site.database, site.redis, site.tenant, scope_id=overlap.new_id, limit_nano=10**9, **of
        )
        for secret in reversed(overlap.secrets):
            spent += await overlap.answered(secret)

        async def both_are_told() -> bool:
            found = await overlap.told("budgets")
            return [(each["scope_id"], each["spent_nano"]) for each in found] == [(site.key_id, spent)] * 2

        await wait_until(both_are_told)
        await set_budget(site.database, site.redis, site.tenant, scope_id=site.key_id, limit_nano=1, **of)
        for secret in overlap.secrets:
            async with site.welcomed(secret) as peer:
                error = await refusal(peer)
                assert (error["code"], error["scope"]) == ("budget_exceeded", "key")
