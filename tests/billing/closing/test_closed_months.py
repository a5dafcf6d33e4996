"""A closed month stays what it was, to the nano, whatever is set or comes later; what moves is the first open
month, which begins where the last closed one ended."""

import csv
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from billing.posting.biller import post
from billing.usage import UsageOwner, encode
from tests.billing.acme import Acme
from tests.billing.cli.commands import rows
from tests.billing.cli.refusals import refused
from tests.billing.events import an_event
from tests.billing.quota.quota_ledger import QuotaLedger

TIERS = """
book = "default"
[models."*"]
input = "0.90"
cached_input = "0.025"
output = "0.40"
[models."*".tiers.output]
mode = "volume"
steps = [{ up_to = 100, price = "0.40" }, { percent = 50 }]
minimum = "0.001"
"""
VIEWS = [
    *(("usage", "show", "--by", by) for by in ("project", "cost_center", "user", "key", "model", "day")),
    ("usage", "show", "--by", "total", "--csv"),
    ("usage", "export"),
    ("prices", "close-period", "--json"),
    ("prices", "close-period"),
]


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path) -> Acme:
    """On a SQLite and an empty Redis of its own."""
    return Acme(home, redis_url, sqlite_template)


def of(acme: Acme, *command: str, month: str = "2025-01") -> Result:
    """A view of acme's month."""
    name, verb, *rest = command
    return acme.parley(name, verb, "--tenant", "acme", "--month", month, *rest)


def total(acme: Acme, month: str) -> int:
    """What acme owes for a month."""
    found = rows(of(acme, "usage", "show", "--by", "total", "--json", month=month))
    return sum(each["amount_nano"] for each in found)


def views(acme: Acme) -> dict[tuple[str, ...], str]:
    """All that is shown of January."""
    shown = {view: of(acme, *view).stdout for view in VIEWS}
    shown["prices", "periods"] = acme.parley("prices", "periods", "--tenant", "acme").stdout
    shown["usage", "compare"] = of(acme, "usage", "compare", "--to-month", "2024-12").stdout
    return shown


def used(acme: Acme, *requests: tuple[str, str]) -> None:
    """Answers of 3,700 nano: their ids, and when they ended (UTC)."""

    async def booked(books: QuotaLedger) -> None:
        for id, ended in requests:
            at = int(datetime.fromisoformat(ended).replace(tzinfo=UTC).timestamp() * 1000)
            owner = UsageOwner(project="p1", key="k1", user="u1")
            event = an_event(id, books.tenant, owner=owner, accepted_ms=at - 9, ended_ms=at)
            batch, _ = await post(books.db, "A", [encode(event)])
            assert not batch.held

    acme.does(booked)


def test_a_closed_month_stays_whatever_is_set_or_comes_later(acme: Acme, tmp_path: Path) -> None:
    """INV-27: Zones, prices, tiers and minimums, commitments, plans, cost centers, corrections, refunds,
    usage that comes late or was held back: what they move is of the next month, under the time that it is of.
    """
    used(acme, ("a", "2025-01-03T10:30"), ("b", "2025-01-31T23:30"), ("c", "2025-02-01T00:30"))
    of(acme, "prices", "close-period")
    before = views(acme)
    assert total(acme, "2025-01") == 2 * 3_700
    file = tmp_path / "tiers.toml"
    file.write_text(TIERS)
    for line in (
        "tenants set acme --time-zone Pacific/Kiritimati",
        "cost-centers create --tenant acme 4711",
        "projects charge-to --tenant acme default 4711",
        f"prices import {file} --now",
        "prices commit --tenant acme --amount 100USD",
        "plans create gold --weight 2",
        "plans assign acme gold",
        "usage correct a --tenant acme --output 0 --cause one",
        "usage refund b --tenant acme --cause two",
        "usage rebuild",
    ):
        acme.parley(*line.split())
    used(acme, ("late", "2025-01-09T10:30"))

    async def held(books: QuotaLedger) -> str:
        at = int(datetime(2025, 1, 5, tzinfo=UTC).timestamp() * 1000)
        wrong = an_event("held", books.tenant, accepted_ms=at - 9, ended_ms=at, cost_nano=1)
        batch, _ = await post(books.db, "A", [encode(msgspec.structs.replace(wrong, cost_nano=1))])
        return batch.held[0].event_sha256

    acme.parley("quarantine", "accept", acme.does(held), "--reason", "late")
    assert views(acme) == before
    corrections = -7 * 400 - 3_700
    assert total(acme, "2025-02") == 3_700 + corrections + 2 * 3_700
    exported = list(csv.DictReader(io.StringIO(of(acme, "usage", "export", month="2025-02").stdout)))
    late = [row for row in exported if row["ChargePeriodStart"] < "2025-01-31T10:00"]
    assert {row["ChargeClass"] for row in late} == {"Correction"}
    assert {row["ChargePeriodStart"][:13] for row in late} == {
        "2025-01-03T10",
        "2025-01-05T00",
        "2025-01-09T10",
    }
    acme.parley("tenants", "set", "acme", "--time-zone", "America/Los_Angeles")
    assert views(acme) == before


@pytest.mark.parametrize(
    ("old", "new", "month"),
    [
        ("Pacific/Kiritimati", "Etc/GMT+12", "2024-12"),
        ("America/New_York", "Asia/Tokyo", "2025-10"),
    ],
)
def test_a_month_in_which_the_zone_changes_has_no_gap_and_no_overlap(
    acme: Acme, old: str, new: str, month: str
) -> None:
    """INV-27: At the ends of years and where clocks turn: all is billed once, in the closed month or the
    next."""
    acme.parley("tenants", "set", "acme", "--time-zone", old)
    year, number = map(int, month.split("-"))
    ends = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC).timestamp()
    hours = range(-30, 31, 3)
    times = [f"{datetime.fromtimestamp(ends + 3600 * hour + 1, UTC):%Y-%m-%dT%H:%M:%S}" for hour in hours]
    used(acme, *((f"r{hour}", at) for hour, at in zip(hours, times, strict=True)))
    of(acme, "prices", "close-period", month=month)
    before = total(acme, month)
    acme.parley("tenants", "set", "acme", "--time-zone", new)
    following = f"{year + number // 12}-{number % 12 + 1:02}"
    assert total(acme, month) == before
    assert before + total(acme, following) == len(times) * 3_700
    days = rows(of(acme, "usage", "show", "--by", "day", "--json", month=following))
    assert sum(day["amount_nano"] for day in days) == total(acme, following)
    of(acme, "prices", "close-period", month=following)
    first, second = periods(acme)
    assert (first["time_zone"], second["time_zone"], first["to"]) == (old, new, second["from"])
    acme.parley("tenants", "set", "acme", "--time-zone", old)
    assert (before, total(acme, following)) == (total(acme, month), len(times) * 3_700 - before)


def periods(acme: Acme) -> list[dict[str, Any]]:
    """The closed months."""
    return rows(acme.parley("prices", "periods", "--tenant", "acme", "--json"))


def test_a_month_that_is_closed_is_not_closed_again_in_another_zone(acme: Acme) -> None:
    """It is shown; and the running one is still not over."""
    used(acme, ("a", "2025-01-03T10:30"))
    of(acme, "prices", "close-period")
    acme.parley("tenants", "set", "acme", "--time-zone", "Asia/Tokyo")
    assert "closed" in of(acme, "prices", "close-period").stderr
    assert len(periods(acme)) == 1
    running = f"{datetime.now(UTC):%Y}-12"
    assert "open" in refused(acme.types("prices", "close-period", "--tenant", "acme", "--month", "2025-03"))
    assert acme.types("prices", "close-period", "--tenant", "acme", "--month", running).exit_code != 0
