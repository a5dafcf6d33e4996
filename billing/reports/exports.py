"""A tenant's month as a file: its charges in FOCUS 1.2, or as a plain table. Rows are read and written page
by page, so that a file of any size takes the same memory."""

import asyncio
import csv
import io
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

from billing.money import to_text
from billing.periods import PeriodWindow
from billing.prices.rating import Meter
from billing.reports.charge_pages import FocusCharge, charge_pages, tag_keys
from billing.reports.focus import COLUMNS, METERS, UNITS, Account, focus_row, unit_price
from billing.tenants.users import known_users
from core.clock import iso_time
from core.sql.database import Database
from core.terminal.safe_text import spreadsheet_cell

CELLS_KEPT = 20_000  # most cells of a file say what others said before
CSV = "text/csv; charset=utf-8"
BYTE_ORDER_MARK = "\ufeff"  # without it spreadsheets take UTF-8 for something else
PLAIN = (
    "from",
    "to",
    "cost_center",
    "project",
    "key",
    "user",
    "model",
    "pool",
    "what",
    "kind",
    "quantity",
    "unit",
    "usd_per_unit",
    "usd",
)


class ExportFormat(StrEnum):
    """What a file holds: each charge of the month in FOCUS 1.2, or as a plain table; or the report alone."""

    FOCUS = "focus"
    TABLE = "table"
    REPORT = "report"


Rows = Sequence[Sequence[str]]
ROW_BYTES = {ExportFormat.FOCUS: 650, ExportFormat.TABLE: 190}  # about: names and ids differ in length


async def focus_pages(
    db: Database, account: Account, period: PeriodWindow, known_ms: int | None = None
) -> AsyncGenerator[Rows]:
    """Yield the pages of a FOCUS file, its header first."""

    def row(charge: FocusCharge, named: Account) -> list[str]:
        return [*focus_row(charge, named, period).values()]

    async for page in _pages(db, account, period, known_ms, COLUMNS, row):
        yield page


async def table_pages(
    db: Database, account: Account, period: PeriodWindow, known_ms: int | None = None
) -> AsyncGenerator[Rows]:
    """Yield the pages of a plain table, its header first."""
    keys = await tag_keys(db, account.tenant.tenant_id)

    def row(charge: FocusCharge, named: Account) -> list[str]:
        return [*table_row(charge, named), *(charge.tags.get(key, "") for key in keys)]

    columns = (*PLAIN, *(f"tag:{key}" for key in keys))
    async for page in _pages(db, account, period, known_ms, columns, row):
        yield page


async def _pages(
    db: Database,
    account: Account,
    period: PeriodWindow,
    known_ms: int | None,
    columns: Sequence[str],
    row: Callable[[FocusCharge, Account], list[str]],
) -> AsyncGenerator[Rows]:
    yield [columns]
    owner = account.tenant.tenant_id
    async for page in charge_pages(db, owner, period, known_ms):
        users = await known_users(db, owner, {charge.user_id for charge in page})
        named = replace(account, users=users)
        yield await asyncio.to_thread(_rows_of, page, named, row)


def _rows_of(
    page: Sequence[FocusCharge], account: Account, row: Callable[[FocusCharge, Account], list[str]]
) -> Rows:
    return [row(charge, account) for charge in page]


def table_row(charge: FocusCharge, account: Account) -> list[str]:
    """A charge in the columns of PLAIN, its times those of the tenant's zone, as on pages. Pure."""
    meter, zone = Meter(charge.meter), ZoneInfo(account.tenant.time_zone)
    return [
        _local_time(charge.start_ms, zone),
        _local_time(charge.end_ms, zone),
        account.cost_centers.get(charge.cost_center_id, charge.cost_center_id),
        account.projects.get(charge.project_id, charge.project_id),
        account.keys.get(charge.key_id, charge.key_id),
        account.users.get(charge.user_id, charge.user_id),
        charge.model,
        charge.pool,
        METERS[meter],
        charge.kind,
        str(charge.quantity),
        UNITS.get(meter, "Tokens"),
        unit_price(charge.price_nano),
        to_text(charge.amount_nano),
    ]


def _local_time(unix_ms: int, zone: ZoneInfo) -> str:
    """A time in a zone, with its offset: `2026-10-01T00:00:00+02:00`; empty beyond the calendar. Pure."""
    if iso_time(unix_ms) is None:
        return ""
    return datetime.fromtimestamp(unix_ms // 1000, zone).isoformat()


async def csv_pieces(pages: AsyncGenerator[Rows], mark: bool) -> AsyncGenerator[bytes]:
    """Yield a CSV file in UTF-8, a piece for each page, in which no cell is a formula. `mark`: begins with a
    byte order mark, for spreadsheets."""
    cell = lru_cache(CELLS_KEPT)(spreadsheet_cell)
    if mark:
        yield BYTE_ORDER_MARK.encode()
    async for page in pages:
        yield await asyncio.to_thread(csv_bytes, page, cell)


def csv_bytes(rows: Iterable[Iterable[object]], cell: Callable[[object], str] = spreadsheet_cell) -> bytes:
    """Rows of a CSV file in UTF-8. Pure."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerows([cell(value) for value in row] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")
