"""Billing's metrics. Labels come from enums only: never a tenant, a key or a request."""

from core.telemetry import meter

_meter = meter("billing")

events_posted = _meter.create_counter("parley_billing_events_posted", description="usage events posted")
events_repeated = _meter.create_counter(
    "parley_billing_events_repeated", description="deliveries of events that had been posted already"
)
events_quarantined = _meter.create_counter(
    "parley_billing_events_quarantined", description="events held back, by reason"
)
posting_lag = _meter.create_histogram(
    "parley_billing_posting_lag", unit="ms", description="from a request's end to its posting"
)
