"""Ready GPU-seconds of dedicated pools: each instant of a GPU once, commitments first, then overage."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.dedicated_pools.commitment_rates import (
    HourCharge,
    HourLine,
    UnpricedError,
    charge_hour,
    cost_nano,
    covers_hour,
    total_nano,
)
from billing.dedicated_pools.hours import HOUR_MS, GpuHour, PoolOwnership, ReadyInterval, hours_of, parse
from billing.dedicated_pools.posting import differences
from billing.dedicated_pools.reports import whole_hours
from billing.money import NANO
from billing.periods import PeriodWindow
from billing.prices.price_file_tiers import gpu_second_nano
from billing.prices.rating import Meter
from billing.tables.dedicated_pools import Commitment
from billing.tables.prices import GpuPrice

HOUR = 500_000 * HOUR_MS
CENT = NANO // 100


def an_interval(start: int, end: int, worker: str = "w", busy: int = 0, **changes: object) -> ReadyInterval:
    """Of a worker with one GPU of its own, in ms after HOUR."""
    each = ReadyInterval("a", worker, HOUR + start, HOUR + end, busy, 1, "ready", f"GPU-{worker}", "h200")
    return replace(each, **changes)


intervals = st.lists(
    st.builds(
        lambda start, length, busy, worker, device, pool: an_interval(
            start, start + length, f"w{worker}", min(busy, length), device=f"GPU-{device}", pool=pool
        ),
        st.integers(0, 300),
        st.integers(0, 60),
        st.integers(0, 60),
        st.integers(0, 3),
        st.integers(0, 2),
        st.sampled_from("ab"),
    ),
    max_size=12,
)
owners = st.lists(st.tuples(st.integers(-100, 400), st.sampled_from(("", "t1", "t2"))), max_size=3).map(
    lambda rows: [
        PoolOwnership(HOUR + at, tenant) for at, tenant in sorted(set(rows), key=lambda row: row[0])
    ]
)


@settings(max_examples=60)
@given(intervals, owners, st.integers(0, 1 << 30))
def test_a_gpu_is_counted_once_at_each_instant(
    found: list[ReadyInterval], of_a: list[PoolOwnership], seed: int
) -> None:
    """INV-38: Against an hour that is read millisecond by millisecond, whatever the order in which intervals
    came, however often, and whoever reported them."""
    mixed = [*found, *random.Random(seed).choices(found, k=5 * bool(found))]
    random.Random(seed).shuffle(mixed)
    hours = hours_of(mixed, {"a": of_a})
    assert hours == hours_of(found, {"a": of_a})
    ready: dict[tuple[str, str], int] = {}
    for at in range(HOUR, HOUR + 400):
        seen: set[str] = set()
        for each in sorted(found, key=lambda each: (each.from_ms, each.pool, each.worker)):
            if each.from_ms <= at < each.to_ms and each.device not in seen:
                seen.add(each.device)
                owner = [owned.tenant_id for owned in of_a if owned.from_ms <= at] if each.pool == "a" else []
                key = (each.pool, owner[-1] if owner else "")
                ready[key] = ready.get(key, 0) + 1
    assert sum(hour.ready_ms for hour in hours) == sum(ready.values())
    by_owner: dict[tuple[str, str], int] = {}
    for hour in hours:
        by_owner[hour.pool, hour.tenant_id] = by_owner.get((hour.pool, hour.tenant_id), 0) + hour.ready_ms
        assert hour.busy_seconds <= hour.ready_seconds
    same = by_owner.keys() == ready.keys()
    assert same
    for key, total in ready.items():
        assert by_owner[key] == total


def test_busy_time_is_a_part_of_ready_time() -> None:
    """Of an interval that two owners share each has its share; the rest was idle."""
    each = an_interval(0, 10_000, busy=6_000)
    (first, second) = hours_of([each], {"a": [PoolOwnership(HOUR + 2_500, "t1")]})
    assert (first.tenant_id, first.ready_seconds, first.busy_seconds) == ("", 2, 1)
    assert (second.tenant_id, second.ready_ms, second.busy_ms) == ("t1", 7_500, 4_500)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"5 w", b"4 0 1 ready GPU h200"),
        (b"5 w", b"9 5 1 ready GPU h200"),
        (b"5 w", b"9 -1 1 ready GPU h200"),
        (b"5 w", b"9 1 99999 ready GPU h200"),
        (b"5 w", b"3600001 1 1 ready GPU h200"),
        (b"x w", b"9 1 1 ready GPU h200"),
        (b"5 w", b"9 1 1"),
        (b"5 \xff", b"9 1 1 ready GPU h200"),
    ],
)
def test_what_is_no_interval_is_refused(name: bytes, value: bytes) -> None:
    """Backwards, longer busy than ready, over an hour's end, not of numbers, not of text."""
    with pytest.raises(ValueError, match=r"."):
        parse("a", name, value)


@pytest.mark.parametrize(
    "value", [b"3600000 3600000 1024 s d t", b"0 0 0 s d t", b"3600000 0 1 s d two words"]
)
def test_what_is_just_an_interval_is_taken(value: bytes) -> None:
    """A whole hour in which all was busy, on as many GPUs as there can be, and one of no length."""
    found = parse("a", b"0 w 1", value)
    to_ms, busy_ms, gpus, state, device, gpu_type = value.decode().split(" ", 5)
    facts = (0, int(to_ms), int(busy_ms), int(gpus), state, device, gpu_type)
    assert found == ReadyInterval("a", "w 1", *facts)
    assert (found.hour_ms, replace(found, from_ms=2 * HOUR_MS - 1).hour_ms) == (0, HOUR_MS)
    for wrong in (b"9 1 1025 s d t", b"9 1 -1 s d t", b"9 10 1 s d t", b"3600001 1 1 s d t"):
        with pytest.raises(ValueError, match=r"."):
            parse("a", b"0 w", wrong)


def test_seconds_are_whole_ones_and_every_gpu_has_its_own() -> None:
    """Of a worker with two GPUs, twice the time; never busier than ready."""
    (hour,) = hours_of([an_interval(0, 1_999, busy=1_500, gpus=2)], {})
    assert (hour.ready_ms, hour.busy_ms) == (3_998, 3_000)
    assert (hour.ready_seconds, hour.busy_seconds) == (3, 3)
    assert replace(hour, ready_ms=2_999).busy_seconds == 2
    assert hours_of([an_interval(5, 5)], {}) == []


def test_hours_are_counted_whole() -> None:
    """A time that ends before it begins costs nothing; a window touches the hours of both its ends."""
    of = a_commitment()
    assert [cost_nano(of, HOUR, HOUR + ms) for ms in (HOUR_MS - 1, HOUR_MS, 2 * HOUR_MS, -HOUR_MS)] == [
        0, 2 * NANO, 4 * NANO, 0
    ]  # fmt: skip
    assert [covers_hour(of, HOUR + at * HOUR_MS) for at in (-1, 0, 9, 10)] == [False, True, True, False]
    assert whole_hours(PeriodWindow(HOUR_MS, 2 * HOUR_MS)) == PeriodWindow(HOUR_MS, 2 * HOUR_MS)
    assert whole_hours(PeriodWindow(HOUR_MS + 1, 2 * HOUR_MS + 1)) == PeriodWindow(HOUR_MS, 3 * HOUR_MS)


def a_commitment(id: str = "c", **changes: object) -> Commitment:
    """Two GPUs at a dollar an hour, for ten hours."""
    facts = {
        "tenant_id": "t1",
        "id": id,
        "gpu_type": "h200",
        "gpus": 2,
        "rate_nano": NANO,
        "payment": "monthly",
        "start_ms": HOUR,
        "end_ms": HOUR + 10 * HOUR_MS,
        "created_ms": 0,
        **changes,
    }
    return Commitment.model_validate(facts)


def a_use(seconds: int, pool: str = "a", gpu_type: str = "h200") -> GpuHour:
    """Ready GPU-seconds of one pool."""
    return GpuHour(pool, "t1", "", gpu_type, seconds * 1000, 0)


def of_book(gpu_type: str) -> GpuPrice | None:
    """3.60 dollars an hour for all types but one."""
    if gpu_type == "unknown":
        return None
    return GpuPrice(book_id="b", version=1, gpu_type="*", second_nano=gpu_second_nano(360 * CENT))


def amounts(charges: list[HourCharge]) -> dict[str, list[tuple[int, int]]]:
    """(quantity, nano) of each line by its charge."""
    return {each.source: [(line.quantity, line.amount_nano) for line in each.lines] for each in charges}


def test_without_a_commitment_the_book_prices_ready_seconds() -> None:
    """A tenth of a cent a second, exactly."""
    assert amounts(charge_hour([a_use(3_600)], [], HOUR, of_book)) == {"a h200": [(3_600, 360 * CENT)]}
    assert amounts(charge_hour([a_use(1)], [], HOUR, of_book)) == {"a h200": [(1, CENT // 10)]}


def test_what_was_committed_to_comes_first_then_overage() -> None:
    """Paid whether used or not; what is covered costs nothing more; beyond it what was agreed or the book."""
    idle = charge_hour([], [a_commitment()], HOUR, of_book)
    assert amounts(idle) == {"c": [(7_200, 2 * NANO)]}
    below = charge_hour([a_use(7_000)], [a_commitment()], HOUR, of_book)
    assert amounts(below) == {"c": [(7_200, 2 * NANO)], "a h200": [(7_000, 0)]}
    above = charge_hour([a_use(8_000)], [a_commitment(overage_nano=72 * CENT)], HOUR, of_book)
    assert amounts(above)["a h200"] == [(7_200, 0), (800, 800 * CENT // 50)]
    book = charge_hour([a_use(8_000)], [a_commitment()], HOUR, of_book)
    assert amounts(book)["a h200"] == [(7_200, 0), (800, 80 * CENT)]
    for at in (HOUR - HOUR_MS, HOUR + 10 * HOUR_MS):
        assert amounts(charge_hour([a_use(10)], [a_commitment()], at, of_book)) == {"a h200": [(10, CENT)]}


def test_a_pools_own_commitment_goes_before_one_for_all() -> None:
    """What one pool does not need covers the next; another type of GPU is not covered."""
    held = [a_commitment("a", gpus=1), a_commitment("b", gpus=1, pool="b")]
    uses = [a_use(4_000), a_use(5_000, "b"), a_use(10, "c", "b300")]
    found = amounts(charge_hour(uses, held, HOUR, of_book))
    assert found["a h200"] == [(3_600, 0), (400, 40 * CENT)]
    assert found["b h200"] == [(3_600, 0), (1_400, 140 * CENT)]
    assert found["c b300"] == [(10, CENT)]


def test_a_gpu_without_a_price_is_not_billed_for_nothing() -> None:
    """INV-38: No price is an error, not zero. Covered by a commitment it needs none."""
    with pytest.raises(UnpricedError):
        charge_hour([a_use(1, gpu_type="unknown")], [], HOUR, of_book)
    held = [a_commitment(gpu_type="*")]
    assert amounts(charge_hour([a_use(1, gpu_type="unknown")], held, HOUR, of_book))["a unknown"] == [(1, 0)]


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.sampled_from("abc")), max_size=5),
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(("", "a", "b"))), max_size=4),
    st.integers(0, 1 << 30),
)
def test_every_ready_second_is_billed_once_in_any_order(
    used: list[tuple[int, str]], held: list[tuple[int, str]], seed: int
) -> None:
    """INV-38: Covered or overage, and never more covered than was committed to."""
    uses = list({pool: a_use(seconds, pool) for seconds, pool in used}.values())
    commitments = [a_commitment(f"c{n}", gpus=gpus, pool=pool) for n, (gpus, pool) in enumerate(held)]
    charges = charge_hour(uses, commitments, HOUR, of_book)
    shuffle: Callable[[list[object]], None] = random.Random(seed).shuffle
    mixed_uses, mixed = list(uses), list(commitments)
    shuffle(mixed_uses)  # type: ignore[arg-type]
    shuffle(mixed)  # type: ignore[arg-type]
    assert charge_hour(mixed_uses, mixed, HOUR, of_book) == charges
    lines = [line for each in charges for line in each.lines if line.meter is Meter.GPU_SECOND]
    assert sum(line.quantity for line in lines) == sum(use.ready_seconds for use in uses)
    covered = sum(line.quantity for line in lines if not line.price_nano)
    assert covered <= sum(each.gpus for each in commitments) * 3_600


def test_what_was_posted_is_brought_to_what_is_wanted() -> None:
    """Lines for the difference, none where there is none, below zero where it was too much."""
    wanted = [HourLine(Meter.GPU_SECOND, 3_000, 7, 30), HourLine(Meter.GPU_SECOND, 600, 0, 0)]
    posted = {("gpu_second", "", 0, 7): (3_600, 36)}
    assert differences(wanted, posted) == [
        HourLine(Meter.GPU_SECOND, 600, 0, 0),
        HourLine(Meter.GPU_SECOND, -600, 7, -6),
    ]
    after = {("gpu_second", "", 0, 7): (3_000, 30), ("gpu_second", "", 0, 0): (600, 0)}
    assert differences(wanted, after) == []


def test_the_hours_of_a_commitment_add_up_to_its_total() -> None:
    """To the nano, whatever its rate."""
    odd = a_commitment(rate_nano=1_234_567_891, gpus=7)
    hours = [charge_hour([], [odd], HOUR + at * HOUR_MS, of_book) for at in range(-1, 12)]
    lines = [line for charges in hours for each in charges for line in each.lines]
    assert sum(line.amount_nano for line in lines) == total_nano(odd) == 10 * 7 * 1_234_567_891
