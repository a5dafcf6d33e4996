"""A request waits in line; whoever sends it again meets the first."""

from core.errors import Refusal
from engine.api import Enqueued, RequestStatus
from tests.engine.builders import pool, request
from tests.support.redis import Redis


async def test_a_request_is_in_line_once(redis: Redis):
    """The id is the sender's own, so a retry is no second request; another body under it is refused."""
    p, sent = pool(redis), request()
    for created in (True, False):
        reply = await p.queue.enqueue(sent)
        assert isinstance(reply, Enqueued)
        assert (reply.created, reply.status, reply.position) == (created, RequestStatus.QUEUED, 0)
    other = await p.queue.enqueue(request(id=sent.id, body_hash="another body"))
    assert isinstance(other, Refusal)
    assert other.code == "id_conflict"
    await p.worker("w1")
    (claim,) = await p.claim("w1")
    assert claim.id == sent.id
