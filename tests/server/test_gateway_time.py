"""A real gateway over time: readers that stop, access that ends, keys that change, places that are taken."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from billing.api import create_key, rotate_key
from core.clock import now_ms
from core.database import Database
from core.settings import Settings
from engine.api import EntryKind
from server import door
from tests.server.site import Peer, Site, running_site
from tests.support.patience import wait_until

QUICK = {
    "paused_seconds": 0.1,
    "stuck_seconds": 0.3,
    "auth_notice_seconds": 1.0,
    "key_check_seconds": 0.1,
    "connections_per_key_max": 3,
    "connection_lease_seconds": 0.6,
    "gateway_lease_ms": 1000,
}
TEXT = "Nile, Rhine and Zambezi. " * 20


@pytest.fixture
async def site(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Site]:
    """A gateway whose clocks run fast."""
    monkeypatch.setattr(door, "KEEP_SECONDS", 0.2)
    async with running_site(settings, sqlite, redis, **QUICK) as running:
        yield running


async def read_to_the_end(peer: Peer, g: int, from_: int) -> dict[str, Any]:
    """Acknowledge everything until the end; the end."""
    while True:
        frame = await peer.hear()
        if frame.get("g") == g and (o := frame.get("b") or frame.get("o")):
            assert (frame.get("a") or o) == from_ + 1
            from_ = o
            await peer.tell("ack", a=[[g, o]], w={str(g): 256})
        if frame["t"] == "end":
            return frame


async def kinds(site: Site, id: str) -> list[str]:
    """The kinds of a request's log entries that are no text."""
    entries = await site.crew.log.read(site.tenant, id, 0, 10_000)
    return [entry.k.value for entry in entries if entry.k is not EntryKind.TEXT]


async def test_a_reader_that_stops_parks_its_request_and_its_ack_brings_it_back(site: Site):
    """Paused, parked with its place at the worker free, and then every byte of it, with the right hash."""
    async with site.answering(TEXT, 0.01) as engine, site.welcomed(window={"events": 4}) as peer:
        id = await peer.send()
        g = (await peer.hear("accepted"))["g"]
        await peer.hear("event", k="paused")

        async def parked() -> bool:
            return "parked" in await kinds(site, id) and not engine.unfinished()

        await wait_until(parked)
        assert all("o" in frame or "b" in frame for frame in peer.passed)
        sent = max(frame.get("b") or frame["o"] for frame in peer.passed)
        peer.passed.clear()
        await peer.tell("ack", a=[[g, sent]], w={str(g): 256})
        assert (await peer.hear("event", k="unpaused")).get("o") is None
        end = await read_to_the_end(peer, g, sent)
    assert end["reason"] == "stop"
    assert (await kinds(site, id)).count("resumed") == 1


async def test_one_reader_that_reads_is_enough(site: Site):
    """A second tab that sleeps does not park what the first one reads."""
    async with (
        site.answering(TEXT, 0.005),
        site.welcomed() as reads,
        site.welcomed(window={"events": 1}) as sleeps,
    ):
        id = await reads.send()
        g = (await reads.hear("accepted"))["g"]
        await sleeps.tell("attach", id=id, o=0)
        end = await read_to_the_end(reads, g, 0)
    assert end["reason"] == "stop"
    assert "parked" not in await kinds(site, id)


async def test_an_answer_that_nobody_reads_ends_when_its_sender_asked_for_that(site: Site):
    """`cancel_after_ms` after the last reader is gone; the tokens until then are counted."""
    async with site.answering(TEXT, 0.02), site.welcomed() as peer:
        id = await peer.send(options={"on_no_reader": {"cancel_after_ms": 200}})
        await peer.hear("delta")
        await peer.tell("detach", id=id)
        await site.crew_ended(id)
        await peer.tell("attach", id=id, o=0)
        end = await peer.hear("end")
    assert end["reason"] == "cancelled"
    assert 0 < end["usage"]["output"] < len(TEXT)


async def test_a_lost_socket_cancels_nothing_by_itself(site: Site):
    """`on_no_reader` is `continue` unless the sender says otherwise."""
    async with site.answering(TEXT, 0.002):
        async with site.welcomed() as peer:
            id = await peer.send()
            await peer.hear("delta")
        await site.crew_ended(id)
        async with site.welcomed() as peer:
            await peer.tell("attach", id=id, o=0)
            assert (await peer.hear("end"))["reason"] == "stop"


async def test_a_key_that_ends_is_asked_for_and_then_closed(site: Site):
    """`auth_required` in time; the same key again does not help; then `token_expired` and 4014."""
    key = await site.another_key(expires_ms=now_ms() + 2_500)
    async with site.welcomed(key) as peer:
        asked = await peer.hear("auth_required")
        assert 0 < asked["expires_in_ms"] <= 1_000
        await peer.tell("auth", token=key)
        assert (await peer.hear("auth_ok"))["expires_in_ms"] <= asked["expires_in_ms"]
        assert (await peer.hear("error"))["code"] == "token_expired"
        assert await peer.closed() == 4014


async def test_a_fresh_ticket_keeps_a_browser_in(site: Site):
    """A ticket lets its bearer in for a while; another of the same user prolongs it, a stranger's ends it."""

    async def ticket(client: httpx.AsyncClient, user: str) -> str:
        headers = {"authorization": f"Bearer {site.key}"}
        reply = await client.post(f"{site.url}/v1/tickets", json={"user": user}, headers=headers)
        return reply.json()["ticket"]

    async with httpx.AsyncClient() as client, site.welcomed(await ticket(client, "ann")) as peer:
        await peer.tell("auth", token=await ticket(client, "ann"))
        assert (await peer.hear("auth_ok"))["expires_in_ms"] > 3_590_000
        await peer.tell("auth", token=await ticket(client, "bob"))
        assert (await peer.hear("error"))["code"] == "unauthorized"
        assert await peer.closed() == 4501


async def test_a_rotated_key_refreshes_the_session_of_the_one_before(site: Site):
    """The old key got an end while it was in use: its sessions learn of it and take the successor."""
    row, secret = await create_key(site.database, site.tenant, site.project)
    async with site.welcomed(secret) as peer:
        _, successor = await rotate_key(site.database, site.tenant, row.id, overlap_seconds=1)
        await peer.hear("auth_required")
        await peer.tell("auth", token=successor)
        assert "expires_in_ms" not in await peer.hear("auth_ok")
        await asyncio.sleep(1.0)
        await peer.quiet()


async def test_a_revocation_whose_news_was_lost_still_holds(site: Site):
    """Keys are looked up again: nothing depends on a message alone."""
    row, secret = await create_key(site.database, site.tenant, site.project)
    async with site.welcomed(secret) as peer:
        async with site.database.transaction() as session:
            row.revoked_ms = now_ms()
            session.add(row)
        assert (await peer.hear("error"))["code"] == "unauthorized"
        assert await peer.closed() == 4501


async def test_a_connection_that_never_heard_of_its_successor_is_closed(site: Site, redis: Redis):
    """Sessions are looked at now and then: nothing depends on a message alone."""
    async with site.welcomed() as peer:
        key = f"{{t:{site.tenant}}}sess:{peer.welcome['session']}"
        await redis.hset(key, "connection", "one at another gateway")
        assert await peer.closed() == 4003


async def test_a_key_s_connections_are_counted_over_all_gateways(site: Site, redis: Redis):
    """A resume takes its place along, a connection that leaves gives it back, a gateway that died too."""
    places = f"{{t:{site.tenant}}}conns:{site.key_id}"
    async with site.welcomed() as first, site.welcomed():
        await redis.zadd(places, {"a connection of a gateway that died": now_ms() + 700})
        async with site.open() as peer:
            await peer.tell("hello", v=1, token=site.key)
            refused = await peer.hear()
            assert (refused["code"], refused["scope"], refused["limit"]) == ("rate_limited", "key", 3)
            assert await peer.closed() == 4505
        async with site.welcomed(resume={"token": first.welcome["resume_token"], "requests": []}) as resumed:
            assert resumed.welcome["resumed"] == "full"
            assert await first.closed() == 4003

            async def forgotten() -> bool:
                await redis.zremrangebyscore(places, "-inf", now_ms())
                return await redis.zcard(places) == 2

            await wait_until(forgotten)
            async with site.welcomed():
                assert await redis.zcard(places) == 3
    await wait_until(lambda: _gone(redis, places))


async def _gone(redis: Redis, key: str) -> bool:
    return not await redis.exists(key)


async def test_what_nobody_runs_ends_at_its_deadline(site: Site):
    """No worker and no supervisor lives: a gateway writes the end (P4)."""
    async with site.welcomed() as peer:
        await peer.send(options={"deadline_ms": 3_000})
        end = await peer.hear("end")
    assert (end["reason"], end["usage"]["total"], end["cost"]["nano"]) == ("deadline", 0, 0)


async def test_deflate_where_the_installation_wants_it(sqlite: Database, redis: Redis, settings: Settings):
    """Offered by the client and switched on by a setting; an answer arrives whole."""
    deflating = running_site(settings, sqlite, redis, deflate=True)
    async with deflating as site, site.answering(TEXT), site.welcomed() as peer:
        assert [each.name for each in peer.socket.protocol.extensions] == ["permessage-deflate"]
        await peer.send()
        g = (await peer.hear("accepted"))["g"]
        assert (await read_to_the_end(peer, g, 0))["usage"]["output"] == len(TEXT) + 1
