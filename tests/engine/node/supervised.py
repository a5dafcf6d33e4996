"""Supervisors with workers of their own."""

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.api import WorkerView
from engine.models.registry import ModelRecord, save
from engine.node.supervisor import Supervisor
from tests.engine.builders import FINGERPRINT
from tests.engine.workers import TOKENIZER, PoolWorkers
from tests.support.home import settings_in
from tests.support.patience import START_SECONDS, soon, wait_until
from tests.support.platform import processes_of
from tests.support.redis import Redis


@pytest.fixture
async def crew(
    redis: Redis, redis_url: str, home: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch
) -> PoolWorkers:
    """A home with a model that the scripted engine can pretend to run, and its processes' environment."""
    shutil.copy(sqlite_template, home / "parley.db")
    folder = home / "models" / "tiny" / "1"
    folder.mkdir(parents=True)
    TOKENIZER.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"eos_token_id": 256}')
    settings = settings_in(home, redis_url=redis_url, model="tiny")
    db = Database(settings.database_endpoint)
    await save(db, ModelRecord("tiny", "1", FINGERPRINT, folder, 4096), {}, now_ms())
    await db.close()
    environment = {
        "PARLEY_HOME": str(home),
        "PARLEY_REDIS_URL": redis_url,
        "PARLEY_MODEL": "tiny",
        "PARLEY_TEST_BACKEND": "scripted",
        "PARLEY_TEST_STEP_MS": "10",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return PoolWorkers(redis, settings)


@asynccontextmanager
async def supervised(crew: PoolWorkers, settings: Settings, workers: int) -> AsyncGenerator[list[WorkerView]]:
    """A supervisor whose workers are registered; told to stop at the end, after which nothing may be left."""
    stop = asyncio.Event()
    task = asyncio.create_task(Supervisor(settings, crew.redis, workers).run(stop))

    async def all_up() -> list[WorkerView]:
        found = await crew.queue.workers()
        return found if len(found) == workers else []

    try:
        yield await wait_until(all_up, START_SECONDS)
    finally:
        stop.set()
        await soon(task)
    await wait_until(lambda: not _others(settings))
    assert await crew.queue.workers() == []


def _others(settings: Settings) -> list[int]:
    return [process.pid for process in processes_of(settings.home) if process.pid != os.getpid()]
