"""The API as its callers see it: signing in, reading, changing, edits of one version, repeated calls."""

import asyncio
from dataclasses import replace

import httpx
from starlette.routing import Route

from admin.api.callers import OPERATORS_SIDE, TENANTS_SIDE
from admin.api.server import ApiServer
from billing.api import OperationActor, Stores
from billing.audit.log import list_rows
from core.actor import Author
from core.operations import Role
from server.api import CallRates
from tests.admin.api.conftest import ApiSite, created, first_events

AT_ONCE = 8


async def test_nobody_reads_before_they_sign_in(site: ApiSite) -> None:
    """A stranger gets the document of the API, and else what to do."""
    stranger = await site.browser()
    for method, path in (("GET", "/api/me"), ("GET", "/api/tenants"), ("POST", "/api/tenants")):
        reply = await stranger.request(method, path)
        assert (reply.status_code, reply.headers["content-type"]) == (401, "application/problem+json")
        assert "sign in" in reply.json()["detail"]
    document = (await stranger.get("/openapi.json")).json()
    assert document["paths"]["/api/tenants"]["post"]["operationId"] == "tenants.create"
    assert "202" not in document["paths"]["/api/tenants"]["post"]["responses"]


async def test_the_document_has_every_route(site: ApiSite) -> None:
    """Of operations and of sessions: a client that is made from it can sign in."""
    for side in (OPERATORS_SIDE, TENANTS_SIDE):
        stores = Stores(site.settings, site.database, lambda: site.redis)
        routes = ApiServer(stores, side, "127.0.0.1", CallRates(site.settings)).routes()
        served = {
            (method.lower(), route.path)
            for route in routes
            if isinstance(route, Route) and not route.path.endswith(":path}")
            for method in (route.methods or set()) - {"HEAD"}
        }
        paths = (await (await site.browser(side)).get("/openapi.json")).json()["paths"]
        described = {(method, path) for path in paths for method in paths[path]}
        assert described | {("get", "/openapi.json")} == served


async def test_the_document_says_what_any_refusal_is_like(site: ApiSite) -> None:
    """A client that reads one knows that it is a problem, too large bodies and addresses among them."""
    document = (await (await site.browser()).get("/openapi.json")).json()
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert all(each["content"] == problem for each in document["components"]["responses"].values())
    refusals = {"400", "401", "403", "404", "409", "413", "414", "422", "429", "500", "503"}
    for path, methods in document["paths"].items():
        for described in methods.values():
            told = {status: each for status, each in described["responses"].items() if status > "299"}
            assert {*told} == refusals, path
            assert all(each == {"$ref": f"#/components/responses/{s}"} for s, each in told.items()), path


async def test_a_person_signs_in_changes_something_and_signs_out(site: ApiSite) -> None:
    """The audit log says who and why; the session is over at once."""
    ann = await site.signed_in()
    me = (await ann.get("/api/me")).json()
    assert (me["name"], me["role"], "tenants.create" in me["may"]) == ("Ann", "owner", True)
    tenant = await created(ann)
    (row,) = await list_rows(site.database, tenant)
    assert (row.author, row.source, "ticket 7" in row.after) == ("Ann", "api", True)
    assert (await ann.post("/api/sign-out")).status_code == 200
    assert (await ann.get("/api/me")).status_code == 401


async def test_another_pages_write_is_refused(site: ApiSite) -> None:
    """Without the session's value, with a wrong one, or from another Origin; a read is answered."""
    ann = await site.signed_in()
    good = ann.headers.pop("x-parley-csrf")
    for headers in (
        {},
        {"x-parley-csrf": good[:-1] + "_"},
        {"x-parley-csrf": good, "origin": "https://evil.example"},
    ):
        reply = await ann.post("/api/tenants", json={"name": "acme", "reason": "no"}, headers=headers)
        assert reply.status_code == 403, headers
    assert (await ann.get("/api/tenants")).json()["items"] == []


async def test_what_is_wrong_is_said_with_its_field(site: ApiSite) -> None:
    """As problem+json: a missing reason, a misspelt field, a taken name, an unknown tenant."""
    ann = await site.signed_in()
    await created(ann)
    for ask, field in (({"name": "x"}, "reason"), ({"nme": "x", "reason": "r"}, "nme")):
        reply = await ann.post("/api/tenants", json=ask)
        assert (reply.status_code, reply.json()["field"]) == (400, field)
    reply = await ann.post("/api/sign-in", json={"by": "password", "email": "ann@example.com"})
    assert (reply.status_code, reply.json()["field"]) == (400, "password")
    taken = await ann.post("/api/tenants", json={"name": "acme", "reason": "r"})
    assert (taken.status_code, "already" in taken.json()["detail"]) == (400, True)
    unknown = await ann.get("/api/tenants/nobody")
    assert (unknown.status_code, unknown.json()["see"]["path"]) == (404, "/api/tenants")


async def test_a_dry_run_changes_nothing(site: ApiSite) -> None:
    """And says that it was one; a secret that is good for nothing is not told."""
    ann = await site.signed_in()
    reply = await ann.post("/api/tenants?dry_run=true", json={"name": "acme", "reason": "r"})
    assert (reply.status_code, reply.headers["x-parley-dry-run"]) == (200, "true")
    assert (await ann.get("/api/tenants")).json()["items"] == []
    keys = f"/api/tenants/{await created(ann)}/keys"
    assert (await ann.post(f"{keys}?dry_run=true", json={"reason": "r"})).json()["secret"] is None
    assert (await ann.post(keys, json={"reason": "r"})).json()["secret"].startswith("pk_")


async def test_an_edit_names_the_version_that_it_saw(site: ApiSite) -> None:
    """Of eight edits of one version one is done; seven are told by whom, when, from what to what."""
    ann = await site.signed_in()
    tenant = await created(ann)
    seen = (await ann.get(f"/api/tenants/{tenant}")).headers["etag"]

    async def edit(number: int) -> httpx.Response:
        ask = {"time_zone": f"Etc/GMT-{number + 1}", "reason": "move"}
        return await ann.patch(f"/api/tenants/{tenant}", json=ask, headers={"if-match": seen})

    replies = await asyncio.gather(*map(edit, range(AT_ONCE)))
    assert sorted(each.status_code for each in replies) == [200] + [409] * (AT_ONCE - 1)
    refused = next(each for each in replies if each.status_code == 409).json()
    (change,) = refused["changes"]
    assert refused["field"] == "if-match"
    assert (change["author"], change["action"], change["before"]) == (
        "Ann",
        "tenant.set",
        {"time_zone": "UTC"},
    )
    done = next(each for each in replies if each.status_code == 200)
    after = await ann.get(f"/api/tenants/{tenant}")
    assert done.headers["etag"] == after.headers["etag"] != seen
    assert done.json() == {name: value for name, value in after.json().items() if name != "money"}


async def test_calls_at_once_under_one_key_are_one_change(site: ApiSite) -> None:
    """Eight get the same answer, and the log has one row; another call under the key is refused."""
    ann = await site.signed_in()
    key = {"idempotency-key": "k1"}

    async def create() -> httpx.Response:
        return await ann.post("/api/tenants", json={"name": "acme", "reason": "r"}, headers=key)

    replies = await asyncio.gather(*(create() for _ in range(AT_ONCE)))
    assert {each.status_code for each in replies} == {200}
    assert len({each.text for each in replies}) == 1
    assert sum("idempotency-replayed" in each.headers for each in replies) == AT_ONCE - 1
    other = await ann.post("/api/tenants", json={"name": "other", "reason": "r"}, headers=key)
    assert (other.status_code, other.json()["field"]) == (422, "idempotency-key")


async def test_a_secret_is_null_in_a_repeated_answer(site: ApiSite) -> None:
    """As the document says."""
    ann = await site.signed_in()
    ask, key = {"name": "ci", "role": "operator", "reason": "r"}, {"idempotency-key": "k1"}
    secrets = [(await ann.post("/api/tokens", json=ask, headers=key)).json()["secret"] for _ in range(2)]
    assert (secrets[0][:3], secrets[1]) == ("pt_", None)
    schemas = (await ann.get("/openapi.json")).json()["components"]["schemas"]
    assert schemas["NewToken"]["properties"]["secret"]["type"] == ["string", "null"]


async def test_a_list_is_read_in_pages(site: ApiSite) -> None:
    """By the cursor of the page before; a limit that is none is refused."""
    ann = await site.signed_in()
    for number in range(3):
        await created(ann, f"t{number}")
    first = (await ann.get("/api/tenants?limit=2")).json()
    second = (await ann.get("/api/tenants", params={"limit": 2, "after": first["next"]})).json()
    assert [each["name"] for each in first["items"] + second["items"]] == ["t0", "t1", "t2"]
    assert second["next"] is None
    assert (await ann.get("/api/tenants?limit=0")).json()["field"] == "limit"


async def test_each_side_is_for_its_own(site: ApiSite) -> None:
    """A member of a tenant has the tenants' side and their tenant; staff has the other, and cookies are not
    shared."""
    ann = await site.signed_in()
    tenant, other = await created(ann), await created(ann, "other")
    mia = await site.signed_in(Role.VIEWER, tenant, "Mia")
    assert [each["tenant"] for each in (await mia.get("/api/tenants")).json()["items"]] == [tenant]
    assert (await mia.get(f"/api/tenants/{other}")).status_code == 404
    assert (await mia.post("/api/tenants", json={"name": "x", "reason": "r"})).status_code in (404, 405)
    stranger = await site.browser(TENANTS_SIDE)
    stranger.cookies = ann.cookies
    assert (await stranger.get("/api/me")).status_code == 401


async def test_a_members_link_leads_to_the_portal(site: ApiSite) -> None:
    """Each side has its own pages, and not the other's."""
    stranger = await site.browser(TENANTS_SIDE)
    led = await stranger.get("/")
    assert (led.status_code, led.headers["location"]) == (307, "/portal/")
    for path in ("/console/", "/tables/"):
        assert (await stranger.get(path)).status_code == 404


async def test_changes_are_followed(site: ApiSite) -> None:
    """From an event's id on; members see their tenant's alone. A stream ends when its process does."""
    ann = await site.signed_in()
    tenant = await created(ann)
    other = await created(ann, "other")
    stores = Stores(site.settings, site.database, lambda: site.redis)
    route = ApiServer(stores, OPERATORS_SIDE, "127.0.0.1", CallRates(site.settings)).changes
    staff = OperationActor(Author("Ann", "api"), Role.OWNER)
    seen = await first_events(route, staff, "0-0", 2)
    assert [each["target"] for each in seen] == [tenant, other]
    (behind,) = await first_events(route, staff, seen[0]["id"], 1)
    assert behind == seen[1]
    (own,) = await first_events(route, replace(staff, role=Role.ADMIN, tenant=other), "0-0", 1)
    assert (own["action"], own["tenant"]) == ("tenant.create", other)
    (untold,) = await first_events(route, replace(staff, role=Role.VIEWER, tenant=other), "0-0", 1)
    assert (untold["action"], untold["author"], untold["tenant"]) == ("", "", other)
    assert (await ann.get("/api/changes", headers={"last-event-id": "x"})).status_code == 400
    route.ending.set()
    assert [piece async for piece in route.events(staff, "0-0")] == [b"retry: 2000\n\n"]
