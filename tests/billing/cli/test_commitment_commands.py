"""Commitments on the command line: from the running month on, ended with notice, looked at first."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from billing.money import NANO
from billing.periods import HOUR_MS
from billing.tables.prices import PeriodClose, PeriodCommitment
from billing.tenants.tenancy import find_tenant
from core.clock import now_ms
from core.sql.database import Database
from tests.billing.cli.commands import Command, on_database, rows, used
from tests.billing.cli.commands import parley as parley  # the fixture
from tests.billing.cli.refusals import refused
from tests.billing.clocks import mid_month as mid_month  # the fixture
from tests.billing.clocks import month
from tests.billing.events import an_event

pytestmark = pytest.mark.usefixtures("mid_month")

COMMIT = ("prices", "commit", "--tenant", "acme")
END = ("prices", "end-commitment", "--tenant", "acme")

NO_AMOUNTS = (
    *("5", "5 EUR", "5,00 USD", "nan USD", "inf USD", "1e30 USD", "٥ USD", "-1 USD", "0 USD", "9000001 USD"),
    *("9223372036854775808 USD", "USD", "", "5 USD USD", "5 US$"),
)


def listed(parley: Command) -> list[dict[str, Any]]:
    """What acme committed to."""
    return rows(parley("prices", "commitments", "--tenant", "acme", "--json"))


NO_FIRST_MONTHS = [
    ("2020-01", "running month"),
    (month(-1), "running month"),
    ("1970-01", "running month"),
    ("0001-01", "is no month"),
    ("9999-01", "is no month"),
    ("9998-12", "is no month"),
    ("2027-13", "is no month"),
    ("٢٠٢٧-٠١", "is no month"),
    ("2027-1e3", "is no month"),
    ("", "is no month"),
    ("nan", "is no month"),
    ("2062-01", "--yes"),
]


def test_a_commitment_never_reaches_back(parley: Command) -> None:
    """Nor begins in a year that somebody mistyped; in the time zone that is the first to see a year, too."""
    for first, says in NO_FIRST_MONTHS:
        assert parley("tenants", "set", "acme", "--time-zone", "Pacific/Kiritimati").exit_code == 0
        assert says in refused(parley(*COMMIT, "--amount", "5 USD", "--from", first))
        assert listed(parley) == []


def test_the_running_month_is_the_tenants(parley: Command) -> None:
    """By default it begins with that, and one that is far ahead is meant."""
    (made,) = rows(parley(*COMMIT, "--amount", "5 USD", "--months", "2", "--json"))
    assert (made["from"], made["to"], made["amount_nano"]) == (month(0), month(1), 5 * NANO)
    (later,) = rows(parley(*COMMIT, "--amount", "5 USD", "--from", month(2), "--json"))
    assert (later["from"], later["to"], later["notice_months"]) == (month(2), month(13), 1)
    far = (*COMMIT, "--amount", "5 USD", "--from", "2062-01", "--yes", "--json")
    assert rows(parley(*far))[0]["to"] == "2062-12"


def test_what_is_no_amount_is_one_line(parley: Command) -> None:
    """Amounts have their currency; of what is beyond the books, or none, nothing is kept."""
    for amount in NO_AMOUNTS:
        assert refused(parley(*COMMIT, "--amount", amount))
        overage = ("--amount", "1 USD", "--meter", "output", "--model", "*", "--units", "1")
        if amount != "0 USD":
            assert refused(parley(*COMMIT, *overage, "--overage", amount))
        assert listed(parley) == []


def test_who_pays_in_another_currency_commits_to_no_dollars(parley: Command, tmp_path: Path) -> None:
    """The books would compare one with the other."""
    file = tmp_path / "euro.toml"
    file.write_text('book = "euro"\ncurrency = "eur"\n[models."*"]\ninput = "1"\noutput = "1"')
    assert parley("prices", "import", str(file)).exit_code == 0
    assert parley("tenants", "set", "acme", "--price-book", "euro").exit_code == 0
    assert "EUR" in refused(parley(*COMMIT, "--amount", "5 USD"))
    assert listed(parley) == []


def test_a_dry_run_says_what_it_will_bill(parley: Command, home: Path) -> None:
    """In a month, in all, and of the running one as far as it is; and makes nothing."""
    event = an_event("r1", ended_ms=now_ms())
    used(home, [event])
    dry = (*COMMIT, "--amount", "5 USD", "--months", "3", "--dry-run", "--json")
    (tried,) = rows(parley(*dry))
    assert (tried["from"], tried["to"], tried["months"]) == (month(0), month(2), 3)
    assert (tried["amount_nano"], tried["total_nano"]) == (5 * NANO, 15 * NANO)
    assert tried["this_month_nano"] == 5 * NANO - event.cost_nano
    assert tried["state"] == "not made: a dry run"
    later = rows(parley(*dry, "--from", month(1)))[0]
    assert later["this_month_nano"] == 0
    assert listed(parley) == []
    assert "$15.00" in parley(*dry[:-1]).stdout
    units = ("--meter", "output", "--model", "*", "--units", "9", "--overage", "2 USD")
    for more in ((), units):
        assert "$5.00" in parley(*COMMIT, "--amount", "5 USD", *more).stdout
    shown = parley("prices", "commitments", "--tenant", "acme").stdout
    assert ("$5.00" in shown, "$2.00" in shown) == (True, True)


def test_a_commitment_is_ended_with_notice(parley: Command, home: Path) -> None:
    """By default the month after the running one is the last; with the reason in the audit log, and once."""
    (made,) = rows(parley(*COMMIT, "--amount", "5 USD", "--json"))
    end = (*END, made["id"], "--reason", "they leave", "--json")
    (tried,) = rows(parley(*end, "--dry-run"))
    assert (tried["to"], tried["not_billed_nano"]) == (month(1), 10 * 5 * NANO)
    assert listed(parley)[0]["to"] == month(11)
    (ended,) = rows(parley(*end))
    assert (ended["to"], ended["agreed_to"]) == (month(1), month(11))
    assert listed(parley)[0]["to"] == month(1)
    assert "ends" in refused(parley(*end))
    (again,) = rows(parley(*COMMIT, "--amount", "6 USD", "--from", month(2), "--notice", "0", "--json"))
    rows(parley(*END, again["id"], "--reason", "not yet begun", "--json"))
    assert listed(parley)[1]["to"] is None
    with closing(sqlite3.connect(home / "parley.db")) as connection:
        found = connection.execute(
            "SELECT target, author, after FROM audit_log WHERE action = 'commitment.end' ORDER BY seq"
        ).fetchall()
        times = connection.execute(
            "SELECT start_ms, ends_ms FROM period_commitment WHERE id = ?", (again["id"],)
        ).fetchone()
    assert times[0] == times[1]  # one that has not begun ends where it would have
    assert [row[0] for row in found] == [made["id"], again["id"]]
    assert all(row[1] for row in found)
    assert "they leave" in found[0][2]


def test_a_notice_is_kept(parley: Command) -> None:
    """As it was agreed: none, or three months, and never longer than the commitment itself."""
    for notice, last in (("0", month(0)), ("3", month(3))):
        (made,) = rows(parley(*COMMIT, "--amount", "5 USD", "--notice", notice, "--json"))
        (ended,) = rows(parley(*END, made["id"], "--reason", "r", "--json"))
        assert ended["to"] == last
        rows(parley(*END, made["id"], "--reason", "a new one", "--as-never-made", "--json"))
    (short,) = rows(parley(*COMMIT, "--amount", "5 USD", "--months", "2", "--json"))
    assert "ends" in refused(parley(*END, short["id"], "--reason", "r"))


def test_a_mistake_is_taken_back_within_a_day(parley: Command, home: Path) -> None:
    """As if it had never been; what is older is ended with notice alone."""
    (made,) = rows(parley(*COMMIT, "--amount", "5000 USD", "--json"))
    mistake = (*END, made["id"], "--reason", "meant 500", "--as-never-made", "--json")
    (tried,) = rows(parley(*mistake, "--dry-run"))
    assert (tried["not_billed_nano"], tried["state"]) == (12 * 5_000 * NANO, "would be taken back")

    async def age(database: Database) -> None:
        async with database.transaction() as session:
            row = (await session.exec(select(PeriodCommitment))).one()
            row.created_ms -= 25 * HOUR_MS
            session.add(row)

    on_database(home, age)
    assert "a day" in refused(parley(*mistake))
    (made,) = rows(
        parley(*COMMIT, "--amount", "8 USD", "--meter", "output", "--model", "*", "--units", "9", "--json")
    )
    said = parley(*END, made["id"], "--reason", "meant input", "--as-never-made").output
    assert said.count("taken back") == 2, "its end, and what became of it"
    assert [row["to"] for row in listed(parley)] == [month(11), None]
    assert "taken back" in parley("prices", "commitments", "--tenant", "acme").output
    (dry,) = rows(
        parley("prices", "close-period", "--tenant", "acme", "--month", month(0), "--dry-run", "--json")
    )
    assert dry["costs_nano"] == 5_000 * NANO


def test_what_was_billed_is_no_mistake_any_more(parley: Command, home: Path) -> None:
    """Its first month may be closed on the day after it was made."""
    (made,) = rows(parley(*COMMIT, "--amount", "5 USD", "--json"))

    async def close(database: Database) -> None:
        async with database.transaction() as session:
            row = (await session.exec(select(PeriodCommitment))).one()
            start = row.start_ms
            of: dict[str, Any] = {
                "start_ms": start,
                "end_ms": start + 1,
                "closed_ms": start + 1,
                "line_seq": 0,
                "time_zone": "UTC",
            }
            session.add(PeriodClose(tenant_id=row.tenant_id, month=month(0), amount_nano=0, **of))

    on_database(home, close)
    said = refused(parley(*END, made["id"], "--reason", "r", "--as-never-made"))
    assert "before its first month is closed" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nobodys", "--reason", "r"), "no commitment"),
        (("{id}", "--reason", " "), "reason"),
        (("{id}", "--reason", "x" * 1_000), "reason"),
    ],
)
def test_what_cannot_be_ended_stays(parley: Command, arguments: tuple[str, ...], says: str) -> None:
    """One line, and nothing is changed."""
    (made,) = rows(parley(*COMMIT, "--amount", "5 USD", "--json"))
    before = listed(parley)
    assert says in refused(parley(*END, *(each.format(id=made["id"]) for each in arguments)))
    assert listed(parley) == before


def old_commitment(home: Path, start: datetime, created: datetime) -> None:
    """One of a release that let them begin anywhere."""
    acme = on_database(home, lambda db: find_tenant(db, "acme"))
    row = PeriodCommitment(
        tenant_id=acme.tenant_id,
        id="old",
        committed_nano=5 * NANO,
        start_ms=int(start.timestamp() * 1000),
        end_ms=int(datetime(2025, 1, 1, tzinfo=UTC).timestamp() * 1000),
        created_ms=int(created.timestamp() * 1000),
    )

    async def add(database: Database) -> None:
        async with database.transaction() as session:
            session.add(row)

    on_database(home, add)


@pytest.mark.parametrize("start", [datetime(2024, 8, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)])
def test_no_month_of_a_commitment_is_skipped(parley: Command, home: Path, start: datetime) -> None:
    """One in which nothing was used is closed before the next, and billed; not those before it was made."""
    old_commitment(home, start, datetime(2024, 8, 30, tzinfo=UTC))
    used(home, [an_event("r1", ended_ms=int(datetime(2024, 10, 2, tzinfo=UTC).timestamp() * 1000))])
    close = ("prices", "close-period", "--tenant", "acme", "--json", "--month")
    assert "an earlier month is open" in refused(parley(*close, "2024-10"))
    for each in ("2024-08", "2024-09"):
        (row,) = rows(parley(*close, each))
        assert row["difference_nano"] == 5 * NANO
    assert rows(parley(*close, "2024-10"))[0]["difference_nano"] < 5 * NANO
