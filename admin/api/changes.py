"""GET /api/changes: one stream of server-sent events of what changed, for pages that show it.

An event's id is the entry's in Redis: a browser that reconnects sends it as Last-Event-ID and misses nothing
that the stream still has. Members see their tenant's changes, staff all;
who may not read the audit log sees that there was one.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress

import msgspec
from msgspec.structs import replace
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from admin.api.callers import ApiCallers
from admin.api.sign_in_routes import refusing
from admin.api.still import may_still
from billing.api import OperationActor, RecordedChange, Stores, read_changes
from core.clock import iso_time, monotonic, now_ms
from core.errors import Refusal, Refused, bad_request
from core.operations import registered

STREAMS_MAX = 500
STREAMS_OF_CALLER_MAX = 8
READ_AT_ONCE = 200
POLL_SECONDS = 1.0
ALIVE_SECONDS = 15.0
STILL_SECONDS = 10.0
STREAM_SECONDS_MAX = 600.0
OF_PEOPLE = ("membership.", "person.", "session.", "token.", "tenant.")  # what may end a caller
UNTOLD = dict.fromkeys(("action", "target", "author", "source"), "")
LAST_ID = re.compile(r"\d{1,15}-\d{1,10}", re.ASCII)
HEADERS = {"cache-control": "no-store, no-transform", "x-accel-buffering": "no"}


class ChangesRoute:
    """The stream, for callers of one side. It ends after some minutes, and soon after its caller's session,
    token or role has; browsers come again by themselves."""

    def __init__(self, stores: Stores, callers: ApiCallers) -> None:
        self._stores = stores
        self._callers = callers
        self._open = Counter[str]()
        self.ending = asyncio.Event()

    def routes(self) -> list[BaseRoute]:
        """The one route."""
        return [Route("/api/changes", refusing(self.changes), methods=["GET"])]

    async def changes(self, request: Request) -> Response:
        """Changes behind `Last-Event-ID` or `?after=`; without one those from now on."""
        actor, _ = await self._callers.whoever(request)
        after = request.headers.get("last-event-id") or request.query_params.get("after") or ""
        if after and LAST_ID.fullmatch(after) is None:
            raise bad_request("expected the id of an event", field="last-event-id")
        if (full := self._full(actor)) is not None:
            raise Refused(full)
        if request.method == "HEAD":
            return Response(headers=HEADERS, media_type="text/event-stream")
        return StreamingResponse(
            self.events(actor, after or f"{now_ms()}-0"), headers=HEADERS, media_type="text/event-stream"
        )

    async def events(self, actor: OperationActor, after: str) -> AsyncGenerator[bytes]:
        """The events that this caller may see behind an id, as they come."""
        if self._full(actor) is not None:
            return  # of many that were let in at once
        self._open[actor.caller] += 1
        began = alive = looked = monotonic()
        try:
            yield b"retry: 2000\n\n"
            while monotonic() - began < STREAM_SECONDS_MAX and not self.ending.is_set():
                after, pieces, of_people = await self._behind(actor, after)
                if of_people or monotonic() - looked >= STILL_SECONDS:
                    looked = monotonic()
                    if not await may_still(self._stores, actor):
                        return
                if pieces or monotonic() - alive > ALIVE_SECONDS:
                    alive = monotonic()
                    yield b"".join(pieces) or b": alive\n\n"
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.ending.wait(), POLL_SECONDS)
        finally:
            self._open[actor.caller] -= 1
            self._open += Counter()  # without those that have none left

    def _full(self, actor: OperationActor) -> Refusal | None:
        """Why this caller follows no more here: they do, or all together, too often."""
        if self._open[actor.caller] >= STREAMS_OF_CALLER_MAX:
            told = f"you follow changes {STREAMS_OF_CALLER_MAX} times here: close one"
            return Refusal("rate_limited", told, retry=True, after_ms=5000)
        if self._open.total() >= STREAMS_MAX:
            return Refusal("overloaded", "too many follow changes here", retry=True, after_ms=5000)
        return None

    def _reads_audit(self, actor: OperationActor) -> bool:
        """Whether this caller may see who changed what; others learn that something did."""
        return actor.role in registered()["audit.list"].may

    async def _behind(self, actor: OperationActor, after: str) -> tuple[str, list[bytes], bool]:
        """Events behind an id, the id of the last entry that was read, and whether one is of who may be here.
        Redis comes again where it does not answer, and the id is known."""
        last, pieces, of_people = after, list[bytes](), False
        with suppress(RedisError, OSError):
            stores = self._stores
            async for last, change in read_changes(stores.redis, stores.settings, after, READ_AT_ONCE):
                of_people = of_people or change.action.startswith(OF_PEOPLE)
                if actor.tenant in (None, change.tenant):
                    seen = change if self._reads_audit(actor) else replace(change, **UNTOLD)
                    pieces.append(event_of(last, seen))
        return last, pieces, of_people


def event_of(id: str, change: RecordedChange) -> bytes:
    """One server-sent event. Pure."""
    facts = msgspec.structs.asdict(change)
    facts["at"] = iso_time(facts.pop("at_ms"))
    return f"id: {id}\nevent: change\ndata: ".encode() + msgspec.json.encode(facts) + b"\n\n"
