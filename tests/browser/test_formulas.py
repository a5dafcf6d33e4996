"""Formulas of an answer: which text is one, and that nothing in one harms the page."""

import random
import re
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.browser.chat_page import opened, write
from tests.browser.conftest import OpenPage, WatchedPage
from tests.browser.flagged_answers import CHAT, history, said, stored
from tests.browser.markdown_pieces import shown_in_pieces
from tests.support.patience import wait_until
from tests.support.scripted_peer import Peer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DOCUMENTS = 200
PIECES = [
    *[
        "$",
        "$$",
        "\\(",
        "\\)",
        "\\[",
        "\\]",
        "\\$",
        "\\\\",
        "x",
        " y_1 ",
        "*a*",
        "`",
        "5",
        "\n",
        "\n\n",
        "=",
        "- ",
    ],
    *["> ", "# ", "| a |", "\\frac{1}{2}", "^2", "**", "\ue000", "{", "}", "שלום", "    "],
]
KINDS = {  # formulas in it, each with its sign
    "Let $x$ be $y_1 + 2$.": ["$x$", "$y_1 + 2$"],
    "$5 and $10": [],
    "a $ x$ b, $x $ c, $x$5, \\$x\\$": [],
    "$a\\$b$": ["$a\\$b$"],
    "$a `$` b$": [],
    "价格$5到$10": [],
    "see \\(x\\) and \\[y\\] and $$z$$": ["\\(x\\)", "\\[y\\]", "$$z$$"],
    "\\( never ends": [],
    "so\n$$\nx\n=\n- y\n$$\nis": ["$$\nx\n=\n- y\n$$"],
    "$$\nx\n\ny$$": [],
    "$$ x $$ is it\n- a": ["$$ x $$"],
    "- a\n  \\[\n  x \\\\[2pt]\n  y\n  \\]\n- b": ["\\[\nx \\\\[2pt]\ny\n\\]"],
    "> $$\n> x\n> $$\n> b": ["$$\nx\n$$"],
    "| $x$ | $5 |\n|---|---|\n| $y$ | $6 |": ["$x$", "$y$"],
    "`$x$` and\n\n    $y$\n": [],
}
HARMFUL = [
    r"$\href{javascript:alert(1)}{x}$",
    r"$\includegraphics{https://evil.example/a.png}$",
    r"$\htmlId{composer}{x} \class{a}{y} \style{position:fixed}{z}$",
    r"$$\begin{equation} x \label{composer} \tag{1} \end{equation}$$ \(\ref{composer}\)",
    r"$\def\a{\a\a}\a$",
    r"$\def\a#1{#1#1}\a{\a{\a{\a{\a{\a{\a{\a{\a{\a{x}}}}}}}}}}$",
    "$" + "{" * 2000 + "$",
    "$" + "\\frac{" * 500 + "1" + "}{2}" * 500 + "$",
    "$" + "\\sqrt{" * 39 + "1" + "}" * 39 + "$",
    "$" + "x^{" * 39 + "1" + "}" * 39 + "$",
    "$" + "\\left(" * 300 + "x" + "\\right)" * 300 + "$",
    "$" + "\\overbrace{" * 35 + "x" + "}" * 35 + "$",
    "$" + "\\begin{matrix}" * 35 + "x" + "\\end{matrix}" * 35 + "$",
    r"$\rule{99999em}{99999em} \kern-99999em \hspace{-9999em} \raisebox{9999em}{x}$",
    "$$" + "&" * 3000 + "$$",
    r"$\tag{" + "x" * 2000 + "}" + r"\df@tag " * 190 + "$",
    "$" + r"\equilibriumRight{" * 40 + "x" + "}" * 40 + "$",
    "$" + r"\cancelto{0}{x" * 40 + "}" * 40 + "$",
    "$" + r"\mathllap{" * 12 + "x" * 3000 + "}" * 12 + "$",
]
DEFINITIONS = [
    r"\def\a{" + "x" * 900 + "}" + r"\a" * 190,
    *[rf"\{name}\a{{x}}\a" for name in ("def", "gdef", "edef", "xdef", "newcommand", "providecommand")],
    *[r"\renewcommand{\sum}{x}", r"\global\let\a=b\a", r"\long\def\a{x}\a", r"\futurelet\a\relax b"],
    *[r"\expandafter\def\noexpand\a{x}", "x_{\\let\\a b}", r"\verb\x\\def\a{x}"],
]
SOURCES = """async ([texts]) => {
  const { MarkdownView, ready } = await import("/web/markdown.js");
  await ready();
  return Promise.all(texts.map(async (text) => {
    const root = document.createElement("div");
    const view = new MarkdownView(root);
    view.push(text);
    view.finish();
    await view.settled();
    return [...root.querySelectorAll(".formula")].map((each) =>
      [each.dataset.source, each.querySelector("math") !== null, each.classList.contains("display")]);
  }));
}"""
CHECKED = """async (texts) => {
  const { MarkdownView, ready } = await import("/web/markdown.js");
  await ready();
  const seen = [];
  for (const text of texts) {
    const root = document.body.appendChild(document.createElement("div"));
    const view = new MarkdownView(root);
    view.push(text);
    view.finish();
    await view.settled();
    root.getBoundingClientRect();
    const strange = root.querySelectorAll("img, [src], a[href], [id], script, iframe").length;
    seen.push({ strange, shown: root.textContent !== "" });
    root.remove();
  }
  return seen;
}"""


async def test_each_kind_of_formula_is_found(blank: WatchedPage):
    """Money, escaped signs and what never ends are none."""
    seen: list[list[Any]] = await blank.page.evaluate(SOURCES, [list(KINDS)])
    assert [[source for source, *_ in formulas] for formulas in seen] == list(KINDS.values())
    for source, rendered, display in (each for formulas in seen for each in formulas):
        assert rendered
        assert display == source.startswith(("$$", "\\["))
    assert blank.errors == []  # also of the policy that the page has


async def test_any_chunking_gives_the_same_formulas(blank: WatchedPage):
    """While text grows, and at its end."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    texts = ["".join(chance.choices(PIECES, k=chance.randint(1, 40))) for _ in range(DOCUMENTS)]
    for finish in (True, False):
        all_shown = await shown_in_pieces(blank, texts, [100_000, 1, -9], finish)
        for text, shown in zip(texts, all_shown, strict=True):
            assert len(set(shown)) == 1, f"seed {seed}: {text!r} {shown}"


async def test_no_formula_harms_the_page(blank: WatchedPage):
    """It has no link, picture or id of its own, asks for nothing, and is no work without end."""
    seen: list[dict[str, Any]] = await blank.page.evaluate(CHECKED, HARMFUL)
    for text, each in zip(HARMFUL, seen, strict=True):
        assert each["strange"] == 0, text
        assert each["shown"], text
    assert blank.errors == []
    assert blank.strangers == []


async def test_a_formula_defines_nothing(blank: WatchedPage):
    """What stands for something else may stand for much, and Temml counts how often it does, not what for."""
    titles: list[list[str | None]] = await blank.page.evaluate(
        """async (texts) => {
      const { showFormula, formulasShown } = await import("/web/formula_view.js");
      const elements = texts.map(() => document.createElement("span"));
      texts.forEach((tex, i) => showFormula({ element: elements[i], tex, source: tex, display: false }));
      await formulasShown();
      return elements.map((each) => [each.textContent, each.querySelector("[title]")?.title ?? null]);
    }""",
        [*DEFINITIONS, r"\tag{1}\defl\letter", r"\det x \longrightarrow y"],
    )
    for source, (shown, title) in zip(DEFINITIONS, titles, strict=False):
        assert shown == source
        assert str(title).endswith("defines something")
    other, longer = [title for _, title in titles[len(DEFINITIONS) :]]
    assert "defines" not in str(other)
    assert longer is None  # its names only begin like those


async def test_one_that_cannot_be_read_shows_its_source(open_page: OpenPage, peer: Peer):
    """And why, in its title."""
    watched = await history(open_page, peer, "It is $\\frac{1$ or $y$.")
    broken = watched.page.locator(".formula").first
    await expect(broken).to_have_text("$\\frac{1$")
    await expect(broken.locator("[title]")).to_have_attribute(
        "title", re.compile("Not a formula that can be shown: .+")
    )
    await expect(watched.page.locator(".formula math")).to_have_text("y")


async def test_the_source_shows_where_temml_does_not_come(open_page: OpenPage, peer: Peer):
    """The next formula asks for it again."""
    asked: list[str] = []

    async def answer(route: Route) -> None:
        if "temml" not in route.request.url:
            return await route.continue_()
        asked.append(route.request.url)
        await (route.abort() if len(asked) == 1 else route.continue_())

    peer.messages[CHAT] = stored("It is $x$.")
    watched, socket = await opened(open_page, peer, f"/#/{CHAT}", answer=answer)
    page = watched.page
    await expect(page.locator(".formula")).to_have_text("$x$")
    await wait_until(lambda: len(asked) == 1)
    await write(page, "And?")
    await socket.accept()
    await said(socket, "It is $y$.")
    await expect(page.locator(".formula").last.locator("math")).to_have_text("y")


async def test_copies_hold_the_sources(open_page: OpenPage, peer: Peer):
    """Of formulas in a line, and of one on lines of its own, whose placeholders stand in it as they are."""
    text = "It is $x^2$ and\n\n$$\n[EMAIL_1] \\\\\ny\n$$\n\nso."
    watched = await history(open_page, peer, text, permissions=["clipboard-read", "clipboard-write"])
    page = watched.page
    await expect(page.locator(".formula math")).to_have_count(2)
    await expect(page.locator(".formula math").last).to_contain_text("[EMAIL_1]")
    await page.evaluate("getSelection().selectAllChildren(document.querySelector('.prose'))")
    await page.keyboard.press("Control+C")
    copied: str = await page.evaluate("navigator.clipboard.readText()")
    assert re.sub("\n+", "\n", copied) == re.sub("\n+", "\n", text)
    await page.evaluate("getSelection().selectAllChildren(document.querySelector('.formula mi'))")
    await page.keyboard.press("Control+C")
    assert await page.evaluate("navigator.clipboard.readText()") == "$x^2$"


async def test_signs_in_a_formula_are_not_closed_behind_it(blank: WatchedPage):
    """While the text behind it grows."""
    [[shown]] = await shown_in_pieces(blank, ["$x^*$ and \\(a^**b\\) so"], [100], finish=False)
    assert shown.endswith("</span> so</p>")
