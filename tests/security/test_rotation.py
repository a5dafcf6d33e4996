"""Answers around the rotation of their key, from the send to the bill: admitted, sealed, owned, paid."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from sqlmodel import col, select

from billing.api import rotate_key
from billing.posting.biller import main as biller_main
from billing.tables.tenants import UsageQuarantine, UsageRow
from chaos.injected.scripted import ScriptedEngine
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.sql.database import Database
from tests.engine.tokens import EOS, ids_of
from tests.server.site import Site, running_site
from tests.support.patience import wait_until
from tests.support.redis import Redis

MORE = ids_of("a")[0]


@pytest.fixture
async def gateway(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A gateway and a biller."""
    stop = asyncio.Event()
    async with running_site(settings, sqlite, redis) as site:
        biller = asyncio.create_task(biller_main(settings, stop))
        yield site
        stop.set()
        await biller


async def billed(site: Site, *requests: str) -> list[UsageRow]:
    """Their rows, in this order, once all are there."""

    async def found() -> list[UsageRow]:
        async with site.database.session() as session:
            rows = {row.request_id: row for row in (await session.exec(select(UsageRow))).all()}
            assert (await session.exec(select(col(UsageQuarantine.detail)))).all() == []
        return [rows[id] for id in requests] if set(requests) <= set(rows) else []

    await wait_until(found)
    return await found()


async def test_an_answer_is_billed_on_either_side_of_a_rotation(gateway: Site):
    """One that was begun before and ends after is the old key's on the bill, and its successor hears its end;
    one that the successor asks for, in the same conversation, is the successor's. None is held back."""
    rotated = False

    def next_token(_context: object) -> int:
        return EOS if rotated else MORE

    conversation = uuid7(now_ms())
    async with (
        gateway.crew.worker(ScriptedEngine(next_token, step_seconds=0.02)),
        gateway.welcomed() as before,
    ):
        first = await before.send(conversation=conversation)
        await before.hear("delta")  # it runs
        new, secret = await rotate_key(gateway.database, gateway.tenant, gateway.key_id, 0, gateway.redis)
        async with gateway.welcomed(secret) as after:
            await after.tell("attach", id=first, o=0)
            await after.hear("attached", id=first)
            rotated = True
            assert (await after.hear("end"))["reason"] == "stop"
            second = await after.send(conversation=conversation)
            assert (await after.hear("end"))["reason"] == "stop"
        old_row, new_row = await billed(gateway, first, second)
    assert (old_row.key_id, new_row.key_id) == (gateway.key_id, new.id)
    assert {(row.tenant_id, row.project_id, row.user_id) for row in (old_row, new_row)} == {
        (gateway.tenant, gateway.project, "")
    }
    assert {row.conversation_id for row in (old_row, new_row)} == {conversation}
    assert min(row.cost_nano for row in (old_row, new_row)) > 0
    assert new_row.input_uncached + new_row.input_cached > old_row.input_uncached + old_row.input_cached
