"""Text that arrives in pieces, as the streaming Markdown view shows it."""

from tests.browser.conftest import WatchedPage

SHOW = """async ([texts, sizes, finish, limits]) => {
  const { MarkdownView, ready } = await import("/web/markdown.js");
  await ready();
  const show = async (text, size) => {
    const root = document.createElement("div");
    const view = new MarkdownView(root, { ms: Infinity, waits: false, ...limits });
    const points = Array.from(text);
    for (let at = 0, i = 0; at < points.length; i++) {
      const count = size > 0 ? size : 1 + (i * 7919 + text.length) % -size;
      view.push(points.slice(at, at + count).join(""));
      at += count;
    }
    if (finish) view.finish();
    await view.settled();
    return root;
  };
  const shown = [];
  for (const text of texts) {
    const roots = [];
    for (const size of sizes) roots.push(await show(text, size));
    shown.push(roots.map((root) => (root.isEqualNode(roots[0]) ? roots[0] : root).innerHTML));
  }
  return shown;
}"""


async def shown_in_pieces(
    blank: WatchedPage, texts: list[str], sizes: list[int], finish: bool = True, **limits: int
) -> list[list[str]]:
    """The HTML of each text, for each size of its pieces; below zero: sizes up to it."""
    shown: list[list[str]] = await blank.page.evaluate(SHOW, [texts, sizes, finish, limits])
    return shown
