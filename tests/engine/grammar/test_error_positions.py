"""Refusals of patterns and schemas say where: at which character, in which part of the schema."""

from typing import Any

import pytest

from engine.grammar.json_schema import check_schema, patterns_in
from engine.grammar.regex import check_pattern

TEXT = {"type": "string"}
WRONG = {"type": "text"}


@pytest.mark.parametrize(
    ("pattern", "character"),
    [
        ("ab)c", 3),
        ("ab[c[d]", 5),
        ("ab^c", 3),
        ("a|*c", 3),
        ("ab\\qc", 4),
        ("a\nb", 2),
        ("ab{1,129}c", 9),
        ("ab{5,2}c", 7),
        ("a(?=b)", 3),
        ("ab(c", 4),
        ("ab[c", 4),
        ("ab[]c", 4),
    ],
)
def test_a_pattern_is_refused_at_its_character(pattern: str, character: int):
    """The first is 1; what is not closed is missed at the last."""
    with pytest.raises(ValueError, match=rf"at character {character}$"):
        check_pattern(pattern)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


PLACES = {
    "#": WRONG,
    "#/properties/b": _object(a=TEXT, b=WRONG),
    "#/properties/a/properties/b": _object(a=_object(b=WRONG)),
    f"#/properties/{'x' * 32}": _object(**{"x" * 40: WRONG}),
    "#/items": {"type": "array", "items": WRONG},
    "#/prefixItems/1": {"type": "array", "prefixItems": [TEXT, WRONG], "items": TEXT},
    "#/additionalProperties": {"type": "object", "additionalProperties": WRONG},
    "#/anyOf/1": {"anyOf": [TEXT, WRONG]},
    "#/anyOf/0/items": {"anyOf": [{"type": "array", "items": WRONG}, TEXT]},
    "#/$defs/a": {"$ref": "#/$defs/a", "$defs": {"a": WRONG}},
}


@pytest.mark.parametrize(("place", "schema"), PLACES.items(), ids=PLACES)
def test_a_schema_is_refused_at_its_part(place: str, schema: dict[str, Any]):
    """As a JSON pointer, of which long names are cut."""
    with pytest.raises(ValueError, match=r"type: expected one of") as wrong:
        check_schema(schema)
    assert str(wrong.value).startswith(f"schema, at {place}: ")


def test_each_pattern_of_a_schema_has_its_place():
    """Equal ones are tried once."""

    def text(pattern: str) -> dict[str, str]:
        return {"type": "string", "pattern": pattern}

    schema = {
        **_object(a=text("a"), b={"type": "array", "items": text("b"), "prefixItems": [text("c")]}),
        "additionalProperties": text("d"),
        "$defs": {"e": {"anyOf": [TEXT, text("e")]}, "again": text("e")},
    }
    found = {pattern: place for place, pattern in patterns_in(schema)}
    assert found.pop("e") in ("#/$defs/e/anyOf/1", "#/$defs/again")
    assert found == {
        "a": "#/properties/a",
        "b": "#/properties/b/items",
        "c": "#/properties/b/prefixItems/0",
        "d": "#/additionalProperties",
    }
