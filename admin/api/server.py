"""The API of one side: its operations, people's sessions and the stream of changes, over one installation."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from admin.api.callers import ApiCallers, ApiSide
from admin.api.changes import ChangesRoute
from admin.api.problems import problem
from admin.api.routes import ApiRoutes
from admin.api.sign_in_routes import SignInRoutes
from billing.api import LongRuns, SignIns, Stores
from core.errors import Refusal
from core.network.hosts import is_loopback
from core.operations import registered
from server.api import CallRates

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class Unrouted:
    """Answers as a problem for a path that there is not, or a method that a path does not take."""

    def __init__(self, served: Sequence[BaseRoute]) -> None:
        self._served = [route for route in served if isinstance(route, Route)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        path = scope["path"]
        here = [route for route in self._served if route.path_regex.match(path)]
        takes = {method for route in here for method in route.methods or ()}
        if not takes:
            text = "there is no such path: /openapi.json lists all"
            reply = problem(Refusal("bad_request", text, unknown=True))
        else:
            methods = ", ".join(sorted(takes - {"HEAD"}))
            reply = problem(Refusal("bad_request", f"this path takes {methods}"), 405)
            reply.headers["allow"] = methods
        await reply(scope, receive, send)


class ApiServer:
    """Serves those operations that somebody of this side may do. `bind`: the address that it listens on."""

    def __init__(self, stores: Stores, side: ApiSide, bind: str, rates: CallRates) -> None:
        operations = [each for each in registered().values() if side.serves(each)]
        sign_ins = SignIns(stores.settings, stores.db, stores.redis, side.staff)
        self.callers = ApiCallers(stores, side, is_loopback(bind))
        self.changes = ChangesRoute(stores, self.callers)
        self.runs = LongRuns(stores)
        self._parts = (
            SignInRoutes(stores, self.callers, sign_ins, operations, rates),
            self.changes,
            ApiRoutes(stores, self.runs, self.callers, operations),
        )

    def routes(self) -> list[BaseRoute]:
        """All routes, and last what answers for paths and methods that there are not."""
        served = [route for part in self._parts for route in part.routes()]
        return [*served, Route("/api/{rest:path}", Unrouted(served), methods=METHODS)]

    def end(self) -> None:
        """End the streams that would keep the process from stopping, and begin no more runs."""
        self.changes.ending.set()
        self.runs.end()
