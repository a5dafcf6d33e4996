"""`parley restore`: what it prints, and its exit code."""

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from admin.backup import manifest
from admin.backup.manifest import (
    CopiedDatabase,
    Manifest,
    NamedModel,
    copied_file,
    encode_manifest,
)
from admin.backup.restore_command import restore_command
from admin.backup.restore_mark import RestoreMark, write_mark
from billing.posting.biller import post
from billing.tenants.tenancy import create_tenant
from billing.usage import encode
from chaos.tampering.unguarded import tamper
from core.sql.database import Database, schema_versions
from tests.billing.events import an_event
from tests.support.home import TEST_SECRET


async def filled(file: Path, *statements: str) -> str:
    """A database with a billed request; the tenant's id."""
    db = Database(f"sqlite+aiosqlite:///{file}")
    tenant = (await create_tenant(db, "acme")).tenant_id
    await post(db, "default", [encode(an_event("r1", tenant))])
    if statements:
        await tamper(db, *statements)
    await db.close()
    return tenant


def a_backup(folder: Path, template: Path, *statements: str, made_from: str = "") -> Path:
    """A backup of it."""
    work, source = folder / "work", folder / "backup"
    work.mkdir()
    source.mkdir()
    shutil.copy(template, work / "parley.db")
    asyncio.run(filled(work / "parley.db", *statements))
    connection = sqlite3.connect(work / "parley.db")
    connection.execute("VACUUM INTO ?", (str(source / manifest.SQLITE_FILE),))
    connection.close()
    (source / manifest.SECRET_FILE).write_text(TEST_SECRET)
    files = [copied_file(source, name) for name in (manifest.SQLITE_FILE, manifest.SECRET_FILE)]
    schema = schema_versions()[0]
    database = CopiedDatabase("sqlite", manifest.SQLITE_FILE, schema, {}, made_from=made_from)
    models = [NamedModel("smollm2", "1", "f1")]
    made = Manifest(1, "0.1.0", "parley", 1_700_000_000_000, database, [], models, [], files)
    (source / manifest.FILE).write_bytes(encode_manifest(made))
    return source


def restored(home: Path, source: Path, *arguments: str) -> Result:
    """The command, with a Valkey of the home's own."""
    return CliRunner().invoke(
        restore_command,
        [str(source), *arguments],
        env={"PARLEY_HOME": str(home), "PARLEY_LOG_LEVEL": "error"},
    )


def test_a_home_is_restored_with_its_own_valkey(home: Path, tmp_path: Path, sqlite_template: Path):
    """What there was, what is not in a backup, and that all is whole; the Valkey ends with the command."""
    source = a_backup(tmp_path, sqlite_template)
    done = restored(home, source)
    assert done.exit_code == 0, (done.output, done.exception)
    for line in (
        "RESTORED: the backup of 2023-11-14 22:13:20 UTC, of 1 tenant",
        f"into the home {home}, and the database sqlite+aiosqlite:///{home}/parley.db",
        "WORDS THAT WERE ERASED AFTER IT ARE BACK",
        "Next: add the models named above that are gone (`parley models add`), then start (`parley up`",
        "0 billed now, 0 already were",
        "in no book: none that Redis or a journal knows of",
        "Redis had no counts of before",
        "not in a backup: the weights of smollm2 1 (f1)",
        "verify: whole (",
        "reconcile: equal (",
    ):
        assert line in done.stdout
    assert "putting the database in place" in done.stderr
    assert (home / "parley.db").stat().st_mode & 0o077 == 0
    assert not (home / "restoring.json").exists()
    again = restored(home, source)
    assert again.exit_code != 0
    assert "is not empty" in str(again.exception)


def test_a_backup_of_another_state_of_the_code_is_not_restored(
    home: Path, tmp_path: Path, sqlite_template: Path
):
    """No process would start with it: it is said before anything is written."""
    refused = restored(home, a_backup(tmp_path, sqlite_template, made_from="x"))
    assert "another version of Parley under development" in str(refused.exception)
    assert not (home / "parley.db").exists()


@pytest.mark.parametrize("begun", [False, True], ids=["before", "in the middle"])
def test_an_interrupted_one_says_how_far_it_is(home: Path, monkeypatch: pytest.MonkeyPatch, begun: bool):
    """Ctrl-C: whether anything was written, and what to say again."""

    async def interrupted(*_: object) -> None:
        if begun:
            write_mark(home, RestoreMark("0" * 64))
        raise KeyboardInterrupt

    monkeypatch.setattr("admin.backup.restore_command.restore", interrupted)
    done = restored(home, home)
    assert done.exit_code == 130
    how = "in the middle: say the same again" if begun else "before anything was written"
    assert f"interrupted {how} (`parley restore {home}`)" in done.stderr


def test_books_that_are_wrong_are_told(home: Path, tmp_path: Path, sqlite_template: Path):
    """As they were when they were copied: exit code 1, with what is wrong, also for scripts."""
    source = a_backup(tmp_path, sqlite_template, "UPDATE usage_line SET amount_nano = amount_nano + 1")
    done = restored(home, source, "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["faults"]
    assert found["differences"]
    assert not (home / "restoring.json").exists()


@pytest.mark.parametrize("hashes", [True, False])
def test_a_forged_manifest_restores_nothing(home: Path, tmp_path: Path, sqlite_template: Path, hashes: bool):
    """In one line; nothing is in the home."""
    source, outside = a_backup(tmp_path, sqlite_template), tmp_path / "outside.sqlite"
    (source / manifest.SQLITE_FILE).rename(outside)
    made = json.loads((source / manifest.FILE).read_bytes())
    made["database"]["file"] = str(outside)
    made["files"] = made["files"][1:] if hashes else []
    (source / manifest.FILE).write_text(json.dumps(made))
    result = restored(home, source)
    assert "the backup is damaged: " in str(result.exception)
    assert str(outside) in str(result.exception)
    assert not any((home / name).exists() for name in ("parley.db", "secret"))
