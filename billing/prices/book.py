"""Price books: the prices under which a request is admitted, and new versions of a book.

A version is never changed, so that earlier bills stay explained. A change of prices is a new version, in
force from its start. Versions are planned in any order, as long as none begins in the past.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import record
from billing.periods import AHEAD_MS_MAX, LAST_MS
from billing.prices.files import FlatPrices
from billing.prices.price_file_tiers import TierKey
from billing.prices.tiers import TierPrices
from billing.prices.versions import contents_of, number_at, tier_row
from billing.prices.withdrawals import lock_book, withdraw, withdrawable_version
from billing.tables.prices import GpuPrice
from billing.tables.tenants import PLATFORM, Price, PriceBook, PriceVersion, Tenant
from billing.usage import PinnedPrices, PriceOffer
from core.clock import now_ms
from core.errors import Refusal, Refused, bad_request
from core.sql.database import Database

ANY_MODEL = "*"
PARENTS_MAX = 3


@dataclass(frozen=True)
class NewVersion:
    """A version of a book to add. `valid_from_ms` None: from now on; `lead_ms`: shortest time until its start
    where another version is in force; `far_ahead`: it may begin in years. `gpus`: nano-USD per 1,000,000
    GPU-seconds. `replaces`: a version to withdraw for it, with the reason."""

    book: str
    prices: Mapping[str, FlatPrices]
    name: str = ""
    currency: str = "usd"
    tenant_id: str = PLATFORM
    parent: str | None = None
    valid_from_ms: int | None = None
    tiers: Mapping[TierKey, TierPrices] = field(default_factory=dict[TierKey, TierPrices])
    gpus: Mapping[str, int] = field(default_factory=dict[str, int])
    lead_ms: int = 0
    far_ahead: bool = False
    replaces: int | None = None
    reason: str = ""


async def pinned_prices(db: Database, tenant_id: str, model: str, at_ms: int | None = None) -> PinnedPrices:
    """Prices of `model` for this tenant at a time, by default now: from its book, else from the book's
    parents.

    Raises Refused `unknown_model` where there are none: nothing is served without a price."""
    async with db.session() as session:
        found = await _pinned(session, tenant_id, model, now_ms() if at_ms is None else at_ms)
    if found is None:
        raise Refused(Refusal("unknown_model", f"there is no price for the model {model!r}"))
    return found


async def offered_prices(db: Database, tenant_id: str, model: str, at_ms: int | None = None) -> PriceOffer:
    """Prices of `model` at a time, by default now, and the next ones.

    Raises Refused `unknown_model` where there are none now."""
    at = now_ms() if at_ms is None else at_ms
    now = await pinned_prices(db, tenant_id, model, at)
    async with db.session() as session:
        books = [book.id async for book in price_sources(session, tenant_id)]
        begin = select(func.min(PriceVersion.valid_from_ms)).where(
            col(PriceVersion.book_id).in_(books),
            col(PriceVersion.valid_from_ms) > at,
            col(PriceVersion.withdrawn_ms).is_(None),
        )
        begins = (await session.exec(begin)).one()
        following = await _pinned(session, tenant_id, model, begins) if begins else None
    return PriceOffer(now) if following is None else PriceOffer(now, following, begins or 0)


async def _pinned(session: AsyncSession, tenant_id: str, model: str, at_ms: int) -> PinnedPrices | None:
    async for book in price_sources(session, tenant_id):
        price = await _price(session, book, model, at_ms)
        if price is not None:
            return pinned(book, price)
    return None


async def gpu_price(session: AsyncSession, tenant_id: str, gpu_type: str, at_ms: int) -> GpuPrice | None:
    """Price of a GPU of this type for the tenant in a dedicated pool at a time; None: its books have none."""
    async for book in price_sources(session, tenant_id):
        statement = (
            select(GpuPrice)
            .where(col(GpuPrice.book_id) == book.id, col(GpuPrice.tenant_id) == book.tenant_id)
            .where(col(GpuPrice.version) == number_at(book.id, book.tenant_id, at_ms))
            .where(col(GpuPrice.gpu_type).in_((gpu_type, ANY_MODEL)))
            .order_by(col(GpuPrice.gpu_type) == ANY_MODEL)
            .limit(1)
        )
        price = (await session.exec(statement)).first()
        if price is not None:
            return price
    return None


async def price_sources(session: AsyncSession, tenant_id: str) -> AsyncGenerator[PriceBook]:
    """Yield the tenant's book, then its parents."""
    tenant = await session.get(Tenant, tenant_id)
    book_id = tenant.price_book_id if tenant else None
    for _ in range(1 + PARENTS_MAX):
        book = await session.get(PriceBook, book_id) if book_id else None
        if book is None or book.tenant_id not in (PLATFORM, tenant_id):
            return
        yield book
        book_id = book.parent_id


def pinned(book: PriceBook, price: Price) -> PinnedPrices:
    """Prices of a version's row, in the form that requests carry."""
    return PinnedPrices(
        book=price.book_id,
        version=price.version,
        input_nano=price.input_nano,
        cached_input_nano=price.cached_input_nano,
        output_nano=price.output_nano,
        request_nano=price.request_nano,
        currency=book.currency,
    )


async def _price(session: AsyncSession, book: PriceBook, model: str, at_ms: int) -> Price | None:
    """The row of the model, else of any model, in the version in force."""
    statement = (
        select(Price)
        .where(col(Price.book_id) == book.id, col(Price.tenant_id) == book.tenant_id)
        .where(col(Price.version) == number_at(book.id, book.tenant_id, at_ms))
        .where(col(Price.model).in_((model, ANY_MODEL)))
        .order_by(col(Price.model) == ANY_MODEL)
        .limit(1)
    )
    return (await session.exec(statement)).first()


async def add_version(db: Database, new: NewVersion) -> tuple[PriceVersion, bool]:
    """Add a version to a book, and the book where it is new. False: the version is there already.

    Raises Refused where it would change the past, another version with the same start, or the book's owner,
    currency or parents."""
    try:
        async with db.transaction() as session:
            return await _add_version(session, new)
    except IntegrityError as error:
        raise bad_request(
            "there is no such parent book, or another import came between: look again"
        ) from error


async def _add_version(session: AsyncSession, new: NewVersion) -> tuple[PriceVersion, bool]:
    now = now_ms()
    book = await _book_for(session, new, now)
    versions = await versions_of(session, book.id)
    earliest = now + (new.lead_ms if _in_force(versions, now) else 0)
    same = await _same(session, new, versions, earliest)
    if new.replaces is not None:
        replaced = await withdrawable_version(session, book.id, new.replaces, now, again=same is not None)
        if replaced is not None and replaced != same:
            await withdraw(session, replaced, new.reason, now)
    if same is not None:
        return same, False
    valid_from = earliest if new.valid_from_ms is None else new.valid_from_ms
    if now <= valid_from < earliest:
        raise bad_request("valid_from is less than a minute ahead, and gateways keep prices: or say --now")
    _check_begin(new, [each for each in versions if each.version != new.replaces], valid_from, now)
    number = max((each.version for each in versions), default=0) + 1
    version = PriceVersion(
        book_id=book.id,
        version=number,
        tenant_id=book.tenant_id,
        valid_from_ms=valid_from,
        created_ms=now,
    )
    session.add(version)
    await session.flush()
    await _add_contents(session, version, new)
    says = {"valid_from_ms": valid_from, "models": sorted(new.prices), "gpus": sorted(new.gpus)}
    await record(session, book.tenant_id, "price.import", f"{book.id}/{number}", None, says)
    return version, True


def _in_force(versions: Sequence[PriceVersion], at_ms: int) -> PriceVersion | None:
    begun = [each for each in versions if each.withdrawn_ms is None and each.valid_from_ms <= at_ms]
    return max(begun, key=lambda each: (each.valid_from_ms, each.version), default=None)


async def _same(
    session: AsyncSession, new: NewVersion, versions: Sequence[PriceVersion], earliest: int
) -> PriceVersion | None:
    """The version with the same contents and start; without a start, the version in force at `earliest` if it
    has them."""
    kept = [each for each in versions if each.withdrawn_ms is None]
    if new.valid_from_ms is None:
        found = _in_force(versions, earliest)
    else:
        found = next((each for each in kept if each.valid_from_ms == new.valid_from_ms), None)
    contents = (dict(new.prices), dict(new.tiers), dict(new.gpus))
    return found if found is not None and await contents_of(session, found) == contents else None


def _check_begin(new: NewVersion, versions: Sequence[PriceVersion], valid_from: int, now: int) -> None:
    """Check a version's start. `versions`: all others of the book. Raises Refused."""
    if valid_from < now:
        raise bad_request(
            "valid_from has passed: what was admitted keeps its prices, so a version begins now or later"
        )
    if valid_from >= LAST_MS:
        raise bad_request("valid_from is after the year 9998")
    if valid_from - now > AHEAD_MS_MAX and not new.far_ahead:
        raise bad_request("valid_from is more than 13 months ahead: say --yes if it is meant")
    for each in versions:
        if each.withdrawn_ms is None and each.valid_from_ms == valid_from:
            raise bad_request(
                f"version {each.version} of {new.book!r} begins at that time: --replace it, or withdraw it"
            )


async def _add_contents(session: AsyncSession, version: PriceVersion, new: NewVersion) -> None:
    """Add a version's prices, tiers and prices of GPUs."""
    of: dict[str, Any] = version.model_dump(include={"book_id", "version", "tenant_id"})
    for model, prices in new.prices.items():
        session.add(Price(**of, model=model, **msgspec.structs.asdict(prices)))
    await session.flush()
    for key, tiers in new.tiers.items():
        session.add(tier_row(version, key, tiers))
    for gpu_type, second_nano in new.gpus.items():
        session.add(GpuPrice(**of, gpu_type=gpu_type, second_nano=second_nano))
    await session.flush()


async def _book_for(session: AsyncSession, new: NewVersion, now: int) -> PriceBook:
    """Return the book, created where there is none."""
    book = await lock_book(session, new.book)
    if book is None:
        await _check_parents(session, new)
        book = PriceBook(
            id=new.book,
            tenant_id=new.tenant_id,
            parent_id=new.parent,
            name=new.name or new.book,
            currency=new.currency,
            created_ms=now,
        )
        session.add(book)
        await session.flush()
    if (book.tenant_id, book.currency, book.parent_id) != (new.tenant_id, new.currency, new.parent):
        raise bad_request(
            f"the book {book.id!r} has another owner, currency or parent, which cannot be changed"
        )
    return book


async def _check_parents(session: AsyncSession, new: NewVersion) -> None:
    parent, depth = new.parent, 0
    while parent is not None:
        depth += 1
        book = await session.get(PriceBook, parent)
        if book is None or book.tenant_id not in (PLATFORM, new.tenant_id):
            raise bad_request(f"there is no price book {parent!r} to be a parent")
        if book.currency != new.currency:
            raise bad_request(f"the parent {parent!r} is in {book.currency}, not in {new.currency}")
        if depth > PARENTS_MAX:
            raise bad_request(f"a book has at most {PARENTS_MAX} parents above it")
        parent = book.parent_id


async def versions_of(session: AsyncSession, book_id: str) -> Sequence[PriceVersion]:
    """All versions of a book, withdrawn ones too, in the order in which they were added."""
    statement = select(PriceVersion).where(col(PriceVersion.book_id) == book_id)
    return (await session.exec(statement.order_by(col(PriceVersion.version)))).all()


async def list_price_books(db: Database) -> list[tuple[PriceBook, list[PriceVersion]]]:
    """All books with their versions, oldest first. For operators."""
    async with db.session() as session:
        books = (await session.exec(select(PriceBook).order_by(col(PriceBook.id)))).all()
        order = (col(PriceVersion.book_id), col(PriceVersion.version))
        versions = (await session.exec(select(PriceVersion).order_by(*order))).all()
    return [(book, [each for each in versions if each.book_id == book.id]) for book in books]
