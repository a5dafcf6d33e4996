"""Frames: both encodings carry the same messages, and what is no message says why."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.protocol import messages as m
from server.protocol.codec import Malformed, Subprotocol, body_hash, choose_subprotocol, decode, encode

LIMIT = 4096
SENT: list[dict[str, Any]] = [
    {"t": "hello", "v": 1, "token": "k", "window": {"events": 5}, "caps": ["trace"]},
    {"t": "send", "id": "x", "content": [{"type": "text", "text": "ü"}], "options": {"seed": 2**53 - 1}},
    {"t": "attach", "id": "x", "epoch": None, "o": 3},
    {"t": "ack", "a": [[1, 2], [2, 9]], "w": {"1": 0}},
    {"t": "pong", "ts": 1.5, "a": [[1, 2]]},
    {"t": "bye", "unknown": {"fields": ["are", "ignored"]}},
]


@pytest.mark.parametrize("message", SENT, ids=[message["t"] for message in SENT])
def test_both_subprotocols_read_the_same(message: dict[str, Any]):
    """One message, two encodings, one struct."""
    json = decode(msgspec.json.encode(message).decode(), Subprotocol.JSON, LIMIT)
    assert json == decode(msgspec.msgpack.encode(message), Subprotocol.MSGPACK, LIMIT)


def test_both_subprotocols_write_the_same():
    """`from` is a field although Python has a word like it; what is absent is left out."""
    attached = m.Attached(1, "x", 1, 4, 9, "running")
    fields = {"t": "attached", "g": 1, "id": "x", "epoch": 1, "from": 4, "head": 9, "state": "running"}
    assert msgspec.json.decode(encode(attached, Subprotocol.JSON)) == fields
    packed = encode(attached, Subprotocol.MSGPACK)
    assert isinstance(packed, bytes)
    assert msgspec.msgpack.decode(packed) == fields
    assert encode(m.Event(1, "queued", 1), Subprotocol.JSON) == b'{"t":"event","g":1,"k":"queued","o":1}'


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(frame: str):
    """Whatever comes is a message or malformed, never another error."""
    for subprotocol, data in ((Subprotocol.JSON, frame), (Subprotocol.MSGPACK, frame.encode())):
        with pytest.raises(Malformed):
            decode(data, subprotocol, LIMIT)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(frame: bytes):
    """The same for binary frames."""
    with pytest.raises(Malformed):
        decode(frame, Subprotocol.MSGPACK, LIMIT)


def test_what_could_be_read_of_a_bad_message_is_known():
    """So that the error can name the message it answers."""
    with pytest.raises(Malformed) as bad:
        decode('{"t":"attach","id":"x","o":"y"}', Subprotocol.JSON, LIMIT)
    assert (bad.value.re, bad.value.id) == ("attach", "x")
    assert bad.value.refusal.message == "attach: o: expected `int`, got `str`"


def test_control_messages_are_short_and_sends_may_be_long():
    """4 KiB and the frame's own limit."""
    long = "y" * 5000
    assert isinstance(decode(f'{{"t":"send","id":"x","content":"{long}"}}', Subprotocol.JSON, LIMIT), m.Send)
    with pytest.raises(Malformed, match="longer than 4096 bytes"):
        decode(f'{{"t":"detach","id":"x","y":"{long}"}}', Subprotocol.JSON, LIMIT)


def test_a_body_hash_depends_on_values_only():
    """Neither on the order of keys nor on how a number was written."""
    assert body_hash({"a": 1, "b": {"c": 2, "d": 3}}) == body_hash({"b": {"d": 3, "c": 2}, "a": 1})
    assert body_hash({"a": 1}) != body_hash({"a": 2})


def test_the_first_known_subprotocol_is_chosen():
    """JSON where both are offered; none where none is known."""
    assert choose_subprotocol(["x", "parley.v1.msgpack", "parley.v1.json"]) is Subprotocol.JSON
    assert choose_subprotocol(["parley.v1.msgpack"]) is Subprotocol.MSGPACK
    assert choose_subprotocol(["parley.v2.json"]) is None


HALF = "a text holds half of a surrogate pair, which is no Unicode character"
LONG = "i" * 64


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"x", ("bad_message", "parley.v1.json has text frames in UTF-8 only", None)),
        ("[]", ("bad_message", "the frame is not a JSON object", None)),
        ("{", ("bad_message", "the frame is not a JSON object: Input data was truncated", None)),
        (b"\x91\x01", ("bad_message", "the frame is not a MessagePack map", None)),
        (f'{{"t":"ack","id":"{LONG}","a":7}}', ("bad_message", "ack: a: expected `array`, got `int`", LONG)),
        (f'{{"t":"ack","id":"{LONG}i","a":7}}', ("bad_message", "ack: a: expected `array`, got `int`", None)),
        ('{"t":"send","id":"a","content":["\u00e9",7,"\\ud800"]}', ("bad_request", HALF, "a")),
        ('{"t":"send","id":"a","\\ud800":1}', ("bad_request", HALF, "a")),
        ('{"t":"send","id":"a","x":{"a":"b","c":"\\udfff"},"n":"é"}', ("bad_request", HALF, "a")),
        (
            '{"t":"send","id":7,"content":"\\u00e9"}',
            ("bad_message", "send: id: expected `str`, got `int`", None),
        ),
    ],
)
def test_what_is_wrong_with_a_frame_has_words(frame: str | bytes, said: tuple[str, str, str | None]):
    """For who writes a client: of which message, too, where that can be read and is short."""
    subprotocol = Subprotocol.MSGPACK if frame == b"\x91\x01" else Subprotocol.JSON
    with pytest.raises(Malformed) as found:
        decode(frame, subprotocol, LIMIT)
    wrong = found.value
    assert (wrong.refusal.code, wrong.refusal.message, wrong.id) == said
    assert wrong.re == (str(frame).split('"')[3] if '"t"' in str(frame) else None)


def test_binary_frames_are_binary():
    """A text there is none."""
    with pytest.raises(Malformed, match=r"^parley\.v1\.msgpack has binary frames only$"):
        decode("x", Subprotocol.MSGPACK, LIMIT)
