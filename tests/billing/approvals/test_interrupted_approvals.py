"""Approvals that were cut off, and moves that are small one by one."""

from typing import Any

import pytest

from billing.approvals import proposals, recent_moves
from billing.approvals.codes import new_code
from billing.approvals.money_actions import (
    CorrectionAction,
    GrantAction,
    MoneyActionResult,
    Move,
    UndoAction,
    about,
    action_kind,
    action_text,
)
from billing.approvals.one_person import needs_two
from billing.audit import log
from billing.booking.amount_bounds import AmountBounds
from billing.enforcement import take_credit
from billing.ledger.grant_spending import GrantKind
from billing.wallets.undo import Undo, UndoKind
from core.actor import Author, current_author
from core.sql.database import Database
from tests.billing.approvals.approvals_office import MUCH, OF, ApprovalsOffice, office
from tests.billing.cli.commands import rows

__all__ = ["office"]


@pytest.mark.parametrize("after", [False, True])
def test_what_was_cut_off_is_booked_by_the_same_code(
    office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Killed between approving and booking, or between that and saying so: booked once, and it says so."""
    id, code = office.proposed(*MUCH)

    async def killed(*_: Any) -> Any:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(take_credit, "publish_wallet_changed", killed) if after else patched.setattr(
            proposals, "book", killed
        )
        assert office.types(*office.approve(id, code)).exit_code != 0
    assert office.row(id).state == "approved"
    assert [row["proposal"] for row in rows(office.types("approvals", "list", "--json"))] == [id]
    office.refused("not the one that was sent", *office.approve(id, new_code()))
    (done,) = rows(office.types(*office.approve(id, code), "--json"))
    assert (done["proposal"], done["amount_nano"], done["done"]) == (id, 200 * 10**9, "booked")
    assert (office.left(), office.row(id).state) == (100 * 10**9, "booked")
    office.acme.agrees()
    office.refused("does not wait any more: it is booked", *office.approve(id, code))


def test_what_was_cut_off_is_looked_at_again(
    office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its booking something else was booked: what was approved is another sum by now."""
    office.acme.spends("a")
    office.settings |= {"correction_cents_max": "0", "correction_unasked_cents_max": "0"}
    id, code = office.proposed("refund", "a", *OF, "--cause", "c1", "--yes", name="usage")

    async def killed(*_: Any) -> Any:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(proposals, "book", killed)
        assert office.types(*office.approve(id, code)).exit_code != 0
    less = ("usage", "correct", "a", *OF, "--output", "3", "--cause", "c2", "--yes")
    assert office.acme.types(*less).exit_code == 0
    office.refused("propose it again", *office.approve(id, code))


def test_moves_below_the_limit_count_together(
    office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one person, or one tenant, within 24 hours; what two decided is not among it."""
    one_day_later = recent_moves.now_ms() + recent_moves.LATELY_MS + 1_000
    with monkeypatch.context() as patched:
        patched.setattr(recent_moves, "now_ms", lambda: one_day_later)  # the grant of the office is a day old
        assert office.types("wallets", *_part("a", 60)).exit_code == 0
    monkeypatch.setattr(recent_moves, "MOVES", ("wallet.pay_out",))
    id, code = office.proposed(*_part("b", 60))
    assert office.left() == 240 * 10**9
    assert office.types(*office.approve(id, code)).exit_code == 0
    assert office.types("wallets", *_part("c", 40)).exit_code == 0
    assert office.types("wallets", *_part("a", 60)).exit_code == 0  # done before
    office.proposed(*_part("d", 1))
    assert office.left() == 140 * 10**9


def test_only_so_many_wait(office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is flooded with mails. What expired waits no more; of all the last ones are listed."""
    id, _ = office.proposed(*MUCH)
    ends_ms = office.row(id).expires_ms
    more = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) "
        "INSERT INTO proposal SELECT tenant_id, :named || i, kind, move, amount_nano, author, second, "
        "code_sha256, tries, state, why, created_ms - i, :ends_ms, ended_ms FROM proposal, n WHERE id = :id"
    )
    office.sql(more, count=901, named="over", ends_ms=ends_ms - 1, id=id)
    office.sql(more, count=98, named="more", ends_ms=ends_ms, id=id)
    monkeypatch.setattr(proposals, "now_ms", lambda: ends_ms - 1)
    office.proposed(*MUCH)
    office.refused("100 proposals wait already", "wallets", *MUCH)
    assert len(rows(office.types("approvals", "list", "--json"))) == 100
    everything = rows(office.types("approvals", "list", "--all", "--json"))
    assert (len(everything), everything[1]["proposal"]) == (1_000, id)
    office.types("approvals", "reject", id, "--reason", "no")
    office.proposed(*MUCH)


def _part(key: str, dollars: int) -> tuple[str, ...]:
    return ("pay-out", *OF, "--amount", f"{dollars} USD", "--key", key, "--reason", "left us", "--yes")


def test_what_a_move_was_is_read_in_the_audit_log() -> None:
    """By its kind."""
    lines = '{"lines":[{"amount_nano":-7},{"amount_nano":2}]}'
    assert recent_moves.amount_of_audit_row("request.refund", lines) == 5
    assert recent_moves.amount_of_audit_row("wallet.grant", '{"amount_nano":9}') == 9
    assert recent_moves.amount_of_audit_row("request.correct", '{"bytes":70000,"sha256":"x"}') == 0
    assert recent_moves.amount_of_audit_row("wallet.void", '{"bytes":70000,"sha256":"x"}') == 0


async def test_what_was_moved_lately_is_a_persons_and_a_tenants(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 24 hours to the millisecond; what two decided is left out, and what moves nothing."""
    now = 1_790_812_800_000
    for nano, (tenant, name, source, action, ago_ms) in {
        1: ("t1", "ann", "command", "wallet.grant", 86_400_000),
        10: ("t1", "ann", "command", "wallet.grant", 86_400_001),
        100: ("t1", "bob", "command", "wallet.void", 0),
        1_000: ("t2", "ann", "command", "wallet.claw_back", 0),
        10_000: ("t2", "bob", "command", "wallet.pay_out", 0),
        100_000: ("t1", "ann", "approved", "wallet.pay_out", 0),
        1_000_000: ("t1", "ann", "command", "wallet.other", 0),
    }.items():
        monkeypatch.setattr(log, "now_ms", lambda ago_ms=ago_ms: now - ago_ms)
        by = Author(name, source)
        await log.record_separately(sqlite, tenant, action, "x", {"amount_nano": -nano}, by)
    monkeypatch.setattr(recent_moves, "now_ms", lambda: now)
    async with sqlite.session() as session:
        assert await recent_moves.recent_amounts(session, "t1", "ann") == 1_101
        assert await recent_moves.recent_amounts(session, "t3", "bob") == 10_100
        assert await recent_moves.recent_amounts(session, "t3", "eve") == 0


@pytest.mark.parametrize(
    ("moved", "lately_nano", "two"),
    [
        (MoneyActionResult(100), 0, False),
        (MoneyActionResult(101), 0, True),
        (MoneyActionResult(60), 40, False),
        (MoneyActionResult(60), 41, True),
        (MoneyActionResult(101, done=True), 41, False),
        (MoneyActionResult(0), 101, False),
        (MoneyActionResult(1), 101, True),
    ],
)
def test_what_takes_two_is_said_to_the_nano(moved: MoneyActionResult, lately_nano: int, two: bool) -> None:
    """What was done before, or moves nothing, takes nobody."""
    assert needs_two(moved, AmountBounds(1, 100), lately_nano) is two


@pytest.mark.parametrize(
    ("move", "kind", "words", "line"),
    [
        (GrantAction(GrantKind.PAID, 5, "k", note="n"), "grant", "grant", "paid grant k n"),
        (GrantAction(GrantKind.PROMO, 5, "k"), "grant", "grant", "promo grant k"),
        (UndoAction(UndoKind.VOID, "why", "g"), "void", "void", "grant g: why"),
        (UndoAction(UndoKind.CLAW_BACK, "why", "g", 5, "k"), "claw_back", "claw-back", "grant g: why"),
        (UndoAction(UndoKind.PAY_OUT, "why", "", 5, "k"), "pay_out", "pay-out", "k: why"),
        (CorrectionAction("r", {"output": 1}, "c"), "correct", "correction", "request r: c"),
        (CorrectionAction("r", None, "c"), "refund", "refund", "request r: c"),
    ],
)
def test_each_kind_of_move_is_called_by_its_command(move: Move, kind: str, words: str, line: str) -> None:
    """And said in a line."""
    assert (action_kind(move), action_text(kind), about(move)) == (kind, words, line)


def test_a_move_is_of_who_acts() -> None:
    """What is not named is nothing."""
    who = current_author().name
    assert UndoAction(UndoKind.VOID, "why", "g").undo() == Undo(UndoKind.VOID, "g", 0, "", "why", who)
    assert GrantAction(GrantKind.PAID, 5, "k").new().author == who
