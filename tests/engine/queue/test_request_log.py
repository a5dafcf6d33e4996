"""The log: appends fenced by token and offsets, their retries, hints, retracts, and reading by cursor."""

import hashlib
from typing import Any

import msgspec
import pytest

from billing.usage import ENDED_FIELD, decode, ended_stream
from engine.api import AppendCode, Control, Enqueued, Entry, EntryKind, HintChannel, LogReader, RequestStatus
from engine.queue.request_log import verdicts_in
from tests.engine.builders import (
    START_MS,
    TENANT,
    append_to,
    end_entry,
    pool,
    request,
    text,
    tokens,
    usage_event,
)
from tests.support.patience import soon
from tests.support.redis import Redis

NO_FLAGS = Control(0)


async def test_an_append_commits_tokens_and_text(redis: Redis):
    """Tokens after the tokens, entries after the entries; the first token's time is kept."""
    p = pool(redis)
    claim = await p.running()
    p.clock.advance(40)
    (answer,) = await p.queue.append("w1", [append_to(claim, ids=(7, 8), x="hé", input_cached=3)])
    assert answer == (type(answer))(AppendCode.OK, 2, 3, NO_FLAGS, 256)
    assert await p.queue.tokens(claim.tenant, claim.id) == tokens(7, 8)
    entries = await LogReader(redis, p.name).read(claim.tenant, claim.id, 2, 10)
    assert entries == [text(3, "hé", 0, 2)]
    await p.queue.unclaim("w1", claim.tenant, claim.id, claim.ck, "drain")
    (again,) = await p.claim()
    assert (again.first_token_ms, again.input_cached, again.raw, again.visible) == (START_MS + 40, 3, 2, 2)
    late = append_to(again, ids=(9,), x="!", input_cached=10)
    await p.queue.append("w1", [late])
    found = await redis.hget(p.key(f"req:{claim.tenant}:{claim.id}"), "cached")
    assert found == b"3", "only the first claim's cache hits are billed as cached"


async def test_a_log_that_began_again_is_not_read_as_the_one_before(redis: Redis):
    """Its offsets are dense again, so only the epoch says that it is another; hints say it too."""
    p = pool(redis)
    hints = HintChannel(redis, "g1")
    await hints.follow(p.name)
    claim = await p.running(gateway="g1")
    log = LogReader(redis, p.name)
    await p.queue.append("w1", [append_to(claim, ids=(7,), x="a")])
    assert await log.read(claim.tenant, claim.id, 2, 10, epoch=1) == [text(3, "a", 0, 1)]
    await p.queue.reap()
    await p.restart()
    await p.queue.deregister("w1", "lost")
    assert await log.read(claim.tenant, claim.id, 2, 10, epoch=1) == []
    assert [entry.k for entry in await log.read(claim.tenant, claim.id, 3, 10, epoch=2)] == [EntryKind.MOVED]
    heard = [await soon(anext(aiter(hints))) for _ in range(4)]
    assert [hint.epoch for hint in heard] == [1, 1, 1, 2]
    await hints.close()


async def test_a_retried_append_is_a_duplicate(redis: Redis):
    """Whatever part of it there is: tokens only, text only, both; nothing is written twice."""
    p = pool(redis)
    claim = await p.running()
    held_back = append_to(claim, ids=(1,))
    text_only = append_to(claim, n0=1, x="a")
    both = append_to(claim, ids=(2,), n0=1, o0=3, entries=[text(4, "b", 1, 2)])
    for item, n, o in ((held_back, 1, 2), (text_only, 1, 3), (both, 2, 4)):
        codes = [(await p.queue.append("w1", [item]))[0] for _ in range(2)]
        assert [(x.code, x.n, x.o) for x in codes] == [(AppendCode.OK, n, o), (AppendCode.DUP, n, o)]
    assert await p.queue.tokens(claim.tenant, claim.id) == tokens(1, 2)
    assert (await p.queue.append("w1", [held_back]))[0].code is AppendCode.DUP
    assert await p.kinds(claim.tenant, claim.id) == ["queued", "running", "t", "t"]


async def test_what_differs_from_the_log_is_no_duplicate(redis: Redis):
    """Other tokens or other text at a written place are a gap: the owner is told where the log stands."""
    p = pool(redis)
    claim = await p.running()
    await p.queue.append("w1", [append_to(claim, ids=(1, 2), x="ab")])
    for item in (append_to(claim, ids=(1, 3), x="ab"), append_to(claim, ids=(1, 2), x="xy")):
        (answer,) = await p.queue.append("w1", [item])
        assert (answer.code, answer.n, answer.o) == (AppendCode.GAP, 2, 3)


async def test_an_append_ahead_of_the_log_meets_a_gap(redis: Redis):
    """When Redis lost its tail the worker learns from where to append again, and does."""
    p = pool(redis)
    claim = await p.running()
    ahead = append_to(claim, ids=(5,), n0=4, o0=6, entries=[text(7, "e", 4, 5)])
    (answer,) = await p.queue.append("w1", [ahead])
    assert (answer.code, answer.n, answer.o) == (AppendCode.GAP, 0, 2)
    whole = append_to(claim, ids=(1, 2, 3, 4, 5), x="abcde")
    assert (await p.queue.append("w1", [whole]))[0].code is AppendCode.OK


async def test_a_fenced_owner_writes_nothing(redis: Redis):
    """INV-1: A worker that lost its claim is stopped, before and after the next owner writes, and at the end
    too."""
    p = pool(redis)
    old = await p.running()
    item = append_to(old, ids=(1,), x="a")
    await p.queue.unclaim("w1", old.tenant, old.id, old.ck, "lost")
    assert (await p.queue.append("w1", [item]))[0].code is AppendCode.FENCED
    await p.worker("w2")
    (new,) = await p.claim("w2")
    assert (await p.queue.append("w2", [append_to(new, ids=(1,), x="a")]))[0].code is AppendCode.OK
    same = append_to(old, ids=(1,), x="a", o0=new.o, entries=[text(new.o + 1, "a", 0, 1)])
    assert (await p.queue.append("w1", [same]))[0].code is AppendCode.FENCED
    end = append_to(
        old, n0=1, o0=new.o + 1, entries=[end_entry(new.o + 2, 1)], end=usage_event(old.tenant, old.id)
    )
    assert (await p.queue.append("w1", [end]))[0].code is AppendCode.FENCED
    assert await redis.xlen(ended_stream(p.name)) == 0


async def test_an_unknown_request_is_missing(redis: Redis):
    """Redis lost it, or it expired; nothing comes to be."""
    p = pool(redis)
    claim = await p.running()
    await redis.flushall()
    (answer,) = await p.queue.append("w1", [append_to(claim, ids=(1,), x="a")])
    assert (answer.code, answer.n, answer.o) == (AppendCode.MISSING, 0, 0)
    assert await redis.keys("*") == []


async def test_the_end_rides_with_the_last_tokens(redis: Redis):
    """INV-6: One call: last tokens, `end`, the usage event, the slot's release; what only workers need
    goes."""
    p = pool(redis)
    claim = await p.running(gateway="g1")
    last = append_to(
        claim,
        ids=(1, 2),
        entries=[text(3, "ab", 0, 2), end_entry(4, 2)],
        end=usage_event(claim.tenant, claim.id),
    )
    for _ in range(3):
        (answer,) = await p.queue.append("w1", [last])
        assert (answer.code, answer.n, answer.o) == (AppendCode.ENDED, 2, 4)
    assert await p.kinds(claim.tenant, claim.id) == ["queued", "running", "t", "end"]
    assert await p.places(claim.tenant, claim.id) == set()
    (ended,) = await p.client.xrange(ended_stream(p.name))
    assert decode(ended[1][ENDED_FIELD.encode()]).request == claim.id
    view = await p.queue.view(claim.tenant, claim.id)
    assert view is not None
    assert (view.status, view.ended, view.head, view.n, view.first) == (RequestStatus.ENDED, True, 4, 2, 1)
    left = {key.decode() for key in await p.client.keys("*") if claim.id.encode() in key}
    assert left == {p.key(f"{kind}:{claim.tenant}:{claim.id}") for kind in ("req", "log")}
    assert await redis.zrange(p.key("deadlines"), 0, -1) == []
    assert await redis.exists(p.key("reads:g1")) == 0
    assert 86_000 < await redis.ttl(p.key(f"log:{claim.tenant}:{claim.id}")) <= 86_400
    assert await p.queue.control(claim.tenant, claim.id, Control.CANCEL) is RequestStatus.ENDED
    assert not await p.queue.unclaim("w1", claim.tenant, claim.id, claim.ck, "drain")


async def test_an_ended_request_is_returned_but_not_run_again(redis: Redis):
    """Enqueue of its id names it ended; a late append is answered ENDED and adds nothing."""
    p = pool(redis)
    e = request()
    await p.worker()
    await p.queue.enqueue(e)
    (claim,) = await p.claim()
    await p.queue.append("w1", [append_to(claim, entries=[end_entry(3, 0)], end=usage_event(e.tenant, e.id))])
    again = await p.queue.enqueue(e)
    assert again == Enqueued(False, RequestStatus.ENDED, 1, 3, 0, 0)
    assert (await p.queue.append("w1", [append_to(claim, ids=(1,), x="a")]))[0].code is AppendCode.ENDED
    assert await p.claim() == []


async def test_a_recorded_log_is_kept_ten_minutes(redis: Redis):
    """Only that of an ended request is shortened."""
    p = pool(redis)
    claim = await p.running()
    assert not await p.queue.expire_log(claim.tenant, claim.id, 600)
    end = append_to(claim, entries=[end_entry(3, 0)], end=usage_event(claim.tenant, claim.id))
    await p.queue.append("w1", [end])
    assert await p.queue.expire_log(claim.tenant, claim.id, 600)
    for kind in ("req", "log"):
        assert 590 < await redis.ttl(p.key(f"{kind}:{claim.tenant}:{claim.id}")) <= 600


async def test_one_flush_answers_each_request_for_itself(redis: Redis):
    """A fenced one among them does not stop the others."""
    p = pool(redis)
    first, second = await p.running(), await p.running()
    forged = msgspec.structs.replace(append_to(first, ids=(1,)), ck="forged")
    answers = await p.queue.append("w1", [forged, append_to(second, ids=(1,)), append_to(first, ids=(1,))])
    assert [answer.code for answer in answers] == [AppendCode.FENCED, AppendCode.OK, AppendCode.OK]
    assert await p.queue.append("w1", []) == []


async def test_one_hint_message_a_gateway_and_flush(redis: Redis):
    """It carries the entries of all requests that the gateway follows, and only of those."""
    p = pool(redis)
    mine, both, others = [await p.running(gateway=g) for g in ("g1", "g1", "g2")]
    await p.queue.reader(both.tenant, both.id, "g2", "reading")
    listener: Any = redis.pubsub(ignore_subscribe_messages=True)
    await listener.ssubscribe(p.key("gw:g1"), p.key("gw:g2"))
    hints = HintChannel(redis, "g1")
    await hints.follow(p.name)
    await p.queue.append("w1", [append_to(c, ids=(1,), x=c.id[-3:]) for c in (mine, both, others)])
    stream = aiter(hints)
    heard = [await soon(anext(stream)) for _ in range(2)]
    assert [(h.pool, h.tenant, h.id, h.head, h.entries) for h in heard] == [
        (p.name, c.tenant, c.id, 3, [text(3, c.id[-3:], 0, 1)]) for c in (mine, both)
    ]
    messages: list[bytes] = []
    while len(messages) < 2:
        message = await soon(listener.get_message(timeout=None))
        messages += [message["channel"]] if message else []
    assert sorted(messages) == [p.key("gw:g1").encode(), p.key("gw:g2").encode()]
    await hints.close()
    await listener.aclose()


async def test_a_duplicate_append_hints_nothing(redis: Redis):
    """What was committed before was published before."""
    p = pool(redis)
    claim = await p.running(gateway="g1")
    hints = HintChannel(redis, "g1")
    await hints.follow(p.name)
    for _ in range(3):
        await p.queue.append("w1", [append_to(claim, ids=(1,), x="a")])
    await p.queue.append("w1", [append_to(claim, ids=(2,), n0=1, o0=3, entries=[text(4, "b", 1, 2)])])
    stream = aiter(hints)
    assert [(await soon(anext(stream))).head for _ in range(2)] == [3, 4]
    await hints.close()


async def test_finish_ends_what_nobody_owns_once(redis: Redis):
    """INV-5: Fenced by the head; a running request is its worker's; a retry sees that it was done."""
    p = pool(redis)
    e = request(gateway="g1")
    await p.queue.enqueue(e)
    mine, other = end_entry(2, 0, b'{"reason":"cancelled"}'), end_entry(2, 0, b'{"reason":"deadline"}')
    event = usage_event(e.tenant, e.id, "cancelled")
    assert not await p.queue.finish(e.tenant, e.id, 5, [mine], event)
    first, again = [await p.queue.finish(e.tenant, e.id, 1, [mine], event) for _ in range(2)]
    assert first is not None
    assert first == again
    assert not await p.queue.finish(e.tenant, e.id, 1, [other], event)
    assert await redis.xlen(ended_stream(p.name)) == 1
    assert await p.places(e.tenant, e.id) == set()
    claim = await p.running()
    assert not await p.queue.finish(claim.tenant, claim.id, 2, [end_entry(3, 0)], event)
    assert not await p.queue.finish(TENANT, "unknown", 0, [mine], event)


async def test_a_retract_rewrites_the_log(redis: Redis):
    """Same offsets, no vetoed text anywhere, and what survives follows; a retry changes nothing more."""
    p = pool(redis)
    claim = await p.running()
    at = (claim.tenant, claim.id)
    shown = [text(3, "ab", 0, 1), text(4, "cdé", 2, 2), text(5, "secret", 5, 3)]
    await p.queue.append("w1", [append_to(claim, ids=(1, 2, 3), entries=shown, raw=11, visible=11)])
    retract = Entry(o=6, k=EntryKind.RETRACT, p=3, v=b'{"category":"personal"}')
    after = Entry(o=7, k=EntryKind.TEXT, x="…", p=3, r=11, i=3)
    item = append_to(claim, n0=3, o0=5, entries=[retract, after], raw=11, visible=4)
    assert (await p.queue.rewrite("w1", 3, item)).code is AppendCode.OK
    assert (await p.queue.rewrite("w1", 3, item)).code is AppendCode.DUP
    log = LogReader(redis, p.name)
    entries = await log.read(*at, 0, 100)
    assert [(x.o, x.k.value, x.x) for x in entries] == [
        (1, "queued", ""),
        (2, "running", ""),
        (3, "t", "ab"),
        (4, "t", "c"),
        (5, "t", ""),
        (6, "retract", ""),
        (7, "t", "…"),
    ]
    assert await log.text_through(*at, 7) == "abc…"
    dumps = [await p.client.dump(key) for key in await redis.keys("*log:*")]
    assert len(dumps) == 1
    assert b"secret" not in dumps[0]
    forged = msgspec.structs.replace(item, ck="forged")
    assert (await p.queue.rewrite("w1", 0, forged)).code is AppendCode.FENCED
    assert await log.text_through(*at, 7) == "abc…"


async def test_a_retract_may_end_the_request(redis: Redis):
    """With action block, `end` follows in the same script."""
    p = pool(redis)
    claim = await p.running()
    await p.queue.append("w1", [append_to(claim, ids=(1,), x="no")])
    retract = Entry(o=4, k=EntryKind.RETRACT, p=0)
    event = usage_event(claim.tenant, claim.id, "blocked")
    item = append_to(claim, n0=1, o0=3, entries=[retract, end_entry(5, 1)], raw=2, visible=0, end=event)
    assert (await p.queue.rewrite("w1", 0, item)).code is AppendCode.ENDED
    assert (await p.queue.rewrite("w1", 0, item)).code is AppendCode.ENDED
    assert await LogReader(redis, p.name).text_through(claim.tenant, claim.id, 5) == ""
    assert await redis.xlen(ended_stream(p.name)) == 1


async def test_reading_by_cursor_within_limits(redis: Redis, monkeypatch: pytest.MonkeyPatch):
    """At most so many entries and bytes; one entry always, however large."""
    p = pool(redis)
    claim = await p.running()
    entries = [text(3 + at, "é" * 10, 10 * at, at + 1) for at in range(5)]
    await p.queue.append("w1", [append_to(claim, ids=(1, 2, 3, 4, 5), entries=entries, raw=50, visible=50)])
    log = LogReader(redis, p.name)
    at = (claim.tenant, claim.id)
    assert [x.o for x in await log.read(*at, 0, 3)] == [1, 2, 3]
    assert [x.o for x in await log.read(*at, 2, 100, 40)] == [3, 4]
    assert [x.o for x in await log.read(*at, 2, 100, 39)] == [3]
    assert [x.o for x in await log.read(*at, 2, 100, 1)] == [3]
    assert await log.read(*at, 7, 100) == []
    assert await log.text_through(*at, 4) == "é" * 20
    assert await log.text_through(*at, 2) == ""
    for bytes_max, offsets in ((127, [1]), (128, [1, 2]), (147, [1, 2]), (148, [1, 2, 3])):
        assert [x.o for x in await log.read(*at, 0, 100, bytes_max)] == offsets, (
            "what is no text counts as 64"
        )
    monkeypatch.setattr("engine.queue.request_log.TEXT_PAGE_ENTRIES", 3)
    assert await log.text_through(*at, 4) == "é" * 20, "the last page ends where it is asked to"


async def test_flags_are_no_text_and_are_counted_as_far_as_they_can_be_read(redis: Redis):
    """A worker wrote them, so that anything may stand there."""
    p = pool(redis)
    claim = await p.running()
    flags = [
        b'{"category":"email","action":"flag","scope":"platform","p":2,"n":9}',
        b'{"category":"card","action":"redact","scope":"platform","p":2,"n":8}',
        b'{"category":"card","action":"redact","later":[]}',
        *(b"", b"{", b"[]", b'{"category":1,"action":"redact"}', b'{"category":"card"}', b"[" * 9_000),
    ]
    entries = [text(3, "ab", 0, 1), *(Entry(4 + at, EntryKind.FLAGGED, v=v) for at, v in enumerate(flags))]
    last = text(4 + len(flags), "c", 2, 2)
    append = append_to(claim, ids=(1, 2), entries=[*entries, last], raw=3, visible=3)
    await p.queue.append("w1", [append])
    log, at, found = LogReader(redis, p.name), (claim.tenant, claim.id), list[Entry]()
    async for page in log.pages_through(*at, last.o):
        found += page
    assert [each.o for each in found] == list(range(1, last.o + 1))
    assert await log.text_through(*at, last.o) == "abc"
    assert verdicts_in(found) == {("email", "flag"): 1, ("card", "redact"): 2}


async def test_many_pages_of_text_are_read(redis: Redis):
    """The text through an offset does not stop at a page."""
    p = pool(redis)
    claim = await p.running()
    count = 1_200
    entries = [text(3 + at, "x", at, at + 1) for at in range(count)]
    ids = tuple(range(count))
    await p.queue.append("w1", [append_to(claim, ids=ids, entries=entries, raw=count, visible=count)])
    got = await LogReader(redis, p.name).text_through(claim.tenant, claim.id, count + 2)
    assert hashlib.sha256(got.encode()).digest() == hashlib.sha256(b"x" * count).digest()


async def test_a_log_entry_takes_about_thirty_bytes(redis: Redis, capsys: pytest.CaptureFixture[str]):
    """So a thousand tokens are about 35 KB until their log expires; far more is a fault of the format."""
    p = pool(redis)
    claim = await p.running()
    for at in range(1_000):
        entries = [text(3 + at, " word", 5 * at, at + 1)]
        item = append_to(claim, ids=(at,), n0=at, o0=2 + at, entries=entries, raw=5, visible=5)
        await p.queue.append("w1", [item])
    used = await p.client.memory_usage(p.key(f"log:{claim.tenant}:{claim.id}"), samples=0)
    with capsys.disabled():
        print(f"\n1 log entry of 5 characters: {used / 1002:.1f} bytes")
    assert used / 1002 < 45


async def test_a_flush_of_32_requests_is_one_call(redis: Redis):
    """32 requests, each with a token and its text, cost Redis one script, whatever their number."""
    p = pool(redis)
    claims = [await p.running(gateway="g1") for _ in range(32)]
    await redis.config_resetstat()
    items = [
        append_to(c, ids=(0,), n0=0, o0=c.o, entries=[text(c.o + 1, " word", 0, 1)], raw=5, visible=5)
        for c in claims
    ]
    answers = await p.queue.append("w1", items)
    assert {answer.code for answer in answers} == {AppendCode.OK}
    stats = await redis.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == 1
