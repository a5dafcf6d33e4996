"""Heads of chains are kept elsewhere: what was cut off, head and all, or made anew is found by them."""

import asyncio
import gc
import hashlib
import hmac
import json
import os
import socket
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner, Result

from billing.alerts.webhooks import Webhook
from billing.audit.log import record
from billing.audit_heads import stores
from billing.audit_heads.check import check_heads, wrong
from billing.audit_heads.heads import Chain, ChainHead, is_signed, line_of, read_line, signed
from billing.audit_heads.s3 import S3Bucket, headers_of
from billing.audit_heads.store_heads import HeadStoreProgress, store_heads_forever
from billing.audit_heads.stores import FileHeadStore, HeadNotStored, S3HeadStore, SyslogHeadStore
from billing.cli.audit import audit_command
from billing.instruments import heads_ages, show_heads_age
from chaos.tampering.unguarded import unguarded_file
from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database
from tests.billing.audit_heads.a_head import HEAD
from tests.billing.receivers import Received, Receiver, http_receiver
from tests.support.home import settings_in
from tests.support.patience import wait_until
from tests.support.tls import Authority

KEY = "k" * 32
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # AWS' own example


async def changes(db: Database, number: int, tenant: str = "t1") -> None:
    """So many rows of a tenant's chain."""
    for each in range(number):
        async with db.transaction() as session:
            await record(session, tenant, "thing.change", str(each), None, {})


def cut_off(home: Path, last: int) -> None:
    """Delete what is behind change `last` of t1, and put the head there: the database alone shows nothing."""
    with closing(sqlite3.connect(home / "parley.db")) as connection, connection, unguarded_file(connection):
        connection.execute("DELETE FROM audit_log WHERE tenant_id = 't1' AND seq > ?", [last])
        sha256 = "(SELECT sha256 FROM audit_log WHERE tenant_id = 't1' AND seq = ?)"
        connection.execute(
            f"UPDATE audit_head SET seq = ?, sha256 = {sha256} WHERE tenant_id = 't1'", [last, last]
        )


def run(home: Path, *arguments: str, **variables: str) -> Result:
    """`parley audit …`."""
    return CliRunner().invoke(audit_command, arguments, env={"PARLEY_HOME": str(home), **variables})


async def typed(home: Path, *arguments: str, **variables: str) -> Result:
    """The same beside a loop that runs."""
    return await asyncio.to_thread(run, home, *arguments, **variables)


def test_a_line_is_read_as_it_was_written() -> None:
    """Also behind what a log server puts before it; what is none is none."""
    head = signed(HEAD, KEY.encode())
    assert (
        read_line(line_of(head)) == read_line(f"<109>1 - h parley 1 audit-head - {line_of(head)}\n") == head
    )
    assert is_signed(head, KEY.encode())
    for name, value in (("sequence", 2), ("sha256", "ac"), ("tenant", "t2"), ("time", "2027"), ("mac", "")):
        assert not is_signed(msgspec.structs.replace(head, **{name: value}), KEY.encode()), name
    assert not is_signed(head, b"x" * 32)
    for line in ("", "{", "[1]", '{"time": 1}', line_of(HEAD).replace("changes", "others"), "x" * 9_999):
        assert read_line(line) is None, line


def test_a_stores_address_is_that_and_its_secret_is_shown_nowhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody's password, line or port of no use: told in one line, at the start."""
    monkeypatch.setenv("PARLEY_AUDIT_HEADS", "s3://bucket/p")
    monkeypatch.setenv("PARLEY_AUDIT_S3_KEY_ID", "me")
    monkeypatch.setenv("PARLEY_AUDIT_S3_SECRET", SECRET)
    wrong = ("u:p@h", "[::1", "h:99999", "h#f", "h\r\nX: y", "h/b", "h?x", "")
    for url in (*(f"https://{each}" for each in wrong), "ftp://h"):
        monkeypatch.setenv("PARLEY_AUDIT_S3_URL", url)
        with pytest.raises(StartupError, match="PARLEY_AUDIT_S3_URL is an address as"):
            stores.head_stores_of(settings_in(home))
    for url in ("https://h", "http://minio_1:9000/", "https://[::1]:9000", "HTTPS://s3.example.com"):
        monkeypatch.setenv("PARLEY_AUDIT_S3_URL", url)
        assert SECRET not in repr(stores.head_stores_of(settings_in(home)))
    assert SECRET not in repr(Webhook("https://h", SECRET))


async def test_a_line_that_somebody_made_up_ends_no_proof(database: Database) -> None:
    """Whoever sends to a log server, or adds to a file, puts what he likes there."""
    line = line_of(HEAD)
    made_up = [line.replace(":3,", f":{number},") for number in (1 << 63, 1 << 70, -1, 0)]
    made_up += [line.replace('"t1"', r'"t\u0000"'), line.replace('"t1"', r'"\ud800"'), '{"a":' + "[" * 4_000]
    found = await check_heads(database, [*made_up, line], "parley", None)
    assert (found.heads, found.unread, len(found.faults)) == (1, len(made_up), 1)


def test_heads_and_hashes_give_what_is_wrong() -> None:
    """A head that is there still says nothing."""
    assert wrong([HEAD], {(Chain.CHANGES, "t1", 3): "ab"}) == []
    ((head, gone),) = wrong([HEAD], {(Chain.BOOKS, "t1", 3): "ab"})
    assert (head.tenant, "change 3, kept 2026-11-22T13:00:00Z: it is gone" in gone) == ("t1", True)
    assert "not the one" in wrong([HEAD], {(Chain.CHANGES, "t1", 3): "cd"})[0][1]


async def test_a_chain_that_was_cut_off_with_its_head_is_found(sqlite: Database, home: Path) -> None:
    """Each command keeps the heads, verify reads the configured file by itself and says as of which head."""
    kept = home / "outside" / "heads"
    kept.parent.mkdir()
    variables = {"PARLEY_AUDIT_HEADS": f"file://{kept}", "PARLEY_AUDIT_HEADS_KEY": KEY}
    await changes(sqlite, 5)
    assert (await typed(home, "head", **variables)).exit_code == 0
    assert kept.stat().st_mode & 0o777 == 0o600
    nowhere = await typed(home, "head", **variables | {"PARLEY_AUDIT_HEADS": f"file://{home}/none/heads"})
    assert (nowhere.exit_code, "not kept: " in nowhere.stderr) == (1, True)
    whole = await typed(home, "verify", **variables)
    assert (whole.exit_code, f"kept in {kept}: 2 heads" in whole.stderr) == (0, True)
    assert "as of the head of 20" in whole.stderr
    cut_off(home, 4)
    blind = await typed(home, "verify")
    assert (blind.exit_code, "no heads were kept elsewhere" in blind.stderr) == (0, True)
    found = await typed(home, "verify", **variables)
    assert found.exit_code == 1
    assert "t1: change 5, kept 20" in found.stderr
    assert "it is gone" in found.stderr
    await changes(sqlite, 3)
    found = await typed(home, "verify", "--heads", str(kept))
    assert "t1: change 5, kept 20" in found.stderr
    assert "it is not the one that was there then" in found.stderr


async def test_what_head_prints_is_what_verify_reads(sqlite: Database, home: Path) -> None:
    """Kept by hand, without any setting; a torn line is left out and told."""
    await changes(sqlite, 5)
    printed = (await typed(home, "head", "--json")).stdout
    file = home / "printed"
    file.write_text(printed + '{"time": "2026')
    whole = await typed(home, "verify", "--heads", str(file), "--json")
    assert whole.exit_code == 0
    assert {json.loads(row)["state"] for row in whole.stdout.splitlines()} == {"whole"}
    assert "1 lines of" in whole.stderr
    file.write_text(printed.replace('5,"sha', '4,"sha').replace('5, "sha', '4, "sha'))
    assert (await typed(home, "verify", "--heads", str(file))).exit_code == 1


async def test_a_head_that_nobody_signed_counts_for_nothing(sqlite: Database, home: Path) -> None:
    """Where there is a key; who adds lines of a chain made anew is found by that."""
    await changes(sqlite, 2)
    lines = (await typed(home, "head", "--json")).stdout.splitlines()
    checked = await check_heads(sqlite, lines, "parley", KEY.encode())
    assert (checked.heads, checked.unsigned, checked.latest) == (2, 2, "")
    for head, faults in ((HEAD, 0), (signed(HEAD, KEY.encode()), 1)):
        untrue = await check_heads(sqlite, [line_of(head)], "parley", KEY.encode())
        assert len(untrue.faults) == faults, "which anybody could make up, else"
    (home / "heads").write_text("\n".join(lines))
    found = await typed(home, "verify", "--heads", str(home / "heads"), PARLEY_AUDIT_HEADS_KEY=KEY)
    assert (found.exit_code, "2 heads in" in found.stderr) == (1, True)
    other = await check_heads(sqlite, lines, "another installation", None)
    assert (other.heads, other.faults) == (0, [])


async def test_books_have_heads_too_on_both_databases(database: Database, home: Path) -> None:
    """Only what moved is kept again, and the platform's in any case, so that the time goes on."""
    await changes(database, 3)
    async with database.transaction() as session:
        await record(session, "", "thing.change", "x", None, {})
    place = FileHeadStore(home / "heads")
    progress = HeadStoreProgress(database, settings_in(home), place)
    assert (await progress.store_moved(), await progress.store_moved()) == (2, 1)
    await changes(database, 1)
    assert await progress.store_moved() == 2
    checked = await check_heads(database, place.path.read_text().splitlines(), "parley", None)
    assert (checked.heads, checked.unread, checked.faults) == (5, 0, [])
    books = ChainHead("2026", "parley", Chain.BOOKS, "t1", 9, "x")
    assert "transaction 9" in (await check_heads(database, [line_of(books)], "parley", None)).faults[0][1]


async def test_a_file_is_only_added_to(tmp_path: Path) -> None:
    """A torn line is ended first; what is no file, or a link, is refused."""
    place = FileHeadStore(tmp_path / "heads")
    await place.append(["one"])
    with place.path.open("a") as file:
        file.write("to")
    await place.append(["two", "three"])
    assert place.path.read_text() == "one\nto\ntwo\nthree\n"
    (tmp_path / "link").symlink_to(place.path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "no/such"):
        with pytest.raises(HeadNotStored):
            await FileHeadStore(tmp_path / name).append(["x"])
    assert place.path.read_text().count("\n") == 4


def test_a_put_is_signed_as_aws_says() -> None:
    """Its own published example of a PUT."""
    store = S3Bucket("https://examplebucket.s3.amazonaws.com", "us-east-1", "AKIAIOSFODNN7EXAMPLE", SECRET)
    more = {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"}
    at = datetime(2013, 5, 24, tzinfo=UTC)
    headers = headers_of(store, "/test%24file.text", b"Welcome to Amazon S3.", at, more)
    expected = "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
    assert headers["authorization"].endswith(f"Signature={expected}")


def is_right(request: Received, secret: str) -> bool:
    """What a store does: signs what came, by the headers that it names, and compares."""
    fields = dict(part.split("=", 1) for part in request.headers["authorization"].split(" ", 1)[1].split(","))
    _, day, region, service, end = fields["Credential"].split("/")
    names = fields["SignedHeaders"].split(";")
    digest = hashlib.sha256(request.body).hexdigest()
    lines = "".join(f"{name}:{request.headers[name]}\n" for name in names)
    canonical = f"PUT\n{request.path}\n\n{lines}\n{fields['SignedHeaders']}\n{digest}"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    scope = f"{day}/{region}/{service}/{end}"
    text = f"AWS4-HMAC-SHA256\n{request.headers['x-amz-date']}\n{scope}\n{hashed}"
    key = b"AWS4" + secret.encode()
    for part in (day, region, service, end, text):
        key = hmac.digest(key, part.encode(), "sha256")
    return fields["Signature"] == key.hex() and {"host", "x-amz-date", "x-amz-content-sha256"} <= {*names}


async def test_a_store_gets_an_object_that_it_can_check() -> None:
    """Each write is one of its own; what the store refuses is not kept, in words without the secret."""
    async with http_receiver(Receiver(lambda number: 403 if number > 2 else 200)) as receiver:
        store = S3Bucket(f"http://127.0.0.1:{receiver.port}", "eu-west-1", "me", SECRET)
        place = S3HeadStore(store, "bucket", "a b/c")
        await place.append(["one", "two"])
        await place.append(["three"])
        with pytest.raises(HeadNotStored, match="answered 403"):
            await place.append(["four"])
    first, second, _ = receiver.requests
    assert first.body == b"one\ntwo\n"
    assert first.path.startswith("/bucket/a%20b/c/20")
    assert len({first.path, second.path}) == 2
    assert is_right(first, SECRET)
    assert not is_right(first, "another")
    first.body = b"one\n"
    assert not is_right(first, SECRET)
    with pytest.raises(HeadNotStored, match="ConnectError"):
        await place.append(["nobody listens"])
    assert SECRET not in repr(HeadNotStored(place.shown))


async def test_log_servers_get_a_message_each() -> None:
    """RFC 5424, over TCP with octets counted and over UDP."""
    taken = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.set_result(await reader.read())
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await SyslogHeadStore("syslog", "127.0.0.1", port).append([line_of(HEAD), "two"])
        data: bytes = await taken
    length, _, rest = data.partition(b" ")
    first, second = rest[: int(length)].decode(), rest[int(length) :].decode()
    assert first.startswith("<109>1 20")
    assert first.split(" ")[3:7] == ["parley", str(os.getpid()), "audit-head", "-"]
    assert read_line(first) == HEAD
    assert second.endswith(" two")
    with pytest.raises(HeadNotStored, match="ECONNREFUSED"):
        await SyslogHeadStore("syslog", "127.0.0.1", port).append(["x"])
    with socket.socket(type=socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        await SyslogHeadStore("syslog+udp", "127.0.0.1", listening.getsockname()[1]).append([line_of(HEAD)])
        assert read_line(listening.recv(9_000).decode()) == HEAD


async def test_a_log_server_is_spoken_to_by_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no certificate that this machine trusts gets nothing."""
    taken: list[bytes] = []
    done = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(await reader.read())
        done.set()
        writer.close()

    authority = Authority(tmp_path)
    context = authority.server(authority.pair("logs"))
    async with await asyncio.start_server(take, "127.0.0.1", 0, ssl=context) as server:
        place = SyslogHeadStore("syslog+tls", "127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(HeadNotStored, match="SSLCertVerificationError"):
            await place.append(["x"])
        assert taken == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        await place.append([line_of(HEAD)])
        await done.wait()
    assert read_line(taken[0].decode()) == HEAD


async def test_a_place_that_takes_nothing_is_told_and_holds_up_nobody(
    sqlite: Database, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other place has its heads; this one gets them as soon as it can."""
    monkeypatch.setattr("billing.audit_heads.store_heads.RETRY_SECONDS", 0.01)
    await changes(sqlite, 1)
    good, late = home / "good", home / "folder" / "late"
    settings = settings_in(home, audit_heads=f"file://{good},file://{late}", audit_heads_seconds=3600)
    stop = asyncio.Event()
    told: list[str] = []
    counted: list[tuple[str, int, str]] = []
    for name in ("heads_stored", "heads_store_failures"):
        add = SimpleNamespace(add=lambda n, of, name=name: counted.append((name, n, of["place"])))
        monkeypatch.setattr(f"billing.audit_heads.store_heads.instruments.{name}", add)
    monkeypatch.setattr(
        "billing.audit_heads.store_heads.log.error", lambda event, **facts: told.append(event)
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(store_heads_forever(sqlite, settings, stop))
        await wait_until(lambda: good.exists() and told)
        assert heads_ages()["file"] >= 0
        late.parent.mkdir()
        await wait_until(late.exists)
        stop.set()
    assert told[0] == "audit_heads.store_failed"
    assert late.read_text() != ""
    assert set(counted) == {("heads_stored", 2, "file"), ("heads_store_failures", 1, "file")}
    assert counted.count(("heads_stored", 2, "file")) == 2
    assert counted.count(("heads_store_failures", 1, "file")) == len(told)


async def test_heads_that_were_not_taken_are_kept_the_next_time(sqlite: Database, home: Path) -> None:
    """All of them, though none moved meanwhile; those that were taken are not said again."""
    await changes(sqlite, 2)
    place = FileHeadStore(home / "folder" / "heads")
    progress = HeadStoreProgress(sqlite, settings_in(home), place)
    with pytest.raises(HeadNotStored):
        await progress.store_moved()
    place.path.parent.mkdir()
    for _ in range(2):
        await progress.store_moved()
        heads = [read_line(line) for line in place.path.read_text().splitlines()]
        assert [head.sequence for head in heads if head and head.tenant == "t1"] == [2]


def test_the_alarm_knows_the_place_that_is_furthest_behind() -> None:
    """Of each kind, as long as something keeps heads there."""
    near, far = FileHeadStore(Path("near")), FileHeadStore(Path("far"))
    show_heads_age(near, "s3", lambda: 5.0)
    show_heads_age(far, "s3", lambda: 7.0)
    assert heads_ages()["s3"] == 7.0
    del far
    gc.collect()
    assert heads_ages()["s3"] == 5.0


@pytest.mark.parametrize(
    "heads",
    [
        "heads",
        "file://",
        "file://host/path",
        "http://x",
        "s3://",
        "s3://bucket/prefix",
        "syslog://",
        "syslog://h:0",
        "syslog://h:99999",
        "syslog://me:secret@h",
        "s3://b?x=1",
        "file:///ok,ftp://x",
    ],
)
def test_a_place_that_is_none_is_one_line_at_the_start(home: Path, heads: str) -> None:
    """S3 without its secret too. No value is repeated, as it may hold one."""
    with pytest.raises(StartupError, match="PARLEY_AUDIT_") as refused:
        stores.head_stores_of(settings_in(home, audit_heads=heads))
    assert "secret@" not in str(refused.value)


def test_places_are_what_the_setting_says(home: Path) -> None:
    """Ports that are not said are the usual ones."""
    all_ = "file:///a%20b, s3://bucket/x/, syslog://h, syslog+tls://h, syslog+udp://[::1]:1514"
    settings: Settings = settings_in(home, audit_heads=all_, audit_s3_key_id="me", audit_s3_secret="s")
    assert [place.shown for place in stores.head_stores_of(settings)] == [
        "/a b",
        "s3://bucket/x",
        "syslog://h:601",
        "syslog+tls://h:6514",
        "syslog+udp://::1:1514",
    ]
    assert stores.head_stores_of(settings_in(home)) == []
