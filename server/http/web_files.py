"""The files of the chat page, as scripts/page.py built them, and the browser's client: in a checkout under
clients/js, in an installed platform within the page's folder."""

import os
from collections.abc import Sequence
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Scope

WEB = Path(__file__).parent.parent / "web"
BUILT = WEB / "dist"
CLIENT_INSTALLED = WEB / "client"
CLIENT_SOURCES = WEB.parent.parent / "clients" / "js" / "src"
HASHED = "assets"
FOR_EVER = "public, max-age=31536000, immutable"
TAG_LETTERS = 32
ENCODINGS = {"br": ".br", "gzip": ".gz"}
UNBUILT = "The page was not built yet. In a checkout, run `make up`, or `.venv/bin/python -m scripts.page`.\n"


class PageFiles(StaticFiles):
    """The page's folder or the client's. A file goes out as it was compressed at build time, where it was and
    the browser takes that; one whose name holds its hash is never asked for again."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """The file, or what is new of it."""
        asked = Headers(scope=scope)
        headers = {"vary": "accept-encoding"}
        path, encoding = compressed(Path(full_path), asked.get("accept-encoding", ""))
        if Path(full_path).parent.name == HASHED:
            headers["cache-control"] = FOR_EVER
        else:  # files of two wheels may have one size and one time
            headers["etag"] = f'"{sha256(path.read_bytes()).hexdigest()[:TAG_LETTERS]}"'
        if encoding:
            headers["content-encoding"] = encoding
        kind = guess_type(full_path)[0]
        response = FileResponse(path, status_code, headers, kind, stat_result=path.stat())
        return (
            NotModifiedResponse(response.headers)
            if self.is_not_modified(response.headers, asked)
            else response
        )

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """The file; none where a part of its path begins with a dot: what builds note for themselves."""
        if any(part.startswith(".") for part in Path(path).parts):
            return "", None
        return super().lookup_path(path)

    async def check_config(self) -> None:
        """Nothing: in a checkout without a build there is no folder, and each file is a 404."""


def compressed(path: Path, accepted: str) -> tuple[Path, str]:
    """The smallest form of a file that an `accept-encoding` takes, and its encoding: "" is none."""
    tokens = [token.split(";") for token in accepted.lower().replace(" ", "").split(",")]
    names = {name for name, *parameters in tokens if not any(map(_refuses, parameters))}
    for encoding, ending in ENCODINGS.items():
        smaller = path.with_name(path.name + ending)
        if encoding in names and smaller.is_file():
            return smaller, encoding
    return path, ""


def _refuses(parameter: str) -> bool:
    """True for a quality of zero, however it is written; what is no number says nothing."""
    name, _, quality = parameter.partition("=")
    try:
        return name == "q" and float(quality) <= 0
    except ValueError:
        return False


def client_folder(places: Sequence[Path] = (CLIENT_INSTALLED, CLIENT_SOURCES)) -> Path:
    """Folder of the browser's client."""
    return next(place for place in places if place.is_dir())


def web_routes(page_folders: Sequence[Path] = (BUILT,)) -> list[BaseRoute]:
    """The client under /web/client/, the page's files under /web/: of the first folder that has one."""
    files = PageFiles(directory=page_folders[0], check_dir=False)
    files.all_directories += page_folders[1:]
    return [Mount("/web/client", PageFiles(directory=client_folder())), Mount("/web", files)]


async def page(request: Request) -> Response:
    """The chat page."""
    if not (BUILT / "index.html").is_file():
        return PlainTextResponse(UNBUILT, 503)
    return await PageFiles(directory=BUILT).get_response("index.html", request.scope)
