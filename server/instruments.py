"""The gateway's instruments. Labels come from enums only, never ids.

Events of each frame are counted in plain numbers here and read at each scrape.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet

from opentelemetry.metrics import CallbackOptions, Observation

from core.errors import Refusal
from core.observability.telemetry import meter
from server.session.effects import Measure, MeasureKind

_meter = meter("server")


class FrameCounts:
    """Counts of this process since its start; frames by the class of their message."""

    def __init__(self) -> None:
        self.frames_in: Counter[str] = Counter()
        self.frames_out: Counter[str] = Counter()
        self.bytes_out = 0


class GatewayGauges(Protocol):
    """Figures of a gateway that are read at each scrape."""

    def connections_open(self) -> int:
        """WebSockets, including those that have not said hello."""
        ...

    def sessions_open(self) -> int:
        """Sessions with a connection here."""
        ...

    def bytes_in_flight(self) -> int:
        """Bytes sent and not acknowledged."""
        ...

    def drain_remaining(self) -> int:
        """Connections that a drain still waits for, 0 where none is going on."""
        ...


TALLY = FrameCounts()
WATCHED: WeakSet[GatewayGauges] = WeakSet()


def _frames_in(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(count, {"type": name}) for name, count in list(TALLY.frames_in.items())]


def _frames_out(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(count, {"type": name}) for name, count in list(TALLY.frames_out.items())]


def _bytes_out(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(TALLY.bytes_out)]


def _connections(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(sum(each.connections_open() for each in list(WATCHED)))]


def _sessions(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(sum(each.sessions_open() for each in list(WATCHED)))]


def _in_flight(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(sum(each.bytes_in_flight() for each in list(WATCHED)))]


def _drain(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(sum(each.drain_remaining() for each in list(WATCHED)))]


_meter.create_observable_counter("parley_frames_in", [_frames_in], description="Frames received by type")
_meter.create_observable_counter("parley_frames_out", [_frames_out], description="Frames sent by type")
_meter.create_observable_counter(
    "parley_bytes_out", [_bytes_out], unit="By", description="Payload bytes sent"
)
_meter.create_observable_gauge("parley_connections", [_connections], description="WebSockets that are open")
_meter.create_observable_gauge(
    "parley_sessions", [_sessions], description="Sessions with a connection to this gateway"
)
_meter.create_observable_gauge(
    "parley_in_flight_bytes", [_in_flight], unit="By", description="Sent and not acknowledged"
)
_meter.create_observable_gauge(
    "parley_drain_remaining", [_drain], description="Connections that the drain still waits for"
)
CLOSES = _meter.create_counter("parley_closes", description="WebSocket closes by code")
UPGRADES_REFUSED = _meter.create_counter(
    "parley_upgrades_refused", description="WebSockets not opened: too many silent or at once, an Origin"
)
TURNS = _meter.create_counter("parley_sends", description="Sends by outcome: accepted, dup or an error code")
_LIMIT_REFUSALS = _meter.create_counter(
    "parley_limit_refusals", description="Sends that a limit refused, by code, scope and dimension"
)
_SHADOW_REFUSALS = _meter.create_counter(
    "parley_limit_refusals_shadow", description="Sends that a limit in shadow mode would have refused"
)
PROMPT_TOKENS = _meter.create_histogram("parley_prompt_tokens", description="Token ids of an accepted prompt")
ACCEPT_SECONDS = _meter.create_histogram(
    "parley_accept_seconds", unit="s", description="From a send to its accepted"
)
CANCELS = _meter.create_counter("parley_cancels", description="Cancels by the state they met")
RESUMES = _meter.create_counter("parley_resumes", description="Hellos by outcome: full, partial, none")
LOG_READS = _meter.create_counter(
    "parley_log_catch_ups", description="Reads of a log, where hints did not do"
)
_STALLS = _meter.create_histogram(
    "parley_send_window_shut_seconds",
    unit="s",
    description="How long a shut window held a reader's text back",
)
_ACK_LAG = _meter.create_histogram(
    "parley_ack_lag_events", description="Log entries in flight when an acknowledgement came"
)
_REPLAYED = _meter.create_counter(
    "parley_replayed_events", description="Log entries that readers had missed when they attached or resumed"
)
_GAPS = _meter.create_counter("parley_cursor_moves", description="Cursors that clients moved while reading")


def limit_refused(refused: Refusal, shadow: bool = False) -> None:
    """Count a refusal of the quota. `shadow`: of a limit in shadow mode, which did not refuse."""
    if refused.scope is not None:
        labels = {"code": refused.code, "scope": refused.scope, "dimension": refused.dimension or ""}
        (_SHADOW_REFUSALS if shadow else _LIMIT_REFUSALS).add(1, labels)


def measure(measured: Measure) -> None:
    """Record a measurement of a session."""
    match measured.what:
        case MeasureKind.STALL_SECONDS:
            _STALLS.record(measured.value)
        case MeasureKind.ACK_LAG_EVENTS:
            _ACK_LAG.record(measured.value)
        case MeasureKind.REPLAYED_EVENTS:
            _REPLAYED.add(measured.value)
        case MeasureKind.GAPS_REPAIRED:
            _GAPS.add(measured.value)
