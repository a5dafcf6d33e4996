"""Reads a call of the API: its operation's struct from path, query and body, and how it is to be done. Pure.

Whatever is not known is refused by name: a misspelt filter must not list everything.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from math import isfinite
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import inspect

from admin.api.wording import AT_FIELD, said_of
from billing.api import Terms
from core.errors import Refused, bad_request
from core.operations import MoneyAmount, Operation

IDEMPOTENCY_KEY_CHARACTERS_MAX = 200
REASON_CHARACTERS_MAX = 500
VERSION = re.compile(r'(?:W/)?"(\d{1,18})"', re.ASCII)
NANO = re.compile(r"[0-9]{1,18}", re.ASCII)
HOW = ("reason", "dry_run", "meant_nano")
MONEY = 'give money as {"nano": "12500000000", "currency": "USD"}: whole billionths, as text'
INTEGER_END = 1 << 63
TRUE = {"true": True, "1": True, "false": False, "0": False}


class ReadCall(NamedTuple):
    """A call as its operation takes it."""

    ask: msgspec.Struct
    terms: Terms


def read_call(
    declared: Operation,
    path: Mapping[str, str],
    query: Sequence[tuple[str, str]],
    body: bytes,
    headers: Mapping[str, str],
) -> ReadCall:
    """The struct and the terms of a call. Raises Refused, with the field that is wrong."""
    given = _query(declared, query) if query else {}
    how = {name: given.pop(name) for name in HOW if name in given and name not in _names(declared)}
    if body and not declared.asks_by_body:
        raise bad_request("what is read takes no body: ask by the query")
    facts = _body(body)
    for name in HOW:
        if name in facts and name not in _names(declared):
            how[name] = facts.pop(name)
    if twice := sorted({*facts} & {*given}):
        raise bad_request("it is named in the query and in the body", field=twice[0])
    ask = _struct(declared, {**given, **facts}, path, strict=declared.asks_by_body)
    reason = str(how.get("reason") or getattr(ask, "reason", "") or "")
    check_storable({**msgspec.structs.asdict(ask), "reason": reason})
    if len(reason) > REASON_CHARACTERS_MAX:
        raise bad_request(f"a reason has at most {REASON_CHARACTERS_MAX} characters", field="reason")
    terms = Terms(
        reason=reason,
        dry_run=_switch(how.get("dry_run", False)),
        version=_version(declared, headers.get("if-match", "")),
        key=_key(declared, headers.get("idempotency-key", "")),
        meant_nano=_nano(how.get("meant_nano")),
    )
    return ReadCall(ask, terms)


def check_storable(facts: Mapping[str, Any]) -> None:
    """Raise Refused, with the field, for what no database takes: text with a NUL, numbers beyond 64 bits."""
    for name, value in facts.items():
        if (problem := _unstorable(value)) is not None:
            raise bad_request(problem, field=name)


def _unstorable(value: object) -> str | None:
    match value:
        case str():
            return "text has no character of code 0" if "\0" in value else None
        case int():
            return None if -INTEGER_END <= value < INTEGER_END else "this number is too large"
        case float():
            return None if isfinite(value) else "this is no number"
        case MoneyAmount():
            return _unstorable(value.value)
        case msgspec.Struct():
            inside = list(msgspec.structs.asdict(value).values())
        case dict():
            inside = [each for pair in cast(dict[object, object], value).items() for each in pair]
        case list() | tuple() | set() | frozenset():
            inside = list(cast(Sequence[object], value))
        case _:
            return None
    return next((problem for each in inside if (problem := _unstorable(each)) is not None), None)


def _names(declared: Operation) -> set[str]:
    return {each.encode_name for each in msgspec.structs.fields(declared.asks)}


def _query(declared: Operation, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    lists = _lists(declared)
    given: dict[str, Any] = {}
    for name, value in query:
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise bad_request("it is named twice", field=name)
        else:
            given[name] = value
    return given


def _lists(declared: Operation) -> set[str]:
    """Fields that may be named several times."""
    found = inspect.type_info(declared.asks)
    assert isinstance(found, inspect.StructType)
    return {each.encode_name for each in found.fields if _is_list(each.type)}


def _is_list(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _is_list(kind.type)
    if isinstance(kind, inspect.UnionType):
        return any(map(_is_list, kind.types))
    return isinstance(kind, inspect.CollectionType)


def _body(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request("the body is no JSON") from error
    if not isinstance(found, dict):
        raise bad_request("the body is a JSON object")
    return cast(dict[str, Any], found)


def _struct(
    declared: Operation, facts: dict[str, Any], path: Mapping[str, str], strict: bool
) -> msgspec.Struct:
    if unknown := sorted({*facts} - _names(declared)):
        names = _names(declared) - {*path} | ({"reason"} if declared.writes else set())
        raise bad_request(f"this takes {', '.join(sorted(names)) or 'nothing'}", field=unknown[0])
    if inside := sorted({*facts} & {*path}):
        raise bad_request("the path names it already", field=inside[0])
    named = _from_text(declared, path)
    try:
        return msgspec.convert({**facts, **named}, declared.asks, strict=strict)
    except msgspec.ValidationError as error:
        raise refused_field(error, declared.asks, _amounts(declared)) from error


def refused_field(error: msgspec.ValidationError, of: Any, amounts: Collection[str] = ()) -> Refused:
    """What is wrong, and the field that is. `of`: what was read; `amounts`: its fields that hold money."""
    said, field = said_of(error, of)
    if field and AT_FIELD.search(str(error)) and field.partition(".")[0] in amounts:
        return bad_request(MONEY, field=field)
    return bad_request(said, field=field)


@cache
def _amounts(declared: Operation) -> frozenset[str]:
    """Fields that hold money."""
    found = inspect.type_info(declared.asks)
    assert isinstance(found, inspect.StructType)
    return frozenset(each.encode_name for each in found.fields if _is_money(each.type))


def _is_money(kind: inspect.Type) -> bool:
    match kind:
        case inspect.Metadata(type=inner):
            return _is_money(inner)
        case inspect.UnionType(types=types):
            return any(map(_is_money, types))
        case _:
            return isinstance(kind, inspect.StructType) and kind.cls is MoneyAmount


def _from_text(declared: Operation, path: Mapping[str, str]) -> dict[str, Any]:
    """What the path names, numbers as numbers."""
    types = {each.encode_name: each.type for each in msgspec.structs.fields(declared.asks)}
    named: dict[str, Any] = {}
    for name, value in path.items():
        try:
            named[name] = msgspec.convert(value, types[name], strict=False)
        except msgspec.ValidationError as error:
            raise bad_request(said_of(error, None)[0], field=name) from error
    return named


def _switch(given: object) -> bool:
    found = given if isinstance(given, bool) else TRUE.get(str(given))
    if found is None:
        raise bad_request("expected true or false", field="dry_run")
    return found


def _nano(given: object) -> int | None:
    if given is None:
        return None
    if not NANO.fullmatch(str(given)):
        raise bad_request("expected an amount in nano", field="meant_nano")
    return int(str(given))


def _version(declared: Operation, header: str) -> int | None:
    if header in ("", "*"):
        return None
    if not declared.edits:
        raise bad_request("this edits nothing that has a version", field="if-match")
    found = VERSION.fullmatch(header)
    if found is None:
        raise bad_request('expected the ETag of what you read, like "17"', field="if-match")
    return int(found[1])


def _key(declared: Operation, header: str) -> str:
    if header and not declared.writes:
        raise bad_request("what only reads takes no key", field="idempotency-key")
    if len(header) > IDEMPOTENCY_KEY_CHARACTERS_MAX or not (header.isascii() and header.isprintable()):
        most = IDEMPOTENCY_KEY_CHARACTERS_MAX
        raise bad_request(f"expected at most {most} printable ASCII characters", field="idempotency-key")
    return header
