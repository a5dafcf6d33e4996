"""The stream of changes: one bounded Redis stream of what the audit log recorded, for pages that follow it.

It says what changed, not how: who wants to know reads the thing again. What could not be written here stands
in the audit log all the same.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec

from billing.tables.audit import AuditLog
from core.configuration.settings import Settings
from core.redis.client import RedisClient

ENTRIES_MAX = 10_000
FIELD = b"change"


class RecordedChange(msgspec.Struct, frozen=True):
    """One row of the audit log. `tenant`: whose chain; `seq`: its number there; `at_ms`: Unix ms."""

    tenant: str
    seq: int
    action: str
    target: str
    author: str
    source: str
    at_ms: int


def changes_key(settings: Settings) -> str:
    """The stream's key."""
    return f"{settings.installation}:changes"


async def write_changes(redis: RedisClient, settings: Settings, rows: Sequence[AuditLog]) -> None:
    """Add rows that are committed."""
    for row in rows:
        change = RecordedChange(
            row.tenant_id, row.seq, row.action, row.target, row.author, row.source, row.at_ms
        )
        entry = msgspec.json.encode(change)
        await redis.execute_command(
            "XADD", changes_key(settings), "MAXLEN", "~", ENTRIES_MAX, "*", FIELD, entry
        )


async def read_changes(
    redis: RedisClient, settings: Settings, after: str, count: int
) -> AsyncIterator[tuple[str, RecordedChange]]:
    """Entries behind an id, oldest first, at most `count`. What is no change of ours is left out."""
    for id, fields in await redis.xrange(changes_key(settings), f"({after}", "+", count=count):
        try:
            yield id.decode(), msgspec.json.decode(fields[FIELD], type=RecordedChange)
        except (KeyError, ValueError):
            continue
