"""The page is served as it was built, the browser's client under its own address."""

import gzip
import os
import re
import tomllib
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from server.http import web_files
from server.http.web_files import CLIENT_INSTALLED, CLIENT_SOURCES, client_folder, page, web_routes

ROOT = Path(__file__).parents[3]


def visitor() -> httpx.AsyncClient:
    """Whoever asks for files."""
    transport = httpx.ASGITransport(Starlette(routes=[Route("/", page), *web_routes()]))
    return httpx.AsyncClient(transport=transport, base_url="http://gateway")


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    """One, for as long as a test."""
    async with visitor() as client:
        yield client


def files_of(html: str) -> list[str]:
    """What a page asks for as it begins."""
    return re.findall(r'(?:src|href)="(/[^"]+)"', html)


async def test_files_of_the_page_are_kept_for_ever(http: httpx.AsyncClient):
    """Their names hold their hash; the page is asked for each time, and costs nothing when unchanged."""
    html = await http.get("/")
    assert html.headers["content-type"] == "text/html; charset=utf-8"
    assert "cache-control" not in html.headers  # SecurityHeaders says no-cache
    unchanged = await http.get("/", headers={"if-none-match": html.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    names = files_of(html.text)
    assert len(names) >= 4  # icon, style, theme, modules
    for name in names:
        got = await http.get(name)
        assert got.status_code == 200, name
        assert got.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert re.search(r"-[\w-]{8}\.\w+$", name)


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("BR ; q=0.000", None),
        ("br;q=0.0000", None),
        ("br; Q=.0, gzip;level=9;q=1", "gzip"),
        ("br;q=-1", None),
        ("br;q=lots", "br"),
        ("identity", None),
        ("", None),
    ],
)
async def test_a_browser_gets_what_it_can_read(http: httpx.AsyncClient, accepted: str, encoding: str | None):
    """Compressed at build time, with the type of the file itself; caches are told what it hangs on."""
    (script,) = [name for name in files_of((await http.get("/")).text) if re.search(r"index-.*\.js$", name)]
    async with http.stream("GET", script, headers={"accept-encoding": accepted}) as got:
        raw = b"".join([piece async for piece in got.aiter_raw()])
    plain = (web_files.BUILT / script.removeprefix("/web/")).read_bytes()
    assert got.headers.get("content-encoding") == encoding
    assert got.headers["content-type"] == "text/javascript; charset=utf-8"
    assert got.headers["vary"] == "accept-encoding"
    assert int(got.headers["content-length"]) == len(raw)
    assert len(raw) == len(plain) if encoding is None else len(raw) < len(plain) / 2
    if encoding == "gzip":
        assert gzip.decompress(raw) == plain


@pytest.mark.parametrize("path", ["/", "/web/client/client.js"])
async def test_two_releases_of_one_size_and_time_differ(
    path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """As files of unpacked wheels do: a browser that keeps the old page would ask for files that are gone."""
    monkeypatch.setattr(web_files, "BUILT", tmp_path)
    monkeypatch.setattr(web_files, "client_folder", lambda: tmp_path)
    tags: list[str] = []
    async with visitor() as http:
        for text in ("assets/index-aaaaaaaa.js", "assets/index-bbbbbbbb.js"):
            for name in ("index.html", "client.js"):
                (tmp_path / name).write_text(text)
                os.utime(tmp_path / name, (0, 0))
            got = await http.get(path, headers={"if-none-match": tags[-1]} if tags else {})
            assert got.text == text
            tags.append(got.headers["etag"])


async def test_without_a_build_the_page_says_what_to_run(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """All else of the gateway works."""
    monkeypatch.setattr(web_files, "BUILT", tmp_path / "dist")
    unbuilt = await http.get("/")
    assert unbuilt.status_code == 503
    assert "make up" in unbuilt.text
    bare = httpx.ASGITransport(Starlette(routes=web_routes([tmp_path / "dist"])))
    async with httpx.AsyncClient(transport=bare, base_url="http://gateway") as client:
        assert (await client.get("/web/assets/index.js")).status_code == 404
        assert (await client.get("/web/client/client.js")).status_code == 200


@pytest.mark.parametrize("name", sorted(path.name for path in CLIENT_SOURCES.iterdir()))
async def test_the_client_is_at_its_address(http: httpx.AsyncClient, name: str):
    """Each module and its types, byte by byte, and beside the page's files none of them."""
    found, beside = await http.get(f"/web/client/{name}"), await http.get(f"/web/{name}")
    assert (found.status_code, found.content) == (200, (CLIENT_SOURCES / name).read_bytes())
    assert beside.status_code == 404


@pytest.mark.parametrize(
    "path", ["client", "client/", "client/package.json", "client/chat.js", "package.json"]
)
async def test_nothing_else_of_the_package_is_served(http: httpx.AsyncClient, path: str):
    """Neither its other files nor the page's under the client's address."""
    assert (await http.get(f"/web/{path}")).status_code == 404


@pytest.mark.parametrize(
    "path", [".built-from", "%2Ebuilt-from", "assets/.notes", ".git/config", "client/.x"]
)
async def test_what_begins_with_a_dot_is_not_served(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
):
    """A build's stamp tells which version this is, and other dot files were never meant for anybody."""
    monkeypatch.setattr(web_files, "client_folder", lambda: tmp_path)
    for name in (".built-from", "assets/.notes", ".git/config", ".x", "seen.js"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    app = httpx.ASGITransport(Starlette(routes=web_routes([tmp_path])))
    async with httpx.AsyncClient(transport=app, base_url="http://gateway") as http:
        assert (await http.get(f"/web/{path}")).status_code == 404
        assert (await http.get("/web/seen.js")).status_code == 200


def test_an_installed_platform_brings_its_own(tmp_path: Path):
    """Where its wheel lies there are no sources beside it."""
    sources, installed = tmp_path / "sources", tmp_path / "installed"
    sources.mkdir()
    assert client_folder((installed, sources)) == sources
    installed.mkdir()
    assert client_folder((installed, sources)) == installed


def test_the_wheel_carries_what_runs():
    """The client beside the page; neither chaos, which breaks things, nor tests, nor the Python client."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    sources = str(CLIENT_SOURCES.relative_to(ROOT))
    assert wheel["only-include"] == ["core", "billing", "engine", "server", "admin", sources]
    assert wheel["sources"] == {sources: str(CLIENT_INSTALLED.relative_to(ROOT))}
