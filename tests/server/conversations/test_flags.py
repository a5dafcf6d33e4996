"""What safety marked in an answer, from the log of its request to whoever reads it later."""

from typing import Any

import msgspec

from billing.usage import UsageOwner, decode, encode
from core.clock import now_ms
from core.ids import uuid7
from engine.api import Entry, EntryKind, text_hash
from server.conversations.erasure import texts_of
from server.reading.sources import stored_opening
from tests.engine.builders import append_to, end_entry, pool, text, usage_event
from tests.server.conversations.purged import conversation
from tests.server.conversations.purged import site as site
from tests.server.http_site import HttpSite
from tests.support.redis import Redis

SHOWN = "Write to [EMAIL_1] or [EMAIL_1]."
FLAGS = [
    {"category": "email", "action": "redact", "scope": "platform", "p": 9, "n": 9},
    {"category": "email", "action": "redact", "scope": "platform", "p": 22, "n": 9},
]
SAFETY = {"category": "private_key", "scope": "tenant"}
END: dict[str, Any] = {
    "reason": "blocked",
    "code": "safety_blocked",
    "safety": SAFETY,
    "usage": {"input": 1, "cached_input": 0, "output": 3, "total": 4},
    "cost": {"nano": 1, "currency": "usd"},
    "timing": {"queue_ms": 1, "ttft_ms": 1, "total_ms": 1},
    "h": text_hash(SHOWN),
}


async def test_flags_go_with_an_answer_wherever_it_is_kept(site: HttpSite, redis: Redis):
    """In its row, in its conversation's history, in what is told of a user's texts, and to a reader who comes
    after the log is gone; what else a worker wrote into a flag is in none of them."""
    p = pool(redis)
    claim = await p.running(tenant=site.tenant, id=uuid7(now_ms()))
    id = await conversation(site, claim.id, ended=False)
    owner = UsageOwner(project="p1", key="k1", conversation=id)
    ended = msgspec.structs.replace(decode(usage_event(site.tenant, claim.id)), owner=owner)
    entries = [
        text(3, SHOWN[:18], 0, 1),
        Entry(
            4, EntryKind.FLAGGED, i=1, r=40, v=msgspec.json.encode(FLAGS[0] | {"match": "ann@example.org"})
        ),
        text(5, SHOWN[18:], 18, 3),
        Entry(6, EntryKind.FLAGGED, i=3, v=msgspec.json.encode(FLAGS[1])),
        end_entry(7, 3, msgspec.json.encode(END)),
    ]
    shown = len(SHOWN)
    item = append_to(claim, ids=(1, 2, 3), entries=entries, raw=shown, visible=shown, end=encode(ended))
    await p.queue.append("w1", [item])
    recorder: Any = site.edge.pools.recorders[p.name]
    recorder._is_own = lambda _: True
    await recorder._record_event(ended)

    found = await site.edge.conversations.answer_row(site.tenant, claim.id)
    assert found is not None
    assert (found[0].content, found[0].flags, found[0].safety) == (SHOWN, FLAGS, SAFETY)
    path = f"/v1/conversations/{id}/messages"
    asked, answer = (await site.client.get(path, headers=site.bearer)).json()["messages"]
    assert (asked["flags"], asked["safety"]) == ([], None)
    assert (answer["content"], answer["flags"], answer["safety"]) == (SHOWN, FLAGS, SAFETY)
    told = [each async for each in texts_of(site.edge.db, site.tenant, "")]
    [kept] = [each for each in told if each.get("id") == id]
    assert (kept["messages"][1]["flags"], kept["messages"][1]["safety"]) == (FLAGS, SAFETY)
    assert "ann@example.org" not in f"{answer}{told}"
    later = await stored_opening(claim.id, found[0]).source.read(0, 99, 0)
    assert [(each.o, each.k.value) for each in later] == [(5, "flagged"), (6, "flagged"), (7, "end")]
    assert [msgspec.json.decode(each.v) for each in later[:2]] == FLAGS
    assert msgspec.json.decode(later[2].v) == END
