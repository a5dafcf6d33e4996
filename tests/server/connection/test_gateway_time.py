"""A gateway over time: access that ends, keys that change, sessions and places that are taken. In virtual
time, with the settings as they come. What time does to readers are conformance cases (ladder, no_reader)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from core.clock import monotonic, now_ms
from tests.server.connection.gateway_play import TENANT, Playing, key
from tests.server.connection.gateway_play import model as model
from tests.server.connection.gateway_play import playing as playing
from tests.server.virtual.gateway import VirtualGateway
from tests.server.virtual.peer import VirtualPeer, connected, welcomed


@asynccontextmanager
async def resumed(
    gateway: VirtualGateway, token: str, before: VirtualPeer, as_: str
) -> AsyncGenerator[VirtualPeer]:
    """A session that goes on at another connection, `full` or `none`."""
    resume = {"token": before.welcome["resume_token"], "requests": []}
    async with welcomed(gateway, token, resume=resume) as peer:
        assert peer.welcome["resumed"] == as_
        assert (peer.welcome["session"] == before.welcome["session"]) == (as_ == "full")
        yield peer


def test_a_key_that_ends_is_asked_for_and_then_closed(playing: Playing):
    """`auth_required` a minute before; the same key again does not help; then `token_expired` and 4014."""

    async def play(gateway: VirtualGateway) -> None:
        secret, _ = key(gateway, expires_ms=now_ms() + 3_600_000)
        async with welcomed(gateway, secret) as peer:
            began = monotonic()
            assert (await peer.hear("auth_required"))["expires_in_ms"] == pytest.approx(60_000, abs=1_000)
            assert monotonic() - began == pytest.approx(3_540, abs=1)
            await peer.tell("auth", token=secret)
            assert (await peer.hear("auth_ok"))["expires_in_ms"] <= 60_000
            assert (await peer.hear("error"))["code"] == "token_expired"
            assert await peer.closed() == 4014
            assert monotonic() - began == pytest.approx(3_600, abs=1)

    playing(play)


def test_a_rotated_key_refreshes_the_session_of_the_one_before(playing: Playing):
    """The old key got an end while it was in use: its sessions learn of it and take the successor."""

    async def play(gateway: VirtualGateway) -> None:
        secret, old = key(gateway)
        successor, new = key(gateway)
        async with welcomed(gateway, secret) as peer:
            gateway.keys.by_secret[secret] = replace(old, access_ends_ms=now_ms() + 40_000)
            gateway.keys.by_secret[successor] = replace(new, owner_key=old.key)
            assert 0 < (await peer.hear("auth_required"))["expires_in_ms"] <= 40_000
            await peer.tell("auth", token=successor)
            assert "expires_in_ms" not in await peer.hear("auth_ok")
            await peer.stay(600)
            await peer.quiet()

    playing(play)


def test_a_revocation_whose_news_was_lost_still_holds(playing: Playing):
    """Keys are looked up again every 15 s: nothing depends on a message alone."""

    async def play(gateway: VirtualGateway) -> None:
        secret, known = key(gateway)
        async with welcomed(gateway, secret) as peer:
            gateway.keys.gone.add(known.key)
            began = monotonic()
            assert (await peer.hear("error"))["code"] == "unauthorized"
            assert await peer.closed() == 4501
            assert monotonic() - began <= gateway.settings.key_check_seconds

    playing(play)


def test_a_connection_that_never_heard_of_its_successor_is_closed(playing: Playing):
    """Sessions are looked at every minute: nothing depends on a message alone."""

    async def play(gateway: VirtualGateway) -> None:
        async with welcomed(gateway, key(gateway)[0]) as peer:
            name = f"{{t:{TENANT}}}sess:{peer.welcome['session']}"
            await gateway.redis.hset(name, {"connection": "one at another gateway"})
            began = monotonic()
            await peer.stay(50)
            assert await peer.closed() == 4003
            assert 50 < monotonic() - began <= 60

    playing(play)


def test_a_key_s_places_are_those_of_its_connections(playing: Playing):
    """A resume takes its place along, one that leaves gives it back, and who stays keeps his."""

    async def play(gateway: VirtualGateway) -> None:
        gateway.connections._limit._most["key"] = 2  # pyright: ignore[reportPrivateUsage]
        secret, _ = key(gateway)
        async with welcomed(gateway, secret) as first, welcomed(gateway, secret) as stays:
            await refused(gateway, secret)
            async with resumed(gateway, secret, first, "full"):
                assert await first.closed() == 4003
                await refused(gateway, secret)
                await stays.stay(600)
                await stays.quiet()
            async with welcomed(gateway, secret):
                await refused(gateway, secret)
        async with welcomed(gateway, secret), welcomed(gateway, secret):
            pass

    playing(play)


async def refused(gateway: VirtualGateway, secret: str) -> None:
    """There is no place for another."""
    async with connected(gateway) as peer:
        await peer.tell("hello", v=1, token=secret)
        error = await peer.hear()
        assert (error["code"], error["scope"], error["limit"]) == ("rate_limited", "key", 2)
        assert await peer.closed() == 4505


@pytest.mark.parametrize(("gone_seconds", "as_"), [(890, "full"), (910, "none")])
def test_a_session_expires_a_quarter_of_an_hour_after_its_last_connection(
    playing: Playing, gone_seconds: int, as_: str
):
    """Not under the connection that holds it, however long that lives."""

    async def play(gateway: VirtualGateway) -> None:
        secret, _ = key(gateway)
        async with welcomed(gateway, secret) as before:
            await before.stay(1_800)
            before.wire.leave(None)
        async with welcomed(gateway, secret) as other:
            await other.stay(gone_seconds)
        async with resumed(gateway, secret, before, as_):
            pass

    playing(play)
