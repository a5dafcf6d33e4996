"""The model version that a supervisor, its workers and its trials run is their pool's."""

from dataclasses import replace
from pathlib import Path

import pytest

from billing.pools import create_pool, edit_pool
from billing.tables.pools import PoolRow
from core.clock import now_ms
from core.errors import StartupError
from core.sql.database import Database
from engine.models.known import KnownModel, model_of_pool
from engine.models.registry import ModelRecord, save
from tests.support.home import settings_in

RECORD = ModelRecord("tiny", "1", "f1", Path("/m/1"), 4096)


async def test_a_pool_runs_the_version_of_its_row(home: Path, sqlite: Database):
    """A newer one changes no pool, until its row is edited; a pool without a row runs the newest of
    PARLEY_MODEL. A version that is not registered is no reason to run another."""
    settings = settings_in(home, model="tiny", pool="a")
    for at, version in enumerate("12"):
        made = replace(RECORD, version=version, fingerprint=f"f{version}")
        await save(sqlite, made, {}, now_ms() + at)
    known = KnownModel(settings)
    assert (await known.read()).version == "2"
    await create_pool(sqlite, PoolRow(pool="a", model="tiny", version="1", workers=1, labels={}, made_ms=1))
    assert (await known.read()).version == "1"
    other = await model_of_pool(sqlite, settings.model_copy(update={"pool": "b"}))
    assert other is not None
    assert other.version == "2"
    await edit_pool(sqlite, "a", {"version": "2"})
    assert (await known.read()).fingerprint == "f2"
    assert (await known.read("1")).fingerprint == "f1"  # a worker that began with it starts again
    with pytest.raises(StartupError, match="version 7 of the model of pool a"):
        await known.read("7")
    await edit_pool(sqlite, "a", {"version": "3"})
    assert await model_of_pool(sqlite, settings) is None
    with pytest.raises(StartupError, match="pool a"):
        await known.read()
