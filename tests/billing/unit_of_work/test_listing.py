"""Lists in pages: by one column or by several, each thing once, by a cursor of its own list."""

from collections.abc import Callable
from typing import Any, get_origin

import msgspec
import pytest

from billing.operations import approvals, gpu_commitments, pools, wallet_views
from billing.operations.approvals import ListProposals
from billing.operations.gpu_commitments import ListGpuCommitments
from billing.operations.wallet_views import ListOwed
from billing.posting.biller import post
from billing.tables.approvals import Proposal
from billing.tables.dedicated_pools import Commitment, GpuCost, PoolOwner
from billing.tenants.tenancy import find_tenant
from billing.unit_of_work.listing import ListQuestion
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import encode
from billing.wallets.wallets import grant
from core.clock import iso_time, now_ms
from core.errors import Refused
from core.operations import ListedPage, registered
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.billing.wallets.wallet_tenant import promo

BOUNDED = {  # lists without pages, and why none grows on
    "chargeback.schedules": "at most 20 a tenant",
    "chargeback.months": "this month and the twelve before it",
    "people.sessions": "one person has 20 open ones at most in a tenant",
    "pools.hours": "25 hours of each pool that is served, of which there are 256 at most",
    "requests.list": "what is open now, as many as are asked for",
    "safety.stats": "a row for each day that is asked for",
    "tags.list": "at most 20 are declared",
    "search.find": "20 at most",
    "workers.list": "a pool's machines",
}


def test_a_list_that_grows_has_pages() -> None:
    """Each operation that lists goes on from a cursor, or stands above with the reason why it need not."""
    without = set[str]()
    for name, each in registered().items():
        answers = get_origin(each.answers) or each.answers
        fields = {field.encode_name for field in msgspec.structs.fields(each.asks)}
        if isinstance(answers, type) and issubclass(answers, ListedPage) and "after" not in fields:
            without.add(name)
    assert without == set(BOUNDED)


async def pages_of(stores: Stores, run: Callable[..., Any], ask: ListQuestion) -> list[Any]:
    """A list's things, two at a time."""
    things: list[Any] = []
    while True:
        page = await answer_of(run, stores, OWNER, msgspec.structs.replace(ask, limit=2))
        things += page.items
        if page.next is None:
            return things
        assert len(page.items) == 2
        ask = msgspec.structs.replace(ask, after=page.next)


async def stored(stores: Stores, *rows: Any) -> None:
    """Rows as they stand there, in an order that is nobody's."""
    async with stores.db.transaction() as session:
        session.add_all(rows[::-1])


async def test_proposals_come_in_pages_however_they_ended(stores: Stores) -> None:
    """Those that wait oldest first, all newest first; what is late waits no more."""
    now = now_ms()
    await stored(
        stores,
        *(
            Proposal(
                tenant_id=f"t{number % 2}",
                id=f"p{number}",
                kind="grant",
                move='{"ask": {"kind": "promo", "key": "k", "note": ""}}',
                amount_nano=number,
                author="Ann",
                by="unix:ann",
                state="waiting" if number % 3 else "booked",
                created_ms=now,
                expires_ms=now + (1_000_000 if number != 4 else -1),
            )
            for number in range(9)
        ),
    )
    waiting = await pages_of(stores, approvals.list_proposals, ListProposals())
    assert [each.proposal for each in waiting] == ["p1", "p2", "p5", "p7", "p8"]
    every = await pages_of(stores, approvals.list_proposals, ListProposals(ended=True))
    assert [each.proposal for each in every] == [f"p{number}" for number in range(8, -1, -1)]
    assert {each.state for each in every} == {"waiting", "booked", "expired"}


async def test_a_list_by_several_columns_comes_in_pages(stores: Stores) -> None:
    """Rows that are alike in the first columns follow each other by the next ones."""
    owned = [("a", 1_000), ("a", 2_000), ("a", 30_000), ("b", 2_000), ("b", 10_000)]
    await stored(
        stores, *(PoolOwner(pool=pool, from_ms=ms, tenant_id="", created_ms=0) for pool, ms in owned)
    )
    owners = await pages_of(stores, pools.list_pool_owners, ListQuestion())
    assert [(each.pool, each.start) for each in owners] == [(pool, iso_time(ms)) for pool, ms in owned]
    of = [("*", "", 5), ("h200", "", 1), ("h200", "eu", 1), ("h200", "eu", 2), ("h200", "us", 1)]
    await stored(
        stores,
        *(
            GpuCost(gpu_type=gpu, region=region, valid_from_ms=ms, hour_nano=7, created_ms=0)
            for gpu, region, ms in of
        ),
    )
    costs = await pages_of(stores, gpu_commitments.list_gpu_costs, ListQuestion())
    assert [(each.gpu, each.region) for each in costs] == [(gpu, region) for gpu, region, _ in of]


async def test_a_tenants_own_come_in_pages(stores: Stores) -> None:
    """What it committed to and what it owes, the oldest first."""
    found = await find_tenant(stores.db, "acme")
    assert found is not None
    acme = found.tenant_id
    begun = [(1, "c"), (2, "a"), (2, "b"), (3, "d"), (10, "aa")]
    facts: dict[str, Any] = {"gpu_type": "*", "gpus": 1, "rate_nano": 1, "payment": "monthly"}
    await stored(
        stores,
        *(
            Commitment(tenant_id=acme, id=id, **facts, start_ms=ms, end_ms=100, created_ms=0)
            for ms, id in begun
        ),
    )
    listed = await pages_of(stores, gpu_commitments.list_gpu_commitments, ListGpuCommitments(tenant="acme"))
    assert [each.id for each in listed] == [id for _, id in begun]
    await grant(stores.db, acme, promo(1, "k"))
    asked = [(5, "q1"), (6, "c"), (6, "d"), (7, "a"), (70, "b")]
    events = [encode(an_event(id, acme, accepted_ms=ms)) for ms, id in asked]
    await post(stores.db, "default", events[::-1])
    owed = await pages_of(stores, wallet_views.list_owed, ListOwed(tenant="acme"))
    assert [each.request for each in owed] == [id for _, id in asked]


async def test_a_cursor_is_of_its_own_list(stores: Stores) -> None:
    """Of another list, with other columns, cut off or made up: refused by its field."""
    await stored(stores, *(PoolOwner(pool="a", from_ms=ms, tenant_id="", created_ms=0) for ms in range(1, 4)))
    page = await answer_of(pools.list_pool_owners, stores, OWNER, ListQuestion(limit=1))
    assert page.next is not None
    for run, after in (
        (gpu_commitments.list_gpu_costs, page.next),
        (approvals.list_proposals, page.next),
        (pools.list_pool_owners, page.next[:-4]),
        (pools.list_pool_owners, "é"),
        (pools.list_pool_owners, "gA"),
    ):
        ask = ListProposals(after=after) if run is approvals.list_proposals else ListQuestion(after=after)
        with pytest.raises(Refused) as refused:
            await answer_of(run, stores, OWNER, ask)
        assert refused.value.refusal.field == "after"
