"""How requests end: what readers are told, what is billed, and the ends that no worker writes."""

import hashlib
import json
from typing import Any

import pytest
from msgspec import structs

from billing.api import Admission, AdmissionState, Quota, UsageEvent
from billing.booking.event_bounds import beyond_bounds
from billing.usage import ENDED_FIELD, PinnedPrices, UsageOwner, decode, encode, ended_stream
from engine.api import (
    Control,
    EndReason,
    Entry,
    EntryKind,
    LogReader,
    PriorityClass,
    RequestStatus,
    end_payload,
    end_unclaimed,
    input_decoder,
    text_hash,
)
from engine.lifecycle.finish import end_overdue_migration
from engine.queue import redis_keys
from engine.queue.types import Enqueue
from tests.engine.builders import PRICES, START_MS, Pool, append_to, pool, request, request_input, text
from tests.engine.lifecycle.end_facts import facts
from tests.support.redis import Redis

REQUEST = input_decoder.decode(request_input(10, seal=b"sealed"))


def test_the_end_names_usage_cost_times_and_hash():
    """All that a client shows and checks, in one compact JSON object."""
    ending = end_payload(facts(), REQUEST)
    cost = 6 * 100 + 4 * 50 + 7 * 400
    assert json.loads(ending.payload) == {
        "reason": "stop",
        "usage": {"input": 10, "cached_input": 4, "output": 7, "total": 17},
        "cost": {"nano": cost, "currency": "usd"},
        "timing": {"queue_ms": 20, "ttft_ms": 50, "total_ms": 900},
        "h": hashlib.sha256("Grüße 🙂".encode()).hexdigest(),
    }
    assert ending.event == UsageEvent(
        tenant="t1",
        request="r1",
        pool="default",
        model="smollm2",
        fingerprint=REQUEST.fingerprint,
        owner=REQUEST.owner,
        accepted_ms=START_MS,
        ended_ms=START_MS + 900,
        reason="stop",
        prices=PRICES,
        claimed_ms=START_MS + 20,
        first_token_ms=START_MS + 50,
        input_uncached=6,
        input_cached=4,
        output_text=7,
        cost_nano=cost,
        claims=1,
        recomputed_tokens=3,
        asked_input=10,
        asked_output=64,
        seal=b"sealed",
        phases=[("ended", 900)],
    )
    assert b" " not in ending.payload


@pytest.mark.parametrize(
    ("changes", "usage"),
    [
        ({"reason": EndReason.LENGTH}, (10, 4, 7)),
        ({"reason": EndReason.CANCELLED}, (10, 4, 7)),
        ({"reason": EndReason.CANCELLED, "n": 0, "covered": 0}, (10, 4, 0)),
        ({"reason": EndReason.DEADLINE, "claims": 0, "n": 0, "covered": 0, "input_cached": 0}, (0, 0, 0)),
        ({"reason": EndReason.ERROR}, (10, 4, 0)),
        ({"reason": EndReason.ERROR, "covered": 1}, (10, 4, 0)),
        ({"reason": EndReason.ERROR, "covered": 0}, (0, 0, 0)),
        ({"reason": EndReason.ERROR, "claims": 0}, (0, 0, 0)),
        ({"reason": EndReason.BLOCKED, "claims": 0}, (0, 0, 0)),
        ({"reason": EndReason.BLOCKED, "covered": 9}, (10, 4, 7)),
        ({"reason": EndReason.STOP, "input_cached": 12}, (10, 10, 7)),
        ({"reason": EndReason.BLOCKED}, (10, 4, 6)),
        ({"reason": EndReason.BLOCKED, "covered": 0}, (10, 4, 0)),
    ],
)
def test_what_each_end_bills(changes: dict[str, Any], usage: tuple[int, int, int]):
    """Errors bill no output, blocked answers only what was shown, and what never ran nothing."""
    found = json.loads(end_payload(facts(**changes), REQUEST).payload)["usage"]
    assert (found["input"], found["cached_input"], found["output"]) == usage


def test_a_blocked_answer_says_by_what_and_bills_what_was_shown():
    """Category and scope of the rule for people, and one code. Six of seven tokens were shown."""
    blocked = facts(reason=EndReason.BLOCKED, safety=("card", "tenant"), verdicts={("card", "block"): 1})
    ending = end_payload(blocked, REQUEST)
    value = json.loads(ending.payload)
    assert list(value) == ["reason", "code", "safety", "usage", "cost", "timing", "h"]
    assert (value["reason"], value["code"]) == ("blocked", "safety_blocked")
    assert value["safety"] == {"category": "card", "scope": "tenant"}
    assert value["usage"] == {"input": 10, "cached_input": 4, "output": 6, "total": 16}
    event = ending.event
    assert (event.reason, event.code, event.output_text) == ("blocked", "safety_blocked", 6)
    assert event.verdicts == {"card": {"block": 1}}


def test_an_event_has_policy_class_trace_and_counts_of_verdicts():
    """Sorted, so that the same end is the same event; readers of the end get none of it."""
    trace = f"00-{'0b' * 16}-{'0c' * 8}-01"
    sent = {"policy": "0a" * 32, "priority": PriorityClass.BULK, "trace": trace}
    of_prompt = (("card", "redact", 3), ("iban", "flag", 1))
    request = input_decoder.decode(request_input(10, **sent, prompt_verdicts=of_prompt))
    counts = {("email", "flag"): 1, ("card", "redact"): 2, ("card", "block"): 1, ("iban", "flag"): 0}
    ending = end_payload(facts(verdicts=counts), request)
    event = decode(encode(ending.event))
    assert event == ending.event
    assert (event.policy, event.priority, event.trace_id) == ("0a" * 32, "bulk", "0b" * 16)
    assert list(event.verdicts.items()) == [
        ("card", {"block": 1, "prompt_redact": 3, "redact": 2}),
        ("email", {"flag": 1}),
        ("iban", {"prompt_flag": 1}),
    ]
    assert ending.payload == end_payload(facts(), REQUEST).payload


@pytest.mark.parametrize("trace", ["", "x", "00-0b", f"00-{'0B' * 16}-{'0c' * 8}-01", f"\n00-{'0b' * 16}-"])
def test_a_trace_that_is_none_leaves_no_id(trace: str):
    """Whoever can write the input could have written it."""
    assert end_payload(facts(), structs.replace(REQUEST, trace=trace)).event.trace_id == ""


def test_an_end_counts_no_more_than_what_is_booked():
    """Of names that a log may have had from a worker: nobody goes unbilled for them."""
    odd = {
        ("Card", "redact"): 1,
        ("card", "praise"): 1,
        ("c" * 65, "flag"): 1,
        ("é", "flag"): 1,
        ("", "flag"): 1,
    }
    many = {(f"c{number:02}", action): 1 << 40 for number in range(99) for action in ("flag", "redact")}
    event = end_payload(facts(verdicts=odd | many), REQUEST).event
    assert event.verdicts == {
        f"c{number:02}": dict.fromkeys(("flag", "redact"), (1 << 31) - 1) for number in range(64)
    }
    assert beyond_bounds(event) == ""


def test_an_event_has_the_phases_and_how_it_ended():
    """In order and within its life, whatever their clocks said; the end is there however many came before."""
    before = [("queued", -3), ("claimed", 40), ("decode", 30), ("lost", 5_000), ("a worker's own", 1)]
    ending = end_payload(facts(phases=before), REQUEST).event
    assert ending.phases == [("queued", 0), ("claimed", 40), ("decode", 40), ("lost", 900), ("ended", 900)]
    many = end_payload(facts(reason=EndReason.BLOCKED, phases=[("drain", 1)] * 30), REQUEST).event
    assert many.phases == [("drain", 1)] * 15 + [("blocked", 900)]
    assert beyond_bounds(ending) == beyond_bounds(many) == ""


def test_times_that_were_never_reached():
    """A request that waited until its end spent all of it in the queue."""
    never = facts(reason=EndReason.ERROR, code="engine_lost", claims=0, claimed_ms=0, first_token_ms=0)
    value = json.loads(end_payload(never, REQUEST).payload)
    assert value["timing"] == {"queue_ms": 900, "ttft_ms": 0, "total_ms": 900}
    assert value["code"] == "engine_lost"


def test_no_time_is_less_than_nothing():
    """A worker's clock may be behind its gateway's."""
    early = facts(claimed_ms=START_MS - 3, first_token_ms=START_MS - 2, ended_ms=START_MS - 1)
    timing = json.loads(end_payload(early, REQUEST).payload)["timing"]
    assert timing == {"queue_ms": 0, "ttft_ms": 0, "total_ms": 0}


async def test_what_nobody_knows_the_asker_of_has_no_owner_and_no_price(redis: Redis):
    """Its input is gone and so is its admission: the biller holds what there is to be paid."""
    p, e = pool(redis), request()
    await p.queue.enqueue(e)
    await p.client.delete(redis_keys.request_input(p.name, e.tenant, e.id))
    assert await end_unclaimed(p.queue, Quota(p.redis, p.settings), e.tenant, e.id, "error", "internal")
    event = await event_of(p)
    assert (event.owner, event.prices) == (UsageOwner("", ""), PinnedPrices("", 0, 0, 0, 0))
    assert (event.model, event.fingerprint, event.code) == (e.model, e.fingerprint, "internal")
    assert (event.accepted_ms, event.asked_input, event.asked_output) == (START_MS, 0, 0)


async def test_what_cannot_be_read_is_charged_by_its_admission(redis: Redis):
    """Owner and prices stand there too."""
    p, e = pool(redis), request()
    quota = await admitted(p, e)
    await p.queue.enqueue(e)
    await p.client.delete(redis_keys.request_input(p.name, e.tenant, e.id))
    assert await end_unclaimed(p.queue, quota, e.tenant, e.id, "error", "internal")
    event = await event_of(p)
    assert (event.owner, event.prices) == (UsageOwner("p1", "k1"), PRICES)


async def test_a_move_that_nobody_finishes_ends_two_seconds_after_its_deadline(redis: Redis):
    """That of its admission, where there is one; nothing else is ended so."""
    p, e = pool(redis), request()
    quota, at = await admitted(p, e), (e.tenant, e.id)
    await p.queue.enqueue(e)
    p.clock.ms = e.deadline_ms + 2_001
    assert not await end_overdue_migration(p.queue, quota, *at)
    assert not await end_overdue_migration(p.queue, quota, e.tenant, "unknown")
    await p.client.hset(p.key(f"req:{e.tenant}:{e.id}"), "status", "moving")
    await p.client.hset(p.key(f"req:{e.tenant}:{e.id}"), "deadline", 1)
    p.clock.ms = e.deadline_ms + 2_000
    assert not await end_overdue_migration(p.queue, quota, *at)
    p.clock.ms += 1
    assert await end_overdue_migration(p.queue, quota, *at)
    assert (await event_of(p)).reason == "deadline"


def test_the_hash_of_no_text():
    """The empty answer has a hash too."""
    assert text_hash("") == hashlib.sha256(b"").hexdigest()


async def admitted(p: Pool, e: Enqueue) -> Quota:
    """A quota in which this request is open."""
    quota = Quota(p.redis, p.settings)
    admission = Admission(
        tenant=e.tenant,
        id=e.id,
        body_hash=e.body_hash,
        owner_key="k1",
        project="p1",
        user="",
        model=e.model,
        pool=p.name,
        fingerprint=e.fingerprint,
        input_tokens=e.prompt_tokens,
        chunk_tokens=256,
        deadline_ms=e.deadline_ms,
        prices=PRICES,
    )
    await quota.admit(admission)
    return quota


async def event_of(p: Pool) -> UsageEvent:
    """The one ended request."""
    ((_, fields),) = await p.client.xrange(ended_stream(p.name))
    return decode(fields[ENDED_FIELD.encode()])


async def test_a_queued_request_is_cancelled(redis: Redis):
    """It ends once, with zero usage, and its admission is settled; a second end does nothing."""
    p, e = pool(redis), request()
    quota = await admitted(p, e)
    await p.queue.enqueue(e)
    p.clock.advance(300)
    assert await p.queue.control(e.tenant, e.id, Control.CANCEL) is RequestStatus.QUEUED
    at = (e.tenant, e.id)
    assert [await end_unclaimed(p.queue, quota, *at, EndReason.CANCELLED) for _ in range(2)] == [True, False]
    entry = (await LogReader(redis, p.name).read(*at, 0, 10))[-1]
    value = json.loads(entry.v)
    assert (entry.o, value["reason"], value["usage"]["total"]) == (2, "cancelled", 0)
    assert value["timing"] == {"queue_ms": 300, "ttft_ms": 0, "total_ms": 300}
    event = await event_of(p)
    assert (event.request, event.reason, event.cost_nano, event.claims) == (e.id, "cancelled", 0, 0)
    directory = await quota.directory(*at)
    assert directory is not None
    assert directory.state is AdmissionState.ENDED


async def test_an_interrupted_request_is_billed_for_what_it_sampled(redis: Redis):
    """Its worker died and nobody took it up before its deadline: what is logged stays, hashed and billed."""
    p = pool(redis)
    claim = await p.running()
    quota = await admitted(p, request(id=claim.id))
    await p.queue.append("w1", [append_to(claim, ids=(1, 2), x="hé", input_cached=3)])
    at = (claim.tenant, claim.id)
    assert not await end_unclaimed(p.queue, quota, *at, EndReason.DEADLINE)
    p.clock.advance(3_000)
    await p.queue.reap()
    p.clock.advance(600_000)
    for expired in (await p.queue.reap()).expired:
        assert await end_unclaimed(p.queue, quota, expired.tenant, expired.id, expired.reason, expired.code)
    assert await p.kinds(*at) == ["queued", "running", "t", "moved", "end"]
    value = json.loads((await LogReader(redis, p.name).read(*at, 4, 10))[0].v)
    assert (value["reason"], value["h"]) == ("deadline", hashlib.sha256("hé".encode()).hexdigest())
    assert value["usage"] == {"input": 10, "cached_input": 3, "output": 2, "total": 12}
    event = await event_of(p)
    assert (event.claims, event.claimed_ms, event.first_token_ms) == (1, START_MS, START_MS)
    assert event.cost_nano == value["cost"]["nano"] == 7 * 100 + 3 * 50 + 2 * 400
    assert (await p.queue.reap()).expired == []


async def test_an_end_without_a_worker_counts_the_flags_of_its_log(redis: Redis):
    """What the log says, as nobody replays the filter; what cannot be read there is left out."""
    p = pool(redis)
    claim = await p.running(input=request_input(10, policy="0a" * 32))
    quota, at = await admitted(p, request(id=claim.id)), (claim.tenant, claim.id)
    flags = [b'{"category":"card","action":"redact","scope":"platform","p":0,"n":8}'] * 2 + [b"{", b"[]"]
    entries = [text(3, "a", 0, 1), *(Entry(4 + at, EntryKind.FLAGGED, v=v) for at, v in enumerate(flags))]
    await p.queue.append("w1", [append_to(claim, ids=(1,), entries=entries, raw=1, visible=1)])
    p.clock.advance(3_000)
    await p.queue.reap()
    assert await end_unclaimed(p.queue, quota, *at, EndReason.CANCELLED)
    event = await event_of(p)
    assert (event.policy, event.verdicts) == ("0a" * 32, {"card": {"redact": 2}})
    assert beyond_bounds(event) == ""


async def test_a_parked_request_is_ended_too(redis: Redis):
    """It leaves its place; a log that moved on in between is not ended on stale facts."""
    p, e = pool(redis), request()
    quota = await admitted(p, e)
    await p.queue.enqueue(e)
    await p.queue.park(e.tenant, e.id)
    assert await end_unclaimed(p.queue, quota, e.tenant, e.id, EndReason.SLOW_READER)
    assert await p.places(e.tenant, e.id) == set()
    assert not await end_unclaimed(p.queue, quota, e.tenant, "unknown", EndReason.CANCELLED)
