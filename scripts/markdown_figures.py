"""Prints what showing Markdown costs: `.venv/bin/python -m scripts.markdown_figures`, in two minutes.

CommonMark's examples in Node. In Chromium what the page's main thread does for 20 kB that come in pieces of 8
characters, 200 a second: CPU time of script, style and layout, and of the longest update the script, by the
wall. Then the longest task for text made to be slow, at once and in pieces of 2,000 characters a frame, and
when the format of its first long passage is asked for; by the wall: of a machine that does nothing else.
"""

import argparse
import re
import subprocess
from typing import Any

from playwright.sync_api import CDPSession, Page, Route, sync_playwright

from scripts.javascript import ROOT, find_node, install
from scripts.page import CHAT, build
from tests.support.browsers import chromium_path

MODULES = ROOT / ".cache" / "page-modules"
WEB = ROOT / "server" / "web"
CLIENT = ROOT / "clients" / "js" / "src"
STYLES = ("style", "prose", "formulas", "safety", "sign_in")
LOADED = re.compile(r'<link rel="stylesheet"[^>]*>|<script[^>]*></script>')
ORIGIN = "http://page.test"
SENTENCE = "The **river** runs past `mill.c` and [the bridge](https://a.example/b), *slowly*, to the sea. "
PROSE = (SENTENCE * 5 + "\n\n") * 43
ANSWERS = {
    "prose": PROSE,
    "one list": (f"- {SENTENCE}\n") * 212,
    "one table": "| what | where | how |\n|---|---|---|\n"
    + "| the **river** | `mill.c` | slowly, to the sea |\n" * 425,
}
LONG = 300_000
HOSTILE = {
    "table, 80 kB": "|a|b|c|\n|-|-|-|\n" + "|one|**two**|three|\n" * 4000,
    **{f"10,000 {part.strip()}": part * 10_000 for part in ("#", "# a\n", "[", ">", "*a_")},
    "60 tables of 80 columns, rows empty": ("|a" * 80 + "|\n" + "|-" * 80 + "|\n" + "|\n" * 80 + "\n") * 60,
    "4,000 links, then what they mean": "".join(f"[a{i}]\n\n" for i in range(4000))
    + "".join(f"[a{i}]: https://a.example/\n" for i in range(4000)),
    "300 kB of \\(": "\\(" * (LONG // 2),
    "300 kB of URLs": "https://a.example/b?c=d " * (LONG // 24),
    "300 kB of URL lines": "https://a.example/b?c=d\n" * (LONG // 24),
    "one word of 300 kB": "x" * LONG,
    "one line of 300 kB": "word " * (LONG // 5),
    "300 kB of paragraphs": "a\n\n" * (LONG // 3),
    "300 kB of items": "- a\n" * (LONG // 4),
}
# An answer that comes into the page, as its session hands it over.
ANSWER = """async (text) => {
  const { Transcript } = await import("/web/transcript.js");
  const { ready } = await import("/web/markdown.js");
  await ready();
  document.getElementById("sign-in").hidden = true;
  window.transcript ??= new Transcript(() => {}, () => {}, () => {});
  transcript.clear();
  const frame = window.requestAnimationFrame.bind(window);
  const took = [];
  window.requestAnimationFrame = (act) => frame((at) => {
    const began = performance.now();
    act(at);
    took.push(performance.now() - began);
  });
  const { view } = transcript.addTurn("Where does the river go?");
  const start = performance.now();
  for (let came = 0; came < text.length; ) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    came = 8 * Math.ceil((performance.now() - start) / 5);
    const status = came < text.length ? "running" : "ended";
    transcript.changed(view, { text: text.slice(0, came), status, reason: null, usage: null, cost: null });
  }
  await new Promise((resolve) => setTimeout(resolve, 300));
  window.requestAnimationFrame = frame;
  return { worst: Math.max(...took), updates: took.length, ms: performance.now() - start };
}"""
SHOW = """async ([text, size, every]) => {
  const { MarkdownView, ready } = await import("/web/markdown.js");
  await ready();
  const [later, frame] = [window.setTimeout.bind(window), window.requestAnimationFrame.bind(window)];
  const took = [];
  const timed = (act) => (...given) => {
    const began = performance.now();
    act(...given);
    took.push(performance.now() - began);
  };
  window.setTimeout = (act, ms) => later(timed(act), ms);
  window.requestAnimationFrame = (act) => frame(timed(act));
  const tasks = [];
  const observer = new PerformanceObserver((list) => {
    for (const each of list.getEntries()) tasks.push(each.duration);
  });
  observer.observe({ type: "longtask" });
  const root = document.body.appendChild(document.createElement("div"));
  root.className = "prose";
  const view = new MarkdownView(root);
  const began = performance.now();
  for (let at = 0, drawn = 0; drawn < text.length; await new Promise(frame)) {
    at = every > 0 ? size * Math.ceil((performance.now() - began) / every) : drawn + size;
    const piece = text.slice(drawn, at);
    drawn += piece.length;
    timed(() => view.push(piece))();
  }
  timed(() => view.finish())();
  await view.settled();
  await new Promise((resolve) => later(resolve, 300));
  window.setTimeout = later;
  window.requestAnimationFrame = frame;
  const ms = performance.now() - began;
  const length = root.textContent.length;
  const task = Math.max(0, ...tasks.splice(0));
  root.querySelector(".show-formatted")?.click();
  await view.settled();
  await new Promise((resolve) => later(resolve, 300));
  root.remove();
  const total = took.reduce((sum, each) => sum + each, 0);
  return { total, worst: Math.max(...took), task, asked: Math.max(0, ...tasks), ms, length };
}"""


def main() -> None:
    """All figures."""
    node, npm = find_node()
    install(node, npm)
    script = [*node, "--no-warnings", str(ROOT / "scripts" / "markdown_spec.mjs")]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    print(f"CommonMark's examples without HTML: {done.stdout.splitlines()[0]}")
    build(CHAT, MODULES, "modules")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        page = browser.new_page()
        page.route("**/*", served)
        page.goto(ORIGIN)
        protocol = page.context.new_cdp_session(page)
        protocol.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.evaluate(ANSWER, PROSE[:2000])
        for name, text in ANSWERS.items():
            print(f"{name}: {answered(page, protocol, text[:20_000])}")
        for name, text in HOSTILE.items():
            once, pieces = shown(page, text, len(text), 0), shown(page, text, 2000, 0)
            print(
                f"{name}: longest task {once['task']:.0f} ms at once, {pieces['task']:.0f} in pieces "
                f"(script {once['worst']:.0f} and {pieces['worst']:.0f}), {once['asked']:.0f} to format, "
                f"{once['length']:,} characters shown"
            )
        browser.close()


def answered(page: Page, protocol: CDPSession, text: str) -> str:
    """What an answer cost that came into the page."""
    before = cpu_ms(protocol)
    seen = page.evaluate(ANSWER, text)
    script, style, layout, all_of_it = (
        now - then for now, then in zip(cpu_ms(protocol), before, strict=True)
    )
    total = script + style + layout
    share = 100 * total / seen["ms"]
    return (
        f"{total:.0f} ms of CPU, {share:.1f} % of the time (script {script:.0f} ms, style {style:.0f}, "
        f"layout {layout:.0f}; with paint {all_of_it:.0f}), {seen['updates']} updates, "
        f"script of the worst {seen['worst']:.1f} ms"
    )


def cpu_ms(protocol: CDPSession) -> list[float]:
    """What the page's main thread did so far: script, style, layout, and all of its tasks."""
    metrics = {
        each["name"]: 1000 * each["value"] for each in protocol.send("Performance.getMetrics")["metrics"]
    }
    return [metrics[f"{each}Duration"] for each in ("Script", "RecalcStyle", "Layout", "Task")]


def shown(page: Page, text: str, size: int, every: int) -> dict[str, Any]:
    """What it took to show a text in pieces of a size, one `every` so many ms, or one a frame."""
    result: dict[str, Any] = page.evaluate(SHOW, [text, size, every])
    return result


def served(route: Route) -> None:
    """One module of the page or of its client, or the page with its styles and none of its scripts."""
    path = route.request.url.removeprefix(ORIGIN)
    folder, name = MODULES, path.removeprefix("/web/")
    if name.startswith("client/"):
        folder, name = CLIENT, name.removeprefix("client/")
    if path.startswith("/web/") and (folder / name).is_file():
        route.fulfill(path=folder / name, content_type="text/javascript")
    else:
        styles = "".join((WEB / f"{each}.css").read_text() for each in STYLES)
        html = LOADED.sub("", (WEB / "index.html").read_text())
        route.fulfill(
            body=html.replace("</head>", f"<style>{styles}</style></head>"), content_type="text/html"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.parse_args()
    main()
