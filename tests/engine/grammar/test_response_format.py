"""What shapes an answer may be asked to have, and that what passes is really enforced."""

import json
import random
from typing import Any

import jsonschema
import pytest

from engine.grammar.json_schema import check_schema
from engine.grammar.regex import check_pattern
from engine.grammar.response_format import Shape, checked_format, format_of
from tests.engine.grammar.walks import PERSON, Walk, random_schema, schema_format


@pytest.mark.parametrize(
    ("raw", "shape"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, Shape(object=True)),
        (schema_format(PERSON, strict=True, description="who"), Shape(schema=PERSON)),
        ({"type": "regex", "pattern": "^[a-f]{4}$"}, Shape(pattern="^[a-f]{4}$")),
        ({"type": "choice", "choices": ["yes", "no"]}, Shape(choices=("yes", "no"))),
    ],
)
def test_every_type_is_packed_for_the_worker(raw: dict[str, Any], shape: Shape | None):
    """Plain text asks for nothing; the others come out as they went in."""
    packed = checked_format(raw)
    assert (format_of(packed) if packed else None) == shape


def test_the_order_of_properties_is_kept():
    """Answers have their properties in the schema's order."""
    packed = checked_format(schema_format({"type": "object", "properties": {"z": {}, "a": {}, "m": {}}}))
    assert packed
    assert list(format_of(packed).schema["properties"]) == ["z", "a", "m"]


def _nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


BAD_FORMATS: dict[str, tuple[Any, str]] = {
    "no object": ("json", "expected"),
    "nothing": ({}, "a type of text, json_object"),
    "another type": ({"type": "xml"}, "a type of text"),
    "a type that is no text": ({"type": ["text"]}, "a type of text"),
    "text and more": ({"type": "text", "pattern": "x"}, "takes nothing else"),
    "object and more": ({"type": "json_object", "schema": {}}, "schema"),
    "no name": ({"type": "json_schema", "json_schema": {"schema": {}}}, "name"),
    "a long name": ({"type": "json_schema", "json_schema": {"name": "x" * 65, "schema": {}}}, "name"),
    "another key": (schema_format({}, grammar="x"), "grammar"),
    "no schema": (schema_format([]), "expected an object"),
    "too long": (schema_format({"description": "x" * 17_000}), "16384 at most"),
    "too deep in itself": (schema_format({"default": _nested(5_000)}), "32 levels"),
    "not JSON": (schema_format({"default": {1j}}), "JSON"),
    "no choices": ({"type": "choice", "choices": []}, "choices"),
    "a choice twice": ({"type": "choice", "choices": ["a", "a"]}, "each once"),
    "an empty choice": ({"type": "choice", "choices": [""]}, "choices"),
    "a choice of two lines": ({"type": "choice", "choices": ["a\nb"]}, "printable"),
    "many choices": ({"type": "choice", "choices": [str(n) for n in range(501)]}, "choices"),
    "a pattern": ({"type": "regex", "pattern": "(?=x)"}, "pattern"),
}


@pytest.mark.parametrize(("raw", "words"), BAD_FORMATS.values(), ids=BAD_FORMATS.keys())
def test_what_is_no_format_is_refused_with_the_reason(raw: Any, words: str):
    """A ValueError that names what to change."""
    with pytest.raises(ValueError, match=words):
        checked_format(raw)


STRING = {"type": "string"}
BAD_SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "a type": ({"type": "strin"}, "type: expected one of string"),
    "no type": ({"maxLength": 3}, "type: expected"),
    "no types": ({"type": []}, "type: expected"),
    "an unknown keyword": ({"type": "array", "uniqueItems": True}, "uniqueItems is not supported"),
    "if": ({"type": "string", "if": {}, "then": {}}, "if is not supported"),
    "not": ({"type": "string", "not": {}}, "not is not supported"),
    "oneOf": ({"type": "string", "oneOf": [{}]}, "oneOf is not supported"),
    "multipleOf": ({"type": "integer", "multipleOf": 5}, "multipleOf is not supported"),
    "of another type": ({"type": "integer", "maxLength": 3}, "maxLength is not for the type"),
    "two ways to shape": ({"type": "string", "pattern": "a", "maxLength": 3}, "only one"),
    "a format": ({"type": "string", "format": "phone"}, "format: expected one of"),
    "a format of no text": ({"type": "string", "format": []}, "format: expected a text"),
    "a pattern of no text": ({"type": "string", "pattern": 1}, "pattern: expected a text"),
    "a length": ({"type": "string", "maxLength": 10_001}, "from 0 to 10000"),
    "a length that is a bool": ({"type": "string", "maxLength": True}, "whole numbers"),
    "lengths": ({"type": "string", "minLength": 3, "maxLength": 2}, "minLength is more than"),
    "a number": ({"type": "number", "minimum": "1"}, "minimum: expected a number"),
    "a broken number": ({"type": "integer", "minimum": 1.5}, "minimum: expected a number"),
    "a huge number": ({"type": "number", "maximum": 1e300}, "maximum: expected"),
    "draft 4": ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, "exclusiveMinimum: expected"),
    "both bounds": ({"type": "integer", "minimum": 1, "exclusiveMinimum": 1}, "only one can be given"),
    "no number": ({"type": "integer", "minimum": 3, "maximum": 2}, "no number is between"),
    "no whole number": ({"type": "integer", "exclusiveMinimum": 2, "exclusiveMaximum": 3}, "no number"),
    "many items": ({"type": "array", "minItems": 1_001}, "from 0 to 1000"),
    "no items": ({"type": "array", "items": False, "minItems": 1}, "more items than"),
    "items of no schema": ({"type": "array", "minItems": 1}, "more items than"),
    "no more properties": ({"type": "object", "minProperties": 1}, "leave no room"),
    "items of a list": ({"type": "array", "items": [STRING]}, "expected a schema"),
    "required": ({"type": "object", "required": ["a"]}, "names that are in properties"),
    "required of no text": ({"type": "object", "required": [[]]}, "names that are in properties"),
    "required twice": ({"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}, "once"),
    "no room": ({"type": "object", "properties": {"a": {}}, "required": ["a"], "maxProperties": 0}, "room"),
    "properties": ({"type": "object", "properties": []}, "properties: expected an object"),
    "many properties": ({"type": "object", "properties": {str(n): {} for n in range(257)}}, "256 properties"),
    "false": ({"type": "object", "properties": {"a": False}}, "expected a schema"),
    "patternProperties": ({"type": "object", "patternProperties": {}}, "patternProperties is not"),
    "an empty enum": ({"enum": []}, "enum: expected a list"),
    "an enum of another type": ({"type": "string", "enum": [1]}, "not of its type"),
    "many values": ({"enum": list(range(501))}, "more than 500 values"),
    "beside an enum": ({"type": "string", "enum": ["a"], "maxLength": 1}, "maxLength beside enum"),
    "beside a reference": ({"$ref": "#/$defs/a", "maxLength": 2, "$defs": {"a": STRING}}, "beside \\$ref"),
    "two allOf": ({"allOf": [STRING, {}]}, "a list of 1 to 1"),
    "an empty anyOf": ({"anyOf": []}, "anyOf: expected"),
    "a remote reference": ({"$ref": "https://example.com/x"}, "of this schema"),
    "a lost reference": ({"$ref": "#/$defs/b", "$defs": {"a": STRING}}, "of this schema"),
    "an escaped reference": ({"$ref": "#/$defs/a~1b", "$defs": {"a~1b": STRING}}, "without ~"),
    "definitions inside": ({"anyOf": [{"$defs": {}}]}, "into the root"),
    "many definitions": ({"$defs": {str(n): STRING for n in range(65)}}, "64 definitions"),
    "itself": ({"$ref": "#"}, "without end"),
    "itself around a corner": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#"}]}}},
        "without end",
    ),
    "itself, always": (
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        "without end",
    ),
    "itself in a list": ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "without end"),
    "deep": (_deep(10), "nested more than 10"),
    "hundreds of lengths": (
        {"type": "object", "properties": {str(n): {"type": "string", "maxLength": 9 + n} for n in range(99)}},
        "512 at most",
    ),
    "patterns": (
        {"anyOf": [{"type": "string", "pattern": "^[a-z]{1,100}$"} for _ in range(6)]},
        "512 at most",
    ),
}


@pytest.mark.parametrize(("schema", "words"), BAD_SCHEMAS.values(), ids=BAD_SCHEMAS.keys())
def test_what_cannot_be_enforced_is_refused_with_the_reason(schema: dict[str, Any], words: str):
    """Nothing that the compiler would ignore, stall at or choke on comes through."""
    with pytest.raises(ValueError, match=words):
        check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        PERSON,
        {"type": ["string", "null"], "maxLength": 3, "title": "x", "default": None},
        {"type": "object", "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}},
        {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"anyOf": [STRING, {"$ref": "#"}]}}},
        {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
        {"allOf": [PERSON]},
        _deep(9),
    ],
)
def test_ordinary_schemas_pass(schema: dict[str, Any]):
    """As pydantic and people write them, recursive ones among them."""
    check_schema(schema)


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("", 0),
        ("^abc$", 3),
        ("[a-z]{1,20}", 20),
        ("^(?:[a-z]{2}-){3}x?$", 10),
        (r"\d{4}-\d{2}|\w+\.[^\]\n]*?", 10),
        ("(a|b)*", 2),
        (r"é{3}\u00e9", 4),
        (r'"\\[^"]\n', 4),
    ],
)
def test_a_pattern_is_as_large_as_what_it_may_match(pattern: str, size: int):
    """Counted repetitions multiply, others do not."""
    assert check_pattern(pattern) == size


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)b", "(?<n>a)", "(?i)a", r"(a)\1", r"\bword", r"\p{L}", "a^b", "a$b", "*a", "a**", "a{2,1}"),
        *("(", ")", "(a", "[a", "[]", "[^]", "[[a]]", "[z-a]", "a{129}", "{2}", "a{", "\\", r"\x1", "a\nb"),
        *("((a{100}){100}){100}", "x" * 257, "([a-z]{1,100}-){1,100}", "(" * 250),
    ],
)
def test_a_pattern_that_is_not_enforced_or_too_large_is_refused(pattern: str):
    """Look-around, references, boundaries, broken syntax, and what explodes."""
    with pytest.raises(ValueError, match="pattern"):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ['"', r"\\", r"[\"]", r"\n", r"[\t ]", r"\u0022", r"\u005c", r"\u000a"])
def test_in_a_json_string_what_needs_an_escape_is_refused(pattern: str):
    """The compiler would write it as it is, and the answer would be no JSON."""
    with pytest.raises(ValueError, match="pattern"):
        check_pattern(pattern, in_json=True)


@pytest.mark.vllm
def test_what_passes_is_enforced():
    """INV-23: Every complete answer to a schema that passes validates against it, whatever the model
    prefers."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng, walk, passed, complete = random.Random(seed), Walk(), 0, 0
    while passed < 100:
        schema = random_schema(rng)
        try:
            check_schema(schema)
        except ValueError:
            continue
        passed += 1
        for _ in range(4):
            answer = walk.answer(schema, rng)
            if answer is not None:
                complete += 1
                value = json.loads(answer)
                jsonschema.validate(value, schema, jsonschema.Draft202012Validator)
    assert complete > 250
