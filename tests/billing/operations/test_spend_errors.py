"""Requests of a month that ended in an error: how, how many, and what was billed of them."""

import pytest

from billing.operations import spend_errors, tenants
from billing.operations.spend_errors import AskErrors
from billing.operations.tenants import NameTenant
from billing.periods import PeriodWindow
from billing.posting.biller import post
from billing.requests.ended_errors import errors_of
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import encode
from core.clock import now_ms
from core.operations import Role
from core.sql.database import Database
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.support.plans import plan_of

ENDS = [("error", "engine_lost"), ("error", "engine_lost"), ("deadline", ""), ("stop", ""), ("cancelled", "")]


async def filled(stores: Stores) -> str:
    """Id of acme, of whose five requests three ended in an error; so did one of other."""
    ids = [
        (await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant=name))).tenant
        for name in ("acme", "other")
    ]
    now = now_ms()
    times = {"accepted_ms": now - 1_000, "ended_ms": now}
    events = [
        an_event(f"r{n}", ids[0], reason=reason, code=code, **times) for n, (reason, code) in enumerate(ENDS)
    ]
    events.append(an_event("r", ids[1], reason="error", code="internal", **times))
    await post(stores.db, "default", [encode(each) for each in events])
    return ids[0]


async def test_a_payer_sees_their_own_by_how_they_ended(stores: Stores) -> None:
    """Most first, with what they cost, beside all that ended; the rest of a short list is a sum."""
    acme = await filled(stores)
    payer = member_of(acme, Role.BILLING)
    found = await answer_of(spend_errors.show_errors, stores, payer, AskErrors(tenant=acme))
    assert (found.requests, found.errors, found.more, found.others) == (5, 3, 0, 0)
    assert [(each.reason, each.code, each.requests) for each in found.ways] == [
        ("error", "engine_lost", 2),
        ("deadline", "", 1),
    ]
    assert found.cost.value == sum(each.cost.value for each in found.ways) > 0
    assert all(each.last for each in found.ways)
    short = await answer_of(spend_errors.show_errors, stores, payer, AskErrors(tenant=acme, limit=1))
    assert (len(short.ways), short.more, short.others, short.errors) == (1, 1, 1, 3)
    earlier = AskErrors(tenant=acme, month="2020-02")
    assert (await refusal_of(spend_errors.show_errors, stores, payer, earlier)).field == "month"


@pytest.mark.parametrize("role", [Role.DEVELOPER, Role.VIEWER])
async def test_who_sees_no_money_is_refused(stores: Stores, role: Role) -> None:
    """And a payer of another tenant does not learn that there is this one."""
    acme = await filled(stores)
    ask = AskErrors(tenant=acme)
    assert (
        await refusal_of(spend_errors.show_errors, stores, member_of(acme, role), ask)
    ).code == "forbidden"
    assert (
        await refusal_of(spend_errors.show_errors, stores, member_of("t-else", Role.BILLING), ask)
    ).unknown


async def test_only_errors_are_read(database: Database) -> None:
    """From an index that has nothing else, so a month of millions of answers is no more to read."""
    assert "ix_usage_event_errors" in await plan_of(database, errors_of("t1", PeriodWindow(0, 1_000_000)))
