"""Which prices a request is admitted under: the tenant's book, its version in force, the model's row."""

from sqlmodel import col, func, select

from billing.tables import PLATFORM, Price, PriceBook, PriceVersion, Tenant
from billing.usage import PinnedPrices
from core.clock import now_ms
from core.database import Database
from core.errors import Refusal, Refused

ANY_MODEL = "*"


async def pinned_prices(db: Database, tenant_id: str, model: str, at_ms: int | None = None) -> PinnedPrices:
    """The prices of `model` for this tenant at a time, by default now.

    Raises Refused `unknown_model` where the book has none: nothing is served without a price."""
    books = (PLATFORM, tenant_id)
    version = (
        select(func.max(PriceVersion.version))
        .join(Tenant, col(Tenant.price_book_id) == col(PriceVersion.book_id))
        .where(col(Tenant.tenant_id) == tenant_id, col(PriceVersion.tenant_id).in_(books))
        .where(col(PriceVersion.valid_from_ms) <= (now_ms() if at_ms is None else at_ms))
        .scalar_subquery()
    )
    statement = (
        select(Price, PriceBook)
        .join(PriceBook, col(PriceBook.id) == col(Price.book_id))
        .join(Tenant, col(Tenant.price_book_id) == col(Price.book_id))
        .where(col(Tenant.tenant_id) == tenant_id, col(Price.tenant_id).in_(books))
        .where(col(Price.version) == version, col(Price.model).in_((model, ANY_MODEL)))
        .order_by(col(Price.model) == ANY_MODEL)
        .limit(1)
    )
    async with db.session() as session:
        found = (await session.exec(statement)).first()
    if found is None:
        raise Refused(Refusal("unknown_model", f"there is no price for the model {model!r}"))
    price, book = found
    return PinnedPrices(
        book=price.book_id,
        version=price.version,
        input_nano=price.input_nano,
        cached_input_nano=price.cached_input_nano,
        output_nano=price.output_nano,
        request_nano=price.request_nano,
        currency=book.currency,
    )
