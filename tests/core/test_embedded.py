"""The data folder and the embedded Valkey."""

import asyncio
import os
import signal
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime.embedded import EmbeddedValkey, ensure_home
from tests.support.home import settings_in, short_folder
from tests.support.patience import wait_until
from tests.support.redis import Redis

NOBODY = 65534


@pytest.fixture
def own(home: Path) -> Settings:
    """Settings whose Redis is the embedded one."""
    return settings_in(home)


async def test_it_serves_on_a_private_socket_and_keeps_what_it_was_told(own: Settings):
    """Only the owner may enter the folder; nothing is evicted; a restart finds the data again."""
    ensure_home(own)
    first = EmbeddedValkey(own)
    await first.start()
    async with Redis.from_url(own.redis_endpoint) as client:
        await client.set("kept", "yes")
        policy = await client.config_get("maxmemory-policy", "appendonly", "maxmemory")
    assert policy == {"maxmemory-policy": "noeviction", "appendonly": "yes", "maxmemory": str(1 << 30)}
    assert stat.S_IMODE((own.home / "redis").stat().st_mode) == 0o700
    await first.stop()
    second = EmbeddedValkey(own)
    await second.start()
    async with Redis.from_url(own.redis_endpoint) as client:
        assert await client.get("kept") == b"yes"
    await second.stop()


async def test_a_second_server_never_writes_the_same_file(own: Settings, monkeypatch: pytest.MonkeyPatch):
    """The lock is the server's own, so it holds even where the first one's parent is gone."""
    monkeypatch.setattr("core.runtime.embedded.LOCK_SECONDS_MAX", 0.1)
    ensure_home(own)
    first = EmbeddedValkey(own)
    await first.start()
    with pytest.raises(StartupError, match="another Valkey still uses"):
        await EmbeddedValkey(own).start()
    async with Redis.from_url(own.redis_endpoint) as client:
        assert await client.ping()
    await first.stop()


async def test_a_killed_server_is_started_again_with_its_data(own: Settings):
    """What it had answered is in the append-only file, whatever kills it."""
    ensure_home(own)
    valkey = EmbeddedValkey(own)
    await valkey.start()
    told: list[str] = []
    keeping = asyncio.create_task(valkey.keep(told.append))
    assert valkey.process is not None
    first = valkey.process.pid
    async with Redis.from_url(own.redis_endpoint) as client:
        await client.set("kept", "yes")
    os.kill(first, signal.SIGKILL)

    async def kept() -> bool:
        async with Redis.from_url(own.redis_endpoint) as client:
            try:
                return await client.get("kept") == b"yes"
            except RedisError:
                return False

    await wait_until(lambda: valkey.process is not None and valkey.process.pid != first)
    await wait_until(kept)
    assert told[0].startswith("Valkey ended with code 137 and is started again")
    await valkey.stop()
    await keeping


async def test_a_path_too_long_for_a_socket_is_one_clear_line(tmp_path: Path):
    """Valkey would fail with a truncated name; we say what to change."""
    own = settings_in(tmp_path / ("x" * 100))
    with pytest.raises(StartupError, match="too long a path"):
        await EmbeddedValkey(own).start()


def test_a_home_that_cannot_be_made_is_one_clear_line(home: Path):
    """A file where the folder should be."""
    (home / "file").write_text("")
    with pytest.raises(StartupError, match="cannot use PARLEY_HOME"):
        ensure_home(settings_in(home / "file"))


def test_an_unreadable_home_is_one_clear_line():
    """Root tries it as another user, because root may read everything."""
    with short_folder("closed") as folder:
        folder.chmod(0o000)
        with unprivileged(), pytest.raises(StartupError, match=r"PARLEY_HOME .*: Permission denied"):
            ensure_home(settings_in(folder))


@contextmanager
def unprivileged() -> Generator[None]:
    """Without root's right to read everything."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
