"""Tags by operation: declared by admins of their own tenant, at most 20, withdrawn and declared again."""

import pytest

from billing.operations import chargeback, tags
from billing.operations.chargeback import AskChargeback
from billing.operations.shared_fields import NameTenant
from billing.operations.tags import NameTag
from billing.posting.biller import post
from billing.tenants.tags import TAGS_MAX
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from billing.usage import UsageOwner, encode
from core.clock import now_ms
from core.operations import Role
from tests.billing.events import an_event
from tests.billing.operations.acting import OWNER, member_of, refusal_of
from tests.billing.operations.acting import stores as stores  # the fixture

WHY = Terms(reason="a test's")


async def test_a_declared_key_tells_cost_apart_from_then_on(stores: Stores) -> None:
    """A report by it shows what was tagged since, and all else as not tagged; one that nobody declared is
    refused. Withdrawn it can be declared again."""
    tenant = (await answer_of(chargeback.report, stores, OWNER, AskChargeback(tenant="acme"))).tenant
    admin = member_of(tenant, Role.ADMIN)
    declared = await answer_of(tags.declare_tag, stores, admin, NameTag(tenant="acme", key="team"), WHY)
    assert declared.until is None
    owner = UsageOwner("p1", "k1", "u1", metadata=b'{"team":"search"}')
    now = now_ms()
    events = [
        an_event("before", tenant, owner=owner, ended_ms=now),
        an_event("since", tenant, owner=owner, ended_ms=now + 300_000),
    ]
    await post(stores.db, "default", [encode(event) for event in events])
    later = Stores(stores.settings, stores.db, stores.connect, lambda: now + 300_000)
    told = await answer_of(chargeback.report, later, admin, AskChargeback(tenant="acme", rows="tag:team"))
    if now // 86_400_000 == (now + 300_000) // 86_400_000:  # else the month may have ended between
        assert {line.head.name or line.head.kind: line.head.total.value for line in told.lines} == {
            "search": events[1].cost_nano,
            "nobody": events[0].cost_nano,
        }
    for ask in (AskChargeback(tenant="acme", rows="tag:other"), AskChargeback(tenant="acme", only="other")):
        assert (await refusal_of(chargeback.report, later, admin, ask)).field in ("rows", "only")
    withdrawn = await answer_of(tags.withdraw_tag, stores, admin, NameTag(tenant="acme", key="team"), WHY)
    assert withdrawn.until is not None
    again = await answer_of(tags.declare_tag, stores, admin, NameTag(tenant="acme", key="team"), WHY)
    assert (again.since or "") > (declared.since or "")
    listed = await answer_of(tags.list_tags, stores, admin, NameTenant(tenant="acme"))
    assert [each.until is None for each in listed.items] == [False, True]


@pytest.mark.parametrize("key", ["", "a b", "user", "project", "ключ", "x" * 65, "a\nb", "a'b", "team"])
async def test_what_is_no_key_is_refused_at_its_field(stores: Stores, key: str) -> None:
    """Also one that is declared already; nothing is declared then."""
    await answer_of(tags.declare_tag, stores, OWNER, NameTag(tenant="acme", key="team"), WHY)
    assert (await refusal_of(tags.declare_tag, stores, OWNER, NameTag(tenant="acme", key=key))).field in (
        "key",
        "reason",
    )
    listed = await answer_of(tags.list_tags, stores, OWNER, NameTenant(tenant="acme"))
    assert [each.key for each in listed.items] == ["team"]


async def test_there_are_few_and_only_admins_declare(stores: Stores) -> None:
    """A tenant's own ones; others may see them."""
    for number in range(TAGS_MAX):
        await answer_of(tags.declare_tag, stores, OWNER, NameTag(tenant="acme", key=f"k{number}"), WHY)
    tenant = (await answer_of(chargeback.report, stores, OWNER, AskChargeback(tenant="acme"))).tenant
    many = NameTag(tenant="acme", key="k99")
    assert (
        "withdraw"
        in (await refusal_of(tags.declare_tag, stores, member_of(tenant, Role.ADMIN), many)).message
    )
    for role in (Role.BILLING, Role.DEVELOPER, Role.VIEWER):
        assert (await refusal_of(tags.declare_tag, stores, member_of(tenant, role), many)).code == "forbidden"
    viewer = member_of(tenant, Role.VIEWER)
    assert len((await answer_of(tags.list_tags, stores, viewer, NameTenant(tenant="acme"))).items) == TAGS_MAX
    assert (await refusal_of(tags.list_tags, stores, viewer, NameTenant(tenant="other"))).unknown
    gone = NameTag(tenant="acme", key="nothing")
    assert (await refusal_of(tags.withdraw_tag, stores, member_of(tenant, Role.ADMIN), gone)).unknown
