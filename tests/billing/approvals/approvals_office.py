"""Two persons, and what one may not move alone."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import text

from billing.approvals import approver_mail
from billing.cli import approvals, person_sign_in
from billing.cli.approvals import approvals_command
from billing.cli.audit import audit_command
from billing.people import own_account, persons
from billing.people.passwords import Passwords
from billing.tables.approvals import Proposal
from billing.tables.tenants import PLATFORM
from core.errors import StartupError
from tests.billing.acme import COMMANDS, Acme
from tests.billing.cli.commands import rows
from tests.billing.ledger.ledger_reading import read
from tests.billing.quota.quota_ledger import QuotaLedger

OF = ("--tenant", "acme")

PASSWORD = "correct horse battery"

EMAILS = {"Ann": "ann@example.com", "Bob": "bob@example.com"}

MUCH = ("pay-out", *OF, "--amount", "200 USD", "--key", "p1", "--reason", "left us", "--yes")
AGAIN = ("--reason", "once more")  # another move, under the same key
SAYS = "it is proposed, and another owner or finance person approves it"


class TypedAnswers:
    """Types what it is asked for, and keeps the questions."""

    def __init__(self, **answers: str) -> None:
        self.answers, self.asked = answers, list[str]()

    def __call__(self, what: str) -> str:
        """One question."""
        self.asked.append(what)
        return next(answer for begins, answer in self.answers.items() if what.startswith(begins))


@dataclass
class ApprovalsOffice:
    """acme with 300 USD, a mail server that keeps what it gets, and an owner and a person of finance, with
    passwords. Bob of finance sits at the terminal."""

    acme: Acme
    patches: pytest.MonkeyPatch
    mails: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    settings: dict[str, str] = field(default_factory=dict[str, str])

    def types(self, name: str, *arguments: str, **settings: str) -> Result:
        """A command."""
        return self.acme.types(name, *arguments, **{**self.settings, **settings})

    def sits_down(self, email: str, password: str = PASSWORD, **more: str) -> TypedAnswers:
        """Somebody at the terminal."""
        terminal = TypedAnswers(**{"E-mail": email, "Password": password}, **more)
        for name in ("prompt_line", "prompt_secret"):
            self.patches.setattr(person_sign_in, name, terminal)
        return terminal

    def proposed(self, *move: str, name: str = "wallets") -> str:
        """The proposal that a move became."""
        result = self.types(name, *move)
        assert isinstance(result.exception, StartupError), (result.output, result.exception)
        said = str(result.exception)
        assert SAYS in said, said
        return said.rpartition("approve ")[2].rstrip("`")

    def refused(self, says: str, *typed: str, **settings: str) -> None:
        """One line, and no money moves."""
        before = self.left()
        result = self.types(*typed, **settings)
        assert isinstance(result.exception, StartupError), (result.output, result.exception)
        (line,) = str(result.exception).splitlines()
        assert says in line
        assert self.left() == before

    def approves(self, id: str) -> Result:
        """It is typed, and done."""
        result = self.types("approvals", "approve", id)
        assert result.exit_code == 0, (result.output, result.exception)
        return result

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
    made = ApprovalsOffice(Acme(home, redis_url, sqlite_template), monkeypatch)

    async def send(_: object, address: str, subject: str, body: str, message_id: str) -> None:
        assert "\n" not in subject
        made.mails.append((address, body))

    async def make(books: QuotaLedger) -> None:
        for name, role in (("Ann", "owner"), ("Bob", "finance")):
            person = await persons.create_member(books.db, PLATFORM, name, role, EMAILS[name])
            stored = await Passwords().hash(PASSWORD)
            await own_account.set_password(books.db, person.person.id, stored)

    monkeypatch.setattr(approver_mail, "send_mail", send)
    monkeypatch.setattr(approvals, "has_terminal", lambda: True)
    made.sits_down(EMAILS["Bob"])
    made.acme.parley(
        "wallets", "grant", *OF, "--amount", "300 USD", "--key", "g1", correction_cents_max="30000"
    )
    made.acme.does(make)
    return made
