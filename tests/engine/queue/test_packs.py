"""Lower classes come in packs: what an offer leaves out stays in line, and a busy worker takes it soon."""

from engine.api import ClaimOffer, PriorityClass
from tests.engine.builders import FINGERPRINT, pool, request
from tests.support.redis import Redis


async def test_nothing_below_the_lowest_class_of_an_offer_is_claimed(redis: Redis):
    """It is neither taken nor does it make the worker ask again sooner."""
    p = pool(redis)
    await p.queue.register("w1", FINGERPRINT, {"kv_tokens": 10_000})
    for priority in (PriorityClass.BULK, PriorityClass.STANDARD, PriorityClass.INTERACTIVE):
        await p.queue.enqueue(request(priority=priority))
    for call, lowest in enumerate(PriorityClass, start=1):
        claims = await p.queue.claim("w1", call, ClaimOffer(FINGERPRINT, 4, 10_000, 10_000, lowest))
        assert (len(claims.claims), claims.retry_ms) == (1, 0)
