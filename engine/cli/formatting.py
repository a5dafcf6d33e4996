"""Texts and tables in which this package's commands print their results. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from billing.usage import RequestPhase
from core.clock import CALENDAR_MS_MAX
from core.redis.gateway_questions import ReaderFacts
from core.terminal.safe_text import printable_line
from core.terminal.terminal_tables import Table
from engine.operations.worker_rows import WorkerRow

NOTHING = "-"


def worker_table(rows: list[WorkerRow]) -> Table:
    """Workers, one a line."""
    table = Table(ruled=True)
    table.columns("worker", "node", "model", "state", min_width=8)
    numbers = ("held", "running", "waiting", "KV", "step age", "memory", "GPU", "lease")
    table.columns(*numbers, right=True, whole=True)
    table.columns("")
    for row in rows:
        table.row(
            *(row.worker, row.node, row.model or NOTHING, row.state, str(row.claims)),
            *(_or_nothing(row.running), _or_nothing(row.waiting)),
            NOTHING if row.kv_usage is None else f"{row.kv_usage:.0%}",
            duration(row.step_age_ms),
            NOTHING if row.memory_mib is None else f"{row.memory_mib:,} MiB",
            NOTHING if row.gpu is None or row.gpu.temperature is None else f"{row.gpu.temperature} °C",
            duration(row.lease_ms or None),
            row.why,
        )
    return table


def reader_table(readers: list[ReaderFacts], now_ms: int) -> Table:
    """Readers of one request, one a line."""
    table = Table(ruled=True)
    table.columns("connection", min_width=36)
    table.columns("client", "gateway", "state", min_width=8)
    table.columns(
        "behind", "unacked", "window", "bytes", "of", "paused for", "stuck for", right=True, whole=True
    )
    for each in readers:
        since = (each.paused_since_ms, each.stuck_since_ms)
        table.row(
            *(each.connection, printable_line(each.client) or NOTHING, each.gateway or NOTHING, each.state),
            *(str(each.behind), str(each.unacked_events), str(each.window_events)),
            *(str(each.unacked_bytes), str(each.window_bytes)),
            *(duration(max(0, now_ms - at)) if at else NOTHING for at in since),
        )
    return table


def duration(ms: int | None) -> str:
    """A span in the unit that suits it."""
    if ms is None:
        return NOTHING
    if ms < 1000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000} min" if ms < 7_200_000 else f"{ms // 3_600_000} h"


def life(phases: Sequence[RequestPhase]) -> str:
    """A request's phases in a line: each with the time since its acceptance."""
    return ", ".join(f"{phase.kind} {duration(phase.at_ms)}" for phase in phases)


def time_of_day(unix_ms: int) -> str | None:
    """ISO time with milliseconds, None for a time that was never reached or is beyond the calendar."""
    if not 0 < unix_ms <= CALENDAR_MS_MAX:
        return None
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _or_nothing(number: int | None) -> str:
    return NOTHING if number is None else str(number)
