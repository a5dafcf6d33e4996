"""The list of conversations right after an answer's end, before any gateway has recorded it."""

from typing import Any

import msgspec
import pytest

from billing.usage import UsageOwner, decode, encode
from core.clock import now_ms
from core.ids import uuid7
from engine.api import text_hash
from tests.engine.builders import append_to, end_entry, pool, text, usage_event
from tests.server.conversations.purged import conversation
from tests.server.conversations.purged import site as site
from tests.server.http_site import HttpSite
from tests.support.redis import Redis

END = {
    "reason": "stop",
    "code": "",
    "usage": {"input": 1, "cached_input": 0, "output": 1, "total": 2},
    "cost": {"nano": 1, "currency": "usd"},
    "timing": {"queue_ms": 1, "ttft_ms": 1, "total_ms": 1},
    "h": text_hash("Yes."),
}


@pytest.mark.parametrize("ends", [False, True])
async def test_who_read_the_end_is_not_told_that_it_runs(site: HttpSite, redis: Redis, ends: bool):
    """What has ended is recorded by the list; what has not is said to run."""
    p = pool(redis)
    claim = await p.running(tenant=site.tenant, id=uuid7(now_ms()))
    id = await conversation(site, claim.id, ended=False)
    if ends:
        owner = UsageOwner(project="p1", key="k1", conversation=id)
        usage = encode(msgspec.structs.replace(decode(usage_event(site.tenant, claim.id)), owner=owner))
        entries = [text(3, "Yes.", 0, 1), end_entry(4, 1, msgspec.json.encode(END))]
        item = append_to(claim, ids=(1,), entries=entries, raw=4, visible=4, end=usage)
        await p.queue.append("w1", [item])
        recorder: Any = site.edge.pools.recorders[p.name]
        recorder._is_own = lambda _: True  # no gateway has admitted it
    listed = (await site.client.get("/v1/conversations", headers=site.bearer)).json()["conversations"]
    assert [(each["id"], each["running"]) for each in listed] == [(id, not ends)]
