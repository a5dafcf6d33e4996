"""Words for what does not fit a struct: the field, and what it takes. Pure.

msgspec says it in Python's terms (``Expected `str`, got `int` ``) and leaves out what an enum takes."""

import re
from collections.abc import Sequence

import msgspec
from msgspec import inspect

AT_FIELD = re.compile(r" - at `\$\.?([^`]*)`")
NAMED = re.compile(r"field `([^`]+)`")
KINDS = {
    **{"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"},
    **{"array": "a list", "object": "an object", "null": "null"},
}
EXPECTED = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`| of length ([<>]=) (\d+)| ([<>]=?) (\S+))?$")
BOUNDS = {"<=": "of at most", ">=": "of at least", "<": "below", ">": "above"}


def said_of(error: msgspec.ValidationError, of: object) -> tuple[str, str | None]:
    """What is wrong, and the field that is. `of`: the type that was read, None where
    that is no struct."""
    of_type = None if of is None else inspect.type_info(of)
    said, place = str(error), AT_FIELD.search(str(error))
    problem, field = AT_FIELD.sub("", said), place[1] if place else ""
    named = NAMED.search(problem)
    if named is not None and "missing required" in problem:
        return f"`{named[1]}` is missing", field or named[1]
    if named is not None and "unknown field" in problem:
        known = [each.encode_name for each in getattr(of_type, "fields", ())] if not field else []
        takes = f": this takes {', '.join(known)}" if known else ""
        return f"there is no field `{named[1]}`{takes}", field or named[1]
    taken = [] if of_type is None else _taken(of_type, re.split(r"\.|(?=\[)", field))
    if taken and problem.startswith("Invalid"):
        return f"this takes {', '.join(taken)}", field
    return _in_words(problem), field or None


def _in_words(problem: str) -> str:
    found = EXPECTED.fullmatch(problem)
    if found is None:
        return problem
    kinds, got, length, characters, bound, number = found.groups()
    words = " or ".join(KINDS.get(kind, kind) for kind in kinds.split(" | "))
    if got is not None:
        return f"expected {words}, got {KINDS.get(got, got)}"
    if length is not None:
        return f"expected {words} {BOUNDS[length]} {characters} characters"
    return f"expected {words}" + (f" {BOUNDS[bound]} {number}" if bound else "")


def _taken(kind: inspect.Type, path: Sequence[str]) -> list[str]:
    """The values of the enum at a place in a type; none where there is no enum."""
    match kind:
        case inspect.Metadata(type=inner):
            return _taken(inner, path)
        case inspect.UnionType(types=types):
            return [value for each in types for value in _taken(each, path)]
        case inspect.StructType(fields=fields) if path:
            inside = [each.type for each in fields if each.encode_name == path[0]]
            return (
                _taken(inside[0], path[1:])
                if inside
                else [str(kind.tag)]
                if path[0] == kind.tag_field
                else []
            )
        case inspect.CollectionType(item_type=item) if path:
            return _taken(item, path[1:])
        case inspect.EnumType(cls=cls):
            return [str(each.value) for each in cls]
        case inspect.LiteralType(values=values):
            return [str(each) for each in values]
        case _:
            return []
