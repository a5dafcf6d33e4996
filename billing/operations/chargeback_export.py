"""Operations that give a tenant's month as a file, and say how large it is before."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.money import to_text
from billing.operations.chargeback import (
    BOOKS,
    AskChargeback,
    ChargebackHead,
    ChargebackReport,
    HeadKind,
    charged_month,
    report,
)
from billing.reports.charge_pages import count_charges
from billing.reports.exports import (
    CSV,
    ROW_BYTES,
    ExportFormat,
    Rows,
    csv_bytes,
    csv_pieces,
    focus_pages,
    table_pages,
)
from billing.reports.focus import account_of
from billing.reports.usage_report import GroupBy, usage_as_of, usage_in
from billing.tables.tenants import Tenant
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.file_answer import FileAnswer
from core.operations import PAYERS, STAFF, MoneyAmount, Uses, operation

ODD = re.compile(r"[^a-z0-9]+")
NAME_CHARACTERS_MAX = 40
TOTAL = "total"
OWN_NAMES = ("", TOTAL, "other", "row_kind", "row_id")
OTHERS = {HeadKind.TIERS: "(tiers)", HeadKind.NOBODY: "(none)"}


class AskExport(AskChargeback, frozen=True, kw_only=True):
    """Which month, in which form, and as of when. Rows and columns are those of the report."""

    format: Annotated[
        ExportFormat,
        Meta(description="Each charge of the month in FOCUS 1.2 or as a plain table, or the report alone."),
    ] = ExportFormat.FOCUS
    issuer: Annotated[str, Meta(max_length=200, description="Who sends the invoices, as FOCUS names it.")] = (
        "Parley"
    )


class ExportSize(msgspec.Struct, frozen=True, kw_only=True):
    """What a file will hold: `rows` and about how many `bytes`; `about`: so are the rows of a large month,
    which are counted when the file is made. `total`: the sum of its rows."""

    month: str
    closed: str | None
    rows: int
    about: bool
    bytes: int
    total: MoneyAmount


@operation(
    "chargeback.export",
    "GET /tenants/{tenant}/chargeback/export",
    may=STAFF | PAYERS,
    audit="usage.export",
    uses=Uses(reads=BOOKS, writes="audit_head audit_log audit_state"),
)
async def export(look: Look, ask: AskExport) -> FileAnswer:
    """Give a month as a CSV file, in which no cell is a formula. Its sum is the report's."""
    owner = await look.tenant(ask.tenant)
    found = await charged_month(look, owner, ask)
    ended = look.stores.files.take(owner.tenant_id)
    try:
        if ask.format is ExportFormat.REPORT:
            pages = _matrix_pages(await report(look, ask))
        else:
            account = await account_of(look.db, owner, ask.issuer)
            make = focus_pages if ask.format is ExportFormat.FOCUS else table_pages
            pages = make(look.stores.db, account, found.window, found.known_ms)
        facts = {"month": found.month, "format": ask.format.value, "as_of": iso_time(found.known_ms)}
        await look.recorded(owner.tenant_id, owner.tenant_id, facts)
    except BaseException:
        ended()
        raise
    name = f"parley-{_plain(owner)}-{found.month}-{ask.format.value}.csv"
    mark = ask.format is not ExportFormat.FOCUS
    return FileAnswer(name, CSV, csv_pieces(pages, mark), ended)


@operation(
    "chargeback.export_size",
    "GET /tenants/{tenant}/chargeback/export-size",
    may=STAFF | PAYERS,
    uses=Uses(reads=BOOKS),
)
async def show_size(look: Look, ask: AskExport) -> ExportSize:
    """Say how many rows a file will have, about for a large month, and their sum."""
    owner = await look.tenant(ask.tenant)
    found = await charged_month(look, owner, ask)
    if ask.format is ExportFormat.REPORT:
        told = await report(look, ask)
        rows, size = len(told.lines) + 1, len(csv_bytes(_matrix(told)))
        return ExportSize(
            month=found.month,
            closed=iso_time(found.closed_ms),
            rows=rows,
            about=False,
            bytes=size,
            total=told.total,
        )
    counted = await count_charges(look.db, owner.tenant_id, found.window, found.known_ms)
    if found.known_ms is None:
        sums = await usage_in(look.db, owner.tenant_id, found.window, GroupBy.NOTHING, found.calendar)
    else:
        sums = await usage_as_of(look.db, owner.tenant_id, found.window, GroupBy.NOTHING, found.known_ms)
    return ExportSize(
        month=found.month,
        closed=iso_time(found.closed_ms),
        rows=counted.charges,
        about=counted.about,
        bytes=(counted.charges + 1) * ROW_BYTES[ask.format],
        total=MoneyAmount.of(sum(each.amount_nano for each in sums)),
    )


async def _matrix_pages(told: ChargebackReport) -> AsyncGenerator[Rows]:
    yield _matrix(told)


def _matrix(told: ChargebackReport) -> Rows:
    """The report as rows of a table, exact. `row_kind` and `row_id` tell a row of the report's own from one
    of a project that is called so. Pure."""
    first = ["row_kind", "row_id", told.rows, *column_names(told.heads, told.columns), TOTAL]
    lines = [
        [
            line.head.kind.value,
            line.head.of,
            _word(line.head),
            *(to_text(cell.value) for cell in line.cells),
            to_text(line.head.total.value),
        ]
        for line in told.lines
    ]
    last = [TOTAL, "", TOTAL, *(to_text(head.total.value) for head in told.heads)]
    return [first, *lines, [*last, to_text(told.total.value)]]


def column_names(heads: Sequence[ChargebackHead], facet: str) -> list[str]:
    """Names of columns, no two alike: one that could be taken for the report's own (`total`, `(none)`), or
    that another has too, has its id behind it: `total [model total]`. Pure."""
    words = [_word(head) for head in heads]
    often = Counter(words)
    return [
        f"{word} [{facet} {head.of}]"
        if head.kind is HeadKind.VALUE and (often[word] > 1 or _looks_own(word))
        else word
        for word, head in zip(words, heads, strict=True)
    ]


def _looks_own(word: str) -> bool:
    plain = word.strip().lower()
    return plain in OWN_NAMES or plain[:1] in ("(", "[") or plain.endswith("]")


def _word(head: ChargebackHead) -> str:
    return f"({head.more} others)" if head.kind is HeadKind.OTHER else OTHERS.get(head.kind, head.name)


def _plain(owner: Tenant) -> str:
    """A tenant's name in signs that stand in any file's name; its id where none is left."""
    plain = ODD.sub("-", owner.name.lower()).strip("-")[:NAME_CHARACTERS_MAX]
    return plain or ODD.sub("-", owner.tenant_id.lower())


OPERATIONS = (export, show_size)
