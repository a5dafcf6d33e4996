"""What is tried again and again is said once in a while; a span keeps of an error its kind alone."""

from types import SimpleNamespace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from core.observability import telemetry
from core.observability.telemetry import RepeatedWarning, Spans, logger


def test_a_warning_is_said_first_and_then_at_most_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """With how often it happened since, this time too; each event by itself."""
    now = [100.0]
    monkeypatch.setattr(telemetry, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with capture_logs() as logs:
        repeated = RepeatedWarning(logger("test"), 5.0)
        for at, event in ((100, "a"), (101, "a"), (101, "b"), (104.9, "a"), (105, "a"), (110, "a")):
            now[0] = at
            repeated.warning(event, at=at)
    assert [(each["event"], each["at"], each.get("times")) for each in logs] == [
        ("a", 100, None),
        ("b", 101, None),
        ("a", 105, 3),
        ("a", 110, None),
    ]


def test_a_span_has_the_kind_of_an_error_and_none_of_its_words() -> None:
    """It is red, and the error goes on."""
    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    spans = Spans(provider.get_tracer("test"))
    with pytest.raises(ValueError, match="canary"), spans.span("x"):
        raise ValueError("canary")
    (span,) = kept.get_finished_spans()
    assert (span.attributes or {}).get("error.type") == "ValueError"
    assert (span.status.is_ok, span.status.description, list(span.events)) == (False, None, [])
