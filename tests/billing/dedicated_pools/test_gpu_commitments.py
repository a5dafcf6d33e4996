"""Commitments to GPUs on the command line: ended with notice, given back what was paid for the rest."""

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlmodel import select

from billing.audit.log import list_rows
from billing.cli.pools import pools_command
from billing.closing.period_commitments import NewCommitment, commit, end_commitment, until_ms
from billing.dedicated_pools.commitments import GpuTerms, commit_gpus, end_gpu_commitment
from billing.dedicated_pools.posting import SETTLE_MS, hours_due
from billing.ledger.verify import verify_ledger
from billing.money import NANO
from billing.periods import HOUR_MS, Period, PeriodWindow, window_at
from billing.prices.rating import Meter
from billing.prices.true_up import CommittedInPeriod
from billing.tables.dedicated_pools import Commitment
from billing.tables.prices import PeriodClose
from billing.tenants.tenancy import create_tenant, find_tenant
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database
from tests.billing.cli.commands import COMMANDS, Command, on_database, rows
from tests.billing.cli.commands import parley as parley  # the fixture
from tests.billing.cli.refusals import refused
from tests.billing.dedicated_pools.dedicated import balance

COMMIT = ("pools", "commit", "--tenant", "acme", "--gpu", "h200", "--gpus", "2", "--rate", "1 USD", "--json")
END = ("pools", "end-commitment", "--tenant", "acme", "--reason", "they leave", "--json")
DAY_NANO = 2 * 24 * NANO


@pytest.fixture(autouse=True)
def _pools(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """`parley pools` beside the other commands; one person moves up to a million dollars."""
    monkeypatch.setitem(COMMANDS, "pools", pools_command)
    monkeypatch.setenv("PARLEY_CORRECTION_CENTS_MAX", "100000000")


def owed(home: Any) -> tuple[int, int]:
    """What acme owes, and what of it is not earned yet."""

    async def read(database: Database) -> tuple[int, int]:
        acme = await find_tenant(database, "acme")
        assert acme is not None
        return await balance(database, acme, "receivable"), await balance(database, acme, "deferred")

    return on_database(home, read)


def days(row: dict[str, Any]) -> float:
    """For how many it holds."""
    start, end = datetime.fromisoformat(row["from"]), datetime.fromisoformat(row["to"])
    return (end - start).total_seconds() / 86_400


@pytest.mark.parametrize("payment", ["monthly", "upfront"])
def test_gpus_are_given_up_with_notice(parley: Command, home: Any, payment: str) -> None:
    """What was paid for the hours that are left is owed no more; the books stay whole, and once is enough."""
    (made,) = rows(parley(*COMMIT, "--days", "365", "--payment", payment))
    paid = 365 * DAY_NANO if payment == "upfront" else 0
    assert owed(home) == (paid, -paid)
    (tried,) = rows(parley(*END, made["id"], "--dry-run"))
    assert owed(home) == (paid, -paid)
    (ended,) = rows(parley(*END, made["id"]))
    assert 29 < days(ended) <= 30
    assert ended["given_back_nano"] == tried["given_back_nano"]
    left = round(days(ended) * DAY_NANO) if paid else 0
    assert owed(home) == (left, -left)
    assert ended["given_back_nano"] == paid - left
    assert rows(parley("pools", "commitments", "--tenant", "acme", "--json"))[0]["to"] == ended["to"]
    assert "ends" in refused(parley(*END, made["id"]))
    rows(parley("audit", "verify", "--json"))


def test_what_is_paid_upfront_is_bounded_as_a_grant_is(
    parley: Command, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone nobody owes a tenant more at once, nor gives it back; what is paid by month moves nothing yet."""
    year = (*COMMIT, "--days", "365", "--payment", "upfront")
    (made,) = rows(parley(*year))
    monkeypatch.setenv("PARLEY_CORRECTION_CENTS_MAX", "10000")
    for typed in (year, (*END, made["id"], "--as-never-made")):
        assert "takes a second person" in refused(parley(*typed))
        assert rows(parley(*typed, "--dry-run"))[0]["rate_nano"] == NANO
    assert owed(home) == (365 * DAY_NANO, -365 * DAY_NANO)
    assert rows(parley(*COMMIT, "--days", "365"))[0]["payment"] == "monthly"


def test_hours_after_the_end_are_not_booked(parley: Command, home: Any) -> None:
    """The last is the one before it."""
    (made,) = rows(parley(*COMMIT, "--days", "3", "--notice-days", "1"))
    (ended,) = rows(parley(*END, made["id"]))
    start, end = (int(datetime.fromisoformat(ended[name]).timestamp() * 1000) for name in ("from", "to"))
    assert 0 < end - start <= 24 * HOUR_MS
    due = on_database(home, lambda database: hours_due(database, end + 9 * HOUR_MS + SETTLE_MS))
    assert due == list(range(start, end, HOUR_MS))


def test_a_mistake_is_taken_back_before_it_begins(parley: Command, home: Any) -> None:
    """As if it had never been; later it is ended with notice alone."""
    (made,) = rows(parley(*COMMIT, "--days", "365", "--payment", "upfront"))
    (ended,) = rows(parley(*END, made["id"], "--as-never-made"))
    assert (ended["to"], ended["state"], owed(home)) == (None, "taken back", (0, 0))
    assert "taken back" in parley("pools", "commitments", "--tenant", "acme").output
    (made,) = rows(parley(*COMMIT, "--days", "365"))

    async def begin(database: Database) -> None:
        async with database.transaction() as session:
            row = (await session.exec(select(Commitment).where(Commitment.id == made["id"]))).one()
            row.start_ms -= HOUR_MS
            session.add(row)

    on_database(home, begin)
    assert "has begun" in refused(parley(*END, made["id"], "--as-never-made"))


def test_who_pays_in_another_currency_commits_to_no_dollars(parley: Command, tmp_path: Path) -> None:
    """The books would add one to the other."""
    file = tmp_path / "euro.toml"
    file.write_text('book = "euro"\ncurrency = "eur"\n[models."*"]\ninput = "1"\noutput = "1"')
    assert parley("prices", "import", str(file)).exit_code == 0
    assert parley("tenants", "set", "acme", "--price-book", "euro").exit_code == 0
    assert "EUR" in refused(parley(*COMMIT, "--days", "1"))
    assert rows(parley("pools", "commitments", "--tenant", "acme", "--json")) == []


NO_RATES = ["1", "1 EUR", "5,00 USD", "nan USD", "1e30 USD", "٥ USD", "-1 USD", ""]


def test_what_is_no_rate_is_one_line(parley: Command) -> None:
    """Rates have their currency."""
    for amount in NO_RATES:
        commit = ("pools", "commit", "--tenant", "acme", "--gpu", "x", "--gpus", "1", "--days", "1")
        assert refused(parley(*commit, "--rate", amount))
        assert refused(parley(*commit, "--rate", "1 USD", "--overage", amount))
        assert refused(parley("pools", "costs", "--gpu", "x", "--hour", amount))
        assert rows(parley("pools", "commitments", "--tenant", "acme", "--json")) == []
        assert "reason" in refused(
            parley("pools", "end-commitment", "--tenant", "acme", "nobodys", "--reason", " ")
        )
        assert "no commitment" in refused(parley(*END, "nobodys"))


async def test_both_kinds_are_ended_on_any_database(database: Database) -> None:
    """Months and GPUs: the books stay whole, and who ended what is recorded."""
    tenant = await create_tenant(database, "acme")
    now = now_ms()
    month = window_at(Period.MONTH, ZoneInfo("UTC"), now)
    year = PeriodWindow(month.start_ms, month.end_ms + 300 * 24 * HOUR_MS)
    monthly = await commit(database, tenant, NewCommitment(CommittedInPeriod(NANO), year))
    ended, before = await end_commitment(database, tenant, monthly.id, "they leave")
    assert month.end_ms < until_ms(ended) < before == year.end_ms
    start = (now // HOUR_MS + 1) * HOUR_MS
    terms = GpuTerms("h200", 1, start, start + 60 * 24 * HOUR_MS, NANO, payment="upfront")
    gpus = await commit_gpus(database, tenant.tenant_id, terms)
    _, back = await end_gpu_commitment(database, tenant.tenant_id, gpus.id, "they leave", mistake=True)
    assert back == 60 * 24 * NANO
    assert await balance(database, tenant, "receivable") == 0
    assert (await verify_ledger(database, tenant.tenant_id)).faults == []
    actions = [row.action for row in await list_rows(database, tenant.tenant_id)]
    assert actions.count("commitment.end") == 2


async def test_what_was_given_back_is_not_given_back_again(sqlite: Database) -> None:
    """Ended with notice, then taken back as a mistake: in all no more than was paid."""
    tenant = await create_tenant(sqlite, "acme")
    start = (now_ms() // HOUR_MS + 24) * HOUR_MS
    terms = GpuTerms("h200", 1, start, start + 365 * 24 * HOUR_MS, NANO, payment="upfront")
    made = await commit_gpus(sqlite, tenant.tenant_id, terms)
    _, first = await end_gpu_commitment(sqlite, tenant.tenant_id, made.id, "they leave")
    _, rest = await end_gpu_commitment(sqlite, tenant.tenant_id, made.id, "at once", mistake=True)
    assert first + rest == 365 * 24 * NANO
    assert await balance(sqlite, tenant, "receivable") == 0


async def test_a_closed_month_gets_no_commitment_and_loses_none(sqlite: Database) -> None:
    """It was billed with what it had, also where that was made less than a day ago."""
    tenant = await create_tenant(sqlite, "acme")
    month = window_at(Period.MONTH, ZoneInfo("UTC"), now_ms())
    made = await commit(sqlite, tenant, NewCommitment(CommittedInPeriod(NANO), month))
    facts: dict[str, Any] = {"line_seq": 0, "amount_nano": 0, "closed_ms": 1, "time_zone": "UTC"}
    async with sqlite.transaction() as session:
        session.add(
            PeriodClose(
                tenant_id=tenant.tenant_id, month="m", start_ms=month.start_ms, end_ms=month.end_ms, **facts
            )
        )
    with pytest.raises(Refused, match="before its first month is closed"):
        await end_commitment(sqlite, tenant, made.id, "typo", mistake=True)
    output = CommittedInPeriod(NANO, "*", Meter.OUTPUT, 1, None)
    with pytest.raises(Refused, match="the first month is closed"):
        await commit(sqlite, tenant, NewCommitment(output, month))
