"""A real gateway, a real Valkey and SQLite, a scripted worker: what a client of the protocol sees."""

import asyncio
import hashlib
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from billing.api import revoke_key
from core.clock import now_ms
from core.ids import uuid7
from tests.server.site import Peer, Site
from tests.support.patience import wait_until
from tests.system.wire import wired

TEXT = "Nile, Rhine and Zambezi: 川 🌊. " * 20


async def test_an_answer_is_dense_and_hashed(gateway: Site):
    """Offsets are dense, positions fit, `h` is the text's hash, usage counts prompt and sampled ids."""
    async with gateway.answering(TEXT), wired(gateway.url, gateway.key) as wire:
        reading = await wire.finish(await wire.send("Name three rivers."))
    assert reading.text == TEXT
    assert reading.kinds[:2] == ["queued", "running"]
    assert reading.end is not None
    prompt = "<s>user\nName three rivers.<eos>\n<s>assistant\n"
    specials = prompt.replace("<s>", "\0").replace("<eos>", "\0")
    assert reading.end["usage"]["input"] == len(specials.encode())
    assert reading.end["usage"]["output"] == len(TEXT.encode()) + 1
    assert reading.end["reason"] == "stop"


async def test_a_shut_window_gets_nothing_and_then_one_merged_delta(gateway: Site):
    """INV-18: with one event allowed, everything that came meanwhile is one delta after the ack."""
    async with gateway.answering("abc" * 100), gateway.welcomed(window={"events": 2}) as peer:
        id = await peer.send()
        g = (await peer.hear("accepted"))["g"]
        assert [(await peer.hear())["k"] for _ in range(2)] == ["queued", "running"]
        await gateway.crew_ended(id)
        await peer.quiet()
        await peer.tell("ack", a=[[g, 2]], w={str(g): 256})
        delta = await peer.hear()
        assert (delta["t"], delta["a"], delta["p"], delta["x"]) == ("delta", 3, 0, "abc" * 100)
        end = await peer.hear()
        assert end["o"] == delta["b"] + 1
        assert end["h"] == hashlib.sha256(("abc" * 100).encode()).hexdigest()


async def test_a_window_of_zero_pauses(gateway: Site):
    """`accepted` bypasses it, logged messages do not."""
    async with gateway.answering("abc"), gateway.welcomed(window={"events": 0}) as peer:
        id = await peer.send()
        g = (await peer.hear("accepted"))["g"]
        await gateway.crew_ended(id)
        await peer.quiet()
        await peer.tell("ack", a=[], w={str(g): 10})
        assert (await peer.hear())["k"] == "queued"


async def test_the_same_send_again_runs_once(gateway: Site):
    """A dup on the same connection repeats `accepted`; on another one it is read from the start."""
    async with gateway.answering("once"), gateway.welcomed() as peer:
        id = await peer.send("hi")
        first = await peer.hear("accepted")
        await peer.hear("end")
        await peer.send("hi", id=id)
        again = await peer.hear()
        assert (again["t"], again["g"], again["dup"]) == ("accepted", first["g"], True)
        async with gateway.welcomed() as other:
            await other.send("hi", id=id)
            assert (await other.hear("accepted"))["dup"]
            assert (await other.hear("delta"))["x"] == "once"
            await other.hear("end")
        await peer.send("another text", id=id)
        assert (await peer.hear("error"))["code"] == "id_conflict"


async def test_cancel_before_queued_running_and_ended(gateway: Site):
    """Every cancel is answered with the state it met."""
    async with gateway.welcomed() as peer:
        unknown = uuid7(now_ms())
        await peer.tell("cancel", id=unknown)
        assert await peer.hear() == {"t": "cancel_ok", "id": unknown, "state": "pending"}
        await peer.send(id=unknown)
        end = await peer.hear("end")
        assert (end["reason"], end["usage"]["total"], end["cost"]["nano"]) == ("cancelled", 0, 0)

        queued = await peer.send()
        await peer.hear("accepted", id=queued)
        await peer.tell("cancel", id=queued)
        assert (await peer.hear("cancel_ok", id=queued))["state"] == "queued"
        assert (await peer.hear("end"))["reason"] == "cancelled"
        await peer.tell("cancel", id=queued)
        assert (await peer.hear("cancel_ok"))["state"] == "ended"

        async with gateway.answering("x" * 5000, step_seconds=0.01), gateway.welcomed() as other:
            running = await peer.send(options={"max_tokens": 1000})
            await peer.hear("delta")
            await other.tell("cancel", id=running)
            assert (await other.hear("cancel_ok"))["state"] == "running"
            end = await peer.hear("end")
            assert end["reason"] == "cancelled"
            assert end["usage"]["output"] < 1000


async def test_attach_reads_on_from_any_offset(gateway: Site):
    """Another connection of the owner reads from any offset; ahead of the log it starts again."""
    async with gateway.answering("abcdef"), gateway.welcomed() as peer:
        id = await peer.send()
        end = await peer.hear("end")
        async with gateway.welcomed() as other:
            await other.tell("attach", id=id, o=2)
            attached = await other.hear()
            assert (attached["t"], attached["from"], attached["head"]) == ("attached", 3, end["o"])
            assert (await other.hear())["a"] == 3
            await other.hear("end")
            await other.tell("attach", id=id, o=9999)
            assert (await other.hear("attached"))["from"] == 1
            assert await other.hear() == {"t": "snap", "g": attached["g"], "epoch": 1, "o": 0, "x": ""}
            assert (await other.hear())["k"] == "queued"


async def test_who_may_read_and_cancel(gateway: Site):
    """Same tenant without the right: forbidden; another tenant's ids are unknown; scopes open both."""
    reader = await gateway.another_key(scopes=["chat", "requests:read", "requests:cancel"])
    async with gateway.welcomed() as peer:
        id = await peer.send()
        await peer.hear("accepted")
        async with gateway.welcomed(await gateway.another_key()) as colleague:
            await colleague.tell("attach", id=id, o=0)
            assert (await colleague.hear())["code"] == "forbidden"
            await colleague.tell("cancel", id=id)
            assert (await colleague.hear())["code"] == "cancel_denied"
            await colleague.send(id=id)
            assert (await colleague.hear())["code"] == "id_conflict"
        async with gateway.welcomed(await gateway.foreign_key()) as stranger:
            await stranger.tell("attach", id=id, o=0)
            assert (await stranger.hear())["code"] == "not_resumable"
            await stranger.tell("cancel", id=id)
            assert (await stranger.hear())["state"] == "pending"
        async with gateway.welcomed(reader) as admin:
            await admin.tell("attach", id=id, o=0)
            assert (await admin.hear())["t"] == "attached"
            await admin.tell("cancel", id=id)
            assert (await admin.hear("end"))["reason"] == "cancelled"


async def test_resume_goes_on_where_the_client_was(gateway: Site):
    """A cut socket: the next hello names what it applied, and a running answer goes on there."""
    async with gateway.answering("x" * 400, step_seconds=0.005):
        async with gateway.welcomed() as peer:
            id = await peer.send(options={"max_tokens": 300})
            delta = await peer.hear("delta")
            token = peer.welcome["resume_token"]
        resume = {"token": token, "requests": [{"id": id, "epoch": 1, "o": delta["b"]}]}
        async with gateway.welcomed(resume=resume) as peer:
            assert peer.welcome["resumed"] == "full"
            (listed,) = peer.welcome["requests"]
            assert (listed["id"], listed["from"]) == (id, delta["b"] + 1)
            following = await peer.hear()
            assert following["a"] == delta["b"] + 1
            assert following["p"] == len(delta["x"])
            assert await _text_until_end(peer, listed["g"], delta["x"] + following["x"]) == "x" * 300


async def test_a_session_lists_what_its_client_never_saw(gateway: Site):
    """An accepted request without a token yet is in the next welcome although the client did not name it."""
    async with gateway.welcomed() as peer:
        id = await peer.send()
        await peer.hear("accepted")
        token = peer.welcome["resume_token"]
        await wait_until(lambda: _noted(gateway, id))
    async with gateway.welcomed(resume={"token": token, "requests": []}) as peer:
        assert [request["id"] for request in peer.welcome["requests"]] == [id]


async def test_a_request_nobody_knows(gateway: Site):
    """Once accepted, it is gone and never starts again; never accepted, it is not listed: send it again."""
    requests = [{"id": uuid7(now_ms()), "epoch": epoch, "o": 0} for epoch in (1, None)]
    async with gateway.welcomed(resume={"requests": requests}) as peer:
        (listed,) = peer.welcome["requests"]
        assert listed == {"id": requests[0]["id"], "state": "gone", "why": "not_resumable"}
        assert peer.welcome["resumed"] == "none"


async def test_the_newest_connection_of_a_session_wins(gateway: Site):
    """The older one is closed 4003, and its resume token stays good until the newer one is in use."""
    async with gateway.welcomed() as old:
        token = old.welcome["resume_token"]
        async with gateway.welcomed(resume={"token": token}) as new:
            assert await old.closed() == 4003
            assert new.welcome["session"] == old.welcome["session"]
            assert new.welcome["resume_token"] != token


async def test_bye_ends_the_session(gateway: Site):
    """Close 1000; the resume token is dead; the request goes on."""
    async with gateway.welcomed() as peer:
        id = await peer.send()
        await peer.hear("accepted")
        token = peer.welcome["resume_token"]
        await peer.tell("bye")
        assert await peer.closed() == 1000
    await wait_until(lambda: _forgotten(gateway, peer.welcome["session"]))
    async with gateway.welcomed(resume={"token": token, "requests": []}) as peer:
        assert peer.welcome["resumed"] == "none"
        await peer.tell("attach", id=id, o=0)
        assert (await peer.hear())["state"] == "queued"


async def test_a_conversation_remembers(gateway: Site):
    """The next turn's prompt holds the stored answer; one request at a time; others' ids are unknown."""
    conversation = uuid7(now_ms())
    async with gateway.answering("I am fine."), gateway.welcomed() as peer:
        await peer.send("How are you?", conversation=conversation)
        first = await peer.hear("end")
        await peer.send("Why?", conversation=conversation)
        second = await peer.hear("end")
        added = "<s>user\nHow are you?<eos>\n<s>assistant\nI am fine.<eos>\n"
        added = added.replace("<s>", "\0").replace("<eos>", "\0")
        lone = "\0user\nWhy?\0\n\0assistant\n"
        assert second["usage"]["input"] == len(added) + len(lone)
        assert first["usage"]["input"] == len("\0user\nHow are you?\0\n\0assistant\n")
        async with gateway.welcomed(await gateway.another_key()) as colleague:
            await colleague.send("hi", conversation=conversation)
            assert (await colleague.hear("error"))["code"] == "unknown_conversation"


async def test_one_request_at_a_time_in_a_conversation(gateway: Site):
    """The second is `conversation_busy` with a time to wait, until the first is over."""
    conversation = uuid7(now_ms())
    async with gateway.welcomed() as peer:
        first = await peer.send("one", conversation=conversation)
        await peer.hear("accepted")
        await peer.send("two", conversation=conversation)
        refused = await peer.hear("error")
        assert (refused["code"], refused["retry"]) == ("conversation_busy", True)
        assert refused["after_ms"] > 0
        await peer.tell("cancel", id=first)
        await peer.hear("end")
        await peer.send("two", conversation=conversation)
        assert (await peer.hear("accepted"))["dup"] is False


async def test_a_stored_answer_outlives_its_log(gateway: Site):
    """When log and directory are gone, the stored message answers by snap and end."""
    async with gateway.answering("kept"), gateway.welcomed() as peer:
        id = await peer.send("hi", conversation=uuid7(now_ms()))
        end = await peer.hear("end")
        await wait_until(lambda: _recorded(gateway))
        await gateway.redis.flushall()
        async with gateway.welcomed() as late:
            await late.tell("attach", id=id, epoch=1, o=0)
            assert (await late.hear())["state"] == "ended"
            assert (await late.hear())["x"] == "kept"
            again = await late.hear()
            assert {**again, "g": end["g"]} == end


async def test_a_revoked_key_is_put_out_at_once(gateway: Site):
    """Its open connections close 4501."""
    async with gateway.welcomed() as peer:
        await revoke_key(gateway.database, gateway.redis, gateway.tenant, gateway.key_id)
        assert (await peer.hear())["code"] == "unauthorized"
        assert await peer.closed() == 4501


async def test_a_ticket_is_good_once(gateway: Site):
    """POST /v1/tickets with a key; the second hello with the same ticket is refused."""
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {gateway.key}"}) as client:
        ticket = (await client.post(f"{gateway.url}/v1/tickets", json={"user": "ann"})).json()["ticket"]
    async with gateway.welcomed(ticket) as peer:
        await peer.send(metadata={"user": "bob"})
        assert (await peer.hear())["code"] == "forbidden"
    async with gateway.open() as peer:
        await peer.tell("hello", v=1, token=ticket)
        assert (await peer.hear())["code"] == "unauthorized"
        assert await peer.closed() == 4501


async def test_sigterm_sends_clients_elsewhere(gateway: Site):
    """go_away while everything goes on, no new socket, then 4000 for those that stayed."""
    async with gateway.answering("abc"), gateway.welcomed() as peer:
        gateway.stop.set()
        away = await peer.hear("go_away")
        assert away["why"] == "drain"
        assert 0 < away["in_ms"] <= 1000
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{gateway.url}/readyz")).status_code == 503
        with pytest.raises(InvalidStatus) as refused:
            async with gateway.open():
                pass
        assert refused.value.response.status_code == 503
        await peer.send()
        assert (await peer.hear("end"))["reason"] == "stop"
        assert await peer.closed() == 4000


async def test_the_seventeenth_request_of_a_connection(gateway: Site):
    """It is refused with its scope and limit; an acknowledged end makes room."""
    async with gateway.welcomed() as peer:
        ids = [await peer.send() for _ in range(17)]
        refused = await peer.hear("error")
        assert (refused["code"], refused["scope"], refused["limit"]) == ("rate_limited", "connection", 16)
        assert refused["id"] == ids[16]
        for id in ids[:16]:
            await peer.hear("accepted", id=id)
        await peer.tell("cancel", id=ids[0])
        end = await peer.hear("end")
        await peer.tell("ack", a=[[end["g"], end["o"]]])
        assert (await peer.hear("accepted", id=await peer.send()))["g"] == 17


async def test_a_foreign_origin_is_shut_out(gateway: Site):
    """A browser on another site's page cannot upgrade."""
    with pytest.raises(InvalidStatus) as refused:
        async with gateway.open(origin="https://evil.example"):
            pass
    assert refused.value.response.status_code == 403


async def _text_until_end(peer: Peer, g: int, text: str) -> str:
    while True:
        frame: dict[str, Any] = await peer.hear()
        if frame["t"] == "delta":
            assert frame["p"] == len(text)
            text += frame["x"]
            await peer.tell("ack", a=[[g, frame["b"]]])
        elif frame["t"] == "end":
            assert frame["h"] == hashlib.sha256(text.encode()).hexdigest()
            return text


async def _noted(site: Site, id: str) -> bool:
    names = [name async for name in site.redis.scan_iter("*sess:*:ids")]
    noted = [await site.redis.smembers(name) for name in names]  # pyright: ignore[reportGeneralTypeIssues]
    return any(id.encode() in ids for ids in noted)


async def _forgotten(site: Site, session: str) -> bool:
    return not await site.redis.exists(f"{{t:{site.tenant}}}sess:{session}")


async def _recorded(site: Site) -> bool:
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {site.key}"}) as client:
        listed = (await client.get(f"{site.url}/v1/conversations")).json()["conversations"]
    await asyncio.sleep(0)
    return bool(listed) and not listed[0]["running"]
