"""New versions of price books: what is written is what is billed, and the past stays as it was."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.money import NANO, to_text
from billing.prices.book import NewVersion, add_version, gpu_price, list_price_books, pinned_prices
from billing.prices.files import PRICE_NANO_MAX, FlatPrices, parse
from billing.prices.rating import Meter
from billing.prices.tiers import Tier, TierMode, TierPrices
from billing.prices.versions import contents_of
from billing.tables.tenants import Tenant
from billing.tenants.tenancy import create_tenant
from core.clock import now_ms
from core.errors import Refused
from core.sql.database import Database

FILE = """
book = "gold"
parent = "default"
valid_from = 2099-01-01T00:00:00+01:00

[models."*"]
input = "0.20"
output = "0.80"

[models.large]
input = "1.000000001"
cached_input = "0"
output = "3"
request = "0.0001"
"""


def flat(nano: int) -> FlatPrices:
    """Prices of which all but the one for requests are the same."""
    return FlatPrices(nano, nano, nano, 0)


def test_a_file_is_read_to_the_nano() -> None:
    """For a million tokens; for one request; cached input costs what input costs unless it is said."""
    file, prices = parse(FILE)
    assert (file.book, file.parent, file.currency) == ("gold", "default", "usd")
    assert prices["*"] == FlatPrices(200_000_000, 200_000_000, 800_000_000, 0)
    assert prices["large"] == FlatPrices(1_000_000_001, 0, 3 * NANO, 100_000_000_000)


@given(st.integers(0, PRICE_NANO_MAX))
def test_any_price_that_is_written_is_read_back(nano: int) -> None:
    """Exactly."""
    _, prices = parse(f'book = "b"\n[models.m]\ninput = "{to_text(nano)}"\noutput = "0"')
    assert prices["m"].input_nano == nano


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("0.20", "-0.20"), "models.*.input"),
        (("0.80", "0.0000000001"), "nine decimals"),
        (('"0.20"', "0.20"), "Expected `str`"),
        (('"3"', '"9000001"'), "models.large.output"),
        (("0.0001", "10"), "models.large.request"),
        (("output", "outptu"), "outptu"),
        (("book =", "bok ="), "bok"),
        (("+01:00", ""), "timezone"),
        (("[models.large]", "[models.large"), "no price file"),
        (("[models.large]", f"deep = {'[' * 10_000}"), "no price file"),
        (("[models.", "[modls."), "modls"),
    ],
)
def test_what_is_no_price_is_refused_with_its_place(change: tuple[str, str], says: str) -> None:
    """Negative ones, too small ones, numbers instead of text, words that are none."""
    with pytest.raises(ValueError, match=r".") as refused:
        parse(FILE.replace(*change))
    assert says in str(refused.value)


async def test_a_new_version_is_in_force_from_its_time_on(database: Database) -> None:
    """Before, the old one; a tenant's own book goes before its parent, which has what it lacks."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    own = NewVersion("acme", {"large": flat(5)}, tenant_id=tenant, parent="default")
    start = now_ms() + 60_000
    await add_version(database, own)
    await add_version(database, replace(own, prices={"large": flat(7), "new": flat(8)}, valid_from_ms=start))
    other = (await create_tenant(database, "other")).tenant_id
    await use_book(database, tenant, "acme")

    async def price(who: str, model: str, at_ms: int | None = None) -> tuple[str, int, int]:
        found = await pinned_prices(database, who, model, at_ms)
        return found.book, found.version, found.output_nano

    assert await price(tenant, "large") == ("acme", 1, 5)
    assert await price(tenant, "large", start) == ("acme", 2, 7)
    assert await price(tenant, "new", start - 1) == ("default", 1, 400_000_000)
    assert await price(tenant, "small", start) == ("default", 1, 400_000_000)
    assert await price(other, "large") == ("default", 1, 400_000_000)
    await use_book(database, other, "acme")
    with pytest.raises(Refused):
        await pinned_prices(database, other, "large")


async def use_book(database: Database, tenant: str, book: str) -> None:
    """Assign a book."""
    async with database.transaction() as session:
        row = await session.get(Tenant, tenant)
        assert row is not None
        row.price_book_id = book
        session.add(row)


async def test_the_past_cannot_be_changed(database: Database) -> None:
    """INV-27: Not by a version that begins in it, nor when another does, nor by another currency."""
    future = now_ms() + 60_000
    last, made = await add_version(database, NewVersion("gold", {"*": flat(1)}, valid_from_ms=future))
    assert (last.version, made) == (1, True)
    refused = [
        NewVersion("gold", {"*": flat(2)}, valid_from_ms=now_ms() - 60_000),
        NewVersion("gold", {"*": flat(2)}, valid_from_ms=future),
        NewVersion("gold", {"*": flat(2)}, currency="eur", valid_from_ms=future + 1),
        NewVersion("gold", {"*": flat(2)}, tenant_id="t1", valid_from_ms=future + 1),
        NewVersion("new", {"*": flat(2)}, parent="none"),
        NewVersion("new", {"*": flat(2)}, parent="default", currency="eur"),
    ]
    for new in refused:
        with pytest.raises(Refused):
            await add_version(database, new)
    again, made = await add_version(database, NewVersion("gold", {"*": flat(1)}, valid_from_ms=future))
    assert (again.version, made) == (1, False)
    assert [(book.id, len(versions)) for book, versions in await list_price_books(database)] == [
        ("default", 1),
        ("gold", 1),
    ]


async def test_imports_at_once_are_one_after_the_other_or_refused(database: Database) -> None:
    """Never two versions of one number, nor a lost one."""
    start = now_ms() + 60_000
    wanted = [NewVersion("gold", {"*": flat(number)}, valid_from_ms=start + number) for number in range(1, 7)]
    done = await asyncio.gather(*(add_version(database, new) for new in wanted), return_exceptions=True)
    made = [result for result in done if not isinstance(result, BaseException)]
    assert made
    assert all(isinstance(result, Refused) for result in done if isinstance(result, BaseException))
    ((_, versions),) = [entry for entry in await list_price_books(database) if entry[0].id == "gold"]
    assert [version.version for version in versions] == list(range(1, len(made) + 1))
    assert {each.valid_from_ms for each in versions} == {version.valid_from_ms for version, _ in made}


TIERS = {
    ("*", Meter.OUTPUT): TierPrices(TierMode.GRADUATED, (Tier(1_000, 5), Tier(None, 3)), 7),
    ("*", Meter.REQUEST): TierPrices(TierMode.PACKAGE, (Tier(100, 9),)),
}


async def test_tiers_and_prices_of_gpus_are_part_of_a_version(database: Database) -> None:
    """They are read back as they were; the same again adds nothing, another tier is another version."""
    new = NewVersion("gold", {"*": flat(5)}, tiers=TIERS, gpus={"h200": 11})
    first, made = await add_version(database, new)
    async with database.session() as session:
        assert await contents_of(session, first) == ({"*": flat(5)}, TIERS, {"h200": 11})
    assert made
    assert await add_version(database, new) == (first, False)
    later = replace(new, tiers={}, valid_from_ms=now_ms() + 60_000)
    second, made = await add_version(database, later)
    assert (second.version, made) == (2, True)


async def test_gpus_are_priced_by_the_version_in_force_and_by_parents(database: Database) -> None:
    """As models are: a type's own price, else that for any, else the parent's; nobody's is nothing's."""
    start = now_ms() + 60_000
    parent = NewVersion("list", {"*": flat(5)}, gpus={"h200": 11, "*": 4})
    await add_version(database, parent)
    await add_version(database, NewVersion("own", {"*": flat(5)}, parent="list"))
    own = NewVersion("own", {"*": flat(5)}, parent="list", gpus={"h200": 3}, valid_from_ms=start)
    await add_version(database, own)
    tenant = (await create_tenant(database, "acme")).tenant_id
    async with database.session() as session:
        assert await gpu_price(session, tenant, "h200", start) is None
    await use_book(database, tenant, "own")
    async with database.session() as session:

        async def paid(gpu_type: str, at_ms: int) -> int:
            price = await gpu_price(session, tenant, gpu_type, at_ms)
            assert price is not None
            return price.second_nano

        assert await paid("h200", start - 1) == 11
        assert await paid("h200", start) == 3
        assert await paid("b300", start) == 4
