"""Who may read and cancel what, asked by strangers with every message: typed refusals, nothing else changes.

What is another tenant's answers exactly like what nobody ever made, also in what it asks of Redis and SQL.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, event

from billing.api import create_key, create_project, create_tenant, find_project, revoke_key
from core.clock import now_ms
from core.ids import uuid7
from core.tasks import cancel_tasks
from server.protocol.codes import CloseCode
from tests.server.conftest import gateway as gateway
from tests.server.site import RawPeer, Site
from tests.support.gateways import LetterEngine
from tests.support.patience import pause, wait_until
from tests.system.strangers import PROBES, Owned, Victim

LONG = {"max_tokens": 1500, "min_tokens": 1500}
TRIES = 4
SHORT = {"max_tokens": 10, "min_tokens": 10}


@pytest.fixture
async def victim(gateway: Site) -> AsyncGenerator[Victim]:
    """One running request, one that ended, one that is stored in a conversation."""
    async with gateway.crew.worker(LetterEngine(step_seconds=0.02)), gateway.welcomed() as peer:
        conversation = uuid7(now_ms())
        ended = await peer.send("short", options=SHORT)
        await peer.hear("end")
        stored = await peer.send("kept", conversation=conversation, options=SHORT)
        await peer.hear("end")
        await wait_until(lambda: is_stored(gateway, conversation))
        running = await peer.send("long", options=LONG)
        g = (await peer.hear("accepted", id=running))["g"]
        owned = Owned(running, ended, stored, conversation, peer.welcome["resume_token"])
        yield Victim(gateway, peer, owned, g)
        peer.socket.transport.abort()  # it has read too little for a closing handshake


async def is_stored(site: Site, conversation: str) -> bool:
    """Whether the conversation's answer is in SQL."""
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {site.key}"}) as http:
        page = (await http.get(f"{site.url}/v1/conversations/{conversation}/messages")).json()
    return page["messages"][-1]["status"] == "ended"


def scrubbed(frames: list[Any], owned: Owned) -> list[str]:
    """Frames as text without ids, in an order that does not depend on which was answered first."""
    texts = [json.dumps(frame, sort_keys=True) for frame in frames]
    names = {"conversation": owned.conversation, **dict(owned)}
    for name, id in names.items():
        texts = [text.replace(id, f"<{name}>") for text in texts]
    return sorted(texts)


@asynccontextmanager
async def round_trips(site: Site, tenant: str) -> AsyncGenerator[list[str]]:
    """The SQL statements that are made meanwhile, and the Redis commands on that tenant's keys."""
    made: list[str] = []
    watched = asyncio.Event()

    def executed(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        made.append(statement)

    async def watch() -> None:
        async with site.redis.monitor() as monitor:
            watched.set()
            async for told in monitor.listen():
                words = str(told["command"])
                if tenant in words and "sess:" not in words:
                    made.append(words.split()[0].replace("EVALSHA", "EVAL"))

    watching = asyncio.create_task(watch())
    event.listen(Engine, "before_cursor_execute", executed)
    try:
        await watched.wait()
        yield made
        await settled(made)  # what comes after a connection's end is its own too
    finally:
        event.remove(Engine, "before_cursor_execute", executed)
        await cancel_tasks([watching])


async def settled(made: list[str]) -> None:
    """Until nothing more is made."""
    before = -1
    while len(made) != before:
        before = len(made)
        await pause()


async def stranger_of_another_tenant(site: Site) -> tuple[str, str]:
    """Another tenant, and a key of it with every scope."""
    tenant = await create_tenant(site.database, f"other-{uuid7(now_ms())}")
    project = await create_project(site.database, tenant.tenant_id, "web")
    scopes = ("chat", "requests:read", "requests:cancel")
    _, secret = await create_key(site.database, tenant.tenant_id, project.id, scopes=scopes)
    return tenant.tenant_id, secret


async def test_another_tenants_ids_answer_like_unknown_ones(victim: Victim):
    """INV-16: The same frames, the same HTTP answers, the same round trips; the victim notices nothing."""
    nobody = Owned.by_nobody()
    tenant, key = await stranger_of_another_tenant(victim.site)
    for probe in PROBES:
        await probe(victim.site, key, Owned.by_nobody())  # what is loaded once, is
        for _ in range(TRIES):
            async with round_trips(victim.site, tenant) as for_unknown:
                unknown = await probe(victim.site, key, nobody)
            async with round_trips(victim.site, tenant) as for_foreign:
                foreign = await probe(victim.site, key, victim.owned)
            assert scrubbed(foreign, victim.owned) == scrubbed(unknown, nobody), probe
            if sorted(for_foreign) == sorted(for_unknown):
                break  # what a gateway does from time to time may fall into one of them: never each time
        else:
            pytest.fail(f"{probe.__name__} tells others' ids from unknown ones")
        await victim.is_unharmed()


@dataclass(frozen=True)
class Stranger:
    """Somebody of the victim's own tenant, and what their key may do to others' requests."""

    key: dict[str, Any]
    reads: bool = False
    cancels: bool = False
    chats: bool = True


STRANGERS = {
    "another key": Stranger({}),
    "a key of another project": Stranger({"project": "elsewhere"}),
    "a key bound to a user": Stranger({"user": "eve"}),
    "a ticket of another user": Stranger({"ticket": "eve"}),
    "a key that only reads": Stranger({"scopes": ("requests:read",)}, reads=True, chats=False),
    "a key that only cancels": Stranger({"scopes": ("requests:cancel",)}, cancels=True, chats=False),
    "a key of another project that reads": Stranger(
        {"project": "elsewhere", "scopes": ("chat", "requests:read")}, reads=True
    ),
}


async def credential(site: Site, facts: dict[str, Any]) -> str:
    """A key of the tenant, or a ticket made by the victim's own key."""
    if "ticket" in facts:
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {site.key}"}) as http:
            reply = await http.post(f"{site.url}/v1/tickets", json={"user": facts["ticket"]})
            return reply.json()["ticket"]
    project = site.project
    if "project" in facts:
        found = await find_project(site.database, site.tenant, facts["project"])
        project = (found or await create_project(site.database, site.tenant, facts["project"])).id
    rest = {name: value for name, value in facts.items() if name != "project"}
    return (await create_key(site.database, site.tenant, project, **rest))[1]


async def test_strangers_of_the_same_tenant_are_refused_by_type(victim: Victim):
    """`forbidden` and `cancel_denied` where the scope is missing, over every way to ask; a resume token of
    somebody else opens a new session; an id that is taken is a conflict whatever its body."""
    for name, stranger in STRANGERS.items():
        print(name)
        await check_stranger(victim, stranger)
        await victim.is_unharmed()


async def check_stranger(victim: Victim, stranger: Stranger) -> None:
    """One stranger tries everything."""
    site, owned = victim.site, victim.owned
    shown = {"token": owned.token, "requests": [{"id": owned.running, "epoch": 1, "o": 0}]}
    async with site.welcomed(await credential(site, stranger.key), resume=shown) as peer:
        assert peer.welcome["resumed"] == "none"
        [listed] = peer.welcome["requests"]
        if stranger.reads:
            assert listed["state"] == "running"
        else:
            assert (listed["state"], listed["why"]) == ("gone", "forbidden")
            assert "g" not in listed
            assert "head" not in listed
        for _, id in owned:
            await check_attach(peer, id, stranger)
            await check_send(peer, id, owned, stranger)
        if not stranger.cancels:
            for _, id in owned:
                await peer.tell("cancel", id=id)
                assert (await peer.hear("error", id=id))["code"] == "cancel_denied"


async def check_attach(peer: RawPeer, id: str, stranger: Stranger) -> None:
    """Reading takes the scope."""
    await peer.tell("attach", id=id, o=0)
    if stranger.reads:
        assert (await peer.hear("attached", id=id))["from"] >= 1
        await peer.tell("detach", id=id)
    else:
        assert (await peer.hear("error", id=id))["code"] == "forbidden"


async def check_send(peer: RawPeer, id: str, owned: Owned, stranger: Stranger) -> None:
    """Neither another body nor the victim's own one gets at a taken id."""
    bodies = [
        {"content": "mine"},
        {"content": "long", "options": LONG},
        {"content": "short", "options": SHORT},
    ]
    for body in bodies:
        await peer.tell("send", id=id, **body)
        error = await peer.hear("error", id=id)
        assert error["code"] == ("id_conflict" if stranger.chats else "forbidden")
    await peer.tell("send", id=uuid7(now_ms()), content="more", conversation=owned.conversation)
    error = await peer.hear("error", re="send")
    assert error["code"] == ("unknown_conversation" if stranger.chats else "forbidden")


async def test_a_key_that_may_cancel_does(victim: Victim):
    """Positive control: the scope is what it takes."""
    key = await victim.site.another_key(scopes=("requests:cancel",))
    async with victim.site.welcomed(key) as peer:
        for id, state in ((victim.owned.ended, "ended"), (victim.owned.running, "running")):
            await peer.tell("cancel", id=id)
            assert (await peer.hear("cancel_ok", id=id))["state"] == state
    assert (await victim.peer.hear("end"))["reason"] == "cancelled"


async def test_a_dead_key_gets_nowhere(victim: Victim):
    """`unauthorized` and 4501 in a hello, 401 over HTTP, whether revoked, expired, unknown or half right."""
    site = victim.site
    revoked, revoked_key = await create_key(site.database, site.tenant, site.project)
    await revoke_key(site.database, site.redis, site.tenant, revoked.id)
    expires_ms = now_ms() + 50
    _, expired_key = await create_key(site.database, site.tenant, site.project, expires_ms=expires_ms)
    await wait_until(lambda: now_ms() > expires_ms)
    half_right = revoked_key.rpartition("_")[0] + "_" + site.key.rpartition("_")[2]
    heard: set[str] = set()
    for key in (revoked_key, expired_key, half_right, "pk_" + "0" * 12 + "_" + "0" * 48):
        async with site.open() as peer:
            await peer.tell("hello", v=1, token=key, resume={"token": victim.owned.token, "requests": []})
            error = await peer.hear()
            assert (error["code"], await peer.closed()) == ("unauthorized", CloseCode.AUTH_INVALID)
            heard.add(json.dumps(error))
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {key}"}) as http:
            for path in ("/v1/conversations", f"/v1/conversations/{victim.owned.conversation}/messages"):
                assert (await http.get(site.url + path)).status_code == 401
            assert (await http.post(f"{site.url}/v1/tickets", json={})).status_code == 401
    assert len(heard) == 1, "which of it was wrong is not told"
    await victim.is_unharmed()


async def test_auth_takes_no_other_owners_token(victim: Victim):
    """A session stays its owner's: `unauthorized` and 4501, whoever the valid token belongs to."""
    site = victim.site
    pairs = [
        ({}, (await stranger_of_another_tenant(site))[1]),
        ({}, await credential(site, {"project": "elsewhere"})),
        ({}, await credential(site, {})),
        ({}, await credential(site, {"user": "ada"})),
        ({"ticket": "ada"}, await credential(site, {"ticket": "eve"})),
        ({"ticket": "ada"}, site.key),
    ]
    for mine, token in pairs:
        async with site.welcomed(await credential(site, mine)) as peer:
            await peer.tell("auth", token=token)
            error = await peer.hear()
            assert (error.get("re"), error.get("code")) == ("auth", "unauthorized"), mine
            assert await peer.closed() == CloseCode.AUTH_INVALID
    await victim.is_unharmed()


async def test_the_same_user_with_another_ticket_is_the_owner(victim: Victim):
    """Positive control: tickets of one user read, cancel and continue each other's."""
    site = victim.site
    async with site.welcomed(await credential(site, {"ticket": "ada"})) as first:
        id = await first.send("mine", options=LONG)
        await first.hear("accepted")
        async with site.welcomed(await credential(site, {"ticket": "ada"})) as second:
            await second.tell("attach", id=id, o=0)
            assert (await second.hear("attached", id=id))["from"] == 1
            await second.tell("cancel", id=id)
            assert (await second.hear("cancel_ok"))["state"] == "running"
        assert (await first.hear("end"))["reason"] == "cancelled"


async def test_a_mark_left_by_a_stranger_cancels_nothing(gateway: Site):
    """A cancel before `accepted` counts only where its sender may cancel what comes."""
    id = uuid7(now_ms())
    async with gateway.welcomed(await credential(gateway, {})) as peer:
        await peer.tell("cancel", id=id)
        assert (await peer.hear("cancel_ok"))["state"] == "pending"
    async with gateway.welcomed() as peer:
        await peer.send("mine", id=id, options=SHORT)
        await peer.hear("accepted", id=id)
        async with gateway.crew.worker(LetterEngine()):
            assert (await peer.hear("end"))["reason"] == "length"


async def test_no_state_is_left_of_strangers(victim: Victim):
    """Every Redis key that probing made, by whoever, expires."""
    site = victim.site
    before = {name async for name in site.redis.scan_iter("*")}
    for key in ((await stranger_of_another_tenant(site))[1], await credential(site, {})):
        for probe in PROBES:
            await probe(site, key, victim.owned)
            await probe(site, key, Owned.by_nobody())
    made = {name async for name in site.redis.scan_iter("*")} - before
    of_the_victim = (victim.owned.running, "engine_hours")  # it runs on, and its worker counts its tokens
    made = {name for name in made if not any(part in name.decode() for part in of_the_victim)}
    forever = [name for name in made if await site.redis.ttl(name) == -1]
    assert forever == []
