"""The last time, amount and notice that prices and commitments may have, and the first that they may not."""

from collections.abc import Awaitable
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.closing import period_commitments
from billing.closing.period_commitments import MISTAKE_MS_MAX, NewCommitment, commit, end_commitment
from billing.dedicated_pools import commitments as of_gpus
from billing.dedicated_pools.commitments import GpuTerms, commit_gpus, end_gpu_commitment
from billing.money import NANO
from billing.periods import AHEAD_MS_MAX, HOUR_MS, LAST_MS, Period, PeriodWindow, window_at
from billing.prices import book, withdrawals
from billing.prices.book import NewVersion, add_version
from billing.prices.files import FlatPrices
from billing.prices.price_file_tiers import PRICE_NANO_MAX
from billing.prices.rating import Meter
from billing.prices.tiers import QUANTITY_MAX
from billing.prices.true_up import CommittedInPeriod
from billing.prices.withdrawals import NOTICE_MS, withdraw_version
from billing.tables.tenants import PriceVersion, Tenant
from billing.tenants.tenancy import create_tenant
from core.errors import Refused
from core.sql.database import Database
from core.sql.joined import joined_transaction

NOW = 4_070_908_800_000  # in 2099: what has not begun by any clock may be withdrawn
DAY_MS = 24 * HOUR_MS
MONTH = window_at(Period.MONTH, ZoneInfo("UTC"), NOW)
YEAR = PeriodWindow(MONTH.start_ms, MONTH.end_ms + 300 * DAY_MS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What all of them take for now."""
    now = [NOW]
    for module in (book, withdrawals, period_commitments, of_gpus):
        monkeypatch.setattr(module, "now_ms", lambda: now[0])
    return now


async def _refused(work: Awaitable[object], says: str) -> None:
    with pytest.raises(Refused, match=says):
        await work


def _version(output: int, begins: int | None, **more: object) -> NewVersion:
    return NewVersion("gold", {"*": FlatPrices(1, 1, output, 0)}, valid_from_ms=begins, **more)  # type: ignore[arg-type]


async def _planned(db: Database, output: int, begins: int, **more: object) -> PriceVersion:
    version, made = await add_version(db, _version(output, begins, **more))
    assert made
    return version


async def test_a_version_begins_within_13_months_or_is_meant(sqlite: Database, clock: list[int]) -> None:
    """And never after the last year that has a next one."""
    await _planned(sqlite, 1, NOW + AHEAD_MS_MAX)
    await _refused(add_version(sqlite, _version(1, NOW + AHEAD_MS_MAX + 1)), "13 months")
    await _planned(sqlite, 2, NOW + AHEAD_MS_MAX + 1, far_ahead=True)
    await _planned(sqlite, 3, LAST_MS - 1, far_ahead=True)
    await _refused(add_version(sqlite, _version(4, LAST_MS, far_ahead=True)), "9998")
    await _refused(add_version(sqlite, _version(4, NOW - 1)), "has passed")
    await _planned(sqlite, 4, NOW)


async def test_a_version_that_follows_another_gives_gateways_a_minute(
    sqlite: Database, clock: list[int]
) -> None:
    """They keep prices so long. The first one begins at once; the same again is there already."""
    await _planned(sqlite, 1, NOW, lead_ms=60_000)
    for begins, says in ((NOW, "a minute ahead"), (NOW + 59_999, "a minute ahead"), (NOW - 1, "has passed")):
        await _refused(add_version(sqlite, _version(2, begins, lead_ms=60_000)), says)
    for is_new in (True, False):
        version, made = await add_version(sqlite, _version(2, None, lead_ms=60_000))
        assert (version.version, version.valid_from_ms, made) == (2, NOW + 60_000, is_new)
    await _refused(add_version(sqlite, _version(3, NOW + 60_000, lead_ms=60_000)), "begins at that time")
    assert (await _planned(sqlite, 3, NOW + 60_001, lead_ms=60_000)).version == 3
    clock[0] = NOW + 1
    version, made = await add_version(sqlite, _version(4, None))
    assert (version.valid_from_ms, made) == (NOW + 1, True)


@pytest.mark.parametrize(
    ("versions", "number"),
    [
        ([], None),
        ([(1, 11, None)], None),
        ([(1, 10, None)], 1),
        ([(1, 5, None), (2, 4, None)], 1),
        ([(1, 5, None), (2, 5, None)], 2),
        ([(1, 5, None), (2, 6, 7)], 1),
    ],
)
def test_the_last_version_to_begin_is_in_force(
    versions: list[tuple[int, int, int | None]], number: int | None
) -> None:
    """At 10, of (version, from when on, withdrawn): from its millisecond on, of two the later one written."""
    facts = {"book_id": "b", "tenant_id": "t", "created_ms": 0}
    rows = [
        PriceVersion(version=at, valid_from_ms=begins, withdrawn_ms=gone, **facts)  # type: ignore[arg-type]
        for at, begins, gone in versions
    ]
    for each in (rows, rows[::-1]):
        found = book._in_force(each, 10)
        assert (found.version if found else None) == number


async def test_a_book_has_three_parents_at_most(sqlite: Database) -> None:
    """Of its own currency, which are there."""
    of: dict[str, Any] = {"prices": {"*": FlatPrices(1, 1, 1, 0)}}
    for number in range(4):
        parent = f"b{number - 1}" if number else None
        await add_version(sqlite, NewVersion(f"b{number}", parent=parent, **of))
    for parent, currency, says in (
        ("b3", "usd", "at most 3 parents"),
        ("b9", "usd", "no price book 'b9'"),
        ("b2", "eur", "'b2' is in usd, not in eur"),
    ):
        new = NewVersion("b4", parent=parent, currency=currency, **of)
        await _refused(add_version(sqlite, new), says)


async def test_a_version_is_withdrawn_until_a_minute_before_it_begins(
    sqlite: Database, clock: list[int]
) -> None:
    """Or replaced; afterwards gateways may have read it. Once is enough, and it makes room."""
    begins = NOW + DAY_MS
    first = await _planned(sqlite, 1, begins)
    clock[0] = begins - NOTICE_MS + 1
    for work in (
        withdraw_version(sqlite, "gold", first.version, "typo"),
        add_version(sqlite, _version(2, begins, replaces=first.version, reason="typo")),
    ):
        await _refused(work, "begun, or begins within a minute")
    clock[0] = begins - NOTICE_MS
    second = await _planned(sqlite, 2, begins, replaces=first.version, reason="typo")
    await _refused(withdraw_version(sqlite, "gold", first.version, "typo"), "withdrawn already")
    gone = await withdraw_version(sqlite, "gold", second.version, "typo")
    assert (gone.version.withdrawn_ms, gone.instead) == (clock[0], None)
    await _planned(sqlite, 2, begins)


async def test_what_replaces_a_version_may_begin_at_another_time(sqlite: Database, clock: list[int]) -> None:
    """The replaced one is gone all the same; but not by an import that it already is."""
    first = await _planned(sqlite, 1, NOW + DAY_MS)
    same, made = await add_version(sqlite, _version(1, NOW + DAY_MS, replaces=first.version, reason="again"))
    assert (same.version, same.withdrawn_ms, made) == (first.version, None, False)
    second = await _planned(sqlite, 2, NOW + 2 * DAY_MS, replaces=first.version, reason="later")
    await _refused(withdraw_version(sqlite, "gold", first.version, "typo"), "withdrawn already")
    await _refused(
        add_version(sqlite, _version(3, NOW + 3 * DAY_MS, replaces=first.version, reason="r")),
        "withdrawn already",
    )
    again, made = await add_version(
        sqlite, _version(2, NOW + 2 * DAY_MS, replaces=first.version, reason="later")
    )
    assert (again.version, made) == (second.version, False)


async def _acme(db: Database) -> Tenant:
    return await create_tenant(db, "acme")


async def test_a_commitment_begins_within_13_months_or_is_meant(sqlite: Database) -> None:
    """And with the running month at the earliest."""
    acme, new = await _acme(sqlite), NewCommitment(CommittedInPeriod(NANO), MONTH)
    far = NewCommitment(CommittedInPeriod(NANO), MONTH, far_ahead=True)
    soon = MONTH.start_ms - AHEAD_MS_MAX
    await commit(sqlite, acme, new, dry_run=True, now=soon)
    await _refused(commit(sqlite, acme, new, dry_run=True, now=soon - 1), "13 months")
    await commit(sqlite, acme, far, dry_run=True, now=soon - 1)
    await commit(sqlite, acme, new, dry_run=True, now=MONTH.end_ms - 1)
    await _refused(commit(sqlite, acme, new, dry_run=True, now=MONTH.end_ms), "running month")


GOOD = (
    (CommittedInPeriod(PRICE_NANO_MAX), 0),
    (CommittedInPeriod(1), 24),
    (CommittedInPeriod(1, "*", Meter.OUTPUT, 1, 0), 1),
    (CommittedInPeriod(1, "m", Meter.OUTPUT, QUANTITY_MAX - 1, PRICE_NANO_MAX), 1),
)
BAD = (
    (CommittedInPeriod(PRICE_NANO_MAX + 1), 0, "9,000,000"),
    (CommittedInPeriod(0), 0, "above zero"),
    (CommittedInPeriod(1), 25, "notice"),
    (CommittedInPeriod(1), -1, "notice"),
    (CommittedInPeriod(1, "*", Meter.OUTPUT, 0), 1, "at least 1"),
    (CommittedInPeriod(1, "*", Meter.OUTPUT, QUANTITY_MAX), 1, "at least 1"),
    (CommittedInPeriod(1, "", Meter.OUTPUT, 1), 1, "names a model"),
    (CommittedInPeriod(1, "*", Meter.OUTPUT, 1, -1), 1, "overage"),
    (CommittedInPeriod(1, "*", Meter.OUTPUT, 1, PRICE_NANO_MAX + 1), 1, "overage"),
    (CommittedInPeriod(1, "*"), 1, "belong to a meter"),
    (CommittedInPeriod(1, units=1), 1, "belong to a meter"),
    (CommittedInPeriod(1, overage_nano=0), 1, "belong to a meter"),
    (CommittedInPeriod(1, "*", Meter.REASONING, 1), 1, "units are of"),
)


async def test_terms_of_a_commitment_have_bounds(sqlite: Database) -> None:
    """Amounts, units, and a notice of at most two years."""
    acme = await _acme(sqlite)
    for terms, notice in GOOD:
        await commit(sqlite, acme, NewCommitment(terms, MONTH, notice), dry_run=True, now=NOW)
    for terms, notice, says in BAD:
        await _refused(commit(sqlite, acme, NewCommitment(terms, MONTH, notice), now=NOW), says)


async def test_a_mistake_is_one_for_a_day(sqlite: Database, clock: list[int]) -> None:
    """To the millisecond. And a notice counts from the end of the running month."""
    acme = await _acme(sqlite)
    made = await commit(sqlite, acme, NewCommitment(CommittedInPeriod(NANO), YEAR))
    clock[0] = NOW + MISTAKE_MS_MAX + 1
    await _refused(end_commitment(sqlite, acme, made.id, "typo", mistake=True), "within a day")
    clock[0] = NOW + MISTAKE_MS_MAX
    gone, before = await end_commitment(sqlite, acme, made.id, "typo", mistake=True, dry_run=True)
    assert (gone.ends_ms, before) == (MONTH.start_ms, YEAR.end_ms)
    following = window_at(Period.MONTH, ZoneInfo("UTC"), MONTH.end_ms).end_ms
    for clock[0], ends in ((MONTH.end_ms - 1, following), (MONTH.start_ms, following)):
        row, _ = await end_commitment(sqlite, acme, made.id, "they leave", dry_run=True)
        assert row.ends_ms == ends


HOUR = NOW - NOW % HOUR_MS
GPU_BAD = (
    ({"gpus": 0}, "GPUs"),
    ({"rate_nano": -1}, "rate"),
    ({"rate_nano": of_gpus.HOUR_NANO_MAX + 1}, "rate"),
    ({"overage_nano": of_gpus.HOUR_NANO_MAX + 1}, "rate"),
    ({"payment": "never"}, "is paid"),
    ({"start_ms": HOUR - HOUR_MS}, "hours that are over"),
    ({"start_ms": HOUR + 1}, "full hour"),
    ({"end_ms": HOUR + 1}, "full hour"),
    ({"end_ms": HOUR}, "at least an hour"),
    ({"end_ms": HOUR + (of_gpus.HOURS_MAX + 1) * HOUR_MS}, "five years"),
    ({"notice_days": 367}, "notice"),
    ({"notice_days": -1}, "notice"),
    ({"gpu_type": ""}, "type of GPU"),
)


async def test_a_commitment_to_gpus_has_bounds(sqlite: Database, clock: list[int]) -> None:
    """From this hour on, for an hour to five years, with a notice of at most a year."""
    acme, hours = (await _acme(sqlite)).tenant_id, of_gpus.HOURS_MAX
    least = {"gpu_type": "x", "gpus": 1, "start_ms": HOUR, "end_ms": HOUR + HOUR_MS, "rate_nano": 0}
    long = {"end_ms": HOUR + hours * HOUR_MS, "notice_days": 366}
    dear = {"rate_nano": of_gpus.HOUR_NANO_MAX, "overage_nano": of_gpus.HOUR_NANO_MAX, "notice_days": 0}
    for more, says in GPU_BAD:
        await _refused(commit_gpus(sqlite, acme, GpuTerms(**{**least, **more})), says)  # type: ignore[arg-type]
    await _refused(commit_gpus(sqlite, acme, GpuTerms(**{**least, **long, **dear})), "books can hold")  # type: ignore[arg-type]
    for more in ({}, long, dear):
        await commit_gpus(sqlite, acme, GpuTerms(**{**least, **more}))  # type: ignore[arg-type]


async def test_gpus_are_kept_to_the_full_hour_after_the_notice(sqlite: Database, clock: list[int]) -> None:
    """Given up in a running hour they are kept to its end, at a full one no longer."""
    acme = (await _acme(sqlite)).tenant_id
    terms = GpuTerms("x", 1, HOUR, HOUR + 90 * DAY_MS, NANO, notice_days=1)
    made = await commit_gpus(sqlite, acme, terms)
    for clock[0], hours in ((HOUR, 24), (HOUR + 1, 25), (HOUR + HOUR_MS, 25)):
        async with joined_transaction(sqlite, lambda _: None, dry=True) as db:
            row, _ = await end_gpu_commitment(db, acme, made.id, "they leave")
        assert row.ends_ms == HOUR + hours * HOUR_MS
    clock[0] = HOUR
    await _refused(end_gpu_commitment(sqlite, acme, made.id, "typo", mistake=True), "has begun")
