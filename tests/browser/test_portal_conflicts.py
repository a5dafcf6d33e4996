"""Two members who edit one thing at once, in a browser: the second is told who changed it, when, and from
what to what; keeps what was typed, and can take what stands now in its place."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from playwright.async_api import Locator, expect

from billing.limits import Dimension, Scope
from billing.operations import budgets, keys, limits, people
from billing.operations.budgets import SetBudget
from billing.operations.keys import EditKey, ListKeys
from billing.operations.limits import EditLimit, ListLimits, SetLimit
from billing.operations.people import SetRole
from billing.people.persons import create_member
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from core.actor import Author
from core.operations import MoneyAmount, Role
from engine.operations import safety
from engine.operations.safety import SetPolicy
from engine.safety.documents import PolicyDetector, PolicyDocument
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.browser.portal_sample import WHY, WIDE, PortalOfAcme
from tests.browser.portal_sample import acme as acme  # the fixture

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

USD = 1_000_000_000
Perform = Callable[[Any, msgspec.Struct], Awaitable[Any]]


@dataclass(frozen=True)
class Meeting:
    """A dialog in which something was typed, and what another member does meanwhile."""

    page: str
    opens: tuple[str, ...]  # buttons, one after the other
    types: Callable[[Locator], Awaitable[object]]
    meanwhile: Callable[[Perform, PortalOfAcme], Awaitable[object]]
    told: tuple[str, str]  # what Ben changed, and from what to what
    take: str
    taken: Callable[[Locator], Awaitable[object]]


async def month_of(perform: Perform, dollars: int) -> None:
    """The tenant's own budget of the month."""
    await perform(budgets.set_budget, SetBudget(tenant="acme", limit=MoneyAmount.of(dollars * USD)))


async def limit_of(perform: Perform, acme: PortalOfAcme) -> None:
    """Another amount for the tenant's limit."""
    (limit,) = (await answer_of(limits.list_limits, acme.stores, BEN_LIKE, ListLimits(tenant="acme"))).items
    await perform(limits.edit_limit, EditLimit(tenant="acme", limit_id=limit.limit_id, limit=900))


async def renamed(perform: Perform, acme: PortalOfAcme) -> None:
    """Another name for the key that lies idle."""
    listed = (await answer_of(keys.list_keys, acme.stores, BEN_LIKE, ListKeys(tenant="acme"))).items
    idle = next(each for each in listed if each.name == "idle")
    await perform(keys.edit_key, EditKey(tenant="acme", key=idle.key, name="crawler"))


async def demoted(perform: Perform, acme: PortalOfAcme) -> None:
    """Another role for Eve."""
    await perform(people.set_role, SetRole(tenant="acme", person="Eve", role=Role.BILLING))


async def ruled(perform: Perform, acme: PortalOfAcme) -> None:
    """Rules of the tenant's."""
    document = PolicyDocument((PolicyDetector("card", "block"),))
    await perform(safety.set_policy, SetPolicy(tenant="acme", document=document))


async def new_word(dialog: Locator) -> None:
    """A list of words."""
    await dialog.get_by_role("button", name="Add words").click()
    await dialog.get_by_label("Words, called").fill("rivals")
    await dialog.get_by_label("Words of rivals").fill("initech")
    await dialog.get_by_label("In prompts of rivals").select_option("flag")


BEN_LIKE = OperationActor(Author("Ann", "command"), Role.OWNER)
MEETINGS = {
    "budget": Meeting(
        "limits",
        ("Edit Whole tenant, month",),
        lambda dialog: dialog.get_by_label("Budget, USD").fill("7000"),
        lambda perform, _: month_of(perform, 6500),
        ("this budget", "from 6,000.00 to 6,500.00"),
        "Take 6,500.00",
        lambda dialog: expect(dialog.get_by_label("Budget, USD")).to_have_value("6500.00"),
    ),
    "limit": Meeting(
        "limits",
        ("Edit Requests per minute",),
        lambda dialog: dialog.get_by_label("Limit", exact=True).fill("1500"),
        limit_of,
        ("this limit", "from 1,200 to 900"),
        "Take 900",
        lambda dialog: expect(dialog.get_by_label("Limit", exact=True)).to_have_value("900"),
    ),
    "key": Meeting(
        "keys",
        ("More for idle", "Edit…"),
        lambda dialog: dialog.get_by_label("Name").fill("indexer"),
        renamed,
        ("this key", "name idle → crawler"),
        "Take what stands now",
        lambda dialog: expect(dialog.get_by_label("Name")).to_have_value("crawler"),
    ),
    "role": Meeting(
        "members",
        ("Change the role of Eve",),
        lambda dialog: dialog.get_by_label("Role").select_option("Admin"),
        demoted,
        ("this role", "from Viewer to Finance"),
        "Take Finance",
        lambda dialog: expect(dialog.get_by_label("Role")).to_have_value("billing"),
    ),
    "rules": Meeting(
        "safety",
        ("Edit your rules…",),
        new_word,
        ruled,
        ("these rules", "from no rules to version 1"),
        "Take version 1",
        lambda dialog: expect(dialog.get_by_label("In answers of card")).to_have_value("block"),
    ),
}


@pytest.mark.parametrize("what", MEETINGS)
async def test_the_second_is_told_and_may_take_what_the_first_set(
    open_page: OpenPage, acme: PortalOfAcme, what: str
):
    """By name, though the audit log has ids of members."""
    stores, meeting = acme.stores, MEETINGS[what]
    ben = await create_member(stores.db, acme.tenant, "Ben", Role.ADMIN)
    await create_member(stores.db, acme.tenant, "Eve", Role.VIEWER)
    actor = OperationActor(Author(ben.person.id, "api"), Role.ADMIN, tenant=acme.tenant)

    async def perform(run: Any, ask: msgspec.Struct) -> Any:
        return await answer_of(run, stores, actor, ask, WHY)

    await month_of(perform, 6000)
    await perform(
        limits.set_limit,
        SetLimit(tenant="acme", scope=Scope.TENANT, dimension=Dimension.REQUESTS, limit=1200),
    )
    watched = await acme.opened(open_page, meeting.page, viewport=WIDE)
    page = watched.page
    for each in meeting.opens:
        await page.get_by_role("button", name=each).or_(page.get_by_role("menuitem", name=each)).click()
    dialog = page.get_by_role("dialog")
    await meeting.types(dialog)
    await dialog.get_by_label("Reason").fill("launch week")
    await meeting.meanwhile(perform, acme)
    await dialog.locator("button[type=submit]").click()
    told = dialog.get_by_role("alert").filter(has_text="Not saved")
    await expect(told).to_contain_text(f"Not saved: Ben changed {meeting.told[0]}")
    await expect(told).to_contain_text(f"ago, {meeting.told[1]}. What you typed is kept.")
    await expect(dialog.get_by_role("button", name="Save over it")).to_be_visible()
    await shot(page, f"portal-conflict-{what}")
    assert await watched.axe() == []
    await told.get_by_role("button", name=meeting.take).click()
    await meeting.taken(dialog)
    await expect(told).to_have_count(0)
    watched.errors.remove(next(each for each in watched.errors if "409" in each))
    assert (watched.errors, watched.strangers) == ([], [])
