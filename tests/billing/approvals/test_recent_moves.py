"""Moves that are small one by one, and what of a move is kept."""

from typing import Any

import pytest
from msgspec.json import encode

from billing.approvals.proposed_operations import ProposedOperation, about, kind_text, proposed_in
from billing.audit import log
from billing.booking import recent_moves
from billing.tables.approvals import Proposal
from core.actor import Author
from core.errors import Refused
from core.sql.database import Database
from tests.billing.approvals.approvals_office import OF, ApprovalsOffice, office

__all__ = ["office"]


def test_moves_below_the_limit_count_together(
    office: ApprovalsOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one person, or one tenant, within 24 hours; what two decided is not among it."""
    one_day_later = recent_moves.now_ms() + recent_moves.LATELY_MS + 1_000
    with monkeypatch.context() as patched:
        for of in (recent_moves, log):  # the grant of the office is a day old
            patched.setattr(of, "now_ms", lambda: one_day_later)
        assert office.types("wallets", *_part("a", 60)).exit_code == 0
    monkeypatch.setattr(recent_moves, "MOVES", ("wallet.pay_out",))
    id = office.proposed(*_part("b", 60))
    assert office.left() == 240 * 10**9
    office.approves(id)
    assert office.types("wallets", *_part("c", 40)).exit_code == 0
    assert office.types("wallets", *_part("a", 60)).exit_code == 0  # done before
    office.proposed(*_part("d", 1))
    assert office.left() == 140 * 10**9


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
    ("kind", "ask", "words", "line"),
    [
        ("grant", {"kind": "paid", "key": "k", "note": "n"}, "grant", "paid grant k n"),
        ("grant", {"kind": "promo", "key": "k", "note": ""}, "grant", "promo grant k"),
        ("void", {"grant": "g"}, "void", "grant g: why"),
        ("claw_back", {"grant": "g", "key": "k"}, "claw-back", "grant g: why"),
        ("pay_out", {"key": "k"}, "pay-out", "k: why"),
        ("correct", {"request": "r", "output": 1, "cause": "c"}, "correction", "request r: c"),
        ("refund", {"request": "r", "cause": "c"}, "refund", "request r: c"),
        (
            "commit",
            {"gpus": 8, "gpu": "h200", "days": 365, "payment": "upfront"},
            "commit",
            "8 GPUs h200 for 365 days, upfront",
        ),
        ("end_commitment", {"commitment": "c"}, "end-commitment", "commitment c: why"),
        ("transfer", {"tenant": "t", "to": "u", "amount": {}}, "transfer", "tenant t, to u: why"),
    ],
)
def test_each_kind_of_move_is_called_by_its_command(
    kind: str, ask: dict[str, Any], words: str, line: str
) -> None:
    """And said in a line; one that a former version proposed too, which cannot be approved."""
    what = ProposedOperation(f"wallets.{kind}", ask, "why")
    facts: dict[str, Any] = {"tenant_id": "t", "id": "i", "amount_nano": 1}
    row = Proposal(
        **facts,
        author="a",
        kind=what.kind,
        move=encode(what).decode(),
        created_ms=0,
        expires_ms=1,
    )
    assert (row.kind, kind_text(row.kind), about(row), proposed_in(row)) == (kind, words, line, what)
    former = row.model_copy(update={"move": encode(ask | {"type": kind, "reason": "why"}).decode()})
    assert about(former).startswith(line.partition(",")[0].partition(":")[0])
    with pytest.raises(Refused, match="former version"):
        proposed_in(former)


@pytest.mark.parametrize(
    "what", [ProposedOperation("wallets.nothing", {}), ProposedOperation("wallets.void", {"grant": 5})]
)
def test_what_this_version_cannot_do_is_not_approved(what: ProposedOperation) -> None:
    """An operation that is no more, or asks for something else."""
    with pytest.raises(Refused, match="former version"):
        what.declared()
