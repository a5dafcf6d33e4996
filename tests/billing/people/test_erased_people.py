"""The people of a tenant are erased with it, but for those who belong to others too."""

from billing.audit.compare import compare_states
from billing.people import invitations, persons
from billing.people.memberships import join, lock_people
from billing.people.person_sessions import find_person_session, open_person_session
from billing.people.service_tokens import create_token, find_token
from billing.tables.tenants import PLATFORM
from billing.tenants.erasure import erase_tenant
from billing.tenants.tenancy import write_closed
from tests.billing.people.a_person import Peopled
from tests.support.tables import tables_with


async def test_nobody_knows_the_people_of_an_erased_tenant(peopled: Peopled) -> None:
    """Neither their names nor addresses stand anywhere, also of who was invited; sessions and tokens end.
    Staff who were members stay as they are, and the audit log agrees with what is left."""
    tenant, staff = peopled.tenant.tenant_id, peopled.operator.person
    async with peopled.db.transaction() as session:
        await lock_people(session, PLATFORM, tenant)
        await join(session, tenant, staff.id, "viewer")
        new = await open_person_session(
            session, peopled.admin.person, peopled.admin.membership, "192.0.2.1", "Browser"
        )
    await invitations.invite(peopled.db, tenant, "guest@example.com", "viewer")
    _, secret = await create_token(peopled.db, tenant, "adas-laptop", "viewer", 30)
    await write_closed(peopled.db, tenant, True)
    await erase_tenant(peopled.db, tenant)
    for words in ("ada@example.com", "vic@example.com", "guest@example.com", "adas-laptop", "192.0.2.1"):
        assert await tables_with(peopled.db, words) == set(), words
    assert "person" in await tables_with(peopled.db, "otto@example.com")
    assert (await persons.find_member(peopled.db, PLATFORM, "Otto")).person.closed_ms is None
    assert await find_person_session(peopled.db, new.token) is None
    assert await find_token(peopled.db, secret) is None
    for chain in (PLATFORM, tenant):
        assert (await compare_states(peopled.db, chain)).faults == []
