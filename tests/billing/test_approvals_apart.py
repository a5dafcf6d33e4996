"""Approvals that were cut off, and moves that are small one by one."""

from typing import Any

import pytest

from billing.moves import lately, proposals
from billing.moves.codes import new_code
from tests.billing.test_approvals import MUCH, OF, Office, office
from tests.billing.test_commands import rows

__all__ = ["office"]


@pytest.mark.parametrize("after", [False, True])
def test_what_was_cut_off_is_booked_by_the_same_code(
    office: Office, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Killed between approving and booking, or between that and saying so: booked once, and it says so."""
    id, code = office.proposed(*MUCH)
    real = proposals.book

    async def killed(*facts: Any) -> Any:
        if after:
            await real(*facts)
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(proposals, "book", killed)
        assert office.types(*office.approve(id, code)).exit_code != 0
    assert office.row(id).state == "approved"
    assert [row["proposal"] for row in rows(office.types("approvals", "list", "--json"))] == [id]
    office.refused("not the one that was sent", *office.approve(id, new_code()))
    done = office.types(*office.approve(id, code))
    assert done.exit_code == 0, (done.output, done.exception)
    assert (office.left(), office.row(id).state) == (100 * 10**9, "booked")
    office.refused("does not wait any more: it is booked", *office.approve(id, code))


def test_moves_below_the_limit_count_together(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one person, or one tenant, within 24 hours; what two decided is not among it."""
    one_day_later = lately.now_ms() + lately.LATELY_MS + 1_000
    with monkeypatch.context() as patched:
        patched.setattr(lately, "now_ms", lambda: one_day_later)  # the grant of the office is a day old
        assert office.types("wallets", *_part("a", 60)).exit_code == 0
    monkeypatch.setattr(lately, "MOVES", ("wallet.pay_out",))
    id, code = office.proposed(*_part("b", 60))
    assert office.left() == 240 * 10**9
    assert office.types(*office.approve(id, code)).exit_code == 0
    assert office.types("wallets", *_part("c", 40)).exit_code == 0
    assert office.types("wallets", *_part("a", 60)).exit_code == 0  # done before
    office.proposed(*_part("d", 1))
    assert office.left() == 140 * 10**9


def _part(key: str, dollars: int) -> tuple[str, ...]:
    return ("pay-out", *OF, "--amount", f"{dollars} USD", "--key", key, "--reason", "left us", "--yes")


def test_what_a_move_was_is_read_in_the_audit_log() -> None:
    """By its kind."""
    lines = '{"lines":[{"amount_nano":-7},{"amount_nano":2}]}'
    assert lately.moved_by("request.refund", lines) == 5
    assert lately.moved_by("wallet.grant", '{"amount_nano":9}') == 9
    assert lately.moved_by("request.correct", '{"bytes":70000,"sha256":"x"}') == 0
