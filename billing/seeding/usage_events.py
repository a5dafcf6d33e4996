"""Ended requests of a seeded tenant: more by day than by night, more on weekdays, more every week. Pure."""

from collections.abc import Iterator
from random import Random

from billing.periods import HOUR_MS
from billing.prices.rating import Counts, rate
from billing.seeding.shapes import SeedShape, chance_of
from billing.seeding.tenant_rows import UsageSource
from billing.usage import Phase, PhaseKind, PinnedPrices, UsageEvent, UsageOwner, ended_phases
from core.ids import uuid7

PRICES = PinnedPrices(
    book="default", version=1, input_nano=100_000_000, cached_input_nano=25_000_000, output_nano=400_000_000
)
MODELS = ("smollm2", "qwen3-8b", "llama-4-scout")
BY_HOUR = [1, 1, 1, 1, 1, 2, 3, 5, 8, 10, 11, 10, 9, 10, 11, 11, 10, 8, 6, 5, 4, 3, 2, 1]
WEEKEND = (5, 6)
LOST_EVERY = 150  # of so many one had its worker die
FLAGGED = {"email": {"redact": 1}}
REASONS = ("stop",) * 17 + ("length", "cancelled", "error")


def usage_events(
    shape: SeedShape, of: UsageSource, pool: str, number: int | None = None
) -> Iterator[UsageEvent]:
    """The tenant's events, or so many, in the order of their times."""
    chance = chance_of(shape, "usage", of.rank)
    hours = hours_drawn(shape, chance, of.events if number is None else number)
    for at_ms in sorted(hour * HOUR_MS + int(chance.random() * HOUR_MS) for hour in hours):
        yield _event(of, chance, at_ms, pool)


def hours_drawn(shape: SeedShape, chance: Random, count: int) -> list[int]:
    """So many hours of the shape's days, as requests come: numbers since the Epoch."""
    first = shape.start_ms // HOUR_MS + 1
    hours = range(first, shape.end_ms // HOUR_MS)
    weights = [BY_HOUR[hour % 24] * _by_day(hour // 24, first // 24, shape.days) for hour in hours]
    return chance.choices(hours, weights, k=count)


def _by_day(day: int, first: int, days: int) -> float:
    growing = 1 + (day - first) / max(1, days)
    return growing * (0.3 if (day + 3) % 7 in WEEKEND else 1)  # the Epoch began on a Thursday


def _event(of: UsageSource, chance: Random, at_ms: int, pool: str) -> UsageEvent:
    key, project = of.keys[int(chance.random() ** 2 * len(of.keys))]
    number = int(chance.random() * 1_000_000)
    counts = Counts(
        input_uncached=40 + number % 900, input_cached=number % 4 * 64, output_text=20 + number % 610
    )
    took_ms = 300 + counts.output_text * 20
    first_ms, is_lost = 20 + number % 400, number % LOST_EVERY == 0
    return UsageEvent(
        tenant=of.tenant,
        request=uuid7(at_ms),
        pool=pool,
        model=MODELS[number % len(MODELS)],
        fingerprint="seeded",
        owner=UsageOwner(project=project, key=key, user=of.users[int(chance.random() ** 2 * len(of.users))]),
        accepted_ms=at_ms,
        claimed_ms=at_ms + 20,
        first_token_ms=at_ms + first_ms,
        ended_ms=at_ms + took_ms,
        reason=REASONS[number % len(REASONS)],
        prices=PRICES,
        input_uncached=counts.input_uncached,
        input_cached=counts.input_cached,
        output_text=counts.output_text,
        cost_nano=rate(counts, PRICES)[1],
        claims=2 if is_lost else 1,
        recomputed_tokens=counts.input_uncached if is_lost else 0,
        asked_input=counts.input_uncached + counts.input_cached,
        asked_output=counts.output_text,
        verdicts=FLAGGED if number % 200 == 0 else {},
        phases=_phases(first_ms, took_ms, is_lost),
    )


def _phases(first_ms: int, took_ms: int, is_lost: bool) -> list[Phase]:
    """Of a plain life; of one whose worker was lost halfway through its output."""
    found = [("queued", 2), ("claimed", 20), ("decode", first_ms)]
    if is_lost:
        lost_ms, left_ms = (first_ms + took_ms) // 2, (took_ms - first_ms) // 2
        found += [("lost", lost_ms), ("claimed", lost_ms + left_ms // 3), ("decode", lost_ms + left_ms // 2)]
    return ended_phases(found, PhaseKind.ENDED, took_ms)
