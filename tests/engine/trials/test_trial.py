"""Shapes tried with the workers' own compiler and a model's vocabulary, in processes that may be killed."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from engine.api import checked_format
from engine.trials.host_process import TrialRunner
from tests.engine.real_patterns import REAL_PATTERNS
from tests.support import leaks
from tests.support.home import short_folder
from tests.support.patience import LONG_TEST_SECONDS

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(LONG_TEST_SECONDS),
]

TOO_LARGE = "(.?)" * 60
BAD_PATTERNS = {
    "((((.+)+.?)+.?)+.?)+": "pattern: ambiguous: the repetition that ends at character 8",
    "(.{0,40}a.{0,40}){0,4}": "ms of CPU a token here",
    TOO_LARGE: "pattern: too large: not tried within 2 s of CPU",
}
# What is ambiguous or costly in a schema is named by its place.
LONG = {f"p{at}": {"type": "string", "maxLength": 10_000 - at} for at in range(3)}
BAD_SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "ambiguous": (
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(x+)*$"}}},
        "schema, at #/properties/a: pattern: ambiguous: the repetition that ends at character 6",
    ),
    "in a list of definitions": (
        {"$defs": {"a": {"anyOf": [{"type": "string", "pattern": "(.{0,9}){20}"}]}}, "$ref": "#/$defs/a"},
        "schema, at #/$defs/a/anyOf/0: pattern: ambiguous",
    ),
    "too large": ({"type": "object", "properties": LONG}, "schema: too large"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def trier(request: pytest.FixtureRequest, model_folder: Path) -> AsyncGenerator[TrialRunner]:
    """One host for all tests; where a test makes it give up, the next one has another."""
    with request.config.stash[leaks.LEAKS].shared(), short_folder("trials") as home:
        found = TrialRunner(model_folder, home / "trials.log")
        yield found
        await found.close()


def packed(raw: dict[str, Any]) -> str:
    """As a gateway packs what a client asks for."""
    shape = checked_format(raw)
    assert shape is not None
    return shape


def of_schema(schema: Any) -> str:
    """A schema's shape."""
    return packed({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})


@pytest.mark.parametrize(("pattern", "words"), BAD_PATTERNS.items())
async def test_a_pattern_that_would_stall_the_engine_is_refused(trier: TrialRunner, pattern: str, words: str):
    """Ambiguous, too slow, or not to be finished at all."""
    found = await trier.problem(packed({"type": "regex", "pattern": pattern}))
    assert found is not None
    assert words in found


@pytest.mark.parametrize(("schema", "words"), BAD_SCHEMAS.values(), ids=BAD_SCHEMAS.keys())
async def test_in_a_schema_the_place_is_named(trier: TrialRunner, schema: Any, words: str):
    """Which of its patterns, and where in it."""
    found = await trier.problem(of_schema(schema))
    assert found is not None
    assert words in found


async def test_patterns_from_real_life_pass_while_others_are_refused(trier: TrialRunner):
    """A few here, all of them in `chaos bench masks`. The bad one beside them holds nothing up."""
    bad = asyncio.create_task(trier.problem(packed({"type": "regex", "pattern": TOO_LARGE})))
    for name, pattern, _ in REAL_PATTERNS[::9]:
        assert await trier.problem(packed({"type": "regex", "pattern": pattern})) == "", name
    person = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 40}, "next": {}}}
    for good in (of_schema(person), packed({"type": "choice", "choices": ['"a"\\', "b"]})):
        assert await trier.problem(good) == ""
    assert await bad
