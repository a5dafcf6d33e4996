"""Notes why connections ended, for who asks later: Redis has a tenant's last ends for a day."""

from redis.exceptions import RedisError

from core.clock import now_ms
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.redis.connection_ends import ConnectionEnd, note_end
from core.redis.gateway_questions import ConnectionFacts
from server.protocol.codes import CloseCode

BY_PEER = {1000: "client_closed", 1001: "client_left"}  # 1001: its page was left, or it stops
NO_FRAME = 1006  # what libraries call an end without a close frame

repeated = RepeatedWarning(logger(__name__))


class EndLog:
    """The ends of one gateway's connections."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis

    async def note(
        self, tenant: str, facts: ConnectionFacts, ours: CloseCode | None, peers: int | None
    ) -> None:
        """Note an end: our close code, else what the peer sent. What cannot be noted is lost."""
        cause, code = cause_of(ours, peers)
        known = {name: getattr(facts, name) for name in facts.__struct_fields__}
        try:
            await note_end(
                self._redis, tenant, ConnectionEnd(**known, ended_ms=now_ms(), cause=cause, code=code)
            )
        except (RedisError, OSError) as error:
            repeated.warning("connection.end_not_noted", error=error_summary(error))


def cause_of(ours: CloseCode | None, peers: int | None) -> tuple[str, int]:
    """The cause as a word, and the code of the close frame, 0 where none came. Pure."""
    if ours is not None:
        return "bye" if ours is CloseCode.NORMAL else ours.name.lower(), int(ours)
    if peers is None or peers == NO_FRAME:
        return "lost", 0
    return BY_PEER.get(peers, "client_closed"), peers
