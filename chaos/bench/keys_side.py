"""One side of `chaos bench keys`: checks keys, tickets and browser sessions with whichever checkout is on its
path. On stdin it is told what to make and how often to check it, on stdout it says as JSON what each took.
Knows how this version does it, and the one before sessions.
"""

import asyncio
import gc
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import uvloop

from billing.api import create_key, create_project, create_tenant
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.redis.client import connect
from core.sql.database import Database
from server.context import make_context

Check = Callable[[], Awaitable[Any]]


async def measure(settings: Settings) -> None:
    """Until stdin ends: `ticket 220` makes what so many checks need, `check 10` makes ten of them."""
    db, redis = Database(settings.database_endpoint), connect(settings)
    context = make_context(settings, "bench", db, redis)
    try:
        tenant = await create_tenant(db, f"bench {uuid7(now_ms())}")
        project = await create_project(db, tenant.tenant_id, "web")
        _, key = await create_key(db, tenant.tenant_id, project.id)
        makers = {"key": _keys, "ticket": _tickets, "session": _sessions}
        check: Check | None = None
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, number = line.split()
            if what in makers:
                check = await makers[what](context.auth, settings, key, int(number))
                gc.collect()
                print("{}", flush=True)
            else:
                assert check is not None
                print(json.dumps(await _checked(check, int(number))), flush=True)
    finally:
        await db.close()
        await redis.aclose()


async def _checked(check: Check, checks: int) -> dict[str, Any]:
    """Milliseconds of each check, and the CPU that all took, of every thread."""
    cpu = time.process_time()
    times = [await _timed(check) for _ in range(checks)]
    return {"wall_ms": times, "cpu_ms": (time.process_time() - cpu) * 1000}


async def _timed(check: Check) -> float:
    began = time.perf_counter()
    assert await check() is not None
    return (time.perf_counter() - began) * 1000


async def _keys(auth: Any, _settings: Settings, key: str, _most: int) -> Check:
    check = getattr(auth, "of_api_key", None) or auth.principal
    return lambda: check(key)


async def _tickets(auth: Any, settings: Settings, key: str, most: int) -> Check:
    of_key = getattr(auth, "of_api_key", None) or auth.principal
    check = getattr(auth, "of_token", None) or auth.principal
    settings.ticket_seconds = 60
    principal = await of_key(key)
    if hasattr(auth, "of_token"):
        made = [auth.ticket(principal, "ann", {"chat"})[0] for _ in range(most)]
    else:
        made = [(await auth.ticket(principal, "ann"))[0] for _ in range(most)]
    return lambda: check(made.pop())


async def _sessions(auth: Any, settings: Settings, key: str, _most: int) -> Check:
    if hasattr(auth, "of_browser"):
        principal = replace(await auth.of_api_key(key), user="ann")
        _, token = await auth.sign_in(principal, "", "")
        return lambda: auth.of_browser(token)
    old: Any = importlib.import_module("server.cookies")  # of the version before sessions
    principal, before = await auth.principal(key), cast(Any, settings)
    signed_in = old.SignedIn(principal.tenant, principal.key, now_ms() + 3_600_000)
    secret = before.signing_secret
    cookie = old.seal(signed_in, secret)

    async def check() -> Any:
        shown = old.unseal(cookie, secret, now_ms())
        return await auth.of_key(shown.tenant, shown.key)

    return check


if __name__ == "__main__":
    uvloop.run(measure(Settings()))
