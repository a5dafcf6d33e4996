"""Long passages whose format is asked for: made in parts, so that no task is long, and readable meanwhile."""

import pytest
from playwright.async_api import expect

from tests.browser.conftest import WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ROWS = 4000
TABLE = "|a|b|c|\n|-|-|-|\n" + "|one|**two**|three|\n" * ROWS
SHOW = """async (text) => {
  const { MarkdownView, ready } = await import("/web/markdown.js");
  await ready();
  globalThis.main = document.body.appendChild(document.createElement("main"));
  globalThis.view = new MarkdownView(main);
  view.push(text + "\\n\\nThe end.");
  view.finish();
  await view.settled();
}"""
# What each frame has, and whether the reader has the whole text in one form or the other.
WATCH = """async ([act, whole]) => {
  const frames = [];
  let done = false;
  const look = () => {
    const plain = main.querySelector(".passage")?.textContent ?? "";
    const shown = main.querySelector(".formatted:not(.coming)")?.querySelectorAll("tr").length ?? 0;
    const lines = main.textContent.split("\\n").length;
    frames.push([main.querySelectorAll("*").length + lines, plain.length >= whole || shown >= 4000]);
    if (!done) requestAnimationFrame(look);
  };
  look();
  if (act === "click") main.querySelector(".show-formatted").click();
  else {
    view.reset("");
    view.push(act);
    view.finish();
  }
  await view.settled();
  done = true;
  await new Promise(requestAnimationFrame);
  const steps = frames.slice(1).map(([size], i) => Math.abs(size - frames[i][0]));
  const { activeElement } = document;
  const readable = frames.every(([, all]) => all);
  const most = Math.max(...steps.slice(0, -2));
  return { most, frames: frames.length, readable, focused: activeElement?.className };
}"""


async def test_a_format_is_made_in_parts_while_the_plain_text_is_read(blank: WatchedPage):
    """No frame makes more than some of it, and none shows half of it. The focus is not lost."""
    page = blank.page
    await page.evaluate(SHOW, TABLE)
    await page.get_by_role("button", name="Show formatted").focus()
    seen = await page.evaluate(WATCH, ["click", len(TABLE) - ROWS])
    await expect(page.locator("main td strong")).to_have_count(ROWS)
    await expect(page.locator("main .passage")).to_have_count(0)
    assert seen["most"] < 4000
    assert seen["frames"] > 5
    assert seen["readable"]
    assert seen["focused"] == "formatted"
    await expect(page.locator("main")).to_contain_text("The end.")


async def test_a_format_made_in_parts_is_that_of_the_whole(blank: WatchedPage):
    """Wherever it was cut."""
    item = "- [x] **one** <sub>2</sub>\n  1. [a] `b`\n     > c\n  2. d\n"
    [parts, whole] = await blank.page.evaluate(
        """async (text) => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      const by = await import("/web/formatter.js");
      const { patchAfter } = await import("/web/patch.js");
      await ready();
      const [main, whole] = ["main", "div"].map((name) => document.createElement(name));
      const view = new MarkdownView(main);
      view.push(text);
      view.finish();
      await view.settled();
      main.querySelector(".show-formatted").click();
      await view.settled();
      const [block] = by.split(text, new Map(), { ms: Infinity });
      const [outline, most] = [{ level: 2, sources: new Set(), side: "ltr" }, Infinity];
      const limits = { characters: most, tokens: most, elements: most, ms: most, asked: true };
      patchAfter(whole, null, by.formatted(block, text, new Map(), outline, limits, false).child);
      return [main.querySelector(".formatted").innerHTML, whole.innerHTML];
    }""",
        item * 900,
    )
    assert parts == whole
    assert parts.count('class="task"') == 900


async def test_a_format_that_is_coming_may_be_stopped(blank: WatchedPage):
    """The passage is then as it was before, and may be asked for again."""
    page = blank.page
    await page.evaluate(SHOW, TABLE)
    before = await page.locator("main").inner_html()
    head = await page.evaluate("""() => {
      main.querySelector(".show-formatted").click();
      return main.querySelector(".passage-head").textContent;
    }""")
    assert head == "Formatting…Stop formatting"
    await page.evaluate("main.querySelector('.show-formatted').click()")
    await page.evaluate("view.settled()")
    assert await page.locator("main").inner_html() == before
    await page.get_by_role("button", name="Show formatted").click()
    await expect(page.locator("main td strong")).to_have_count(ROWS)


async def test_nothing_is_formatted_that_is_not_shown_any_more(blank: WatchedPage):
    """Another chat is shown, or another text takes its place."""
    page = blank.page
    await page.evaluate(SHOW, TABLE)
    before = await page.locator("main").inner_html()
    left = await page.evaluate("""async () => {
      main.querySelector(".show-formatted").click();
      main.remove();
      await view.settled();
      return main.innerHTML;
    }""")
    assert left == before
    reset = await page.evaluate("""async () => {
      document.body.append(main);
      main.querySelector(".show-formatted").click();
      view.reset("another");
      view.finish();
      await view.settled();
      return main.innerHTML;
    }""")
    assert reset == "<p>another</p>"


async def test_what_is_defined_meanwhile_makes_links_of_it(blank: WatchedPage):
    """An answer may go on while a passage of it is formatted."""
    links = await blank.page.evaluate(
        """async (table) => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const main = document.body.appendChild(document.createElement("main"));
      const view = new MarkdownView(main, { waits: false });
      view.push(table + "\\n\\nMore.\\n\\n");
      await view.settled();
      main.querySelector(".show-formatted").click();
      view.push("[one]: https://a.example/\\n\\nEnd.\\n");
      const coming = main.querySelectorAll(".coming").length;
      await view.settled();
      return [coming, ...[...main.querySelectorAll("td a")].map((link) => link.href)];
    }""",
        TABLE.replace("one", "[one]", 1),
    )
    assert links == [1, "https://a.example/"]


@pytest.mark.parametrize("text", ["a\n\n" * 60_000, "```\n" + "a\n" * 60_000, "    a\n" * 30_000])
async def test_many_lines_are_drawn_in_parts(blank: WatchedPage, text: str):
    """A browser lays out thousands of short lines for long, of code too."""
    page = blank.page
    await page.evaluate(SHOW, "")
    seen = await page.evaluate(WATCH, [text, 0])
    assert seen["most"] < 8000


@pytest.mark.parametrize("text", ["a:\n" * 60_000, "```\n" + "a\n" * 60_000])
async def test_many_lines_that_go_on_are_drawn_in_parts(blank: WatchedPage, text: str):
    """Of a block that came at once and is still open, and of one that more is added to meanwhile."""
    shown, most = await blank.page.evaluate(
        """async (text) => {
      const { MarkdownView, ready } = await import("/web/markdown.js");
      await ready();
      const main = document.body.appendChild(document.createElement("main"));
      const view = new MarkdownView(main);
      const lines = [0];
      const watch = new MutationObserver(() => lines.push(main.textContent.split("\\n").length));
      watch.observe(main, { childList: true, subtree: true, characterData: true });
      view.push(text);
      await new Promise(requestAnimationFrame);
      view.push("the end\\n");
      await view.settled();
      const steps = lines.slice(1).map((each, i) => each - lines[i]);
      return [main.textContent.match(/a/g).length, Math.max(...steps)];
    }""",
        text,
    )
    assert shown > 60_000 - 2
    assert most < 8000
