"""Where a request's price came from: when it was announced, what the version before would have cost, and what
the cache saved. Reads prices; no text of the request."""

from collections.abc import Mapping

import msgspec
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from billing.money import UNITS, round_half_even
from billing.prices.book import ANY_MODEL
from billing.prices.files import FlatPrices
from billing.prices.rating import Counts, Meter, rate
from billing.prices.versions import prices_of
from billing.requests.explain import BookedRequest
from billing.tables.tenants import PLATFORM, PriceVersion
from billing.usage import PinnedPrices
from core.operations import MoneyAmount
from core.sql.database import Database


class EarlierPrice(msgspec.Struct, frozen=True):
    """What the request would have cost under the version before. `more`: so much more it was billed than
    that, below zero: less."""

    version: int
    amount: MoneyAmount
    more: MoneyAmount


class PriceOrigin(msgspec.Struct, frozen=True):
    """Where a price came from. `earlier` None: there was none, or it did not price the model; `cache_saved`:
    what its cached input would have cost more as new input; None: it had none, or nobody knows."""

    announced_ms: int | None
    earlier: EarlierPrice | None
    cache_saved: MoneyAmount | None


async def price_origin_of(
    db: Database, tenant_id: str, booked: BookedRequest
) -> tuple[PriceOrigin, FlatPrices | None]:
    """The origin, and the flat prices of the request's model; None: the book does not have them."""
    async with db.session() as session:
        of = _versions(tenant_id, booked.price.book)
        numbered = of.where(col(PriceVersion.version) == booked.price.version)
        version = (await session.exec(numbered)).first()
        if version is None:
            return PriceOrigin(None, None, None), None
        own = flat_of(await prices_of(session, version), booked.model)
        before = await _before(session, of, version)
        earlier = None if before is None else flat_of(await prices_of(session, before), booked.model)
    return (
        PriceOrigin(
            version.created_ms,
            None if before is None or earlier is None else earlier_price(booked, before.version, earlier),
            cache_saved(booked, own),
        ),
        own,
    )


def flat_of(prices: Mapping[str, FlatPrices], model: str) -> FlatPrices | None:
    """A model's prices in a version; those of all that are not named. Pure."""
    return prices.get(model) or prices.get(ANY_MODEL)


def cost_under(counts: Counts, prices: FlatPrices) -> int:
    """The cost in nano-USD under other prices, rounded as a bill is. Pure."""
    pinned = PinnedPrices(
        "", 0, prices.input_nano, prices.cached_input_nano, prices.output_nano, prices.request_nano
    )
    return rate(counts, pinned)[1]


def earlier_price(booked: BookedRequest, version: int, prices: FlatPrices) -> EarlierPrice:
    """The bill under an earlier version. Pure."""
    counts = Counts(booked.input_uncached, booked.input_cached, booked.output_text, booked.output_reasoning)
    if not any(line.kind == "usage" and line.quantity for line in booked.lines):
        counts = Counts()  # it was not billable
    nano = cost_under(counts, prices)
    return EarlierPrice(version, MoneyAmount.of(nano), MoneyAmount.of(booked.cost.value - nano))


def cache_saved(booked: BookedRequest, prices: FlatPrices | None) -> MoneyAmount | None:
    """What billed input would have cost more, had none of it been cached. Pure."""
    lines = [line for line in booked.lines if line.kind == "usage" and line.meter == Meter.CACHED_INPUT]
    if prices is None or not lines:
        return None
    line = lines[0]
    return MoneyAmount.of(round_half_even(line.quantity * prices.input_nano, UNITS) - line.amount.value)


def _versions(tenant_id: str, book_id: str) -> SelectOfScalar[PriceVersion]:
    """Versions of a book of the tenant's own, or of the platform's."""
    return select(PriceVersion).where(
        col(PriceVersion.book_id) == book_id, col(PriceVersion.tenant_id).in_((PLATFORM, tenant_id))
    )


async def _before(
    session: AsyncSession, of: SelectOfScalar[PriceVersion], version: PriceVersion
) -> PriceVersion | None:
    begun, number = col(PriceVersion.valid_from_ms), col(PriceVersion.version)
    earlier = of.where(begun < version.valid_from_ms, col(PriceVersion.withdrawn_ms).is_(None))
    return (await session.exec(earlier.order_by(begun.desc(), number.desc()).limit(1))).first()
