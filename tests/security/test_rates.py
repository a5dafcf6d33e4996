"""Everything that anybody may ask is under a bucket: by address first, by caller once he is known."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args

import pytest
from starlette.routing import Mount, Route
from structlog.testing import capture_logs

from billing.api import Principal
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.ids import uuid7
from core.sql.database import Database
from core.web.signins import FailedSignins
from server.access.rates import CallRates
from server.connection.read_pace import SAVED_SECONDS, ReadPace
from server.http.app import routes
from server.http.call_limit import FREE
from server.http.health import Health
from server.protocol import codec
from server.protocol.messages import ClientMessage
from tests.server.http_site import ORIGIN, HttpSite, bearer, http_site
from tests.server.site import running_site
from tests.support.redis import Redis

ONE = 0.1
"""A second: one may be saved up."""
OPEN = {"/", "/web", "/v1/login", "/v1/logout", "/healthz", "/readyz"}
"""Where nobody has to be known: under the address's bucket only."""
PACED = {"detach", "ack", "ping", "pong", "bye"}
"""Messages that cost next to nothing: no more of them is read than a connection's pace allows."""


def calls(site: HttpSite) -> Iterator[tuple[str, str]]:
    """Each route's method and path."""
    for route in routes(site.edge, Health(site.edge)):
        match route:
            case Route():
                method = next(each for each in sorted(route.methods or ()) if each != "HEAD")
                yield method, route.path.replace("{id}", uuid7(now_ms()))
            case Mount():
                yield "GET", f"{route.path}/index.html"
            case _:
                pytest.fail(f"{route} is not looked at here")


async def refused(site: HttpSite, method: str, path: str, scope: str) -> bool:
    """Whether the next call is one too many."""
    reply = await site.client.request(method, path, headers=site.bearer | {"origin": ORIGIN})
    if reply.status_code != 429:
        return False
    error = reply.json()["error"]
    assert (error["code"], error["scope"], error["retry"]) == ("rate_limited", scope, True)
    assert 0 < error["after_ms"] <= 1000 / ONE
    assert int(reply.headers["retry-after"]) * 1000 >= error["after_ms"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    return True


async def login(site: HttpSite, body: dict[str, str]) -> int:
    """The status of a sign-in."""
    return (await site.client.post("/v1/login", json=body, headers={"origin": ORIGIN})).status_code


async def test_every_route_is_under_its_callers_address(sqlite: Database, redis: Redis, settings: Settings):
    """One call is enough to be refused the next, wherever it goes; but what balancers ask is free."""
    assert {"/healthz", "/readyz"} == FREE
    async with http_site(sqlite, redis, settings, calls_per_address_per_second=ONE) as site:
        await site.client.get("/web/none")
        for method, path in calls(site):
            assert await refused(site, method, path, "address") is (path not in FREE), path


async def test_every_route_for_somebody_is_under_his_own_bucket(
    sqlite: Database, redis: Redis, settings: Settings
):
    async with http_site(sqlite, redis, settings, calls_per_caller_per_second=ONE) as site:
        await site.client.get("/v1/models", headers=site.bearer)
        for method, path in calls(site):
            open_to_all = any(path == each or path.startswith(f"{each}/") for each in OPEN - {"/"})
            assert await refused(site, method, path, "caller") is not (open_to_all or path == "/"), (
                f"{path}: nobody's bucket counts it: have it know its caller, or list it in OPEN above"
            )
        other = await site.another_key()
        assert (await site.client.get("/v1/models", headers=bearer(other))).status_code == 200


SERVICE = Principal("t1", "p1", "k1", "", frozenset({"chat"}), "interactive", None, False, "k1")
ANN = replace(SERVICE, user="ann", fixed_user=True)


def full(take: Callable[..., None], *facts: Any) -> bool:
    """Whether the bucket of these has nothing more."""
    try:
        take(*facts)
    except Refused:
        return True
    return False


@pytest.mark.parametrize("bucket", ["known", "send", "ask"])
def test_a_callers_bucket_is_his_own(settings: Settings, bucket: str):
    """A service key's is that of its chain of rotations; each user that it lets in has another, and so has
    another tenant: nobody is held up by a stranger, and nobody gets a second one by rotating a key."""
    few = ("calls_per_caller_per_second", "sends_per_caller_per_second", "asks_per_caller_per_second")
    take = getattr(CallRates(settings.model_copy(update=dict.fromkeys(few, ONE))), bucket)
    of_its_own = (
        SERVICE,
        ANN,
        replace(ANN, user="bob"),
        replace(SERVICE, key="k2", owner_key="k2"),
        replace(SERVICE, tenant="t2"),
        replace(ANN, tenant="t2"),
    )
    assert [full(take, each) for each in of_its_own] == [False] * 6
    assert [full(take, each) for each in of_its_own] == [True] * 6
    for same in (replace(SERVICE, key="k3"), replace(SERVICE, project="p2"), replace(ANN, key="k3")):
        assert full(take, same)


def test_prompts_are_counted_by_tenant(settings: Settings):
    """All users and keys of one share it, and no other tenant does."""
    rates = CallRates(settings.model_copy(update={"prompt_characters_per_tenant_per_second": 10}))
    assert not full(rates.prompt, SERVICE, 1_000_000)
    assert full(rates.prompt, replace(ANN, key="k2", owner_key="k2"), 1)
    assert not full(rates.prompt, replace(SERVICE, tenant="t2"), 1)


@pytest.mark.parametrize("bucket", ["call", "socket", "signin"])
def test_one_customer_of_ipv6_is_one_address(settings: Settings, bucket: str):
    """It has 2^64 of them."""
    few = {
        "calls_per_address_per_second": ONE,
        "sockets_per_address_per_second": ONE,
        "signins_per_address_per_minute": 1,
    }
    take = getattr(CallRates(settings.model_copy(update=few)), bucket)
    addresses = ("2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2")
    assert [full(take, each) for each in addresses] == [False, True, False, False, False]


async def test_signing_in_is_under_a_bucket_of_its_own(sqlite: Database, redis: Redis, settings: Settings):
    """Before anything is read."""
    async with http_site(sqlite, redis, settings, signins_per_address_per_minute=1) as site:
        statuses = [await login(site, {"key": site.key}) for _ in range(2)]
        assert statuses == [200, 429]


@pytest.mark.parametrize("shown", ["bearer", "key", "code"])
async def test_a_secret_that_is_no_good_is_counted_logged_and_slowed(
    sqlite: Database, redis: Redis, settings: Settings, shown: str
):
    """And who has a good one is let in at once, though he shares the address: an office behind one NAT."""

    async def attempt(secret: str) -> int:
        if shown == "bearer":
            return (await site.client.get("/v1/models", headers=bearer(secret))).status_code
        return await login(site, {shown: secret})

    wrong = "0" * 32
    async with http_site(sqlite, redis, settings, failed_signins_per_address_per_minute=3) as site:
        with capture_logs() as logs:
            assert [await attempt(wrong) for _ in range(5)] == [401, 401, 401, 429, 429]
        failures = [line for line in logs if line["event"] == "sign_in.failed"]
        assert [(line["address"], line["shown"]) for line in failures] == [("127.0.0.1", shown)] * 3
        assert sum(line["event"] == "sign_in.failing_repeatedly" for line in logs) == 1, (
            "a flood is one line a minute"
        )
        assert wrong not in str(logs)
        if shown != "code":
            assert await attempt(site.key) == 200


async def test_every_message_is_under_a_bucket(sqlite: Database, redis: Redis, settings: Settings):
    """What costs is under its caller's, everything under its connection's."""
    id = uuid7(now_ms())
    asked: dict[str, dict[str, Any]] = {
        "send": {"id": id, "content": "hello", "model": "none"},
        "attach": {"id": id, "o": 0},
        "cancel": {"id": id},
        "auth": {"token": "wrong"},
    }
    kinds = {codec.type_of(kind) for kind in get_args(ClientMessage)}
    assert kinds == asked.keys() | PACED | {"hello"}
    few = {"sends_per_caller_per_second": ONE, "asks_per_caller_per_second": ONE}
    async with running_site(settings, sqlite, redis, **few) as site, site.welcomed() as peer:
        await peer.tell("send", **asked["send"])
        assert (await peer.hear("error", re="send"))["code"] != "rate_limited"
        for kind, fields in asked.items():
            await peer.tell(kind, **fields)
            error = await peer.hear("error", re=kind)
            assert (error["code"], error["scope"], error["retry"]) == ("rate_limited", "caller", True)
            assert 0 < error["after_ms"] <= 1000 / ONE
        async with site.open() as other:  # its hello took what attaches share
            await other.tell("hello", v=1, token=site.key)
            assert (await other.hear("error"))["code"] == "rate_limited"
            assert await other.closed() == 4013
        await peer.quiet()  # it is still here: also a token that was not looked at costs nobody his session


async def test_a_hello_that_is_no_good_is_counted_and_slowed(
    sqlite: Database, redis: Redis, settings: Settings
):
    """The close code says to come again; a good one comes in."""
    async with running_site(settings, sqlite, redis, failed_signins_per_address_per_minute=1) as site:
        for code, close in (("unauthorized", 4501), ("rate_limited", 4013)):
            async with site.open() as peer:
                await peer.tell("hello", v=1, token="wrong")
                assert (await peer.hear("error"))["code"] == code
                assert await peer.closed() == close
        async with site.welcomed():
            pass


async def test_a_hello_costs_more_with_each_request_that_it_goes_on_with(
    sqlite: Database, redis: Redis, settings: Settings
):
    """Each is looked up: a hello of many is not as cheap as one of none."""
    async with running_site(settings, sqlite, redis, asks_per_caller_per_second=1) as site:  # ten saved up
        many = {"requests": [{"id": uuid7(now_ms()), "epoch": 1, "o": 0} for _ in range(9)]}
        async with site.welcomed(resume=many), site.open() as other:
            await other.tell("hello", v=1, token=site.key)
            assert (await other.hear("error"))["code"] == "rate_limited"


def test_who_fails_slows_no_other_address():
    """Of IPv6 a whole /64 is one."""
    failed = FailedSignins(1)
    addresses = ("192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2")
    assert [failed.count(each, "key") > 0 for each in addresses] == [False, True, False, False, True]


def test_a_peer_is_read_at_its_pace():
    """Some seconds are saved up; then what comes waits, and a large frame counts as many."""
    pace = ReadPace(100)
    pace.took(int(100 * SAVED_SECONDS), 10, now=1000.0)
    assert pace.behind_seconds(now=1000.0) == 0
    pace.took(50, 10, now=1000.0)
    assert pace.behind_seconds(now=1000.0) == pytest.approx(0.5)
    assert pace.behind_seconds(now=1000.5) == 0
    pace.took(1, 4096 * 100, now=1000.5)
    assert pace.behind_seconds(now=1000.5) == pytest.approx(1.0)
    free = ReadPace(0)
    free.took(1_000_000, 1, now=1000.0)
    assert free.behind_seconds(now=1000.0) == 0


async def test_a_flood_of_pings_is_answered_at_its_pace(sqlite: Database, redis: Redis, settings: Settings):
    """All of them, in order, and none sooner than the pace allows."""
    slow = {"frames_per_connection_per_second": 400.0}
    async with running_site(settings, sqlite, redis, **slow) as site, site.welcomed() as peer:
        began = now_ms()
        many = int(400 * SAVED_SECONDS) + 160
        for number in range(many):
            await peer.tell("ping", ts=number)
        heard = [(await peer.hear("pong"))["ts"] for _ in range(many)]
        assert heard == list(range(many))
        assert now_ms() - began >= 250
