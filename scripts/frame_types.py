"""The messages of parley.v1 as TypeScript, made from the server's own structs (server/protocol/messages.py).

What the client may leave out is optional. What the server always writes is not; it leaves out what has its
default where the struct says so.
"""

import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType
from msgspec.structs import FieldInfo, fields

from server.protocol.messages import ClientMessage, ServerMessage

HEAD = """\
// The messages of parley.v1. Written by scripts/client_types.py from the server's own types; what they mean
// is in docs/protocol.md.
"""
PLAIN: dict[Any, str] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    Any: "any",
    types.NoneType: "null",
}


def frames() -> str:
    """The whole module."""
    sides = {"ClientMessage": (ClientMessage, False), "ServerMessage": (ServerMessage, True)}
    parts = [HEAD]
    seen = set[type]()
    for name, (union, served) in sides.items():
        messages = typing.get_args(union)
        parts += [_interface(struct, served) for message in messages for struct in _structs(message, seen)]
        parts.append(
            f"export type {name} =\n  | " + "\n  | ".join(each.__name__ for each in messages) + ";\n"
        )
    return "\n".join(parts)


def _structs(struct: type, seen: set[type]) -> Iterator[type]:
    """Those within it, then itself; each once, for either side says another thing by the same fields."""
    assert struct not in seen, f"{struct.__name__} is said by both sides, or twice"
    seen.add(struct)
    for field in fields(struct):
        for part in _parts(field.type):
            if isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in seen:
                yield from _structs(part, seen)
    yield struct


def _parts(kind: Any) -> Iterator[Any]:
    """All types that one is made of."""
    yield kind
    for argument in typing.get_args(kind):
        yield from _parts(argument)


def _interface(struct: type, served: bool) -> str:
    config = struct.__struct_config__  # type: ignore[attr-defined]
    said = " ".join((struct.__doc__ or "").split())
    lines = [f"/** {said} */", f"export interface {struct.__name__} {{"]
    lines += [f'  {config.tag_field}: "{config.tag}";'] if config.tag_field else []
    lines += [f"  {_field(field, served, config.omit_defaults)}" for field in fields(struct)]
    return "\n".join([*lines, "}", ""])


def _field(field: FieldInfo, served: bool, omits: bool) -> str:
    required = field.default is NODEFAULT and field.default_factory is NODEFAULT
    kinds = [each for each in _alternatives(field.type) if each is not UnsetType]
    absent = len(kinds) < len(_alternatives(field.type)) or not (required or (served and not omits))
    if served and omits and field.default in (None, UNSET):
        kinds = [each for each in kinds if each is not types.NoneType]  # None is its default: left out
    names = dict.fromkeys(_type(each) for each in kinds)
    return f"{field.encode_name}{'?' * absent}: {' | '.join(names)};"


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (types.UnionType, typing.Union) else (kind,)


def _type(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if len(_alternatives(kind)) > 1:
        return " | ".join(dict.fromkeys(_type(each) for each in arguments))
    if origin is typing.Literal:
        return " | ".join(f'"{each}"' for each in arguments)
    if origin is list:
        item = _type(arguments[0])
        return f"({item})[]" if " " in item and not item.startswith("[") else f"{item}[]"
    if origin is tuple:
        return f"[{', '.join(_type(each) for each in arguments)}]"
    if origin is dict:
        return f"Record<{_type(arguments[0])}, {_type(arguments[1])}>"
    return PLAIN.get(kind) or kind.__name__
