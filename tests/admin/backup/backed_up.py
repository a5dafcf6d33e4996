"""Backups in tests, and what is in them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from sqlmodel import select

from admin.backup.backup import BackupCall, BackupReport, backup
from admin.backup.manifest import damaged_files, read_manifest
from admin.backup.postgres_tools import find_tools, put_back, server_facts
from billing.tables.tenants import UsageRow
from chaos.installation import postgres
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.api import JournalContents, JournaledEnd, journal_contents


async def backed_up(settings: Settings, target: Path, said: list[str] | None = None) -> BackupReport:
    """A backup with its manifest beside it and no file of it damaged."""
    report = await backup(settings, BackupCall(target), (said if said is not None else []).append)
    if target.suffix != ".tar":
        assert read_manifest(target) == report.manifest
        assert damaged_files(target, report.manifest) == []
    return report


@asynccontextmanager
async def copied_database(
    settings: Settings, folder: Path, postgres_folder: Path
) -> AsyncGenerator[Database]:
    """The database in a backup: the file, or a new database of Postgres that its dump was put into."""
    kind = read_manifest(folder).database
    if kind.kind == "sqlite":
        copy = Database(f"sqlite+aiosqlite:///{folder / kind.file}")
        try:
            yield copy
        finally:
            await copy.close()
        return
    await postgres.execute(postgres_folder, "CREATE DATABASE put_back")
    copy = Database(postgres.url(postgres_folder, "put_back"))
    try:
        tools = find_tools(settings, *await server_facts(copy))
        await put_back(postgres.url(postgres_folder, "put_back"), tools, folder / kind.file)
        yield copy
    finally:
        await copy.close()
        await postgres.execute(postgres_folder, "DROP DATABASE put_back WITH (FORCE)")


async def booked(db: Database) -> set[str]:
    """Requests in its books."""
    async with db.session() as session:
        return set((await session.exec(select(UsageRow.request_id))).all())


def copied_ends(folder: Path) -> list[JournaledEnd]:
    """All ends in a backup's journals."""
    found = [journal_contents(path.read_bytes()) for path in sorted((folder / "ends").glob("*.ends"))]
    return [end for each in found if isinstance(each, JournalContents) for end in each.ends]


def names_of(ends: Sequence[JournaledEnd]) -> set[str]:
    """Their requests."""
    return {end.request for end in ends}
