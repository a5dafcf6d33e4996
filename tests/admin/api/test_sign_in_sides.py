"""Signing in at one of the two consoles: what is good at the other one stays good, and is told where."""

from typing import Any

import pytest

from admin.api.callers import OPERATORS_SIDE, TENANTS_SIDE
from billing.people import invitations
from billing.people.own_account import set_password
from billing.people.passwords import Passwords
from billing.people.persons import create_member
from billing.tables.tenants import PLATFORM
from core.operations import Role
from core.web.local_urls import console_url, portal_url
from tests.admin.api.conftest import ApiSite, created
from tests.support.staff import staff_code

PASSWORD = "correct horse battery"


async def sign_in(site: ApiSite, side: Any, **shown: str) -> tuple[int, dict[str, Any]]:
    """What a new browser is answered at this side."""
    reply = await (await site.browser(side)).post("/api/sign-in", json=shown)
    return reply.status_code, reply.json()


@pytest.mark.parametrize("by", ["link", "invitation"])
async def test_what_is_opened_at_the_wrong_console_stays_good(site: ApiSite, by: str) -> None:
    """It is refused with the address of the right one, which then takes it."""
    tenant = await created(await site.signed_in())
    for chain, role, right, wrong, url in (
        (tenant, Role.ADMIN, TENANTS_SIDE, OPERATORS_SIDE, portal_url(site.settings)),
        (PLATFORM, Role.FINANCE, OPERATORS_SIDE, TENANTS_SIDE, console_url(site.settings)),
    ):
        name = f"New {role}"
        if by == "link":
            shown = {"by": by, "code": await staff_code(site.settings, site.database, name, role, chain)}
        else:
            _, code = await invitations.invite(site.database, chain, f"{role}@example.com", role)
            shown = {"by": by, "code": code, "name": name}
        status, told = await sign_in(site, wrong, **shown)
        assert (status, url in told["detail"]) == (403, True), told
        status, me = await sign_in(site, right, **shown)
        assert (status, me["name"], me["role"]) == (200, name, role), me


async def test_a_password_signs_in_where_it_is_typed(site: ApiSite) -> None:
    """Who is staff and a tenant's member has each role at its own console; who is one of both is told where
    they sign in, but only by the right password. By it staff join a tenant that invites their address."""
    tenant = await created(await site.signed_in())
    staff = await create_member(site.database, PLATFORM, "Otto", Role.OPERATOR, "otto@example.com")
    await set_password(site.database, staff.person.id, await Passwords().hash(PASSWORD))
    shown = {"by": "password", "email": "otto@example.com", "password": PASSWORD}
    status, told = await sign_in(site, TENANTS_SIDE, **shown)
    assert (status, console_url(site.settings) in told["detail"]) == (403, True)
    assert (await sign_in(site, TENANTS_SIDE, **{**shown, "password": "wrong"}))[0] == 401
    _, code = await invitations.invite(site.database, tenant, "otto@example.com", Role.VIEWER)
    invited = {"by": "invitation", "code": code, "name": ""}
    assert (await sign_in(site, TENANTS_SIDE, **invited))[0] == 400
    assert (await sign_in(site, TENANTS_SIDE, **invited, password="wrong"))[0] == 401
    status, me = await sign_in(site, TENANTS_SIDE, **invited, password=PASSWORD)
    assert (status, me["email"], me["role"]) == (200, "otto@example.com", "viewer"), me
    for side, role in ((TENANTS_SIDE, "viewer"), (OPERATORS_SIDE, "operator")):
        assert (await sign_in(site, side, **shown))[1]["role"] == role


async def test_who_is_signed_in_opens_an_invitation_of_another_tenant(site: ApiSite) -> None:
    """A person may be a member of several; without their session, a link is no proof of an address."""
    ann = await site.signed_in()
    tenant, other = await created(ann), await created(ann, "other")
    mia = await site.browser(TENANTS_SIDE)
    for chain, signs_in in ((tenant, mia), (other, mia)):
        _, code = await invitations.invite(site.database, chain, "mia@example.com", Role.VIEWER)
        if chain == other:
            status, told = await sign_in(site, TENANTS_SIDE, by="invitation", code=code, name="Mia")
            assert (status, "sign in with it" in told["detail"]) == (400, True)
        reply = await signs_in.post("/api/sign-in", json={"by": "invitation", "code": code, "name": "Mia"})
        assert (reply.status_code, reply.json().get("tenant")) == (200, chain), reply.text
