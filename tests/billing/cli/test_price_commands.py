"""Tiers and commitments on the command line: months are closed, other tiers are tried."""

from pathlib import Path

import pytest
from sqlmodel import select

from billing.tables.prices import PeriodClose
from billing.tenants.tenancy import find_tenant
from billing.usage import UsageEvent
from core.clock import now_ms
from core.errors import StartupError
from core.sql.database import Database
from tests.billing.cli.commands import DAY_MS, OCTOBER_MS, Command, on_database, rows, used
from tests.billing.cli.commands import parley as parley  # the fixture
from tests.billing.clocks import mid_month as mid_month  # the fixture
from tests.billing.clocks import month
from tests.billing.events import an_event

TIERS = """
book = "default"
[models."*"]
input = "0.10"
cached_input = "0.025"
output = "0.40"
[models."*".tiers.output]
mode = "volume"
steps = [{ up_to = 100, price = "0.40" }, { percent = 50 }]
minimum = "0.001"
"""


@pytest.fixture
def october(parley: Command, home: Path) -> list[UsageEvent]:
    """Ten requests of acme in October 2026, 70 tokens out. (It may not be over where the tests run.)"""
    acme = on_database(home, lambda db: find_tenant(db, "acme"))
    events = [
        an_event(
            f"r{day}", acme.tenant_id, ended_ms=OCTOBER_MS + day * DAY_MS, model=("small", "large")[day % 2]
        )
        for day in range(10)
    ]
    used(home, events)
    return events


def test_tiers_are_tried_on_a_month_that_was(
    parley: Command, october: list[UsageEvent], tmp_path: Path
) -> None:
    """The difference a model, what tiers and minimums make of it included, and the sum."""
    file = tmp_path / "prices.toml"
    file.write_text(TIERS)
    *models, total = rows(parley("prices", "what-if", str(file), "--month", "2026-10", "--json"))
    assert {each["model"] for each in models} == {"small", "large"}
    for each in models:
        assert each["was_true_up_nano"] == 0
        assert each["would_true_up_nano"] == 1_000_000 - 35 * 400
        assert each["change_nano"] == each["would_true_up_nano"]
    assert total["would_nano"] == total["was_nano"] + 2 * (1_000_000 - 35 * 400)
    assert total["was_nano"] == sum(event.cost_nano for event in october)


@pytest.mark.usefixtures("mid_month")
def test_a_month_is_tried_closed_and_shown(parley: Command, home: Path) -> None:
    """Commitments are listed, and what they make of a month is shown before it is booked, and after."""
    events = [an_event(f"r{number}", ended_ms=now_ms(), model="small") for number in range(10)]
    used(home, events)
    running = month(0)
    commit = ("prices", "commit", "--tenant", "acme", "--from", running, "--months", "1", "--json")
    (spend,) = rows(parley(*commit, "--amount", "1 USD"))
    (units,) = rows(
        parley(
            *commit,
            "--amount",
            "0.5 USD",
            "--meter",
            "output",
            "--model",
            "*",
            "--units",
            "60",
            "--overage",
            "2 USD",
        )
    )
    listed = rows(parley("prices", "commitments", "--tenant", "acme", "--json"))
    assert sorted(row["id"] for row in listed) == sorted((spend["id"], units["id"]))
    assert (units["from"], units["to"], units["overage_nano"]) == (running, running, 2_000_000_000)
    close = ("prices", "close-period", "--tenant", "acme", "--month", running, "--json")
    dry = rows(parley(*close, "--dry-run"))
    assert sum(row["difference_nano"] for row in dry) == 1_000_000_000 - sum(e.cost_nano for e in events)
    assert {(row["model"], row["by"]) for row in dry} >= {("*", "commitment"), ("", "minimum")}
    assert "in all, not closed: a dry run" in parley(*close[:-1], "--dry-run").output
    assert on_database(home, months_closed) == 0


async def months_closed(database: Database) -> int:
    """How many."""
    async with database.session() as session:
        return len((await session.exec(select(PeriodClose))).all())


def test_what_cannot_be_committed_to_is_one_line(parley: Command) -> None:
    """With what to do instead."""
    for arguments, says in (
        (("--amount", "-1 USD"), "above zero"),
        (("--amount", "x"), "is no amount"),
        (("--amount", "1 USD", "--units", "5"), "name it"),
        (("--amount", "1 USD", "--from", "2026-13"), "is no month"),
    ):
        result = parley("prices", "commit", "--tenant", "acme", *arguments)
        assert isinstance(result.exception, StartupError), result.output
        assert says in str(result.exception)
