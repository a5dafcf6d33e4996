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
from billing.people import persons, totp
from billing.people.person_sessions import list_person_sessions
from billing.tables.tenants import PLATFORM
from core.actor import Author, acting_as
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database
from tests.billing.approvals.approvals_office import AGAIN, EMAILS, MUCH, OF, PASSWORD, ApprovalsOffice
from tests.billing.approvals.approvals_office import office as office
from tests.billing.cli.commands import rows
from tests.billing.quota.quota_ledger import QuotaLedger
from tests.support.home import TEST_SECRET, settings_in


def open_sessions(office: ApprovalsOffice) -> int:
    """How many people are signed in."""

    async def look(books: QuotaLedger) -> Any:
        return await list_person_sessions(books.db, PLATFORM)

    return len(office.acme.does(look))


def test_a_second_person_signs_in_for_one_approval(office: ApprovalsOffice) -> None:
    """It is booked in both names, and their session is over; the password stands nowhere."""
    id = office.proposed(*MUCH)
    terminal = office.sits_down(EMAILS["Bob"])
    (done,) = rows(office.types("approvals", "approve", id, "--json"))
    assert done == {"proposal": id, "kind": "pay_out", "amount_nano": 200 * 10**9, "done": "booked"}
    assert (office.left(), office.row(id).state, open_sessions(office)) == (100 * 10**9, "booked", 0)
    assert terminal.asked == ["E-mail of the second person", "Password"]
    audited = {row["action"]: row for row in rows(office.types("audit", "list", *OF, "--json"))}
    assert audited["proposal.approve"]["author"] == "Bob" != audited["wallet.pay_out"]["author"]
    office.refused("it is booked", "approvals", "approve", id)


def test_a_wrong_password_books_nothing(office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does somebody unknown, or nobody at a terminal; it still waits."""
    id = office.proposed(*MUCH)
    for email, password in ((EMAILS["Bob"], "wrong"), ("eve@example.com", PASSWORD)):
        office.sits_down(email, password)
        office.refused("", "approvals", "approve", id)
    monkeypatch.setattr(command, "has_terminal", lambda: False)
    office.refused("no terminal", "approvals", "approve", id)
    assert (office.row(id).state, open_sessions(office)) == ("waiting", 0)


def test_the_commands_own_user_is_no_second_person(office: ApprovalsOffice) -> None:
    """A person with the name of the Unix user who proposed it, whatever its case; their session ends too."""
    id = office.proposed(*MUCH)
    by, author = office.row(id).by, office.row(id).author
    assert by == f"unix:{author}"
    office.sql(
        "UPDATE person SET name = :name WHERE email = :email", name=author.upper(), email=EMAILS["Bob"]
    )
    office.sits_down(EMAILS["Bob"])
    office.refused("somebody else approves", "approvals", "approve", id)
    assert (office.row(id).state, open_sessions(office)) == ("waiting", 0)
    office.sits_down(EMAILS["Ann"])
    assert office.types("approvals", "approve", id).exit_code == 0


def test_a_second_factor_is_asked_for(office: ApprovalsOffice, home: Path) -> None:
    """Of who has one; a wrong code books nothing."""
    id, secret = office.proposed(*MUCH), totp.new_secret()

    async def enroll(books: QuotaLedger) -> None:
        found = await persons.find_member(books.db, PLATFORM, EMAILS["Bob"])
        keyring = settings_in(home).keyring
        hidden = totp.hide_secret(secret, found.person.id, keyring)
        async with books.db.engine.begin() as connection:
            await connection.exec_driver_sql(
                "UPDATE person SET totp_hidden = ? WHERE id = ?", (hidden, found.person.id)
            )

    office.acme.does(enroll)
    office.settings = {"secret": TEST_SECRET}
    office.sits_down(EMAILS["Bob"], Code="000000")
    office.refused("", "approvals", "approve", id)
    office.sits_down(EMAILS["Bob"], Code=TOTP(secret).at(now_ms() // 1000))
    result = office.types("approvals", "approve", id)
    assert (result.exit_code, office.row(id).state, open_sessions(office)) == (0, "booked", 0), (
        result.exception
    )


def test_whoever_may_approve_is_told_by_mail(
    office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a mail server is set; a mail that it refuses changes nothing of the proposal."""
    id = office.proposed(*MUCH)
    assert office.mails == []
    office.settings = {"smtp_host": "mail.example.com"}
    id = office.proposed(*MUCH, *AGAIN)
    assert office.proposed(*MUCH, *AGAIN) == id  # of which nobody hears twice
    assert sorted(address for address, _ in office.mails) == sorted(EMAILS.values())
    assert {(id in mail, "pay-out of $200.00" in mail) for _, mail in office.mails} == {(True, True)}

    async def refuse(*_: object) -> None:
        raise NotDelivered("no")

    monkeypatch.setattr(approver_mail, "send_mail", refuse)
    assert office.row(office.proposed(*MUCH, "--reason", "third")).state == "waiting"


async def test_held_events_count_with_other_moves_where_there_are_two(database: Database) -> None:
    """60 USD after 60 by the same author: each by itself while there is one person, too much once there are
    two."""
    limits, ann = OneDecision(AmountBounds(10**9, 100 * 10**9)), Author("ann", "command")
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
