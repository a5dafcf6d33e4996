"""Which prices are pinned at admission."""

import pytest
from sqlalchemy.exc import DBAPIError

from billing.prices.book import pinned_prices
from billing.tables.tenants import PLATFORM, Price, PriceBook, PriceVersion
from billing.tenants.tenancy import create_tenant, set_tenant
from core.errors import Refused
from core.sql.database import Database, insert_rows


def a_price(book: str, version: int, model: str, input_nano: int, tenant_id: str = PLATFORM) -> Price:
    """A row of a price version."""
    return Price(
        book_id=book,
        version=version,
        model=model,
        tenant_id=tenant_id,
        input_nano=input_nano,
        cached_input_nano=1,
        output_nano=2,
    )


def a_version(book: str, version: int, valid_from_ms: int, tenant_id: str = PLATFORM) -> PriceVersion:
    """A version in force from a time on."""
    return PriceVersion(
        book_id=book, version=version, tenant_id=tenant_id, valid_from_ms=valid_from_ms, created_ms=0
    )


async def test_a_new_installation_prices_any_model_by_default_version_1(database: Database) -> None:
    """The migration seeds the book: nothing must be set up before the first answer is rated."""
    tenant = await create_tenant(database, "a")
    prices = await pinned_prices(database, tenant.tenant_id, "smollm2")
    assert (prices.book, prices.version, prices.currency) == ("default", 1, "usd")
    assert (prices.input_nano, prices.cached_input_nano) == (100_000_000, 25_000_000)
    assert (prices.output_nano, prices.request_nano) == (400_000_000, 0)


async def test_the_version_in_force_and_the_models_own_row_win(database: Database) -> None:
    """A version that is not valid yet is not used; a model's own price goes before the one for any model."""
    tenant = await create_tenant(database, "a")
    async with database.transaction() as session:
        await insert_rows(session, [a_version("default", 2, 1_000), a_version("default", 3, 9_000)])
        await insert_rows(
            session,
            [
                a_price("default", 2, "*", 20),
                a_price("default", 2, "big", 30),
                a_price("default", 3, "*", 40),
            ],
        )

    async def input_nano(model: str, at_ms: int) -> int:
        return (await pinned_prices(database, tenant.tenant_id, model, at_ms)).input_nano

    assert await input_nano("big", 999) == 100_000_000
    assert await input_nano("big", 1_000) == 30
    assert await input_nano("small", 8_999) == 20
    assert await input_nano("big", 9_000) == 40


async def test_a_model_without_a_price_is_refused(database: Database) -> None:
    """What nobody priced is not admitted, so that nothing is held or billed at zero, nor
    at an older version's price."""
    async with database.transaction() as session:
        await insert_rows(session, [PriceBook(id="own", name="Own", created_ms=0)])
        await insert_rows(session, [a_version("own", 1, 0), a_version("own", 2, 0)])
        await insert_rows(session, [a_price("own", 1, "*", 10), a_price("own", 2, "other", 10)])
    tenant = await create_tenant(database, "a", price_book="own")
    with pytest.raises(Refused, match="no price"):
        await pinned_prices(database, tenant.tenant_id, "smollm2")


async def test_another_tenants_prices_are_never_used(database: Database) -> None:
    """A book made for one tenant prices that tenant only."""
    owner = await create_tenant(database, "owner")
    async with database.transaction() as session:
        await insert_rows(session, [PriceBook(id="own", tenant_id=owner.tenant_id, name="Own", created_ms=0)])
        await insert_rows(session, [a_version("own", 1, 0, owner.tenant_id)])
        await insert_rows(session, [a_price("own", 1, "*", 10, owner.tenant_id)])
    stranger = await create_tenant(database, "stranger")
    with pytest.raises(Refused, match="no price book"):
        await set_tenant(database, stranger.tenant_id, price_book_id="own")
    with pytest.raises(Refused, match="no price book"):
        await create_tenant(database, "other", price_book="own")
    async with database.transaction() as session:  # as releases before could
        stranger.price_book_id = "own"
        await session.merge(stranger)
    with pytest.raises(Refused, match="no price"):
        await pinned_prices(database, stranger.tenant_id, "smollm2")


async def test_the_database_itself_refuses_a_negative_price(database: Database) -> None:
    """Whatever code writes it."""
    async with database.session() as session:
        with pytest.raises(DBAPIError, match="ck_price_input"):
            await insert_rows(session, [a_price("default", 1, "bad", -1)])
