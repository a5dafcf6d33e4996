"""The operation that shows what reading input from the cache saved a tenant."""

from collections.abc import Iterable, Sequence

import msgspec
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.operations.spend_month import SPENT_FROM, AskMonth, reported_month
from billing.prices.book import ANY_MODEL
from billing.reports.cache_savings import CacheSaving, cache_savings
from billing.reports.priced_sums import PricedSums, priced_sums
from billing.tables.tenants import PLATFORM, Price
from billing.unit_of_work.units import Look
from core.operations import PAYERS, STAFF, MoneyAmount, Uses, operation

MODELS_MAX = 20
OTHER = ""


class ModelCache(msgspec.Struct, frozen=True):
    """A model's input tokens, those of them that came from the cache, and what that saved."""

    model: str
    input_tokens: int
    cached_tokens: int
    saved: MoneyAmount


class SpendCache(msgspec.Struct, frozen=True, kw_only=True):
    """What the cache saved in a month, by model, most first; `others`: of `more` models that are not listed.
    `unpriced`: cached tokens whose price is not known any more, which are counted as saving nothing."""

    tenant: str
    month: str
    models: list[ModelCache]
    more: int
    others: ModelCache
    total: ModelCache
    unpriced: int


@operation(
    "spend.cache",
    "GET /tenants/{tenant}/spend/cache",
    may=STAFF | PAYERS,
    uses=Uses(reads=f"{SPENT_FROM} price"),
)
async def show_cache(look: Look, ask: AskMonth) -> SpendCache:
    """Show what a month's input from the cache saved, by the price that each request had pinned."""
    month = await reported_month(look, ask)
    sums = await priced_sums(look.db, month.tenant_id, month.window)
    async with look.db.session() as session:
        prices = await _input_prices(session, month.tenant_id, sums)
    found = cache_savings(sums, prices)
    return SpendCache(
        tenant=month.tenant_id,
        month=month.text,
        models=[_model(each.model, [each]) for each in found[:MODELS_MAX]],
        more=len(found[MODELS_MAX:]),
        others=_model(OTHER, found[MODELS_MAX:]),
        total=_model(OTHER, found),
        unpriced=sum(each.unpriced for each in found),
    )


def _model(name: str, found: Sequence[CacheSaving]) -> ModelCache:
    return ModelCache(
        name,
        sum(each.input_tokens for each in found),
        sum(each.cached_tokens for each in found),
        MoneyAmount.of(sum(each.saved_nano for each in found)),
    )


async def _input_prices(
    session: AsyncSession, tenant_id: str, sums: Iterable[PricedSums]
) -> dict[tuple[str, int, str], int]:
    """The input price of each version and model that is in these sums: the model's own, else that of any."""
    wanted = {(each.book, each.version, each.model) for each in sums if each.book}
    found: dict[tuple[str, int, str], int] = {}
    for book, version in sorted({key[:2] for key in wanted}):
        models = sorted(model for each, number, model in wanted if (each, number) == (book, version))
        statement = select(Price.model, Price.input_nano).where(
            col(Price.book_id) == book,
            col(Price.version) == version,
            col(Price.tenant_id).in_((PLATFORM, tenant_id)),
            col(Price.model).in_((*models, ANY_MODEL)),
        )
        prices: dict[str, int] = {model: nano for model, nano in (await session.exec(statement)).all()}
        for model in models:
            nano = prices.get(model, prices.get(ANY_MODEL))
            if nano is not None:
                found[book, version, model] = nano
    return found


OPERATIONS = (show_cache,)
