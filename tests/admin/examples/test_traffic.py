"""Requests of the example tenants: the same for the same seed, and such as real ones are."""

from collections import Counter
from datetime import UTC, datetime

from admin.examples.tenants import COUNT_MAX, NEW, TENANTS, Rhythm, example_tenants
from admin.examples.traffic import DAY_MS, ExampleDays, example_requests
from billing.booking.admissions import Admissions
from core.ids import uuid7_ms

END_MS = 1_790_000_000_000
DAYS = ExampleDays(60, 200, 7, END_MS, ("one", "two"))


def test_the_same_seed_draws_the_same():
    """Another seed draws others."""
    made = example_requests(TENANTS, DAYS)
    assert made == example_requests(TENANTS, DAYS)
    assert made != example_requests(TENANTS, ExampleDays(60, 200, 8, END_MS, ("one", "two")))


def test_there_are_as_many_as_were_ordered():
    """Within the days, in the order of their ends, each under an id of its own time; tenants by their
    share, and the new one has none."""
    tenants = example_tenants(8)
    made = example_requests(tenants, DAYS)
    assert abs(len(made) - 60 * 200) < 50
    assert [each.ended_ms for each in made] == sorted(each.ended_ms for each in made)
    assert all(END_MS - 60 * DAY_MS <= each.accepted_ms < each.ended_ms <= END_MS for each in made)
    assert all(uuid7_ms(each.id) == each.accepted_ms for each in made)
    assert len({each.id for each in made}) == len(made)
    by_tenant = Counter(each.tenant for each in made)
    assert by_tenant.most_common(1)[0][0] == "acme"
    assert NEW in tenants
    assert by_tenant.keys() == {each.name for each in tenants} - {NEW.name}


def test_there_are_days_and_nights_and_weekends():
    """The office sleeps while the nightly job runs."""
    utc = [each for each in TENANTS if each.zone == "UTC"]
    office = {key.name for key in utc[0].keys if key.rhythm is Rhythm.OFFICE}
    times = [
        datetime.fromtimestamp(each.accepted_ms / 1000, UTC)
        for each in example_requests(utc, DAYS)
        if each.key in office
    ]
    by_hour, by_day = Counter(each.hour for each in times), Counter(each.weekday() for each in times)
    assert by_hour[10] > 8 * max(1, by_hour[3])
    assert min(by_day[day] for day in range(5)) > 2 * max(by_day[5], by_day[6])


def test_they_end_as_real_ones_do():
    """Most stop; a few are cancelled or fail, some are blocked by strict rules. Nobody pays for the answer of
    an error, and no more is used than was admitted."""
    made = example_requests(example_tenants(COUNT_MAX), DAYS)
    ends = Counter(each.reason for each in made)
    assert 0.9 < ends["stop"] / len(made) < 0.97
    assert all(0 < ends[reason] < len(made) / 20 for reason in ("length", "cancelled", "blocked", "error"))
    for each in made:
        counts = each.counts
        assert counts.input_uncached + counts.input_cached <= each.asked_input
        assert counts.output_text + counts.output_reasoning <= each.asked_output
        times = [each.accepted_ms, each.claimed_ms, each.first_token_ms, each.ended_ms]
        assert [at_ms for at_ms in times if at_ms] == sorted(at_ms for at_ms in times if at_ms)
        assert not (each.reason == "error" and counts.output_text)
        assert bool(each.claimed_ms) is bool(counts.input_uncached + counts.input_cached)
        assert each.ended_ms - each.accepted_ms < Admissions([]).deadline_ms_max
    strict = {each.name for each in TENANTS if each.strict}
    assert {each.tenant for each in made if each.reason == "blocked"} == strict
    assert any(each.counts.input_cached for each in made)
    assert any(each.counts.output_reasoning for each in made)
    assert any(each.labels != b"{}" for each in made)
    assert any(each.verdicts for each in made)
