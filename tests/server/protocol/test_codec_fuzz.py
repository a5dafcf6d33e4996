"""The codec against anything: a frame becomes a message or Malformed, and no answer says what it held.

Random cases come from one seed, which is printed when a test fails; PARLEY_FUZZ_SEED=… runs it again.
"""

import json
import os
import random
import tracemalloc
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.protocol import messages as m
from server.protocol.codec import ID_CHARACTERS_MAX, Malformed, Subprotocol, decode, encode, type_of
from server.protocol.codes import ErrorCode

FRAME_BYTES = 256 * 1024
CONTROL_BYTES = 4096
SEED = int(os.environ.get("PARLEY_FUZZ_SEED", random.randrange(2**32)))
MUTATIONS = 4000
MESSAGE_CHARACTERS_MAX = 300
SECRET = "Zq7secretZq7"
HELLO: dict[str, Any] = {
    "t": "hello",
    "v": 1,
    "token": SECRET,
    "agent": {"name": "fuzz", "version": "1"},
    "window": {"events": 5, "bytes": 900},
    "caps": ["trace", "batch"],
    "resume": {"token": SECRET, "requests": [{"id": "r", "epoch": 1, "o": 4}]},
}
SEND: dict[str, Any] = {
    "t": "send",
    "id": "019aa3c2-5f20-7c11-8a53-3f6f0d5c9d01",
    "model": "smollm2",
    "messages": [{"role": "user", "content": f"é😀 {SECRET}"}],
    "options": {"max_tokens": 5, "temperature": 0.5, "stop": ["\n"]},
    "metadata": {"user": SECRET},
}
VALID: list[dict[str, Any]] = [
    HELLO,
    SEND,
    {"t": "attach", "id": "r", "epoch": None, "o": 3},
    {"t": "detach", "id": "r"},
    {"t": "ack", "a": [[1, 2], [2, 900]], "w": {"1": 0}},
    {"t": "cancel", "id": "r"},
    {"t": "auth", "token": SECRET},
    {"t": "ping", "ts": 17.5, "a": [[1, 2]]},
    {"t": "pong", "ts": 1763699100000, "a": []},
    {"t": "bye"},
]
WRONG: list[Any] = [
    *(None, True, -1, 2**63, 2**64 - 1, -(2**63), 1e308, 0.5, "", "x" * 65, [], [[]], [[1]], {}, {"a": 1})
]


@pytest.fixture
def seeded(request: pytest.FixtureRequest) -> random.Random:
    """A source of chance that can be had again."""
    print(f"PARLEY_FUZZ_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")  # pyright: ignore[reportUnknownMemberType]


def take(frame: str | bytes, subprotocol: Subprotocol) -> m.ClientMessage | Malformed:
    """Decode, and hold what comes out against everything that is promised of it."""
    try:
        message = decode(frame, subprotocol, CONTROL_BYTES)
    except Malformed as malformed:
        _says_little(malformed, frame)
        return malformed
    assert isinstance(message, get_args(m.ClientMessage))
    return message


def _says_little(malformed: Malformed, frame: str | bytes) -> None:
    refused = malformed.refusal
    assert refused.code in (ErrorCode.BAD_MESSAGE, ErrorCode.BAD_REQUEST)
    assert not refused.retry
    assert len(refused.message) <= MESSAGE_CHARACTERS_MAX, f"{len(refused.message)} characters about a frame"
    assert SECRET not in refused.message, refused.message
    for said in (malformed.re, malformed.id):
        assert said is None or len(said) <= ID_CHARACTERS_MAX
    # What is answered must be sendable, whatever came in.
    error = m.Error(refused.code, refused.message, refused.retry, malformed.re, malformed.id)
    for subprotocol in Subprotocol:
        assert encode(error, subprotocol), frame


def framed(fields: Any, subprotocol: Subprotocol) -> str | bytes:
    """A frame as clients write it."""
    if subprotocol is Subprotocol.JSON:
        return json.dumps(fields, ensure_ascii=False)
    return msgspec.msgpack.encode(fields)


# Anything at all


@settings(max_examples=400)
@given(st.binary(max_size=4000))
def test_arbitrary_bytes(data: bytes):
    """As a binary frame, and as the text they spell."""
    take(data, Subprotocol.MSGPACK)
    take(data.decode(errors="replace"), Subprotocol.JSON)
    take(data.decode("latin-1"), Subprotocol.JSON)


keys = st.text(max_size=8) | st.sampled_from(["t", "id", "o", "a", "w"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=400)
@given(json_values, st.sampled_from(Subprotocol))
def test_arbitrary_values(value: Any, subprotocol: Subprotocol):
    """Well-formed JSON and MessagePack of every shape; NaN and infinities are how Python writes them."""
    take(framed(value, subprotocol), subprotocol)


@settings(max_examples=400)
@given(st.sampled_from(VALID), st.data())
def test_wrong_kinds(fields: dict[str, Any], data: st.DataObject):
    """A message with any of its fields, and one within, replaced by something else."""
    name = data.draw(st.sampled_from(sorted(fields)))
    wrong = data.draw(st.sampled_from(WRONG) | json_values)
    for subprotocol in Subprotocol:
        take(framed({**fields, name: wrong}, subprotocol), subprotocol)


# Damaged messages


@pytest.mark.parametrize("subprotocol", Subprotocol)
@pytest.mark.parametrize("fields", VALID, ids=[fields["t"] for fields in VALID])
def test_cut_at_every_byte(fields: dict[str, Any], subprotocol: Subprotocol):
    """No beginning of a message is a message."""
    whole = framed(fields, subprotocol)
    assert not isinstance(take(whole, subprotocol), Malformed)
    for at in range(len(whole)):
        assert isinstance(take(whole[:at], subprotocol), Malformed), whole[:at]


@pytest.mark.parametrize("subprotocol", Subprotocol)
def test_bits_flipped(seeded: random.Random, subprotocol: Subprotocol):
    """One to three bits of a good message differ."""
    frames = [framed(fields, subprotocol) for fields in VALID]
    for _ in range(MUTATIONS):
        frame = seeded.choice(frames)
        data = bytearray(frame.encode() if isinstance(frame, str) else frame)
        for _ in range(seeded.randint(1, 3)):
            data[seeded.randrange(len(data))] ^= 1 << seeded.randrange(8)
        text = subprotocol is Subprotocol.JSON
        take(bytes(data).decode(errors="surrogateescape") if text else bytes(data), subprotocol)


def test_pieces_swapped_and_doubled(seeded: random.Random):
    """Parts of two messages stuck together, parts left out, parts twice."""
    for subprotocol in Subprotocol:
        frames = [framed(fields, subprotocol) for fields in VALID]
        for _ in range(MUTATIONS):
            one, other = seeded.choice(frames), seeded.choice(frames)
            cut, on = seeded.randrange(len(one)), seeded.randrange(len(other))
            take(one[:cut] + other[on:], subprotocol)  # pyright: ignore[reportOperatorIssue]


def test_keys_given_twice():
    """The last one counts, in both encodings, also where the types differ."""
    assert take('{"t":"attach","id":"a","o":1,"id":"b","o":2}', Subprotocol.JSON) == m.Attach("b", 2)
    pairs = [("t", "attach"), ("id", "a"), ("o", 1), ("id", "b"), ("o", 2)]
    packed = bytes([0x80 | len(pairs)]) + b"".join(
        msgspec.msgpack.encode(each) for pair in pairs for each in pair
    )
    assert take(packed, Subprotocol.MSGPACK) == m.Attach("b", 2)
    take('{"t":"attach","id":"a","o":1,"t":"detach"}', Subprotocol.JSON)
    assert isinstance(take('{"t":"attach","id":"a","o":1,"o":"x"}', Subprotocol.JSON), Malformed)


def test_half_a_surrogate_pair():
    """It is no Unicode character: a bad_request that names the message, wherever it stands."""
    for text in ("\\ud800", "\\udfff x", "\\ude00\\ud83d"):
        refused = take(f'{{"t":"send","id":"r","content":"{text}"}}', Subprotocol.JSON)
        assert isinstance(refused, Malformed)
        assert (refused.refusal.code, refused.re, refused.id) == (ErrorCode.BAD_REQUEST, "send", "r")
        assert isinstance(take(f'{{"t":"send","id":"{text}"}}', Subprotocol.JSON), Malformed)
        assert isinstance(take(f'{{"{text}":1,"t":"bye","v":{{"{text}":2}}}}', Subprotocol.JSON), Malformed)
    assert isinstance(take(b"\x82\xa1t\xa4send\xa2id\xa3\xed\xa0\x80", Subprotocol.MSGPACK), Malformed)


HUGE = ["1" * 5000, "-" + "9" * 400, "1" * 400, "1e400", "NaN", "Infinity", "0." + "3" * 5000]


@pytest.mark.parametrize("number", HUGE, ids=lambda number: f"{number[:5]} of {len(number)}")
@pytest.mark.parametrize("field", ["o", "epoch", "x"])
def test_numbers_that_no_machine_holds(number: str, field: str):
    """Too large, too long or not a number: malformed, or taken as what it is and none the worse."""
    taken = take(f'{{"t":"attach","id":"r","o":1,"{field}":{number}}}', Subprotocol.JSON)
    whole = number.lstrip("-").isdecimal() and len(number) < CONTROL_BYTES
    assert isinstance(taken, Malformed) or field == "x" or whole


@pytest.mark.parametrize("fields", VALID, ids=[fields["t"] for fields in VALID])
def test_the_wrong_kind_of_frame(fields: dict[str, Any]):
    """Text where bytes are spoken, bytes where text is."""
    assert isinstance(take(framed(fields, Subprotocol.JSON), Subprotocol.MSGPACK), Malformed)
    assert isinstance(take(framed(fields, Subprotocol.MSGPACK), Subprotocol.JSON), Malformed)


# Large ones


def _nested_json(depth: int, opening: str, closing: str) -> str:
    return '{"t":"send","id":"r","content":' + opening * depth + "1" + closing * depth + "}"


LARGE: dict[str, Callable[[], str | bytes]] = {
    "lists in lists": lambda: _nested_json(100_000, "[", "]"),
    "objects in objects": lambda: _nested_json(40_000, '{"a":', "}"),
    "lists never closed": lambda: _nested_json(200_000, "[", ""),
    "unknown field": lambda: '{"t":"bye","x":' + "[" * 100_000 + "]" * 100_000 + "}",
    "packed lists": lambda: b"\x83\xa1t\xa4send\xa2id\xa1r\xa7content" + b"\x91" * 100_000 + b"\x01",
    "packed maps": lambda: b"\x83\xa1t\xa4send\xa2id\xa1r\xa7content" + b"\x81\xa1a" * 80_000 + b"\x01",
    "packed: four billion to come": lambda: b"\x82\xa1t\xa3ack\xa1a\xdd\xff\xff\xff\xff",
    "packed: a text of four billion": lambda: b"\x82\xa1t\xa4auth\xa5token\xdb\xff\xff\xff\xff",
    "many keys": lambda: '{"t":"bye"' + "".join(f',"k{n}":0' for n in range(24_000)) + "}",
    "many acks": lambda: '{"t":"ack","a":[' + ",".join(["[1,1]"] * 40_000) + "]}",
    "one long text": lambda: '{"t":"attach","id":"r","o":"' + "x" * 250_000 + '"}',
    "one long id": lambda: '{"t":"detach","id":"' + "x" * 250_000 + '"}',
    "one long type": lambda: '{"t":"' + "x" * 250_000 + '"}',
    "one long number": lambda: '{"t":"attach","id":"r","o":' + "7" * 250_000 + "}",
    "spaces": lambda: " " * 250_000 + '{"t":"bye"}',
    "escapes": lambda: '{"t":"detach","id":"' + "\\u00e9" * 40_000 + '"}',
    "surrogates": lambda: '{"t":"send","id":"r","content":"' + "\\ud83d" * 40_000 + '"}',
}
PER_FRAME_BYTE_MAX = 100  # what parsing may hold for each byte of a frame; {} alone is an object


@pytest.mark.parametrize("name", LARGE)
def test_the_largest_frames_take_no_more_than_their_size(name: str):
    """What a frame makes us hold is bounded by its own bytes, however deep or long it is."""
    frame = LARGE[name]()
    assert len(frame) <= 2 * FRAME_BYTES
    subprotocol = Subprotocol.JSON if isinstance(frame, str) else Subprotocol.MSGPACK
    tracemalloc.start()
    try:
        taken = take(frame, subprotocol)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(taken, Malformed), type(taken)
    assert peak <= PER_FRAME_BYTE_MAX * max(len(frame), CONTROL_BYTES), f"{peak} bytes for {len(frame)}"


# Good ones

natural = st.integers(0, 2**63 - 1)
ids = st.text(st.characters(codec="utf-8"), max_size=64)
texts = st.text(st.characters(codec="utf-8"), max_size=30)
acks = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), natural).map(list), max_size=5)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
moments = natural | st.floats(allow_nan=False, allow_infinity=False)
listed = st.fixed_dictionaries({"id": ids, "epoch": st.none() | natural, "o": natural})
good = st.one_of(
    st.fixed_dictionaries(
        {"t": st.just("hello"), "v": st.integers(0, 9)},
        optional={
            "token": texts,
            "window": st.fixed_dictionaries({}, optional={"events": natural, "bytes": natural}),
            "caps": st.lists(texts, max_size=16),
            "resume": st.fixed_dictionaries({"requests": st.lists(listed)}),
        },
    ),
    st.fixed_dictionaries({"t": st.just("send"), "id": ids, "content": plain}, optional={"options": plain}),
    st.fixed_dictionaries({"t": st.just("attach"), "id": ids, "o": natural}, optional={"epoch": natural}),
    st.fixed_dictionaries({"t": st.sampled_from(["detach", "cancel"]), "id": ids}),
    st.fixed_dictionaries(
        {"t": st.just("ack"), "a": acks},
        optional={"w": st.dictionaries(st.integers(0, 99).map(str), natural, max_size=3)},
    ),
    st.fixed_dictionaries(
        {
            "t": st.sampled_from(["ping", "pong"]),
            "ts": natural | st.floats(allow_nan=False, allow_infinity=False),
        },
        optional={"a": acks},
    ),
    st.fixed_dictionaries({"t": st.just("auth"), "token": texts}),
)


@settings(max_examples=400)
@given(good)
def test_good_messages_read_the_same_in_both_encodings(fields: dict[str, Any]):
    """Whatever a client may write arrives as the same struct, which written again is what it was."""
    first = decode(framed(fields, Subprotocol.JSON), Subprotocol.JSON, 2 * FRAME_BYTES)
    second = decode(framed(fields, Subprotocol.MSGPACK), Subprotocol.MSGPACK, 2 * FRAME_BYTES)
    assert first == second
    assert type_of(first) == fields["t"]
    assert decode(msgspec.json.encode(first).decode(), Subprotocol.JSON, 2 * FRAME_BYTES) == first


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """All values of a field's type that both encodings can hold."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return st.builds(kind, **{field.name: values_of(field.type) for field in fields})
    if get_origin(kind) is Annotated:  # of texts alone
        return st.from_regex(get_args(kind)[1].pattern)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is list:
        return st.lists(values_of(get_args(kind)[0]), max_size=3)
    if get_origin(kind) in (Union, UnionType):
        return st.one_of([values_of(each) for each in get_args(kind)])
    simple = {str: texts, int: st.integers(-(2**63), 2**63 - 1), bool: st.booleans(), NoneType: st.none()}
    left_out = {msgspec.UnsetType: st.just(msgspec.UNSET)}
    return {**simple, **left_out, float: moments, Any: plain, dict[str, Any]: st.dictionaries(texts, plain)}[
        kind
    ]


server_messages = st.one_of([values_of(kind) for kind in get_args(m.ServerMessage)])


@settings(max_examples=600)
@given(server_messages)
def test_server_messages_write_the_same_in_both_encodings(message: m.ServerMessage):
    """Every message of the server, with any values: the same object on the wire, its type under `t`."""
    written = msgspec.json.decode(encode(message, Subprotocol.JSON))
    packed = encode(message, Subprotocol.MSGPACK)
    assert isinstance(packed, bytes)
    assert msgspec.msgpack.decode(packed) == written
    assert written["t"] == type_of(message)
    assert None not in [written.get(name, 0) for name in ("re", "batch", "why", "after_ms", "limit")]
    if isinstance(message, m.End) and msgspec.UNSET in (message.cost, message.usage.cached_input):
        hidden = [message.cost, message.usage.cached_input].count(msgspec.UNSET)
        assert hidden == ("cost" not in written) + ("cached_input" not in written["usage"])
    else:
        assert msgspec.json.decode(encode(message, Subprotocol.JSON), type=type(message)) == message
