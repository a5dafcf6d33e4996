"""A worker that was taken over has no text recorded for a request that another pool answers."""

import asyncio
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from billing.usage import ENDED_FIELD, UsageEvent, ended_stream
from core.access.processes import WORKER
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.ids import uuid7
from core.sql.database import Database
from core.tasks import cancel_tasks
from engine.request import input_decoder, input_encoder
from server.access.authorization import ConversationOwner
from server.context import GatewayContext, make_context
from server.conversations.history import HistoryBounds
from server.conversations.purge import forget_answer
from server.conversations.store import ConversationStore, Turn
from server.conversations.tables import Message
from tests.billing.events import an_event
from tests.billing.quota.admissions import an_admission
from tests.security.poisoned_pools import END, recorded
from tests.server.conftest import gateway as gateway
from tests.server.site import Site
from tests.support.patience import wait_until
from tests.support.redis import Redis
from tests.support.users import client_of

TENANT, PROJECT = "t1", "p1"
OWN, OTHER = "default", "big"  # the pool of the worker, and the one that answers


class ForgedAnswer:
    """A turn whose request runs in pool `big`, and a worker of pool `default` that knows its id."""

    def __init__(self, edge: GatewayContext, worker: Any) -> None:
        self.edge = edge
        self.worker = worker
        self.turn = Turn(uuid7(now_ms()), uuid7(now_ms()), "hello", "tiny", now_ms())

    async def begin(self) -> None:
        """The gateway stores the turn."""
        await self.edge.conversations.open_turn(TENANT, ConversationOwner(PROJECT, "k1", ""), self.turn)

    def event(self, pool: str, **changes: Any) -> UsageEvent:
        """As `pool` tells of its end, sealed by the gateway."""
        owner = msgspec.structs.replace(an_event().owner, conversation=self.turn.conversation)
        return an_event(self.turn.request, TENANT, pool=pool, owner=owner, **changes)

    async def end(self, redis: Any, pool: str, event: UsageEvent, text: str) -> None:
        """Write an answer, its end and its event."""
        name = f"{TENANT}:{self.turn.request}"
        record: Any = {"status": "ended", "dest": "", "class": "bulk", "worker": "w", "deadline": 1, "n": 1}
        await redis.hset(f"{{p:{pool}}}req:{name}", mapping={**record, "epoch": 1, "o": 2, "control": 0})
        await redis.xadd(f"{{p:{pool}}}log:{name}", {"x": text, "r": len(text), "i": 1}, id="1-0")
        await redis.xadd(f"{{p:{pool}}}log:{name}", {"k": "end", "v": msgspec.json.encode(END)}, id="2-0")
        await redis.xadd(ended_stream(pool), {ENDED_FIELD: msgspec.msgpack.encode(event)})

    async def row(self) -> Message:
        """The answer as it is stored."""
        found = await self.edge.conversations.answer_row(TENANT, self.turn.request)
        assert found is not None
        return found[0]


@pytest.mark.parametrize("forgery", ["no seal", "the seal of another", "the pool of the other"])
async def test_no_forged_text_is_recorded(
    forgery: str, sqlite: Database, redis: Redis, redis_url: str, settings: Settings
):
    """Neither by its recorder nor where a turn waits for it; the true answer is recorded all the same."""
    edge = make_context(settings, "gw-test", sqlite, redis)
    async with client_of(redis, redis_url, WORKER) as worker:
        scene = ForgedAnswer(edge, worker)
        await scene.begin()
        event = {
            "no seal": msgspec.structs.replace(scene.event(OWN), seal=b""),
            "the seal of another": msgspec.structs.replace(scene.event(OWN), seal=an_event("r9").seal),
            "the pool of the other": scene.event(OTHER),
        }[forgery]
        await scene.end(worker, OWN, event, "forged")
    await edge.pools.recorders.catch_up(TENANT, scene.turn.conversation)
    await run_until_recorded(edge, redis, OWN)
    await edge.pools.recorders.catch_up(TENANT, scene.turn.conversation)
    row = await scene.row()
    assert (row.status, row.content) == ("running", "")
    edge.pools.serve(OTHER)
    await scene.end(redis, OTHER, scene.event(OTHER), "true")
    await run_until_recorded(edge, redis, OTHER)
    row = await scene.row()
    assert (row.status, row.content) == ("ended", "true")


@pytest.mark.parametrize("next_turn_first", [True, False])
@pytest.mark.parametrize(
    "forged",
    [{"policy": ""}, {"policy": "f" * 64}, {"owner": an_event().owner}],
    ids=["none", "unknown", "owner"],
)
async def test_no_conversation_stays_busy_for_what_a_worker_wrote(
    forged: dict[str, Any], next_turn_first: bool, sqlite: Database, redis: Redis, settings: Settings
):
    """It changes what its own pool's request was admitted under, so that the end's event has no good seal:
    the answer has ended with an error, without a text that may be unfiltered, and the next turn comes."""
    edge = make_context(settings, "gw-test", sqlite, redis)
    scene = ForgedAnswer(edge, redis)
    await scene.begin()
    owner = ConversationOwner(PROJECT, "k1", "")
    await edge.quota.admit(an_admission(tenant=TENANT, id=scene.turn.request, pool=OWN, now_ms=now_ms()))
    await scene.end(redis, OWN, msgspec.structs.replace(scene.event(OWN, policy="a" * 64), **forged), "raw")
    asked = (TENANT, owner, scene.turn.conversation, "tiny", HistoryBounds(100, 10_000))
    with pytest.raises(Refused):
        await edge.conversations.history(*asked)
    if next_turn_first:
        await edge.pools.recorders.catch_up(TENANT, scene.turn.conversation)
    else:
        await run_until_recorded(edge, redis, OWN)
    row = await scene.row()
    assert (row.status, row.reason, row.code, row.content) == ("ended", "error", "internal", "")
    history = await edge.conversations.history(*asked)
    assert [each["role"] for each in history.messages] == ["user", "assistant"]


@pytest.mark.parametrize("policy", ["", "f" * 64, None], ids=["none", "unknown", "garbage"])
async def test_a_request_that_was_changed_before_it_ran_frees_its_conversation(
    gateway: Site, policy: str | None
):
    """A worker that was taken over writes another policy, or garbage, into the request that an honest one
    then claims: the next turn of the conversation is taken, and history has no text of the first."""
    talk, redis, changed = uuid7(now_ms()), gateway.redis, b"?"
    async with gateway.welcomed() as peer:
        id = await peer.send("say it", conversation=talk)
        await peer.hear("accepted")
        key = f"{{p:{gateway.settings.pool}}}in:{gateway.tenant}:{id}"
        asked = input_decoder.decode(await redis.get(key) or b"")
        if policy is not None:
            changed = input_encoder.encode(msgspec.structs.replace(asked, policy=policy))
        await redis.set(key, changed)
        async with gateway.answering("raw AKIAIOSFODNN7EXAMPLE"):
            await peer.hear("end")
            await wait_until(lambda: is_stored(gateway, id))
            await peer.send("and", conversation=talk)
            await peer.hear("accepted")
            await peer.hear("end")


async def is_stored(site: Site, request: str) -> bool:
    found = await ConversationStore(site.database).answer_row(site.tenant, request)
    assert found is not None
    if found[0].status == "ended":
        assert (found[0].code, found[0].content) == ("internal", "")
    return found[0].status == "ended"


async def test_what_has_ended_is_caught_up_with(sqlite: Database, redis: Redis, settings: Settings):
    """By the next turn, before the recorder comes to it."""
    scene = ForgedAnswer(make_context(settings, "gw-test", sqlite, redis), redis)
    await scene.begin()
    await scene.end(redis, OWN, scene.event(OWN), "true")
    await redis.xadd(ended_stream(OWN), {ENDED_FIELD: b"nothing that can be read"})
    with capture_logs() as logs:
        await scene.edge.pools.recorders.catch_up(TENANT, scene.turn.conversation)
    assert (await scene.row()).content == "true"
    assert logs == []  # what is in the way is said once, by the recorder


async def test_what_a_pool_spoiled_keeps_no_other_from_forgetting(
    sqlite: Database, redis: Redis, settings: Settings
):
    """All pools' parts of an answer go, that one's too: a record of another type takes its log with it."""
    scene = ForgedAnswer(make_context(settings, "gw-test", sqlite, redis), redis)
    await scene.begin()
    scene.edge.pools.serve(OTHER)
    name = f"{TENANT}:{scene.turn.request}"
    spoiled, *whole = list(scene.edge.pools.recorders)
    assert whole
    await redis.xadd(f"{{p:{spoiled}}}log:{name}", {"e": "text"})
    await redis.set(f"{{p:{spoiled}}}req:{name}", "no record")
    for pool in whole:
        await scene.end(redis, pool, scene.event(pool), "true")
    assert await forget_answer(scene.edge.pools.recorders, TENANT, scene.turn.request)
    assert not [pool for pool in (spoiled, *whole) if await redis.exists(f"{{p:{pool}}}log:{name}")]


async def run_until_recorded(edge: GatewayContext, redis: Redis, pool: str) -> None:
    """Until the recorder has nothing left to do."""
    task = asyncio.create_task(edge.pools.recorders[pool].run())
    try:
        await wait_until(lambda: recorded(redis, pool))
    finally:
        await cancel_tasks([task])
