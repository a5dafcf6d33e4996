"""Who shows nothing, and who shows another tenant's key, learns nothing: not even whether a thing exists.

All routes and all messages are swept: one that is new is a stranger's to be refused until it is listed here.
"""

import ast
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from starlette.routing import BaseRoute, Mount, Route
from websockets.exceptions import ConnectionClosed

from admin.api.callers import OPERATORS_SIDE, TENANTS_SIDE, ApiSide
from admin.console import Console
from billing.api import create_key, create_project, create_tenant
from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7
from core.operations import registered
from core.sql.database import Database
from server.access.authorization import ConversationOwner
from server.conversations.store import Turn
from server.http.app import routes
from server.http.health import Health
from server.protocol.messages import ClientMessage, Hello
from tests.server.http_site import ORIGIN, HttpSite, bearer
from tests.server.site import Site, running_site
from tests.support.redis import Redis

# What is answered to whoever asks, and why. Every other route refuses them.
GATEWAY_PUBLIC = {
    "/": "the chat page, in which nothing is secret",
    "/web": "the files of the page and of the client",
    "/web/client": "the files of the client",
    "/v1/login": "takes a key or a link and makes a session",
    "/v1/logout": "ends the browser's own session, if it has one",
    "/v1/me": "says who is signed in, which may be nobody: a page asks before anyone is",
    "/healthz": "the process answers: for a balancer",
    "/readyz": "yes or no: for a balancer",
}
CONSOLE_PUBLIC = {
    "/": "leads to the console's page",
    "/console": "leads to the console's page",
    "/console/{path:path}": "the console's page, in which nothing is secret",
    "/web": "the files of the page",
    "/tables": "the page of tables and its files",
    "/openapi.json": "what the API takes and answers, the same for every installation",
    "/api/sign-in": "takes a one-time code or a password and makes a session",
    "/api/sign-out": "ends the browser's own session, if there is one",
    "/api/{rest:path}": "says that there is no such path",
    "/healthz": "the process answers: for a balancer",
}
OPERATORS_PAGES = ("/", "/console", "/console/{path:path}", "/tables")
PORTAL_PUBLIC = {
    "/": "leads to the portal's page",
    "/portal": "leads to the portal's page",
    "/portal/{path:path}": "the portal's page, in which nothing is secret",
    **{
        path: why
        for path, why in CONSOLE_PUBLIC.items()
        if path.startswith(("/web", "/openapi", "/api", "/h"))
    },
}
SIDES_PUBLIC = ((OPERATORS_SIDE, CONSOLE_PUBLIC), (TENANTS_SIDE, PORTAL_PUBLIC))
LISTED = "refuse strangers there, or list it as public above, with a reason"
OF_OPERATIONS = (  # the one place that makes a route of each operation
    "Route(f'/api{each.path}', partial(self._call, each), methods=[each.method], name=each.name)"
)
CONSOLE_KEYED = {"/v1/usage", "/v1/costs"}
# Not HTTP, and swept below: nothing is served over it before a hello.
SOCKET = "/v1/ws"
UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"
MAKERS = {"Route", "Mount", "WebSocketRoute", "add_route", "add_websocket_route", "mount"}
# Preflights tell which sites may ask, never of what.
METHODS_LEFT_OUT = {"HEAD", "OPTIONS"}
WRONG_KEY = "pk_ffffffffffff_" + "0" * 48


def swept(served: list[BaseRoute], public: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Method and path of all that is not listed as public."""
    assert public.keys() <= {route.path for route in served if isinstance(route, Route | Mount)}
    for route in served:
        assert isinstance(route, Route | Mount)
        if route.path in public:
            continue
        assert isinstance(route, Route), f"{route.path} is neither swept nor listed: {LISTED}"
        for method in sorted((route.methods or set()) - METHODS_LEFT_OUT):
            yield method, route.path


def said(reply: httpx.Response) -> tuple[int, str, list[str]]:
    """All that an answer tells: status, text, and the names of its headers."""
    return reply.status_code, reply.text, sorted(reply.headers)


async def a_conversation(site: HttpSite) -> str:
    """One that exists."""
    now = now_ms()
    turn = Turn(uuid7(now), uuid7(now), "hello", "smollm2", now)
    await site.edge.conversations.open_turn(
        site.tenant, ConversationOwner(site.project, site.key_id, ""), turn
    )
    return turn.conversation


async def another_tenants_key(database: Database) -> str:
    """Of one that has nothing."""
    tenant = (await create_tenant(database, "other")).tenant_id
    project = await create_project(database, tenant, "web")
    return (await create_key(database, tenant, project.id))[1]


@pytest.mark.parametrize("shown", [{}, bearer(WRONG_KEY), {"cookie": "parley=x; __Host-parley=x"}])
async def test_every_route_refuses_a_stranger_alike(site: HttpSite, shown: dict[str, str]):
    """401, whether the thing exists or not, and the same words to all."""
    exists = await a_conversation(site)
    found = list(swept(routes(site.edge, Health(site.edge)), GATEWAY_PUBLIC))
    assert len(found) >= 8
    for method, path in found:
        answers = {
            said(await site.client.request(method, path.replace("{id}", id), headers=shown))[:2]
            for id in (exists, UNKNOWN, site.key_id, "x")
        }
        assert len(answers) == 1, (method, path)
        [(status, text)] = answers
        assert (status, '"unauthorized"' in text) == (401, True), (method, path, LISTED, text)


async def test_what_another_tenant_has_is_unknown(site: HttpSite, sqlite: Database):
    """Every route that takes an id: what exists elsewhere answers as what exists nowhere."""
    exists, theirs = await a_conversation(site), bearer(await another_tenants_key(sqlite))
    for method, path in swept(routes(site.edge, Health(site.edge)), GATEWAY_PUBLIC):
        if "{id}" in path:
            body = {"title": "theirs"} if method == "PATCH" else None
            replies = [
                (id, await site.client.request(method, path.replace("{id}", id), headers=theirs, json=body))
                for id in (exists, UNKNOWN)
            ]
            elsewhere, nowhere = [
                (reply.status_code, reply.text.replace(id, "the id"), sorted(reply.headers))
                for id, reply in replies
            ]
            assert elsewhere == nowhere, (method, path)
            assert elsewhere[0] in (401, 403, 404) or elsewhere[1] == "{}", (method, path, elsewhere)
    mine = await site.client.get(f"/v1/conversations/{exists}/messages", headers=site.bearer)
    assert mine.status_code == 200  # it was there all the time


def test_no_route_is_served_that_is_not_swept(
    site: HttpSite, settings: Settings, redis: Redis, sqlite: Database
):
    """Wherever in the product a route is made: also one of an application that nobody here knows."""
    consoles = [Console(settings, redis, sqlite, side) for side, _ in SIDES_PUBLIC]
    known = [*routes(site.edge, Health(site.edge)), *(route for each in consoles for route in each.routes())]
    paths = {route.path for route in known if isinstance(route, Route | Mount)}
    found = {path for file in product_files() for path in routes_made(file.read_text())}
    assert {SOCKET, OF_OPERATIONS} <= found
    operations = {f"/api{each.path}" for each in registered().values()}
    assert found - {SOCKET, OF_OPERATIONS} - operations == paths - operations


def product_files() -> Iterator[Path]:
    """All modules but the tests'."""
    root = Path(__file__).parents[2]
    for package in ("core", "billing", "engine", "server", "admin"):
        yield from (root / package).rglob("*.py")


def routes_made(text: str) -> Iterator[str]:
    """The paths of all routes that a module makes; one that cannot be read is no path."""
    for node in ast.walk(ast.parse(text)):
        name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in MAKERS:
            path = node.args[0] if node.args else None
            yield (
                path.value
                if isinstance(path, ast.Constant) and isinstance(path.value, str)
                else ast.unparse(node)
            )


def stranger_before(console: Console) -> httpx.AsyncClient:
    """A stranger in front of a console."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=console.app()), base_url=ORIGIN)


@pytest.mark.parametrize(("side", "public"), SIDES_PUBLIC, ids=lambda each: getattr(each, "name", ""))
async def test_every_route_of_a_console_refuses_a_stranger(
    side: ApiSide,
    public: Mapping[str, str],
    site: HttpSite,
    settings: Settings,
    redis: Redis,
    sqlite: Database,
):
    """And a tenant's key is nothing there, but at the usage API, which takes a scope."""
    served = Console(settings, redis, sqlite, side)
    console = stranger_before(served)
    found = list(swept(served.routes(), public))
    assert len(found) >= 6
    for method, path in found:
        strange, keyed = [
            said(await console.request(method, path, headers=shown)) for shown in ({}, site.bearer)
        ]
        first = "error" if path in CONSOLE_KEYED else "type"
        assert (strange[0], next(iter(json.loads(strange[1])))) == (401, first), (method, path, LISTED)
        if path in CONSOLE_KEYED:
            assert (keyed[0], '"forbidden"' in keyed[1]) == (403, True), (method, path)
            guesses = [{}, bearer(WRONG_KEY), {"cookie": f"{side.cookie}=x"}]
            told = {
                said(await console.request(method, f"{path}?{asked}", headers=shown))[:2]
                for shown in guesses[:1] + guesses[2:]
                for asked in ("", f"project={site.project}", "project=none", "cursor=x", "tenant=acme")
            }
            assert told == {strange[:2]}, (method, path)
            wrong = await console.request(method, path, headers=guesses[1])
            assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "unauthorized")
            continue
        assert strange == keyed, (method, path)


@pytest.fixture
async def gateway(settings: Settings, redis: Redis, sqlite: Database) -> AsyncIterator[Site]:
    """A whole gateway with a tenant and no worker."""
    async with running_site(settings, sqlite, redis) as site:
        yield site


FIELDS: dict[str, dict[str, Any]] = {
    "send": {"content": "x"},
    "attach": {"o": 0},
    "ack": {"a": [[1, 1]]},
    "auth": {"token": WRONG_KEY},
}


async def heard(gateway: Site, kind: str, **fields: Any) -> tuple[list[tuple[Any, Any]], int | None]:
    """What a stranger hears for one message instead of a hello: types and codes, and the close code."""
    frames: list[tuple[Any, Any]] = []
    async with gateway.open() as peer:
        await peer.tell(kind, **fields)
        try:
            while True:
                frame = await peer.hear()
                frames.append((frame["t"], frame.get("code")))
        except ConnectionClosed as closed:
            return frames, closed.rcvd.code if closed.rcvd else None


async def test_nothing_is_served_before_the_hello(gateway: Site):
    """Every other message is one mistake, with an id that exists and with one that does not."""
    async with gateway.welcomed() as peer:
        exists = await peer.send()
        await peer.hear("accepted")
        for struct in get_args(ClientMessage):
            if struct is Hello:
                continue
            kind = struct.__struct_config__.tag
            takes_id = "id" in struct.__struct_fields__
            answers = [
                await heard(gateway, kind, **FIELDS.get(kind, {}), **({"id": id} if takes_id else {}))
                for id in ((exists, UNKNOWN) if takes_id else (UNKNOWN,))
            ]
            assert answers[0] == answers[-1], kind
            frames, closed = answers[0]
            assert closed is not None, kind
            assert closed >= 4000 or kind == "bye", (kind, closed)
            assert {name for name, _ in frames} <= {"error"}, (kind, frames)


async def test_what_another_tenant_asked_for_is_unknown_over_the_socket(gateway: Site):
    """Attach, detach and cancel of a request that exists elsewhere, and of one that exists nowhere."""
    async with gateway.welcomed() as peer:
        exists = await peer.send()
        await peer.hear("accepted")
        async with gateway.welcomed(await gateway.foreign_key()) as other:
            for kind, fields in (("attach", {"o": 0}), ("cancel", {}), ("detach", {})):
                answers: list[dict[str, Any]] = []
                for id in (exists, UNKNOWN):
                    await other.tell(kind, id=id, **fields)
                    await other.tell("ping", ts=1)
                    frame = await other.hear()
                    if frame["t"] != "pong":
                        await other.hear("pong")
                    answers.append({name: "" if value == id else value for name, value in frame.items()})
                assert answers[0] == answers[1], kind
                assert answers[0]["t"] in ("error", "pong"), kind
        await peer.tell("cancel", id=exists)
        assert (await peer.hear("cancel_ok"))["state"] == "queued"  # nobody else ended it


async def test_a_resume_tells_nothing_of_others(gateway: Site):
    """A hello that names a request of another tenant hears what it would of one that does not exist."""
    async with gateway.welcomed() as peer:
        exists = await peer.send()
        await peer.hear("accepted")
        key = await gateway.foreign_key()
        told: list[list[dict[str, Any]]] = []
        for id in (exists, UNKNOWN):
            requests = [{"id": id, "epoch": epoch, "o": 0} for epoch in (1, None)]
            async with gateway.welcomed(key, resume={"requests": requests}) as other:
                told.append([each | {"id": ""} for each in other.welcome["requests"]])
        assert told == [[{"id": "", "state": "gone", "why": "not_resumable"}]] * 2
