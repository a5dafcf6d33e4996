"""A tenant's own safety rules, edited on its page in the console."""

import pytest
from playwright.async_api import expect

from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from engine.operations import safety
from engine.operations.safety import SetPolicy, ShowPolicy
from engine.safety.documents import PolicyDetector, PolicyDocument
from tests.billing.operations.acting import OWNER
from tests.browser.conftest import OpenPage
from tests.browser.console_page import shot
from tests.browser.tenants_sample import WIDE, in_dialog, opened
from tests.browser.tenants_sample import console as console  # the fixture

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

BLOCKS_CARDS = PolicyDocument(detectors=(PolicyDetector("card", "block", scope="tenant"),))


async def test_rules_are_added_with_a_preview_and_over_somebody_else_only_knowingly(
    open_page: OpenPage, console: tuple[str, Stores]
):
    """What lacks is said beside the rule, a pattern that is none by the server; what would change before it
    is saved. Another's version in between is told, what was typed stays."""
    watched = await opened(open_page, console, "/tenants/acme", viewport=WIDE)
    page, stores = watched.page, console[1]
    dialog = await in_dialog(page, "Edit rules…", "Safety rules of acme")
    await dialog.get_by_role("button", name="Add pattern").click()
    await dialog.get_by_label("Pattern, called").fill("ticket")
    await expect(dialog.get_by_text("Say which pattern.")).to_be_visible()
    await dialog.get_by_label("Pattern of ticket").fill("ACME-[0-9")
    await dialog.get_by_label("In answers of ticket").select_option("redact")
    await expect(dialog.get_by_role("alert")).to_contain_text("ticket")
    await dialog.get_by_label("Pattern of ticket").fill("ACME-[0-9]{6}")
    await expect(dialog.get_by_label("What changes")).to_contain_text('"pattern": "ACME-[0-9]{6}"')
    await dialog.get_by_role("button", name="Add words").click()
    await dialog.get_by_label("Words, called").fill("rivals")
    await dialog.get_by_label("Words of rivals").fill("initech\nhooli")
    await dialog.get_by_label("In prompts of rivals").select_option("flag")
    await expect(dialog.get_by_label("What changes")).to_contain_text("hooli")
    await shot(page, "policy")
    assert await watched.axe() == []

    faster = SetPolicy(tenant="acme", document=BLOCKS_CARDS, base=0)
    await answer_of(safety.set_policy, stores, OWNER, faster, Terms(reason="a leak"))
    await dialog.get_by_label("Reason").fill("their tickets")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Not saved: Ann changed these rules")
    await expect(dialog.get_by_label("Words of rivals")).to_have_value("initech\nhooli")
    await expect(
        dialog.get_by_text("card is no longer looked for").or_(dialog.get_by_text("card in answers"))
    ).to_be_visible()
    await shot(page, "policy-conflict")
    assert await watched.axe() == []
    await dialog.get_by_role("button", name="Save over it").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_role("region", name="Safety")).to_contain_text("rivals")
    held = await answer_of(safety.show_policy, stores, OWNER, ShowPolicy(tenant="acme"))
    assert (held.base, sorted(held.document)) == (2, ["patterns", "words"])

    dialog = await in_dialog(page, "Edit rules…", "Safety rules of acme")
    await dialog.get_by_role("button", name="Remove rivals").click()
    await expect(dialog.get_by_text("Less is looked for.")).to_be_visible()
    await shot(page, "policy-less")
    await page.keyboard.press("Escape")
    assert watched.strangers == []
