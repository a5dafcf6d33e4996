"""`python -m chaos bench export`: a large month as a file, made on Postgres: its lines a second, and that it
takes no more memory the larger it is."""

import asyncio
import resource
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import click
from sqlalchemy import text

from billing.api import PeriodWindow, create_tenant
from billing.reports.exports import csv_pieces, focus_pages
from billing.reports.focus import account_of
from chaos.bench.billing import HOUR_MS, MONTH, billing_testbed
from chaos.figures.figures import Figure, json_option, progress, show
from core.sql.database import Database

MIB = 1 << 20
FIRST_PART = 10  # of the file: its memory is that of a small one
GROWTH_MIB_MAX = 32.0
LINES_EACH = 4  # of a request: itself, input, cached input, output
STATM = Path("/proc/self/statm")
EVENTS = """
    INSERT INTO usage_event (tenant_id, request_id, pool, model, fingerprint, project_id, key_id, user_id,
        conversation_id, accepted_ms, claimed_ms, first_token_ms, ended_ms, reason, code, input_uncached,
        input_cached, output_text, output_reasoning, price_book_id, price_version, currency, cost_nano,
        claims, recomputed_tokens, request_metadata, event_sha256, posted_ms, words_proof, policy_sha256,
        priority_class, trace_id, safety_verdicts, phases)
    SELECT :tenant, 'r' || n, 'default', 'm' || n % 3, 'f', 'p' || n % 20, 'k' || n % 200, 'u' || n, '',
        ended, 0, 0, ended, 'stop', '', 100, 20, 200, 0, 'default', 1, 'usd', 90500, 1, 0, '{}', '', ended,
        '', '', '', '', '{}', '[]'
    FROM (SELECT n, CAST(:start AS BIGINT) + n * CAST(:apart AS BIGINT) AS ended
          FROM generate_series(CAST(0 AS BIGINT), CAST(:events AS BIGINT) - 1) AS n) AS requests
    """
LINES = """
    INSERT INTO usage_line (tenant_id, seq, request_id, number, kind, meter, quantity, price_nano,
        amount_nano, price_book_id, price_version, cost_center_id, adjusts_seq, ended_ms, posted_ms, proof)
    SELECT :tenant, n * 4 + number + 1, 'r' || n, number, 'usage',
        (ARRAY['request', 'input', 'cached_input', 'output'])[number + 1],
        (ARRAY[1, 100, 20, 200])[number + 1],
        (ARRAY[1, 100, 25, 400])[number + 1] * CAST(1000000 AS BIGINT),
        (ARRAY[1, 10000, 500, 80000])[number + 1], 'default', 1, '', NULL, ended, ended, ''
    FROM (SELECT n, CAST(:start AS BIGINT) + n * CAST(:apart AS BIGINT) AS ended
          FROM generate_series(CAST(0 AS BIGINT), CAST(:events AS BIGINT) - 1) AS n) AS requests,
         generate_series(0, 3) AS number
    """


@dataclass(frozen=True)
class SentFile:
    """A file that was made: `first_mib`: memory of the process when a tenth of it was, `most_mib`: the most
    it ever was after that."""

    lines: int
    sent_bytes: int
    seconds: float
    first_mib: float
    most_mib: float


@click.command("export")
@click.option("--lines", default=1_000_000, show_default=True, type=click.IntRange(4000, 10_000_000))
@json_option
def export_bench(lines: int, as_json: bool) -> None:
    """A month of so many lines as a FOCUS file, each line a row of its own: lines a second, and memory.

    On Postgres. Memory is this process', from a tenth of the file to its end.
    """
    show("export", figures_of(asyncio.run(_sent(lines))), as_json)


def figures_of(file: SentFile) -> list[Figure]:
    """What is told of it. Pure."""
    growth = round(max(0.0, file.most_mib - file.first_mib), 1)
    return [
        Figure("rows", file.lines, ""),
        Figure("size", round(file.sent_bytes / MIB, 1), "MiB"),
        Figure("lines a second", round(file.lines / file.seconds), "/s"),
        Figure("memory at a tenth of the file", round(file.first_mib, 1), "MiB"),
        Figure("memory that it grew by from there to the end", growth, "MiB", most=GROWTH_MIB_MAX),
    ]


async def _sent(lines: int) -> SentFile:
    async with billing_testbed("postgres") as settings:
        db = Database(settings.database_endpoint)
        try:
            tenant = await create_tenant(db, "bench")
            await _fill(db, tenant.tenant_id, lines // LINES_EACH)
            progress(f"{lines:,} lines are in the books")
            account = await account_of(db, tenant, "Parley")
            rows = sent_bytes = 0
            first = most = _memory_mib()
            began = time.monotonic()
            async with aclosing(csv_pieces(focus_pages(db, account, MONTH), mark=False)) as pieces:
                async for piece in pieces:
                    rows, sent_bytes = rows + piece.count(b"\r\n"), sent_bytes + len(piece)
                    most = max(most, _memory_mib())
                    if rows * FIRST_PART <= lines:
                        first = most
            return SentFile(rows - 1, sent_bytes, time.monotonic() - began, first, most)
        finally:
            await db.close()


def _memory_mib() -> float:
    """What this process has in memory."""
    return int(STATM.read_text().split()[1]) * resource.getpagesize() / MIB


async def _fill(db: Database, tenant: str, events: int) -> None:
    """Books whose requests differ in users, so that each line is a charge of its own."""
    window = PeriodWindow(MONTH.start_ms, MONTH.end_ms - HOUR_MS)
    facts = {
        "tenant": tenant,
        "start": window.start_ms,
        "apart": (window.end_ms - window.start_ms) // events,
        "events": events,
    }
    async with db.engine.begin() as connection:
        await connection.execute(text(EVENTS), facts)
        await connection.execute(text(LINES), facts)
    async with db.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("VACUUM ANALYZE usage_line"))
        await connection.execute(text("VACUUM ANALYZE usage_event"))
