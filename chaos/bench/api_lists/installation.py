"""A seeded installation with a console of each side, as processes, and who signs in there."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing import get_context
from typing import NamedTuple

import httpx

from admin.api.callers import OPERATORS_SIDE, SIDES, TENANTS_SIDE
from billing.api import PLATFORM, ensure_owner, make_person_code
from billing.seeding.bulk import refresh_statistics
from billing.seeding.fill import FilledInstallation, seed_settings
from billing.seeding.shapes import SeedShape
from billing.seeding.tenant_rows import UsageSource
from billing.seeding.usage_posting import post_seeded_usage, shared_out
from chaos.bench.billing import SECRET, STOP_SECONDS_MAX
from chaos.bench.seeded_books import events_in, opened
from chaos.bench.targets import free_port
from chaos.figures.figures import progress
from core.clock import now_ms
from core.configuration.settings import Settings
from core.runtime.leash import LeashedProcess, spawn

POSTING_PROCESSES = 2  # on Postgres; SQLite has one writer
SAY_SECONDS = 10.0
START_SECONDS_MAX = 60.0
CALL_SECONDS_MAX = 60.0
OWNER = "Ann"
# One address and one caller make all calls here.
LIMITS = (
    "calls_per_caller_per_second",
    "asks_per_caller_per_second",
    "calls_per_address_per_second",
    "signins_per_caller_per_minute",
    "signins_per_address_per_minute",
)
ENDPOINTS = {OPERATORS_SIDE.name: "PARLEY_CONSOLE_PORT", TENANTS_SIDE.name: "PARLEY_PORTAL_PORT"}


class RunningConsole(NamedTuple):
    """A console's process."""

    url: str
    pid: int


async def seed_installation(settings: Settings, shape: SeedShape) -> FilledInstallation:
    """Fill the empty database, settings first, then usage; show the progress."""
    began = time.monotonic()

    def tell(words: str) -> None:
        progress(f"{time.monotonic() - began:.0f} s: {words}")

    async with opened(settings) as db:
        seeded = await seed_settings(db, shape, tell)
        processes = 1 if db.dialect == "sqlite" else POSTING_PROCESSES
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            parts = [
                asyncio.get_running_loop().run_in_executor(pool, _post_part, settings, shape, part)
                for part in shared_out(seeded.sources, processes)
            ]
            while (await asyncio.wait(parts, timeout=SAY_SECONDS))[1]:
                tell(f"{await events_in(db):,} usage events are in the books")
                await refresh_statistics(db)  # else tenants that it never saw are joined row by row
            await asyncio.gather(*parts)
        await refresh_statistics(db, vacuum=True)
        tell(f"{await events_in(db):,} usage events are in the books, and the planner knows")
    return seeded


def _post_part(settings: Settings, shape: SeedShape, sources: Sequence[UsageSource]) -> None:
    asyncio.run(_post(settings, shape, sources))


async def _post(settings: Settings, shape: SeedShape, sources: Sequence[UsageSource]) -> None:
    async with opened(settings) as db:
        await post_seeded_usage(db, shape, sources, settings.pool)


@asynccontextmanager
async def running_consoles(
    settings: Settings, sides: Sequence[str] = tuple(SIDES)
) -> AsyncGenerator[dict[str, RunningConsole]]:
    """The console of each side, until the block ends."""
    ports = {side: free_port() for side in sides}
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")},
        "PARLEY_HOME": str(settings.home),
        "PARLEY_DATABASE_URL": settings.database_endpoint,
        "PARLEY_REDIS_URL": settings.redis_endpoint,
        "PARLEY_SECRET": SECRET,
        **{f"PARLEY_{name.upper()}": "1000000" for name in LIMITS},
        **{ENDPOINTS[side]: str(port) for side, port in ports.items()},
    }
    running = [await _spawned(settings, environment, side) for side in sides]
    consoles = {
        side: RunningConsole(f"http://127.0.0.1:{port}", process.pid)
        for (side, port), process in zip(ports.items(), running, strict=True)
    }
    try:
        for console, process in zip(consoles.values(), running, strict=True):
            await _until_it_answers(console.url, process)
        yield consoles
    finally:
        for process in running:
            process.terminate()
        for process in running:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await process.wait()


async def _spawned(settings: Settings, environment: dict[str, str], side: str) -> LeashedProcess:
    argv = [sys.executable, "-m", "core.cli", "console", "--serve", side]
    return await spawn(argv, environment, settings.home / f"console-{side}.log")


async def _until_it_answers(url: str, process: LeashedProcess) -> None:
    async with httpx.AsyncClient() as client, asyncio.timeout(START_SECONDS_MAX):
        while True:
            assert process.returncode is None, "the console ended"
            try:
                (await client.get(f"{url}/healthz")).raise_for_status()
                return
            except httpx.TransportError:
                await asyncio.sleep(0.05)


async def owner_code(settings: Settings) -> str:
    """A code that signs the installation's owner in."""
    async with opened(settings) as db:
        member = await ensure_owner(db, OWNER)
    assert member is not None, "others own the installation"
    return make_person_code(settings.keyring, member.person.id, PLATFORM, now_ms())


def admin_code(settings: Settings, seeded: FilledInstallation, tenant: str) -> str:
    """A code that signs an admin of a seeded tenant in."""
    return make_person_code(settings.keyring, seeded.admins[tenant], tenant, now_ms())


@asynccontextmanager
async def signed_in(url: str, code: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a side, as whom the code is of."""
    async with httpx.AsyncClient(base_url=url, timeout=CALL_SECONDS_MAX) as client:
        reply = await client.post("/api/sign-in", json={"by": "link", "code": code}, headers={"origin": url})
        assert reply.status_code == 200, f"nobody could sign in: {reply.text}"
        client.headers["cookie"] = reply.headers["set-cookie"].partition(";")[0]
        yield client
