"""What one person may not move alone: proposed, and approved with a code that only a second person got."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from billing.alerts.webhooks import NotDelivered
from billing.approvals import proposals, second_person
from billing.approvals.codes import CODE_BYTES, code_hash, is_code_of, new_code
from billing.enforcement import take_credit
from billing.operations import wallets
from billing.tables.approvals import Proposal
from billing.unit_of_work import actors
from chaos.books.mailbox import MailServer, mail_server
from core.actor import Author
from core.signing.signed_text import Keyring
from tests.billing.approvals.approvals_office import CODE, MUCH, OF, SECOND, ApprovalsOffice
from tests.billing.approvals.approvals_office import office as office
from tests.billing.cli.commands import rows
from tests.billing.quota.quota_ledger import COST
from tests.support.home import settings_in

KEYS = Keyring(b"k" * 32)
WHY = ("--reason", "r", "--yes")
HOOK = "https://example.com/hook"


def test_a_move_above_the_limit_takes_two(office: ApprovalsOffice) -> None:
    """Nothing moves until the code is typed; then the wallet is lower at once, and the audit log has two
    authors. The code is good once."""
    id, code = office.proposed(*MUCH)
    assert office.left() == 300 * 10**9
    (listed,) = rows(office.types("approvals", "list", "--json"))
    assert (listed["proposal"], listed["kind"], listed["state"]) == (id, "pay_out", "waiting")
    assert listed["amount_nano"] == 200 * 10**9
    assert "pay-out" in office.types("approvals", "list").output
    listed = office.types("audit", "list", *OF).output
    assert ("move (ask (amount (currency USD, nano 200" in listed, "{'" in listed) == (True, False)
    assert "pay-out of $200.00, tenant acme" in office.mails[0][1]
    done = office.types(*office.approve(id, code.lower().replace("-", " ")))
    assert done.exit_code == 0, (done.output, done.exception)
    assert office.left() == 100 * 10**9
    office.acme.agrees()
    office.refused("does not wait any more: it is booked", *office.approve(id, code))
    found = {row["action"]: row for row in rows(office.types("audit", "list", *OF, "--json"))}
    authors = {action: found[f"proposal.{action}"]["author"] for action in ("make", "approve")}
    assert authors["approve"] == f"{SECOND} by code" != authors["make"]
    assert found["wallet.pay_out"]["author"] == authors["make"]
    assert code not in str(found)
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
        id, code = office.proposed(*move, name=name)
        assert office.left() == before, move
        result = office.types(*office.approve(id, code))
        assert result.exit_code == 0, (move, result.exception)
        assert office.left() == before + change, move
    assert office.acme.cost() == 0
    (found,) = [row for row in rows(office.types("wallets", "show", *OF, "--json")) if row["key"] == "g2"]
    assert (found["note"], found["author"] != "") == ("n", True)
    office.acme.agrees()


def test_without_a_second_person_it_is_refused(office: ApprovalsOffice) -> None:
    """And says what to set, a grant too. One that was made is still told as made."""
    office.settings = {}
    office.refused("PARLEY_SECOND_PERSON", "wallets", *MUCH)
    office.refused("PARLEY_SECOND_PERSON", "wallets", "grant", *OF, "--amount", "100.01 USD", "--key", "g2")
    office.acme.parley("wallets", "grant", *OF, "--amount", "300 USD", "--key", "g1")
    office.acme.parley("wallets", "grant", *OF, "--amount", "100 USD", "--key", "g2")
    assert office.left() == 400 * 10**9


def test_a_code_is_of_its_own_proposal_only(office: ApprovalsOffice) -> None:
    """Not of another one, nor of this one after somebody changed it."""
    first, code = office.proposed(*MUCH)
    second, _ = office.proposed(*MUCH[:-3], "--reason", "other", "--yes")
    office.refused("not the one that was sent", *office.approve(second, code))
    for column, value in (
        ("amount_nano", 1),
        ("move", office.row(first).move.replace("left us", "left me")),
        ("tenant_id", "other"),
        ("expires_ms", 1 << 50),
        ("author", "nobody"),
    ):
        kept = getattr(office.row(first), column)
        office.sql(f"UPDATE proposal SET {column} = :value, tries = 0 WHERE id = :id", value=value, id=first)
        office.refused("not the one that was sent", *office.approve(first, code))
        office.sql(f"UPDATE proposal SET {column} = :value, tries = 0 WHERE id = :id", value=kept, id=first)
    assert office.types(*office.approve(first, code)).exit_code == 0


def test_wrong_codes_are_bounded(office: ApprovalsOffice) -> None:
    """After five the right one is wrong too."""
    id, code = office.proposed(*MUCH)
    for wrong in ("", "x", code[:-1], new_code()):
        office.refused("the code is not the one that was sent for this proposal", *office.approve(id, wrong))
        assert office.row(id).state == "waiting"
    office.refused("it is over", *office.approve(id, "0" * 32))
    office.refused("it is failed", *office.approve(id, code))
    assert (office.row(id).tries, office.row(id).why) == (proposals.TRIES_MAX, "5 codes were wrong")
    assert office.failures() == [{"why": "5 codes were wrong"}]


def test_a_code_ends_after_half_an_hour(office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the millisecond."""
    id, code = office.proposed(*MUCH)
    row = office.row(id)
    assert row.expires_ms - row.created_ms == 30 * 60_000
    monkeypatch.setattr(proposals, "now_ms", lambda: row.expires_ms)
    office.refused("it is expired", *office.approve(id, code))
    assert rows(office.types("approvals", "list", "--json")) == []
    monkeypatch.setattr(proposals, "now_ms", lambda: row.expires_ms - 1)
    assert office.types(*office.approve(id, code)).exit_code == 0


def test_what_is_no_longer_as_it_was_proposed_is_not_booked(office: ApprovalsOffice) -> None:
    """The money is gone, the correction is another one, it was done before: looked at again, and over."""
    gone, first = office.proposed(*MUCH)
    again, second = office.proposed(*MUCH)
    other, third = office.proposed("void", "g1", *OF, "--reason", "r", "--yes")
    assert office.types(*office.approve(again, second)).exit_code == 0
    office.refused("was done before", *office.approve(gone, first))
    office.refused("only one that nothing was paid from", *office.approve(other, third))
    assert [office.row(id).state for id in (gone, other)] == ["failed", "failed"]
    assert [each["why"] for each in office.failures()] == [office.row(id).why for id in (other, gone)]
    office.acme.spends("a")
    office.settings |= {"correction_cents_max": "0", "correction_unasked_cents_max": "0"}
    less = ("correct", "a", *OF, "--output", "0", "--yes")
    id, code = office.proposed(*less, "--cause", "c1", name="usage")
    between = ("usage", "correct", "a", *OF, "--output", "3", "--cause", "c2", "--yes")
    assert office.acme.types(*between).exit_code == 0
    office.refused("propose it again", *office.approve(id, code))


def test_what_is_booked_is_not_said_to_be_not(
    office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis goes away behind the commit: the proposal is booked, and the command says what is behind."""
    id, code = office.proposed(*MUCH)

    async def away(*_: object) -> None:
        raise RedisConnectionError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(wallets, "publish_wallet_changed", away)
        result = office.types(*office.approve(id, code))
    assert "is changed already, but Redis does not answer" in str(result.exception)
    assert (office.left(), office.row(id).state) == (100 * 10**9, "booked")


def test_what_may_be_booked_is_not_said_to_be_not(
    office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store goes away before the commit: the proposal is over, says so, and can be proposed again."""
    id, code = office.proposed(*MUCH)

    async def away(*_: object) -> None:
        raise RedisConnectionError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(take_credit, "push_limits", away)
        result = office.types(*office.approve(id, code))
    assert "Redis does not answer" in str(result.exception)
    row = office.row(id)
    assert (row.state, "maybe after it was booked" in row.why) == ("failed", True)
    assert office.left() == 300 * 10**9
    id, code = office.proposed(*MUCH)
    assert office.types(*office.approve(id, code)).exit_code == 0
    assert office.left() == 100 * 10**9


def test_a_proposal_that_is_rejected_is_over(office: ApprovalsOffice) -> None:
    """By anybody, with a reason."""
    id, code = office.proposed(*MUCH)
    office.refused("reason: expected a name", "approvals", "reject", id, "--reason", " ")
    for dry, state in (("--dry-run",), "waiting"), ((), "rejected"):
        assert office.types("approvals", "reject", id, "--reason", "no", *dry).exit_code == 0
        assert office.row(id).state == state
    office.refused("it is rejected", *office.approve(id, code))
    office.refused("it is rejected", "approvals", "reject", id, "--reason", "no")
    assert rows(office.types("audit", "list", *OF, "--json"))[0]["action"] == "proposal.reject"


def test_nobody_is_his_own_second_person(office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does what cannot be sent wait for a code that nobody has."""
    with monkeypatch.context() as patched:
        name = f"Second {SECOND.upper()}"
        patched.setattr(actors, "current_author", lambda: Author(name, "command"))
        office.refused("another one than who proposes", "wallets", *MUCH)

    async def fails(*_: object) -> None:
        raise NotDelivered("mail server: OSError " + 600 * "x")

    monkeypatch.setattr(second_person, "send_mail", fails)
    office.refused("could not be sent", "wallets", *MUCH)
    (row,) = rows(office.types("approvals", "list", "--all", "--json"))
    assert (row["state"], "not delivered" in row["why"], len(row["why"])) == ("failed", True, 500)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"second_person": SECOND, "smtp_host": ""}, "PARLEY_SMTP_HOST"),
        ({"second_person": "nobody"}, "no e-mail address"),
        ({"second_person": HOOK}, "PARLEY_SECOND_PERSON_SECRET"),
        (
            {"second_person": HOOK, "second_person_secret": "short"},
            "SECOND_PERSON_SECRET",
        ),
        ({"second_person": "http://example.com/hook", "second_person_secret": "x" * 16}, "https://"),
    ],
)
def test_a_second_person_can_be_reached(office: ApprovalsOffice, settings: dict[str, str], says: str) -> None:
    """Else nothing is proposed."""
    office.refused(says, "wallets", *MUCH, **settings)
    assert rows(office.types("approvals", "list", "--all", "--json")) == []


def test_a_webhook_gets_the_code_signed(office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same facts as in a mail."""
    sent: list[Any] = []

    async def send(_: object, webhook: Any, message_id: str, body: bytes, at: int) -> None:
        sent.append((webhook, message_id, body, at))

    monkeypatch.setattr(second_person, "send_webhook", send)
    monkeypatch.setattr(second_person, "now_ms", lambda: 1_790_812_800_999)
    office.settings = {"second_person": HOOK, "second_person_secret": "s" * 16}
    result = office.types("wallets", *MUCH)
    assert "is proposed" in str(result.exception)
    ((webhook, id, body, at),) = sent
    assert (webhook.url, webhook.secret, at) == (HOOK, "s" * 16, 1_790_812_800)
    said = json.loads(body)
    assert (said["id"], said["amount_usd"], said["kind"]) == (id, "200.00", "pay_out")
    assert office.types(*office.approve(id, said["code"])).exit_code == 0
    told = str(result.exception) + office.types("approvals", "list", "--all", "--json").output
    assert "hook" not in told + office.types("audit", "list", *OF, "--json").output
    assert "https://example.com/…" in told


async def test_a_code_goes_by_the_installations_mail_server(home: Path) -> None:
    """What people wrote breaks no line of it."""
    facts: dict[str, Any] = {"tenant_id": "t", "id": "i", "kind": "void", "move": "{}", "amount_nano": 10**9}
    row = Proposal(
        **facts, author="Ann\r\nBcc: x@y.z", second=SECOND, code_sha256="", created_ms=0, expires_ms=61_999
    )
    code = new_code()
    async with mail_server(MailServer()) as server:
        settings = settings_in(home, smtp_host="127.0.0.1", smtp_port=server.port, smtp_security="none")
        await second_person.send_code(
            settings, row, second_person.ProposalSummary("acme", "why\n\n    AAAA", code)
        )
    (mail,) = server.mails
    assert CODE.findall(mail.replace("\r\n", "\n")) == [code]
    assert f"To: {SECOND}" in mail
    assert "\nBcc:" not in mail
    assert "until 1970-01-01T00:01:01+00:00" in mail.replace("=\r\n", ""), mail
    assert "a void of $1.00, tenant acme" in mail


def test_a_dry_run_and_what_nobody_meant_propose_nothing(office: ApprovalsOffice) -> None:
    """No mail goes out."""
    assert office.types("wallets", *MUCH, "--dry-run").exit_code == 0
    office.refused("say --yes", "wallets", *MUCH[:-1])
    assert office.mails == []


def test_what_is_no_id_of_a_proposal_is_refused(office: ApprovalsOffice) -> None:
    """As one that nobody has."""
    office.refused("no terminal", "approvals", "approve", "x")
    for id in ("x", "*", "' OR 1=1", "\x1b[2J", "٣"):
        office.refused("there is no proposal", *office.approve(id, "x"))
        office.refused("there is no proposal", "approvals", "reject", id, "--reason", "r")


def test_codes_hold_128_bits_and_only_their_hash_is_kept() -> None:
    """All letters of it count, and no other text passes for it."""
    codes = {new_code() for _ in range(50)}
    assert len(codes) == 50
    for code in codes:
        padded = code.replace("-", "") + "======"
        assert len(base64.b32decode(padded)) == CODE_BYTES == 16
    facts: dict[str, Any] = {"tenant_id": "t", "id": "i", "kind": "void", "move": "{}", "amount_nano": 1}
    row = Proposal(**facts, author="a", second="s", code_sha256="", created_ms=0, expires_ms=1)
    code = codes.pop()
    row.code_sha256 = code_hash(code, row, KEYS)
    assert code not in str(row.model_dump())
    assert is_code_of(code, row, KEYS)
    assert not is_code_of(code, row, Keyring(b"x" * 32))
    assert is_code_of(code, row, Keyring(b"x" * 32, KEYS.current))
    assert not any(is_code_of(wrong, row, KEYS) for wrong in (code[1:], code + "A", code[::-1], "", *codes))
