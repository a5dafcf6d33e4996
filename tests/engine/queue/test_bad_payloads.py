"""What the pool keeps of a request is no request any more: it ends typed, once, and nobody else notices."""

import random
from typing import Any

import msgspec
import pytest

from billing import usage
from billing.api import Admission, Quota
from billing.booking.assess import assess
from chaos.injected.scripted import ScriptedEngine
from core.clock import now_ms
from core.configuration.settings import Settings
from engine.api import DamagedLogError, RequestInput, Sampling, input_decoder
from engine.lifecycle.reaper import Reaper
from engine.queue import redis_keys
from engine.queue.client import PoolQueue
from tests.engine.builders import FINGERPRINT, HOUR_MS, PRICES, TENANT, request_input, tokens
from tests.engine.workers import PROMPT, PoolWorkers, paused_at, saying
from tests.support.patience import wait_until
from tests.support.redis import Redis

TEXT = "What the others are told."
GOOD = request_input()


def changed(**fields: Any) -> bytes:
    """An input with other fields."""
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(GOOD), **fields})


DEEP = b"\x91" * 100_000
BAD_INPUTS = {
    "nothing": b"",
    "truncated": GOOD[: len(GOOD) // 2],
    "one byte short": GOOD[:-1],
    "garbage": random.Random(7).randbytes(200),
    "another type": msgspec.msgpack.encode(["no", "map"]),
    "a wrong field": changed(sampling={"max_tokens": "many"}),
    "a missing field": msgspec.msgpack.encode({"prompt": b"", "model": "smollm2"}),
    "no code points": changed(model=b"\xff"),
    "half a token": changed(prompt=b"\x01\x02\x03"),
    "a length that is not there": b"\xdb\xff\xff\xff\xff" + GOOD,
    "a hundred thousand levels": DEEP,
    "levels in a field of the future": b"\x81\xa6future" + DEEP,
}


@pytest.fixture
def crew(redis: Redis, settings: Settings) -> PoolWorkers:
    """Workers of an empty pool."""
    return PoolWorkers(redis, settings)


async def admit(crew: PoolWorkers, id: str) -> None:
    """As its gateway did before it was put in line."""
    admission = Admission(
        tenant=TENANT,
        id=id,
        body_hash="a body",
        owner_key="k1",
        project="p1",
        user="",
        model="smollm2",
        pool=crew.pool,
        fingerprint=FINGERPRINT,
        input_tokens=len(PROMPT),
        chunk_tokens=256,
        deadline_ms=1 << 42,
        prices=PRICES,
    )
    await Quota(crew.redis, crew.settings).admit(admission)


async def events(crew: PoolWorkers) -> dict[str, usage.UsageEvent]:
    """Every usage event; a request with two fails."""
    client: Any = crew.redis
    raw = await client.xrange(usage.ended_stream(crew.pool))
    found = [usage.decode(fields[usage.ENDED_FIELD.encode()]) for _, fields in raw]
    assert len({event.request for event in found}) == len(found)
    return {event.request: event for event in found}


@pytest.mark.parametrize("bad", BAD_INPUTS.values(), ids=BAD_INPUTS.keys())
async def test_an_input_that_does_not_decode_ends_once(crew: PoolWorkers, bad: bytes):
    """Two workers are there: one claim, `error internal`, nothing billed; what is beside it is answered."""
    client: Any = crew.redis
    ids = [await crew.send() for _ in range(3)]
    await admit(crew, ids[1])
    await client.set(redis_keys.request_input(crew.pool, TENANT, ids[1]), bad)
    one, two = (ScriptedEngine(saying(TEXT), step_seconds=0.001) for _ in range(2))
    async with crew.worker(one) as first, crew.worker(two) as second:
        ends = [await crew.ended(id) for id in ids]
        assert not first.task.done()
        assert not second.task.done()
    assert [end["reason"] for end in ends] == ["stop", "error", "stop"]
    assert (ends[1]["code"], ends[1]["usage"]["total"], ends[1]["cost"]["nano"]) == ("internal", 0, 0)
    assert [await crew.text(id) for id in ids] == [TEXT, "", TEXT]
    assert await crew.kinds(ids[1]) == ["queued", "running", "end"]
    event = (await events(crew))[ids[1]]
    assert (event.owner.project, event.owner.key, event.prices) == ("p1", "k1", PRICES)
    assert await Quota(crew.redis, crew.settings).open_requests(TENANT) == 0


async def test_an_input_that_is_gone_ends_too(crew: PoolWorkers):
    """With nothing known of its owner either; the line behind it moves on."""
    client: Any = crew.redis
    lost, good = await crew.send(), await crew.send()
    await client.delete(redis_keys.request_input(crew.pool, TENANT, lost))
    async with crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0)):
        assert (await crew.ended(lost))["code"] == "internal"
        await crew.ended(good)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, -1])
async def test_a_token_log_that_is_none_ends_its_request(crew: PoolWorkers, cut: int):
    """Half an id, or more or fewer than are logged: text was shown, so the input is billed, no output."""
    client: Any = crew.redis
    async with crew.worker(paused_at(6, TEXT)) as worker:
        id = await crew.send()
        await admit(crew, id)
        await crew.reaches(id, 6)
        key = redis_keys.tokens(crew.pool, TENANT, id)
        whole = await client.get(key)
        await client.set(key, whole[:-cut] if cut > 0 else whole + b"\x00\x00\x00\x00")
    await crew.lose(worker.name)
    engine = ScriptedEngine(saying(TEXT), step_seconds=0)
    async with crew.worker(engine):
        end = await crew.ended(id)
        assert (end["reason"], end["code"]) == ("error", "internal")
        other = await crew.send()
        await crew.ended(other)
    assert end["usage"] == {"input": len(PROMPT), "cached_input": 0, "output": 0, "total": len(PROMPT)}
    assert await crew.text(id) == TEXT[:6]
    assert (await events(crew))[id].claims == 2


async def test_the_reaper_ends_what_cannot_be_read(crew: PoolWorkers):
    """No worker is there: at its deadline a damaged request ends like any other, and the ones behind it."""
    client: Any = crew.redis
    damaged, broken, good = [await crew.send(deadline_ms=HOUR_MS) for _ in range(3)]
    await client.set(redis_keys.request_input(crew.pool, TENANT, damaged), BAD_INPUTS["truncated"])
    await client.set(redis_keys.log(crew.pool, TENANT, broken), "no stream")
    late = PoolQueue(crew.redis, crew.pool, crew.settings, lambda: now_ms() + HOUR_MS)
    reaper = Reaper(late, Quota(crew.redis, crew.settings), 10)

    async def over() -> bool:
        await reaper.once()
        return len(await events(crew)) == 3

    await wait_until(over)
    assert {id: event.reason for id, event in (await events(crew)).items()} == {
        damaged: "deadline",
        broken: "deadline",
        good: "deadline",
    }


async def test_a_log_entry_that_does_not_decode(crew: PoolWorkers):
    """Whoever reads it is told; the answer itself goes on elsewhere and ends."""
    client: Any = crew.redis
    async with crew.worker(paused_at(6, TEXT)) as worker:
        id = await crew.send()
        await crew.reaches(id, 6)
    await crew.lose(worker.name)
    log = redis_keys.log(crew.pool, TENANT, id)
    (_, fields), *_ = await client.xrange(log, min="3-0", max="3-0")
    await client.xdel(log, "3-0")
    copied = await client.xrange(log)
    await client.delete(log)
    for stream_id, entry in sorted(
        [*copied, (b"3-0", {**fields, b"x": b"\xff\xfe"})], key=lambda each: each[0]
    ):
        await client.xadd(log, entry, id=stream_id)
    with pytest.raises(DamagedLogError, match="offset 3"):
        await crew.entries(id)
    async with crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0)):
        await wait_until(lambda: has_ended(crew, id))
    assert (await events(crew))[id].reason == "stop"


async def has_ended(crew: PoolWorkers, id: str) -> bool:
    """By the record: its log cannot be read."""
    view = await crew.queue.view(TENANT, id)
    return view is not None and view.ended


async def test_fields_of_a_future_version_are_passed_over(crew: PoolWorkers):
    """A newer gateway beside an older worker: what it does not know, it does not need."""
    client: Any = crew.redis
    id = await crew.send()
    packed = await client.get(redis_keys.request_input(crew.pool, TENANT, id))
    newer = {**msgspec.msgpack.decode(packed), "future": {"a": [1, 2, {"b": None}]}}
    await client.set(redis_keys.request_input(crew.pool, TENANT, id), msgspec.msgpack.encode(newer))
    async with crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0)):
        assert (await crew.ended(id))["reason"] == "stop"
    assert await crew.text(id) == TEXT


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_tokens=1 << 62),
        Sampling(max_tokens=0),
        Sampling(max_tokens=-5),
        Sampling(max_tokens=64, min_tokens=1 << 40),
        Sampling(max_tokens=64, stop=("", "\x00", "x" * 100_000)),
        Sampling(max_tokens=64, temperature=float("nan"), seed=-(1 << 62), top_k=-7),
    ],
    ids=["endless", "none", "negative", "more at least than at most", "stops", "no numbers"],
)
async def test_absurd_numbers_end_in_time(crew: PoolWorkers, sampling: Sampling):
    """Whatever a gateway let through: an end, and the worker lives."""
    client: Any = crew.redis
    id, beside = await crew.send(), await crew.send()
    key = redis_keys.request_input(crew.pool, TENANT, id)
    asked = msgspec.structs.replace(input_decoder.decode(await client.get(key)), sampling=sampling)
    await client.set(key, msgspec.msgpack.encode(asked))
    async with crew.worker(ScriptedEngine(saying(TEXT), step_seconds=0)):
        assert (await crew.ended(id))["reason"] in ("stop", "length", "error")
        await crew.ended(beside)


@pytest.mark.parametrize("ids", [[], [0xFFFFFFFF] * 8, list(range(9_000))], ids=["no", "unknown", "too many"])
async def test_absurd_prompts_end_in_time(crew: PoolWorkers, ids: list[int]):
    """No ids, ids that no vocabulary has, more than the model takes."""
    client: Any = crew.redis
    id, beside = await crew.send(), await crew.send()
    key = redis_keys.request_input(crew.pool, TENANT, id)
    asked: RequestInput = msgspec.structs.replace(
        input_decoder.decode(await client.get(key)), prompt=tokens(*ids)
    )
    await client.set(key, msgspec.msgpack.encode(asked))
    async with crew.worker(ScriptedEngine(lambda _: 65, step_seconds=0)):
        assert (await crew.ended(id))["reason"] in ("length", "error")
        await crew.ended(beside)


def test_what_nobody_can_price_is_held():
    """Neither input nor admission is known and something was used: the biller holds it and bills no 0."""
    batch = assess("default", [usage.encode(_unpriced(7)), usage.encode(_unpriced(0, "r2"))], 1)
    assert [held.detail for held in batch.held] == ["nobody knows the prices of smollm2"]
    assert [each.row.request_id for each in batch.good] == ["r2"]


def _unpriced(input_uncached: int, id: str = "r1") -> usage.UsageEvent:
    return usage.UsageEvent(
        tenant=TENANT,
        request=id,
        pool="default",
        model="smollm2",
        fingerprint=FINGERPRINT,
        owner=usage.UsageOwner("", ""),
        accepted_ms=1,
        ended_ms=2,
        reason="error",
        prices=usage.PinnedPrices("", 0, 0, 0, 0),
        input_uncached=input_uncached,
    )
