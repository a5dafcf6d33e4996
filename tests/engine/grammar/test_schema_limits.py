"""Where each limit of a shape lies: the last that passes and the first that does not."""

import json
import re
from typing import Any

import pytest

from engine.grammar.json_schema import check_schema
from engine.grammar.regex import check_pattern
from engine.grammar.response_format import checked_format, uses_patterns
from tests.engine.grammar.walks import schema_format

STRING: dict[str, Any] = {"type": "string"}
ITSELF: dict[str, Any] = {"$ref": "#"}


def deep(levels: int) -> dict[str, Any]:
    """A schema of so many more around one of whole numbers."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def many(count: int) -> dict[str, Any]:
    """So many properties."""
    return {"type": "object", "properties": {str(number): {} for number in range(count)}}


PASSING: dict[str, dict[str, Any]] = {
    "definitions": {"$defs": {str(number): STRING for number in range(64)}},
    "a deep definition": {"$defs": {"a": deep(8)}},
    "a deep choice": {"anyOf": [deep(8)]},
    "a deep first item": {"type": "array", "prefixItems": [deep(8)]},
    "a deep property": {"type": "object", "properties": {"a": deep(8)}},
    "deep others": {"type": "object", "additionalProperties": deep(8)},
    "anything": {"type": "array", "items": True},
    "a value of a type": {"type": "string", "const": "a"},
    "values of types": {"type": ["string", "integer"], "enum": ["a", 1]},
    "alternatives": {"anyOf": [STRING] * 500},
    "values": {"enum": list(range(500))},
    "a length": {"type": "string", "minLength": 10_000, "maxLength": 10_000},
    "no length": {"type": "string", "minLength": 0, "maxLength": 0},
    "first items": {"type": "array", "prefixItems": [True] * 500},
    "as many items": {"type": "array", "prefixItems": [True] * 3, "minItems": 3, "maxItems": 3},
    "more items": {"type": "array", "prefixItems": [True], "items": True, "minItems": 1_000},
    "properties": many(256),
    "all required": {**many(2), "required": ["0", "1"], "minProperties": 2, "maxProperties": 2},
    "other properties": {"type": "object", "additionalProperties": True, "minProperties": 256},
    "keywords of two types": {"type": ["string", "integer"], "maxLength": 3, "minimum": 1},
    "numbers": {"type": "integer", "minimum": -(10**15), "maximum": 10**15},
    "broken numbers": {"type": "number", "minimum": 1.5},
    "one number": {"type": "integer", "minimum": 2, "maximum": 2},
    "the first number": {"type": "integer", "minimum": 2, "exclusiveMaximum": 3},
    "the last number": {"type": "integer", "exclusiveMinimum": 2, "maximum": 3},
    "the number between": {"type": "integer", "exclusiveMinimum": 2, "exclusiveMaximum": 4},
    "one broken number": {"type": "number", "minimum": 1, "maximum": 1},
    "numbers between": {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.5},
    "itself, or nothing": {"anyOf": [ITSELF, {"type": "null"}]},
    "itself behind those that must come": {"type": "array", "prefixItems": [True, ITSELF], "minItems": 1},
    "itself as an item that may come": {
        "type": "array",
        "prefixItems": [True],
        "items": ITSELF,
        "minItems": 1,
    },
    "itself, or no list": {"type": ["array", "null"], "items": ITSELF, "minItems": 1},
    "itself beside what is required": {
        **many(2),
        "required": ["0"],
        "additionalProperties": ITSELF,
        "minProperties": 1,
    },
    "itself where another property will do": {
        "type": "object",
        "properties": {"a": ITSELF, "b": STRING},
        "additionalProperties": ITSELF,
        "minProperties": 1,
    },
}


@pytest.mark.parametrize("schema", PASSING.values(), ids=PASSING.keys())
def test_what_is_just_within_a_limit_passes(schema: dict[str, Any]):
    """It is said in the limit's own words to be allowed."""
    check_schema(schema)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "definitions that are none": ({"definitions": []}, "#: definitions: expected an object"),
    "both kinds together": ({"$defs": {str(n): {} for n in range(64)}, "definitions": {"a": {}}}, "64 def"),
    "a definition that is none": ({"$defs": {"a": 1}}, "#/$defs/a: expected a schema, an object"),
    "a deep definition": ({"$defs": {"a": deep(9)}}, "nested more than 10 schemas deep"),
    "a deep choice": ({"anyOf": [deep(9)]}, "#/anyOf/0/items/items"),
    "a deep first item": ({"type": "array", "prefixItems": [True, deep(9)]}, "#/prefixItems/1/items"),
    "a deep property": ({"type": "object", "properties": {"a": deep(9)}}, "#/properties/a/items"),
    "deep others": ({"type": "object", "additionalProperties": deep(9)}, "#/additionalProperties/items"),
    "a long name": ({"type": "object", "properties": {"x" * 40: 1}}, f"at #/properties/{'x' * 32}: expected"),
    "definitions inside": ({"type": "array", "items": {"definitions": {}}}, "#/items: definitions belong"),
    "a type beside a choice": ({"type": "string", "anyOf": [{}]}, "type beside anyOf is not enforced"),
    "two beside a reference": ({"$ref": "#", "pattern": "a", "maxLength": 1}, "maxLength beside $ref"),
    "a reference of no text": ({"$ref": []}, '$ref: expected "#"'),
    "a reference with a percent": ({"$ref": "#/$defs/a%b", "$defs": {"a%b": {}}}, "without ~, % and /"),
    "a reference with a slash": ({"$ref": "#/$defs/a/b", "$defs": {"a/b": {}}}, "without ~, % and /"),
    "a choice of no list": ({"anyOf": {}}, "anyOf: expected a list of 1 to 500 schemas"),
    "alternatives": ({"anyOf": [STRING] * 501}, "anyOf: expected a list of 1 to 500 schemas"),
    "a choice that is none": ({"anyOf": [{}, 1]}, "#/anyOf/1: expected a schema"),
    "an enum of no list": ({"enum": "ab"}, "enum: expected a list of values"),
    "values of two": ({"anyOf": [{"enum": list(range(250))}, {"enum": list(range(251))}]}, "more than 500"),
    "one value of another type": ({"type": ["string", "null"], "enum": ["a", 1]}, "not of its type"),
    "a length": ({"type": "string", "minLength": -1}, "from 0 to 10000"),
    "a least length": ({"type": "string", "minLength": 10_001}, "from 0 to 10000"),
    "a pattern and a least length": ({"type": "string", "pattern": "a", "minLength": 1}, "only one"),
    "a pattern and a format": ({"type": "string", "pattern": "a", "format": "date"}, "only one"),
    "a format and a length": ({"type": "string", "format": "date", "maxLength": 9}, "only one"),
    "a bad pattern": (
        {"type": "string", "pattern": "a)"},
        "at #: pattern: a ) without its (, at character 2",
    ),
    "items": ({"type": "array", "maxItems": 1_001}, "from 0 to 1000"),
    "first items of no list": ({"type": "array", "prefixItems": {}}, "a list of at most 500 schemas"),
    "first items": ({"type": "array", "prefixItems": [True] * 501}, "a list of at most 500 schemas"),
    "no first items": ({"type": "array", "prefixItems": []}, "at least one, and no more than maxItems"),
    "more first items": ({"type": "array", "prefixItems": [True] * 2, "maxItems": 1}, "more than maxItems"),
    "one item more": ({"type": "array", "prefixItems": [True], "minItems": 2}, "more items than there are"),
    "properties": ({"type": "object", "maxProperties": 257}, "from 0 to 256"),
    "properties of two": ({"anyOf": [many(128), many(129)]}, "more than 256 properties in all"),
    "required of no list": ({**many(1), "required": "0"}, "a list of names that are in properties"),
    "one that is required": ({**many(1), "required": ["0", "1"]}, "a list of names that are in properties"),
    "one property more": ({**many(1), "minProperties": 2}, "leave no room"),
    "fewer than required": ({**many(2), "required": ["0", "1"], "maxProperties": 1}, "leave no room"),
    "a number": ({"type": "integer", "maximum": 10**15 + 1}, "at most 1e+15"),
    "a negative number": ({"type": "number", "minimum": -(10**15) - 1}, "at most 1e+15"),
    "a broken whole number": ({"type": ["integer", "number"], "minimum": 1.5}, "a number of the type"),
    "both upper bounds": ({"type": "number", "maximum": 1, "exclusiveMaximum": 1}, "only one can be given"),
    "no whole number": ({"type": "integer", "exclusiveMinimum": 2, "maximum": 2}, "no number is between"),
    "no number": ({"type": "number", "minimum": 2, "exclusiveMaximum": 2}, "no number is between"),
    "itself among those that must come": (
        {"type": "array", "prefixItems": [True, ITSELF], "minItems": 2},
        "without end",
    ),
    "itself behind the first": (
        {"type": "array", "prefixItems": [True], "items": ITSELF, "minItems": 2},
        "without end",
    ),
    "itself as the one property": (
        {"type": "object", "additionalProperties": ITSELF, "minProperties": 1},
        "without end",
    ),
    "itself as the only property that may come": (
        {"type": "object", "properties": {"a": ITSELF}, "minProperties": 1},
        "without end",
    ),
}


@pytest.mark.parametrize(("schema", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_just_beyond_a_limit_is_refused(schema: dict[str, Any], words: str):
    """With the place and the limit."""
    with pytest.raises(ValueError, match=re.escape(words)):
        check_schema(schema)


VALUES: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True, False],
    "string": ["", "a"],
    "array": [[], [1]],
    "object": [{}, {"a": 1}],
    "integer": [0, -3],
    "number": [0, -3, 1.5],
}
EVERY: list[Any] = [None, True, False, "", "a", [], [1], {}, {"a": 1}, 0, -3, 1.5, float("inf"), float("nan")]


@pytest.mark.parametrize("type", VALUES)
def test_a_value_is_of_the_types_that_json_has_for_it(type: str):
    """A truth value is no number, and what JSON cannot write is none either."""

    def fits(value: Any) -> bool:
        try:
            check_schema({"type": type, "const": value})
        except ValueError:
            return False
        return True

    assert [value for value in EVERY if fits(value)] == [
        value for value in EVERY if any(value is each or repr(value) == repr(each) for each in VALUES[type])
    ]


@pytest.mark.parametrize(
    ("strings", "size"),
    [
        ([{"maxLength": 4}], 20),
        ([{"minLength": 4}], 20),
        ([{"minLength": 2, "maxLength": 4}], 20),
        ([{"maxLength": 127}], 143),
        ([{"maxLength": 128}], 144),
        ([{"maxLength": 129}], 144),
        ([{"maxLength": 4}, {"maxLength": 4}, {"minLength": 0, "maxLength": 4}], 20),
        ([{"maxLength": 4}, {"maxLength": 5}], 41),
        ([{"minLength": 4}, {"minLength": 4, "maxLength": 10_000}], 164),
        ([{"pattern": "a{9}"}, {"pattern": "a{9}"}], 18),
        ([{"format": "date"}, {}], 0),
    ],
)
def test_equal_bounds_cost_the_compiler_once(strings: list[dict[str, Any]], size: int):
    """Patterns as often as they stand there. 512 characters in all pass."""
    nodes = [{"type": "string", **each} for each in strings]
    full, rest = divmod(512 - size, 128)
    parts = [128] * full + [rest] * (rest > 0)
    filled = [{"type": "string", "pattern": f"^a{{{part}}}$"} for part in parts]
    check_schema({"anyOf": nodes + filled})
    with pytest.raises(ValueError, match=r"add up to 513 characters, 512 at most: use the same bounds"):
        check_schema({"anyOf": [*nodes, *filled, {"type": "string", "pattern": "b"}]})


@pytest.mark.parametrize("bound", [{"minProperties": 1}, {"maxProperties": 200}, {}])
def test_numbers_of_properties_cost_by_their_square(bound: dict[str, int]):
    """128 of them as much as all that a schema may cost; unbounded ones nothing."""
    full = {"type": "string", "pattern": "a"}
    check_schema({"anyOf": [{**many(128), **bound}]})
    if bound:
        with pytest.raises(ValueError, match="add up to 513"):
            check_schema({"anyOf": [{**many(128), **bound}, full]})
    else:
        check_schema({"anyOf": [many(128), full]})


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("x" * 256, 256),
        ("a{128}" * 4, 512),
        ("(" * 8 + "a" + ")" * 8, 1),
        ("(a)" * 9, 9),
        ("(|a){3}", 3),
        ("(){5}", 5),
        ("a{2,}b{0}c{2,2}", 5),
        ("a+?b*?c??d{2}?", 5),
        ("ab|c|", 3),
        (r"[\]\u005d-]", 1),
    ],
)
def test_the_size_of_a_pattern_at_its_limits(pattern: str, size: int):
    """As it is counted in a schema, too."""
    assert check_pattern(pattern) == check_pattern(pattern, in_json=True) == size


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("x" * 257, "longer than 256 characters"),
        ("a{128}" * 4 + "b", "repeats too much: 513 characters if written out, 512 at most"),
        ("(" * 9 + "a" + ")" * 9, "more than 8 groups in each other, at character 9"),
        ("ab{129}", "more than 128 repetitions, at character 7"),
        ("ab{3,2}", "a repetition from more to less, at character 7"),
        ("a(?=b)", "(? is for groups without a name only, (?:…), at character 3"),
        ("ab)", "a ) without its (, at character 3"),
        ("a(b", "a ( without its ), at character 3"),
        ("a[b", "a [ without its ], at character 3"),
        ("a[]", "an empty class, at character 3"),
        ("a[[]", "a [ in a class needs an escape, at character 3"),
        ("a\x07b", "a character that does not print, at character 2"),
        ("[\x07]", "a character that does not print, at character 2"),
        (r"\u0007b", "a character that does not print, at character 6"),
        (r"\u12x4", "\\u needs four hexadecimal digits, at character 6"),
        (r"a\q", "\\q is not supported, at character 3"),
        ("a\\", "\\ is not supported, at character 3"),
        ("a^b", "^ inside the pattern, at character 2"),
        ("a|*", "nothing before * to repeat, at character 3"),
    ],
)
def test_what_is_wrong_with_a_pattern_and_where(pattern: str, problem: str):
    """Whoever wrote it is told the character behind which it stops."""
    with pytest.raises(ValueError, match=f"^{re.escape(f'pattern: {problem}')}$"):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["ab", r"\.\d", "[^a]", r"\u0041"])
def test_in_a_json_string_what_needs_no_escape_passes(pattern: str):
    """Only quotes, backslashes and what does not print are refused."""
    check_pattern(pattern, in_json=True)


def described(length: int) -> dict[str, Any]:
    """A shape with a description of so many characters."""
    return schema_format({"description": "x" * length})


def test_the_bytes_of_a_shape_are_bounded():
    """16 KiB as compact JSON."""
    around = len(json.dumps(described(0), separators=(",", ":")))
    assert checked_format(described(16_384 - around))
    with pytest.raises(ValueError, match="16385 bytes long, 16384 at most"):
        checked_format(described(16_385 - around))


def test_the_depth_of_a_shape_is_bounded():
    """Lists and objects together, 33 in each other: the shape itself and 32 in it."""

    def nested(levels: int) -> dict[str, Any]:
        inner: Any = []
        for at in range(levels - 4):
            inner = [inner] if at % 2 else {"a": inner}
        return schema_format({"default": inner})

    assert checked_format(nested(33))
    with pytest.raises(ValueError, match="nested more than 32 levels deep"):
        checked_format(nested(34))


@pytest.mark.parametrize(
    ("raw", "packed"),
    [
        ({"type": "json_object"}, '{"object":true}'),
        (schema_format({}), '{"schema":{}}'),
        ({"type": "regex", "pattern": "a"}, '{"pattern":"a"}'),
        ({"type": "choice", "choices": ["b", "a"]}, '{"choices":["b","a"]}'),
        ({"type": "choice", "choices": [str(n) for n in range(500)]}, None),
    ],
)
def test_a_shape_is_packed_with_what_it_says_only(raw: dict[str, Any], packed: str | None):
    """Workers of the version before read it too."""
    assert packed in (None, checked_format(raw))
    assert checked_format(raw)


@pytest.mark.parametrize(
    ("raw", "uses"),
    [
        ({"type": "json_object"}, False),
        ({"type": "regex", "pattern": ""}, True),
        (schema_format(STRING), False),
        (schema_format({"type": "string", "pattern": "a"}), True),
    ],
)
def test_which_shapes_hold_a_pattern(raw: dict[str, Any], uses: bool):
    """An empty one is one."""
    packed = checked_format(raw)
    assert packed
    assert uses_patterns(packed) is uses


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"type": "regex", "pattern": "a", "flags": "i"}, "flags"),
        ({"type": "choice", "choices": ["a"], "more": 1}, "more"),
        ({"type": "json_object", "more": 1}, "more"),
        ({**schema_format({}), "more": 1}, "more"),
    ],
)
def test_no_type_takes_what_it_does_not_know(given: dict[str, Any], words: str):
    """It would be ignored in silence."""
    with pytest.raises(ValueError, match=words):
        checked_format(given)
