"""A month is not closed while usage of it is under way; one that was closed all the same says so for good."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from billing.closing import period_gaps
from billing.periods import HOUR_MS
from billing.posting.biller import post
from billing.posting.usage_stream import EndedStream
from billing.quota import unposted_usage
from billing.quota.redis_keys import open_requests_key
from billing.quota.types import Admitted
from billing.usage import ENDED_FIELD, UsageEvent, encode, ended_stream
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.pools import announce_pool
from tests.billing.acme import Acme
from tests.billing.cli.refusals import refused
from tests.billing.quota.quota_ledger import QuotaLedger

NOBODYS_REDIS = "redis://127.0.0.1:1"
CLOSE = ("close-period", "--tenant", "acme", "--month")
YEAR_MS = str(366 * 24 * HOUR_MS)  # the longest deadline, so that what ran in September may run now
SEPTEMBER_MS = int(datetime(2026, 9, 10, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def acme(home: Path, redis_url: str, sqlite_template: Path) -> Acme:
    """On a SQLite and an empty Redis of its own."""
    return Acme(home, redis_url, sqlite_template)


def an_end(books: QuotaLedger, id: str, ended_ms: int = SEPTEMBER_MS) -> UsageEvent:
    """Of an answer that took a second."""
    return books.event(id, accepted_ms=ended_ms - 1_000, ended_ms=ended_ms)


async def delivered(books: QuotaLedger, pool: str, *events: UsageEvent) -> None:
    """To a pool's stream, as workers do."""
    await announce_pool(books.redis, Settings(), pool)
    for event in events:
        await books.redis.xadd(ended_stream(pool), {ENDED_FIELD: encode(event)})


async def opened(books: QuotaLedger, id: str) -> None:
    """A request that was accepted in September and runs."""
    assert isinstance(await books.ask(id), Admitted)
    await books.redis.zadd(open_requests_key(books.tenant), {id: SEPTEMBER_MS})


def periods(acme: Acme) -> list[dict[str, Any]]:
    """The closed months."""
    shown = acme.parley("prices", "periods", "--tenant", "acme", "--json").stdout
    return [json.loads(line) for line in shown.splitlines()]


def test_a_month_with_usage_under_way_is_not_closed(acme: Acme) -> None:
    """Open, undelivered, delivered and not acknowledged, held back: each is counted by pool, what is of other
    months or booked is not."""

    async def leave(books: QuotaLedger) -> None:
        october = an_end(books, "later", SEPTEMBER_MS + 40 * 24 * HOUR_MS)
        await delivered(books, "B", *(an_end(books, id) for id in ("a", "b", "booked")), october)
        stream = EndedStream(books.redis, "B", "dead")
        await stream.ensure_groups()
        assert len(await stream.read()) == 4
        await delivered(books, "B", an_end(books, "c"))
        await delivered(books, "C", msgspec.structs.replace(an_end(books, "d"), tenant="another"))
        await post(books.db, "B", [encode(an_end(books, "booked"))])
        wrong = msgspec.structs.replace(an_end(books, "wrong"), cost_nano=1)
        await post(books.db, "A", [encode(wrong)])
        await delivered(books, "A", wrong)
        await opened(books, "runs")
        assert isinstance(await books.ask("now"), Admitted)

    acme.does(leave)
    said = refused(acme.types("prices", *CLOSE, "2026-09", deadline_bulk_ms=YEAR_MS))
    assert "pool A: 1 open, 1 held back; pool B: 3 undelivered" in said
    assert ("--force" in said, "biller" in said, "quarantine list" in said) == (True, True, True)
    assert periods(acme) == []
    tried = acme.parley("prices", *CLOSE, "2026-09", "--dry-run", deadline_bulk_ms=YEAR_MS)
    assert "2026-09: not whole: pool A: 1 open, 1 held back; pool B: 3 undelivered" in tried.stderr


@pytest.mark.parametrize(("most", "said"), [(10, "5 held back"), (4, "4 held back; more than was counted")])
def test_what_is_held_back_is_counted_a_few_at_a_time(
    acme: Acme, monkeypatch: pytest.MonkeyPatch, most: int, said: str
) -> None:
    """They may be large, and as many as a worker likes."""
    monkeypatch.setattr(period_gaps, "HELD_AT_ONCE", 2)
    monkeypatch.setattr(period_gaps, "HELD_MAX", most)

    async def leave(books: QuotaLedger) -> None:
        wrong = [msgspec.structs.replace(an_end(books, f"w{number}"), cost_nano=1) for number in range(5)]
        await post(books.db, "A", [encode(each) for each in wrong])

    acme.does(leave)
    assert f"pool A: {said}" in refused(acme.types("prices", *CLOSE, "2026-09"))


def test_a_month_that_was_closed_by_force_says_so_for_good(acme: Acme, home: Path) -> None:
    """When it is closed, when it is shown again, and in the audit log; also after what lacked has come."""
    acme.does(lambda books: delivered(books, "B", an_end(books, "a")))
    without = {"pools": [{"pool": "B", "open": 0, "undelivered": 1, "held": 0}]}
    without |= {"redis_away": False, "more": False}
    forced = acme.parley("prices", *CLOSE, "2026-09", "--force")
    acme.does(lambda books: post(books.db, "B", [encode(an_end(books, "a"))]))
    again = acme.parley("prices", *CLOSE, "2026-09", "--json")
    for shown in (forced, again):
        assert "2026-09: closed without: pool B: 1 undelivered" in shown.stderr
    for view in ("show", "export"):
        shown = acme.parley("usage", view, "--tenant", "acme", "--month", "2026-09")
        assert "closed without: pool B: 1 undelivered" in shown.stderr
    compared = acme.parley("usage", "compare", "--month", "2026-10", "--to-month", "2026-09")
    assert "acme: 2026-09 was closed without: pool B: 1 undelivered" in compared.stderr
    assert [row["closed_without"] for row in periods(acme)] == [without]
    assert "1 undelivered" in acme.parley("prices", "periods", "--tenant", "acme").stdout
    with closing(sqlite3.connect(home / "parley.db")) as connection:
        query = "SELECT after FROM audit_log WHERE action = 'period.close'"
        (row,) = connection.execute(query).fetchall()
    assert json.loads(row[0])["lacks"] == without


def test_a_whole_month_is_closed_and_says_nothing(acme: Acme) -> None:
    """Also where --force was said; what runs since is of a later month."""

    async def runs(books: QuotaLedger) -> None:
        assert isinstance(await books.ask("now"), Admitted)

    acme.does(runs)
    closed = acme.parley("prices", *CLOSE, "2026-09", "--force")
    assert "without" not in closed.stderr
    assert [row["closed_without"] for row in periods(acme)] == [None]


def test_without_redis_a_month_is_closed_by_force_alone(acme: Acme) -> None:
    """Nobody can say what is under way."""
    said = refused(acme.types("prices", *CLOSE, "2026-09", redis_url=NOBODYS_REDIS))
    assert ("Redis could not be asked" in said, "start Redis" in said) == (True, True)
    acme.parley("prices", *CLOSE, "2026-09", "--force", redis_url=NOBODYS_REDIS)
    assert periods(acme)[0]["closed_without"]["redis_away"] is True


def test_of_more_than_is_looked_at_it_is_said_that_there_is_more(
    acme: Acme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that nobody reads is no reason to read all of it, nor to call a month whole."""
    monkeypatch.setattr(unposted_usage, "ENTRIES_MAX", 2)

    async def leave(books: QuotaLedger) -> None:
        for id in "abc":
            await delivered(books, "B", an_end(books, id, now_ms()))

    acme.does(leave)
    assert "more than was counted" in refused(acme.types("prices", *CLOSE, "2026-09"))
