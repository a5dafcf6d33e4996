"""A restore takes chains back from a kept head to the backup's: recorded, it is accepted as exactly that."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from billing.api import Rollback, read_heads, record_restore, rollbacks_of
from billing.audit.log import VALUE_BYTES_MAX, list_rows, record
from billing.audit_heads import restore_log, restores
from billing.audit_heads.check import CheckedHeads, check_heads
from billing.audit_heads.heads import Chain, ChainHead, line_of, signed
from billing.audit_heads.restores import RESTORED, RestoreRecord, mac_of, records_of
from billing.cli.audit import audit_command
from billing.tables.tenants import PLATFORM
from chaos.tampering.unguarded import tamper, unguarded_file
from core.actor import Author, acting_as
from core.errors import StartupError
from core.sql.database import Database
from tests.billing.audit_heads.a_head import HEAD
from tests.support.home import settings_in

KEY = "k" * 32
SHA256 = "ab" * 32
LATE = "2999-01-01T00:00:00Z"


def beyond(
    sequence: int, tenant: str = "t1", chain: Chain = Chain.CHANGES, time: str = HEAD.time
) -> ChainHead:
    """A kept head that no chain has."""
    return ChainHead(time, "parley", chain, tenant, sequence, "other")


def run(home: Path, *arguments: str, **variables: str) -> Result:
    """`parley audit …`."""
    return CliRunner().invoke(audit_command, arguments, env={"PARLEY_HOME": str(home), **variables})


async def typed(home: Path, *arguments: str, **variables: str) -> Result:
    """The same beside a loop that runs."""
    return await asyncio.to_thread(run, home, *arguments, **variables)


async def changes(db: Database, number: int, tenant: str = "t1") -> None:
    """So many rows of a tenant's chain."""
    for each in range(number):
        async with db.transaction() as session:
            await record(session, tenant, "thing.change", str(each), None, {})


def take_back(home: Path, last: int, tenant: str = "t1") -> None:
    """Leave a chain as a backup has it: its last row is this one; 0: there is none."""
    with closing(sqlite3.connect(home / "parley.db")) as connection, connection, unguarded_file(connection):
        connection.execute("DELETE FROM audit_log WHERE tenant_id = ? AND seq > ?", [tenant, last])
        if last == 0:
            connection.execute("DELETE FROM audit_head WHERE tenant_id = ?", [tenant])
        connection.execute(
            "UPDATE audit_head SET (seq, sha256) = (SELECT seq, sha256 FROM audit_log WHERE tenant_id = ? "
            "ORDER BY seq DESC LIMIT 1) WHERE tenant_id = ?",
            [tenant, tenant],
        )


async def restore(
    db: Database, home: Path, kept: Sequence[ChainHead], last: int, key: str | None = KEY
) -> None:
    """What `parley restore` records once t1's changes end at row `last`, and those of others nowhere."""
    rollbacks = rollbacks_of([beyond(last)] if last else [], kept)
    await record_restore(db, settings_in(home, audit_heads_key=key), 1, SHA256, rollbacks)


async def compare(db: Database, heads: Sequence[ChainHead], key: str | None = KEY) -> CheckedHeads:
    """These heads against the chains as they are."""
    secret = key.encode() if key else None
    return await check_heads(db, [line_of(signed(each, secret)) for each in heads], "parley", secret)


def test_what_a_restore_takes_back_is_what_was_kept_beyond_it() -> None:
    """Of each chain and tenant the newest; also of a tenant that came after the backup."""
    restored = [beyond(5), beyond(7, chain=Chain.BOOKS), beyond(2, PLATFORM)]
    kept = [
        beyond(6),
        beyond(9),
        beyond(8),
        beyond(7, chain=Chain.BOOKS),
        beyond(1, PLATFORM),
        beyond(4, "new"),
    ]
    assert rollbacks_of(restored, kept) == [
        Rollback(Chain.CHANGES, "new", 0, 4),
        Rollback(Chain.CHANGES, "t1", 5, 9),
    ]
    assert rollbacks_of(restored, []) == []


def test_heads_of_more_chains_than_there_can_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever adds lines to a file fills no memory."""
    monkeypatch.setattr(restores, "ROLLBACKS_MAX", 2)
    kept = [beyond(1, name) for name in "abc"]
    assert len(rollbacks_of([], kept[:2])) == 2
    with pytest.raises(StartupError, match="more than 2 chains"):
        rollbacks_of([], kept)


def test_a_record_of_many_chains_has_parts_that_each_prove_themselves() -> None:
    """None is larger than the audit log keeps; a part with another fact is not signed."""
    rollbacks = rollbacks_of([], [beyond(9, f"{number:040}") for number in range(3_000)])
    records = records_of("parley", 5, 4, SHA256, rollbacks, KEY.encode())
    assert len(records) > 1
    assert [each for record in records for each in record.rollbacks] == rollbacks
    for number, each in enumerate(records, 1):
        assert (each.part, each.parts) == (number, len(records))
        assert len(msgspec.json.encode(each)) < VALUE_BYTES_MAX
        assert each.mac == mac_of(each, KEY.encode()) != mac_of(each, b"x" * 32)
    first = records[0]
    others = {
        "installation": "x",
        "restored_ms": 6,
        "made_ms": 5,
        "backup_sha256": "x",
        "part": 9,
        "parts": 99,
    }
    for name, value in {**others, "rollbacks": records[1].rollbacks}.items():
        assert mac_of(msgspec.structs.replace(first, **{name: value}), KEY.encode()) != first.mac, name
    assert [each.rollbacks for each in records_of("parley", 5, 4, SHA256, [], None)] == [()]


async def test_a_recorded_restore_is_accepted_as_exactly_that(database: Database, home: Path) -> None:
    """Beyond the restored row, up to the newest that was kept, kept until the restore, of that chain."""
    await changes(database, 2)
    await restore(database, home, [beyond(3), beyond(5)], last=2)
    found = await compare(database, [beyond(3), beyond(4), beyond(5)])
    assert found.faults == []
    ((owner, words),) = found.rolled_back.shown()
    assert (owner, words.partition(":")[0]) == ("t1", "changes 3 to 5 (3 kept heads)")
    assert "rolled back by the restore of 20" in words
    for fault in (beyond(2), beyond(6), beyond(3, "t2"), beyond(3, chain=Chain.BOOKS), beyond(3, time=LATE)):
        found = await compare(database, [fault])
        assert ([tenant for tenant, _ in found.faults], found.rolled_back.shown()) == ([fault.tenant], [])


async def test_a_tenant_of_after_the_backup_is_rolled_back_whole(database: Database, home: Path) -> None:
    """Its books and changes have no row any more."""
    kept = [beyond(3, "new"), beyond(7, "new", Chain.BOOKS), beyond(1, "new", Chain.BOOKS)]
    assert len((await compare(database, kept)).faults) == 3
    await restore(database, home, kept, last=0)
    found = await compare(database, kept)
    assert (found.faults, [owner for owner, _ in found.rolled_back.shown()]) == ([], ["new", "new"])


async def test_thousands_of_chains_are_rolled_back_by_rows_that_are_read_again(
    database: Database, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows that takes."""
    monkeypatch.setattr(restore_log, "ROWS_AT_ONCE", 2)
    kept = [beyond(9, f"{number:040}") for number in range(1_500)]
    await restore(database, home, kept, last=0)
    assert len(await list_rows(database, PLATFORM)) > 4
    found = await compare(database, kept)
    assert (found.faults, len(found.rolled_back.shown())) == ([], 1_500)


async def test_who_restored_what_is_recorded_where_nothing_was_beyond(database: Database, home: Path) -> None:
    """One row, by whom, of which backup."""
    with acting_as(Author("ann", "command")):
        await restore(database, home, [], last=0, key=None)
    (row,) = [row for row in await list_rows(database, PLATFORM) if row.action == RESTORED]
    assert (row.author, row.action, row.target) == ("ann", RESTORED, "parley")
    said = msgspec.json.decode(row.after, type=RestoreRecord)
    assert (said.made_ms, said.backup_sha256, said.rollbacks, said.mac) == (1, SHA256, (), "")


async def forge(db: Database, said: object) -> None:
    """A row that whoever can write the database adds, with all hashes right."""
    async with db.transaction() as session:
        await record(session, PLATFORM, RESTORED, "parley", None, msgspec.to_builtins(said))


async def test_a_record_that_the_key_did_not_sign_excuses_nothing(sqlite: Database, home: Path) -> None:
    """Unsigned, signed by another key, changed, or no record at all: each is named beside the fault."""
    (true,) = records_of("parley", 5, 4, SHA256, [Rollback(Chain.CHANGES, "t1", 2, 5)], KEY.encode())
    (another,) = records_of("parley", 5, 4, SHA256, true.rollbacks, b"x" * 32)
    wider = msgspec.structs.replace(true, rollbacks=(Rollback(Chain.CHANGES, "t1", 0, 5),))
    beyond_all = msgspec.structs.replace(true, rollbacks=(Rollback(Chain.CHANGES, "t1", 2, 99),))
    elsewhere = records_of("other", 5, 4, SHA256, true.rollbacks, KEY.encode())[0]
    said = [msgspec.structs.replace(true, mac=""), another, wider, beyond_all, elsewhere]
    odd = [{}, {"bytes": 70_000, "sha256": "x"}, msgspec.to_builtins(true) | {"restored_ms": 1 << 62}]
    for each in [*said, *odd]:
        await forge(sqlite, each)
    at = "1970-01-01T00:00:00Z"
    found = await compare(sqlite, [beyond(3, time=at)])
    assert len(found.faults) == 1
    assert [words.partition(",")[0] for words in found.refused] == [
        *(f"change {number}" for number in (2, 3, 4, 5)),
        *(f"change {number} says that an installation was restored" for number in (7, 8, 9)),
    ]
    file = home / "kept"
    file.write_text(line_of(signed(beyond(3, time=at), KEY.encode())))
    told = await typed(home, "verify", "--heads", str(file), PARLEY_AUDIT_HEADS_KEY=KEY)
    assert told.exit_code == 1
    assert "t1: change 3, kept 1970-01-01T00:00:00Z: it is gone" in told.stderr
    assert "(platform): change 2, the restore of 1970-01-01T00:00:00Z, is not signed" in told.stderr
    await forge(sqlite, true)
    assert (await compare(sqlite, [beyond(3, time=at)])).faults == []
    whole = await typed(home, "verify", "--heads", str(file), PARLEY_AUDIT_HEADS_KEY=KEY)
    assert (whole.exit_code, "change 2, the restore of 1970" in whole.stderr) == (0, True), "named, no fault"


async def test_a_row_that_was_changed_past_the_commands_excuses_nothing(sqlite: Database, home: Path) -> None:
    """Its MAC is of what it said."""
    await restore(sqlite, home, [beyond(5)], last=2)
    assert (await compare(sqlite, [beyond(5)])).faults == []
    await tamper(sqlite, "UPDATE audit_log SET after = replace(after, '5,\"restored', '9,\"restored')")
    found = await compare(sqlite, [beyond(5)])
    assert (len(found.faults), len(found.refused)) == (1, 1)


async def test_verify_accepts_a_restore_by_its_record_and_alarms_without(
    sqlite: Database, home: Path
) -> None:
    """As it is typed: without the record an alarm, with it named; cut off further or later: alarm."""
    kept = home / "heads"
    variables = {"PARLEY_AUDIT_HEADS": f"file://{kept}", "PARLEY_AUDIT_HEADS_KEY": KEY}
    settings = settings_in(home, audit_heads=f"file://{kept}", audit_heads_key=KEY)
    for number in (3, 2):
        await changes(sqlite, number)
        await typed(home, "head", **variables)
    take_back(home, 3)
    alarm = await typed(home, "verify", **variables)
    assert (alarm.exit_code, "t1: change 5, kept 20" in alarm.stderr) == (1, True)
    await record_restore(sqlite, settings, 1, SHA256, rollbacks_of([beyond(3)], read_heads(settings)))
    accepted = await typed(home, "verify", "--json", **variables)
    assert accepted.exit_code == 0, accepted.stderr
    assert "t1: change 5: rolled back by the restore of 20" in accepted.stderr
    (row,) = [each for each in map(json.loads, accepted.stdout.splitlines()) if each["tenant"] == "t1"]
    assert (row["state"], row["faults"], len(row["rolled_back"])) == ("whole", [], 1)
    assert row["rolled_back"][0].startswith("change 5: rolled back by the restore of 20")
    await changes(sqlite, 3)
    assert (await typed(home, "verify", **variables)).exit_code == 0, "row 5 is another one now"
    kept.write_text(kept.read_text() + line_of(signed(beyond(6, time=LATE), KEY.encode())) + "\n")
    take_back(home, 5)
    later = await typed(home, "verify", **variables)
    assert (later.exit_code, "t1: change 6, kept 2999" in later.stderr) == (1, True)
    take_back(home, 2)
    further = await typed(home, "verify", **variables)
    assert (further.exit_code, "t1: change 3, kept 20" in further.stderr) == (1, True)


async def test_an_earlier_reading_is_treated_as_a_kept_head_is(sqlite: Database, home: Path) -> None:
    """One that does not say when it was made cannot be known to be before the restore."""
    await changes(sqlite, 5)
    kept = home / "kept.json"
    kept.write_text((await typed(home, "verify", "--json")).stdout)
    take_back(home, 3)
    assert (await typed(home, "verify", "--earlier", str(kept))).exit_code == 1
    await restore(sqlite, home, [beyond(5)], last=3, key=None)
    accepted = await typed(home, "verify", "--earlier", str(kept))
    assert (accepted.exit_code, "t1: change 5: rolled back by the restore of 20" in accepted.stderr) == (
        0,
        True,
    )
    refused = await typed(home, "verify", "--earlier", str(kept), PARLEY_AUDIT_HEADS_KEY=KEY)
    assert refused.exit_code == 1
    assert "t1: change 5: it is not the one that was read before" in refused.stderr
    assert "(platform): change 2, the restore of 20" in refused.stderr
    timeless = [{**json.loads(line), "time": ""} for line in kept.read_text().splitlines()]
    kept.write_text("\n".join(map(json.dumps, timeless)))
    assert (await typed(home, "verify", "--earlier", str(kept))).exit_code == 1
    take_back(home, 2)
    kept.write_text(kept.read_text().replace('"time": ""', '"time": "2026-01-01T00:00:00Z"'))
    kept.write_text(kept.read_text().replace('"changes": 5', '"changes": 3'))
    assert (await typed(home, "verify", "--earlier", str(kept))).exit_code == 1


async def test_kept_heads_of_others_count_for_nothing_in_a_restore(home: Path) -> None:
    """Another installation's, lines that are none, and, where there is a key, what it did not sign."""
    (home / "heads").write_text(
        "\n".join(
            line_of(each)
            for each in (
                signed(beyond(5), KEY.encode()),
                beyond(9),
                signed(msgspec.structs.replace(beyond(7), installation="other"), KEY.encode()),
            )
        )
        + "\nnone"
    )
    for key, sequences in ((KEY, [5]), (None, [5, 9])):
        settings = settings_in(
            home, audit_heads=f"file://{home}/heads,file://{home}/none", audit_heads_key=key
        )
        assert [head.sequence for head in read_heads(settings)] == sequences
    assert list(read_heads(settings_in(home), [home / "heads"])) != []
    with pytest.raises(StartupError, match="cannot read"):
        list(read_heads(settings_in(home), [home / "gone"]))
