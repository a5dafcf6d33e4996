"""The pool of `parley up`: filled once, and then left as it is."""

from dataclasses import replace
from pathlib import Path

import pytest

from admin import own_pool
from admin.own_pool import PoolReasons, WantedPool, differences, ready_pool
from billing.dedicated_pools.owners import owner_of
from billing.dedicated_pools.pools import create_pool
from billing.pools import DesiredPool, drain_pool, edit_pool, read_pools
from billing.tables.dedicated_pools import PoolOwner
from billing.tables.pools import PoolRow
from billing.tenants.tenancy import create_tenant
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database
from engine.api import prepare_model, register_model
from tests.support.models import small_model

PLAIN = WantedPool("smollm2", model_named=False, workers=None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model that a person has in a folder."""
    return small_model(tmp_path / "tiny")


class Start:
    """Starts of `parley up` on one home."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self.db, self.settings = db, settings

    async def said(self, asked: WantedPool) -> list[str]:
        """What a start says beside its progress."""
        lines = list[str]()
        record = await ready_pool(self.db, self.settings, asked, lines.append)
        (target,) = await read_pools(self.db)
        assert record.name == target.model
        return [line for line in lines if "pool" in line]

    async def pool(self) -> tuple[str, int, int]:
        """Model, workers and generation of the pool."""
        (target,) = await read_pools(self.db)
        return target.model, target.workers, target.generation


@pytest.fixture
def up(sqlite: Database, settings: Settings) -> Start:
    """On a home without a pool."""
    return Start(sqlite, settings)


async def test_a_pool_without_a_row_is_filled_once(up: Start, folder: Path):
    """Later starts change nothing, whatever they ask for; each difference is one line with its command."""
    named = WantedPool(str(folder), model_named=True, workers=2)
    assert await up.said(named) == []
    assert await up.pool() == ("tiny", 2, 1)
    assert await up.said(named) == []
    assert await up.said(PLAIN) == []
    other = small_model(folder.parent / "other")
    assert await up.said(WantedPool(str(other), model_named=True, workers=3)) == [
        f"pool default runs tiny, not other: to change it parley models add {other}, then parley pools edit "
        "default --model other",
        "pool default has 2 workers, not 3: to change it parley pools resize default 3",
    ]
    assert await up.pool() == ("tiny", 2, 1)
    with pytest.raises(StartupError, match="there is no model 'nonsense'"):
        await up.said(WantedPool("nonsense", model_named=True, workers=None))


async def test_a_newer_version_is_told_and_not_run(up: Start, folder: Path):
    """`models add` changes no pool's row; who wants the newer version edits the pool."""
    named = WantedPool(str(folder), model_named=True, workers=None)
    await up.said(named)
    (before,) = await read_pools(up.db)
    (folder / "model.safetensors").write_bytes(b"other weights")
    ((told),) = await up.said(named)
    assert f"pool default runs tiny {before.version}; there is " in told
    newer = await register_model(
        up.db, await prepare_model(str(folder), up.settings.home, lambda _: None), up.settings
    )
    assert await read_pools(up.db) == [before]
    assert (await ready_pool(up.db, up.settings, named, lambda _: None)).version == before.version
    await edit_pool(up.db, "default", {"version": newer.version})
    assert await up.said(named) == []


async def test_a_dedicated_pool_stays_its_tenants(up: Start, folder: Path):
    """A home from before pools had rows: the row has the owner that its history names."""
    tenant = await create_tenant(up.db, "acme")
    async with up.db.transaction() as session:
        session.add(
            PoolOwner(pool="default", from_ms=1, tenant_id=tenant.tenant_id, project_id="p", created_ms=1)
        )
    await up.said(WantedPool(str(folder), model_named=True, workers=None))
    async with up.db.session() as session:
        assert await owner_of(session, "default") == tenant.tenant_id
        row = await session.get(PoolRow, "default")
    assert row is not None
    assert (row.tenant_id, row.project_id) == (tenant.tenant_id, "p")


async def test_another_pool_is_shared_for_the_model(up: Start, folder: Path):
    """Then none is made, which is told; the platform starts all the same."""
    row = PoolRow(pool="big", model="tiny", version="1", workers=1, labels={}, made_ms=1)
    await create_pool(up.db, row)
    ((told),) = await up.said(WantedPool(str(folder), model_named=True, workers=None))
    assert told.startswith("pool default is not made: a shared pool for tiny is there: 'big'")


async def test_files_that_are_gone_are_made_again(up: Start, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """From a backup without models, say. Where only another version can be made, that is told."""
    named = WantedPool(str(folder), model_named=True, workers=None)
    await up.said(named)
    (target,) = await read_pools(up.db)
    made = up.settings.home / "models" / "tiny" / target.version
    made.rename(made.with_name("gone"))
    (made.with_name("gone") / "manifest.json").unlink()

    async def again(name: str, *_: object) -> Path:
        assert name == "tiny"
        (folder / "model.safetensors").write_bytes(b"other weights")
        return await prepare_model(str(folder), up.settings.home, lambda _: None)

    monkeypatch.setattr(own_pool, "prepare_model", again)
    gone = f"the files of tiny {target.version}, which pool default runs, are gone; there is "
    assert (await up.said(PLAIN))[0].startswith(gone)


async def test_a_pool_that_serves_nobody_is_told(up: Start, folder: Path):
    """Nothing waits in silence for workers that nobody wants."""
    await up.said(WantedPool(str(folder), model_named=True, workers=None))
    await edit_pool(up.db, "default", {"workers": 0})
    await drain_pool(up.db, "default")
    assert await up.said(PLAIN) == [
        "pool default is to have no workers: to change it parley pools resize default 1",
        "pool default takes nothing new: to change it parley pools edit default --state active",
    ]


def test_what_nobody_asked_for_is_no_difference():
    """Pure."""
    target = DesiredPool("default", "smollm2", "1", 3, {}, {}, 1, False)
    assert differences(target, PLAIN, ("smollm2", "1"), "parley") == []
    assert differences(target, PLAIN, ("smollm2", None), "parley") == []
    three = replace(PLAIN, workers=3)
    assert differences(target, three, ("smollm2", "1"), "parley") == []


def test_reasons_are_said_as_they_change(settings: Settings):
    """But not that workers start or drain."""
    lines = list[str]()
    reasons = PoolReasons(settings, lines.append)
    for why in (
        "its supervisor is starting",
        "0 of 1 workers are ready",
        "no room",
        "no room",
        "",
        "no room",
    ):
        reasons.see({"a": why})
    assert lines == ["pool a: no room"] * 2
