"""Shapes as people, and people who mean harm, may ask for: generated from a seed. Pure."""

import random
from typing import Any

ATOMS = (
    *("a", "b", ".", r"\d", r"\w", r"\s", r"\W", "[a-z]", "[^,]", "[A-Za-z0-9_-]", "[^a-m]", "é", "[α-ω]"),
    *(", ", "-", "x", "ab", "id: ", "0"),
)
TIMES = ("", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,9}", "{2,}", "{1,20}", "{0,60}", "+?")
IN_JSON = [atom for atom in ATOMS if atom != r"\s"]
FORMATS = ("date", "uuid", "ipv6", "hostname", "date-time", "email", "uri", "duration")
NAMES = ("id", "name", "next", "items", "value", "a b", "ü", "kind", "note", "x")


def generated_format(rng: random.Random) -> dict[str, Any]:
    """A `response_format` as a client would write it."""
    if rng.random() < 0.6:
        return {"type": "regex", "pattern": pattern(rng, 3)}
    if rng.random() < 0.1:
        return {
            "type": "choice",
            "choices": [f"{pattern(rng, 1)} {at}" for at in range(rng.choice((3, 500)))],
        }
    schema = _schema(rng, 3)
    if rng.random() < 0.3:
        schema = {"anyOf": [schema, {"type": "array", "items": {"$ref": "#"}}]}
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


def pattern(rng: random.Random, depth: int, atoms: Any = ATOMS) -> str:
    """A pattern of groups in groups."""
    if not depth or rng.random() < 0.25:
        return rng.choice(atoms) + rng.choice(TIMES[:6])
    inner = [pattern(rng, depth - 1, atoms) for _ in range(rng.randint(1, 3))]
    return f"({rng.choice(('', '', '|')).join(inner)}){rng.choice(TIMES)}"


def _schema(rng: random.Random, depth: int) -> dict[str, Any]:
    kind = rng.choice(("string", "integer", "number", "enum", *("object", "array", "anyOf") * bool(depth)))
    low = rng.randint(-1000, 1000)
    match kind:
        case "string":
            return {"type": "string", **_string(rng)}
        case "integer" | "number":
            return {
                "type": kind,
                **rng.choice(({}, {"minimum": low, "maximum": low + rng.randint(0, 10**6)})),
            }
        case "enum":
            return {"enum": [f"{rng.choice(NAMES)} {at}" for at in range(rng.choice((2, 10, 80)))]}
        case "array":
            most = rng.choice(({}, {"maxItems": rng.choice((3, 40, 400))}))
            return {"type": "array", "items": _schema(rng, depth - 1), **most}
        case "object":
            names = rng.sample(NAMES, rng.randint(1, 6))
            more = rng.choice(({}, {"additionalProperties": True}))
            properties = {name: _schema(rng, depth - 1) for name in names}
            return {"type": "object", "properties": properties, "required": names[:2], **more}
        case _:
            return {"anyOf": [_schema(rng, depth - 1) for _ in range(rng.randint(2, 6))]}


def _string(rng: random.Random) -> dict[str, Any]:
    return rng.choice(
        (
            {},
            {"maxLength": rng.choice((5, 50, 300, 2000))},
            {"format": rng.choice(FORMATS)},
            {"pattern": pattern(rng, 2, IN_JSON)},
        )
    )
