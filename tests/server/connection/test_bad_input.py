"""What a client can get wrong, in words: the error says what to do. That each is answered, and whether the
connection lives, are conformance cases (tests/conformance/gateway: codec, states, hello, limits)."""

from typing import Any

import pytest

from core.clock import now_ms
from core.ids import uuid7
from tests.server.site import CONTEXT, Site

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


async def test_unknown_models_and_long_prompts(gateway: Site):
    """The refusals say which models there are, how long the prompt is and what fits."""
    async with gateway.welcomed() as peer:
        await peer.send(model="gpt-99")
        error = await peer.hear()
        assert (error["code"], "tiny" in error["message"]) == ("unknown_model", True)
        await peer.send("x" * CONTEXT)
        error = await peer.hear()
        assert (error["code"], error["limit"]) == ("too_large", CONTEXT)
        assert "this message has 2067 tokens" in error["message"]
        await peer.send("x", options={"max_tokens": CONTEXT})
        assert (await peer.hear())["code"] == "too_large"
        await peer.quiet()


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
