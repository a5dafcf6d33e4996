"""What one person may not move alone: proposed by a command, and approved by a second person."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from billing.approvals.approve import BY_PEOPLE
from billing.approvals.approver_mail import tell_approvers
from billing.enforcement import take_credit
from billing.operations import approvals, wallets
from billing.operations.approvals import NameProposal
from billing.people.persons import create_member
from billing.tables.approvals import Proposal
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import local_actor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from core.actor import Author, acting_as
from core.clock import now_ms
from core.errors import Refused
from core.operations import Role
from core.redis.client import connect
from core.sql.database import Database
from tests.billing.approvals.approvals_office import AGAIN, EMAILS, MUCH, OF, ApprovalsOffice
from tests.billing.approvals.approvals_office import office as office
from tests.billing.cli.commands import rows
from tests.billing.mail_server import MailServer, mail_server
from tests.billing.quota.quota_ledger import COST, QuotaLedger
from tests.support.home import settings_in

WHY = ("--reason", "r", "--yes")


def test_a_move_above_the_limit_takes_two(office: ApprovalsOffice) -> None:
    """Nothing moves until somebody else approves it; then the wallet is lower at once, and the audit log has
    two authors. It is booked once."""
    id = office.proposed(*MUCH)
    assert office.left() == 300 * 10**9
    (listed,) = rows(office.types("approvals", "list", "--json"))
    assert (listed["proposal"], listed["kind"], listed["state"]) == (id, "pay_out", "waiting")
    assert listed["amount_nano"] == 200 * 10**9
    assert "pay-out" in office.types("approvals", "list").output
    listed = office.types("audit", "list", *OF).output
    assert ("move (ask (amount (currency USD, nano 200" in listed, "{'" in listed) == (True, False)
    office.approves(id)
    assert office.left() == 100 * 10**9
    office.acme.agrees()
    office.refused("does not wait any more: it is booked", "approvals", "approve", id)
    found = {row["action"]: row for row in rows(office.types("audit", "list", *OF, "--json"))}
    authors = {action: found[f"proposal.{action}"]["author"] for action in ("make", "approve")}
    assert authors["approve"] == "Bob" != authors["make"]
    assert found["wallet.pay_out"]["author"] == authors["make"]
    assert "proposal.fail" not in found
    assert office.types("audit", "verify").exit_code == 0
    assert rows(office.types("approvals", "list", "--json")) == []
    assert rows(office.types("approvals", "list", "--all", "--json"))[0]["state"] == "booked"


def test_every_kind_of_move_can_be_proposed(office: ApprovalsOffice) -> None:
    """And does what it would have done."""
    office.acme.spends("a")
    limits = {"correction_cents_max": "0", "correction_unasked_cents_max": "0"}
    office.settings |= limits
    more = ("grant", *OF, "--amount", "50 USD", "--key", "g2", "--note", "n")
    for name, move, change in (
        ("usage", ("correct", "a", *OF, "--output", "8", "--cause", "c1", "--yes"), -2),
        ("usage", ("refund", "a", *OF, "--cause", "c2", "--yes"), COST + 2),
        ("wallets", more, 50 * 10**9),
        (
            "wallets",
            ("claw-back", "g2", *OF, "--amount", "1 USD", "--key", "k", *WHY),
            -(10**9),
        ),
        ("wallets", ("grant", *OF, "--amount", "2 USD", "--key", "g3"), 2 * 10**9),
        ("wallets", ("void", "g3", *OF, *WHY), -2 * 10**9),
    ):
        before = office.left()
        id = office.proposed(*move, name=name)
        assert office.left() == before, move
        office.approves(id)
        assert office.left() == before + change, move
    assert office.acme.cost() == 0
    (found,) = [row for row in rows(office.types("wallets", "show", *OF, "--json")) if row["key"] == "g2"]
    assert (found["note"], found["author"] != "") == ("n", True)
    office.acme.agrees()


def test_without_a_second_person_it_is_refused(office: ApprovalsOffice) -> None:
    """And says whom to invite, a grant too. One that was made is still told as made."""
    office.sql("UPDATE membership SET role = 'support' WHERE role = 'finance'")
    for move in (MUCH, ("grant", *OF, "--amount", "100.01 USD", "--key", "g2")):
        office.refused("there is nobody: invite one: see `parley people invite", "wallets", *move)
    office.acme.parley("wallets", "grant", *OF, "--amount", "300 USD", "--key", "g1")
    office.acme.parley("wallets", "grant", *OF, "--amount", "100 USD", "--key", "g2")
    assert office.left() == 400 * 10**9
    assert rows(office.types("approvals", "list", "--all", "--json")) == []


def test_no_command_approves_what_a_command_proposed(office: ApprovalsOffice) -> None:
    """It acts as the owner, and is no second person: not its own Unix user's, nor another's."""
    id = office.proposed(*MUCH)
    names = (office.row(id).author, "another")

    async def approve(books: QuotaLedger) -> None:
        stores = Stores(books.settings, books.db, lambda: books.redis)
        for name in names:
            with acting_as(Author(name, "command")), pytest.raises(Refused, match=BY_PEOPLE):
                await answer_of(approvals.approve_proposal, stores, local_actor(), NameProposal(proposal=id))

    office.acme.does(approve)
    assert (office.row(id).state, office.left()) == ("waiting", 300 * 10**9)


def test_what_is_no_longer_as_it_was_proposed_is_not_booked(office: ApprovalsOffice) -> None:
    """The money is gone, the correction is another one, it was done before: looked at again, and over."""
    gone, again = office.proposed(*MUCH), office.proposed(*MUCH, *AGAIN)
    other = office.proposed("void", "g1", *OF, "--reason", "r", "--yes")
    office.approves(again)
    office.refused("was done before", "approvals", "approve", gone)
    office.refused("only one that nothing was paid from", "approvals", "approve", other)
    assert [office.row(id).state for id in (gone, other)] == ["failed", "failed"]
    assert [each["why"] for each in office.failures()] == [office.row(id).why for id in (other, gone)]
    office.acme.spends("a")
    office.settings |= {"correction_cents_max": "0", "correction_unasked_cents_max": "0"}
    id = office.proposed("correct", "a", *OF, "--output", "0", "--yes", "--cause", "c1", name="usage")
    between = ("correct", "a", *OF, "--output", "3", "--cause", "c2", "--yes")
    assert office.acme.types("usage", *between, correction_cents_max="1000000").exit_code == 0
    office.refused("propose it again", "approvals", "approve", id)


def test_what_is_booked_is_not_said_to_be_not(
    office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis goes away behind the commit: the proposal is booked, and the command says what is behind."""
    id = office.proposed(*MUCH)
    with monkeypatch.context() as patched:
        patched.setattr(wallets, "publish_wallet_changed", fails_with(RedisConnectionError("gone")))
        result = office.types("approvals", "approve", id)
    assert "is changed already, but Redis does not answer" in str(result.exception)
    assert (office.left(), office.row(id).state) == (100 * 10**9, "booked")


@pytest.mark.parametrize("error", [RedisConnectionError("gone"), RuntimeError("killed")])
def test_what_was_cut_off_is_all_or_nothing(
    office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A store goes away, or the process is killed, before the commit: the proposal still waits, nothing has
    moved, and approving it again books it once."""
    id = office.proposed(*MUCH)
    with monkeypatch.context() as patched:
        patched.setattr(take_credit, "push_limits", fails_with(error))
        assert office.types("approvals", "approve", id).exit_code != 0
    assert (office.row(id).state, office.left()) == ("waiting", 300 * 10**9)
    office.approves(id)
    assert (office.row(id).state, office.left()) == ("booked", 100 * 10**9)
    office.acme.agrees()


def fails_with(error: Exception) -> Callable[..., Awaitable[None]]:
    """Something that does not come to its end."""

    async def fail(*_: object) -> None:
        raise error

    return fail


def test_a_proposal_that_is_rejected_is_over(office: ApprovalsOffice) -> None:
    """By anybody, with a reason."""
    id = office.proposed(*MUCH)
    office.refused("reason: expected a name", "approvals", "reject", id, "--reason", " ")
    for dry, state in (("--dry-run",), "waiting"), ((), "rejected"):
        assert office.types("approvals", "reject", id, "--reason", "no", *dry).exit_code == 0
        assert office.row(id).state == state
    office.refused("it is rejected", "approvals", "approve", id)
    office.refused("it is rejected", "approvals", "reject", id, "--reason", "no")
    assert rows(office.types("audit", "list", *OF, "--json"))[0]["action"] == "proposal.reject"


async def test_a_mail_goes_by_the_installations_mail_server(home: Path, sqlite: Database) -> None:
    """To who may approve; what people wrote breaks no line of it."""
    for name, email in EMAILS.items():
        await create_member(sqlite, PLATFORM, name, Role.FINANCE, email)
    facts: dict[str, Any] = {"tenant_id": "t", "id": "i", "kind": "void", "move": "{}", "by": "unix:ann"}
    facts |= {"amount_nano": 10**9, "created_ms": 0, "expires_ms": 61_999}
    async with mail_server(MailServer()) as server:
        settings = settings_in(home, smtp_host="127.0.0.1", smtp_port=server.port, smtp_security="none")
        stores = Stores(settings, sqlite, lambda: connect(settings))
        await tell_approvers(stores, Proposal(**facts, author="Ann\r\nBcc: x@y.z"))
    (mail,) = server.mails
    assert f"To: {EMAILS['Bob']}" in mail
    assert "\nBcc:" not in mail
    assert "void of $1.00" in mail
    assert "parley approvals approve i" in mail


def test_a_dry_run_and_what_nobody_meant_propose_nothing(office: ApprovalsOffice) -> None:
    """No mail goes out."""
    office.settings = {"smtp_host": "mail.example.com"}
    assert office.types("wallets", *MUCH, "--dry-run").exit_code == 0
    office.refused("say --yes", "wallets", *MUCH[:-1])
    assert office.mails == []
    assert rows(office.types("approvals", "list", "--all", "--json")) == []


def test_a_dry_run_tells_what_would_become_of_it(office: ApprovalsOffice) -> None:
    """One line on stderr, where it takes a second person."""
    assert "it would be proposed" in office.types("wallets", *MUCH, "--dry-run").stderr
    assert "would be" not in office.types("wallets", *MUCH, "--dry-run", correction_cents_max="100000").stderr


def test_only_so_many_wait(office: ApprovalsOffice) -> None:
    """Nobody is flooded with mails. What expired waits no more; all are listed where that is asked."""
    id = office.proposed(*MUCH)
    ends_ms = office.row(id).expires_ms
    more = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) "
        "INSERT INTO proposal SELECT tenant_id, :named || i, kind, move, amount_nano, author, by, "
        "state, why, created_ms - i, :ends_ms, ended_ms FROM proposal, n WHERE id = :id"
    )
    office.sql(more, count=901, named="00over", ends_ms=now_ms() - 1, id=id)
    office.sql(more, count=98, named="00more", ends_ms=ends_ms, id=id)
    office.proposed(*MUCH, *AGAIN)
    office.refused("100 proposals wait already", "wallets", *MUCH, "--reason", "third")
    assert len(rows(office.types("approvals", "list", "--json"))) == 100
    everything = rows(office.types("approvals", "list", "--all", "--json"))
    assert (len(everything), everything[1]["proposal"]) == (1_001, id)
    office.types("approvals", "reject", id, "--reason", "no")
    office.proposed(*MUCH)


def test_what_is_no_id_of_a_proposal_is_refused(office: ApprovalsOffice) -> None:
    """As one that nobody has."""
    for id in ("x", "*", "' OR 1=1", "\x1b[2J", "٣"):
        office.refused("there is no proposal", "approvals", "approve", id)
        office.refused("there is no proposal", "approvals", "reject", id, "--reason", "r")
