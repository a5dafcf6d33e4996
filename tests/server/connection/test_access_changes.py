"""What happens to open connections when somebody's access changes: cut within a second, answers go on."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from billing.api import (
    KEY_REVOKED,
    SESSION_ENDED,
    Principal,
    create_key,
    list_keys,
    make_link_code,
    revoke_key,
)
from billing.tables.tenants import ApiKey
from billing.tenants import session_ends, sessions, tenancy, users
from core.clock import now_ms
from server.access.authentication import Authenticator
from server.connection.control_news import SUPERSEDED
from tests.server.site import Site
from tests.support.patience import PROMPT_SECONDS, LivedTime, wait_until

Change = Callable[[Site], Awaitable[Any]]


async def _revoke(site: Site) -> None:
    await revoke_key(site.database, site.redis, site.tenant, site.key_id)


async def _close_tenant(site: Site) -> None:
    await tenancy.close_tenant(site.database, site.redis, site.tenant)


async def _close_project(site: Site) -> None:
    await tenancy.close_project(site.database, site.redis, site.tenant, site.project)


async def _id_of(site: Site, key: str) -> str:
    kept = await list_keys(site.database, site.tenant)
    return next(each.id for each in kept if each.prefix in key.split("_"))


async def _expire(site: Site, key_id: str) -> None:
    async with site.database.transaction() as session:
        key = await session.get_one(ApiKey, (site.tenant, key_id))
        key.expires_ms = now_ms()
        session.add(key)


CHANGES: dict[str, tuple[Change, str, int]] = {
    "a key is revoked": (_revoke, "unauthorized", 4501),
    "a tenant is closed": (_close_tenant, "account_suspended", 4507),
    "a project is closed": (_close_project, "unauthorized", 4501),
}


@pytest.mark.parametrize(("change", "code", "close"), CHANGES.values(), ids=CHANGES)
async def test_open_connections_are_cut_and_their_answers_are_not_lost(
    gateway: Site, change: Change, code: str, close: int
):
    """Sends are refused from then on; what runs goes on to its end and is billed."""
    async with gateway.answering("x" * 40, step_seconds=0.02), gateway.welcomed() as peer:
        id = await peer.send()
        await peer.hear("delta")
        with LivedTime() as lived:
            await change(gateway)
            assert (await peer.hear("error"))["code"] == code
            assert await peer.closed() == close
        print(f"cut {lived} after the command")
        assert lived.seconds < PROMPT_SECONDS
        async with gateway.open() as late:
            await late.tell("hello", v=1, token=gateway.key)
            assert (await late.hear("error"))["code"] == code
            assert await late.closed() == close
        await gateway.crew_ended(id)
        assert len(await gateway.crew.queue.tokens(gateway.tenant, id)) == 0  # ended: only the log is kept


async def test_who_holds_a_good_key_of_a_closed_tenant_is_told_and_nobody_else(gateway: Site):
    """`account_suspended` over HTTP (402), for a browser and by a ticket. A key that is revoked, expired, of
    a closed project or half right hears what a wrong one hears."""
    dead, expired = await gateway.another_key(), await gateway.another_key()
    elsewhere = await tenancy.create_project(gateway.database, gateway.tenant, "research")
    _, of_project = await create_key(gateway.database, gateway.tenant, elsewhere.id)
    await tenancy.close_project(gateway.database, gateway.redis, gateway.tenant, elsewhere.id)
    await revoke_key(gateway.database, gateway.redis, gateway.tenant, await _id_of(gateway, dead))
    await _expire(gateway, await _id_of(gateway, expired))
    half_right = gateway.key.rpartition("_")[0] + "_" + dead.rpartition("_")[2]
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        bearer = {"authorization": f"Bearer {gateway.key}"}
        ticket = (await http.post("/v1/tickets", json={"user": "ann"}, headers=bearer)).json()["ticket"]
        signed_in = await http.post("/v1/login", json={"key": gateway.key}, headers={"origin": gateway.url})
        assert signed_in.status_code == 200
        await _close_tenant(gateway)
        assert (await http.get("/v1/me")).json()["error"]["code"] == "account_suspended"
        http.cookies.clear()
        for key, status, code in (
            (gateway.key, 402, "account_suspended"),
            *((key, 401, "unauthorized") for key in (dead, expired, of_project, half_right)),
        ):
            reply = await http.get("/v1/conversations", headers={"authorization": f"Bearer {key}"})
            assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        async with gateway.open() as ann:
            await ann.tell("hello", v=1, token=ticket)
            assert (await ann.hear("error"))["code"] == "account_suspended"
            assert await ann.closed() == 4507


async def test_a_closed_user_is_cut_and_cannot_be_named(gateway: Site):
    """One who came by a ticket of a service key, and one whom a service key names."""
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        bearer = {"authorization": f"Bearer {gateway.key}"}
        reply = await http.post("/v1/tickets", json={"user": "ann"}, headers=bearer)
        async with gateway.answering("ok"), gateway.welcomed() as service:
            await service.send(metadata={"user": "ann"})
            await service.hear("end")
            async with gateway.welcomed(reply.json()["ticket"]) as ann:
                await users.close_user(gateway.database, gateway.redis, gateway.tenant, "ann")
                assert await ann.closed() == 4501
            id = await service.send(metadata={"user": "ann"})
            assert (await service.hear("error", id=id))["code"] == "forbidden"
            id = await service.send(metadata={"user": "bob"})
            await service.hear("accepted", id=id)
        reply = await http.post("/v1/tickets", json={"user": "ann"}, headers=bearer)
        assert reply.status_code == 403


async def test_a_key_that_loses_rights_loses_them_on_open_connections(gateway: Site):
    """A plan that lowers the priority holds for the next send of an open connection."""
    async with gateway.answering("ok"), gateway.welcomed() as peer:
        id = await peer.send()
        assert (await peer.hear("accepted", id=id))["priority"] == "interactive"
        await tenancy.set_tenant(gateway.database, gateway.tenant, priority_max="bulk")
        await tenancy.publish_news(gateway.redis, gateway.tenant, tenancy.ACCESS_CHANGED)

        async def lowered() -> bool:
            id = await peer.send()
            return (await peer.hear("accepted", id=id))["priority"] == "bulk"

        await wait_until(lowered)


async def test_what_ends_within_a_hello_lets_nobody_in(gateway: Site, monkeypatch: pytest.MonkeyPatch):
    """After its key was looked up, and before anybody who hears of its end could find the connection."""
    of_token = Authenticator.of_token

    async def revoked_meanwhile(self: Authenticator, token: str) -> Principal | None:
        found = await of_token(self, token)
        await _revoke(gateway)
        return found

    monkeypatch.setattr(Authenticator, "of_token", revoked_meanwhile)
    async with gateway.open() as late:
        await late.tell("hello", v=1, token=gateway.key)
        assert (await late.hear())["code"] == "unauthorized"
        assert await late.closed() == 4501


@pytest.mark.parametrize("another", [True, False])
@pytest.mark.parametrize("told", [True, False])
async def test_who_signs_out_is_cut_off(
    gateway: Site, told: bool, another: bool, monkeypatch: pytest.MonkeyPatch
):
    """All connections of that browser, within a second; those of the same user's other browser stay. Where
    the news are lost, at the next look. So is who leaves by signing in as another."""
    keyring, now = gateway.settings.keyring, now_ms()
    bobs = make_link_code(keyring, gateway.tenant, gateway.key_id, "bob", now)
    code = [make_link_code(keyring, gateway.tenant, gateway.key_id, "ann", now) for _ in range(2)]
    origin = {"origin": gateway.url}
    async with (
        httpx.AsyncClient(base_url=gateway.url, headers=origin) as mine,
        httpx.AsyncClient(base_url=gateway.url, headers=origin) as other,
    ):
        for http, each in zip((mine, other), code, strict=True):
            assert (await http.post("/v1/login", json={"code": each})).status_code == 200
        tickets = [(await http.post("/v1/tickets")).json()["ticket"] for http in (mine, mine, other)]
        async with (
            gateway.welcomed(tickets[0]) as first,
            gateway.welcomed(tickets[1]) as second,
            gateway.welcomed(tickets[2]) as stays,
        ):
            if not told:
                monkeypatch.setattr(session_ends, "publish_news", _not_told)
            with LivedTime() as lived:
                if another:
                    await mine.post("/v1/login", json={"code": bobs})
                else:
                    await mine.post("/v1/logout")
                if not told:
                    await tenancy.publish_news(gateway.redis, gateway.tenant, tenancy.ACCESS_CHANGED)
                assert await first.closed() == 4501
                assert await second.closed() == 4501
            print(f"cut {lived} after signing out")
            assert lived.seconds < PROMPT_SECONDS
            await stays.quiet()


async def _not_told(*_: Any) -> None:
    pass


async def test_a_ticket_does_not_grow_into_its_key(gateway: Site):
    """Looking its key up again takes rights from an open connection, and gives it none."""
    strong = await gateway.another_key(scopes=["chat", "requests:read"])
    async with httpx.AsyncClient(base_url=gateway.url, headers={"authorization": f"Bearer {strong}"}) as http:
        ticket = (await http.post("/v1/tickets", json={"user": "ann"})).json()["ticket"]
    async with gateway.answering("ok"), gateway.welcomed() as service, gateway.welcomed(ticket) as ann:
        id = await service.send()
        await service.hear("end")
        await tenancy.set_tenant(gateway.database, gateway.tenant, priority_max="bulk")
        await tenancy.publish_news(gateway.redis, gateway.tenant, tenancy.ACCESS_CHANGED)

        async def looked_up() -> bool:
            sent = await ann.send()
            return (await ann.hear("accepted", id=sent))["priority"] == "bulk"

        await wait_until(looked_up)
        await ann.tell("attach", id=id, o=0)
        assert (await ann.hear("error", id=id))["code"] == "forbidden"


async def test_news_of_another_tenant_end_nobody_here(gateway: Site):
    """Whatever they name: this tenant's key, its browser's session, its connection."""
    code = make_link_code(gateway.settings.keyring, gateway.tenant, gateway.key_id, "ann", now_ms())
    async with httpx.AsyncClient(base_url=gateway.url, headers={"origin": gateway.url}) as http:
        await http.post("/v1/login", json={"code": code})
        ticket = (await http.post("/v1/tickets")).json()["ticket"]
    (browser,) = await sessions.list_sessions(gateway.database, gateway.tenant)
    async with gateway.welcomed() as service, gateway.welcomed(ticket) as ann, gateway.welcomed() as last:
        for kind, named in (
            (KEY_REVOKED, gateway.key_id),
            (SESSION_ENDED, browser.id),
            (SUPERSEDED, service.welcome["connection"]),
            (SUPERSEDED, ann.welcome["connection"]),
        ):
            await tenancy.publish_news(gateway.redis, "another", kind, named)
        await tenancy.publish_news(gateway.redis, gateway.tenant, SUPERSEDED, last.welcome["connection"])
        assert await last.closed() == 4003  # so all before were heard
        await service.quiet()
        await ann.quiet()
