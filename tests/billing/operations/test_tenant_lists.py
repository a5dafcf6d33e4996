"""The list of tenants, by name and state."""

from billing.operations import tenants
from billing.operations.tenants import CreateTenant, ListTenants, NameTenant, OpenOrClosed
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores
from core.operations import Role
from tests.billing.operations.acting import OWNER, member_of
from tests.billing.operations.acting import stores as stores  # the fixture


async def names(stores: Stores, ask: ListTenants) -> list[str]:
    """Of all pages."""
    listed: list[str] = []
    while True:
        page = await answer_of(tenants.list_tenants, stores, OWNER, ask)
        listed += [each.name for each in page.items]
        if not page.next:
            return listed
        ask = ListTenants(name=ask.name, state=ask.state, limit=ask.limit, after=page.next)


async def test_tenants_are_listed_by_name_and_state(stores: Stores):
    """A part of the name in whichever case, in which % is a letter; open or closed; page by page."""
    for name in ("Acme Labs", "100% acme"):
        await answer_of(tenants.create_tenant, stores, OWNER, CreateTenant(name=name))
    await answer_of(tenants.close_tenant, stores, OWNER, NameTenant(tenant="acme"))
    assert await names(stores, ListTenants(name="ACME", limit=1)) == ["acme", "Acme Labs", "100% acme"]
    assert await names(stores, ListTenants(name="0% a")) == ["100% acme"]
    assert await names(stores, ListTenants(name="_")) == []
    assert await names(stores, ListTenants(state=OpenOrClosed.CLOSED)) == ["acme"]
    assert await names(stores, ListTenants(name="acme", state=OpenOrClosed.OPEN)) == [
        "Acme Labs",
        "100% acme",
    ]


async def test_a_member_finds_no_other_tenant(stores: Stores):
    """Whatever name they ask for."""
    acme = (await answer_of(tenants.list_tenants, stores, OWNER, ListTenants(name="acme"))).items[0].tenant
    member = member_of(acme, Role.VIEWER)
    assert (await answer_of(tenants.list_tenants, stores, member, ListTenants(name="other"))).items == []
