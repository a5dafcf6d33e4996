"""Everything a client can get wrong: a typed error that says what to do, and the connection lives or closes
as docs/protocol.md says."""

from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from core.clock import now_ms
from core.database import Database
from core.ids import uuid7
from core.settings import Settings
from tests.server.site import CONTEXT, Peer, Site, running_site

BAD_MESSAGES = {
    "not JSON": "nope",
    "no object": "[1, 2]",
    "no type": '{"id": 1}',
    "type is no text": '{"t": 5}',
    "unknown type": '{"t": "shout"}',
    "wrong type of a field": '{"t": "send", "id": 5}',
    "missing field": '{"t": "attach", "id": "x"}',
    "negative offset": '{"t": "attach", "id": "x", "o": -1}',
    "ack is no list": '{"t": "ack", "a": 3}',
    "ack is no pair": '{"t": "ack", "a": [[1]]}',
    "window is negative": '{"t": "ack", "a": [], "w": {"1": -1}}',
    "window is no integer": '{"t": "ack", "a": [], "w": {"1": 1.5}}',
    "window of no g": '{"t": "ack", "a": [], "w": {"x": 1}}',
    "too deep": '{"t": "send", "id": "x", "content": ' + "[" * 50_000 + "]" * 50_000 + "}",
    "long control message": '{"t": "detach", "id": "x", "more": "' + "y" * 5000 + '"}',
    "second hello": '{"t": "hello", "v": 1}',
}
BAD_VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "no content": ({"content": None}, "exactly one of `content` and `messages`"),
    "both": ({"messages": [{"role": "user", "content": "x"}]}, "exactly one of"),
    "empty": ({"content": ""}, "the prompt is empty"),
    "blank": ({"content": " \n"}, "the prompt is empty"),
    "no messages": ({"content": None, "messages": []}, "1 to 1024 messages"),
    "a role": ({"content": None, "messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    "a part": ({"content": [{"type": "image"}]}, "content"),
    "a number": ({"content": 7}, "content"),
    "NUL": ({"content": "a\0b"}, "U+0000"),
    "an id": ({"id": "not-a-uuid"}, "UUIDv7"),
    "an old id": ({"id": uuid7(now_ms() - 25 * 3_600_000)}, "more than 24 h ago"),
    "a future id": ({"id": uuid7(now_ms() + 24 * 3600_000)}, "more than 5 min ahead"),
    "a conversation": ({"conversation": "mine"}, "conversation"),
    "unknown option": ({"options": {"tempratur": 1}}, "tempratur"),
    "options list": ({"options": [1]}, "options: expected an object"),
    "temperature": ({"options": {"temperature": 2.5}}, "options.temperature"),
    "top_p": ({"options": {"top_p": 0}}, "options.top_p"),
    "max_tokens": ({"options": {"max_tokens": 0}}, "options.max_tokens"),
    "a text": ({"options": {"max_tokens": "many"}}, "options.max_tokens"),
    "min over max": ({"options": {"max_tokens": 2, "min_tokens": 3}}, "min_tokens"),
    "seed": ({"options": {"seed": 2**53}}, "options.seed"),
    "five stops": ({"options": {"stop": ["a"] * 5}}, "options.stop"),
    "long stop": ({"options": {"stop": ["a" * 65]}}, "options.stop"),
    "priority": ({"options": {"priority": "urgent"}}, "options.priority"),
    "deadline": ({"options": {"deadline_ms": 0}}, "options.deadline_ms"),
    "logprobs": ({"options": {"logprobs": True}}, "logprobs"),
    "format": ({"options": {"response_format": {}}}, "options.response_format: expected"),
    "format's name": (
        {"options": {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}},
        "options.response_format.json_schema",
    ),
    "schema": (
        {
            "options": {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"type": "array", "uniqueItems": True}},
                }
            }
        },
        "options.response_format: schema, at #: uniqueItems is not supported",
    ),
    "format and min_tokens": (
        {"options": {"min_tokens": 2, "max_tokens": 9, "response_format": {"type": "json_object"}}},
        "options.min_tokens: an answer in a response_format",
    ),
    "metadata": ({"metadata": [1]}, "metadata: expected an object"),
    "large metadata": ({"metadata": {"a": "x" * 5000}}, "metadata"),
    "user": ({"metadata": {"user": 5}}, "metadata.user"),
    "user with a zero": (
        {"metadata": {"user": "free\x00rider"}},
        "metadata.user: expected a name of 1 to 200",
    ),
    "user who turns text": ({"metadata": {"user": "a\u202eb"}}, "metadata.user: expected a name"),
    "project with an escape": ({"metadata": {"project": "\x1b[2J"}}, "metadata.project: expected a name"),
}


@pytest.mark.parametrize("frame", BAD_MESSAGES.values(), ids=BAD_MESSAGES.keys())
async def test_a_bad_message_is_answered_and_the_connection_lives(gateway: Site, frame: str):
    """`error bad_message` with a reason; the next message is served."""
    async with gateway.welcomed() as peer:
        await peer.socket.send(frame)
        error = await peer.hear()
        assert (error["t"], error["code"], error["retry"]) == ("error", "bad_message", False)
        assert error["message"]
        await peer.quiet()


async def test_bad_values_are_answered_with_what_to_do(gateway: Site):
    """`error bad_request` naming the value and the request's id; the connection lives, nothing runs."""
    async with gateway.welcomed() as peer:
        for name, (fields, words) in BAD_VALUES.items():
            id = await peer.send(**{"content": "x", **fields})
            error = await peer.hear()
            assert (error["t"], error.get("code")) == ("error", "bad_request"), (name, error)
            assert (error["re"], error["id"]) == ("send", id), name
            assert words in error["message"], (name, error)
        await peer.quiet()
    names = [name async for name in gateway.redis.scan_iter("*req:*")]
    assert names == []


async def test_a_lone_surrogate_is_a_bad_request(gateway: Site):
    """JSON can write half a pair; no Unicode text can."""
    async with gateway.welcomed() as peer:
        await peer.socket.send('{"t":"send","id":"x","content":"\\ud800"}')
        error = await peer.hear()
        assert (error["code"], error["re"], error["id"]) == ("bad_request", "send", "x")
        await peer.quiet()


async def test_bad_utf8_is_a_bad_message(gateway: Site):
    """A text frame of other bytes is refused; the connection lives."""
    async with gateway.welcomed() as peer:
        async with peer.socket.send_context():
            peer.socket.protocol.send_text(b'{"t":"ping","ts":"\xff\xfe"}')
        assert (await peer.hear())["code"] == "bad_message"
        await peer.quiet()


async def test_binary_frames_are_not_json(gateway: Site):
    """A subprotocol has one kind of frame."""
    async with gateway.welcomed() as peer:
        await peer.socket.send(b'{"t":"ping"}')
        assert (await peer.hear())["code"] == "bad_message"
        await peer.quiet()


async def test_unknown_models_and_long_prompts(gateway: Site):
    """The refusals say which models there are, how long the prompt is and what fits."""
    async with gateway.welcomed() as peer:
        await peer.send(model="gpt-99")
        error = await peer.hear()
        assert (error["code"], "tiny" in error["message"]) == ("unknown_model", True)
        await peer.send("x" * CONTEXT)
        error = await peer.hear()
        assert (error["code"], error["limit"]) == ("too_large", CONTEXT)
        assert "the prompt has 2067 tokens" in error["message"]
        await peer.send("x", options={"max_tokens": CONTEXT})
        assert (await peer.hear())["code"] == "too_large"
        await peer.quiet()


@pytest.mark.parametrize("size", [300_000, 3_000_000])
async def test_an_oversized_frame(gateway: Site, size: int):
    """A typed error, then 4509."""
    async with gateway.welcomed() as peer:
        await peer.send("x" * size)
        error = await peer.hear()
        assert (error["t"], error["limit"]) == ("error", gateway.settings.frame_bytes_max)
        assert await peer.closed() == 4509


async def test_the_largest_frame_is_read(gateway: Site):
    """256 KiB are a frame; this one is a prompt too long, not a frame too big."""
    async with gateway.welcomed() as peer:
        id = uuid7(now_ms())
        await peer.send("x" * (gateway.settings.frame_bytes_max - 85), id=id)
        assert (await peer.hear())["code"] == "too_large"


async def test_the_first_message_must_be_hello(gateway: Site):
    """4500 for another one, and for what is no message."""
    for frame in ('{"t":"ping","ts":1}', "nope"):
        async with gateway.open() as peer:
            await peer.socket.send(frame)
            assert (await peer.hear())["code"] == "bad_message"
            assert await peer.closed() == 4500


async def test_wrong_keys(gateway: Site):
    """`unauthorized`, then 4501, whatever is wrong with it, and none of it is in the answer, which is about
    what it looks like: a key is not told to get a ticket."""
    for token in ("", "pk_000000000000_" + "0" * 48, "sesame", gateway.key + "0", "pt_sesame", None):
        async with gateway.open() as peer:
            await peer.tell("hello", v=1, **({} if token is None else {"token": token}))
            error = await peer.hear()
            assert error["code"] == "unauthorized"
            assert not token or token not in str(error)
            looks = (
                "show an API key" if not token else "this ticket" if token.startswith("pt_") else "this key"
            )
            assert error["message"].startswith(looks)
            assert await peer.closed() == 4501


async def test_the_key_may_come_with_the_upgrade(gateway: Site):
    """`Authorization: Bearer`; hello.token wins over it."""
    async with gateway.open(authorization=f"Bearer {gateway.key}") as peer:
        await peer.tell("hello", v=1)
        assert (await peer.hear())["t"] == "welcome"
    async with gateway.open(authorization=f"Bearer {gateway.key}") as peer:
        await peer.tell("hello", v=1, token="wrong")
        assert (await peer.hear())["code"] == "unauthorized"


async def test_another_version(gateway: Site):
    """4506, after an error that names the version spoken here."""
    async with gateway.open() as peer:
        await peer.tell("hello", v=2, token=gateway.key)
        assert "version 1" in (await peer.hear())["message"]
        assert await peer.closed() == 4506


async def test_no_known_subprotocol(gateway: Site):
    """HTTP 400 instead of an upgrade."""
    address = gateway.url.replace("http", "ws") + "/v1/ws"
    with pytest.raises(InvalidStatus) as refused:
        async with connect(address):
            pass
    assert refused.value.response.status_code == 400


async def test_hello_too_late(settings: Settings, sqlite: Database, redis: Redis):
    """4502 after the time for it."""
    hasty = settings.model_copy(update={"hello_seconds_max": 0.2})
    async with running_site(hasty, sqlite, redis) as site, site.open() as peer:
        assert await peer.closed() == 4502


async def test_ten_bad_messages_in_a_minute(gateway: Site):
    """The tenth closes 4500."""
    async with gateway.welcomed() as peer:
        for _ in range(10):
            await peer.socket.send("nope")
        assert await peer.closed() == 4500


async def test_acks_of_what_was_never_sent(gateway: Site):
    """The third closes 4500."""
    async with gateway.welcomed() as peer:
        await peer.send()
        g = (await peer.hear("accepted"))["g"]
        for _ in range(3):
            await peer.tell("ack", a=[[g, 99]])
        assert (await peer.hear("error"))["re"] == "ack"
        assert await peer.closed() == 4500


async def test_too_many_connections_of_a_key(settings: Settings, sqlite: Database, redis: Redis):
    """`rate_limited` with scope key, then 4505."""
    few = settings.model_copy(update={"connections_per_key_max": 1})
    async with running_site(few, sqlite, redis) as site, site.welcomed(), site.open() as peer:
        await peer.tell("hello", v=1, token=site.key)
        error = await peer.hear()
        assert (error["code"], error["scope"], error["limit"]) == ("rate_limited", "key", 1)
        assert await peer.closed() == 4505


async def test_a_silent_client_is_dropped(settings: Settings, sqlite: Database, redis: Redis):
    """A ping, and after the timeout without any frame 4012."""
    quick = settings.model_copy(update={"heartbeat_interval_ms": 100, "heartbeat_timeout_ms": 50})
    async with running_site(quick, sqlite, redis) as site, site.welcomed() as peer:
        assert (await peer.hear())["t"] == "ping"
        assert await peer.closed() == 4012


async def test_messagepack_is_the_same_protocol(gateway: Site):
    """The same fields, in binary frames; window keys may be numbers."""
    async with gateway.answering("hi"), gateway.open("parley.v1.msgpack") as peer:
        pack, unpack = msgspec.msgpack.encode, msgspec.msgpack.decode
        await peer.socket.send(pack({"t": "hello", "v": 1, "token": gateway.key}))
        assert unpack(await _binary(peer))["t"] == "welcome"
        await peer.socket.send(pack({"t": "send", "id": uuid7(now_ms()), "content": "x"}))
        kinds = [unpack(await _binary(peer)) for _ in range(5)]
        assert [frame["t"] for frame in kinds] == ["accepted", "event", "event", "delta", "end"]
        await peer.socket.send(pack({"t": "ack", "a": [[1, kinds[-1]["o"]]], "w": {1: 5}}))
        await peer.socket.send(b"\xc1")
        assert unpack(await _binary(peer))["code"] == "bad_message"


async def test_no_secret_and_no_text_is_logged(gateway: Site, capfd: pytest.CaptureFixture[str]):
    """INV-15: neither what was asked and answered, nor the key, on any path."""
    async with gateway.answering("SECRET-ANSWER"), gateway.welcomed() as peer:
        await peer.send("SECRET-PROMPT")
        await peer.hear("end")
        await peer.socket.send('{"t":"send","id":"SECRET-ID","content":"SECRET-PROMPT","options":{"x":1}}')
        await peer.socket.send('SECRET-PROMPT{"')
        await peer.hear("error")
        await peer.hear("error")
    out, err = capfd.readouterr()
    assert "SECRET" not in out + err
    assert gateway.key not in out + err


async def _binary(peer: Peer) -> bytes:
    frame = await peer.socket.recv()
    assert isinstance(frame, bytes)
    return frame
