"""The stream of changes ends with what let its caller in, and nobody takes all of them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

import pytest

from admin.api import changes
from admin.api.callers import OPERATORS_SIDE
from admin.api.changes import STREAMS_OF_CALLER_MAX, ChangesRoute
from admin.api.server import ApiServer
from billing.api import Stores, actor_of_session, find_person_session
from billing.people.person_sessions import end_person_session
from billing.tables.tenants import PLATFORM
from billing.unit_of_work.actors import OperationActor
from core.actor import Author
from core.operations import Role
from server.api import CallRates
from tests.admin.api.conftest import ApiSite
from tests.support.patience import patience


@pytest.fixture
def route(site: ApiSite) -> ChangesRoute:
    """The operators' stream."""
    stores = Stores(site.settings, site.database, lambda: site.redis)
    return ApiServer(stores, OPERATORS_SIDE, "127.0.0.1", CallRates(site.settings)).changes


async def test_a_stream_ends_with_its_session(
    site: ApiSite, route: ChangesRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon after who follows was signed out, wherever; what is told until then is no more than before."""
    monkeypatch.setattr(changes, "STILL_SECONDS", 0.0)
    ann, olga = await site.signed_in(), await site.signed_in(name="Olga")
    await ann.post("/api/tenants", json={"name": "acme", "reason": "r"})
    signed_in = await find_person_session(site.database, ann.cookies["parley_staff"])
    assert signed_in is not None
    async with patience(), aclosing(route.events(actor_of_session(signed_in, True), "0-0")) as events:
        assert [await anext(events), b"tenant.create" in await anext(events)] == [b"retry: 2000\n\n", True]
        await end_person_session(site.database, PLATFORM, signed_in.session.id)
        await olga.post("/api/tenants", json={"name": "other", "reason": "r"})
        assert [each async for each in events] == []


async def test_who_is_removed_is_told_nothing_from_then_on(site: ApiSite, route: ChangesRoute) -> None:
    """Their end is a change itself, on which the stream looks at once: not even that is told to them."""
    olga, ann = await site.signed_in(name="Olga"), await site.signed_in()
    await ann.post("/api/tenants", json={"name": "acme", "reason": "r"})
    signed_in = await find_person_session(site.database, ann.cookies["parley_staff"])
    assert signed_in is not None
    async with patience(), aclosing(route.events(actor_of_session(signed_in, True), "0-0")) as events:
        assert [await anext(events), b"tenant.create" in await anext(events)] == [b"retry: 2000\n\n", True]
        await olga.post(f"/api/people/{signed_in.person.id}/close", json={"reason": "r"})
        await olga.post("/api/tenants", json={"name": "other", "reason": "r"})
        assert [each async for each in events] == []


async def test_nobody_takes_all_streams(site: ApiSite, route: ChangesRoute) -> None:
    """One caller has so many at a process, also of those that begin at once; others follow all the same, and
    one that is closed makes room."""
    eve = OperationActor(Author("Eve", "api"), Role.VIEWER, tenant="t", id="eve")
    async with AsyncExitStack() as stack:

        async def follow(who: OperationActor) -> AsyncGenerator[bytes]:
            return await stack.enter_async_context(aclosing(route.events(who, "0-0")))

        streams = [await follow(eve) for _ in range(STREAMS_OF_CALLER_MAX + 3)]
        begun = await asyncio.gather(*(anext(each, None) for each in streams))
        assert len([each for each in begun if each is not None]) == STREAMS_OF_CALLER_MAX
        other = await follow(OperationActor(Author("Ann", "api"), Role.OWNER, id="ann"))
        assert await anext(other) == b"retry: 2000\n\n"
        await streams[0].aclose()
        assert await anext(await follow(eve)) == b"retry: 2000\n\n"


async def test_a_head_of_the_stream_is_answered_and_over(site: ApiSite) -> None:
    """It holds no stream, and not its connection either."""
    ann = await site.signed_in()
    async with patience():
        reply = await ann.head("/api/changes")
    assert (reply.status_code, reply.content) == (200, b"")


async def test_too_many_are_told_so(site: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """With when to come again."""
    ann = await site.signed_in()
    for most, status in (("STREAMS_OF_CALLER_MAX", 429), ("STREAMS_MAX", 503)):
        with monkeypatch.context() as few:
            few.setattr(changes, most, 0)
            reply = await ann.get("/api/changes")
        assert (reply.status_code, reply.headers["retry-after"]) == (status, "5")
