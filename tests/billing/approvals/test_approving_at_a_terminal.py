"""A second person who signs in at the terminal of the machine, for one approval."""

from pathlib import Path
from typing import Any

import pytest
from pyotp.totp import TOTP

from billing.alerts.webhooks import NotDelivered
from billing.approvals import approver_mail
from billing.approvals.one_person import OneDecision
from billing.audit.log import record_separately
from billing.booking.amount_bounds import AmountBounds
from billing.cli import approvals as command
from billing.cli import person_sign_in
from billing.people import own_account, persons, totp
from billing.people.passwords import Passwords
from billing.people.person_sessions import list_person_sessions
from billing.tables.tenants import PLATFORM
from core.actor import Author, acting_as
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database
from tests.billing.approvals.approvals_office import MUCH, OF, ApprovalsOffice
from tests.billing.approvals.approvals_office import office as office
from tests.billing.cli.commands import rows
from tests.billing.quota.quota_ledger import QuotaLedger
from tests.support.home import TEST_SECRET, settings_in

PASSWORD = "correct horse battery"
EMAILS = {"Ann": "ann@example.com", "Bob": "bob@example.com"}


class TypedAnswers:
    """Types what it is asked for, and keeps the questions."""

    def __init__(self, **answers: str) -> None:
        self.answers, self.asked = answers, list[str]()

    def __call__(self, what: str) -> str:
        """One question."""
        self.asked.append(what)
        return next(answer for begins, answer in self.answers.items() if what.startswith(begins))


@pytest.fixture
def two(office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch) -> ApprovalsOffice:
    """An owner and a person of finance, with passwords; no address gets a code."""
    office.settings = {}

    async def make(books: QuotaLedger) -> None:
        for name, role in (("Ann", "owner"), ("Bob", "finance")):
            made = await persons.create_member(books.db, PLATFORM, name, role, EMAILS[name])
            stored = await Passwords().hash(PASSWORD)
            await own_account.set_password(books.db, made.person.id, stored)

    office.acme.does(make)
    monkeypatch.setattr(command, "has_terminal", lambda: True)
    return office


def sits_down(
    monkeypatch: pytest.MonkeyPatch, email: str, password: str = PASSWORD, **more: str
) -> TypedAnswers:
    """Somebody at the terminal."""
    terminal = TypedAnswers(**{"E-mail": email, "Password": password}, **more)
    for name in ("prompt_line", "prompt_secret"):
        monkeypatch.setattr(person_sign_in, name, terminal)
    return terminal


def proposed(office: ApprovalsOffice) -> str:
    """The proposal that a large pay-out became."""
    said = str(office.types("wallets", *MUCH).exception)
    assert said.startswith("nothing is booked yet: it is proposed, and another owner or finance"), said
    return said.rpartition("approve ")[2].rstrip("`")


def open_sessions(office: ApprovalsOffice) -> int:
    """How many people are signed in."""

    async def look(books: QuotaLedger) -> Any:
        return await list_person_sessions(books.db, PLATFORM)

    return len(office.acme.does(look))


def test_a_second_person_signs_in_for_one_approval(
    two: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is booked in both names, and their session is over; the password stands nowhere."""
    id = proposed(two)
    terminal = sits_down(monkeypatch, EMAILS["Bob"])
    (done,) = rows(two.types("approvals", "approve", id, "--json"))
    assert done == {"proposal": id, "kind": "pay_out", "amount_nano": 200 * 10**9, "done": "booked"}
    assert (two.left(), two.row(id).state, open_sessions(two)) == (100 * 10**9, "booked", 0)
    assert terminal.asked == ["E-mail of the second person", "Password"]
    audited = {row["action"]: row for row in rows(two.types("audit", "list", *OF, "--json"))}
    assert audited["proposal.approve"]["author"] == "Bob" != audited["wallet.pay_out"]["author"]
    two.refused("it is booked", "approvals", "approve", id)


def test_a_wrong_password_books_nothing(two: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does somebody unknown, or nobody at a terminal; it still waits."""
    id = proposed(two)
    for email, password in ((EMAILS["Bob"], "wrong"), ("eve@example.com", PASSWORD)):
        sits_down(monkeypatch, email, password)
        two.refused("", "approvals", "approve", id)
    monkeypatch.setattr(command, "has_terminal", lambda: False)
    two.refused("no terminal", "approvals", "approve", id)
    assert (two.row(id).state, open_sessions(two)) == ("waiting", 0)


def test_the_commands_own_user_is_no_second_person(
    two: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person with the name of the Unix user who proposed it, whatever its case; their session ends too."""
    id = proposed(two)
    by, author = two.row(id).by, two.row(id).author
    assert by == f"unix:{author}"
    two.sql("UPDATE person SET name = :name WHERE email = :email", name=author.upper(), email=EMAILS["Bob"])
    sits_down(monkeypatch, EMAILS["Bob"])
    two.refused("somebody else approves", "approvals", "approve", id)
    assert (two.row(id).state, open_sessions(two)) == ("waiting", 0)
    sits_down(monkeypatch, EMAILS["Ann"])
    assert two.types("approvals", "approve", id).exit_code == 0


def test_with_one_person_only_a_command_proposes_nothing(two: ApprovalsOffice) -> None:
    """Who types it may be that person."""
    two.sql("UPDATE membership SET role = 'support' WHERE role = 'finance'")
    two.refused("takes a second person", "wallets", *MUCH)


def test_a_second_factor_is_asked_for(
    two: ApprovalsOffice, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of who has one; a wrong code books nothing."""
    id, secret = proposed(two), totp.new_secret()

    async def enroll(books: QuotaLedger) -> None:
        found = await persons.find_member(books.db, PLATFORM, EMAILS["Bob"])
        keyring = settings_in(home).keyring
        hidden = totp.hide_secret(secret, found.person.id, keyring)
        async with books.db.engine.begin() as connection:
            await connection.exec_driver_sql(
                "UPDATE person SET totp_hidden = ? WHERE id = ?", (hidden, found.person.id)
            )

    two.acme.does(enroll)
    two.settings = {"secret": TEST_SECRET}
    sits_down(monkeypatch, EMAILS["Bob"], Code="000000")
    two.refused("", "approvals", "approve", id)
    sits_down(monkeypatch, EMAILS["Bob"], Code=TOTP(secret).at(now_ms() // 1000))
    result = two.types("approvals", "approve", id)
    assert (result.exit_code, two.row(id).state, open_sessions(two)) == (0, "booked", 0), result.exception


def test_whoever_may_approve_is_told_by_mail(two: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a mail server is set; a mail that it refuses changes nothing of the proposal."""
    id = proposed(two)
    assert two.mails == []
    two.settings = {"smtp_host": "mail.example.com"}
    id = proposed(two)
    assert sorted(address for address, _ in two.mails) == sorted(EMAILS.values())
    assert {(id in mail, "pay-out of $200.00" in mail) for _, mail in two.mails} == {(True, True)}

    async def refuse(*_: object) -> None:
        raise NotDelivered("no")

    monkeypatch.setattr(approver_mail, "send_mail", refuse)
    assert two.row(proposed(two)).state == "waiting"


async def test_held_events_count_with_other_moves_where_there_are_two(database: Database) -> None:
    """60 USD after 60 by the same author: each by itself while there is one person, too much once there are
    two."""
    limits, ann = OneDecision(AmountBounds(10**9, 100 * 10**9), second=False), Author("ann", "command")
    await record_separately(database, "t1", "wallet.grant", "g", {"amount_nano": 60 * 10**9}, ann)

    async def accept() -> None:
        with acting_as(ann):
            async with database.transaction() as session:
                await limits.check(session, "t1", 60 * 10**9)

    for name in ("Bob", "Cid"):
        await accept()
        await persons.create_member(database, PLATFORM, name, "owner")
    with pytest.raises(Refused, match="with all that they"):
        await accept()
