"""Each script's struct is the same in Lua: its call as it comes there, its reply as it comes from there."""

from collections.abc import Generator, Mapping
from enum import Enum
from typing import Any, get_args, get_origin

import msgspec
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from core.redis.script_calls import (
    EXACT_MAX,
    ScriptReply,
    Signed,
    arguments_of,
    reply_of,
    shape_of,
    unpacking,
)
from scripts.lua import load_scripts
from tests.support.packed_rows import packed_row, read_row

EXAMPLES = 20
SCRIPTS = load_scripts()
CALLS = sorted({script.call for script in SCRIPTS}, key=lambda call: call.__name__)
REPLIES = sorted(
    {
        each.reply
        for each in SCRIPTS
        if get_origin(each.reply) is None and issubclass(each.reply, ScriptReply)
    },
    key=lambda reply: reply.__name__,
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-EXACT_MAX, EXACT_MAX),
    float: st.floats(-EXACT_MAX, EXACT_MAX),
    bool: st.booleans(),
    str: st.text(max_size=8),
    bytes: st.binary(max_size=8),
    msgspec.Raw: st.lists(st.binary(max_size=4), max_size=4).map(lambda parts: packed_row(*parts)),
}
NONE_BELOW_ZERO = {
    int: st.integers(0, EXACT_MAX),
    float: st.floats(0, EXACT_MAX),
    Signed: st.integers(-EXACT_MAX, EXACT_MAX),
}
TAKEN = PLAIN | NONE_BELOW_ZERO


def values(kind: Any, plain: Mapping[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Any of a field's type."""
    parts = get_args(kind)
    if kind == list[bytes | None]:  # what nobody has is nil in Redis' own reply, not in a call
        return st.lists(plain[bytes], max_size=3)
    if kind in plain:
        return plain[kind]
    if get_origin(kind) is list:
        return st.lists(values(parts[0], plain), max_size=3)
    if get_origin(kind) is tuple:
        return st.tuples(*(values(part, plain) for part in parts))
    if type(None) in parts:
        return st.none() | values(next(part for part in parts if part is not type(None)), plain)
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.name: values(field.type, plain) for field in fields})


@pytest.fixture
def client(redis_url: str) -> Generator[Any]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def echo(call: Any) -> str:
    """Lua that replies `args` as they are there: the map, then the bytes."""
    shape = shape_of(call)
    taken = [f"beside[#beside + 1] = args.{name}; args.{name} = nil" for name in shape.beside]
    if shape.rest:
        rest = f"for _, part in ipairs(args.{shape.rest}) do beside[#beside + 1] = part end"
        taken += [rest, f"args.{shape.rest} = nil"]
    return "\n".join(
        [
            "#!lua",
            unpacking(call),
            "local beside = {}",
            *taken,
            "return { cmsgpack.pack(args), unpack(beside) }",
        ]
    )


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_a_call_is_the_same_in_lua(client: Any, kind: Any):
    """Every field by its name, every number exact, every text whole."""
    script = client.register_script(echo(kind))

    @settings(max_examples=EXAMPLES)
    @given(call=values(kind, TAKEN))
    def comes_through(call: Any) -> None:
        packed, *beside = script(args=arguments_of(call))
        sent, *sent_beside = arguments_of(call)
        assert without_nil(msgspec.msgpack.decode(packed)) == without_nil(msgspec.msgpack.decode(sent))
        assert beside == sent_beside

    comes_through()


def without_nil(value: Any) -> Any:
    """A field that is nil is none in Lua."""
    if isinstance(value, dict):
        found: dict[str, Any] = value
        return {name: without_nil(each) for name, each in found.items() if each is not None}
    return [without_nil(each) for each in value] if isinstance(value, list) else value


def plain(reply: ScriptReply) -> list[Any]:
    """Its fields; rows that are not read yet as what they hold."""
    held = msgspec.structs.astuple(reply)
    return [[_row(each) for each in value] if isinstance(value, list) else value for value in held]


def _row(value: Any) -> Any:
    return read_row(value) if isinstance(value, msgspec.Raw) else value


ECHOED = "#!lua\nreturn { cmsgpack.pack(cmsgpack.unpack(ARGV[1])), unpack(ARGV, 2) }"


@pytest.mark.parametrize("kind", REPLIES, ids=lambda kind: kind.__name__)
def test_a_reply_is_the_same_as_in_lua(client: Any, kind: Any):
    """What Lua packs is read as the struct."""
    script = client.register_script(ECHOED)

    @settings(max_examples=EXAMPLES)
    @given(reply=values(kind, PLAIN))
    def comes_back(reply: Any) -> None:
        assert plain(reply_of(kind, script(args=arguments_of(reply)))) == plain(reply)

    comes_back()


def test_no_script_is_left_out():
    """Of those that reply a struct; what replies one number, text or list needs none."""
    assert len(SCRIPTS) > 40
    assert {script.reply for script in SCRIPTS} - set(REPLIES) == {bool, int, bytes, list[bytes]}
