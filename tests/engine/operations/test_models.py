"""Versions of models: using another one, going back, removing what nobody needs; what is refused says why."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from billing.api import PLATFORM, local_actor
from billing.audit.log import list_rows
from billing.pools import PoolRow, create_pool, read_pools, switch_version
from billing.tables.pools import FleetNode, PoolState
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.clock import iso_time, now_ms
from core.errors import Refused
from core.sql.database import Database
from engine.models.registry import ModelRecord, save
from engine.node.model_memory import MachineMemory
from engine.operations import model_use, models
from engine.operations.model_facts import VersionState
from engine.operations.model_use import ChangeVersion, UseVersion, VersionsChanged
from engine.operations.models import LimitAnswers, ListModels, RemoveVersion, ShowModel
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.engine.builders import Pool, request, request_input
from tests.support.redis import Redis

ME = local_actor()
FILES = {"model.safetensors": "w", "tokenizer.json": "t", "chat_template.jinja": "c"}
FAR_MS = 4_000_000_000_000
MIB = 1 << 20
VERSION = ("version", "workers", "ready", "requests", "until_ms")


async def add(db: Database, version: str, folder: Path = Path("/none"), **manifest: Any) -> ModelRecord:
    """A version of m, newer than those before."""
    record = ModelRecord("m", version, f"print-{manifest.pop('print', version)}", folder, 4096)
    facts: dict[str, Any] = {"sha256": FILES, "source": f"owner/m@{version}", "bytes": {}, **manifest}
    await save(db, record, facts, now_ms())
    return record


@pytest.fixture(autouse=True)
async def _versions(stores: Stores) -> None:  # pyright: ignore[reportUnusedFunction]
    """v1, v2 with another tokenizer, and v3, which is v1 by another name."""
    await add(stores.db, "v1")
    await add(stores.db, "v2", sha256=FILES | {"tokenizer.json": "other"})
    await add(stores.db, "v3", print="v1")


async def pool(stores: Stores, name: str = "a", **columns: Any) -> None:
    """A pool of two workers in version v1."""
    facts: dict[str, Any] = {"model": "m", "version": "v1", "workers": 2, "labels": {}, "made_ms": 1}
    await create_pool(stores.db, PoolRow(pool=name, **(facts | columns)))


async def use(stores: Stores, version: str, dry_run: bool = False, **asked: Any) -> VersionsChanged:
    """Use a version."""
    ask = UseVersion(model="m", version=version, **asked)
    return await answer_of(model_use.use, stores, ME, ask, Terms(dry_run=dry_run))


async def back(stores: Stores, **asked: Any) -> VersionsChanged:
    """Go back."""
    return await answer_of(model_use.rollback, stores, ME, ChangeVersion(model="m", **asked))


async def switched(stores: Stores, name: str = "a") -> None:
    """As the controller does it once workers are ready."""
    row = next(each for each in await read_pools(stores.db) if each.pool == name)
    assert await switch_version(stores.db, name, row.generation, row.next_version) is not None


async def fleet(
    stores: Stores, *, room: int, running: int, node: str = "elsewhere", versions: Sequence[Any] = ()
) -> None:
    """A fleet of one machine, as its controller saw it last."""
    seen: dict[str, Any] = {"controller": "c", "observed_ms": now_ms()}
    step: dict[str, Any] = {"as_desired": True, "step": "keep", "why": "", "since_ms": 1, "elsewhere": 0}
    counts = {"generation": 1, "workers": 1, "running": running, "ready": running}
    async with stores.db.transaction() as session:
        session.add(FleetNode(node=node, room=room, labels={}, **seen))
        told: list[dict[str, Any]] = [dict(zip(VERSION, each, strict=True)) for each in versions]
        session.add(PoolState(pool="a", node=node, versions=told, **counts, **step, **seen))


async def test_a_version_is_made_ready_in_all_pools_that_serve_the_model(stores: Stores):
    """A dry run says it of each: how many workers, in what the versions differ, when the old one ends."""
    await pool(stores)
    await pool(stores, "b", state="draining", version="v2")
    dry = await use(stores, "v2", dry_run=True, cut_off="30m")
    assert await use(stores, "v2", cut_off="30m") == dry
    (seen,) = dry.pools
    assert (seen.pool, seen.before, seen.version, seen.next, seen.workers) == ("a", "v1", "v1", "v2", 2)
    assert (seen.differs, seen.cut_off_seconds) == (["tokenizer"], 1_800)
    assert "no fleet runs" in seen.note
    states = {each.version: each.state for each in await listed(stores)}
    assert states == {"v1": VersionState.IN_USE, "v2": VersionState.IN_USE, "v3": VersionState.PREPARED}
    rows = await list_rows(stores.db, PLATFORM)
    assert (rows[0].action, rows[0].target) == ("pool.use", "a")


async def listed(stores: Stores, **asked: Any) -> list[models.ModelFacts]:
    """All versions."""
    return (await answer_of(models.list_versions_of, stores, ME, ListModels(**asked))).items


async def test_a_pool_goes_back_to_the_version_before(stores: Stores):
    """After a switch to the one before; before it nobody was served, and what is under way is given up."""
    await pool(stores)
    with pytest.raises(Refused, match="a had no other version of m before"):
        await back(stores)
    await use(stores, "v2")
    (given_up,) = (await back(stores)).pools
    assert (given_up.version, given_up.next) == ("v1", None)
    assert given_up.note == "v2, which was under way, is given up"
    await use(stores, "v2")
    await switched(stores)
    (again,) = (await back(stores, pool="a")).pools
    assert (again.version, again.next) == ("v2", "v1")
    await switched(stores)
    (row,) = await read_pools(stores.db)
    assert (row.version, row.earlier_version) == ("v1", "v2")
    actions = [each.action for each in await list_rows(stores.db, PLATFORM)]
    assert actions[:2] == ["pool.switch", "pool.use"]


async def test_another_wish_replaces_the_one_under_way(stores: Stores):
    """In clear words; the version in use gives it up, and once more changes nothing."""
    await pool(stores)
    await use(stores, "v2")
    await add(stores.db, "v4")
    (replaced,) = (await use(stores, "v4")).pools
    assert replaced.next == "v4"
    assert replaced.note.startswith("v2, which was under way, is given up")
    assert (await use(stores, "v1")).pools[0].note == "v4, which was under way, is given up"
    assert (await use(stores, "v1")).pools[0].note == "it is in use already"


async def test_of_two_wishes_at_once_the_later_replaces_the_other(stores: Stores):
    """Neither is lost without a word: who came later is told what they replaced."""
    await pool(stores)
    await add(stores.db, "v4")
    both = await asyncio.gather(use(stores, "v2"), use(stores, "v4"))
    (row,) = await read_pools(stores.db)
    (first,) = [each.pools[0].next for each in both if "given up" not in each.pools[0].note]
    (later,) = [each.pools[0] for each in both if "given up" in each.pools[0].note]
    assert (row.next_version, {first, later.next}) == (later.next, {"v2", "v4"})
    assert later.note.startswith(f"{first}, which was under way, is given up")


@pytest.mark.parametrize(("workers", "version"), [(0, "v2"), (2, "v3")])
async def test_what_needs_no_making_ready_is_used_at_once(stores: Stores, workers: int, version: str):
    """A pool without workers, and a version that is the same by its fingerprint."""
    await pool(stores, workers=workers)
    (seen,) = (await use(stores, version)).pools
    assert (seen.before, seen.version, seen.next, seen.note) == ("v1", version, None, "")


async def test_a_pool_with_one_place_asks_for_a_gap(stores: Stores):
    """Where there is no room for a worker of both: it says what that means, and takes it when told to. With
    room, or where nobody knows, it is not asked."""
    await pool(stores, workers=1)
    assert (await use(stores, "v2", dry_run=True)).pools[0].next == "v2"
    await fleet(stores, room=1, running=1)
    with pytest.raises(Refused, match=r"with v2 nobody would serve until .*--accept-gap") as refused:
        await use(stores, "v2")
    assert refused.value.refusal.field == "accept_gap"
    (seen,) = (await use(stores, "v2", accept_gap=True)).pools
    assert seen.accept_gap
    assert (await read_pools(stores.db))[0].accept_gap


async def test_room_for_one_more_worker_needs_no_gap(stores: Stores):
    """The one in use serves until the other is ready."""
    await pool(stores, workers=1)
    await fleet(stores, room=2, running=1)
    assert (await use(stores, "v2")).pools[0].note == ""


async def test_a_version_that_does_not_fit_the_memory_is_refused(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
):
    """By its weights, where the fleet's machine is this one; of another nobody knows here."""
    monkeypatch.setattr(model_use, "machine_memory", lambda: MachineMemory(8_000, 8_000, gpu=False))
    await add(stores.db, "huge", bytes={"model.safetensors": 9_000 * MIB})
    await pool(stores)
    with pytest.raises(Refused, match=r"m huge does not fit: a worker needs about 1\d,\d+ MiB .* 8,000 MiB"):
        await use(stores, "huge")
    await fleet(stores, room=4, running=2)
    assert (await use(stores, "huge")).pools[0].next == "huge"


@pytest.mark.parametrize(
    ("asked", "field", "told"),
    [
        ({"version": "v9"}, "version", "m has no version 'v9', but v1, v2, v3"),
        ({"version": "v2", "pool": "b"}, "pool", "no pool 'b' serves m"),
        ({"version": "v2", "cut_off": "soon"}, "cut_off", "'soon' is no time: as 30m"),
        ({"version": "v2", "cut_off": "8d"}, "cut_off", "at most 7 days"),
        ({"version": "v2", "model": "n"}, "model", "there is no model 'n'"),
    ],
)
async def test_what_cannot_be_used_names_its_field(
    stores: Stores, asked: dict[str, Any], field: str, told: str
):
    """And nothing is changed."""
    await pool(stores)
    with pytest.raises(Refused) as refused:
        await answer_of(model_use.use, stores, ME, msgspec.convert({"model": "m", **asked}, UseVersion))
    assert (refused.value.refusal.field, told in refused.value.refusal.message) == (field, True)
    assert (await read_pools(stores.db))[0].generation == 1


async def test_a_removed_version_cannot_be_gone_back_to(stores: Stores):
    """It says how it comes back. Its removal had to give the way back up."""
    await pool(stores)
    await use(stores, "v2")
    await switched(stores)
    with pytest.raises(Refused, match=r"m v1 stays: a could go back to it \(--give-up-rollback"):
        await remove(stores, "v1")
    await remove(stores, "v1", give_up_rollback=True)
    told = r"m v1 was removed at .*: add it again \(`parley models add owner/m@v1`\)"
    with pytest.raises(Refused, match=told):
        await back(stores)
    assert [each.version for each in await listed(stores)] == ["v2", "v3"]
    assert next(each.state for each in await listed(stores, removed=True)) is VersionState.REMOVED
    await add(stores.db, "v1")
    assert (await back(stores)).pools[0].next == "v1"


async def remove(stores: Stores, version: str, **asked: Any) -> models.ModelFacts:
    """Remove a version."""
    return await answer_of(models.remove, stores, ME, RemoveVersion(model="m", version=version, **asked))


async def test_what_is_used_wanted_or_pinned_stays(stores: Stores, redis: Redis):
    """All reasons at once, with how many requests began on it."""
    await pool(stores)
    await pool(stores, "b", state="draining", next_version="v1", version="v2")
    line = Pool(redis, stores.settings, "a", clock=None)  # pyright: ignore[reportArgumentType]
    for _ in range(3):
        pinned = request_input(fingerprint="print-v1", deadline_ms=FAR_MS)
        await line.queue.enqueue(request(fingerprint="print-v1", deadline_ms=FAR_MS, input=pinned))
    with pytest.raises(Refused) as refused:
        await remove(stores, "v1")
    assert refused.value.refusal.message == (
        "m v1 stays: a uses it; b switches to it; 3 requests of a began on it"
    )
    with pytest.raises(Refused, match="m has no version 'v9'"):
        await remove(stores, "v9")


async def test_a_removed_version_loses_its_files_and_cannot_be_named(stores: Stores):
    """The folder below this machine's home; what it links to stays, and any other folder."""
    models_folder, linked = stores.settings.home / "models", stores.settings.home / "mine"
    linked.mkdir(parents=True)
    (linked / "weights").write_text("w")
    for version in ("x", "y"):
        folder = models_folder / "m" / version
        folder.mkdir(parents=True)
        (folder / "weights").symlink_to(linked / "weights")
        await add(stores.db, version, folder if version == "x" else linked)
        await remove(stores, version)
    assert [each.name for each in (models_folder / "m").iterdir()] == ["y"]
    assert (linked / "weights").read_text() == "w"
    with pytest.raises(Refused, match="m x was removed at"):
        await remove(stores, "x")
    assert next(row.action for row in await list_rows(stores.db, PLATFORM)) == "model.remove"


async def test_a_version_says_whether_it_is_proved(stores: Stores):
    """By its check, by workers that serve, or not yet. `show` takes the one in use where none is named."""
    await pool(stores, version="v2")
    shown = await answer_of(models.show_version, stores, ME, ShowModel(model="m"))
    assert (shown.version, shown.proved) == ("v2", "not yet: the first worker proves it")
    assert (shown.source, shown.files["tokenizer.json"]) == ("owner/m@v2", "other")
    await fleet(stores, room=2, running=2)
    shown = await answer_of(models.show_version, stores, ME, ShowModel(model="m", version="v2"))
    assert shown.proved == "by workers that serve in a"
    with pytest.raises(Refused, match="no version 'v9'"):
        await answer_of(models.show_version, stores, ME, ShowModel(model="m", version="v9"))


async def test_a_version_says_what_is_under_way(stores: Stores):
    """In each pool: how many workers of it are ready of those desired, and what needs it until when."""
    await pool(stores, version="v2", next_version="v4", earlier_version="v1")
    await add(stores.db, "v4")
    await fleet(stores, room=4, running=3, versions=[("v2", 2, 2, 0, 0), ("v1", 1, 1, 3, 60_000)])
    seen = {each.version: each.seen for each in await listed(stores)}
    assert [(each.pool, each.ready, each.desired, each.requests) for each in seen["v2"]] == [("a", 2, 2, 0)]
    assert [(each.workers, each.requests, each.until) for each in seen["v1"]] == [(1, 3, iso_time(60_000))]
    assert [(each.ready, each.desired, each.until) for each in seen["v4"]] == [(0, 2, None)]
    assert seen["v3"] == []


async def test_the_length_of_answers_is_of_all_versions(stores: Stores):
    """Also of one that is added later."""
    limited = await answer_of(models.limit_answers_of, stores, ME, LimitAnswers(model="m", tokens=9))
    assert (limited.tokens, limited.before) == (9, None)
    await add(stores.db, "v4")
    assert {each.answer_tokens for each in await listed(stores)} == {9}
    with pytest.raises(Refused, match="there is no model 'n'"):
        await answer_of(models.limit_answers_of, stores, ME, LimitAnswers(model="n", tokens=9))
