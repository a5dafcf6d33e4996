"""Arguments and replies of Lua scripts: a struct each way, as one msgpack map.

Bytes stand beside the map, as further arguments or elements in the struct's order, since Lua's msgpack cannot
tell them from text. So does a list of bytes, which comes last. A script reads `args.NAME`, bytes too, and
replies a map, or a list of a map and its bytes. Fields that are None are left out. Pure.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args, get_origin

import msgspec

from core.redis import redis_errors

EXACT_MAX = 1 << 53  # beyond it a Lua number is not exact

Signed = Annotated[int, "signed"]  # an argument that may be below zero, as no other may

_encoder = msgspec.msgpack.Encoder()


class ScriptCall(msgspec.Struct, kw_only=True):
    """The arguments of one script. Scripts that need the time have `now_ms`; 0: the server's own."""


class ScriptReply(msgspec.Struct, kw_only=True):
    """The reply of one script."""


Reply = TypeVar("Reply")


class CallShape(NamedTuple):
    """The fields of a struct by how they are sent: in the map, beside it, or as the list that ends it."""

    mapped: tuple[str, ...]
    beside: tuple[str, ...]
    rest: str | None


@cache
def shape_of(struct: type[msgspec.Struct]) -> CallShape:
    """A struct's fields by how they are sent. Raises TypeError for two lists of bytes, since nobody could
    tell where the second begins."""
    fields = msgspec.structs.fields(struct)
    rest = [field.name for field in fields if field.type in (list[bytes], list[bytes | None])]
    if len(rest) > 1:
        raise TypeError(f"{struct.__name__} has {len(rest)} lists of bytes, a script takes one")
    beside = tuple(field.name for field in fields if field.type is bytes)
    mapped = tuple(field.name for field in fields if field.name not in (*beside, *rest))
    return CallShape(mapped, beside, rest[0] if rest else None)


def arguments_of(call: ScriptCall) -> list[bytes]:
    """The call as EVALSHA takes it. Raises UnsendableCallError."""
    shape = shape_of(type(call))
    mapped = {name: value for name in shape.mapped if (value := getattr(call, name)) is not None}
    if not _is_exact(mapped.values()):
        wrong = [name for name, value in mapped.items() if not _is_exact((value,))]
        where = f"{type(call).__name__}.{wrong[0]}"
        raise redis_errors.UnsendableCallError(f"{where} has a number beyond 2^53, which Lua rounds")
    rest: list[bytes] = getattr(call, shape.rest) if shape.rest else []
    return [_encoder.encode(mapped), *(getattr(call, name) for name in shape.beside), *rest]


def _is_exact(values: Iterable[object]) -> bool:
    """True where Lua holds all these numbers exactly, those within lists and structs too."""
    for value in values:
        if isinstance(value, int):
            good = -EXACT_MAX <= value <= EXACT_MAX
        elif isinstance(value, list | tuple):
            good = _is_exact(cast(Sequence[object], value))
        else:
            good = not isinstance(value, msgspec.Struct) or _is_exact(msgspec.structs.astuple(value))
        if not good:
            return False
    return True


def unpacking(call: type[ScriptCall]) -> str:
    """The line of Lua that makes `args` of the arguments."""
    shape = shape_of(call)
    bounds = f"if #KEYS > {KEYS_MAX} or #ARGV > {ARGUMENTS_MAX} or #ARGV[1] > {PACKED_MAX} then {NONE} end"
    steps = [bounds, "local args = cmsgpack.unpack(ARGV[1])"]
    steps += [f"args.{name} = ARGV[{at}]" for at, name in enumerate(shape.beside, 2)]
    if shape.rest:
        before = 1 + len(shape.beside)
        steps.append(f"args.{shape.rest} = {{}}")
        steps.append(f"for at = {before + 1}, #ARGV do args.{shape.rest}[at - {before}] = ARGV[at] end")
    return "; ".join([*steps, *_checks(call)])


# What a script is not run with, whoever calls it: a number that is not whole, that Lua rounds (a loop that
# halves infinity never ends), or that is below zero and not `Signed`; a text or a list longer than ours are.
# What is no number, or has no length, raises an error by itself.
TEXT_MAX, ARGUMENTS_MAX, KEYS_MAX = 10_000, 10_000, 1_000
LIST_MAX, WITHIN_MAX = 2_000, 2_000  # of one list; of all lists within another together
STRUCTS_MAX = 300  # of one list: each costs its script some commands
PACKED_MAX = 1 << 18  # bytes of a packed map; each may be a list, which takes Lua 0.1 µs
NONE = "error('an argument is none')"
WITHIN = "within"  # Lua's count of what lists within lists have


def _checks(call: type[msgspec.Struct]) -> list[str]:
    """Lua that raises an error for arguments that cannot be one of these structs."""
    mapped = shape_of(call).mapped
    fields = [field for field in msgspec.structs.fields(call) if field.name in mapped]
    steps = _checked([_condition(field.type, f"args.{field.encode_name}", 0) for field in fields])
    return [f"local {WITHIN} = 0", *steps] if any(WITHIN in step for step in steps) else steps


class _Checked(NamedTuple):
    """Conditions of a value, and loops over what is within it."""

    conditions: list[str]
    loops: list[str] = []


def _checked(found: Iterable[_Checked]) -> list[str]:
    known = list(found)
    conditions = [condition for each in known for condition in each.conditions]
    test = [f"if not ({' and '.join(conditions)}) then {NONE} end"] if conditions else []
    return [*test, *(loop for each in known for loop in each.loops)]


def _condition(kind: Any, value: str, depth: int) -> _Checked:
    if kind == Signed:
        return _Checked([f"{value} % 1 == 0 and {value} <= 2 ^ 53 and {value} >= -2 ^ 53"])
    parts = get_args(kind)
    if type(None) in parts:
        inner = _condition(next(part for part in parts if part is not type(None)), value, depth)
        either = [f"({value} == nil or {' and '.join(inner.conditions)})"] if inner.conditions else []
        return _Checked(either, [f"if {value} ~= nil then {loop} end" for loop in inner.loops])
    if get_origin(kind) is list:
        inner = _checked([_condition(parts[0], f"v{depth}", depth + 1)])
        loops = [f"for _, v{depth} in ipairs({value}) do {'; '.join(inner)} end"] if inner else []
        if depth:
            loops.insert(0, f"{WITHIN} = {WITHIN} + #{value}; if {WITHIN} > {WITHIN_MAX} then {NONE} end")
        is_of_structs = get_origin(parts[0]) is None and issubclass(parts[0], msgspec.Struct)
        return _Checked([f"#{value} <= {STRUCTS_MAX if is_of_structs else LIST_MAX}"], loops)
    if get_origin(kind) is tuple:
        return _Checked([f"#{value} <= {LIST_MAX}"])
    if issubclass(kind, msgspec.Struct):
        fields = [
            _condition(field.type, f"{value}.{field.encode_name}", depth)
            for field in msgspec.structs.fields(kind)
        ]
        return _Checked(
            [condition for field in fields for condition in field.conditions],
            [loop for field in fields for loop in field.loops],
        )
    if kind is bool or kind is bytes:
        return _Checked([])
    if issubclass(kind, int):
        return _Checked([f"{value} % 1 == 0 and {value} <= 2 ^ 53 and {value} >= 0"])
    if kind is float:
        return _Checked([f"{value} <= 2 ^ 53 and {value} >= 0"])
    return _Checked([f"#{value} <= {TEXT_MAX}"])


def reply_of(kind: type[Reply], found: Any) -> Reply:
    """A script's reply as its struct. Raises UnreadableReplyError."""
    if kind is bool:
        return bool(found)  # pyright: ignore[reportReturnType]  (it is Reply)
    if not issubclass(_class_of(kind), ScriptReply):
        return found
    parts = cast(list[Any], found) if isinstance(found, list) else [found]
    packed, *beside = parts
    try:
        reply = _decoder(kind).decode(packed)
    except (TypeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise redis_errors.UnreadableReplyError(f"{kind.__name__}: {type(error).__name__}") from error
    _put_beside(reply, beside)
    return reply


def _put_beside(reply: ScriptReply, beside: Sequence[Any]) -> None:
    """Set the fields of bytes; those that a short reply leaves out keep their defaults."""
    shape = shape_of(type(reply))
    for name, value in zip(shape.beside, beside, strict=False):
        setattr(reply, name, value or b"")
    if shape.rest:
        setattr(reply, shape.rest, list(beside[len(shape.beside) :]))


def _class_of(kind: Any) -> type:
    return get_origin(kind) or kind


@cache
def _decoder(kind: Any) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(kind)


def header_of(call: type[ScriptCall], reply: type) -> list[str]:
    """Header lines of a script's file: its arguments, its reply, and a line for each struct within."""
    inner: dict[str, Any] = {}
    lines = [f"args: {_fields_said(call, inner)}", f"reply: {_reply_said(reply, inner)}"]
    while inner:
        name, kind = inner.popitem()
        lines.append(f"{name}: {_fields_said(kind, inner)}")
    return lines


def _reply_said(kind: Any, inner: dict[str, Any]) -> str:
    is_struct = issubclass(_class_of(kind), msgspec.Struct)
    return _fields_said(kind, inner) if is_struct else _type_said(kind, inner)


def _fields_said(kind: Any, inner: dict[str, Any]) -> str:
    fields = msgspec.structs.fields(kind)
    return ", ".join(f"{field.encode_name}:{_type_said(field.type, inner)}" for field in fields) or "nothing"


def _type_said(kind: Any, inner: dict[str, Any]) -> str:
    """A type as headers name it: `int`, `str?`, `[AppendItem]`. Adds structs within to `inner`."""
    if kind == Signed:
        return "signed"
    parts = get_args(kind)
    if get_origin(kind) is list:
        return f"[{_type_said(parts[0], inner)}]"
    if get_origin(kind) is tuple:
        return f"({','.join(_type_said(part, inner) for part in parts)})"
    if type(None) in parts:
        return f"{_type_said(next(part for part in parts if part is not type(None)), inner)}?"
    if issubclass(kind, msgspec.Struct):
        inner[kind.__name__] = kind
    elif issubclass(kind, Enum):
        return "int" if issubclass(kind, int) else "str"
    return kind.__name__
