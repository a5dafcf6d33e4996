"""Reading data that others wrote into Redis: the value, or a record that it cannot be read and why, never its
content. Pure."""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Data = TypeVar("Data")
Value = TypeVar("Value")

# Of msgspec, json, struct, enums and our own decoders. RecursionError: depth; UnicodeError is a ValueError.
ERRORS = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError),
    struct.error,
)


@dataclass(frozen=True)
class Unreadable:
    """Data that cannot be read. `what`: the kind of thing it should have been; `why`: the type of the
    exception."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} cannot be read ({self.why})"


def read(what: str, decode: Callable[[Data], Value], data: Data) -> Value | Unreadable:
    """Decode data that may be anything."""
    try:
        return decode(data)
    except ERRORS as error:
        return Unreadable(what, type(error).__name__)


def whole_part(value: float | Unreadable) -> int:
    """A number without its fraction; 0 where it is none, or infinite."""
    return 0 if isinstance(value, Unreadable) or not math.isfinite(value) else int(value)
