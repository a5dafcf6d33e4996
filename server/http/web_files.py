"""The files of the chat page, and of the browser's client beside it: in a checkout under clients/js, in an
installed platform within the page's folder."""

from collections.abc import Sequence
from pathlib import Path

from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

WEB = Path(__file__).parent.parent / "web"
CLIENT_INSTALLED = WEB / "client"
CLIENT_SOURCES = WEB.parent.parent / "clients" / "js" / "src"


def client_folder(places: Sequence[Path] = (CLIENT_INSTALLED, CLIENT_SOURCES)) -> Path:
    """Folder of the browser's client."""
    return next(place for place in places if place.is_dir())


def web_routes() -> list[BaseRoute]:
    """The client under /web/client/, the page's files under /web/."""
    return [
        Mount("/web/client", StaticFiles(directory=client_folder())),
        Mount("/web", StaticFiles(directory=WEB)),
    ]
