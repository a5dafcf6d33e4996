"""The shape an answer is asked to have, `response_format`: checked before a request is accepted. Pure.

A shape that passes can be compiled quickly by every worker and ends in an answer that fits; everything else
is refused here with a ValueError that says what to change. In particular nothing passes that the grammar
compiler would ignore in silence, so a complete answer always validates against its schema.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from engine.grammar.json_schema import check_schema, patterns_in
from engine.grammar.regex import check_pattern

FORMAT_BYTES_MAX = 16 * 1024
NESTING_MAX = 32  # of the JSON itself: a schema of the permitted depth, and the values in it
CHOICES_MAX = 500
TYPES = ("text", "json_object", "json_schema", "regex", "choice")


class Shape(Struct, frozen=True, omit_defaults=True):
    """A checked shape: exactly one of its kinds. `object`: any JSON object."""

    object: bool = False
    schema: Any = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()


class _Named(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]
    schema: Any
    description: str = ""
    strict: bool | None = None


class _JsonSchema(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    json_schema: _Named


class _JsonObject(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["json_object"]


class _Regex(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["regex"]
    pattern: str


class _Choice(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["choice"]
    choices: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=CHOICES_MAX)]


def checked_format(raw: Any) -> str | None:
    """The shape that a client asks for, packed for `Sampling.response_format`; None where it is plain text.
    Raises ValueError, whose message names the value."""
    if not isinstance(raw, dict) or raw.get("type") not in TYPES:
        raise ValueError(f'expected {{"type": …}} with a type of {", ".join(TYPES)}')
    given: dict[str, Any] = raw
    if not _shallow(given):
        raise ValueError(f"nested more than {NESTING_MAX} levels deep")
    try:
        encoded = msgspec.json.encode(given)
    except (msgspec.MsgspecError, UnicodeError, TypeError, ValueError):
        raise ValueError("expected what JSON can hold") from None
    if len(encoded) > FORMAT_BYTES_MAX:
        raise ValueError(f"{len(encoded)} bytes long, {FORMAT_BYTES_MAX} at most")
    shape = _shape(msgspec.json.decode(encoded))  # MessagePack can hold more than JSON
    return None if shape is None else msgspec.json.encode(shape).decode()


def format_of(packed: str) -> Shape:
    """The shape that `checked_format` packed."""
    return msgspec.json.decode(packed, type=Shape)


def uses_patterns(packed: str) -> bool:
    """True where a packed shape holds a regular expression."""
    shape = format_of(packed)
    return shape.pattern is not None or bool(patterns_in(shape.schema))


def _shape(given: dict[str, Any]) -> Shape | None:
    match given["type"]:
        case "text":
            if len(given) > 1:
                raise ValueError("the type text takes nothing else")
            return None
        case "json_object":
            msgspec.convert(given, _JsonObject)
            return Shape(object=True)
        case "json_schema":
            schema = msgspec.convert(given, _JsonSchema).json_schema.schema
            check_schema(schema)
            return Shape(schema=schema)
        case "regex":
            pattern = msgspec.convert(given, _Regex).pattern
            check_pattern(pattern)
            return Shape(pattern=pattern)
        case _:
            choices = msgspec.convert(given, _Choice).choices
            if len(set(choices)) < len(choices):
                raise ValueError("choices: expected each once")
            if not all(choice.isprintable() for choice in choices):
                raise ValueError("choices: expected printable characters only, no line breaks")
            return Shape(choices=tuple(choices))


def _shallow(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(NESTING_MAX + 1):
        inner: list[Any] = []
        for each in level:
            match each:
                case dict():
                    inner += each.values()
                case list():
                    inner += each
                case _:
                    pass
        if not inner:
            return True
        level = inner
    return False
