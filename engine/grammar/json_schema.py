"""Decides which JSON schemas may shape an answer: those that the workers' grammar compiler enforces in full
and compiles quickly. Pure.

Arrays and objects hold no more than their schema allows by name or by `items` and `additionalProperties`. A
subset of draft 2020-12, chosen so that a complete answer validates against the schema (measured: the compiler
ignores `not`, `if`, `uniqueItems`, look-around, anything beside `$ref`, … in silence; a schema of 300 strings
of different maxLength took it two minutes and 600 MB).
"""

import math
from collections.abc import Mapping
from typing import Any

from engine.grammar.regex import SIZE_MAX, check_pattern

DEPTH_MAX = 10
PROPERTIES_MAX = 256
VALUES_MAX = 500
DEFINITIONS_MAX = 64
LENGTH_MAX = 10_000
ITEMS_MAX = 1_000
NUMBER_MAX = 10**15
# Compiler cost of all strings with one pair of bounds, in characters of a pattern: their length, up to a
# point, and a constant.
BOUNDED_SIZE_MAX = 128
BOUNDED_SIZE = 16

ANNOTATIONS = {
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    *("$schema", "$id", "$comment", "$defs", "definitions"),
}
OF_TYPE: Mapping[str, set[str]] = {
    "string": {"minLength", "maxLength", "pattern", "format"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties"},
    "boolean": set(),
    "null": set(),
}
FORMATS = {
    *("email", "date", "time", "date-time", "duration", "ipv4", "ipv6", "hostname", "uuid", "uri"),
    *("uri-reference", "uri-template", "json-pointer", "relative-json-pointer"),
}
INNER = ("items", "prefixItems", "additionalProperties", "anyOf", "allOf")
# Keywords that replace a schema: nothing but annotations may stand beside one of these.
WHOLE = ("$ref", "anyOf", "allOf", "enum", "const")


def check_schema(schema: Any) -> None:
    """Check a schema. Raises ValueError, whose message names the place and what to change."""
    if not isinstance(schema, dict):
        raise ValueError("schema: expected an object")
    _Checker(schema).check()


def patterns_in(schema: Any) -> list[tuple[str, str]]:
    """The patterns of a checked schema, each with its place, equal ones once."""
    found: dict[str, str] = {}
    open_ = [("#", schema)]
    while open_:
        place, node = open_.pop()
        if isinstance(node, list):
            open_ += [(f"{place}/{at}", each) for at, each in enumerate(node)]
        if not isinstance(node, dict):
            continue
        if isinstance(node.get("pattern"), str) and "type" in node:
            found.setdefault(node["pattern"], place)
        for keyword in ("$defs", "definitions", "properties"):
            inner = node.get(keyword)
            inner = inner if isinstance(inner, dict) else {}
            open_ += [(f"{place}/{keyword}/{name[:32]}", each) for name, each in inner.items()]
        open_ += [(f"{place}/{name}", node[name]) for name in INNER if name in node]
    return [(place, pattern) for pattern, place in found.items()]


class _Checker:
    """One schema's walk: what it has counted so far."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._named: dict[str, Any] = {"#": root}
        self._properties = self._values = self._size = 0
        self._bounds: set[tuple[int, int]] = set()

    def check(self) -> None:
        """The whole schema, its definitions included."""
        definitions: list[tuple[str, Any]] = []
        for keyword in ("$defs", "definitions"):
            found = self._root.get(keyword, {})
            if not isinstance(found, dict):
                raise _wrong("#", f"{keyword}: expected an object")
            definitions += [(f"#/{keyword}/{name}", each) for name, each in found.items()]
        if len(definitions) > DEFINITIONS_MAX:
            raise _wrong("#", f"more than {DEFINITIONS_MAX} definitions")
        self._named |= dict(definitions)
        for place, each in definitions:
            self._node(each, place, 2)
        self._node(self._root, "#", 1)
        if self._size > SIZE_MAX:
            problem = "strings with bounds of their own and patterns add up to"
            raise _wrong("#", f"{problem} {self._size} characters, {SIZE_MAX} at most: use the same bounds")
        self._ends()

    def _node(self, node: Any, place: str, depth: int) -> None:
        if node is True:
            return
        if not isinstance(node, dict):
            raise _wrong(place, "expected a schema, an object")
        if depth > DEPTH_MAX:
            raise _wrong(place, f"nested more than {DEPTH_MAX} schemas deep")
        if place != "#" and ("$defs" in node or "definitions" in node):
            raise _wrong(place, "definitions belong into the root")
        used = set(node) - ANNOTATIONS
        whole = next((keyword for keyword in WHOLE if keyword in used), None)
        if whole:
            self._whole(node, whole, used, place, depth)
        elif used:
            self._typed(node, used, place, depth)

    def _whole(self, node: dict[str, Any], keyword: str, used: set[str], place: str, depth: int) -> None:
        others = used - {keyword} - ({"type"} if keyword in ("enum", "const") else set[str]())
        if others:
            raise _wrong(place, f"{min(others)} beside {keyword} is not enforced: leave it out")
        value = node[keyword]
        match keyword:
            case "$ref":
                if not isinstance(value, str) or value not in self._named:
                    raise _wrong(place, '$ref: expected "#" or "#/$defs/NAME" of this schema')
                if "~" in value or "%" in value or value.count("/") > 2:
                    raise _wrong(place, "$ref: expected a name without ~, % and /")
            case "anyOf" | "allOf":
                most = 1 if keyword == "allOf" else VALUES_MAX
                if not isinstance(value, list) or not 1 <= len(value) <= most:
                    raise _wrong(place, f"{keyword}: expected a list of 1 to {most} schemas")
                for at, each in enumerate(value):
                    self._node(each, f"{place}/{keyword}/{at}", depth + 1)
            case _:
                values: Any = value if keyword == "enum" else [value]
                if not isinstance(values, list) or not values:
                    raise _wrong(place, "enum: expected a list of values")
                self._enumerated(values, _types(node, place) if "type" in node else list(OF_TYPE), place)

    def _enumerated(self, values: list[Any], types: list[str], place: str) -> None:
        self._values += len(values)
        if self._values > VALUES_MAX:
            raise _wrong(place, f"more than {VALUES_MAX} values in all enums")
        for value in values:
            if not any(_is_a(value, each) for each in types):
                raise _wrong(place, "a value of the enum is not of its type")

    def _typed(self, node: dict[str, Any], used: set[str], place: str, depth: int) -> None:
        types = _types(node, place)
        allowed = {"type"}.union(*(OF_TYPE[each] for each in types))
        for keyword in sorted(used - allowed):
            known = any(keyword in keywords for keywords in OF_TYPE.values())
            problem = f"is not for the type {types}" if known else "is not supported"
            raise _wrong(place, f"{keyword} {problem}")
        self._string(node, place)
        _number(node, types, place)
        self._array(node, place, depth)
        self._object(node, place, depth)

    def _string(self, node: dict[str, Any], place: str) -> None:
        least, most = _range(node, "minLength", "maxLength", LENGTH_MAX, place)
        shaped = [keyword for keyword in ("pattern", "format") if keyword in node]
        bounded = "minLength" in node or "maxLength" in node
        if len(shaped) + bounded > 1:
            raise _wrong(place, "of pattern, format and lengths only one can be enforced")
        for keyword in shaped:
            if not isinstance(node[keyword], str):
                raise _wrong(place, f"{keyword}: expected a text")
        if "format" in node and node["format"] not in FORMATS:
            raise _wrong(place, f"format: expected one of {', '.join(sorted(FORMATS))}")
        if "pattern" in node:
            try:
                self._size += check_pattern(node["pattern"], in_json=True)
            except ValueError as error:
                raise _wrong(place, str(error)) from None
        bounds = (least, most if "maxLength" in node else -1)
        if bounded and bounds not in self._bounds:
            self._bounds.add(bounds)
            self._size += BOUNDED_SIZE + min(BOUNDED_SIZE_MAX, max(bounds))

    def _array(self, node: dict[str, Any], place: str, depth: int) -> None:
        least, most = _range(node, "minItems", "maxItems", ITEMS_MAX, place)
        first, rest = node.get("prefixItems", []), node.get("items", False)
        if not isinstance(first, list) or len(first) > VALUES_MAX:
            raise _wrong(place, f"prefixItems: expected a list of at most {VALUES_MAX} schemas")
        if ("prefixItems" in node and not first) or most < len(first):
            raise _wrong(place, "prefixItems: expected at least one, and no more than maxItems")
        if rest is False and least > len(first):
            raise _wrong(place, "minItems asks for more items than there are schemas")
        for at, each in enumerate(first):
            self._node(each, f"{place}/prefixItems/{at}", depth + 1)
        if rest is not False:
            self._node(rest, f"{place}/items", depth + 1)

    def _object(self, node: dict[str, Any], place: str, depth: int) -> None:
        least, most = _range(node, "minProperties", "maxProperties", PROPERTIES_MAX, place)
        properties, more = node.get("properties", {}), node.get("additionalProperties", False)
        if not isinstance(properties, dict):
            raise _wrong(place, "properties: expected an object")
        required = node.get("required", [])
        if not isinstance(required, list) or not all(
            isinstance(name, str) and name in properties for name in required
        ):
            raise _wrong(place, "required: expected a list of names that are in properties")
        if len(set(required)) < len(required):
            raise _wrong(place, "required: expected each name once")
        if most < len(required) or (more is False and least > len(properties)):
            raise _wrong(place, "minProperties and maxProperties leave no room for properties")
        self._properties += len(properties)
        if self._properties > PROPERTIES_MAX:
            raise _wrong(place, f"more than {PROPERTIES_MAX} properties in all")
        if "minProperties" in node or "maxProperties" in node:
            self._size += len(properties) ** 2 // 32
        for name, each in properties.items():
            self._node(each, f"{place}/properties/{name[:32]}", depth + 1)
        if more is not False:
            self._node(more, f"{place}/additionalProperties", depth + 1)

    def _ends(self) -> None:
        """Require that an answer can be complete: a reference to itself must be optional."""
        ending, endless = set[str](), dict(self._named)
        while found := {place for place, node in endless.items() if _ends(node, ending)}:
            ending |= found
            endless = {place: node for place, node in endless.items() if place not in found}
        if endless:
            raise _wrong(min(endless), "refers to itself without end: make the reference optional")


def _ends(node: Any, ending: set[str]) -> bool:
    """True where some value of finite size fits, given that those definitions in `ending` have one."""
    if node is True:
        return True
    if "$ref" in node:
        return node["$ref"] in ending
    for keyword in ("anyOf", "allOf"):
        if keyword in node:
            return any(_ends(each, ending) for each in node[keyword])
    if "type" in node and not {"array", "object"}.issuperset(_types(node, "#")):
        return True
    required = [node.get("properties", {})[name] for name in node.get("required", [])]
    if node.get("minItems", 0):
        first = node.get("prefixItems", [])
        required += first[: node["minItems"]]
        required += [node["items"]] if node["minItems"] > len(first) else []
    return all(_ends(each, ending) for each in required) and _enough_end(node, ending)


def _enough_end(node: dict[str, Any], ending: set[str]) -> bool:
    """True where enough optional properties have a value to reach `minProperties`."""
    required, more = node.get("required", []), node.get("additionalProperties", False)
    free = node.get("minProperties", 0) - len(required)
    if free <= 0 or (more is not False and _ends(more, ending)):
        return True
    others = [each for name, each in node.get("properties", {}).items() if name not in required]
    return sum(_ends(each, ending) for each in others) >= free


def _types(node: dict[str, Any], place: str) -> list[str]:
    found = node.get("type")
    types: list[Any] = found if isinstance(found, list) else [found]
    if not types or not all(isinstance(each, str) and each in OF_TYPE for each in types):
        raise _wrong(place, f"type: expected one of {', '.join(OF_TYPE)}")
    return types


def _number(node: dict[str, Any], types: list[str], place: str) -> None:
    names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    for name in (name for name in names if name in node):
        value: Any = node[name]
        if not _is_a(value, "integer" if "integer" in types else "number") or abs(value) > NUMBER_MAX:
            raise _wrong(place, f"{name}: expected a number of the type, at most {NUMBER_MAX:.0e}")
    if {"minimum", "exclusiveMinimum"} <= node.keys() or {"maximum", "exclusiveMaximum"} <= node.keys():
        raise _wrong(place, "of an inclusive and an exclusive bound only one can be given")
    low, high = (node.get(end, node.get(f"exclusive{end.title()}")) for end in ("minimum", "maximum"))
    if low is not None and high is not None:
        open_ends = ("exclusiveMinimum" in node) + ("exclusiveMaximum" in node)
        room = open_ends if "integer" in types else math.ulp(0.0) * open_ends
        if high - low < room:
            raise _wrong(place, "no number is between the bounds")


def _range(node: dict[str, Any], low: str, high: str, limit: int, place: str) -> tuple[int, int]:
    bounds = [node.get(low, 0), node.get(high, limit)]
    if not all(_is_a(each, "integer") and 0 <= each <= limit for each in bounds):
        raise _wrong(place, f"{low} and {high}: expected whole numbers from 0 to {limit}")
    if bounds[0] > bounds[1]:
        raise _wrong(place, f"{low} is more than {high}")
    return bounds[0], bounds[1]


def _is_a(value: Any, type: str) -> bool:
    match type:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _wrong(place: str, problem: str) -> ValueError:
    return ValueError(f"schema, at {place}: {problem}")
