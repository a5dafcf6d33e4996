"""Marks that the chat page sets round placeholders for its Markdown parser: none is left, none is forged, and
no link is made of an address that has one."""

import random
import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.flagged_answers import chips, flags_of, history
from tests.browser.markdown_samples import PIECES
from tests.support.scripted_peer import Frame, Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DOCUMENTS = 300
LINKS = {
    "[pay](https://x.example/?k=[API_KEY_1]) now": "[pay](https://x.example/?k=API key 1) now",
    "[write](mailto:[EMAIL_1])": "[write](mailto:e-mail 1)",
    "![see](https://x.example/[EMAIL_1].png)": "![see](https://x.example/e-mail 1.png)",
    "at https://x.example/[EMAIL_1]/a_b_c.": "at https://x.example/e-mail 1/a_b_c.",
    "at <https://x.example/[EMAIL_1]>": "at <https://x.example/e-mail 1>",
    "at <mailto:[EMAIL_1]>": "at <mailto:e-mail 1>",
}


@pytest.mark.parametrize("text", LINKS)
async def test_a_link_whose_target_holds_one_is_plain_text(open_page: OpenPage, peer: Peer, text: str):
    """Nothing is asked of an address that was not written."""
    watched = await history(open_page, peer, text)
    await expect(watched.page.locator(".prose")).to_have_text(LINKS[text])
    await expect(watched.page.locator(".prose a")).to_have_count(0)


async def test_no_title_of_a_link_hides_one(open_page: OpenPage, peer: Peer):
    """It would not be shown."""
    watched = await history(open_page, peer, '[pay](https://x.example/ "[EMAIL_1]")')
    await expect(watched.page.locator(".prose")).to_have_text('[pay](https://x.example/ "e-mail 1")')


async def test_a_link_around_one_stays_a_link(open_page: OpenPage, peer: Peer):
    """With no button in it."""
    watched = await history(open_page, peer, "[ask [EMAIL_1] here](https://x.example/)")
    page = watched.page
    await expect(page.locator(".prose a")).to_have_text("ask e-mail 1 here")
    await expect(page.locator(".prose a")).to_have_attribute("href", "https://x.example/")
    await expect(page.locator(".prose button")).to_have_count(0)


async def test_a_model_cannot_write_a_chip(open_page: OpenPage, peer: Peer):
    """Not by its own marks, and not where a flag points at something else."""
    text = "\uee00[EMAIL_1]\uee01 and [EMAIL_2] 😀"
    wrong = [
        {"category": "card", "action": "redact", "scope": "tenant", "p": 16, "n": 9},
        {"category": "email", "action": "redact", "scope": "tenant", "p": 17, "n": 9},
        {"category": "email", "action": "redact", "scope": "tenant", "p": 900, "n": 9},
    ]
    watched = await history(open_page, peer, text, more={"flags": wrong})
    await expect(watched.page.locator(".prose")).to_have_text("[EMAIL_1] and [EMAIL_2] 😀")
    await expect(chips(watched.page)).to_have_count(0)
    await expect(watched.page.locator(".missing")).to_be_hidden()


GROW = """async (documents) => {
  const { MarkdownView, ready } = await import("/web/markdown.js");
  const { marked } = await import("/web/marks.js");
  await ready();
  const limits = { ms: Infinity, waits: false };
  return Promise.all(documents.map(async ([text, steps]) => {
    const grown = document.createElement("div");
    const view = new MarkdownView(grown, limits);
    let shown = "";
    let prefixes = true;
    for (const [points, flags] of steps) {
      const now = marked(Array.from(text).slice(0, points).join(""), flags, true);
      prefixes &&= now.startsWith(shown);
      view.push(now.slice(shown.length));
      shown = now;
    }
    const whole = marked(text, steps.at(-1)[1], false);
    prefixes &&= whole.startsWith(shown);
    view.push(whole.slice(shown.length));
    view.finish();
    await view.settled();
    const once = document.createElement("div");
    const all = new MarkdownView(once, limits);
    all.push(whole);
    all.finish();
    await all.settled();
    const links = [...once.querySelectorAll("a")].map((link) => link.href);
    return [prefixes, grown.isEqualNode(once), once.outerHTML, links];
  }));
}"""


async def test_any_cut_gives_the_same_chips_and_no_mark_is_left(blank: WatchedPage):
    """Placeholders among all that Markdown has, fed as a log does: what was shown is only ever continued, and
    no element, attribute or address holds a mark."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    documents = [document(chance) for _ in range(DOCUMENTS)]
    grown = await blank.page.evaluate(GROW, [[text, steps] for text, steps in documents])
    for (text, _), (prefixes, same, html, links) in zip(documents, grown, strict=True):
        assert prefixes, f"seed {seed}: {text!r}"
        assert same, f"seed {seed}: {text!r}"
        assert not re.search("[\uee00\uee01]|%EE%B8", html + "".join(links)), f"seed {seed}: {text!r} {html}"


def document(chance: random.Random) -> tuple[str, list[tuple[int, list[Frame]]]]:
    """A text, and how much of it and of its flags there is, step by step."""
    text, flags, steps = "", list[Frame](), list[tuple[int, list[Frame]]]()
    extra = ["[a](https://x.example/", ")", "https://x.example/", "\uee00", "\uee01", "```", "`", "|", "\n"]
    for _ in range(chance.randint(2, 30)):
        if chance.random() < 0.3:
            source = f"[{chance.choice(['EMAIL', 'API_KEY', 'CARD'])}_{chance.randint(1, 3)}]"
            [flag] = flags_of(source)
            steps.append((len(text) + len(source), list(flags)))
            flags.append(flag | {"p": len(text)})
            text += source
        else:
            text += chance.choice([*PIECES, *extra, "[EMAIL_1]x"])
        steps.append((len(text), list(flags)))
    return text, steps
