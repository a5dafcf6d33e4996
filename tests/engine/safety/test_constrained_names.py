"""Property names under which a schema may constrain a string, and the view that each shape gets."""

import json
import random
from typing import Any

import jsonschema
import pytest

from engine.grammar.json_schema import ANNOTATIONS, INNER, OF_TYPE, WHOLE, check_schema
from engine.grammar.response_format import checked_format
from engine.safety.answer_views import FixedView, view_for
from engine.safety.constrained_names import KNOWN, ConstrainedNames, constrained_names
from engine.safety.json_view import JsonView, Units
from tests.engine.grammar.walks import PERSON, random_schema, schema_format
from tests.support.tiers import by_form

STRING: dict[str, Any] = {"type": "string"}
ENUM: dict[str, Any] = {"enum": ["a", "b"]}
TEXTS = [
    *(
        "",
        "a",
        "b",
        "é 5",
        "four",
        "sixsix",
        "longer than anything",
        "^",
        "a!",
        "abc",
        " ab",
        "bcbc",
        "2024-02-29",
    ),
    *("2024-02-29T10:00:00Z", "6fa459ea-ee8a-3ca4-894e-db77e160355e", "::1", "parley.example", "a@b.example"),
]


def names(*found: str, every: bool = False, nameless: bool = False) -> ConstrainedNames:
    """What is found."""
    return ConstrainedNames(frozenset(found), every, nameless)


def under(**properties: Any) -> dict[str, Any]:
    """An object with these properties."""
    return {"type": "object", "properties": properties}


def items(inner: Any) -> dict[str, Any]:
    """An array of these."""
    return {"type": "array", "items": inner}


CASES: dict[str, tuple[dict[str, Any], ConstrainedNames]] = {
    "anything": ({}, names()),
    "a free string": (STRING, names()),
    "free strings": (under(a=STRING, b=items(STRING), c=True), names()),
    "each constraint": (
        under(
            a=ENUM,
            b={"const": "x"},
            c={"type": "string", "pattern": "^a$"},
            d={"type": "string", "format": "email"},
            e={"type": "string", "maxLength": 9},
            f={"type": "string", "minLength": 2},
            g={"type": "string", "minLength": 1},
        ),
        names("a", "b", "c", "d", "e", "f"),
    ),
    "other types": (
        under(
            a={"type": "integer", "minimum": 1},
            b={"enum": [1, None]},
            c={"const": True},
            d={"type": ["string", "null"]},
            e={**items(STRING), "maxItems": 2},
        ),
        names(),
    ),
    "one of two types": (under(a={"type": ["string", "integer"], "maxLength": 3}), names("a")),
    "a string at the top": ({"type": "string", "maxLength": 3}, names(nameless=True)),
    "items at the top": (items(items(ENUM)), names(nameless=True)),
    "items": (under(a=items(items(ENUM))), names("a")),
    "first items": (under(a={"type": "array", "prefixItems": [STRING, ENUM]}), names("a")),
    "items behind free ones": (
        under(a={"type": "array", "prefixItems": [STRING], "items": ENUM}),
        names("a"),
    ),
    "objects in items": (under(a=items(under(b=ENUM, c=STRING))), names("b")),
    "an alternative": (under(a={"anyOf": [STRING, {"type": "null"}, items(ENUM)]}), names("a")),
    "a part": (under(a={"allOf": [ENUM]}), names("a")),
    "an alternative at the top": ({"anyOf": [under(a=ENUM), ENUM]}, names("a", nameless=True)),
    "others": (
        {**under(a=STRING), "additionalProperties": ENUM},
        names(every=True),
    ),
    "arrays of others": (under(a={"type": "object", "additionalProperties": items(ENUM)}), names(every=True)),
    "free others": ({**under(a=ENUM), "additionalProperties": STRING}, names("a")),
    "any others": ({**under(a=ENUM), "additionalProperties": True}, names("a")),
    "objects of others": ({"type": "object", "additionalProperties": under(b=ENUM)}, names("b")),
    "a definition": ({**under(a={"$ref": "#/$defs/e"}, b=STRING), "$defs": {"e": ENUM}}, names("a")),
    "an old definition": (
        {**under(a=items({"$ref": "#/definitions/e"})), "definitions": {"e": ENUM}},
        names("a"),
    ),
    "an unused definition": ({**under(a=STRING), "$defs": {"e": under(b=ENUM)}}, names()),
    "a definition of a definition": (
        {**under(a={"$ref": "#/$defs/d"}), "$defs": {"d": {"anyOf": [{"$ref": "#/$defs/e"}]}, "e": ENUM}},
        names("a"),
    ),
    "a circle": (under(a=ENUM, more={"anyOf": [{"$ref": "#"}, {"type": "null"}]}), names("a")),
    "a circle of arrays": (
        {
            **under(a={"$ref": "#/$defs/tree"}),
            "$defs": {
                "tree": {"anyOf": [items({"$ref": "#/$defs/tree"}), {"type": "string", "maxLength": 3}]}
            },
        },
        names("a"),
    ),
    "a circle through names": (
        {
            **under(a={"$ref": "#/$defs/node"}),
            "$defs": {
                "node": {**under(label=ENUM, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})}
            },
        },
        names("label"),
    ),
    "an enumerated object": (under(a={"const": {"b": "x", "c": [1, {"d": ["y"]}], "e": 1}}), names("b", "d")),
    "an enumerated array": (under(a={"enum": [["x"], 1]}), names("a")),
    "an enumerated array at the top": ({"enum": [["x"], 1]}, names(nameless=True)),
    "free here, constrained there": (under(a=under(k=STRING), b=under(k=ENUM)), names("k")),
    "a name that looks like a keyword": (under(enum=STRING, const=STRING, maxLength=items(STRING)), names()),
    "texts about the schema": (
        {**under(a={**STRING, "title": "x", "examples": ["y"], "default": "z"}), "description": "w"},
        names(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_names_by_hand(case: str):
    """A checked schema has these constrained names."""
    schema, expected = CASES[case]
    check_schema(schema)
    assert constrained_names(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "patternProperties": {".": ENUM}},
        under(a={"not": ENUM}),
        under(a={"$ref": "#/$defs/missing"}),
        under(a={"$ref": "#/properties/b"}, b=ENUM),
    ],
)
def test_what_is_not_understood_constrains_everything(schema: dict[str, Any]):
    """A keyword or a reference that the walk does not know leaves no string that may be replaced."""
    assert constrained_names(schema) == names(every=True, nameless=True)


def test_every_accepted_keyword_is_understood():
    """What a client may write in a schema is known here, else all its answers would be constrained."""
    assert {*ANNOTATIONS, *INNER, *WHOLE, "type"}.union(*OF_TYPE.values()) <= KNOWN


def test_alternatives_are_joined():
    """`oneOf`, which no schema may have today, is walked as `anyOf` is."""
    assert constrained_names(under(a={"oneOf": [STRING, ENUM]})) == names("a")


def test_a_hostile_schema_is_walked_once():
    """Names that all refer to one wide definition cost a visit each, not one of all its alternatives."""
    wide = {"anyOf": [*[STRING] * 400, {"$ref": "#/$defs/last"}]}
    schema = {
        **under(**{f"n{number}": {"$ref": "#/$defs/wide"} for number in range(256)}),
        "$defs": {"wide": wide, "last": ENUM},
    }
    check_schema(schema)
    assert constrained_names(schema) == names(*(f"n{number}" for number in range(256)))


def fits(value: Any, schema: Any) -> bool:
    """True where a value validates, formats included."""
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    return jsonschema.Draft202012Validator(schema, format_checker=checker).is_valid(value)


class JsonValues:
    """Random values of a schema. Most fit."""

    def __init__(self, root: dict[str, Any], rng: random.Random) -> None:
        self._root, self._rng = root, rng

    def of(self, schema: Any, depth: int = 0) -> Any:
        """A value; a small one where it is deep."""
        rng, deep = self._rng, depth > 6
        if schema is True or not schema.keys() - {"$defs", "definitions"}:
            return rng.choice([rng.choice(TEXTS), {"a": "b", "k": "c"}, ["a"], 1])
        if "$ref" in schema:
            target = self._root
            for step in schema["$ref"].split("/")[1:]:
                target = target[step]
            return self.of(target, depth + 1)
        if "anyOf" in schema or "allOf" in schema:
            inner = schema.get("anyOf") or schema["allOf"]
            return self.of(inner[-1] if deep else rng.choice(inner), depth + 1)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        return self._typed(schema, deep, depth)

    def _typed(self, schema: dict[str, Any], deep: bool, depth: int) -> Any:
        rng = self._rng
        match schema["type"] if isinstance(schema["type"], str) else rng.choice(schema["type"]):
            case "string":
                return rng.choice([text for text in TEXTS if fits(text, schema)] or [""])
            case "array":
                first = [self.of(each, depth + 1) for each in schema.get("prefixItems", [])]
                more = schema.get("items", False)
                count = 0 if deep or more is False else rng.randint(0, 3)
                return first + [self.of(more, depth + 1) for _ in range(count)]
            case "object":
                properties, more = schema.get("properties", {}), schema.get("additionalProperties", False)
                found = {name: self.of(inner, depth + 1) for name, inner in properties.items()}
                others = [] if deep or more is False else rng.sample(["x", "y", "k"], 2)
                return found | {name: self.of(more, depth + 1) for name in others if name not in found}
            case _:
                numbers = [number for number in [*range(-25, 55), 0.5, True, None] if fits(number, schema)]
                return rng.choice(numbers or [0])


def replaced(units: Units) -> tuple[str, int]:
    """The answer with a placeholder for each string that may be replaced, and how many those are."""
    kept: list[str] = []
    for raw, place, before in zip(units.raws, units.places, [0, *units.places], strict=False):
        kept.append(raw if place <= 0 else "[EMAIL_1]" if place != before else "")
    return "".join(kept), len({place for place in units.places if place > 0})


def test_an_answer_with_placeholders_fits_its_schema():
    """Where an answer is valid, it is so with a placeholder for every string that the view lets go."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng, valid, placeholders = random.Random(seed), 0, 0
    schemas = [PERSON, *(schema for schema, _ in CASES.values())]
    while valid < by_form(1_500, 10_000):
        schema = rng.choice([rng.choice(schemas), random_schema(rng)])
        try:
            packed = checked_format(schema_format(schema))
        except ValueError:
            continue
        view = view_for(packed)
        assert isinstance(view, JsonView)
        value = JsonValues(schema, rng).of(schema)
        if not fits(value, schema):
            continue
        valid += 1
        text, count = replaced(view.feed(json.dumps(value, ensure_ascii=rng.random() < 0.5), final=True))
        placeholders += count
        assert fits(json.loads(text), schema), (schema, value, text)
    assert placeholders > valid / 10


@pytest.mark.parametrize(
    "shape",
    [{"type": "regex", "pattern": '"[a-z]{3}"'}, {"type": "choice", "choices": ['"abc"', "no"]}],
)
def test_an_answer_out_of_a_list_or_a_pattern_is_fixed(shape: dict[str, Any]):
    """No code point of such an answer may be replaced, also where it looks like JSON; nothing is held."""
    view = view_for(checked_format(shape))
    assert isinstance(view, FixedView)
    assert view.feed('"a') == Units('"a', ['"', "a"], [-1, -1])
    assert view.feed("\ud800\\", final=True) == Units("\ufffd\\", ["\ud800", "\\"], [-1, -1])


def test_an_object_without_a_schema_has_no_constrained_name():
    """Any string but a name may be replaced in it."""
    view = view_for(checked_format({"type": "json_object"}))
    assert isinstance(view, JsonView)
    assert view.feed('{"a":"b"', final=True).places == [0, 0, -1, 0, 0, 0, 2, 0]


def test_a_schema_is_looked_up_by_name():
    """An answer's view knows what its schema constrains."""
    view = view_for(checked_format(schema_format(under(a=ENUM, b=STRING))))
    assert isinstance(view, JsonView)
    assert replaced(view.feed('{"a":"a","b":"c"}', final=True)) == ('{"a":"a","b":"[EMAIL_1]"}', 1)


@pytest.mark.parametrize("response_format", [None, checked_format({"type": "text"})])
def test_plain_text_has_no_view(response_format: str | None):
    """The filter looks at such an answer as it is."""
    assert view_for(response_format) is None
