"""A change of prices while answers run, from admission to the books; and tokens that were cached."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import col, select

from billing.ledger.verify import verify_ledger
from billing.posting.biller import post
from billing.prices.book import NewVersion, add_version, pinned_prices
from billing.prices.files import FlatPrices
from billing.prices.rating import Counts, Meter, rate
from billing.quota.client import Quota
from billing.quota.types import Admitted, AllowanceExtension
from billing.tables.ledger import UsageLine
from billing.tables.tenants import Price, UsageRow
from billing.tenants.tenancy import create_tenant
from billing.usage import PinnedPrices, encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.quota.admissions import an_admission
from tests.support.redis import Redis

MILLION = 1_000_000
CHANGED = FlatPrices(900 * MILLION, 900 * MILLION, 900 * MILLION, 0)


async def test_an_answer_keeps_the_prices_that_it_was_admitted_under(
    redis: Redis, settings: Settings, database: Database
) -> None:
    """A change while it runs, and the same request sent again after it, change no bill; what is
    admitted from then on costs what the new version says."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    quota = Quota(redis, settings)

    async def admit(id: str) -> Admitted:
        prices = await pinned_prices(database, tenant, "smollm2")
        answer = await quota.admit(an_admission(tenant=tenant, id=id, prices=prices, now_ms=0))
        assert isinstance(answer, Admitted)
        return answer

    before = await admit("r1")
    await add_version(database, NewVersion("default", {"*": CHANGED}))
    again, after = await admit("r1"), await admit("r2")
    assert again.dup
    assert again.prices == before.prices
    assert (before.prices.version, after.prices.version) == (1, 2)
    assert isinstance(await quota.extend(tenant, "r1", 512), AllowanceExtension)
    events = [
        an_event(id, tenant, prices=answer.prices, ended_ms=now_ms())
        for id, answer in (("r1", again), ("r2", after))
    ]
    batch, posted = await post(database, "default", [encode(event) for event in events])
    assert (batch.held, len(posted)) == ([], 2)
    async with database.session() as session:
        lines = (await session.exec(select(UsageLine).where(col(UsageLine.number) > 0))).all()
        rows = (await session.exec(select(UsageRow))).all()
    assert {(line.request_id, line.price_version) for line in lines} == {("r1", 1), ("r2", 2)}
    assert {row.request_id: row.cost_nano for row in rows} == {"r1": 3_700, "r2": 19 * 900}
    assert (await verify_ledger(database, tenant)).faults == []


async def test_a_version_of_the_future_waits_for_its_time(database: Database) -> None:
    """It is in the book, frozen, and prices nothing before; none may begin where another does, but others
    before it may."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    start = now_ms() + 3_600_000
    new = NewVersion("default", {"*": CHANGED}, valid_from_ms=start)
    await add_version(database, new)
    assert (await pinned_prices(database, tenant, "smollm2")).version == 1
    assert (await pinned_prices(database, tenant, "smollm2", start)).version == 2
    other = FlatPrices(1, 1, 1, 1)
    with pytest.raises(Refused, match="begins at that time"):
        await add_version(database, replace(new, prices={"*": other}))
    await add_version(database, replace(new, prices={"*": other}, valid_from_ms=start - 1))
    in_force = [(await pinned_prices(database, tenant, "smollm2", start - at)).version for at in (2, 1, 0)]
    assert in_force == [1, 3, 2]
    async with database.session() as session:
        assert len((await session.exec(select(Price).where(col(Price.book_id) == "default"))).all()) == 3


tokens = st.integers(0, 10**7)


@given(tokens, tokens, tokens, tokens)
def test_each_token_is_billed_once_in_one_class(
    uncached: int, cached: int, text: int, reasoning: int
) -> None:
    """Cached input at its own price and not as input too, reasoning at the price of output."""
    prices = PinnedPrices("b", 1, input_nano=MILLION, cached_input_nano=10, output_nano=3 * MILLION)
    lines, cost = rate(Counts(uncached, cached, text, reasoning), prices)
    by_meter = {line.meter: (line.quantity, line.amount_nano) for line in lines if line.amount_nano}
    assert sum(line.quantity for line in lines if line.meter is not Meter.REQUEST) == (
        uncached + cached + text + reasoning
    )
    assert by_meter.get(Meter.INPUT, (0, 0)) == (uncached, uncached)
    assert by_meter.get(Meter.OUTPUT, (0, 0))[1] == 3 * text
    assert by_meter.get(Meter.REASONING, (0, 0))[1] == 3 * reasoning
    cached_nano = cost - uncached - 3 * (text + reasoning)
    assert abs(cached_nano * MILLION - 10 * cached) <= MILLION // 2


@given(tokens, tokens)
def test_a_cached_token_never_costs_more_than_one_that_was_not(cached: int, rest: int) -> None:
    """Whatever was found in the cache, the bill is not above that without it."""
    prices = PinnedPrices("b", 1, input_nano=4_000_003, cached_input_nano=1_000_001, output_nano=0)
    _, with_cache = rate(Counts(input_uncached=rest, input_cached=cached), prices)
    _, without = rate(Counts(input_uncached=rest + cached), prices)
    assert with_cache <= without + 1  # a line more is rounded


async def test_an_event_that_bills_cached_tokens_at_full_price_is_held(database: Database) -> None:
    """A worker that rates them otherwise than their prices say is found out."""
    event = an_event(input_uncached=12, input_cached=4)
    full = msgspec.structs.replace(event, cost_nano=event.cost_nano + 4 * 75)
    batch, posted = await post(database, "default", [encode(full)])
    assert posted == []
    assert [held.reason for held in batch.held] == ["cost_mismatch"]
