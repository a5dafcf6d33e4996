"""One user learns nothing of another's prompt from what their own request cost."""

import itertools
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from msgspec import UNSET
from starlette.requests import Request
from starlette.routing import Route

from billing.api import Principal, Scope
from billing.tenants import tenancy
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal, Refused
from core.ids import uuid7
from core.sql.database import Database
from engine.request import input_decoder
from server.access import amount_visibility
from server.access.authorization import cache_salt
from server.http.app import routes
from server.http.guard import guarded
from server.http.health import Health
from server.http.replies import remember_caller
from server.protocol import codec
from server.protocol.codec import Subprotocol
from server.protocol.codes import ErrorCode, limit_facts, refusal
from server.protocol.messages import (
    Accepted,
    Cost,
    End,
    EndUsage,
    Error,
    Left,
    QueuePosition,
    QuotaLeft,
    Timing,
)
from tests.server.http_site import ORIGIN, http_site
from tests.server.site import RawPeer, Site, running_site
from tests.support.patience import wait_until
from tests.support.redis import Redis

SERVICE = Principal("t1", "p1", "k1", "", frozenset({"chat"}), "interactive", None, False, "k1")
ANN = replace(SERVICE, user="ann", fixed_user=True)
END = End(1, 9, "stop", EndUsage(20, 16, 3, 23), Cost(70, "usd"), Timing(1, 2, 3), "h")


def test_services_see_amounts_and_users_where_their_tenant_shows_them():
    """Of an end, what is left says only what the user sent and got."""
    shown = replace(ANN, shows_costs=True)
    for who in (SERVICE, shown, None):
        assert amount_visibility.seen_by(who, END) is END
    for who in (ANN, replace(ANN, user="")):
        seen = amount_visibility.seen_by(who, END)
        assert isinstance(seen, End)
        assert (seen.cost, seen.usage) == (UNSET, EndUsage(20, UNSET, 3, 23))
        assert (seen.reason, seen.timing, seen.h) == (END.reason, END.timing, END.h)


def test_sums_that_amounts_can_be_reckoned_from_are_hidden_too():
    """A budget's rest before and after a request is its cost."""
    left = Left(100, 40)
    quota = QuotaLeft(left, left, left)
    accepted = Accepted("id", 1, 1, False, "bulk", QueuePosition(0, 0), quota)
    seen = amount_visibility.seen_by(ANN, accepted)
    assert isinstance(seen, Accepted)
    assert seen.quota == QuotaLeft()
    limited = ErrorCode.RATE_LIMITED
    for code, scope, hidden in (
        (ErrorCode.BUDGET_EXCEEDED, "user", True),
        (limited, "user", False),
        (limited, "tenant", True),
        (limited, "project", True),
        (limited, "key", True),
    ):
        error = Error(code, "of 9", False, after_ms=5, scope=scope, limit=9, remaining=1, spent=7, held=1)
        refused = amount_visibility.seen_by(ANN, error)
        assert isinstance(refused, Error)
        assert (refused.code, refused.scope, refused.after_ms) == (code, scope, 5)
        assert ("9" in refused.message) is not hidden
        numbers = (refused.limit, refused.remaining, refused.spent, refused.held)
        assert numbers == ((None,) * 4 if hidden else (9, 1, 7, 1))
        assert amount_visibility.seen_by(SERVICE, error) is error


SCOPES = (None, *Scope, "caller", "connection", "address", "something new")
NUMBERS = {"limit": 9191, "remaining": 9292, "spent": 9393, "held": 9494}


@pytest.mark.parametrize("transport", ["websocket", "http"])
async def test_no_refusal_tells_a_user_the_tenants_numbers(transport: str):
    """Of all codes and scopes: those of the user's own rates alone are told, over both transports alike."""
    for code, scope in itertools.product(ErrorCode, SCOPES):
        refused = replace(refusal(code, "of 9191", after_ms=5, scope=scope), dimension="day", **NUMBERS)
        seen = {who.user: await _seen(transport, who, refused) for who in (SERVICE, ANN)}
        own = (
            scope in (None, "user", "caller", "connection", "address")
            and code not in amount_visibility.OF_MONEY
        )
        assert "9191" in seen[""], (code, scope)
        told = [number for number in ("9191", "9292", "9393", "9494") if number in seen["ann"]]
        assert bool(told) is own, (code, scope, seen["ann"])
        assert code in seen["ann"]


async def _seen(transport: str, who: Principal, refused: Refusal) -> str:
    """All that the caller gets of a refusal."""
    if transport == "websocket":
        error = Error(refused.code, refused.message, refused.retry, **limit_facts(refused))
        return codec.encode(amount_visibility.seen_by(who, error), Subprotocol.JSON).decode()

    async def refusing(request: Request) -> None:
        remember_caller(request, who)
        raise Refused(refused)

    transport_of = httpx.ASGITransport(app=guarded([Route("/", refusing)]))
    async with httpx.AsyncClient(transport=transport_of, base_url="http://gateway.test") as client:
        reply = await client.get("/")
    return f"{reply.headers} {reply.text}"


FOR_STRANGERS = {"/v1/login", "/v1/logout"}
UNTOLD = (
    "does not begin with who calls: `await caller(request, edge)` or `reader` (server/http/caller.py), "
    "which decide what a refusal may tell. One for strangers stands in FOR_STRANGERS"
)


async def test_routes_know_whom_they_refuse(sqlite: Database, redis: Redis, settings: Settings):
    """Each that is for somebody says so before anything of the tenant's can be refused."""
    async with http_site(sqlite, redis, settings) as site:
        told: list[Any] = []

        def tell(principal: Principal) -> None:
            told.append(principal)
            numbers = refusal(ErrorCode.RATE_LIMITED, "of 9191", scope="tenant", limit=9191)
            raise Refused(numbers)

        site.edge.rates.known = tell  # pyright: ignore[reportAttributeAccessIssue]
        anne = {"authorization": f"Bearer {await site.another_key(user='anne')}", "origin": ORIGIN}
        answers: dict[str, httpx.Response] = {}
        for route in routes(site.edge, Health(site.edge)):
            if isinstance(route, Route) and route.path.startswith("/v1/") and route.path not in FOR_STRANGERS:
                for method in (route.methods or set()) - {"HEAD", "OPTIONS"}:
                    told.clear()
                    reply = await site.client.request(method, route.path, headers=anne)
                    answers[f"{method} {route.path}"] = reply
                    assert len(told) == 1, f"{method} {route.path} {UNTOLD}"
        assert len(answers) >= 8
        assert {name: each.status_code for name, each in answers.items() if each.status_code != 429} == {}
        tell_tales = [name for name, each in answers.items() if "9191" in f"{each.headers} {each.text}"]
        assert not tell_tales, f"{tell_tales} tell a user the tenant's numbers: {UNTOLD}"


def test_prefixes_are_cached_by_owner_where_the_tenant_wants_it():
    """Nobody's request is quicker or cheaper for what another owner sent; one owner's still are."""
    assert cache_salt(SERVICE, "") == cache_salt(ANN, "ann") == ""
    apart = [
        (replace(who, cache_by_owner=True), user)
        for who, user in (
            (SERVICE, ""),
            (SERVICE, "ann"),
            (SERVICE, "bob"),
            (replace(SERVICE, key="k2", owner_key="k2"), ""),
            (replace(SERVICE, project="p2"), ""),
            (replace(SERVICE, project="p2"), "ann"),
        )
    ]
    salts = [cache_salt(who, user) for who, user in apart]
    assert len(set(salts)) == len(salts)
    assert all(salts)
    own = replace(ANN, cache_by_owner=True)
    assert cache_salt(own, "ann") == cache_salt(apart[1][0], "ann")
    rotated = replace(SERVICE, key="k9", cache_by_owner=True)
    assert cache_salt(rotated, "") == salts[0]


@pytest.fixture
async def gateway(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A whole gateway with one tenant."""
    async with running_site(settings, sqlite, redis) as site:
        yield site


async def _ask(site: Site, peer: RawPeer) -> dict[str, Any]:
    await peer.send()
    return await peer.hear("end")


async def test_what_a_user_is_told_at_a_gateway(gateway: Site):
    """Live, stored and listed; a change holds for open connections. The salt goes with the request."""
    annes = await gateway.another_key(user="anne")
    headers = {"authorization": f"Bearer {annes}"}
    conversation = uuid7(now_ms())
    async with (
        gateway.answering("ok"),
        gateway.welcomed(annes) as anne,
        gateway.welcomed() as service,
        httpx.AsyncClient(base_url=gateway.url, headers=headers) as http,
    ):
        await anne.send(conversation=conversation)
        end = await anne.hear("end")
        assert "cost" not in end
        assert set(end["usage"]) == {"input", "output", "total"}
        told = await _ask(gateway, service)
        assert {"cost"} <= set(told)
        assert {"cached_input"} <= set(told["usage"])
        path = f"/v1/conversations/{conversation}/messages"
        (_, answer) = (await http.get(path)).json()["messages"]
        assert (answer["cost"], "cached_input" in answer["usage"]) == (None, False)
        assert (await http.get("/v1/limits")).json()["budgets"] == []
        (model,) = (await http.get("/v1/models")).json()["models"]
        assert "prices" not in model
        await tenancy.set_tenant(gateway.database, gateway.tenant, shows_costs=True)
        await tenancy.publish_news(gateway.redis, gateway.tenant, tenancy.ACCESS_CHANGED)

        async def shown() -> bool:
            return "cost" in await _ask(gateway, anne)

        await wait_until(shown)
        (_, answer) = (await http.get(path)).json()["messages"]
        assert answer["cost"]["currency"] == "usd"
        (model,) = (await http.get("/v1/models")).json()["models"]
        assert model["prices"]["currency"] == "usd"


async def test_the_salt_goes_with_the_request(gateway: Site):
    """To the engine, by way of the queue."""
    await tenancy.set_tenant(gateway.database, gateway.tenant, cache_by_owner=True)
    async with gateway.welcomed(await gateway.another_key(user="anne")) as anne:
        id = await anne.send()
        await anne.hear("accepted")
        packed = await gateway.redis.get(f"{{p:{gateway.settings.pool}}}in:{gateway.tenant}:{id}")
        assert isinstance(packed, bytes)
        assert input_decoder.decode(packed).salt
