"""Who was refused in a month, by operation: whose limit it was by name, beside how many were sent."""

import pytest

from billing.enforcement.limit_settings import write_policy
from billing.operations import spend_refusals, tenants
from billing.operations.spend_refusals import AskRefusals
from billing.operations.tenants import NameTenant
from billing.posting.biller import post
from billing.requests.refused_by import WhoseLimit
from billing.tenants.keys import create_key
from billing.tenants.tenancy import create_project
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from billing.usage import encode
from core.clock import now_ms
from core.operations import Role
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture
from tests.billing.operations.spent import refused


async def filled(stores: Stores) -> tuple[str, str]:
    """Ids of acme and of a key of it; acme and other have refusals, acme a request that ended."""
    ids = [
        (await answer_of(tenants.show_tenant, stores, OWNER, NameTenant(tenant=name))).tenant
        for name in ("acme", "other")
    ]
    acme, other = ids
    project = (await create_project(stores.db, acme, "lab")).id
    key = (await create_key(stores.db, acme, project, name="evals"))[0].id
    await write_policy(stores.db, acme, scope="key", dimension="tokens_per_minute", limit=5)
    await refused(stores.db, acme, "rate_limited", "key tokens_per_minute", key, 1_882)
    await refused(stores.db, acme, "budget_exceeded", "key month", key, 214)
    await refused(stores.db, acme, "overloaded", "", "", 9)
    await refused(stores.db, other, "rate_limited", "key tokens_per_minute", "k", 77)
    now = now_ms()
    await post(stores.db, "default", [encode(an_event("r", acme, accepted_ms=now - 1_000, ended_ms=now))])
    return acme, key


async def test_a_payer_sees_their_own_by_whose_limit(stores: Stores) -> None:
    """Most first, the sum beside all that was sent; what is beyond the limit of the list is a sum."""
    acme, key = await filled(stores)
    payer = member_of(acme, Role.BILLING)
    found = await answer_of(spend_refusals.show_refusals, stores, payer, AskRefusals(tenant=acme))
    assert (found.requests, found.refused, found.more, found.others) == (2_106, 2_105, 0, 0)
    assert [(each.status, each.limit, each.whose, each.of, each.refused) for each in found.limits] == [
        (429, "Tokens a minute of key evals", WhoseLimit.YOURS, key, 1_882),
        (402, "Budget of key evals", WhoseLimit.YOURS, key, 214),
        (503, "No room in a pool in time", WhoseLimit.PLATFORM, "", 9),
    ]
    ask = AskRefusals(tenant=acme, limit=1)
    short = await answer_of(spend_refusals.show_refusals, stores, payer, ask)
    assert (len(short.limits), short.more, short.others, short.refused) == (1, 2, 223, 2_105)


@pytest.mark.parametrize("role", [Role.DEVELOPER, Role.VIEWER])
async def test_who_sees_no_money_is_refused(stores: Stores, role: Role) -> None:
    """And a payer of another tenant does not learn that there is this one."""
    acme, _ = await filled(stores)
    ask = AskRefusals(tenant=acme)
    assert (
        await refusal_of(spend_refusals.show_refusals, stores, member_of(acme, role), ask)
    ).code == "forbidden"
    stranger = member_of("t-else", Role.BILLING)
    assert (await refusal_of(spend_refusals.show_refusals, stores, stranger, ask)).unknown
    wrong = AskRefusals(tenant=acme, month="May")
    payer = member_of(acme, Role.BILLING)
    assert (await refusal_of(spend_refusals.show_refusals, stores, payer, wrong)).field == "month"
