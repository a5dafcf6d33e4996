"""Ends that a gateway makes: of itself, and of what nobody runs."""

import asyncio

import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from server import main
from server.connection.handshake import Handshake
from server.reading.subscriptions import Subscriptions
from tests.server.site import Site, running_site
from tests.support.patience import patience
from tests.support.redis import Redis


@pytest.mark.parametrize(
    "of", [(Handshake, "leave"), (Subscriptions, "_tell_gone")], ids=["connection", "reader"]
)
async def test_nothing_of_a_gateway_goes_on_after_its_end(
    sqlite: Database, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch, of: tuple[type, str]
):
    """It would open Redis and the database again, and leave them open."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def takes_for_ever(*_: object) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(main, "WORK_SECONDS_MAX", 0.0)
    monkeypatch.setattr(*of, takes_for_ever)
    async with running_site(settings, sqlite, redis, drain_seconds_max=0.2) as site:
        async with site.answering("hello"), site.welcomed() as peer:
            await peer.send(max_tokens=1000)
            await peer.hear("accepted")
        async with patience():
            await began.wait()
    assert ended.is_set()


async def test_what_nobody_runs_ends_at_its_deadline(gateway: Site):
    """No worker and no supervisor lives: a gateway writes the end (P4)."""
    async with gateway.welcomed() as peer:
        await peer.send(options={"deadline_ms": 3_000})
        end = await peer.hear("end")
    assert (end["reason"], end["usage"]["total"], end["cost"]["nano"]) == ("deadline", 0, 0)
