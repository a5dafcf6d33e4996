"""Alerts on their way: real HTTP and mail servers, and senders that die between sending and marking."""

import asyncio
import email
import hashlib
import hmac
import ipaddress
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update
from sqlmodel import col

from billing.alerts import webhooks
from billing.alerts.addresses import is_public
from billing.alerts.messages import mail_text
from billing.alerts.outbox import (
    AT_ONCE,
    FIRST_RETRY_MS,
    GIVE_UP_MS,
    NO_MAIL_SERVER,
    RETRY_MS_MAX,
    TARGET_GONE,
    OutboxSender,
    next_attempt_ms,
)
from billing.alerts.targets import TARGETS_MAX, add_target, remove_target, retry, send_test
from billing.periods import LAST_MS
from billing.tables.wallets import AlertTarget, BudgetAlert, BudgetSpent, Outbox
from billing.tenants.tenancy import create_tenant
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from tests.billing.alerts.outbox_rows import make_due, row_of
from tests.billing.ledger.ledger_reading import read
from tests.billing.mail_server import MailServer, mail_server
from tests.billing.receivers import Receiver, http_receiver
from tests.support.home import settings_in
from tests.support.patience import wait_until
from tests.support.processes import begun


@pytest.fixture
def private(home: Path) -> Settings:
    """Settings that allow targets on loopback."""
    return settings_in(home, alert_private_targets=True)


@pytest.fixture
async def tenant(database: Database) -> str:
    """A tenant's id."""
    return (await create_tenant(database, "acme")).tenant_id


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    """A running HTTP receiver."""
    async with http_receiver(Receiver()) as running:
        yield running


async def a_message(database: Database, tenant: str, port: int, path: str = "hook") -> Outbox:
    """A test message for a webhook on loopback, in the outbox."""
    target = await add_target(database, tenant, "webhook", f"http://127.0.0.1:{port}/{path}", private=True)
    return await send_test(database, tenant, target.id)


async def test_a_webhook_is_signed_and_sent_once(
    database: Database, tenant: str, private: Settings, receiver: Receiver
) -> None:
    """Its receiver can prove who sent it and when, over the very bytes that came; names are escapes."""
    message = await a_message(database, tenant, receiver.port)
    payload = {**message.payload, "scope_id": "ü\u202e\x9b31m"}
    async with database.transaction() as session:
        await (await session.connection()).execute(update(Outbox).values(payload=payload))
    sender = OutboxSender(database, private)
    assert (await sender.send_due(), await sender.send_due()) == (1, 0)
    (request,) = receiver.requests
    assert json.loads(request.body) == payload
    assert all(0x20 <= byte < 0x7F for byte in request.body)
    assert (request.path, request.headers["parley-message-id"]) == ("/hook", message.id)
    (target,) = await read(database, AlertTarget, tenant)
    at, signature = (part.partition("=")[2] for part in request.headers["parley-signature"].split(","))
    signed = f"{at}.".encode() + request.body
    assert hmac.new(target.secret.encode(), signed, hashlib.sha256).hexdigest() == signature
    assert abs(int(at) * 1000 - now_ms()) < 60_000
    row = await row_of(database, message)
    assert (row.state, row.attempts, row.last_error) == ("sent", 1, "")


async def test_what_fails_is_sent_again_under_the_same_id(
    database: Database, tenant: str, private: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server error, a redirect, and a receiver that took it and does not answer: it sees one id."""
    monkeypatch.setattr(webhooks, "SECONDS_MAX", 1.0)
    answers = {1: 500, 2: 302, 3: 0}
    elsewhere = "location: http://127.0.0.1:1/\r\n"
    async with http_receiver(Receiver(lambda number: answers.get(number, 204), elsewhere)) as receiver:
        message = await a_message(database, tenant, receiver.port)
        sender = OutboxSender(database, private)
        errors: list[str] = []
        for _ in range(3):
            await sender.send_due()
            row = await row_of(database, message)
            assert row.next_attempt_ms > now_ms()
            assert await sender.send_due() == 0
            errors.append(row.last_error)
            await make_due(database)
        await sender.send_due()
        assert errors == [
            "HTTP 500",
            "HTTP 302: it leads to another URL, and none is followed",
            "no answer in 1 s",
        ]
        assert receiver.ids == [message.id] * 4
        row = await row_of(database, message)
        assert (row.state, row.attempts) == ("sent", 4)


async def test_senders_at_once_send_each_message_once(
    database: Database, tenant: str, private: Settings, receiver: Receiver
) -> None:
    """While all of them live."""
    target = await add_target(database, tenant, "webhook", f"http://127.0.0.1:{receiver.port}/", private=True)
    messages = [await send_test(database, tenant, target.id) for _ in range(30)]
    senders = [OutboxSender(database, private) for _ in range(4)]

    async def drain(sender: OutboxSender) -> None:
        while await sender.send_due():
            pass

    await asyncio.gather(*(drain(sender) for sender in senders))
    assert sorted(receiver.ids) == sorted(message.id for message in messages)


async def test_one_tenants_messages_hold_up_no_others(
    database: Database, tenant: str, private: Settings, receiver: Receiver
) -> None:
    """However many it has, and however long its receivers take: each tenant's oldest is in the next batch."""
    url = f"http://127.0.0.1:{receiver.port}"
    target = await add_target(database, tenant, "webhook", f"{url}/many", private=True)
    many = [await send_test(database, tenant, target.id) for _ in range(2 * AT_ONCE)]
    other = (await create_tenant(database, "globex")).tenant_id
    single = await a_message(database, other, receiver.port)
    sender = OutboxSender(database, private)
    sent: list[int] = []
    while found := await sender.send_due():
        sent.append(found)
        if len(sent) == 1:
            assert set(receiver.ids) == {single.id, *(message.id for message in many[: AT_ONCE - 1])}
    assert sent == [AT_ONCE, AT_ONCE, 1]
    assert len(set(receiver.ids)) == 2 * AT_ONCE + 1


async def test_a_sender_killed_between_sending_and_marking_is_made_good_by_another(
    database: Database, database_url: str, tenant: str, home: Path, private: Settings
) -> None:
    """kill -9 while the receiver has the message: it comes again, under the id that it has."""
    async with http_receiver(Receiver(lambda number: 200 if number > 1 else 0)) as receiver:
        message = await a_message(database, tenant, receiver.port)
        command = (sys.executable, "-m", "tests.billing.sender_process", str(home), database_url)
        process = await begun(command)
        try:
            await wait_until(lambda: receiver.requests)
        finally:
            process.kill()
            await process.wait()
        assert (await row_of(database, message)).state == "waiting"
        await OutboxSender(database, private).send_due()
        assert receiver.ids == [message.id, message.id]
        assert (await row_of(database, message)).state == "sent"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "[::ffff:127.0.0.1]", "169.254.169.254"],
)
async def test_nothing_is_sent_to_addresses_that_are_not_public(
    sqlite: Database, home: Path, receiver: Receiver, host: str
) -> None:
    """However they are written: a tenant cannot reach what only this installation can. (Stored while it was
    allowed.)"""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    url = f"https://{host}:{receiver.port}/"
    target = await add_target(sqlite, tenant, "webhook", url, private=True)
    message = await send_test(sqlite, tenant, target.id)
    await OutboxSender(sqlite, settings_in(home)).send_due()
    row = await row_of(sqlite, message)
    assert (row.state, row.last_error) == ("waiting", "the address is not public")
    assert receiver.requests == []


@given(st.ip_addresses())
def test_an_address_that_wraps_another_is_as_public_as_that(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    """IPv4 in IPv6, 6to4 and NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        expected = is_public(address)
        for wrapped in (f"::ffff:{address}", f"64:ff9b::{address}"):
            assert is_public(ipaddress.ip_address(wrapped)) == expected
        inside = int(address) << 80 | 0x2002 << 112
        assert is_public(ipaddress.IPv6Address(inside)) == expected
    else:
        assert not is_public(address) or address.is_global


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("webhook", "http://example.com/"),
        ("webhook", "ftp://example.com/"),
        ("webhook", "https://user:word@example.com/"),
        ("webhook", "https:///x"),
        ("webhook", "https://example.com:99999/"),
        ("webhook", "https://example.com/" + "x" * 2_000),
        ("webhook", "https://example.com/\r\nx: y"),
        ("email", "nobody"),
        ("email", "a@b"),
        ("email", "a@example.com\r\nBcc: all@example.com"),
        ("email", f"{'x' * 250}@example.com"),
    ],
)
async def test_what_is_no_target_is_refused(sqlite: Database, kind: str, address: str) -> None:
    """Before anything is stored."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    with pytest.raises(Refused):
        await add_target(sqlite, tenant, kind, address)
    assert await read(sqlite, AlertTarget, tenant) == []


async def test_a_tenant_has_a_bounded_number_of_targets(sqlite: Database, home: Path) -> None:
    """What is removed makes room, and gets nothing more."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    added = [await add_target(sqlite, tenant, "email", f"a{n}@example.com") for n in range(TARGETS_MAX)]
    with pytest.raises(Refused, match="there are 10 targets already: remove one first"):
        await add_target(sqlite, tenant, "email", "more@example.com")
    message = await send_test(sqlite, tenant, added[0].id)
    assert await remove_target(sqlite, tenant, added[0].id) is not None
    assert await remove_target(sqlite, tenant, added[0].id) is None
    await add_target(sqlite, tenant, "email", "more@example.com")
    await OutboxSender(sqlite, settings_in(home)).send_due()
    row = await row_of(sqlite, message)
    assert (row.state, row.last_error) == ("failed", TARGET_GONE)
    with pytest.raises(Refused, match="no target"):
        await send_test(sqlite, tenant, added[0].id)


async def test_mail_waits_for_a_mail_server_and_then_goes(
    database: Database, tenant: str, home: Path
) -> None:
    """It is visible as waiting, and no attempt is counted. What the server refuses for now comes again under
    the same Message-ID."""
    target = await add_target(database, tenant, "email", "ops@example.com")
    message = await send_test(database, tenant, target.id)
    await OutboxSender(database, settings_in(home)).send_due()
    row = await row_of(database, message)
    assert (row.state, row.attempts, row.last_error) == ("waiting", 0, NO_MAIL_SERVER)
    async with mail_server(MailServer(refused=1)) as server:
        settings = settings_in(
            home, smtp_host="127.0.0.1", smtp_port=server.port, smtp_security="none", smtp_from="a@b.example"
        )
        for state in ("waiting", "sent"):
            await make_due(database)
            await OutboxSender(database, settings).send_due()
            row = await row_of(database, message)
            assert row.state == state
        (mail,) = server.mails
    parsed = email.message_from_string(mail)
    assert (parsed["To"], parsed["From"]) == ("ops@example.com", "a@b.example")
    assert parsed["Message-ID"] == f"<{message.id}@b.example>"
    assert "test" in parsed["Subject"]
    assert row.attempts == 2


async def test_mail_is_not_sent_in_the_clear_where_it_must_not_be(sqlite: Database, home: Path) -> None:
    """A server without STARTTLS gets nothing unless the settings say so."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    target = await add_target(sqlite, tenant, "email", "ops@example.com")
    message = await send_test(sqlite, tenant, target.id)
    async with mail_server(MailServer()) as server:
        settings = settings_in(home, smtp_host="127.0.0.1", smtp_port=server.port)
        await OutboxSender(sqlite, settings).send_due()
        assert server.mails == []
    assert "STARTTLS" in (await row_of(sqlite, message)).last_error


async def test_what_was_given_up_can_be_sent_again(
    database: Database, tenant: str, private: Settings, receiver: Receiver
) -> None:
    """After three days a message is failed; an operator sends it again, under its id."""
    message = await a_message(database, tenant, receiver.port)
    receiver.answer = lambda number: 500 if number == 1 else 200
    async with database.transaction() as session:
        old = now_ms() - GIVE_UP_MS
        await (await session.connection()).execute(update(Outbox).values(first_sent_ms=old))
    sender = OutboxSender(database, private)
    await sender.send_due()
    assert (await row_of(database, message)).state == "failed"
    assert await sender.send_due() == 0
    assert (await retry(database, tenant), await retry(database, "other")) == (1, 0)
    await sender.send_due()
    assert receiver.ids == [message.id, message.id]
    assert (await retry(database, tenant, message.id), (await row_of(database, message)).state) == (0, "sent")


async def test_what_is_long_past_is_forgotten(sqlite: Database, home: Path) -> None:
    """Not what is told once for ever, nor what waits."""
    old, tenant = now_ms() - 401 * 86_400_000, (await create_tenant(sqlite, "acme")).tenant_id
    target = await add_target(sqlite, tenant, "email", "ops@example.com")
    sent, waits = [await send_test(sqlite, tenant, target.id) for _ in range(2)]
    async with sqlite.transaction() as session:
        for period in ("day", "lifetime"):
            facts = {"tenant_id": tenant, "scope": "tenant", "scope_id": "", "period": period}
            alert = BudgetAlert(
                **facts,
                window_start_ms=0,
                limit_nano=1,
                threshold=50,
                budget_id="b",
                spent_nano=1,
                created_ms=old,
            )
            end_ms = old if period == "day" else LAST_MS
            spent = BudgetSpent(**facts, window_start_ms=0, window_end_ms=end_ms, spent_nano=1)
            session.add_all([alert, spent])
        await session.flush()
        changed = update(Outbox).where(col(Outbox.id) == sent.id)
        connection = await session.connection()
        await connection.execute(update(Outbox).values(next_attempt_ms=old, claimed_until_ms=1 << 60))
        await connection.execute(changed.values(state="sent"))
    running = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, running.set)
    await OutboxSender(sqlite, settings_in(home)).run(running)
    assert [row.id for row in await read(sqlite, Outbox, tenant)] == [waits.id]
    assert [row.period for row in await read(sqlite, BudgetAlert, tenant)] == ["lifetime"]
    assert [row.period for row in await read(sqlite, BudgetSpent, tenant)] == ["lifetime"]


@given(st.integers(1, 200), st.floats(0, 1), st.integers(0, GIVE_UP_MS))
def test_attempts_come_later_and_later_until_they_end(attempts: int, chance: float, since: int) -> None:
    """At least half of the doubled time, never more than the longest, none after three days."""
    later = next_attempt_ms(attempts, 0, since, chance)
    longest = min(RETRY_MS_MAX, FIRST_RETRY_MS * 2 ** (attempts - 1))
    if later is None:
        assert since + longest > GIVE_UP_MS
    else:
        assert longest // 2 <= later - since <= longest
        assert later <= GIVE_UP_MS


@given(st.dictionaries(st.sampled_from(["scope_id", "tenant", "x", "created_ms"]), st.text() | st.integers()))
def test_names_of_tenants_cannot_add_headers_to_a_mail(facts: dict[str, str | int]) -> None:
    """Whatever they called their users and projects."""
    known = {"type": "budget.threshold", "scope": "user", "scope_id": "", "period": "day"}
    money = {"threshold": 50, "spent_usd": "1.00", "limit_usd": "2.00"}
    facts = {name: 5 if name == "created_ms" else value for name, value in facts.items()}
    subject, text = mail_text({**known, **money, **facts})
    assert subject.isprintable()
    assert all(line.isprintable() for line in text.split("\n"))
