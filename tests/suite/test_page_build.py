"""The chat page is built when its sources changed, and whoever cannot build it is told what to do."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.bench.page import PageLoad, figures_of, weight
from scripts import javascript, page
from scripts.javascript import ROOT, find_node


def test_a_page_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two that build at once build it once, a changed source builds it again, and what no build reads changes
    nothing."""
    target = tmp_path / "dist"
    with ThreadPoolExecutor() as pool:
        built = list(pool.map(lambda _: page.build(page.CHAT, target), range(2)))
    assert sorted(built) == [False, True]
    assert (target / "index.html").is_file()
    assert [each.name for each in tmp_path.iterdir()] == ["dist"]
    assert page.CHAT.built not in {path.parent for path in page.CHAT.sources()}
    changed = tmp_path / "changed.js"
    changed.write_text("1;")
    monkeypatch.setattr(page, "ROOT", Path("/"))
    wider = replace(page.CHAT, others=(*page.CHAT.others, changed))
    first = wider.fingerprint()
    changed.write_text("2;")
    assert wider.fingerprint() != first


def test_a_build_that_fails_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A slip in a source does not take the page from a running gateway."""
    (tmp_path / "dist").mkdir()
    (tmp_path / "sources").mkdir()
    (tmp_path / "dist" / "index.html").write_text("the last one")
    broken = tmp_path / "vite.config.mjs"
    broken.write_text("export default 1 1;")
    broken_page = page.WebPage(tmp_path / "sources", broken, ())
    monkeypatch.setattr(page, "ROOT", Path("/"))
    with pytest.raises(SystemExit, match=r"the page could not be built: .* is as it was"):
        page.build(broken_page, tmp_path / "dist")
    assert (tmp_path / "dist" / "index.html").read_text() == "the last one"


def test_without_npms_registry_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Neither a traceback nor a page of npm's own words."""
    for name in ("package.json", "package-lock.json"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.setattr(javascript, "ROOT", tmp_path)
    monkeypatch.setattr(javascript, "LOCK", tmp_path / "package-lock.json")
    monkeypatch.setattr(javascript, "STAMP", tmp_path / "node_modules" / ".parley-lock")
    for name, value in {
        "registry": "http://127.0.0.1:9/",
        "fetch_retries": "0",
        "cache": str(tmp_path),
    }.items():
        monkeypatch.setenv(f"npm_config_{name}", value)
    with pytest.raises(SystemExit) as ended:
        javascript.install(*find_node())
    said = str(ended.value)
    assert "\n" not in said
    assert "ECONNREFUSED" in said
    assert "npm config set registry" in said
    assert "a wheel of Parley" in said


def test_the_page_script_says_what_it_did():
    """Run as the wheel's build runs it."""
    for each in page.PAGES.values():
        page.build(each)
    command = [sys.executable, "-m", "scripts.page"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout == "the chat page is as its sources\nthe console is as its sources\n"


def test_the_page_is_light():
    """JavaScript before the composer works, with the parser of answers, and what takes an early Enter."""
    page.build()
    assert all(each.reached for each in figures_of(weight(), [PageLoad(0.0, 0.0)]) if each.unit == "bytes")
    (early,) = page.CHAT.built.glob("assets/send-early-*.js")
    assert early.stat().st_size < 1_000


def test_the_console_is_light():
    """All of its JavaScript, every page's too, as it goes over the wire."""
    page.build(page.CONSOLE)
    assert 100_000 < sum(page.script_bytes(page.CONSOLE).values()) < 400_000
