"""A log that begins again while nobody looks: its readers start anew, whatever offsets it has by then."""

from typing import Any

import msgspec

from chaos.injected.scripted import ScriptedEngine
from engine.queue import redis_keys
from tests.server.site import Site, saying
from tests.support.patience import wait_until
from tests.system.wire import wired

SHOWN = 40
OTHER = "z"
UNHELD = ",;!? "  # no secret begins with any of it, so all that is sampled is shown at once


async def begin_again(site: Site, id: str, further: int) -> int:
    """Another log in the next epoch, `further` entries longer than the one that was read; its head.

    As after a restart of Redis without its tail, when another worker has been quick."""
    redis: Any = site.redis
    pool, tenant = site.settings.pool, site.tenant
    record, log = redis_keys.record(pool, tenant, id), redis_keys.log(pool, tenant, id)
    head = int(await redis.hget(record, "o")) + further
    pipe = redis.pipeline(transaction=True)
    pipe.delete(log)
    pipe.xadd(log, {"k": "queued"}, id="1-0")
    pipe.xadd(log, {"k": "running"}, id="2-0")
    for o in range(3, head + 1):
        pipe.xadd(log, {"x": OTHER, "p": o - 3, "r": o - 2, "i": o - 2}, id=f"{o}-0")
    pipe.hset(record, mapping={"o": head, "epoch": 2})
    await pipe.execute()
    return head


async def hint(site: Site, id: str, head: int, first: int, epoch: int) -> None:
    """What the pool publishes of a log: its entries from `first` on."""
    redis: Any = site.redis
    pool, tenant = site.settings.pool, site.tenant
    (gateway,) = await redis.hkeys(f"{{p:{pool}}}rd:{tenant}:{id}")
    entries = [["t", OTHER, o - 3, o - 2, o - 2, ""] for o in range(first, head + 1)]
    message = msgspec.msgpack.encode([[tenant, id, head, entries, epoch]])
    assert await redis.execute_command(
        "SPUBLISH", redis_keys.gateway_channel(pool, gateway.decode()), message
    )


async def begun_again(gateway: Site, further: int, first: int, epoch: int) -> None:
    """Read an answer until its engine stops, begin its log again, and hint at entries from `first` after the
    reader's cursor on, in this epoch: the reader has the other log's text and nothing of the first."""
    engine = ScriptedEngine(saying(UNHELD * 40), step_seconds=0.005)
    async with gateway.crew.worker(engine), wired(gateway.url, gateway.key) as wire:
        before = engine.counters().output
        reading = await wire.send("Name three rivers.")
        while len(reading.text) < SHOWN:
            await wire.hear()
        engine.hang()

        async def whole() -> bool:  # a worker that still appends would make the reader's text of both logs
            log = redis_keys.log(gateway.settings.pool, gateway.tenant, reading.id)
            redis: Any = gateway.redis
            ((at, fields),) = await redis.xrevrange(log, count=1)
            sampled = engine.counters().output - before
            return bool(at == f"{reading.applied}-0".encode() and int(fields.get(b"i", 0)) == sampled)

        await wait_until(lambda: _all_heard(wire, whole))
        head = await begin_again(gateway, reading.id, further)
        await hint(gateway, reading.id, head, reading.applied + first, epoch)
        while reading.applied < head:
            await wire.hear()
        assert reading.text == OTHER * (head - 2)


async def _all_heard(wire: Any, whole: Any) -> bool:
    if await whole():
        return True
    await wire.hear()
    return False


async def test_a_hint_that_would_fit_is_of_another_log(gateway: Site):
    """Its first entry comes next by its offset, and belongs to a text that the reader does not have."""
    await begun_again(gateway, further=1, first=1, epoch=2)


async def test_a_read_that_would_fit_is_of_another_log(gateway: Site):
    """A late hint of the first log has it read from the cursor on; what is there by now is another text."""
    await begun_again(gateway, further=3, first=3, epoch=1)
