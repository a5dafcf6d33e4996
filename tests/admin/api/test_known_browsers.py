"""A browser in which somebody signed in before is known, over HTTP too."""

import pytest

from admin.api.callers import KNOWN_COOKIE
from billing.people import own_account, tries
from billing.people.passwords import Passwords
from billing.people.persons import create_member
from billing.tables.tenants import PLATFORM
from tests.admin.api.conftest import ApiSite

GOOD = {"by": "password", "email": "ann@example.test", "password": "correct horse battery"}


async def test_a_strangers_tries_do_not_keep_a_known_browser_out(
    site: ApiSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even from the same address; its cookie outlives signing out, and opens nothing by itself."""
    monkeypatch.setattr(tries, "TRIES_MAX", 2)
    member = await create_member(site.database, PLATFORM, "Ann", "owner", GOOD["email"])
    await own_account.set_password(site.database, member.person.id, await Passwords().hash(GOOD["password"]))
    ann, stranger = await site.browser(), await site.browser()
    reply = await ann.post("/api/sign-in", json=GOOD)
    ann.headers["x-parley-csrf"] = reply.json()["csrf"]
    (cookie,) = [each for each in reply.headers.get_list("set-cookie") if each.startswith(KNOWN_COOKIE)]
    assert {"HttpOnly", "SameSite=strict"} <= {each.strip() for each in cookie.split(";")}
    assert (await ann.post("/api/sign-out")).status_code == 200
    assert (await ann.get("/api/me")).status_code == 401
    guesses = [await stranger.post("/api/sign-in", json={**GOOD, "password": "no"}) for _ in range(3)]
    assert [each.status_code for each in guesses] == [401, 401, 429]
    refused = await stranger.post("/api/sign-in", json=GOOD)
    assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
    assert (await ann.post("/api/sign-in", json=GOOD)).status_code == 200
