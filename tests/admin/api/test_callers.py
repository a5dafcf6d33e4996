"""Who is asked for a second factor, and what is left of a session."""

import pytest

from core.configuration.settings import Settings
from tests.admin.api.conftest import ApiSite
from tests.support.staff import open_link, staff_code

PROXIED = {
    "a name of its own": {"host": "console.example.org"},
    "an address of its own": {"host": "192.0.2.7:8081"},
    "X-Forwarded-For": {"x-forwarded-for": "203.0.113.9"},
    "X-Forwarded-Proto": {"x-forwarded-proto": "https"},
    "Forwarded": {"forwarded": "for=203.0.113.9"},
}


@pytest.mark.parametrize("headers", PROXIED.values(), ids=PROXIED.keys())
async def test_behind_a_proxy_a_loopback_console_asks_for_the_second_factor(
    site: ApiSite, headers: dict[str, str]
) -> None:
    """It listens on this machine alone, and everybody reaches it: who calls from here is not asked."""
    ann, ask = await site.signed_in(), {"name": "acme", "reason": "r"}
    assert (await ann.get("/api/me", headers=headers)).json()["second_factor"] == "needed"
    assert (await ann.post("/api/tenants", json=ask, headers=headers)).json()["field"] == "totp"
    assert (await ann.get("/api/me")).json()["second_factor"] == "shown"
    assert (await ann.post("/api/tenants", json=ask)).status_code == 200


async def test_who_signs_in_anew_leaves_no_session_behind(site: ApiSite, settings: Settings) -> None:
    """The browser forgets the one before, so it ends; a sign-in that fails ends none."""
    ann = await site.signed_in()
    before = ann.cookies["parley_staff"]
    assert (await open_link(ann, "nonsense")).status_code == 401
    assert (await ann.get("/api/me")).status_code == 200
    assert (await open_link(ann, await staff_code(settings, site.database, "Olga"))).status_code == 200
    assert (await ann.get("/api/me")).json()["name"] == "Olga"
    ann.cookies.clear()
    assert (await ann.get("/api/me", headers={"cookie": f"parley_staff={before}"})).status_code == 401
