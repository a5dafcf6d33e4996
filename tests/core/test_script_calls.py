"""What goes into Lua and comes out of it is the same there (core/redis/script_calls.py)."""

from typing import Any

import msgspec
import pytest

from core.redis.redis_errors import UnreadableReplyError
from core.redis.script_calls import (
    EXACT_MAX,
    ScriptCall,
    ScriptReply,
    Signed,
    arguments_of,
    header_of,
    reply_of,
    unpacking,
)


class Part(msgspec.Struct):
    name: str
    count: int = 0


class KindsCall(ScriptCall, kw_only=True):
    """Something of each kind."""

    now_ms: int = 0
    key: bytes
    who: str | None
    parts: list[Part]
    rest: list[bytes] = []
    seal: bytes = b""


class MovedCall(ScriptCall, kw_only=True):
    by: Signed
    from_: Signed | None


class KindsReply(ScriptReply, kw_only=True):
    count: int
    who: str | None = None
    pairs: list[tuple[str, int]] = []
    seal: bytes = b"-"
    rest: list[bytes] = []


def kinds(**given: Any) -> KindsCall:
    fields: dict[str, Any] = {"key": b"\xff", "who": "é", "parts": [Part("a", 1)]}
    return KindsCall(**fields | given)


def test_bytes_stand_beside_the_map():
    """In their order, and a list of them last, wherever the struct has it; None is nowhere."""
    first, *beside = arguments_of(kinds(rest=[b"x", b""], seal=b"\0"))
    assert msgspec.msgpack.decode(first) == {"now_ms": 0, "who": "é", "parts": [{"name": "a", "count": 1}]}
    assert beside == [b"\xff", b"\0", b"x", b""]
    assert "who" not in msgspec.msgpack.decode(arguments_of(kinds(who=None))[0])


def test_lua_makes_args_of_them():
    """In one line, so that the lines behind it stay where they are but for one; then it looks at each."""
    bounds, made = unpacking(KindsCall).split("; local ", 1)
    assert (
        bounds
        == f"if #KEYS > 1000 or #ARGV > 10000 or #ARGV[1] > {1 << 18} then error('an argument is none') end"
    )
    made, *checks = made.split("; if not ", 1)
    assert made == (
        "args = cmsgpack.unpack(ARGV[1]); args.key = ARGV[2]; args.seal = ARGV[3]; args.rest = {}; "
        "for at = 4, #ARGV do args.rest[at - 3] = ARGV[at] end"
    )
    (check,) = checks
    assert all(f"args.{name}" in check for name in ("now_ms", "who", "parts"))
    assert "#v0.name <= 10000 and v0.count % 1 == 0" in check
    assert "\n" not in unpacking(KindsCall)
    assert unpacking(ScriptCall).endswith("local args = cmsgpack.unpack(ARGV[1])")


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_that_lua_rounds_is_refused(sign: int):
    """Also within a list of structs. The struct and the field are named, the number is nobody's business."""
    most = sign * EXACT_MAX
    assert arguments_of(kinds(now_ms=most, parts=[Part("a", most)]))
    for wrong, name in (({"now_ms": most + sign}, "now_ms"), ({"parts": [Part("a", most + sign)]}, "parts")):
        with pytest.raises(ValueError, match=rf"^KindsCall.{name} has a number beyond 2\^53"):
            arguments_of(kinds(**wrong))


def test_two_lists_of_bytes_are_none():
    """Nobody could tell where the second begins."""

    class Both(ScriptCall, kw_only=True):
        one: list[bytes]
        other: list[bytes]

    with pytest.raises(TypeError, match="Both has 2 lists of bytes"):
        arguments_of(Both(one=[], other=[]))


def test_a_reply_is_its_map_and_the_bytes_beside_it():
    """What is not there has its default; no bytes are no bytes."""
    packed = msgspec.msgpack.encode({"count": 3, "pairs": [["a", 1]]})
    assert reply_of(KindsReply, packed) == KindsReply(count=3, pairs=[("a", 1)])
    assert reply_of(KindsReply, [packed, b"s", b"x", b""]) == KindsReply(
        count=3, pairs=[("a", 1)], seal=b"s", rest=[b"x", b""]
    )
    assert reply_of(KindsReply, [packed, None]).seal == b""
    assert (reply_of(bool, 1), reply_of(int, 7), reply_of(list[bytes], [b"a"])) == (True, 7, [b"a"])


@pytest.mark.parametrize(
    "packed",
    [
        b"\x90",
        b"\x80",
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"count": "three"}),
        msgspec.msgpack.encode({"count": 1.5}),
        msgspec.msgpack.encode({"count": 1, "who": "é"}).replace("é".encode(), b"\xff\xff"),
    ],
)
def test_a_reply_that_is_none_of_ours_is_unreadable(packed: bytes):
    """What a worker wrote into Redis may come back so; nothing of it is told."""
    with pytest.raises(UnreadableReplyError, match=r"^KindsReply: \w+$"):
        reply_of(KindsReply, packed)


def test_the_header_says_what_a_script_takes_and_replies():
    """And what is within."""
    assert header_of(KindsCall, KindsReply) == [
        "args: now_ms:int, key:bytes, who:str?, parts:[Part], rest:[bytes], seal:bytes",
        "reply: count:int, who:str?, pairs:[(str,int)], seal:bytes, rest:[bytes]",
        "Part: name:str, count:int",
    ]
    assert header_of(ScriptCall, int) == ["args: nothing", "reply: int"]
    assert header_of(MovedCall, int)[0] == "args: by:signed, from_:signed?"
