"""/metrics, /healthz and /readyz with reasons, for operators: in every process, on a bind of its own.

It has a thread of its own, one request at a time, so it answers while the event loop is busy. Off unless
PARLEY_METRICS_PORT is set. A failure to listen is logged, and the process goes on without it.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from http.server import BaseHTTPRequestHandler, HTTPServer

from core.configuration.settings import Settings
from core.network.hosts import Hosts
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger, prometheus_page
from core.web.host_check import MISDIRECTED, refused

CLIENT_SECONDS_MAX = 5.0
POLL_SECONDS = 0.5
# Above PARLEY_METRICS_PORT. A supervisor and its workers have the ports before.
BILLER_PLACE = 100
GATEWAY_PLACE = 101
CONSOLE_PLACE = 102
PORTAL_PLACE = 103
FLEET_PLACE = 104

log = logger(__name__)


@contextlib.contextmanager
def serving_metrics(settings: Settings, place: int, missing: Callable[[], str]) -> Generator[None]:
    """Serve while the block runs, `place` ports above PARLEY_METRICS_PORT. `missing` returns what the process
    lacks for its work, empty where it is ready; another thread calls it."""
    if settings.metrics_port is None:
        yield
        return
    at = (settings.metrics_host, settings.metrics_port + place)
    try:
        server = _MetricsServer(at, _handler(missing, settings.hosts(at[0])))
    except (OSError, OverflowError) as error:
        log.error("metrics.serve_failed", host=at[0], port=at[1], error=error_summary(error))
        yield
        return
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)
    thread.start()
    log.info("metrics.serving", host=at[0], port=at[1])
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.asynccontextmanager
async def serving_metrics_async(
    settings: Settings, place: int, missing: Callable[[], str]
) -> AsyncGenerator[None]:
    """The same where `missing` asks this event loop, which must not wait for the thread's end."""
    serving = serving_metrics(settings, place, missing)
    serving.__enter__()
    try:
        yield
    finally:
        await asyncio.to_thread(serving.__exit__, None, None, None)


class _MetricsServer(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Log one line, where Python's own prints a traceback."""
        del request, client_address
        log.exception("metrics.answer_failed")


def _handler(missing: Callable[[], str], hosts: Hosts) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_SECONDS_MAX

        def do_GET(self) -> None:
            """Answer one of the three paths."""
            said = [(b"host", host.encode("latin-1")) for host in self.headers.get_all("host", [])]
            if not hosts.allow(said):
                refused(said)
                self._reply(421, MISDIRECTED.encode())
                return
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._reply(200, prometheus_page(), "text/plain; version=0.0.4")
                case "/healthz":
                    self._reply(200, b"ok\n")
                case "/readyz":
                    lacks = missing()
                    self._reply(503 if lacks else 200, f"{lacks or 'ready'}\n".encode())
                case _:
                    self._reply(404, b"there are /metrics, /healthz and /readyz\n")

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: balancers ask every few seconds."""

        def _reply(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
