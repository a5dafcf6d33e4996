"""The overview over HTTP: staff polls it, members never see it."""

from billing.api import create_tenant
from core.operations import Role
from engine.api import PoolQueue
from tests.admin.api.conftest import ApiSite


async def test_staff_polls_it_and_the_document_describes_it(site: ApiSite) -> None:
    """Each answer is of now."""
    ann = await site.signed_in()
    assert (await ann.get("/api/overview")).json()["verdict"]["text"] == "No worker runs."
    queue = PoolQueue(site.redis, site.settings.pool, site.settings)
    await queue.register("w1", "fp", {"kv_tokens": 1_000, "slots": 4})
    seen = (await ann.get("/api/overview")).json()
    assert (seen["verdict"]["state"], seen["verdict"]["text"]) == ("well", "All well.")
    assert seen["verdict"]["detail"].startswith(
        "0 requests run on 1 worker in 1 pool. No interactive request waits."
    )
    assert seen["pools"][0]["workers"][0]["worker"] == "w1"
    assert [each["class"] for each in seen["waiting"]] == ["interactive", "standard", "bulk"]
    schemas = (await ann.get("/openapi.json")).json()["components"]["schemas"]
    assert set(schemas["Overview"]["properties"]) == set(seen)


async def test_members_have_no_such_page(site: ApiSite) -> None:
    """On their console there is no such route."""
    tenant = (await create_tenant(site.database, "acme")).tenant_id
    mia = await site.signed_in(Role.ADMIN, tenant, "Mia")
    assert (await mia.get("/api/overview")).status_code == 404
