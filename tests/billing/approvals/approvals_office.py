"""Two persons, and what one may not move alone."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import text

from billing.approvals import approver_mail, second_person
from billing.cli.approvals import approvals_command
from billing.cli.audit import audit_command
from billing.tables.approvals import Proposal
from core.errors import StartupError
from tests.billing.acme import COMMANDS, Acme
from tests.billing.cli.commands import rows
from tests.billing.ledger.ledger_reading import read
from tests.billing.quota.quota_ledger import QuotaLedger

OF = ("--tenant", "acme")

SECOND = "second@example.com"

MUCH = ("pay-out", *OF, "--amount", "200 USD", "--key", "p1", "--reason", "left us", "--yes")

CODE = re.compile(r"^    ([A-Z2-7-]{32})$", re.MULTILINE)


@dataclass
class ApprovalsOffice:
    """acme with 300 USD, a mail server that keeps what it gets, and a second person."""

    acme: Acme
    mails: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    settings: dict[str, str] = field(
        default_factory=lambda: {"second_person": SECOND, "smtp_host": "mail.example.com"}
    )

    def types(self, name: str, *arguments: str, **settings: str) -> Result:
        """A command."""
        return self.acme.types(name, *arguments, **{**self.settings, **settings})

    def proposed(self, *move: str, name: str = "wallets") -> tuple[str, str]:
        """A move that is proposed: its id, and the code that was sent."""
        before = len(self.mails)
        result = self.types(name, *move)
        assert isinstance(result.exception, StartupError), result.output
        said = str(result.exception)
        assert said.startswith("nothing is booked yet: it is proposed"), said
        ((address, mail),) = self.mails[before:]
        assert address == self.settings["second_person"]
        (code,) = CODE.findall(mail)
        assert code not in said + result.output
        return said.rpartition("approve ")[2].rstrip("`"), code

    def refused(self, says: str, *typed: str, **settings: str) -> None:
        """One line, and no money moves."""
        before = self.left()
        result = self.types(*typed, **settings)
        assert isinstance(result.exception, StartupError), (result.output, result.exception)
        (line,) = str(result.exception).splitlines()
        assert says in line
        assert self.left() == before

    def approve(self, id: str, code: str) -> tuple[str, ...]:
        """What is typed."""
        return ("approvals", "approve", id, "--code", code)

    def left(self) -> int:
        """What the wallet has."""
        (found,) = rows(self.acme.parley("wallets", "list", "--json"))
        return found["left_nano"]

    def row(self, id: str) -> Proposal:
        """What is kept of a proposal."""

        async def look(books: QuotaLedger) -> list[Proposal]:
            return await read(books.db, Proposal, books.tenant)

        (found,) = [row for row in self.acme.does(look) if row.id == id]
        return found

    def failures(self) -> list[dict[str, Any]]:
        """What the audit log says of proposals that failed, newest first."""
        found = rows(self.types("audit", "list", *OF, "--json"))
        return [row["after"] for row in found if row["action"] == "proposal.fail"]

    def sql(self, statement: str, **values: object) -> None:
        """Somebody who writes the database."""

        async def write(books: QuotaLedger) -> None:
            async with books.db.engine.begin() as connection:
                await connection.execute(text(statement), values)

        self.acme.does(write)


@pytest.fixture
def office(
    home: Path, redis_url: str, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch
) -> ApprovalsOffice:
    """On a SQLite and an empty Redis of its own."""
    monkeypatch.setitem(COMMANDS, "approvals", approvals_command)
    monkeypatch.setitem(COMMANDS, "audit", audit_command)
    made = ApprovalsOffice(Acme(home, redis_url, sqlite_template))

    async def send(_: object, address: str, subject: str, body: str, message_id: str) -> None:
        assert "\n" not in subject
        made.mails.append((address, body))

    for module in (second_person, approver_mail):
        monkeypatch.setattr(module, "send_mail", send)
    made.acme.parley(
        "wallets", "grant", *OF, "--amount", "300 USD", "--key", "g1", correction_cents_max="30000"
    )
    return made
