"""Billing's metrics. Labels come from enums only: never a tenant, a key or a request."""

from collections.abc import Callable, Iterable, Mapping
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Observation

from core.observability.telemetry import meter

_meter = meter("billing")

events_posted = _meter.create_counter("parley_billing_events_posted", description="usage events posted")
events_repeated = _meter.create_counter(
    "parley_billing_events_repeated", description="deliveries of events that had been posted already"
)
events_repaired = _meter.create_counter(
    "parley_billing_events_repaired", description="events with a text that was stored in another form"
)
events_quarantined = _meter.create_counter(
    "parley_billing_events_quarantined", description="events held back, by reason"
)
posting_lag = _meter.create_histogram(
    "parley_billing_posting_lag", unit="ms", description="from a request's end to its posting"
)
_unbilled: list[float] = []


def show_unbilled(share: float) -> None:
    """Show the largest unbilled share of a pool: the part of the last day's output that ended and is not
    billed."""
    _unbilled[:] = [share]


_meter.create_observable_gauge(
    "parley_billing_unbilled_share",
    [lambda _: [Observation(share) for share in _unbilled]],
    description="Part of the last day's output tokens that is lost or held, of the pool with the most",
)
sums_rebuilt = _meter.create_counter(
    "parley_reconciliation_rebuilt", description="tenants' sums counted anew after Redis lost data"
)
rebuild_paused = _meter.create_counter(
    "parley_reconciliation_rebuild_paused",
    description="times that sums were not counted anew, as they were lost again and again",
)
comparisons_overdue = _meter.create_counter(
    "parley_reconciliation_overdue", description="looks that found a tenant's R4 waiting for an hour"
)

_months_left_open: list[int] = []


def show_months_left_open(number: int) -> None:
    """Show how many tenants' months were due to be closed at the last look, and are open."""
    _months_left_open[:] = [number]


_meter.create_observable_gauge(
    "parley_months_left_open",
    [lambda _: [Observation(number) for number in _months_left_open]],
    description="Tenants whose month was to be closed, and has usage that is not booked yet.",
)
heads_stored = _meter.create_counter(
    "parley_audit_heads_stored", description="heads of chains that were stored elsewhere, by kind of place"
)
heads_store_failures = _meter.create_counter(
    "parley_audit_heads_store_failures", description="times that a place did not take heads, by kind of place"
)

_heads_ages: WeakKeyDictionary[object, tuple[str, Callable[[], float]]] = WeakKeyDictionary()


def show_heads_age(of: object, kind: str, age_seconds: Callable[[], float]) -> None:
    """Report the age of the heads kept at a place, as long as `of` lives."""
    _heads_ages[of] = (kind, age_seconds)


def heads_ages() -> dict[str, float]:
    """Age of the oldest heads, by kind of place."""
    ages: dict[str, float] = {}
    for kind, age_seconds in list(_heads_ages.values()):
        ages[kind] = max(ages.get(kind, 0.0), age_seconds())
    return ages


def _by_kind(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(age, {"place": kind}) for kind, age in heads_ages().items()]


_meter.create_observable_gauge(
    "parley_audit_heads_age",
    [_by_kind],
    unit="s",
    description="Since heads were last kept at the place of a kind that is the furthest behind",
)

_differing: dict[str, int] = {}
_differences: dict[str, int] = {}


def show_differences(differing: Mapping[str, int], differences: Mapping[str, int]) -> None:
    """Show the last reconciliation's result by check: the number of differing comparisons, and the sum of
    differences."""
    _differing.update(differing)
    _differences.update(differences)


def _by_check(found: Mapping[str, int]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: [Observation(value, {"check": check}) for check, value in list(found.items())]


_meter.create_observable_gauge(
    "parley_reconciliation_differences",
    [_by_check(_differing)],
    description="Comparisons that differ, by check",
)
_meter.create_observable_gauge(
    "parley_reconciliation_difference_amount",
    [_by_check(_differences)],
    description="Sum of the differences, in the check's unit (nano-USD, tokens, ms, faults, holds)",
)
