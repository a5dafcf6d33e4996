"""What a decoder may raise over somebody's bytes, and what is ours and goes on."""

import json
import struct
from typing import Any

import msgspec
import pytest
from redis.exceptions import RedisError

from core.redis.unreadable import Unreadable, read

CANARY = "hunter2canary"


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        *(ValueError, UnicodeError, TypeError, KeyError, IndexError, AttributeError, ZeroDivisionError),
        *(OverflowError, RecursionError, MemoryError, msgspec.DecodeError, msgspec.ValidationError),
    ],
)
def test_what_a_decoder_raises_is_what_cannot_be_read(error: type[Exception]):
    """By its type: what it says quotes the bytes."""
    found = read("usage event", _raise, error(CANARY))
    assert found == Unreadable("usage event", error.__name__)
    assert str(found) == f"usage event cannot be read ({error.__name__})"


def test_what_decoders_really_raise_is_among_them():
    """Of those that core/redis/unreadable.py names; struct's own error is no ValueError."""
    for decode in (json.loads, msgspec.json.decode, msgspec.msgpack.decode, struct.Struct(">I").unpack):
        assert isinstance(read("thing", decode, b""), Unreadable)


@pytest.mark.parametrize("error", [RedisError, OSError, AssertionError, SystemExit, KeyboardInterrupt])
def test_what_the_bytes_are_not_to_blame_for_is_raised(error: type[BaseException]):
    """A store that is away is no bad entry: it would be held, or dropped, for ever."""
    with pytest.raises(error):
        read("thing", _raise, error(CANARY))
