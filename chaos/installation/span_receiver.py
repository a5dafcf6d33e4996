"""A receiver of trace spans on loopback, in place of an OTLP collector: keeps what comes as it comes."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DELAY = "OTEL_BSP_SCHEDULE_DELAY"  # in ms, as opentelemetry-sdk reads it


@dataclass
class ReceivedSpans:
    """`bodies` of all exports so far; `url` goes into the setting `otlp_endpoint`."""

    url: str
    bodies: list[bytes] = field(default_factory=list[bytes])


@contextmanager
def receiving_spans() -> Generator[ReceivedSpans]:
    """A receiver on a free port, in threads of this process. Processes that start meanwhile export at
    once, so that those say something which are killed."""
    received = ReceivedSpans("")

    class SpanHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), SpanHandler)
    received.url = f"http://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, name="span-receiver")
    serving.start()
    os.environ[DELAY] = "100"
    try:
        yield received
    finally:
        del os.environ[DELAY]
        server.shutdown()
        serving.join()
        server.server_close()
