"""The biller's view of one pool's `ended` stream: a consumer group handles every event at least once in spite
of crashes, and entries are trimmed only after the slowest group."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from billing.usage import ENDED_FIELD, ENDED_GROUP_BILLER, ENDED_GROUP_RECORDER, ended_stream
from core.redis import redis_errors
from core.redis.client import RedisClient
from core.redis.members import made_anew

GROUPS = (ENDED_GROUP_BILLER, ENDED_GROUP_RECORDER)
EVENTS_MAX = 500
BLOCK_MS = 500
# A batch takes milliseconds: entries pending for this long belong to a consumer that died or failed.
CLAIM_IDLE_MS = 5_000
SEQUENCE_MAX = (1 << 64) - 1  # Redis has none after it
CONSUMER_IDLE_MS_MAX = 3_600_000


@dataclass(frozen=True)
class Delivery:
    """One entry of the stream: its id and its encoded event."""

    id: bytes
    data: bytes


class EndedStream:
    """A consumer of the group `biller` on one pool's stream."""

    def __init__(
        self, redis: RedisClient, pool: str, consumer: str, claim_idle_ms: int = CLAIM_IDLE_MS
    ) -> None:
        self._redis = redis
        self.pool = pool
        self._key = ended_stream(pool)
        self._consumer = consumer
        self._claim_idle_ms = claim_idle_ms

    async def ensure_groups(self) -> None:
        """Create the stream and both of its groups, from the first entry on, where they are missing."""
        for group in GROUPS:
            try:
                await made_anew(self._redis, self._key, partial(self._make_group, group))
            except redis_errors.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    async def _make_group(self, group: str) -> bool:
        return await self._redis.xgroup_create(self._key, group, id="0", mkstream=True)

    async def rewind(self) -> None:
        """Have both groups read every entry that there is again, as the database that has their results is
        gone."""
        await self.ensure_groups()
        for group in GROUPS:
            await self._redis.xgroup_setid(self._key, group, "0")

    async def read(self) -> list[Delivery]:
        """Read new entries, at most EVENTS_MAX; wait up to BLOCK_MS for the first."""
        reply = await self._redis.xreadgroup(
            ENDED_GROUP_BILLER, self._consumer, {self._key: ">"}, count=EVENTS_MAX, block=BLOCK_MS
        )
        return [delivery for entries in _streams(reply) for delivery in _deliveries(entries)]

    async def own_pending(self) -> list[Delivery]:
        """Entries that this consumer received and has not acknowledged, at most EVENTS_MAX."""
        reply = await self._redis.xreadgroup(
            ENDED_GROUP_BILLER, self._consumer, {self._key: "0"}, count=EVENTS_MAX
        )
        return [delivery for entries in _streams(reply) for delivery in _deliveries(entries)]

    async def claim(self) -> list[Delivery]:
        """Take over entries that were delivered and not acknowledged in time, ours included."""
        reply = await self._redis.xautoclaim(
            self._key, ENDED_GROUP_BILLER, self._consumer, self._claim_idle_ms, "0-0", count=EVENTS_MAX
        )
        return _deliveries(reply[1])

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge entries, so that they are never delivered again. Only after their result is
        committed."""
        if deliveries:
            await self._redis.xack(self._key, ENDED_GROUP_BILLER, *(each.id for each in deliveries))

    async def trim(self) -> int:
        """Delete the entries that both groups have acknowledged; return their number. Deletes none before
        both groups exist."""
        reply = await self._redis.xinfo_groups(self._key)
        groups = {group["name"].decode(): group for group in reply}
        if not all(name in groups for name in GROUPS):
            return 0
        keep = [await self._least_needed(name, groups[name]["last-delivered-id"]) for name in GROUPS]
        least = min(keep)
        return int(await self._redis.xtrim(self._key, minid=f"{least[0]}-{least[1]}", approximate=False))

    async def forget_dead_consumers(self) -> None:
        """Delete consumers without pending entries that were not seen for an hour: each process start makes
        one."""
        for consumer in await self._redis.xinfo_consumers(self._key, ENDED_GROUP_BILLER):
            if consumer["pending"] == 0 and consumer["idle"] > CONSUMER_IDLE_MS_MAX:
                await self._redis.xgroup_delconsumer(self._key, ENDED_GROUP_BILLER, consumer["name"])

    async def _least_needed(self, group: str, last_delivered: bytes) -> tuple[int, int]:
        """The lowest id that the group still needs: its lowest pending one, else the one after its last
        delivered.

        The last delivered id was read before: entries delivered since are above it, and stay."""
        pending = await self._redis.xpending(self._key, group)
        if pending["min"] is not None:
            return _parsed(pending["min"])
        milliseconds, sequence = _parsed(last_delivered)
        return milliseconds, min(sequence + 1, SEQUENCE_MAX)


async def active_consumers(redis: RedisClient, pool: str, idle_ms_max: int) -> dict[str, int]:
    """Billers that asked for entries of a pool lately, with the ms since each did."""
    try:
        found = await redis.xinfo_consumers(ended_stream(pool), ENDED_GROUP_BILLER)
    except redis_errors.ResponseError:
        return {}  # no stream, or no group
    return {
        each["name"].decode(errors="replace"): each["idle"] for each in found if each["idle"] <= idle_ms_max
    }


def _streams(reply: Any) -> list[Any]:
    """The entry lists of an XREADGROUP reply: pairs in RESP2, a mapping (of lists of lists) in RESP3."""
    if not reply:
        return []
    if isinstance(reply, dict):
        return [entries for chunks in cast(dict[bytes, Any], reply).values() for entries in chunks]
    return [entries for _, entries in reply]


def _deliveries(entries: Any) -> list[Delivery]:
    """Deliveries of entries. One that was trimmed while pending has no fields."""
    field = ENDED_FIELD.encode()
    return [Delivery(id, fields.get(field, b"")) for id, fields in entries if fields]


def _parsed(id: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = id.decode().partition("-")
    return int(milliseconds), int(sequence)
