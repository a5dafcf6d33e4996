"""`parley up` on a home whose database is gone."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from admin.home_traces import require_its_database, traces_in
from admin.own_pool import WantedPool
from admin.up import PlatformStart
from chaos.installation import postgres
from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.sql.database import migrate
from tests.support.home import settings_in

TRACES: dict[str, Callable[[Path], object]] = {
    "up.json": lambda home: (home / "up.json").write_text("{}"),
    "redis/": lambda home: _written(home / "redis" / "appendonlydir" / "appendonly.aof.1.incr.aof"),
    "ends/": lambda home: _written(home / "ends" / "default~w1~1.ends"),
}


def _written(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 5_000)


@pytest.mark.parametrize("trace", TRACES)
async def test_a_home_whose_database_is_gone_is_refused(home: Path, trace: str):
    """It would begin as an empty platform. Home, database, what to do and how to begin anew are named, and
    nothing is made."""
    TRACES[trace](home)
    with pytest.raises(StartupError) as refused:
        await PlatformStart(settings_in(home), WantedPool("model", True, 1), as_json=True).run(
            asyncio.Event()
        )
    for words in (str(home), trace, f"{home}/parley.db", "parley restore", "--new-database"):
        assert words in str(refused.value)
    assert not [name for name in os.listdir(home) if name.startswith("parley.db")]


@pytest.mark.postgres
async def test_a_database_of_another_name_is_refused(home: Path, postgres_folder: Path):
    """Without tables, as one whose name was mistyped and that somebody made; one with them is not."""
    (home / "up.json").write_text("{}")
    name = f"gone_{home.name[-8:].lower()}"
    await postgres.execute(postgres_folder, f'CREATE DATABASE "{name}"')
    try:
        settings = settings_in(home, database_url=postgres.url(postgres_folder, name))
        with pytest.raises(StartupError, match=f"{name}.* has no tables"):
            await require_its_database(settings)
        await migrate(settings.database_endpoint)
        await require_its_database(settings)
    finally:
        await postgres.execute(postgres_folder, f'DROP DATABASE "{name}" WITH (FORCE)')


async def test_a_first_start_is_no_loss(home: Path):
    """Nor one that ended before it made the database: the secret, models and an empty Valkey were there;
    nor a later start of a home with its database."""
    settings = settings_in(home)
    await require_its_database(settings)
    ensure_home(settings)
    (home / "secret").write_text("a secret of thirty-two bytes or more")
    valkey = EmbeddedValkey(Settings.model_validate({"home": home}))
    await valkey.start()
    await valkey.stop()
    assert traces_in(home) == []
    await require_its_database(settings)
    await migrate(settings.database_endpoint)
    (home / "up.json").write_text("{}")
    await require_its_database(settings)
    shutil.rmtree(home)
    await require_its_database(settings)
