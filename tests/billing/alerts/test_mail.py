"""Mail over a real mail server: what it takes is what was written, once; what it refuses is not lost."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from billing.alerts import mail_connection
from billing.alerts.mail import send_mail
from billing.alerts.outbox import FIRST_RETRY_MS, OutboxSender
from billing.alerts.targets import add_target, send_test
from billing.alerts.webhooks import NotDelivered
from billing.tenants.tenancy import create_tenant
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.billing.alerts.outbox_rows import make_due, row_of
from tests.support.holding_out import holding_out
from tests.support.home import settings_in
from tests.support.mail import SmtpStub, post_office
from tests.support.patience import soon
from tests.support.tls import Authority

PASSWORD = "correct horse"


@pytest.fixture
def authority(home: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """Whose certificates this process trusts."""
    made = Authority(home)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.certificate))
    return made


def settings_for(office: SmtpStub, home: Path, **given: object) -> Settings:
    """With that office as the mail server."""
    facts: dict[str, object] = {"smtp_host": "127.0.0.1", "smtp_port": office.port, "smtp_security": "none"}
    return settings_in(home, **facts | given)


async def refused(settings: Settings, address: str = "ops@example.com") -> str:
    """Why a message was not delivered."""
    with pytest.raises(NotDelivered) as caught:
        await send_mail(settings, address, "Parley: x", "x\n", "m1")
    return str(caught.value)


async def test_a_message_arrives_signed_in_and_encrypted_as_it_was_written(home: Path, authority: Authority):
    """Names beyond ASCII in subject and text, lines that look like the end of a message, and headers that say
    who sent it, when, and that no answer is awaited."""
    text = "Zoë 東京 spent\n.\n..\n" + "long " * 400 + "\n"
    subject = "Parley: 80 % of the budget of Zoë 東京 🚀: " + "ü" * 200
    office = SmtpStub(password=PASSWORD, tls=authority.server(authority.pair("mail")))
    async with post_office(office):
        own = {"smtp_security": "starttls", "smtp_user": "parley", "smtp_password": PASSWORD}
        settings = settings_for(office, home, **own, smtp_from="parley@b.example")
        await send_mail(settings, "ops@example.com", subject, text, "m1")
    (message,) = office.messages
    assert (message["Subject"], message.get_content().replace("\r\n", "\n")) == (subject, text)
    assert (message["From"], message["To"]) == ("parley@b.example", "ops@example.com")
    assert (message["Message-ID"], message["Auto-Submitted"]) == ("<m1@b.example>", "auto-generated")
    assert abs(message["Date"].datetime.timestamp() * 1000 - now_ms()) < 60_000
    assert (office.taken[0].mail_from, office.taken[0].rcpt_tos) == ("parley@b.example", ["ops@example.com"])
    assert office.passwords == [PASSWORD]


async def test_no_password_goes_to_whom_the_certificate_does_not_name(
    home: Path, authority: Authority, tmp_path: Path
):
    """Nor to one whose certificate nobody knows; a wrong password is said to be one, and nothing is sent."""
    own = {"smtp_security": "starttls", "smtp_user": "parley", "smtp_password": "wrong"}
    stranger = Authority(tmp_path)
    for pair, signer in (
        (authority.pair("elsewhere", for_loopback=False), authority),
        (stranger.pair("mail"), stranger),
    ):
        async with post_office(SmtpStub(password=PASSWORD, tls=signer.server(pair))) as office:
            assert "SSLCertVerificationError" in await refused(settings_for(office, home, **own))
            assert (office.passwords, office.taken) == ([], [])
    async with post_office(
        SmtpStub(password=PASSWORD, tls=authority.server(authority.pair("mail")))
    ) as office:
        assert await refused(settings_for(office, home, **own)) == "mail server: SMTPAuthenticationError 535"
    assert (set(office.passwords), office.taken) == ({"wrong"}, [])


@pytest.mark.parametrize(
    ("step", "said", "told"),
    [
        ("MAIL", "451 later", "mail server: SMTPSenderRefused 451"),
        ("RCPT", "550 nobody here", "mail server: SMTPRecipientsRefused"),
        ("DATA", "452 no room", "mail server: SMTPDataError 452"),
        ("DATA", "554 spam", "mail server: SMTPDataError 554"),
        ("DATA", "hang up", "mail server: SMTPServerDisconnected"),
    ],
)
async def test_what_was_refused_comes_again_later_and_arrives_once(
    sqlite: Database, home: Path, step: str, said: str, told: str
):
    """At each step of the protocol: the row says why without the server's own words, and waits; later it is
    taken, under the same id, and never sent again."""
    tenant = (await create_tenant(sqlite, "acme")).tenant_id
    target = await add_target(sqlite, tenant, "email", "ops@example.com")
    message = await send_test(sqlite, tenant, target.id)
    async with post_office(SmtpStub({step: said})) as office:
        settings = settings_for(office, home)
        before_ms = now_ms()
        assert await OutboxSender(sqlite, settings).send_due() == 1
        row = await row_of(sqlite, message)
        assert (row.state, row.attempts, row.last_error) == ("waiting", 1, told)
        assert row.next_attempt_ms - before_ms >= FIRST_RETRY_MS // 2
        assert row.next_attempt_ms <= now_ms() + FIRST_RETRY_MS
        assert (await OutboxSender(sqlite, settings).send_due(), office.taken) == (0, [])
        office.says.clear()
        await make_due(sqlite)
        assert [await OutboxSender(sqlite, settings).send_due() for _ in range(2)] == [1, 0]
        assert [each["Message-ID"] for each in office.messages] == [f"<{message.id}@127.0.0.1>"]
    assert ((await row_of(sqlite, message)).state, (await row_of(sqlite, message)).attempts) == ("sent", 2)


async def test_what_was_taken_is_not_sent_again_however_the_server_says_goodbye(home: Path):
    """Its 250 is the receipt: what comes after it is about the connection."""
    async with post_office(SmtpStub({"QUIT": "421 shutting down"})) as office:
        await send_mail(settings_for(office, home), "ops@example.com", "Parley: x", "x\n", "m1")
    assert len(office.taken) == 1


async def test_an_address_beyond_ascii_is_for_servers_that_know_such(home: Path):
    """Another one is said to be the reason, not what the settings say of TLS."""
    address = "zoë@example.com"
    async with post_office(SmtpStub(international=True)) as office:
        await send_mail(settings_for(office, home), address, "Parley: x", "x\n", "m1")
        assert office.taken[0].rcpt_tos == [address]
    async with post_office(SmtpStub()) as office:
        assert await refused(settings_for(office, home), address) == (
            "the mail server takes no addresses beyond ASCII (SMTPUTF8)"
        )
        assert office.taken == []


async def test_a_sender_who_has_no_address_is_told_of_its_setting(home: Path):
    """Nothing is sent."""
    async with post_office(SmtpStub()) as office:
        assert "PARLEY_SMTP_FROM" in await refused(settings_for(office, home, smtp_from="<>"))
        assert office.taken == []


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
async def test_a_message_that_took_too_long_is_not_sent_after_all(
    home: Path, monkeypatch: pytest.MonkeyPatch, security: str
):
    """A server that holds out is hung up on: it gets no message that the next try sends again, and keeps no
    thread of ours."""
    monkeypatch.setattr(mail_connection, "CONNECT_SECONDS_MAX", 60.0)
    of_tls = security == "tls"
    async with holding_out(b"" if of_tls else b"220-wait\r\n", heard=1 if of_tls else 0) as server:
        settings = settings_for(SmtpStub(port=server.port), home, smtp_security=security)
        sending = asyncio.create_task(send_mail(settings, "ops@example.com", "Parley: x", "x\n", "m1"))
        await soon(server.came.wait())
        sending.cancel()  # as its time limit does
        await soon(server.left.wait())
        await asyncio.gather(sending, return_exceptions=True)
        await soon(asyncio.get_running_loop().shutdown_default_executor())


async def test_a_message_has_only_so_long(home: Path, monkeypatch: pytest.MonkeyPatch):
    """In all, however soon each step is answered."""
    monkeypatch.setattr(mail_connection, "SECONDS_MAX", 0.0)
    async with post_office(SmtpStub()) as office:
        assert await refused(settings_for(office, home)) == "the mail server did not take it in time"
        await soon(asyncio.get_running_loop().shutdown_default_executor())


async def test_an_answer_without_an_end_is_none(home: Path):
    """It would fill our memory for as long as it is read."""
    left = asyncio.Event()

    async def goes_on(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"220-and then\r\n" * 1_000)
                await writer.drain()
        writer.close()
        left.set()

    async with await asyncio.start_server(goes_on, "127.0.0.1", 0) as server:
        office = SmtpStub(port=server.sockets[0].getsockname()[1])
        assert await soon(refused(settings_for(office, home))) == "mail server: SMTPResponseException -1"
        await soon(left.wait())
