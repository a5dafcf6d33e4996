"""Walks through what a shape allows."""

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
