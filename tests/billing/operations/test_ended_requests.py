"""Finding requests that are over, by operation: whose they are, who learns of it, and what is wrong."""

from typing import Any

import msgspec
import pytest

from billing.audit.log import list_rows
from billing.operations import ended_requests, tenants
from billing.operations.ended_requests import FindEnded, FindRefused
from billing.operations.tenants import NameTenant
from billing.posting.biller import post
from billing.tables.refusals import RefusalMinute
from billing.tables.tenants import PLATFORM
from billing.tenants.users import create_user
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import UsageOwner, encode
from core.actor import Author
from core.clock import now_ms
from core.operations import Role
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

SUPPORT = OperationActor(Author("Sam", "api"), Role.SUPPORT, id="sam", remote=True)


async def filled(stores: Stores) -> dict[str, str]:
    """Ids of acme and other, which have a request and a refused send each, by their user ann."""
    ids: dict[str, str] = {}
    for name in ("acme", "other"):
        shown = await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant=name))
        ids[name] = owner = shown.tenant
        ann = await create_user(stores.db, owner, "ann")
        now = now_ms()
        event = an_event(
            f"{name}-r", owner, owner=UsageOwner("p1", "k1", ann.id), accepted_ms=now - 2_000, ended_ms=now
        )
        await post(stores.db, "default", [encode(event)])
        minute: dict[str, Any] = {"minute_ms": now - now % 60_000, "key_id": "k1", "user_id": ann.id}
        minute |= {"code": "rate_limited", "number": 2, "why": "w", "last_ids": ["s"]}
        async with stores.db.transaction() as session:
            session.add(RefusalMinute(tenant_id=owner, **minute))
    return ids


async def test_members_find_their_own_and_staff_all(stores: Stores) -> None:
    """Ended ones with their cost, refused ones by the minute; a member names no other tenant."""
    ids = await filled(stores)
    viewer = member_of(ids["acme"], Role.VIEWER)
    for run, ask in ((ended_requests.find_ended, FindEnded()), (ended_requests.find_refused, FindRefused())):
        own = (await answer_of(run, stores, viewer, ask)).items
        assert [(each.tenant, each.user) for each in own] == [(ids["acme"], "ann")]
        every = (await answer_of(run, stores, OWNER, ask)).items
        assert {each.tenant for each in every} == set(ids.values())
        for named in ("other", ids["other"]):
            ask = msgspec.structs.replace(ask, tenant=named)
            assert (await refusal_of(run, stores, viewer, ask)).unknown
    (found,) = (await answer_of(ended_requests.find_ended, stores, viewer, FindEnded())).items
    assert (found.id, found.took_ms, found.cost.value > 0) == ("acme-r", 2_000, True)


async def test_a_page_ends_with_where_the_next_begins(stores: Stores) -> None:
    """And the last one with nothing."""
    await filled(stores)
    first = await answer_of(ended_requests.find_ended, stores, OWNER, FindEnded(limit=1))
    assert first.next is not None
    second = await answer_of(
        ended_requests.find_ended, stores, OWNER, FindEnded(limit=1, after=first.next, cost_over_nano=1)
    )
    assert {each.id for each in (*first.items, *second.items)} == {"acme-r", "other-r"}
    over = FindEnded(over_ms=2_000, tenant="acme")
    assert (await answer_of(ended_requests.find_ended, stores, OWNER, over)).items == []


async def test_that_staff_looks_is_recorded_once(stores: Stores) -> None:
    """In the chain of the tenant that is named; of all tenants in the platform's."""
    ids = await filled(stores)
    for ask in (FindEnded(tenant="acme"), FindEnded(tenant="acme", user="ann"), FindEnded()):
        await answer_of(ended_requests.find_ended, stores, SUPPORT, ask)
    await answer_of(ended_requests.find_ended, stores, OWNER, FindEnded(tenant="other"))
    for chain, rows in ((ids["acme"], 1), (ids["other"], 0), (PLATFORM, 1)):
        found = [row for row in await list_rows(stores.db, chain) if row.action == "request.find"]
        assert len(found) == rows, chain


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (FindEnded(user="ann"), "tenant"),
        (FindEnded(tenant="acme", user="bob"), "user"),
        (FindEnded(tenant="acme", key="pk_x"), "key"),
        (FindEnded(tenant="acme", project="lab"), "project"),
        (FindEnded(since="yesterday"), "since"),
        (FindEnded(until="9999-12-31T00:00"), "until"),
        (FindEnded(since="1h", until="2h"), "since"),
        (FindEnded(model="\x1b"), "model"),
        (FindEnded(after="x"), "after"),
    ],
)
async def test_what_is_wrong_is_named(stores: Stores, ask: FindEnded, field: str) -> None:
    """By its field."""
    assert (await refusal_of(ended_requests.find_ended, stores, OWNER, ask)).field == field
