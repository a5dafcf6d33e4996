"""The portal's log of requests: what runs, ended and was refused, by filters in the address."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from billing.api import create_tenant
from billing.posting.biller import post
from billing.tables.refusals import RefusalMinute
from billing.tenants.keys import create_key
from billing.tenants.tenancy import create_project
from billing.tenants.users import create_user
from billing.usage import UsageOwner, encode
from core.clock import now_ms
from core.configuration.settings import Settings
from core.operations import Role
from core.redis.client import connect
from core.sql.database import Database
from engine.api import PoolQueue
from tests.billing.events import an_event
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.console_page import shot
from tests.engine.builders import request
from tests.support.staff import staff_code

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WIDE = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}}


class LoggedTenant:
    """Ids of the tenant acme: one request that runs, one that ended, one that failed, a minute of refusals;
    beside it another tenant with as much."""

    tenant = project = ""


@pytest_asyncio.fixture(loop_scope="session")
async def acme(settings: Settings, sqlite: Database) -> AsyncGenerator[LoggedTenant]:
    """Both tenants, in the books and in Redis."""
    found = LoggedTenant()
    for name in ("other", "acme"):
        found.tenant = tenant = (await create_tenant(sqlite, name)).tenant_id
        found.project = project = (await create_project(sqlite, tenant, "lab")).id
        key = (await create_key(sqlite, tenant, project, name="lab evals"))[0].id
        ann = await create_user(sqlite, tenant, f"ann@{name}")
        owner, now = UsageOwner(project, key, ann.id), now_ms()
        times: dict[str, Any] = {"owner": owner, "accepted_ms": now - 2_000, "ended_ms": now}
        failed = times | {"reason": "error", "code": "engine_lost", "model": "qwen3"}
        failed |= {"owner": UsageOwner("p-else", key, "")}
        events = [an_event(f"{name}-well", tenant, **times), an_event(f"{name}-failed", tenant, **failed)]
        await post(sqlite, "default", [encode(each) for each in events])
        async with sqlite.transaction() as session:
            facts: dict[str, Any] = {"minute_ms": now - now % 60_000, "key_id": key, "user_id": ann.id}
            facts |= {"code": "rate_limited", "number": 214, "why": "key requests_per_minute"}
            session.add(RefusalMinute(tenant_id=tenant, last_ids=[], **facts))
    yield found


async def run_one(settings: Settings, tenant: str) -> str:
    """A request of the tenant that waits; its id."""
    waiting = request(tenant=tenant, accepted_ms=now_ms(), deadline_ms=now_ms() + 600_000)
    redis = connect(settings)
    await PoolQueue(redis, settings.pool, settings).enqueue(waiting)
    await redis.aclose()
    return waiting.id


async def opened(
    open_page: OpenPage,
    portal: str,
    settings: Settings,
    db: Database,
    acme: LoggedTenant,
    path: str,
    **options: Any,
) -> WatchedPage:
    """The log as a viewer of acme sees it."""
    code = await staff_code(settings, db, "Vi", Role.DEVELOPER, acme.tenant)
    watched = await open_page(f"{portal}/healthz", own=True, **options)
    await watched.page.goto(f"{portal}/portal/{path}#p={code}")
    await expect(watched.page.get_by_role("heading", level=1)).to_have_text("Requests")
    return watched


def rows(page: Page) -> Any:
    """The rows of the list below its head."""
    return page.get_by_role("table").get_by_role("row").filter(has=page.get_by_role("cell"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_member_sees_what_runs_ended_and_was_refused_of_their_own_tenant(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: LoggedTenant, scheme: str
):
    """With projects, keys and users by name, each a link to its page; nothing of another tenant; axe finds
    nothing."""
    id = await run_one(settings, acme.tenant)
    watched = await opened(open_page, portal, settings, sqlite, acme, "requests", color_scheme=scheme, **WIDE)
    page = watched.page
    await expect(rows(page)).to_have_count(3)
    await expect(rows(page).filter(has_text="waiting").get_by_title(id)).to_have_attribute(
        "href", f"/portal/requests/{id}"
    )
    well = rows(page).filter(has=page.get_by_role("link", name="acme-well"))
    for words in ("ended", "lab", "lab evals", "ann@acme", "smollm2", "0.000003700"):
        await expect(well).to_contain_text(words)
    await expect(page.get_by_text("3 requests, 1 failed")).to_be_visible()
    await expect(page.get_by_text("other")).to_have_count(0)
    await expect(page.get_by_label("Tenant")).to_have_count(0)
    await shot(page, f"portal-requests-{scheme}")
    assert await watched.axe() == []
    await page.get_by_text("Refused", exact=True).click()
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("requests per minute of the key")
    await expect(rows(page)).to_contain_text("214")
    assert await watched.axe() == []
    assert (watched.errors, watched.strangers) == ([], [])


async def test_filters_are_in_the_address(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: LoggedTenant
):
    """A chosen project and a typed user narrow the list and can be sent; back works; what is unknown is said
    at its field, and what was typed stays."""
    watched = await opened(open_page, portal, settings, sqlite, acme, "requests?state=ended", **WIDE)
    page = watched.page
    await expect(rows(page)).to_have_count(2)
    await page.get_by_label("Project").select_option("lab")
    await expect(rows(page)).to_have_count(1)
    await expect(page).to_have_url(f"{portal}/portal/requests?project={acme.project}&state=ended")
    await page.go_back()
    await expect(rows(page)).to_have_count(2)
    await page.get_by_label("Outcome").select_option("error")
    await expect(rows(page)).to_contain_text("engine_lost")
    await page.get_by_role("textbox", name="User").fill("nobody")
    await page.get_by_role("textbox", name="User").press("Enter")
    await expect(page.get_by_text("There is no user 'nobody'")).to_be_visible()
    await expect(page.get_by_role("textbox", name="User")).to_have_value("nobody")
    await page.goto(f"{portal}/portal/requests?model=none&state=ended")
    await page.get_by_role("button", name="Clear filters").click()
    await expect(rows(page)).to_have_count(2)


async def test_what_runs_comes_and_goes_by_itself(
    open_page: OpenPage, portal: str, settings: Settings, sqlite: Database, acme: LoggedTenant
):
    """The live list is empty, then has the request that came meanwhile, on a phone too, with its time."""
    watched = await opened(open_page, portal, settings, sqlite, acme, "requests?state=live", **PHONE)
    page = watched.page
    await expect(page.get_by_role("heading", name="No request runs now")).to_be_visible()
    id = await run_one(settings, acme.tenant)
    await expect(rows(page).get_by_title(id)).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await expect(rows(page).locator(".phone-line time")).to_be_visible()
    await shot(page, "portal-requests-390")
    assert await watched.axe() == []
