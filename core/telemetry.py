"""Logs, traces and metrics for every process. Prompt text goes into none of them.

Instruments are declared by each package in its own `instruments.py` on `meter(package)`.
"""

import logging
import math
import sys
import time

import structlog
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer
from prometheus_client import generate_latest
from redis.exceptions import ResponseError
from sqlalchemy.exc import DBAPIError
from structlog.typing import FilteringBoundLogger, Processor

from core.settings import Settings

SELDOM_SECONDS = 5.0
ERROR_CHARACTERS_MAX = 120


def configure(settings: Settings, service: str) -> None:
    """Set up structlog, the tracer and the meter of this process. Call once, first thing in a command."""
    configure_logs(settings, service)
    resource = Resource.create({"service.name": f"parley-{service}", "service.namespace": "parley"})
    provider = TracerProvider(resource=resource)
    if settings.otlp_endpoint:
        endpoint = settings.otlp_endpoint.get_secret_value().rstrip("/") + "/v1/traces"
        exporter = OTLPSpanExporter(endpoint=endpoint)
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider(resource=resource, metric_readers=[PrometheusMetricReader()]))


def configure_logs(settings: Settings, service: str) -> None:
    """Route structlog and the standard library's loggers to stderr, as JSON or as readable lines."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    tail: list[Processor] = [structlog.processors.format_exc_info] if settings.log_format == "json" else []
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tail, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for chatty in ("alembic", "uvicorn", "httpx", "httpcore", "asyncio", "aiosqlite"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    structlog.contextvars.bind_contextvars(service=service)


def logger(name: str) -> FilteringBoundLogger:
    """A structured logger; `name` is the module's `__name__`."""
    return structlog.get_logger(name)


def named(error: Exception) -> str:
    """An error in a log line: a server's own first words, without what it was asked, else its type."""
    words = str(error) if isinstance(error, ResponseError) else ""
    if isinstance(error, DBAPIError):
        words = str(error.orig).partition("\n")[0]  # what follows may quote a row
    return words[:ERROR_CHARACTERS_MAX] or type(error).__name__


class Seldom:
    """Warnings of what is tried again and again: said the first time, then at most every few seconds, with
    how often it happened since."""

    def __init__(self, log: FilteringBoundLogger, seconds: float = SELDOM_SECONDS) -> None:
        self._log = log
        self._seconds = seconds
        self._said: dict[str, tuple[float, int]] = {}

    def warning(self, event: str, **facts: object) -> None:
        """One of a fixed set of events."""
        now = time.monotonic()
        said_at, held = self._said.get(event, (-math.inf, 0))
        if now - said_at < self._seconds:
            self._said[event] = said_at, held + 1
            return
        self._said[event] = now, 0
        self._log.warning(event, **facts, **({"times": held + 1} if held else {}))


def tracer(package: str) -> Tracer:
    """The package's OpenTelemetry tracer (no exporter unless PARLEY_OTLP_ENDPOINT is set)."""
    return trace.get_tracer(f"parley.{package}")


def meter(package: str) -> Meter:
    """The package's OpenTelemetry meter."""
    return metrics.get_meter(f"parley.{package}")


def prometheus_page() -> bytes:
    """All metrics of this process in Prometheus' text format."""
    return generate_latest()
