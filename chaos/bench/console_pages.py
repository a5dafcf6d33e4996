"""The pages of the console and of the tenants' portal as their routers list them, opened in a browser.

Their addresses, and what each asks for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.async_api import Page, Request

WEB = Path(__file__).parents[2] / "admin" / "web"
PATH = re.compile(r'^  path: "([^"]+)",$', re.MULTILINE)
PARAMETER = re.compile(r"\$(\w+)")
OF_NO_PAGE = ("/api/changes", "/api/me", "/api/sign-in")  # the frame's own


@dataclass(frozen=True)
class ConsolePage:
    """A kind of page. `path`: as the router has it, with $parameters; `entry`: console or portal."""

    path: str
    entry: str = "console"

    @property
    def name(self) -> str:
        """A word for it: tenants, tenant."""
        return self.path.rstrip("/").rsplit("/", 1)[-1].lstrip("$") or "overview"

    def address(self, examples: Mapping[str, str]) -> str:
        """Of a page of this kind, by an example of each parameter."""
        missing = set(PARAMETER.findall(self.path)) - set(examples)
        assert not missing, f"the {self.entry} has pages of each {', '.join(missing)}: name an example of one"
        return f"/{self.entry}" + PARAMETER.sub(lambda found: examples[found[1]], self.path)


def console_pages(entry: str = "console") -> list[ConsolePage]:
    """Every kind of page that the console, or the portal, has."""
    router = WEB / entry / "router.tsx"
    pages = [ConsolePage(path, entry) for path in PATH.findall(router.read_text())]
    assert pages, f"{router} lists no paths as expected"
    return pages


async def show(page: Page, address: str) -> None:
    """Open a page and wait until it has its data."""
    await page.goto(address, wait_until="networkidle")
    await page.get_by_role("heading", level=1).first.wait_for()


async def change_theme(page: Page, theme: Literal["light", "dark"]) -> None:
    """Have the page that is shown follow a system that is light or dark, and wait until it does."""
    await page.emulate_media(color_scheme=theme)
    await page.locator(f"html[data-mantine-color-scheme={theme}]").wait_for(state="attached")


async def calls_of(page: Page, address: str) -> list[str]:
    """What a page asks the API for when it is opened, each once."""
    asked: dict[str, None] = {}

    def note(request: Request) -> None:
        parts = urlsplit(request.url)
        if request.method == "GET" and parts.path.startswith("/api/") and parts.path not in OF_NO_PAGE:
            asked.setdefault(parts.path + (f"?{parts.query}" if parts.query else ""))

    page.on("request", note)
    try:
        await show(page, address)
    finally:
        page.remove_listener("request", note)
    return list(asked)
