"""The streaming Markdown view: the DOM depends on the text alone, nothing runs and nothing is fetched."""

import random
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.browser.conftest import WatchedPage
from tests.browser.markdown_samples import COMMON, HOSTILE, PIECES, SLOW
from tests.support.patience import PROMPT_SECONDS, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DOCUMENTS = 400
SAFE = """p a div pre code span button ul ol li blockquote table thead tbody tr th td br strong em del hr
    h3 h4 h5 h6"""
SHOW = """async ([texts, sizes, finish]) => {
  const { MarkdownView } = await import("/web/markdown.js");
  const show = (text, size) => {
    const root = document.createElement("div");
    const view = new MarkdownView(root);
    const points = Array.from(text);
    for (let at = 0, i = 0; at < points.length; i++) {
      const count = size > 0 ? size : 1 + (i * 7919 + text.length) % -size;
      view.push(points.slice(at, at + count).join(""));
      at += count;
    }
    if (finish) view.finish();
    return root;
  };
  return texts.map((text) => {
    const roots = sizes.map((size) => show(text, size));
    return roots.map((root) => (root.isEqualNode(roots[0]) ? roots[0] : root).innerHTML);
  });
}"""


async def _shown(
    blank: WatchedPage, texts: list[str], sizes: list[int], finish: bool = True
) -> list[list[str]]:
    shown: list[list[str]] = await blank.page.evaluate(SHOW, [texts, sizes, finish])
    return shown


@pytest.mark.parametrize("finish", [True, False])
async def test_any_chunking_gives_the_same_dom(blank: WatchedPage, finish: bool):
    """One push, one character at a time, and random pieces show the same, while text grows and at the end."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    texts = ["".join(chance.choices(PIECES, k=chance.randint(1, 40))) for _ in range(DOCUMENTS)]
    for text, shown in zip(texts, await _shown(blank, texts, [100_000, 1, -9, 5], finish), strict=True):
        assert len(set(shown)) == 1, f"seed {seed}: {text!r} {shown}"


LONG_CHARACTERS = 100_000
READ_TIMES_MAX = 200  # quadratic, each was read 5,000 times
LONG_BLOCKS = {
    "fence": ("```js\n", "let a = 1; // x\n"),
    "paragraph": ("", "some words in a line\n"),
    "one line": ("", "words without an end "),
    "list": ("", "- an item of a list\n"),
    "table": ("|a|b|\n|-|-|\n", "| one | two |\n"),
}


@pytest.mark.parametrize("kind", LONG_BLOCKS)
async def test_a_long_block_is_not_read_again_for_every_piece(blank: WatchedPage, kind: str):
    """Counted in characters that the parser is given; at the end the page shows the same as at once."""
    start, part = LONG_BLOCKS[kind]
    text = start + part * (LONG_CHARACTERS // len(part))
    read, same = await blank.page.evaluate(
        """async (text) => {
      const { MarkdownView } = await import("/web/markdown.js");
      const { parseBlocks } = await import("/web/blocks.js");
      let read = 0;
      const counted = (lines, ...rest) => {
        for (const line of lines) read += line.length + 1;
        return parseBlocks(lines, ...rest);
      };
      const root = document.createElement("div");
      const view = new MarkdownView(root, counted);
      for (let at = 0; at < text.length; at += 20) view.push(text.slice(at, at + 20));
      view.finish();
      const once = document.createElement("div");
      const whole = new MarkdownView(once);
      whole.push(text);
      whole.finish();
      return [read, root.isEqualNode(once)];
    }""",
        text,
    )
    print(kind, read / len(text))
    assert read < READ_TIMES_MAX * len(text)
    assert same


async def test_what_waits_of_a_long_block_is_shown_after_a_moment(blank: WatchedPage):
    """Also where nothing more comes."""
    await blank.page.evaluate("""async () => {
      const { MarkdownView } = await import("/web/markdown.js");
      const view = new MarkdownView(document.body.appendChild(document.createElement("div")));
      view.push("```\\n" + "x\\n".repeat(10000));
      view.push("the newest line");
    }""")

    async def shown() -> bool:
        return await blank.page.evaluate("document.body.textContent.includes('the newest line')")

    await wait_until(shown)


async def test_a_finished_block_is_never_touched_again(blank: WatchedPage):
    """A node of a finished block stays the same node, and no change is made inside it."""
    changes = await blank.page.evaluate("""async () => {
      const { MarkdownView } = await import("/web/markdown.js");
      const root = document.createElement("div");
      const view = new MarkdownView(root);
      view.push("First **bold** paragraph.\\n\\n```js\\nlet a = 1;\\n```\\n\\n- list\\n\\nnext");
      const watched = [...root.children].slice(0, 2);
      const seen = new MutationObserver(() => {});
      for (const node of watched) seen.observe(node, { subtree: true, childList: true, characterData: true });
      view.push(" more\\n\\n# Title\\n\\nand more\\n");
      view.finish();
      const same = watched.every((node, i) => root.children[i] === node);
      return [seen.takeRecords().length, same];
    }""")
    assert changes == [0, True]


async def test_hostile_text_neither_runs_nor_fetches(blank: WatchedPage):
    """Raw HTML is text, images are links, only http, https and mailto can be followed, and links say where
    they lead."""
    seen: list[dict[str, Any]] = await blank.page.evaluate(
        """async (texts) => {
      const { MarkdownView } = await import("/web/markdown.js");
      const found = [];
      for (const text of texts) {
        for (const size of [1, 7, 1000]) {
          const root = document.createElement("div");
          document.body.append(root);
          const view = new MarkdownView(root);
          for (let at = 0; at < text.length; at += size) view.push(text.slice(at, at + size));
          view.finish();
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


async def test_hostile_text_costs_little_time(blank: WatchedPage):
    """16 KB made to be slow are shown in well under a second, at best of three."""
    for text in SLOW:
        took: float = await blank.page.evaluate(
            """async (text) => {
          const { MarkdownView } = await import("/web/markdown.js");
          const took = [];
          while (took.length < 3) {
            const view = new MarkdownView(document.createElement("div"));
            const started = performance.now();
            view.push(text);
            view.finish();
            took.push(performance.now() - started);
          }
          return Math.min(...took);
        }""",
            text[:16384],
        )
        assert took < PROMPT_SECONDS * 1000, (text[:20], took)


async def test_common_answers_read_as_in_commonmark(blank: WatchedPage):
    """What models commonly write has the text and the structure that a full CommonMark parser gives it."""
    shown = [each for [each] in await _shown(blank, COMMON, [3])]
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    compare = """([ours, theirs]) => {
      const parse = (html) => new DOMParser().parseFromString(html, "text/html").body;
      const outline = (node) => [...node.childNodes].map((child) => child.nodeType === 3
        ? child.data.replace(/\\s+/g, " ").trim() : `<${child.localName}>${outline(child)}`).join("");
      const left = parse(ours);
      for (const head of left.querySelectorAll(".code-head")) head.remove();
      for (const box of left.querySelectorAll(".code, .table")) box.replaceWith(...box.childNodes);
      const right = parse(theirs);
      for (const p of right.querySelectorAll("li > p:first-child")) p.replaceWith(...p.childNodes);
      for (const s of right.querySelectorAll("s")) {
        const del = right.ownerDocument.createElement("del");
        del.append(...s.childNodes);
        s.replaceWith(del);
      }
      return [outline(left), outline(right)];
    }"""
    # A page without the policy compares: DOMParser takes a string, which Trusted Types rightly refuse.
    await blank.page.goto("about:blank")
    for text, each in zip(COMMON, shown, strict=True):
        ours, theirs = await blank.page.evaluate(compare, [each, parser.render(text)])
        assert ours == theirs, text


async def test_what_was_begun_shows_as_if_it_were_closed(blank: WatchedPage):
    """While text grows, ** and ` do not flash as marks; a marker alone on its line is not shown yet."""
    shown = await blank.page.evaluate(
        """async (texts) => {
      const { MarkdownView } = await import("/web/markdown.js");
      return texts.map((text) => {
        const root = document.createElement("div");
        new MarkdownView(root).push(text);
        return root.innerHTML;
      });
    }""",
        ["a **bo", "a **bold*", "see `cod", "see [text](https://a.ex", "text\n\n-", "text\n\n##", "2*3"],
    )
    assert shown == [
        "<p>a <strong>bo</strong></p>",
        "<p>a <strong>bold</strong></p>",
        "<p>see <code>cod</code></p>",
        "<p>see text</p>",
        "<p>text</p>",
        "<p>text</p>",
        "<p>2*3</p>",
    ]


async def test_headings_never_skip_a_level(blank: WatchedPage):
    """Headings stand below the page's own and in an order that screen readers can follow."""
    [[shown]] = await _shown(blank, ["### Deep first\n\n# Top\n\n#### Deeper\n"], [2])
    assert shown == (
        '<h3 class="level-3">Deep first</h3><h3 class="level-1">Top</h3><h4 class="level-4">Deeper</h4>'
    )
