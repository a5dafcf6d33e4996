"""Limits as clients meet them: a real gateway, Valkey and SQLite, a scripted worker."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from billing.api import (
    AllowanceExtension,
    Quota,
    end_budget,
    pinned_prices,
    push_limits,
    set_budget,
    set_policy,
)
from billing.enforcement.limit_settings import publish_limits_changed
from billing.tenants.tenancy import set_tenant
from billing.wallets import wallets
from core.clock import now_ms
from core.configuration.settings import Settings
from core.sql.database import Database
from parley_client import Client, ProtocolError
from tests.server.requests.refusals import refusal
from tests.server.site import RawPeer, Site, running_site
from tests.support.patience import LivedTime, patience, pause, wait_until
from tests.support.redis import Redis

PROMPT_TOKENS = 24  # "hello" in the template
CHUNK_TOKENS = 16
FLOOD = 150
LONG = "Zażółć 日本語 👩‍👩‍👧 naïve. " * 40


@pytest.fixture
async def thrifty(sqlite: Database, redis: Redis, settings: Settings) -> AsyncGenerator[Site]:
    """A gateway that holds CHUNK_TOKENS of output at first, with room for many requests."""
    changed = {"chunk_tokens": CHUNK_TOKENS, "requests_per_connection_max": 32, "worker_slots": 32}
    async with running_site(settings, sqlite, redis, **changed) as site:
        yield site


async def policy(site: Site, **facts: Any) -> None:
    """Set a limit for the site's tenant."""
    await set_policy(site.database, site.redis, site.tenant, **facts)


async def budget(site: Site, limit_nano: int, **facts: Any) -> str:
    """Set a monthly budget for the site's tenant; its id."""
    facts = {"scope": "tenant", "period": "month"} | facts
    return (await set_budget(site.database, site.redis, site.tenant, limit_nano=limit_nano, **facts)).id


async def cost_of(site: Site, output: int) -> int:
    """What admission reckons for a "hello" and so many tokens of an answer."""
    prices = await pinned_prices(site.database, site.tenant, "tiny")

    def line(tokens: int, price: int) -> int:
        return -(-tokens * price // 1_000_000) + 1 if tokens * price else 0

    dearer = max(prices.input_nano, prices.cached_input_nano)
    request = -(-prices.request_nano // 1_000_000)
    return line(PROMPT_TOKENS, dearer) + line(output, prices.output_nano) + request


async def spent(site: Site, nano: int) -> None:
    """Until the tenant's slot knows that its requests cost so much, and no more."""

    async def settled() -> bool:
        sums = await Quota(site.redis, site.settings).posted(site.tenant)
        assert sums is None or sums.cost_nano <= nano
        return sums is not None and sums.cost_nano == nano

    await wait_until(settled)


async def test_a_rate_says_when_to_come_again_and_means_it(gateway: Site):
    """`after_ms` is there; whoever waits so long gets in, whoever does not is told again."""
    await policy(gateway, scope="tenant", dimension="requests_per_minute", limit=120, burst=3)
    async with gateway.answering("ok"), gateway.welcomed() as peer:
        for _ in range(3):
            await peer.hear("accepted", id=await peer.send())
        error = await refusal(peer)
        assert {name: error[name] for name in ("code", "retry", "scope", "dimension", "limit")} == {
            "code": "rate_limited",
            "retry": True,
            "scope": "tenant",
            "dimension": "requests_per_minute",
            "limit": 120,
        }
        assert 0 < error["after_ms"] <= 500
        await pause(error["after_ms"] / 1000)
        accepted = await peer.hear("accepted", id=await peer.send())
        assert accepted["quota"]["requests"]["limit"] == 120
        assert accepted["quota"]["requests"]["remaining"] < 3


async def test_the_python_client_knows_what_refuses_and_whose_it_is(gateway: Site):
    """One's own budget is told from everybody's by `scope`."""
    whole = await cost_of(gateway, 300)
    await budget(gateway, 100 * whole)
    await budget(gateway, 1, scope="user", period="day")
    async with gateway.answering("ok"), Client(gateway.url, gateway.key) as client:
        ended = await (await client.send("hello")).end()  # nobody's: no budget of users is met
        assert ended.reason == "stop"
        with pytest.raises(ProtocolError) as own:
            await client.send("hello", metadata={"user": "ann"})
        assert (own.value.code, own.value.scope, own.value.dimension) == ("budget_exceeded", "user", "day")
        assert own.value.retry is False
        assert (own.value.limit, own.value.remaining, own.value.spent) == (1, 1, 0)
        assert own.value.resets_at_ms is not None
        assert own.value.resets_at_ms > now_ms()
        await budget(gateway, (ended.cost_nano or 0) + 1)
        await budget(gateway, 100 * whole, scope="user", period="day")
        error = await refused_by(client, "tenant")
        assert (error.code, error.dimension, error.spent) == ("budget_exceeded", "month", ended.cost_nano)


async def refused_by(client: Client, scope: str) -> ProtocolError:
    """The refusal by this scope's limit, once its news are there."""

    async def refused() -> ProtocolError | None:
        try:
            await client.send("hello", metadata={"user": "ann"})
        except ProtocolError as error:
            return error if error.scope == scope else None
        return None

    found = await wait_until(refused)
    assert found is not None
    return found


async def test_an_edit_counts_within_a_second_and_forgets_nothing(gateway: Site):
    """A raised limit lets in at once, a lowered one refuses at once; what was used stays used."""
    await policy(gateway, scope="key", dimension="requests_per_minute", limit=1, burst=2)
    async with gateway.answering("ok"), gateway.welcomed() as peer:
        for _ in range(2):
            await peer.hear("accepted", id=await peer.send())
        await refusal(peer)
        await policy(gateway, scope="key", dimension="requests_per_minute", limit=1, burst=3)

        async def let_in() -> bool:
            id = await peer.send()
            return (await peer.hear(id=id))["t"] == "accepted"

        with LivedTime() as lived:
            await wait_until(let_in)
        print(f"the edit counted after {lived}")
        assert (await refusal(peer))["limit"] == 1  # one more, not three


async def test_places_come_back_however_a_request_ends(gateway: Site):
    """After an end, a cancel, a reader that is gone and a dead worker, nothing is left taken."""
    await policy(gateway, scope="user", dimension="concurrency", limit=1)
    ann = {"metadata": {"user": "ann"}}
    quick = {"on_no_reader": {"cancel_after_ms": 0}}
    async with gateway.welcomed() as peer:
        async with gateway.answering("ok"):
            await peer.hear("accepted", id=await peer.send(**ann))
            await peer.hear("end")
        async with gateway.answering("x" * 1000, step_seconds=0.05):
            id = await peer.send(**ann)
            await peer.hear("accepted", id=id)
            error = await refusal(peer, **ann)
            assert (error["code"], error["scope"], error["dimension"]) == (
                "rate_limited",
                "user",
                "concurrency",
            )
            await peer.hear("accepted", id=await peer.send(metadata={"user": "bob"}))
            await peer.tell("cancel", id=id)
            await peer.hear("cancel_ok", id=id)
            await _let_in(peer, **ann, options=quick)
        # Its worker died, and nobody reads on: the reaper ends it.
    async with gateway.answering("ok"), gateway.welcomed() as other:
        await gateway.crew.lose("w1")
        await _let_in(other, **ann)
        await other.hear("end")
        quota = Quota(gateway.redis, gateway.settings)
        await wait_until(lambda: _nothing_open(quota, gateway.tenant))


async def _nothing_open(quota: Quota, tenant: str) -> bool:
    return await quota.open_requests(tenant) == 0


async def _let_in(peer: RawPeer, **fields: Any) -> None:
    """Until a send is accepted."""

    async def let_in() -> bool:
        id = await peer.send(**fields)
        while True:
            frame = await peer.hear()
            if frame.get("id") == id and frame["t"] in ("accepted", "error"):
                return frame["t"] == "accepted"

    await wait_until(let_in)


@pytest.mark.parametrize("n", [17, 63, 64, 65, 200])
async def test_an_answer_ends_at_the_last_token_that_its_budget_pays(thrifty: Site, n: int):
    """The budget is used to its last whole token, a character cut or not, and not
    exceeded; the end bills what was delivered."""
    limit = await cost_of(thrifty, n)
    await budget(thrifty, limit)
    async with thrifty.answering(LONG), thrifty.welcomed() as peer:
        accepted = await peer.hear("accepted", id=await peer.send())
        assert accepted["quota"]["budget"]["limit"] == limit
        end = await peer.hear("end")
        text = "".join(frame["x"] for frame in peer.passed if frame["t"] == "delta")
        await spent(thrifty, end["cost"]["nano"])
    assert (end["reason"], end["usage"]["output"]) == ("budget", n)
    assert text == LONG.encode()[:n].decode(errors="ignore")
    assert limit - 4 <= end["cost"]["nano"] <= limit


async def test_many_answers_share_one_budget_over_a_dead_worker(thrifty: Site):
    """20 at once, their worker killed in the middle: not a nano too much is spent, each ends
    `budget`, and hardly anything is left over."""
    many, tokens = 20, 60
    limit = many * await cost_of(thrifty, tokens)
    await budget(thrifty, limit)
    async with Client(thrifty.url, thrifty.key) as client:
        async with thrifty.answering(LONG, step_seconds=0.01):
            answers = await asyncio.gather(*(client.send("hello") for _ in range(many)))
            await wait_until(lambda: _appended(thrifty, answers[0].id, 20))
        await thrifty.crew.lose("w0")
        async with thrifty.answering(LONG, step_seconds=0.002):
            async with patience():
                ends = await asyncio.gather(*(answer.end() for answer in answers))
            await spent(thrifty, sum(end.cost_nano or 0 for end in ends))
    used = sum(end.cost_nano or 0 for end in ends)
    print(f"used {used / limit:.4f} of the budget")
    assert {end.reason for end in ends} == {"budget"}
    assert used <= limit
    assert used / limit >= 0.97
    assert all(end.verified for end in ends)


async def _appended(site: Site, id: str, n: int) -> bool:
    return len(await site.crew.queue.tokens(site.tenant, id)) // 4 >= n


async def test_a_budget_that_is_raised_pays_for_what_runs(thrifty: Site):
    """An answer is not cut at a limit that does not hold any more."""
    await budget(thrifty, await cost_of(thrifty, 200))
    async with thrifty.answering("y" * 400, step_seconds=0.002), thrifty.welcomed() as peer:
        await peer.hear("accepted", id=await peer.send())
        await budget(thrifty, await cost_of(thrifty, 5000))
        assert (await peer.hear("end"))["reason"] == "stop"


async def test_a_prepaid_tenant_uses_its_credit_and_no_more(thrifty: Site):
    """An answer ends with the credit, the next send is refused until there is more of it."""
    credit = await cost_of(thrifty, 50)
    await top_up(thrifty, credit, "first")
    async with thrifty.answering(LONG), thrifty.welcomed() as peer:
        accepted = await peer.hear("accepted", id=await peer.send())
        assert accepted["quota"]["budget"]["limit"] == credit
        end = await peer.hear("end")
        assert (end["reason"], end["usage"]["output"]) == ("budget", 50)
        await spent(thrifty, end["cost"]["nano"])
        error = await refusal(peer)
        assert (error["code"], error["dimension"], error["retry"]) == ("insufficient_quota", "wallet", False)
        assert (error["limit"], error["spent"]) == (credit, end["cost"]["nano"])
        assert "after_ms" not in error
        assert "resets_at_ms" not in error
        await top_up(thrifty, credit, "second")
        await _let_in(peer)


async def top_up(site: Site, nano: int, name: str) -> None:
    """More credit, as the command does it."""
    new = wallets.NewGrant(wallets.GrantKind.PAID, nano, name)
    await wallets.grant(site.database, site.tenant, new)
    await push_limits(site.database, site.redis, site.tenant)
    await publish_limits_changed(site.redis, site.tenant)


async def test_little_is_asked_for_the_last_tokens(thrifty: Site, monkeypatch: pytest.MonkeyPatch):
    """A budget's end costs each answer some calls, not a thousand a second."""
    asked = Counter[str]()
    extend = Quota.extend

    async def counted(
        quota: Quota, tenant: str, id: str, to_tokens: int, now_ms: int = 0
    ) -> AllowanceExtension:
        asked[id] += 1
        return await extend(quota, tenant, id, to_tokens, now_ms)

    monkeypatch.setattr(Quota, "extend", counted)
    await budget(thrifty, 8 * await cost_of(thrifty, 40))
    async with thrifty.answering(LONG), Client(thrifty.url, thrifty.key) as client:
        with LivedTime() as lived:
            answers = await asyncio.gather(*(client.send("hello") for _ in range(8)))
            ends = await asyncio.gather(*(answer.end() for answer in answers))
    print(f"{asked.total()} calls for 8 answers in {lived}")
    assert {end.reason for end in ends} == {"budget"}
    # At most ten a second after the first, which asks once for each chunk.
    assert max(asked.values()) <= 20 + 15 * lived.wall_seconds


async def test_a_flood_of_refused_sends_costs_little_and_writes_nothing(gateway: Site):
    """Nothing of a refused send stays, in Redis or in SQL, and the next good one is not held up."""
    id = await budget(gateway, 1)
    async with gateway.answering("ok"), gateway.welcomed() as peer:
        await refusal(peer, conversation=None)
        before = {name async for name in gateway.redis.scan_iter("*")}
        sizes = await gateway.redis.dbsize()
        with LivedTime() as lived:
            for _ in range(FLOOD):
                await peer.send()
                assert (await peer.hear())["code"] == "budget_exceeded"
        print(f"{FLOOD} refusals took {lived}")
        after = {name async for name in gateway.redis.scan_iter("*")}
        assert not [name for name in after - before if b"rq:" in name or b"req:" in name]
        assert await gateway.redis.dbsize() <= sizes + 5
        await end_budget(gateway.database, gateway.redis, gateway.tenant, id)
        await _let_in(peer)


async def test_limits_can_be_asked_for(gateway: Site):
    """One's own and the tenant's with use, remaining and reset, no other user's and nothing in shadow."""
    await policy(gateway, scope="tenant", dimension="requests_per_minute", limit=60)
    await policy(gateway, scope="key", dimension="tokens_per_minute", limit=6, burst=6000, model_glob="ti*")
    await policy(gateway, scope="user", dimension="concurrency", limit=4)
    await policy(gateway, scope="user", scope_id="bob", dimension="concurrency", limit=2)
    await policy(gateway, scope="tenant", dimension="concurrency", limit=1, mode="shadow")
    await budget(gateway, 10**9)
    await set_tenant(gateway.database, gateway.tenant, shows_costs=True)
    ann = await gateway.another_key(user="ann")
    async with gateway.answering("ok"), gateway.welcomed(ann) as peer:
        accepted = await peer.hear("accepted", id=await peer.send())
        assert set(accepted["quota"]) == {"requests", "tokens", "budget"}
        end = await peer.hear("end")

        async def found() -> httpx.Response | None:
            async with httpx.AsyncClient(base_url=gateway.url) as http:
                reply = await http.get("/v1/limits", headers={"authorization": f"Bearer {ann}"})
            assert reply.status_code == 200, reply.text
            (money,) = reply.json()["budgets"]
            return reply if money["spent_nano"] else None

        reply = await wait_until(found)
    assert reply is not None
    limits = {(each["scope"], each["dimension"]): each for each in reply.json()["limits"]}
    assert set(limits) == {
        ("tenant", "requests_per_minute"),
        ("key", "tokens_per_minute"),
        ("user", "concurrency"),
    }
    requests = limits["tenant", "requests_per_minute"]
    assert (requests["limit"], requests["used"], requests["remaining"]) == (60, 1, 59)
    assert limits["user", "concurrency"] == {
        "scope": "user",
        "scope_id": "ann",
        "models": "*",
        "dimension": "concurrency",
        "limit": 4,
        "burst": None,
        "used": 0,
        "remaining": 4,
        "resets_at_ms": None,
    }
    assert limits["key", "tokens_per_minute"]["used"] == end["usage"]["total"]  # 6 a minute flow back
    (money,) = reply.json()["budgets"]
    assert (money["spent_nano"], money["held_nano"], money["hard"]) == (end["cost"]["nano"], 0, True)
    assert reply.headers["x-ratelimit-limit-requests"] == "60"
    assert reply.headers["x-ratelimit-remaining-requests"] == "59"
    assert reply.headers["x-ratelimit-limit-tokens"] == "6"


async def test_who_is_nobody_is_told_no_limits(gateway: Site):
    """A limit is nobody else's business."""
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        assert (await http.get("/v1/limits")).status_code == 401
        foreign = {"authorization": f"Bearer {await gateway.foreign_key()}"}
        await policy(gateway, scope="tenant", dimension="concurrency", limit=1)
        assert (await http.get("/v1/limits", headers=foreign)).json() == {
            "limits": [],
            "budgets": [],
            "answers": [{"model": "tiny", "max_tokens": 2048, "scope": "model"}],
        }
