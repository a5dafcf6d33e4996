"""The streaming Markdown view: the DOM depends on the text alone, nothing runs and nothing is fetched."""

import asyncio
import random
import re
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.browser.conftest import WatchedPage
from tests.browser.markdown_pieces import shown_in_pieces
from tests.browser.markdown_samples import HOSTILE, KINDS, PIECES

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DOCUMENTS = 400
SAFE = """p a div pre code span button ul ol li blockquote table thead tbody tr th td br strong em del hr sup
    sub kbd h3 h4 h5 h6"""


@pytest.mark.parametrize("limits", [{}, {"characters": 60}, {"characters": 60, "elements": 12, "all": 20}])
@pytest.mark.parametrize("finish", [True, False])
async def test_any_chunking_gives_the_same_dom(blank: WatchedPage, finish: bool, limits: dict[str, int]):
    """One push, one character at a time, and random pieces show the same, while text grows and at the end;
    also where most blocks are too long to be formatted, or most texts have too many elements."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    texts = ["".join(chance.choices(PIECES, k=chance.randint(1, 40))) for _ in range(DOCUMENTS)]
    sizes = [100_000, 1, -9, 5]
    all_shown = await shown_in_pieces(blank, texts, sizes, finish, **limits)
    for text, shown in zip(texts, all_shown, strict=True):
        assert len(set(shown)) == 1, f"seed {seed}: {text!r} {shown}"


@pytest.mark.parametrize("text", KINDS)
async def test_each_kind_of_text_shows_as_it_should(blank: WatchedPage, text: str):
    """What people saw go wrong, and what the page does by rules of its own."""
    [[shown]] = await shown_in_pieces(blank, [text], [3])
    assert shown == KINDS[text]


async def test_a_finished_block_is_never_touched_again(blank: WatchedPage):
    """A node of a finished block stays the same node, and no change is made inside it."""
    changes = await blank.page.evaluate("""async () => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const root = document.createElement("div");
      const view = new MarkdownView(root, { waits: false });
      view.push("First **bold** paragraph.\\n\\n```js\\nlet a = 1;\\n```\\n\\n- list\\n\\nnext");
      await view.settled();
      const watched = [...root.children].slice(0, 2);
      let changes = 0;
      const seen = new MutationObserver((records) => (changes += records.length));
      for (const node of watched) seen.observe(node, { subtree: true, childList: true, characterData: true });
      view.push(" more\\n\\n# Title\\n\\nand more\\n");
      view.finish();
      await view.settled();
      const same = watched.every((node, i) => root.children[i] === node);
      return [changes + seen.takeRecords().length, same];
    }""")
    assert changes == [0, True]


async def test_pieces_that_come_within_a_frame_are_read_once(blank: WatchedPage):
    """The first is shown at once, what came meanwhile in the next frame."""
    seen = await blank.page.evaluate("""async () => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const view = new MarkdownView(document.body.appendChild(document.createElement("main")));
      let changes = 0;
      const observer = new MutationObserver((records) => (changes += records.length));
      for (let i = 0; i < 1000; i++) view.push("word ");
      const first = view.root.textContent;
      observer.observe(view.root, { subtree: true, childList: true, characterData: true });
      await view.settled();
      await new Promise(requestAnimationFrame);
      return [first, changes, view.root.textContent.length];
    }""")
    assert seen == ["word", 1, 4999]


async def test_text_goes_on_after_its_end(blank: WatchedPage):
    """An answer that was cut off at its length limit and continued is one text."""
    same = await blank.page.evaluate("""async () => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const view = () => new MarkdownView(document.createElement("div"), { waits: false });
      const [cut, whole] = [view(), view()];
      cut.push("# Title\\n\\n- one **wo");
      cut.finish();
      cut.push("rd**\\n- two [a]\\n\\n[a]: https://a.example/");
      whole.push("# Title\\n\\n- one **word**\\n- two [a]\\n\\n[a]: https://a.example/");
      for (const each of [cut, whole]) {
        each.finish();
        await each.settled();
      }
      return cut.root.isEqualNode(whole.root) && cut.root.querySelectorAll("a").length === 1;
    }""")
    assert same


async def test_a_reference_becomes_a_link_when_its_definition_comes(blank: WatchedPage):
    """Also in a block that is long finished: what stands before it there stays the same."""
    seen = await blank.page.evaluate("""async () => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const root = document.createElement("div");
      const view = new MarkdownView(root, { waits: false });
      view.push("**See** [the guide] or [b].\\n\\nNext.\\n\\n[b]: https://b.example/\\n[c]: https://c.example/\\n");
      await view.settled();
      const [first, strong] = [root.children[0], root.querySelector("strong")];
      const before = root.children[0].querySelectorAll("a").length;
      view.push("[The  Guide]: https://a.example/\\n\\nEnd\\n");
      await view.settled();
      const links = [...root.querySelectorAll("a")].map((link) => link.href);
      const same = [root.children[0] === first, root.querySelector("strong") === strong];
      return [before, links, ...same, root.textContent];
    }""")
    links = ["https://a.example/", "https://b.example/"]
    assert seen == [1, links, True, True, "See the guide or b.Next.End"]


async def test_what_was_begun_shows_as_if_it_were_closed(blank: WatchedPage):
    """While text grows, half a mark does not flash as text; a marker alone on its line is not shown yet."""
    growing = {
        "a **bo": "<p>a <strong>bo</strong></p>",
        "a **bold*": "<p>a <strong>bold</strong></p>",
        "a **bold** and *it": "<p>a <strong>bold</strong> and <em>it</em></p>",
        "see `cod": "<p>see <code>cod</code></p>",
        "see [text](https://a.ex": "<p>see text</p>",
        "text\n\n-": "<p>text</p>",
        "text\n\n##": "<p>text</p>",
        "text\n\n- [x": "<p>text</p>",
        "text\n--": "<p>text</p>",
        "text\n\n| a | b |\n|--": "<p>text</p>",
        "a<b": "<p>a</p>",
        "x<su": "<p>x</p>",
        "**x<sup>*2": "<p><strong>x<sup><em>2</em></sup></strong></p>",
        "x<sup>2</s": "<p>x<sup>2</sup></p>",
        "a &nbs": "<p>a</p>",
        "2*3": "<p>2*3</p>",
        "2 * 3": "<p>2 * 3</p>",
    }
    shown = await shown_in_pieces(blank, list(growing), [1], finish=False)
    assert [each for [each] in shown] == list(growing.values())


async def test_text_is_plain_until_the_parser_has_come(blank: WatchedPage):
    """Nobody waits for it to read."""
    held = asyncio.Event()

    async def hold(route: Route) -> None:
        await held.wait()
        await route.continue_()

    await blank.page.route("**/formatter.js", hold)
    text = await blank.page.evaluate("""async () => {
      const { MarkdownView } = await import("/web/markdown.js");
      globalThis.view = new MarkdownView(document.body.appendChild(document.createElement("main")));
      view.push("**bold** \\n\\n");
      view.push("more");
      view.finish();
      return view.root.textContent;
    }""")
    assert text == "**bold** \n\nmore"
    held.set()
    await expect(blank.page.locator("main strong")).to_have_text("bold")


async def test_a_long_or_slow_block_is_plain_text_until_its_format_is_asked_for(blank: WatchedPage):
    """Code is not: it costs little. What follows is formatted."""
    page = blank.page
    await page.evaluate("""async () => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const show = (text, limits) => {
        const view = new MarkdownView(document.body.appendChild(document.createElement("main")), limits);
        view.push(text);
        view.finish();
        return view.settled();
      };
      const table = "|a|b|\\n|-|-|\\n" + "|one|**two**|\\n".repeat(3000);
      await show(table + "\\nThen *this*.");
      await show("```\\n" + "code\\n".repeat(9000) + "```\\nThen *this*.");
      await show("**all** ".repeat(500) + "\\n\\n```\\ncode\\n```", { ms: -1 });
    }""")
    shown = page.locator("main")
    await expect(shown.locator(".passage-head")).to_have_text(
        [
            "Long passage, 43 kB, as plain textShow formatted",
            "Long passage, 5 kB, as plain textShow formatted",
        ]
    )
    await expect(shown.locator("em")).to_have_text(["this", "this"])
    await expect(shown.locator(".code")).to_have_count(2)
    await page.get_by_role("button", name="Show formatted").first.click()
    await expect(shown.locator("td strong")).to_have_count(3000)
    await expect(shown.locator(".passage")).to_have_count(1)


LONG_CHARACTERS = 300_000
LONG = [
    "|a",
    "# ",
    "[",
    ">",
    "*a_ ",
    "\\(",
    "https://a.example/b?c=d ",
    "https://a.example/b\n",
    "word ",
    "x",
    "- a\n",
]


async def test_long_text_made_to_be_slow_can_be_read(blank: WatchedPage):
    """All of it is there, whatever it is shown as."""
    texts = [part * (LONG_CHARACTERS // len(part)) + "the end" for part in LONG]
    lengths = await blank.page.evaluate(
        """async (texts) => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const lengths = [];
      for (const text of texts) {
        const root = document.createElement("div");
        const view = new MarkdownView(root);
        view.push(text);
        view.finish();
        await view.settled();
        lengths.push(root.textContent.endsWith("the end") ? root.textContent.replace(/\\s/g, "").length : 0);
      }
      return lengths;
    }""",
        texts,
    )
    for text, length in zip(texts, lengths, strict=True):
        assert length >= len(text) / 4, text[:20]


TABLE = "|a" * 80 + "|\n" + "|-" * 80 + "|\n" + "|\n" * 80
MANY = {
    "cells that nobody wrote": (TABLE + "\n") * 60,
    "columns": ("|a" * 655 + "|\n" + "|-" * 655 + "|\n" + "|\n" * 100 + "\n") * 10,
    "tables in a quote": ("> " + TABLE.strip().replace("\n", "\n> ") + "\n> \n") * 60,
    "paragraphs": "a\n\n" * 60_000,
    "lines": "a\n" * 60_000,
    "notes": "[^1]" * 30_000 + "\n\n" + ("[^1]" * 100 + "\n\n") * 400 + "[^1]: a\n",
}


async def test_no_text_makes_more_elements_than_a_page_bears(blank: WatchedPage):
    """What is beyond is plain text; the end can be read, as formatted text where that is asked for."""
    seen = await blank.page.evaluate(
        """async (texts) => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const seen = [];
      for (const text of texts) {
        const root = document.createElement("div");
        const view = new MarkdownView(root);
        view.push(text + "the end");
        view.finish();
        await view.settled();
        const whole = root.textContent.replace(/\\s/g, "").includes("theend");
        const first = [root.querySelectorAll("*").length, whole];
        for (const button of root.querySelectorAll(".show-formatted")) button.click();
        await view.settled();
        seen.push([...first, root.querySelectorAll("td, th").length]);
      }
      return seen;
    }""",
        list(MANY.values()),
    )
    for (name, text), (elements, whole, cells) in zip(MANY.items(), seen, strict=True):
        assert elements < 30_000, name
        assert whole, name
        assert cells <= len(text), name


async def test_a_table_shows_what_its_rows_lack(blank: WatchedPage):
    """Short rows have empty cells."""
    [[shown]] = await shown_in_pieces(blank, ["|a|b|c|\n|-|-|-|\n|d|\n|e|f|g|h|\n"], [3])
    assert shown.count("<td") == 6


async def test_thousands_of_definitions_may_come_late(blank: WatchedPage):
    """Each makes a link of a paragraph far above it."""
    count = 4000
    marks = "".join(f"[a{i}]\n\n" for i in range(count))
    text = marks + "".join(f"[a{i}]: https://a.example/\n" for i in range(count))
    [[shown]] = await shown_in_pieces(blank, [text], [100_000])
    assert shown.count("<a ") == count


@pytest.mark.parametrize("label", ["Copy", "Sign\u2800out"])
async def test_a_note_shows_as_a_number(blank: WatchedPage, label: str):
    """No label makes a button that says what the page's own say."""
    text = f"a[^{label}] b[^2]\n\n> [^2]: two\n\n[^{label}]: what[^2]\n[^{label}]: again\n"
    [shown, cut] = (await shown_in_pieces(blank, [text], [1000, 1]))[0]
    assert shown == cut
    assert label not in shown
    assert re.findall(r"<button[^>]*>([^<]*)", shown) == ["2", "1", "1", "2", "1", "2"]


async def test_hostile_text_neither_runs_nor_fetches(blank: WatchedPage):
    """Raw HTML is text, images are links, only http, https and mailto can be followed, and links say where
    they lead."""
    seen: list[dict[str, Any]] = await blank.page.evaluate(
        """async (texts) => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const found = [];
      for (const text of texts) {
        for (const size of [1, 7, 1000]) {
          const root = document.createElement("div");
          document.body.append(root);
          const view = new MarkdownView(root, { waits: false });
          for (let at = 0; at < text.length; at += size) view.push(text.slice(at, at + size));
          view.finish();
          await view.settled();
          for (const link of root.querySelectorAll("a")) {
            link.addEventListener("click", (event) => event.preventDefault());
            link.click();
          }
          const tags = [...root.querySelectorAll("*")].map((element) => element.localName);
          const handlers = [...root.querySelectorAll("*")].flatMap((element) => element.getAttributeNames());
          const honest = (a) => a.textContent === a.href || a.title === a.href;
          const links = [...root.querySelectorAll("a")].map((a) => [a.protocol, a.rel, a.target, honest(a)]);
          found.push({ text, tags, handlers, links });
        }
      }
      return found;
    }""",
        HOSTILE,
    )
    safe = set(SAFE.split())
    for each in seen:
        assert set(each["tags"]) <= safe, each
        assert not [
            name for name in each["handlers"] if name.startswith("on") or name in ("id", "src", "style")
        ]
        for protocol, rel, target, honest in each["links"]:
            assert honest, "it says where it leads, if not by its text"
            assert protocol in ("http:", "https:", "mailto:"), each
            assert (rel, target) == ("noopener noreferrer nofollow", "_blank")
    assert await blank.page.evaluate("window.hacked") is None
    assert blank.strangers == []
    assert blank.errors == []
