"""What is good once: Redis is told that it is spent, and told nothing else."""

import secrets
from typing import Any

from core.redis import Client

# Whoever looks at an expiry may have a clock that is behind that of who marked it as spent.
CLOCKS_DIFFER_MS = 60_000


async def spend(redis: Client, name: str, kept_ms: int) -> bool:
    """Whether nobody has spent this before; it is spent from now on. `kept_ms`: how long it could still be
    shown. A call that the client repeats on its own finds its own mark, and is not refused for it."""
    mark = secrets.token_bytes(8)
    call: Any = redis
    before = await call.set(name, mark, nx=True, get=True, px=max(1, kept_ms) + CLOCKS_DIFFER_MS)
    return before is None or before == mark
