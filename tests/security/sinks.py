"""Everything that a process lets out beside its answers: logs in both formats, spans, metrics."""

import io
import logging
from collections.abc import Generator
from contextlib import contextmanager

import structlog
from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from core.configuration.settings import Settings
from core.observability.telemetry import configure_logs, prometheus_page

CANARY = "canary-5d1c"
spans = InMemorySpanExporter()


class Sinks:
    """What came out since `forget`. Both formats see the same records."""

    def __init__(self, json: io.StringIO, console: io.StringIO) -> None:
        self._json, self._console = json, console

    @property
    def lines(self) -> list[str]:
        """The log's lines, as JSON."""
        return self._json.getvalue().splitlines()

    @property
    def everything(self) -> str:
        """All of it in one text."""
        traces = "\n".join(span.to_json() for span in spans.get_finished_spans())
        return "\n".join(
            (self._json.getvalue(), self._console.getvalue(), traces, prometheus_page().decode())
        )

    def forget(self) -> None:
        """Begin anew."""
        spans.clear()
        for stream in (self._json, self._console):
            stream.seek(0)
            stream.truncate()


@contextmanager
def opened_sinks(settings: Settings) -> Generator[Sinks]:
    """While the block runs, logs and spans go here."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    streams: dict[str, io.StringIO] = {}
    handlers: list[logging.Handler] = []
    for format in ("json", "console"):
        configure_logs(settings.model_copy(update={"log_format": format}), "test")
        (handler,) = root.handlers
        assert isinstance(handler, logging.StreamHandler)
        streams[format] = io.StringIO()
        handler.setStream(streams[format])
        handlers.append(handler)
    root.handlers[:] = [*before, *handlers]
    try:
        yield Sinks(streams["json"], streams["console"])
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()


def keep_in_memory() -> None:
    """Spans and metrics are kept. Once a process: what providers there are cannot be replaced."""
    if not isinstance(metrics.get_meter_provider(), MeterProvider):
        metrics.set_meter_provider(MeterProvider(metric_readers=[PrometheusMetricReader()]))
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(spans))
