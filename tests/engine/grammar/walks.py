"""Random schemas, and walks through what a shape allows."""

import json
import random
from collections.abc import Callable, Collection
from typing import Any

import numpy

Replay = Callable[[Any, bytes], None]

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "role": {"enum": ["admin", "user", None]},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{1,8}$"}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def schema_format(schema: Any, **more: Any) -> dict[str, Any]:
    """A response_format as OpenAI's clients write it."""
    return {"type": "json_schema", "json_schema": {"name": "it", "schema": schema, **more}}


def random_schema(rng: random.Random, depth: int = 3) -> Any:
    """Of what people write, in any combination, contradictions among it."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum"]
    kind = rng.choice(kinds + ["object", "array", "anyOf", "types"] * (depth > 0))

    def some(**keywords: Any) -> dict[str, Any]:
        return {name: value for name, value in keywords.items() if rng.random() < 0.4}

    def inner() -> Any:
        return random_schema(rng, depth - 1)

    low = rng.randint(-20, 20)
    numbers = some(minimum=low, maximum=low + rng.randint(0, 30), exclusiveMinimum=low - 1)
    texts = some(
        maxLength=rng.randint(0, 6),
        minLength=rng.randint(0, 3),
        pattern=rng.choice(["^.{1,3}$", "^[^a]+$", r"^[ -~]\W", "^(a|bc){2}$", r"^\s\S\w$"]),
        format=rng.choice(["date", "uuid", "ipv6", "hostname", "date-time"]),
    )
    match kind:
        case "enum":
            return {"enum": rng.sample([1, -2.5, 'a"b\\', None, True, {"k": [1, "ü"]}, [], "\n"], 3)}
        case "string":
            return {"type": kind, **texts}
        case "integer" | "number":
            return {"type": kind, **numbers}
        case "object":
            names = rng.sample(["a", "b", "", 'q"\\', "ü\n"], rng.randint(0, 3))
            more = rng.choice([True, False, inner()])
            bounds = some(minProperties=rng.randint(0, 2), maxProperties=rng.randint(1, 4))
            return {
                "type": kind,
                "properties": {name: inner() for name in names},
                **some(required=names[: rng.randint(0, 3)], additionalProperties=more),
                **bounds,
            }
        case "array":
            bounds = some(minItems=rng.randint(0, 2), maxItems=rng.randint(1, 3))
            items = rng.choice([True, False, inner()])
            return {"type": kind, **some(items=items, prefixItems=[inner(), inner()]), **bounds}
        case "anyOf":
            return {"anyOf": [inner(), inner()]}
        case "types":
            return {"type": ["string", "integer"], **some(maxLength=3, minimum=5)}
        case _:
            return {"type": kind}


class Walk:
    """Random answers within a grammar, by the compiler that the workers have, over single bytes."""

    def __init__(self) -> None:
        import xgrammar

        self._library: Any = xgrammar
        vocabulary = [bytes([byte]) for byte in range(256)] + [b"</s>"]
        info = xgrammar.TokenizerInfo(
            vocabulary, vocab_type=xgrammar.VocabType.RAW, vocab_size=257, stop_token_ids=[256]
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1)

    def answer(
        self, schema: Any, rng: random.Random, cuts: Collection[int] = (), replay: Replay | None = None
    ) -> bytes | None:
        """None: not complete after 400 bytes. Control characters are left out, as the workers do. `cuts`:
        after how many bytes another matcher goes on, which `replay` brings to where the answer is."""
        compiled = self._compiler.compile_json_schema(
            json.dumps(schema), any_whitespace=False, separators=(",", ":")
        )
        matcher = self._library.GrammarMatcher(compiled)
        mask = self._library.allocate_token_bitmask(1, 257)
        answer = b""
        while len(answer) < 400:
            if len(answer) in cuts and replay is not None:
                matcher = self._library.GrammarMatcher(compiled)
                replay(matcher, answer)
            matcher.fill_next_token_bitmask(mask)
            bits = numpy.unpackbits(mask[0].numpy().view(numpy.uint8), bitorder="little")
            found: list[int] = numpy.nonzero(bits[:257])[0].tolist()
            ascii_only = [id for id in found if 31 < id < 127 or id == 256]
            may = ascii_only or [id for id in found if id > 127]
            assert may, f"nothing may follow {answer!r}"
            closing = [id for id in may if id == 256 or chr(id) in '"}],0123']
            id = rng.choice(closing if closing and rng.random() < 0.5 else may)
            assert matcher.accept_token(id)
            if id == 256:
                return answer
            answer += bytes([id])
        return None
