"""What strangers send is bounded before it is parsed, and refused before anything is asked for it."""

import asyncio
import base64
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from core.clock import now_ms
from core.configuration.settings import Settings
from core.ids import uuid7, uuid7_ms
from server.http import replies
from server.protocol import codec
from server.protocol.codec import Malformed, Subprotocol
from tests.server.http_site import HttpSite
from tests.support.patience import patience


def _cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


ID = uuid7(now_ms())
CURSORS = {
    "more than 64 bits": _cursor(f"{2**63}:{ID}"),
    "as many digits as Python refuses": _cursor("9" * 5000),
    "an id with NUL": _cursor("1:\0"),
    "no id": _cursor("1:x"),
    "an id and a line break": _cursor(f"1:{ID}\n"),
    "a sign": _cursor(f"-1:{ID}"),
    "digits of another script": _cursor("١"),
    "bytes": base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    "no base64": "!!!",
    "a good one and more": "!!!!" + _cursor(f"1:{ID}"),
    "cut base64": "abcde",
    "no ASCII": "é",
    "long": "A" * 50_000,
}


@pytest.mark.parametrize("cursor", CURSORS.values(), ids=CURSORS.keys())
async def test_a_cursor_that_is_not_ours_is_refused(site: HttpSite, cursor: str):
    """400 that names the cursor; SQL is not asked."""
    for path in ("/v1/conversations", f"/v1/conversations/{ID}/messages"):
        reply = await site.client.get(path, params={"cursor": cursor}, headers=site.bearer)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "bad_request"), path
        assert "cursor" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "id",
    ["x", "%00", f"{ID}%0A", ID.upper(), "%ff", "..%2f..", "a" * 4000],
    ids=["short", "null", "line", "upper", "no utf-8", "folders", "long"],
)
@pytest.mark.parametrize(("method", "rest"), [("GET", "/messages"), ("DELETE", "")])
async def test_an_id_that_is_none_is_unknown(site: HttpSite, id: str, method: str, rest: str):
    """As one that nobody has."""
    reply = await site.client.request(method, f"/v1/conversations/{id}{rest}", headers=site.bearer)
    assert reply.status_code == 404


BODIES: dict[str, Any] = {
    "deep": b'{"key":' + b"[" * 2000 + b"]" * 2000 + b"}",
    "deep objects": b'{"key":' * 500,
    "half a surrogate pair": b'{"key":"\\ud800"}',
    "a long number": b'{"key":' + b"1" * 4000 + b"}",
    "bytes": b'{"key":"\xff"}',
    "an array": b"[]",
    "large": b'{"key":"' + b"x" * 10_000 + b'"}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_a_body_that_is_none_is_refused(site: HttpSite, body: bytes):
    """400, whatever Python's parser would have made of it."""
    reply = await site.client.post("/v1/login", content=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "bad_request")


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "http://a:b@[", "\x00", "http://\xe9"])
async def test_an_origin_that_is_none_is_forbidden(site: HttpSite, origin: str):
    """It is nobody's."""
    headers = {b"origin": origin.encode("latin-1")}
    reply = await site.client.post("/v1/login", json={"key": site.key}, headers=headers)
    assert reply.status_code == 403


async def test_a_body_that_does_not_come_is_not_waited_for(site: HttpSite, monkeypatch: pytest.MonkeyPatch):
    """Its sender holds nothing for longer than seconds."""
    monkeypatch.setattr(replies, "BODY_SECONDS_MAX", 0.01)

    async def never() -> AsyncGenerator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async with patience():
        reply = await site.client.post("/v1/login", content=never())
    assert (reply.status_code, "did not arrive" in reply.json()["error"]["message"]) == (400, True)


def test_an_id_ends_where_it_ends():
    """A line break behind it makes it another text."""
    assert uuid7_ms(ID) is not None
    assert uuid7_ms(f"{ID}\n") is None


LARGEST = Settings().frame_bytes_max
TRIES = 5
HELD_SECONDS_MAX = 0.05
FRAMES = {
    "deep": '{"t":"send","id":"x","content":' + "[" * LARGEST,
    "many in a bad one": '{"t":"send","id":5,"content":[' + '"a",' * (LARGEST // 4),
    "many in one of a wrong type": '{"t":"send","id":5,"content":[' + '"a",' * (LARGEST // 4 - 50) + "1]}",
    "many keys": '{"t":"send","id":5,"metadata":{' + '"a":{},' * (LARGEST // 7 - 50) + '"b":1}}',
    "a long text": '{"t":"send","id":5,"content":"' + "x" * (LARGEST - 50) + '"}',
    "escapes": '{"t":"send","id":5,"content":"' + "\\u0041" * (LARGEST // 6 - 50) + '\\ud800"}',
    "a hello of many": '{"t":"hello","v":1,"resume":{"token":"x","requests":['
    + '{"id":"x","o":1},' * (LARGEST // 17 - 50)
    + "]}}",
    "a long number": '{"t":"send","id":"x","content":' + "1" * (LARGEST - 50) + "}",
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_the_largest_frame_is_refused_in_time(frame: str):
    """In CPU time of the loop's thread: what a peer sends holds up nobody else. The best of some: another
    process on the same core costs a thread's caches, too."""
    held = list[float]()
    for _ in range(TRIES):
        began = time.thread_time()
        with pytest.raises(Malformed):
            codec.decode(frame, Subprotocol.JSON, Settings().control_frame_bytes_max)
        held.append(time.thread_time() - began)
    assert min(held) < HELD_SECONDS_MAX
