"""The browser's client is served under its own address."""

import tomllib
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from server.http.web_files import CLIENT_INSTALLED, CLIENT_SOURCES, client_folder, web_routes

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    """Whoever asks for files."""
    transport = httpx.ASGITransport(Starlette(routes=web_routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client


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
