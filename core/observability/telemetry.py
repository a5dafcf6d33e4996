"""Logs, traces and metrics for every process.

No prompt, key, secret or other value from an error or a stranger goes into any of them
(core/observability/error_facts.py, core/observability/log_lines.py). Instruments are declared by each package
in its own `instruments.py` on `meter(package)`.
"""

import contextlib
import logging
import math
import sys
import time
from collections.abc import Generator

import structlog
from opentelemetry import metrics, trace
from opentelemetry.metrics import Meter
from opentelemetry.trace import Span, Status, StatusCode, Tracer
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from core.configuration.settings import Settings
from core.observability import error_facts, log_lines

REPEAT_SECONDS = 5.0


def configure(settings: Settings, service: str) -> None:
    """Set up structlog, the tracer and the meter of this process. Call once, first thing in a command."""
    # Only a process that serves needs these; every command would wait for them.
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    configure_logs(settings, service)
    resource = Resource.create({"service.name": f"parley-{service}", "service.namespace": "parley"})
    provider = TracerProvider(resource=resource)
    if settings.otlp_endpoint:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # most export none

        endpoint = settings.otlp_endpoint.get_secret_value().rstrip("/") + "/v1/traces"
        exporter = OTLPSpanExporter(endpoint=endpoint)
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider(resource=resource, metric_readers=[PrometheusMetricReader()]))


def configure_logs(settings: Settings, service: str) -> None:
    """Route structlog and the standard library's loggers to stderr, as JSON or as readable lines."""

    def named(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """Add the service's name. A thread begins without its starter's context."""
        return {"service": service, **event}

    shared: list[Processor] = [
        named,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        log_lines.without_words,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        log_lines.Formatter(
            foreign_pre_chain=shared,
            processors=[log_lines.Formatter.remove_processors_meta, log_lines.BoundedRenderer(renderer)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for chatty in ("alembic", "httpx", "httpcore", "asyncio", "aiosqlite"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):  # its own set-up prints tracebacks
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of requests that strangers send


def logger(name: str) -> FilteringBoundLogger:
    """A structured logger; `name` is the module's `__name__`. Commands configure nothing: their lines go to
    stderr too, since scripts read stdout."""
    if not structlog.is_configured():
        structlog.configure(logger_factory=_on_stderr)
    return structlog.get_logger(name)


def _on_stderr(*_: object) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)


class RepeatedWarning:
    """Warnings of repeated failures: logged once, then at most every few seconds, with their number."""

    def __init__(self, log: FilteringBoundLogger, seconds: float = REPEAT_SECONDS) -> None:
        self._log = log
        self._seconds = seconds
        self._said: dict[str, tuple[float, int]] = {}

    def warning(self, event: str, **facts: object) -> None:
        """Log one of a fixed set of events."""
        now = time.monotonic()
        said_at, held = self._said.get(event, (-math.inf, 0))
        if now - said_at < self._seconds:
            self._said[event] = said_at, held + 1
            return
        self._said[event] = now, 0
        self._log.warning(event, **facts, **({"times": held + 1} if held else {}))


class Spans:
    """A package's spans (no exporter unless PARLEY_OTLP_ENDPOINT is set). An exception leaves only its type:
    OpenTelemetry itself would record its message and traceback."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextlib.contextmanager
    def span(self, name: str) -> Generator[Span]:
        """A span around a block."""
        with self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", error_facts.kind(error))
                span.set_status(Status(StatusCode.ERROR))
                raise


def tracer(package: str) -> Spans:
    """The package's spans."""
    return Spans(trace.get_tracer(f"parley.{package}"))


def meter(package: str) -> Meter:
    """The package's OpenTelemetry meter."""
    return metrics.get_meter(f"parley.{package}")


def prometheus_page() -> bytes:
    """All metrics of this process in Prometheus' text format."""
    from prometheus_client import REGISTRY, generate_latest  # as in `configure`

    from core.observability.figure_page import figure_page

    return generate_latest(REGISTRY) + figure_page()
