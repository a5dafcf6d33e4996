"""A restore: money is asked for again, what ended after the backup is billed once, and the rest is named."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admin.backup import manifest
from admin.backup import restore as restore_room
from admin.backup.manifest import encode_manifest, read_manifest
from admin.backup.restore import restore
from admin.backup.restore_checks import is_empty
from admin.backup.restore_mark import read_mark
from admin.backup.restore_report import lines_of
from billing.audit.log import list_rows
from billing.audit_heads.heads import Chain, ChainHead, line_of
from billing.audit_heads.restores import RESTORED
from billing.audit_heads.store_heads import current_heads
from billing.posting.biller import Biller
from billing.posting.usage_stream import active_consumers
from billing.quota.redis_keys import posted_key
from billing.quota.types import Admitted
from billing.tables.tenants import PLATFORM
from billing.tenants.tenancy import create_tenant
from billing.usage import ENDED_FIELD, ended_stream
from chaos.tampering.unguarded import tamper
from core.configuration.settings import Settings
from core.errors import StartupError
from core.files import file_lock
from core.redis.pools import announce_pool
from core.web.local_urls import UP_LOCK
from engine.journal.files import taken
from engine.queue.client import PoolQueue
from engine.queue.journaled_ends import JournaledEnd
from tests.admin.backup.drills import POOL, Drill, databases, drill
from tests.support.home import TEST_SECRET, settings_in
from tests.support.patience import wait_until

__all__ = ["databases", "drill"]


async def used(drill: Drill, tmp_path: Path) -> Path:
    """A backup, and what went on after it: r3, r4 and r5 are billed, and of r4 only a journal has the event
    now, of r5 nothing; r6 waits in the stream, and so does something that is no event."""
    for id in ("r1", "r2"):
        await drill.ends(id)
    await drill.bill()
    source = await drill.back_up(tmp_path / "backup")
    journaled = await drill.ends("r4")
    await drill.ends("r5")
    await drill.bill()
    await drill.trim()
    drill.journal(journaled)
    await drill.ends("r3")
    await drill.bill()
    await drill.ends("r6")
    await drill.redis.xadd(ended_stream(POOL), {ENDED_FIELD: b"no event"})
    assert await drill.billed() == {"r1", "r2", "r3", "r4", "r5"}
    return source


async def test_what_was_wrong_in_the_books_is_told_and_restored_as_it_is(
    drill: Drill, tmp_path: Path
) -> None:
    """Of what only the chain shows too: the sums in Redis follow the books, and both proofs find it."""
    await drill.ends("r1")
    await drill.bill()
    await tamper(drill.database, "UPDATE ledger_txn SET posted_ms = posted_ms + 1 WHERE kind = 'usage'")
    source = await drill.back_up(tmp_path / "backup")
    await drill.lose_database()
    report = await drill.restore(source)
    assert not report.whole
    assert any("its hash is not that of its rows" in fault for _, fault in report.faults), report.faults
    assert [each.split()[0] for each in report.differences] == ["R7"], report.differences
    assert isinstance(await drill.ask("new"), Admitted)


async def test_with_a_redis_that_survived(drill: Drill, tmp_path: Path) -> None:
    """Its counts are beyond the restored books, which refused everybody for good; what it and the journals
    have is billed once; what only its counts know is named, and what is held."""
    source = await used(drill, tmp_path)
    open_before = await drill.ask("open")
    assert isinstance(open_before, Admitted)
    await drill.lose_database()
    report = await drill.restore(source)
    assert await drill.billed() == {"r1", "r2", "r3", "r4", "r6"}
    assert (report.billed, report.replayed, report.redis_survived) == (3, 1, True)
    assert [(each.tenant, each.held, each.lost) for each in report.in_no_book] == [
        ("", 1, 0),
        (drill.tenant, 0, 1),
    ]
    assert report.whole, (report.faults, report.differences)
    assert isinstance(await drill.ask("new"), Admitted)
    await drill.ends("r7")
    await drill.bill()
    assert await drill.billed() >= {"r7"}
    assert await drill.differing() == []


async def test_with_a_redis_that_lost_everything(drill: Drill, tmp_path: Path) -> None:
    """Journals are all that there is, of the backup and of the home; that Redis knew nothing is said."""
    source = await used(drill, tmp_path)
    await drill.lose_database()
    await drill.redis.flushall()
    report = await drill.restore(source)
    assert await drill.billed() == {"r1", "r2", "r4"}
    assert (report.billed, report.replayed, report.redis_survived) == (1, 1, False)
    assert report.in_no_book == []
    assert report.whole, (report.faults, report.differences)
    assert isinstance(await drill.ask("new"), Admitted)
    assert await drill.differing() == []


async def test_what_was_rolled_back_is_recorded(drill: Drill, tmp_path: Path) -> None:
    """Heads that were kept after the backup are beyond the restored chains: verify knows that from the audit
    log, and says so."""
    source = await used(drill, tmp_path)
    heads = tmp_path / "heads"
    lines = [line_of(head) async for page in current_heads(drill.database, drill.settings) for head in page]
    heads.write_text("\n".join(lines) + "\n")
    await drill.lose_database()
    report = await drill.restore(source, heads)
    assert report.rolled_back == 1  # the tenant's books: nobody changed anything
    assert report.whole, (report.faults, report.differences)
    recorded = [row for row in await list_rows(drill.database, PLATFORM, 0, 10) if row.action == RESTORED]
    assert [report.backup_sha256 in row.after for row in recorded] == [True]


async def test_a_tenant_that_the_backup_lacks_is_named(drill: Drill, tmp_path: Path) -> None:
    """Its requests are billed to it all the same: nothing that ended is dropped."""
    source = await drill.back_up(tmp_path / "backup")
    other = (await create_tenant(drill.database, "later")).tenant_id
    await drill.ends("r1", other)
    await drill.bill()
    await drill.lose_database()
    report = await drill.restore(source)
    assert report.strangers == {other: 1}
    assert await drill.billed(other) == {"r1"}
    assert report.in_no_book == []


async def test_what_such_a_tenant_lost_is_told(drill: Drill, tmp_path: Path) -> None:
    """Redis had counted it: how much, of whom, what it cost, as of every other tenant; R5 differs for it,
    which is told as a consequence, and no fault."""
    source = await drill.back_up(tmp_path / "backup")
    other = (await create_tenant(drill.database, "later")).tenant_id
    for tenant in (other, drill.tenant):
        await drill.ends(f"of-{tenant}", tenant)
    await drill.counts_ends(2)
    await drill.bill()
    await drill.trim()
    await drill.lose_database()
    report = await drill.restore(source)
    told = {each.tenant: (each.lost, each.stranger) for each in report.in_no_book}
    assert told == {other: (1, True), drill.tenant: (1, False)}
    assert len({each.lost_nano for each in report.in_no_book} - {0}) == 1
    assert (report.whole, len(report.following)) == (True, 2), (report.differences, report.following)
    text = "\n".join(lines_of(report))
    assert f"in no book, of {other}, a tenant that the backup does not have: 1 lost, which cost $" in text
    assert "parley up" in text.splitlines()[-1]


async def test_more_missing_than_is_told_is_a_difference(drill: Drill, tmp_path: Path) -> None:
    """Processes ended three requests, and two are told: nobody says that the third follows from it."""
    source = await drill.back_up(tmp_path / "backup")
    for id in ("r1", "r2"):
        await drill.ends(id)
    await drill.counts_ends(3)
    await drill.bill()
    await drill.trim()
    await drill.lose_database()
    report = await drill.restore(source)
    assert [each.lost for each in report.in_no_book] == [2]
    assert not report.whole
    assert report.following == []
    assert {each.split()[0] for each in report.differences} == {"R5"}


async def test_tenants_of_another_installation_are_not_ours(drill: Drill, tmp_path: Path) -> None:
    """In a Redis that several use nothing says whose a tenant is: that is told, and nobody is named."""
    source = await drill.back_up(tmp_path / "backup")
    other = settings_in(drill.settings.home, installation="other")
    await announce_pool(drill.redis, other, POOL)
    stranger = (await create_tenant(drill.database, "of-the-other")).tenant_id
    await drill.ends("r1", stranger)
    await drill.bill()
    await drill.trim()
    await drill.lose_database()
    report = await drill.restore(source)
    assert (report.in_no_book, report.redis_shared, report.whole) == ([], True, True)
    assert any("other installations" in line for line in lines_of(report))


async def test_planted_keys_stop_no_restore(drill: Drill, tmp_path: Path) -> None:
    """A worker that was taken over writes keys of any tenant: what is no sum is passed over, and one of
    a tenant that there is made anew."""
    source = await drill.back_up(tmp_path / "backup")
    await drill.lose_database()
    for tenant in ("text", drill.tenant):
        await drill.redis.set(posted_key(tenant), "no hash")
    await drill.redis.hset("{t:odd}posted", "requests", "nan")  # pyright: ignore
    await drill.redis.hset(b"{t:\xff\xfe}posted", "requests", "7")  # pyright: ignore
    report = await drill.restore(source)
    assert (report.whole, report.in_no_book) == (True, [])
    assert isinstance(await drill.ask("new"), Admitted)


async def test_a_file_without_heads_is_refused(drill: Drill, tmp_path: Path) -> None:
    """Garbage, nothing, or heads of another installation: before anything is written."""
    source = await drill.back_up(tmp_path / "backup")
    await drill.lose_database()
    file, sha256 = tmp_path / "heads", "0" * 64
    foreign = line_of(ChainHead("2026-01-01T00:00:00Z", "other", Chain.BOOKS, drill.tenant, 1, sha256))
    for content, why in (
        ("nonsense\n", "no audit head"),
        ("", "no audit head"),
        (foreign, "only of 'other'"),
    ):
        file.write_text(content)
        with pytest.raises(StartupError, match=why):
            await drill.restore(source, file)
    assert await is_empty(drill.restoring)
    assert read_mark(drill.settings.home) is None


STEPS = ["_place", "forget_lost_counts", "replay_journals", "_repair", "record_restore", "_checked"]


async def dies_after(drill: Drill, source: Path, step: str) -> None:
    """A restore that is killed once this step is done, and not written down."""
    does = getattr(restore_room, step)

    async def dies(*arguments: Any) -> None:
        await does(*arguments)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restore_room, step, dies)
        await drill.restore(source)


async def test_one_that_was_killed_is_said_again(drill: Drill, tmp_path: Path) -> None:
    """Wherever it was, again and again, with the same result; another backup is refused meanwhile."""
    source = await used(drill, tmp_path)
    other = await drill.back_up(tmp_path / "other")
    await drill.lose_database()
    for step in STEPS:
        with pytest.raises(KeyboardInterrupt):
            await dies_after(drill, source, step)
        assert read_mark(drill.settings.home) is not None, step
    with pytest.raises(StartupError, match="another backup"):
        await drill.restore(other)
    report = await drill.restore(source)
    assert await drill.billed() == {"r1", "r2", "r3", "r4", "r6"}
    named = [(each.tenant, each.held, each.lost) for each in report.in_no_book]
    assert named == [("", 1, 0), (drill.tenant, 0, 1)]
    assert report.whole, (report.faults, report.differences)
    assert read_mark(drill.settings.home) is None
    recorded = [row for row in await list_rows(drill.database, PLATFORM, 0, 10) if row.action == RESTORED]
    assert len(recorded) == 2  # the first died before it was written down that there is one


async def test_a_place_that_is_not_empty_is_refused(drill: Drill, tmp_path: Path) -> None:
    """What to do is said. After a restore, said again, that it is done; nothing there is changed."""
    source = await drill.back_up(tmp_path / "backup")
    todo = "with parley.db-wal" if drill.postgres_folder is None else "without tables"
    with pytest.raises(StartupError, match=f"is not empty, and .*{todo}"):
        await restore(source, drill.settings, [], lambda line: None)
    await drill.lose_database()
    await drill.restore(source)
    with pytest.raises(StartupError, match="this backup was restored into it already"):
        await drill.restore(source)
    assert isinstance(await drill.ask("new"), Admitted)


def damaged(source: Path, **changes: Any) -> Path:
    """The backup with another manifest."""
    made = read_manifest(source)
    database = msgspec.structs.replace(made.database, **changes.pop("database", {}))
    made = msgspec.structs.replace(made, database=database, **changes)
    (source / manifest.FILE).write_bytes(encode_manifest(made))
    return source


async def test_what_does_not_fit_is_refused(drill: Drill, tmp_path: Path) -> None:
    """Before anything is written: the place is as empty as it was."""
    source = await drill.back_up(tmp_path / "backup")
    await drill.lose_database()
    made = read_manifest(source)
    other = "postgresql" if made.database.kind == "sqlite" else "sqlite"
    for changes, why in (
        ({"database": {"schema": "p9999"}}, "p9999 is of a newer release"),
        ({"database": {"kind": other}}, f"the backup is of {other}"),
        ({"installation": "another"}, "PARLEY_INSTALLATION"),
    ):
        with pytest.raises(StartupError, match=why):
            await drill.restore(damaged(source, **changes))
        (source / manifest.FILE).write_bytes(encode_manifest(made))
    with (source / made.database.file).open("ab") as file:
        file.write(b"x")
    with pytest.raises(StartupError, match=f"is damaged: {made.database.file}"):
        await drill.restore(source)
    assert await is_empty(drill.restoring)
    assert read_mark(drill.settings.home) is None
    nowhere = drill.settings.home.with_name(f"{drill.settings.home.name}-typo")
    with pytest.raises(StartupError, match="is damaged"):
        await restore(source, settings_in(nowhere, **drill.given), [], lambda line: None)
    assert not await asyncio.to_thread(nowhere.exists)


async def test_another_secret_is_refused(drill: Drill, tmp_path: Path) -> None:
    """In the settings or in the home: what ended could not be billed under it. Without one the backup's is
    put there."""
    source = await drill.back_up(tmp_path / "backup")
    await drill.lose_database()
    home = drill.settings.home
    given = drill.restoring.model_dump(exclude_none=True)
    for where, secret in (("PARLEY_SECRET", "another secret of thirty-two bytes!"), (str(home), None)):
        (home / "secret").write_text("yet another secret of 32 bytes or more")
        settings = Settings.model_validate({**given, "secret": secret} if secret else without_secret(given))
        with pytest.raises(StartupError, match=f"{where}.* is another secret"):
            await restore(source, settings, [], lambda line: None)
    (home / "secret").unlink()
    settings = Settings.model_validate(without_secret(given))
    assert (await restore(source, settings, [], lambda line: None)).whole
    assert (home / "secret").read_text() == TEST_SECRET
    assert (home / "secret").stat().st_mode & 0o077 == 0


def without_secret(given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a home that has its own."""
    return {name: value for name, value in given.items() if name != "secret"}


async def test_what_still_runs_is_named(drill: Drill, tmp_path: Path) -> None:
    """`parley up`, a process that writes a journal, workers and gateways with a lease, and a biller."""
    source = await drill.back_up(tmp_path / "backup")
    await drill.lose_database()
    settings, home = drill.settings, drill.settings.home
    lock = file_lock.acquire(home / UP_LOCK, 1)
    assert lock is not None
    with pytest.raises(StartupError, match="`parley up`"):
        await drill.restore(source)
    os.close(lock)
    path = drill.journal(JournaledEnd(drill.tenant, "r", "1.0", "1-1", b"event"))
    with taken(path), pytest.raises(StartupError, match=f"still writes {path}"):
        await drill.restore(source)
    path.unlink()
    queue = PoolQueue(drill.redis, POOL, settings)
    await queue.register("w1", "f1", {})
    await queue.renew_gateway("g1")
    with pytest.raises(StartupError, match=r"worker w1 \(pool default\), gateway g1"):
        await drill.restore(source)
    await drill.redis.delete(f"{{p:{POOL}}}workers", f"{{p:{POOL}}}gws")
    stop = asyncio.Event()
    biller = Biller(drill.database, drill.redis, settings, [POOL])
    running = asyncio.create_task(biller.run(stop))

    async def asked() -> bool:
        return bool(await active_consumers(drill.redis, POOL, 1_000))

    await wait_until(asked)
    try:
        with pytest.raises(StartupError, match=r"biller .* \(pool default\)"):
            await drill.restore(source)
    finally:
        stop.set()
        await running
    assert read_mark(home) is None
