"""Frames in pieces, in fragments, out of order and out of sense: the meaning of the whole, or a typed end."""

import asyncio
import json
import random
from typing import Any

import httpx

from core.clock import now_ms
from core.ids import uuid7
from server.protocol.codes import CloseCode
from tests.server.conftest import gateway as gateway
from tests.server.site import Site
from tests.support.gateways import LetterEngine
from tests.support.patience import BEAT_SECONDS, pause, wait_until
from tests.system.beside import leaving_nothing, neighbour, no_work
from tests.system.raw import (
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    framed,
    message,
    upgraded,
)

SHORT = {"max_tokens": 10, "min_tokens": 10}


CLIENT_MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "send": ({"content": "split", "options": SHORT}, "accepted"),
    "attach": ({"o": 0}, "error not_resumable attach"),
    "detach": ({}, "pong"),
    "ack": ({"a": [[1, 0]], "w": {"1": 100}}, "pong"),
    "cancel": ({}, "cancel_ok"),
    "ping": ({"ts": 5, "a": [[1, 0]]}, "pong"),
    "pong": ({"ts": 5}, "pong"),
    "auth": ({"token": "pk_wrong"}, "error unauthorized auth"),
    "bye": ({}, "close 1000"),
}


async def test_frames_may_be_cut_anywhere(gateway: Site):
    """Every client message, byte by byte and cut in two at every position, means what it means whole."""
    async with (
        gateway.crew.worker(LetterEngine(0.001)),
        leaving_nothing(gateway),
        neighbour(gateway.url, gateway.key),
    ):
        for kind, (fields, answer) in CLIENT_MESSAGES.items():
            named = {"id": uuid7(now_ms())} if kind in ("send", "attach", "detach", "cancel") else {}
            frame = message(kind, **named, **fields)
            cuts = range(1, len(frame), 1 if kind == "ack" else 9)
            pieces = [[frame], [bytes([byte]) for byte in frame], *([frame[:at], frame[at:]] for at in cuts)]
            for each in pieces:
                assert await answer_to(gateway, kind, each) == answer, (kind, each)
        await wait_until(lambda: no_work(gateway))


async def answer_to(site: Site, kind: str, pieces: list[bytes]) -> str:
    """The server's first answer to these bytes: its type, code and what it answers, or its close code."""
    async with upgraded(site.settings.port) as raw:
        await raw.hello(site.key)
        await raw.send(*pieces)
        if kind in ("detach", "ack", "pong"):  # they have no answer: that of a ping comes next
            await raw.send(message("ping", ts=99))
        frame_kind, payload = await raw.frame()
        if frame_kind == CLOSE:
            return f"close {int.from_bytes(payload[:2], 'big')}"
        frame = json.loads(payload)
        return " ".join(str(frame[name]) for name in ("t", "code", "re") if name in frame)


async def test_fragments_with_control_frames_between(gateway: Site):
    """A message in many fragments with pings between them: each ping is answered, the message is whole."""
    send = json.dumps({"t": "ping", "ts": 12345}).encode()
    async with upgraded(gateway.settings.port) as raw:
        await raw.hello(gateway.key)
        for at, byte in enumerate(send):
            kind = TEXT if at == 0 else CONTINUATION
            await raw.send(framed(bytes([byte]), kind, fin=at == len(send) - 1), framed(b"%d" % at, PING))
        pongs: list[bytes] = []
        while True:
            kind, payload = await raw.frame()
            if kind == PONG:
                pongs.append(payload)
            else:
                assert json.loads(payload) == {"t": "pong", "ts": 12345}
                break
        assert pongs == [b"%d" % at for at in range(len(pongs))]
        assert len(pongs) >= len(send) - 1


async def test_fragments_that_never_end_have_the_limit_of_a_frame(gateway: Site):
    """Endless fragments of one message are an oversized frame: close 4509."""
    async with leaving_nothing(gateway), upgraded(gateway.settings.port) as raw:
        await raw.hello(gateway.key)
        closed = asyncio.create_task(raw.close_code())
        await raw.send(framed(b"x" * 60_000, TEXT, fin=False))
        while not closed.done():
            raw.writer.write(framed(b"x" * 60_000, CONTINUATION, fin=False))
            await pause(BEAT_SECONDS)
        assert await closed == CloseCode.TOO_BIG


async def test_garbage_ends_a_socket_and_no_other(gateway: Site):
    """Random bytes after the handshake, before and after hello: the socket is closed, whatever they are."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    async with leaving_nothing(gateway), neighbour(gateway.url, gateway.key):
        for n in range(100):
            async with upgraded(gateway.settings.port) as raw:
                if n % 2:
                    await raw.hello(gateway.key)
                code = asyncio.create_task(raw.close_code())
                try:
                    while not code.done():
                        await raw.send(chance.randbytes(200))
                        await asyncio.sleep(0)
                except ConnectionError:
                    pass
                assert (await code) in (
                    1002,
                    1003,
                    1007,
                    1009,
                    CloseCode.TOO_BIG,
                    CloseCode.BAD_MESSAGE,
                    None,
                )


async def test_a_ticket_lets_one_in(gateway: Site):
    """Ten sockets show the same ticket at once: one welcome, nine times unauthorized."""
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {gateway.key}"}) as caller:
        ticket = (await caller.post(f"{gateway.url}/v1/tickets", json={"user": "ada"})).json()["ticket"]

    async def show() -> str:
        async with gateway.open() as peer:
            await peer.tell("hello", v=1, token=ticket)
            frame = await peer.hear()
            return str(frame.get("code", frame["t"]))

    heard = await asyncio.gather(*(show() for _ in range(10)))
    assert sorted(heard) == ["unauthorized"] * 9 + ["welcome"]


async def test_huge_numbers_are_clamped_or_refused(gateway: Site):
    """In windows, acks, offsets, epochs and timestamps: a welcome or a typed error, and it lives on."""
    async with gateway.crew.worker(LetterEngine()), leaving_nothing(gateway):
        for number in (2**53, 2**63 - 1, 2**63, 2**64, 2**200):
            await check_number(gateway, number)
        await wait_until(lambda: no_work(gateway))


async def check_number(site: Site, number: int) -> None:
    """One number, everywhere where one may stand."""
    async with site.open() as peer:
        await peer.tell("hello", v=1, token=site.key, window={"events": number, "bytes": number})
        frame = await peer.hear()
        assert frame["t"] == "welcome" or frame["code"] == "bad_message"
    async with site.welcomed() as peer:
        id = await peer.send("x", options={"max_tokens": 400, "min_tokens": 400})
        g = (await peer.hear("accepted"))["g"]
        await peer.tell("ack", a=[], w={str(g): number})
        await peer.tell("attach", id=id, o=number, epoch=number)
        await peer.tell("ping", ts=number)
        await peer.tell("ack", a=[[number, number]])
        await peer.tell("ack", a=[[g, number]])
        await peer.tell("cancel", id=id)
        assert (await peer.hear("cancel_ok"))["id"] == id
