"""What the page does to show text that comes densely: no more than readers see."""

from typing import Any

import pytest

from tests.browser.conftest import WatchedPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

STREAM = """async () => {
  const made = (id) => Object.assign(document.createElement("div"), { id });
  const [scroller, log, latest, skip] = ["scroller", "log", "to-latest", "skip"].map(made);
  latest.hidden = true;
  scroller.append(log);
  document.body.append(skip, scroller, latest);
  const { Transcript } = await import("/web/transcript.js");
  const { ready } = await import("/web/markdown.js");
  await ready();
  const transcript = new Transcript(() => {}, () => {}, () => {});
  const { view } = transcript.addTurn("Where does the river go?");
  for (let i = 0; i < 5; i++) await new Promise(requestAnimationFrame); // nothing comes for a while
  let text = "", drawing = false, sizes = 0;
  const height = Object.getOwnPropertyDescriptor(Element.prototype, "scrollHeight").get;
  Object.defineProperty(scroller, "scrollHeight", { get() { sizes += drawing; return height.call(this); } });
  const frame = window.requestAnimationFrame.bind(window);
  const drawn = [];
  const act = view.show.bind(view);
  view.show = (...given) => { drawn.push(performance.now()); act(...given); };
  window.requestAnimationFrame = (run) => frame(() => { drawing = true; run(); drawing = false; });
  const touched = [];
  const observer = new MutationObserver((records) => touched.push(...records.map(({ target }) => target)));
  const more = () => {
    text += "word ";
    transcript.changed(view, { text, status: "running", reason: null, usage: null, cost: null });
  };
  more();
  await new Promise(frame);
  const first = view.element.querySelector(".prose").textContent;
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  for (let i = 0; i < 60; i++) {
    more();
    await new Promise(frame);
  }
  const of = (node) => (node instanceof Element ? node : node.parentElement);
  const others = touched.filter((each) => !of(each).closest(".prose"));
  const apart = drawn.slice(1).map((at, i) => at - drawn[i]);
  return { first, times: drawn.length, apart: Math.min(...apart), others: others.length, sizes };
}"""


async def test_dense_text_is_drawn_in_each_second_frame(blank: WatchedPage):
    """The first of it at once. No size is read meanwhile, and nothing is written that stays as it was."""
    seen: dict[str, Any] = await blank.page.evaluate(STREAM)
    assert seen["first"] == "word"
    assert seen["times"] > 2
    assert seen["apart"] > 20
    assert (seen["others"], seen["sizes"]) == (0, 0)
    assert blank.errors == []
