"""Sign-ins that nobody types by mistake: each is refused as a wrong one, never a fault of ours."""

from typing import Any

import pytest

from admin.api.callers import OPERATORS_SIDE, TENANTS_SIDE, ApiSide
from billing.people.own_account import set_password
from billing.people.passwords import Passwords
from billing.people.persons import create_member
from billing.tables.tenants import PLATFORM
from core.operations import Role
from tests.admin.api.conftest import ApiSite

PASSWORD = "correct horse battery"
OTTO = {"by": "password", "email": "otto@example.com", "password": PASSWORD}
ODD: dict[str, dict[str, Any]] = {
    "an address with a NUL": {**OTTO, "email": "a\0b@example.com"},
    "a password with a NUL": {**OTTO, "password": "a\0b"},
    "a tenant with a NUL": {**OTTO, "tenant": "a\0"},
    "a code of other digits": {**OTTO, "totp": "\uff11\uff12\uff13\uff14\uff15\uff16"},
    "a code with a NUL": {**OTTO, "totp": "\0"},
    "a link with a NUL": {"by": "link", "code": "a\0.b"},
    "a link of other letters": {"by": "link", "code": "\u00e9.\u00e9"},
    "an invitation with a NUL": {"by": "invitation", "code": "a\0", "name": "\0"},
    "an address that is long": {**OTTO, "email": "\u0130" * 1000},
}


@pytest.mark.parametrize("side", [OPERATORS_SIDE, TENANTS_SIDE], ids=lambda side: side.name)
async def test_an_odd_sign_in_is_a_wrong_one(site: ApiSite, side: ApiSide) -> None:
    """At either console, also behind a right password."""
    made = await create_member(site.database, PLATFORM, "Otto", Role.OPERATOR, "otto@example.com")
    await set_password(site.database, made.person.id, await Passwords().hash(PASSWORD))
    browser = await site.browser(side)
    for what, asked in ODD.items():
        reply = await browser.post("/api/sign-in", json=asked)
        assert reply.status_code in (400, 401, 403), (what, reply.text)
