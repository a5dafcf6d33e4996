"""Whatever is typed as an amount, a time or a name of money: one line, and nothing half done."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlmodel import select

from billing.cli.approvals import approvals_command
from billing.cli.tenants import tenants_command
from billing.tables.approvals import Proposal
from billing.tables.ledger import LedgerTxn
from billing.tables.wallets import Wallet, WalletGrant, WalletOwed
from core.errors import StartupError
from tests.billing.acme import COMMANDS, Acme
from tests.billing.quota.quota_ledger import QuotaLedger

OF = ("--tenant", "acme")
WHY = ("--key", "k2", "--reason", "r", "--yes")
MOVES = (
    ("wallets", "grant", *OF, "--key", "k2"),
    ("wallets", "claw-back", "g1", *OF, *WHY),
    ("wallets", "pay-out", *OF, *WHY),
)
NO_AMOUNTS = (
    "9223372036854775808 USD",
    "18446744073709551616 USD",
    "1e30 USD",
    "NaN USD",
    "inf USD",
    "5,00 USD",
    "1,000.00 USD",
    "\u0665 USD",
    "\uff15 USD",
    "5 EUR",
    "5 \u20ac",
    "$5",
    "5",
    "",
    " USD",
    "0 USD",
    "-0 USD",
    "-5 USD",
    "+5 USD",
    "0.0000000001 USD",
    "1_000 USD",
    "0x10 USD",
    "4000000.000000001 USD",
    "5 USD 5 USD",
    "5\x1b[2J USD",
)
NO_TIMES = (
    "2027-03-28T02:30",
    "2027-10-31T02:30",
    "2027-02-29",
    "1970-01-01",
    "1969-12-31",
    "0001-01-01",
    "9999-12-31",
    "9999-12-31T23:59:59-23:59",
    "2027-01-01T24:00",
    "2027-01-01T12:00:00+25:00",
    "\u0662\u0660\u0662\u0667-\u0660\u0661-\u0660\u0661",
    "9223372036854775808",
    "NaN",
    "tomorrow",
)
NO_GRANTS = ("g2", "", " ", "*", "%", "' OR 1=1 --", "\u0663", "g1\x00", "\x1b[2J", "9" * 5_000)


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Acme:
    """In Berlin, with a grant `g1`; another tenant has `g2`."""
    monkeypatch.setitem(COMMANDS, "approvals", approvals_command)
    monkeypatch.setitem(COMMANDS, "tenants", tenants_command)
    made = Acme(home, redis_url, sqlite_template)
    made.parley("tenants", "create", "other")
    made.parley("tenants", "set", "acme", "--time-zone", "Europe/Berlin")
    for tenant, key in (("acme", "g1"), ("other", "g2")):
        made.parley("wallets", "grant", "--tenant", tenant, "--amount", "3 USD", "--key", key)
    return made


def state(acme: Acme) -> Any:
    """All money there is."""

    async def look(books: QuotaLedger) -> list[Any]:
        tables: tuple[Any, ...] = (LedgerTxn, Wallet, WalletGrant, WalletOwed, Proposal)
        async with books.db.session() as session:
            return [row.model_dump() for table in tables for row in (await session.exec(select(table))).all()]

    return acme.does(look)


def is_one_line(result: Result) -> bool:
    """What an operator sees of a refusal."""
    if isinstance(result.exception, StartupError):
        said = str(result.exception)
    else:
        assert isinstance(result.exception, SystemExit), (result.output, result.exception)
        said = result.output.strip().splitlines()[-1]
    return result.exit_code != 0 and "\n" not in said and "\x1b" not in said and bool(said)


def test_no_amount_moves_money(acme: Acme) -> None:
    """Numbers of other kinds, digits, currencies and sizes."""
    before = state(acme)
    for move in MOVES:
        for amount in NO_AMOUNTS:
            result = acme.types(*move, f"--amount={amount}")
            assert is_one_line(result), (move, amount)
    assert state(acme) == before


def test_no_time_ends_a_grant(acme: Acme) -> None:
    """Times that are none, that are two, that are past, or beyond what there is."""
    before = state(acme)
    for time in NO_TIMES:
        result = acme.types(*MOVES[0], "--amount", "1 USD", f"--expires={time}")
        assert is_one_line(result), time
    assert state(acme) == before
    acme.parley(*MOVES[0], "--amount", "1 USD", "--expires", "2027-10-31T02:30+01:00")
    assert len(state(acme)) > len(before)


def test_no_name_reaches_what_is_not_the_tenants(acme: Acme) -> None:
    """Another tenant's grant is one that nobody has, whatever is typed for it."""
    before = state(acme)
    for grant in NO_GRANTS:
        for move in (("void", *OF, "--reason", "r"), ("claw-back", *OF, "--amount", "1 USD", *WHY)):
            result = acme.types("wallets", *move, "--", grant)
            assert is_one_line(result), (move, grant)
            assert "no grant" in str(result.exception), (move, grant)
    for named in ("nobody", "", "\x1b[2J", "acme\x00"):
        assert is_one_line(acme.types("wallets", "owed", "--tenant", named))
        assert is_one_line(acme.types("tenants", "show", named))
    assert state(acme) == before
