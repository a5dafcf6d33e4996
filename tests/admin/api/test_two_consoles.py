"""Two consoles over one installation, behind a round robin: whichever answers, the answer is the same."""

from collections.abc import AsyncIterator

import httpx
import pytest

from admin.api.callers import OPERATORS_SIDE, TENANTS_SIDE
from admin.api.changes import ChangesRoute
from admin.api.server import ApiServer
from admin.console import Console
from billing.api import OperationActor, Stores
from core.actor import Author
from core.operations import Role
from server.api import CallRates
from tests.admin.api.conftest import ORIGIN, ApiSite, RoundRobin, first_events
from tests.support.staff import open_link, staff_code


@pytest.fixture
async def ann(site: ApiSite) -> AsyncIterator[httpx.AsyncClient]:
    """The owner's browser. Each call of it goes to the other console than the one before."""
    apps = [Console(site.settings, site.redis, site.database, OPERATORS_SIDE).app() for _ in range(2)]
    async with httpx.AsyncClient(transport=RoundRobin(apps), base_url=ORIGIN) as browser:
        code = await staff_code(site.settings, site.database)
        assert (await open_link(browser, code)).status_code == 200
        yield browser


async def test_who_signed_in_at_one_reads_and_writes_at_the_other(ann: httpx.AsyncClient) -> None:
    """And is signed out at both; a link is good once, whichever took it."""
    for name in ("a", "b", "c"):
        created = await ann.post("/api/tenants", json={"name": name, "reason": "r"})
        assert created.status_code == 200, created.text
        path = f"/api/tenants/{created.json()['tenant']}"
        shown, again = [await ann.get(path) for _ in range(2)]
        assert (shown.status_code, shown.text) == (200, again.text)
        edit = {"time_zone": "Europe/Berlin", "reason": "move"}
        seen = {"if-match": shown.headers["etag"]}
        assert [(await ann.patch(path, json=edit, headers=seen)).status_code for _ in range(2)] == [200, 409]
    assert (await ann.post("/api/sign-out")).status_code == 200
    assert [(await ann.get("/api/me")).status_code for _ in range(2)] == [401, 401]


async def test_a_list_goes_on_at_the_other(ann: httpx.AsyncClient) -> None:
    """By the cursor that the first one gave."""
    for name in ("a", "b", "c"):
        await ann.post("/api/tenants", json={"name": name, "reason": "r"})
    names, after = [], ""
    while after is not None:
        page = (await ann.get("/api/tenants", params={"limit": 1, "after": after})).json()
        names += [each["name"] for each in page["items"]]
        after = page["next"]
    assert names == ["a", "b", "c"]


async def test_a_call_that_is_repeated_at_the_other_is_done_once(ann: httpx.AsyncClient) -> None:
    """Both give the first one's answer."""
    replies = [
        await ann.post(
            "/api/tenants", json={"name": "acme", "reason": "r"}, headers={"idempotency-key": "k1"}
        )
        for _ in range(4)
    ]
    assert {(each.status_code, each.text) for each in replies} == {(200, replies[0].text)}
    assert ["idempotency-replayed" in each.headers for each in replies] == [False, True, True, True]
    assert len((await ann.get("/api/tenants")).json()["items"]) == 1


async def test_a_stream_goes_on_at_the_other(site: ApiSite, ann: httpx.AsyncClient) -> None:
    """Behind the last event that the first one sent, whichever console made the changes."""
    for name in ("a", "b", "c", "d"):
        await ann.post("/api/tenants", json={"name": name, "reason": "r"})
    staff = OperationActor(Author("Ann", "api"), Role.OWNER)
    first, other = _changes(site), _changes(site)
    seen = await first_events(first, staff, "0-0", 2)
    seen += await first_events(other, staff, seen[-1]["id"], 2)
    assert [each["tenant"] for each in seen] == [each["target"] for each in seen]
    assert len({each["id"] for each in seen}) == 4


async def test_every_route_is_at_both(site: ApiSite) -> None:
    """What one serves, the other does: the documents are one, of either side."""
    for side in (OPERATORS_SIDE, TENANTS_SIDE):
        one, two = [(await (await site.browser(side)).get("/openapi.json")).content for _ in range(2)]
        assert one == two


def _changes(site: ApiSite) -> ChangesRoute:
    stores = Stores(site.settings, site.database, lambda: site.redis)
    return ApiServer(stores, OPERATORS_SIDE, "127.0.0.1", CallRates(site.settings)).changes
