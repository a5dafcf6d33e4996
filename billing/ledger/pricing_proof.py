"""Checks that requests were priced by a version that was in force when they were admitted. Reads only.

A request is admitted after it was accepted and before it is claimed, and gateways may have kept prices for
seconds: any version that was in force within that time is right. The tenant's book at a time is known from
the audit log's states; before the first of them a request is checked against the book that it names.
"""

from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.states import row_name
from billing.prices.book import ANY_MODEL, PARENTS_MAX
from billing.tables.audit import AuditLog, AuditState
from billing.tables.tenants import PLATFORM, Price, PriceBook, PriceVersion, UsageRow
from core.sql.database import Database
from core.sql.selects import select_columns, untyped

REQUESTS_AT_ONCE = 5_000
FAULTS_MAX = 100
KEPT_MS = 5_000  # the longest that a gateway may use prices that have changed
ADMITTED_MS_MAX = 60_000  # after it was accepted, wherever it was claimed later

Version = tuple[str, int]  # book, number


class PricingCheck(NamedTuple):
    """The columns of a request that the check reads."""

    request_id: str
    model: str
    accepted_ms: int
    claimed_ms: int
    ended_ms: int
    posted_ms: int
    price_book_id: str
    price_version: int


class VersionStart(NamedTuple):
    """A version that was not withdrawn: its start, and the models that it has prices for."""

    from_ms: int
    number: int
    models: frozenset[str]


@dataclass(frozen=True)
class TenantPriceBook:
    """A book that a tenant may be priced by, its versions in the order in which they begin."""

    parent: str | None
    versions: Sequence[VersionStart]


@dataclass
class PricingHistory:
    """Price versions of a tenant over time. `paid_by`: (start, book) in order; earlier books are not known.
    Pure."""

    books: Mapping[str, TenantPriceBook]
    paid_by: Sequence[tuple[int, str]]
    _moments: list[int] = field(init=False)
    _known: dict[tuple[int, str, str], Version | None] = field(init=False, default_factory=dict[Any, Any])

    def __post_init__(self) -> None:
        begins = {each.from_ms for book in self.books.values() for each in book.versions}
        self._moments = sorted(begins | {at_ms for at_ms, _ in self.paid_by})

    def all_of(self, named: str, model: str, first_ms: int, last_ms: int) -> set[Version]:
        """The versions in force for a model at any time from first to last. `named`: the book to look in for
        times before the first known one."""
        first, last = (bisect_right(self._moments, at) for at in (first_ms, last_ms))
        found = {self._at(part, model, named) for part in range(first, last + 1)}
        return {each for each in found if each is not None}

    def _at(self, part: int, model: str, named: str) -> Version | None:
        """The version in force between two neighbouring moments."""
        key = (part, model, named)
        if key not in self._known:
            at_ms = self._moments[part - 1] if part else -1
            before = bisect_right(self.paid_by, at_ms, key=lambda each: each[0])
            self._known[key] = self._of(self.paid_by[before - 1][1] if before else named, model, at_ms)
        return self._known[key]

    def _of(self, id: str | None, model: str, at_ms: int) -> Version | None:
        """The version in force in a book, or in the nearest parent that prices the model."""
        for _ in range(1 + PARENTS_MAX):
            book = self.books.get(id) if id is not None else None
            if id is None or book is None:
                return None
            begun = bisect_right(book.versions, at_ms, key=lambda each: each.from_ms)
            in_force = book.versions[begun - 1] if begun else None
            if in_force is not None and in_force.models & {model, ANY_MODEL}:
                return id, in_force.number
            id = book.parent
        return None


async def pricing_faults(db: Database, tenant_id: str, most: int = FAULTS_MAX) -> list[str]:
    """Find requests of a tenant that were priced by a version that was not in force; at most `most`."""
    faults: list[str] = []
    async with db.snapshot() as session:
        pricing = PricingHistory(await _books(session, tenant_id), await _paid_by(session, tenant_id))
        async for page in _requests(session, tenant_id):
            for row in page:
                if len(faults) == most:
                    return faults
                if fault := pricing_fault(pricing, row):
                    faults.append(f"request {row.request_id}: {fault}")
    return faults


def pricing_fault(pricing: PricingHistory, row: PricingCheck) -> str:
    """Describe the fault in a request's price version; empty where it is right. Pure.

    A request admitted without prices was given those of that time or, where there were none, those of the
    time when it was booked."""
    if not row.price_book_id:
        return ""
    version = (row.price_book_id, row.price_version)
    last_ms = max(row.accepted_ms, row.claimed_ms or row.ended_ms)
    first_ms, last_ms = row.accepted_ms - KEPT_MS, min(last_ms, row.accepted_ms + ADMITTED_MS_MAX)
    of = (row.price_book_id, row.model)
    right = pricing.all_of(*of, first_ms, last_ms) or pricing.all_of(
        *of, row.posted_ms - KEPT_MS, row.posted_ms
    )
    if version in right:
        return ""
    return f"priced by version {version[1]} of {version[0]!r}, which was not in force when it was admitted"


async def _books(session: AsyncSession, tenant_id: str) -> dict[str, TenantPriceBook]:
    """The platform's price books and the tenant's own, by id."""
    visible = col(PriceBook.tenant_id).in_((PLATFORM, tenant_id))
    books = (await session.exec(select(PriceBook.id, PriceBook.parent_id).where(visible))).all()
    of_books = [id for id, _ in books]
    models: dict[Version, set[str]] = {}
    prices = select(Price.book_id, Price.version, Price.model).where(col(Price.book_id).in_(of_books))
    for id, number, model in (await session.exec(prices)).all():
        models.setdefault((id, number), set()).add(model)
    begun: dict[str, list[VersionStart]] = {id: [] for id in of_books}
    kept = col(PriceVersion.withdrawn_ms).is_(None)
    statement = select(PriceVersion).where(col(PriceVersion.book_id).in_(of_books), kept)
    order = (col(PriceVersion.valid_from_ms), col(PriceVersion.version))
    for each in (await session.exec(statement.order_by(*order))).all():
        of = frozenset(models.get((each.book_id, each.version), ()))
        begun[each.book_id].append(VersionStart(each.valid_from_ms, each.version, of))
    return {id: TenantPriceBook(parent, begun[id]) for id, parent in books}


async def _paid_by(session: AsyncSession, tenant_id: str) -> list[tuple[int, str]]:
    """(Start, book) of each change of the tenant's price book, from the audit log's states."""
    statement = (
        select(AuditLog.at_ms, AuditState.state)
        .join(
            AuditState,
            (col(AuditState.tenant_id) == col(AuditLog.tenant_id))
            & (col(AuditState.seq) == col(AuditLog.seq)),
        )
        .where(col(AuditLog.tenant_id) == tenant_id)
        .where(col(AuditState.thing) == row_name("tenant", [tenant_id]))
        .order_by(col(AuditLog.seq))
    )
    found: list[tuple[int, str]] = []
    for at_ms, state in (await session.exec(statement)).all():
        facts = msgspec.json.decode(state)
        book = facts.get("price_book_id") if facts else None
        if book and (not found or found[-1][1] != book):
            found.append((max(at_ms, found[-1][0] if found else 0), book))
    return found


async def _requests(session: AsyncSession, tenant_id: str) -> AsyncGenerator[list[PricingCheck]]:
    """A tenant's requests, in pages."""
    columns: list[Any] = [getattr(UsageRow, name) for name in PricingCheck._fields]
    after = ""
    while True:
        id = col(UsageRow.request_id)
        statement = select_columns(*columns).where(col(UsageRow.tenant_id) == tenant_id, id > after)
        page = (await untyped(session).exec(statement.order_by(id).limit(REQUESTS_AT_ONCE))).all()
        if not page:
            return
        yield [PricingCheck(*row) for row in page]
        after = page[-1][0]
