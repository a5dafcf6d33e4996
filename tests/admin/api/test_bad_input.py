"""What ends while it is under way, over the API: a typed answer with what to do, and nothing half done."""

from typing import Any

import httpx
import pytest

from billing.unit_of_work import perform
from core.operations import Role
from tests.admin.api.conftest import ApiSite

WHY = {"reason": "r"}


async def person_of(browser: httpx.AsyncClient, name: str) -> str:
    """The id of a member of the staff."""
    people = (await browser.get("/api/people")).json()["items"]
    return next(each["person"] for each in people if each["name"] == name)


@pytest.mark.parametrize(
    "end", [("POST", "/close", WHY), ("PATCH", "", {"role": "support", **WHY})], ids=["closed", "demoted"]
)
async def test_who_ends_in_mid_write_has_written_nothing(
    site: ApiSite, monkeypatch: pytest.MonkeyPatch, end: tuple[str, str, dict[str, str]]
) -> None:
    """Closed or demoted once the caller is known and before the commit: 401, and no tenant."""
    ann, bob = await site.signed_in(), await site.signed_in(Role.OPERATOR, name="Bob")
    method, path, ask = end
    bobs = f"/api/people/{await person_of(ann, 'Bob')}{path}"
    ended: list[int] = []
    run = perform._change

    async def first_end(stores: Any, who: Any, *facts: Any) -> Any:
        if who.author.name == "Bob" and not ended:
            ended.append((await ann.request(method, bobs, json=ask)).status_code)
        return await run(stores, who, *facts)

    monkeypatch.setattr(perform, "_change", first_end)
    reply = await bob.post("/api/tenants", json={"name": "acme", **WHY})
    assert (ended, reply.status_code) == ([200], 401), reply.text
    assert "sign in again" in reply.json()["detail"]
    assert (await ann.get("/api/tenants")).json()["items"] == []


async def test_the_last_owner_stays(site: ApiSite) -> None:
    """Neither closed nor demoted, by themselves; the answer says why."""
    ann = await site.signed_in()
    own = f"/api/people/{await person_of(ann, 'Ann')}"
    closed = await ann.post(f"{own}/close", json=WHY)
    demoted = await ann.patch(own, json={"role": "support", **WHY})
    assert [closed.status_code, demoted.status_code] == [400, 400], (closed.text, demoted.text)
    assert (await ann.get("/api/me")).json()["role"] == "owner"


async def test_an_invitation_is_good_once(site: ApiSite) -> None:
    """The second who shows it is told so, and is nobody."""
    ann = await site.signed_in()
    made = await ann.post("/api/invitations", json={"email": "b@example.test", "role": "support", **WHY})
    code = made.json()["link"].rpartition("=")[2]
    first, second = await site.browser(), await site.browser()
    ask = {"by": "invitation", "code": code, "name": "Bob"}
    assert (await first.post("/api/sign-in", json=ask)).status_code == 200
    refused = await second.post("/api/sign-in", json={**ask, "name": "Eve"})
    assert refused.status_code in (400, 401), refused.text
    assert (await second.get("/api/me")).status_code == 401
    names = {each["name"] for each in (await ann.get("/api/people")).json()["items"]}
    assert names == {"Ann", "Bob"}


async def test_a_token_of_who_was_closed_ends_with_them(site: ApiSite) -> None:
    """At once, for reads and writes."""
    ann, eve = await site.signed_in(), await site.signed_in(name="Eve")
    made = await eve.post("/api/tokens", json={"name": "ci", "role": "operator", **WHY})
    script = await site.browser()
    script.headers["authorization"] = f"Bearer {made.json()['secret']}"
    assert (await script.get("/api/tenants")).status_code == 200
    assert (await ann.post(f"/api/people/{await person_of(ann, 'Eve')}/close", json=WHY)).status_code == 200
    written = await script.post("/api/tenants", json={"name": "acme", **WHY})
    assert [(await script.get("/api/tenants")).status_code, written.status_code] == [401, 401]
    assert (await ann.get("/api/tenants")).json()["items"] == []
