"""Decides under which property names a JSON schema may constrain a string: no placeholder can stand there.
Pure."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

# What is in none of these sets is not understood and constrains everything.
NEUTRAL = {
    *("type", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    *("$schema", "$id", "$comment", "$defs", "definitions", "required", "minProperties", "maxProperties"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
}
CONSTRAINTS = {"enum", "const", "pattern", "format", "minLength", "maxLength"}
ALTERNATIVES = {"anyOf", "oneOf", "allOf", "prefixItems"}
KNOWN = NEUTRAL | CONSTRAINTS | ALTERNATIVES | {"items", "properties", "additionalProperties", "$ref"}
ROOT = "#"

Schema = dict[str, Any]


class ConstrainedNames(Struct, frozen=True):
    """Property names under which a string may be constrained, itself or as an item of arrays there. `every`:
    under any name. `nameless`: where it stands in no object."""

    names: frozenset[str] = frozenset()
    every: bool = False
    nameless: bool = False


def constrained_names(schema: Any) -> ConstrainedNames:
    """The names in a schema that `check_schema` took. One that is constrained anywhere is so everywhere."""
    targets = _targets(schema)
    schemas = _reached(schema, targets)
    if any(each.keys() - KNOWN or each.get("$ref", ROOT) not in targets for each in schemas):
        return ConstrainedNames(every=True, nameless=True)
    constrained = _constrained(schemas, targets)
    names: set[str] = set()
    for each in schemas:
        names.update(name for name in _enumerated(each) if name is not None)
        names.update(name for name, inner in each.get("properties", {}).items() if id(inner) in constrained)
    every = any(id(each.get("additionalProperties")) in constrained for each in schemas)
    return ConstrainedNames(frozenset(names), every, id(schema) in constrained)


def _targets(schema: Any) -> dict[str, Any]:
    """The schemas that a `$ref` may name."""
    found: dict[str, Any] = {ROOT: schema}
    for keyword in ("$defs", "definitions"):
        found |= {f"#/{keyword}/{name}": inner for name, inner in schema.get(keyword, {}).items()}
    return found


def _reached(schema: Any, targets: dict[str, Any]) -> list[Schema]:
    """All schemas that shape some part of an answer, each once. `true` allows everything and is left out."""
    found: dict[int, Schema] = {}
    open_: list[Any] = [schema]
    while open_:
        each = open_.pop()
        if isinstance(each, dict) and id(each) not in found:
            found[id(each)] = each
            open_ += _same_name(each, targets)
            open_ += [*each.get("properties", {}).values(), each.get("additionalProperties")]
    return list(found.values())


def _same_name(schema: Schema, targets: dict[str, Any]) -> list[Any]:
    """The schemas of what has no other property name than what this schema is for."""
    found = [inner for keyword in ALTERNATIVES & schema.keys() for inner in schema[keyword]]
    return [*found, schema.get("items"), targets.get(schema.get("$ref", ""))]


def _constrained(schemas: list[Schema], targets: dict[str, Any]) -> set[int]:
    """The ids of the schemas that constrain a string with no property name between."""
    holders: dict[int, list[int]] = {}
    for each in schemas:
        for inner in _same_name(each, targets):
            holders.setdefault(id(inner), []).append(id(each))
    found: set[int] = set()
    open_ = [id(each) for each in schemas if _constrains(each)]
    while open_:
        each = open_.pop()
        if each not in found:
            found.add(each)
            open_ += holders.get(each, [])
    return found


def _constrains(schema: Schema) -> bool:
    """True where a schema itself constrains a string. `minLength` 1 does not: no placeholder is empty."""
    shaped = bool({"pattern", "format", "maxLength"} & schema.keys())
    return shaped or schema.get("minLength", 0) > 1 or None in _enumerated(schema)


def _enumerated(schema: Schema) -> set[str | None]:
    """The property names of the strings in an enum or a const; None: a string that has none there."""
    return set(_names_in([schema.get("enum"), schema.get("const")], None))


def _names_in(value: Any, name: str | None) -> Iterator[str | None]:
    match value:
        case str():
            yield name
        case list():
            for each in value:
                yield from _names_in(each, name)
        case dict():
            for inner_name, each in value.items():
                yield from _names_in(each, inner_name)
        case _:
            pass
