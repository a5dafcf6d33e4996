"""Logs, spans and metrics as a process sets them up, with its settings and OpenTelemetry's own variables."""

import io
import json
import logging
import sys
import threading
from base64 import b64encode
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import structlog
from opentelemetry import metrics, trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from pydantic import SecretStr

from core.configuration.settings import Settings
from core.observability.telemetry import Spans, configure, logger
from tests.support.patience import finished


class Collector(HTTPServer):
    """Takes what is exported by OTLP over HTTP, on a port that the system chose."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        got = self.got

        class CollectorHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        super().__init__(("127.0.0.1", 0), CollectorHandler)

    @contextmanager
    def running(self) -> Generator[None]:
        """Serves meanwhile."""
        thread = threading.Thread(target=self.serve_forever)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Generator[dict[str, Any]]:
    """The providers of a process, which cannot be replaced in this one; and its logs go nowhere."""
    root, made = logging.getLogger(), dict[str, Any]()
    before, level = root.handlers[:], root.level
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(trace, "set_tracer_provider", lambda provider: made.update(tracer=provider))
    monkeypatch.setattr(metrics, "set_meter_provider", lambda provider: made.update(meter=provider))
    yield made
    for provider in made.values():
        provider.shutdown()
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def _make_a_span(provider: TracerProvider) -> None:
    with Spans(provider.get_tracer("parley.server")).span("send.handle"):
        pass
    assert provider.force_flush()


def test_spans_go_to_the_endpoint_with_its_password_and_the_standard_headers(
    settings: Settings, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """PARLEY_OTLP_ENDPOINT, and OTEL_EXPORTER_OTLP_HEADERS as every exporter has them."""
    collector = Collector()
    endpoint = f"http://ann:pass@127.0.0.1:{collector.server_port}/"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=acme")
    configure(settings.model_copy(update={"otlp_endpoint": SecretStr(endpoint)}), "gateway")
    with collector.running():
        _make_a_span(made["tracer"])
    ((path, headers, body),) = collector.got
    assert path == "/v1/traces"
    assert headers["authorization"] == f"Basic {b64encode(b'ann:pass').decode()}"
    assert headers["x-team"] == "acme"
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    facts = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (facts["service.name"], facts["service.namespace"]) == ("parley-gateway", "parley")
    (scope,) = resource.scope_spans
    assert (scope.scope.name, [span.name for span in scope.spans]) == ("parley.server", ["send.handle"])


def test_without_an_endpoint_nothing_is_exported(
    settings: Settings, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """Not to OpenTelemetry's default either."""
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    configure(settings, "gateway")
    with collector.running():
        _make_a_span(made["tracer"])
    assert collector.got == []


def test_a_line_of_a_thread_names_its_process_too(settings: Settings, made: dict[str, Any]):
    """A thread begins without the context of who started it: a crash in one would be nobody's."""
    written = io.StringIO()
    configure(settings.model_copy(update={"log_format": "json"}), "gateway")
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(written)
    for say in (
        lambda: logger(__name__).warning("ours"),
        lambda: logging.getLogger("a.library").warning("its"),
    ):
        thread = threading.Thread(target=say)
        thread.start()
        thread.join()
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(line["event"], line["service"]) for line in lines] == [("ours", "gateway"), ("its", "gateway")]
    assert all(line["timestamp"].endswith("Z") for line in lines)
    assert "meter" in made


def test_libraries_say_it_through_our_log_and_only_what_matters(settings: Settings, made: dict[str, Any]):
    """The level is the setting's; a server's own handlers, which print tracebacks, are taken away."""
    library = logging.getLogger("uvicorn.access")
    library.addHandler(logging.NullHandler())
    library.propagate = False
    configure(settings.model_copy(update={"log_level": "error"}), "gateway")
    assert (library.handlers, library.propagate) == ([], True)
    assert logging.getLogger().level == logging.ERROR
    quiet = {name: logging.getLogger(name).level for name in ("uvicorn", "alembic", "httpx", "asyncio")}
    assert quiet == dict.fromkeys(quiet, logging.WARNING) | {"uvicorn": logging.ERROR}
    assert "tracer" in made


def test_a_command_that_configures_nothing_logs_to_stderr():
    """Its stdout is for scripts."""
    program = "from core.observability.telemetry import logger; logger('x').warning('redis.odd')"
    done = finished([sys.executable, "-c", program])
    assert (done.returncode, done.stdout) == (0, "")
    assert "redis.odd" in done.stderr
