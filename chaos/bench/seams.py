"""`python -m chaos bench seams`: answers that are continued at random tokens, against uninterrupted ones.

Greedy or seeded, in float32, on the engine that a worker runs, by the way that a worker takes from log to
engine (engine/worker/interrupted.py). An answer is equal where every token, the text and the reason are.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from chaos.bench.prompts import PROMPTS
from chaos.figures.figures import Figure, json_option, progress, show
from core.configuration.settings import Settings
from engine.api import (
    InterruptedAnswer,
    InterruptedEngine,
    InterruptedPrompt,
    Sampling,
    checked_format,
    prepare_model,
    restarted_with_engine_environment,
)
from server.api import PromptRenderer

MODEL_LEN = 2048
STEP_TOKENS = 256
LOGPROB_MOST = 1e-3
MILLIONTH = 1e-6
CUTS_MOST = 3
SCHEMAS: tuple[dict[str, Any], ...] = (
    {
        "type": "object",
        "properties": {
            "title": {"type": "string", "maxLength": 24},
            "rating": {"type": "integer", "minimum": 1, "maximum": 5},
            "tags": {"type": "array", "items": {"enum": ["old", "new", "blue"]}, "maxItems": 3},
        },
        "required": ["title", "rating", "tags"],
    },
    {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 12}, "sure": {"type": "boolean"}},
            "required": ["name", "sure"],
        },
        "minItems": 2,
        "maxItems": 2,
    },
    {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "value": {"type": ["integer", "null"], "minimum": 0, "maximum": 99},
                    "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/leaf"}]},
                },
                "required": ["value", "next"],
            },
            "leaf": {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}},
        },
    },
)
SHAPES: tuple[dict[str, Any], ...] = (
    *({"type": "json_schema", "json_schema": {"name": "it", "schema": schema}} for schema in SCHEMAS),
    {"type": "regex", "pattern": "^(yes|no), because [a-z ]{10,40}[.]$"},
    {"type": "choice", "choices": ["absolutely not", "absolutely", "absolutely yes"]},
)
HAN = {"type": "regex", "pattern": "^[\u4e00-\u9fff\U0001f300-\U0001f5ff]{12}$"}


@dataclass
class SeamCase:
    """One kind of answers. `sampling` is that of the n-th prompt; `spans`: cuts are inside a stop string;
    `splits`: cuts are inside a character."""

    name: str
    sampling: Callable[[int], Sampling]
    checked: bool = False
    spans: bool = False
    splits: bool = False


def rows(tokens: int) -> list[SeamCase]:
    """All of them, with answers of so many tokens at most."""

    def greedy(**options: Any) -> Callable[[int], Sampling]:
        return lambda _: Sampling(max_tokens=tokens, temperature=0.0, **options)

    def shaped(number: int) -> Sampling:
        shape = SHAPES[number % len(SHAPES)]
        return Sampling(max_tokens=96, temperature=0.0, response_format=checked_format(shape))

    return [
        SeamCase("greedy", greedy()),
        SeamCase(
            "seeded", lambda number: Sampling(max_tokens=tokens, temperature=1.0, top_p=0.95, seed=number)
        ),
        SeamCase("penalties", greedy(presence_penalty=0.7, frequency_penalty=0.9, repetition_penalty=1.1)),
        SeamCase("logprobs", greedy(), checked=True),
        SeamCase("min_tokens = max_tokens", greedy(min_tokens=tokens)),
        SeamCase("stop strings across the seam", greedy(), spans=True),
        SeamCase("response_format", shaped),
        SeamCase(
            "UTF-8 split at the seam",
            lambda _: Sampling(max_tokens=96, temperature=0.0, response_format=checked_format(HAN)),
            splits=True,
        ),
    ]


@dataclass
class Result:
    """What a row found. `different`: the prompts whose continued answer is another one."""

    row: SeamCase
    compared: int
    cuts: int
    different: list[int]
    logprob_apart: float


@click.command()
@click.option("--prompts", default=len(PROMPTS), show_default=True, type=click.IntRange(1, len(PROMPTS)))
@click.option("--tokens", default=32, show_default=True, help="The most tokens of an answer.")
@click.option("--only", help="One kind of answers: a part of its name, such as greedy.")
@click.option("--seed", default=1, show_default=True, help="Of the cuts.")
@click.option("--model", default="smollm2", show_default=True, help="Name, folder or hub id.")
@json_option
def seams(prompts: int, tokens: int, only: str | None, seed: int, model: str, as_json: bool) -> None:
    """Whether a seam shows: answers continued 1 to 3 times against uninterrupted ones (goal: all equal).

    Runs vLLM in this process, in float32 and with the settings of a worker. Exit code 1 where one differs.
    """
    settings = Settings(
        worker_dtype="float32", worker_max_model_len=MODEL_LEN, worker_batched_tokens=STEP_TOKENS
    )
    restarted_with_engine_environment(settings)
    chosen = [row for row in rows(tokens) if only is None or only in row.name]
    results = asyncio.run(_run(settings, model, chosen, prompts, seed))
    facts = {
        "seed": seed,
        "rows": [
            {"name": each.row.name, "compared": each.compared, "cuts": each.cuts, "different": each.different}
            for each in results
        ],
    }
    show("seams", [figure for result in results for figure in _figures(result)], as_json, facts)
    raise SystemExit(any(result.different for result in results))


def _figures(result: Result) -> list[Figure]:
    equal = result.compared - len(result.different)
    name = f"{result.row.name}: equal of {result.compared}, {result.cuts} seams"
    found = [Figure(name, equal, "", least=result.compared)]
    if result.row.checked:
        apart, most = result.logprob_apart / MILLIONTH, LOGPROB_MOST / MILLIONTH
        found.append(Figure("logprobs: largest difference", apart, "millionths", most=most))
    return found


async def _run(
    settings: Settings, model: str, chosen: Sequence[SeamCase], prompts: int, seed: int
) -> list[Result]:
    folder = await prepare_model(model, settings.home, progress)
    async with _engine(settings, folder) as engine:
        renderer = PromptRenderer.load(folder)
        rendered = [renderer.render([{"role": "user", "content": each}]) for each in PROMPTS[:prompts]]
        compared = [_compare(engine, row, rendered, random.Random(f"{seed} {row.name}")) for row in chosen]
        return list(await asyncio.gather(*compared))


@asynccontextmanager
async def _engine(settings: Settings, folder: Path) -> AsyncGenerator[InterruptedEngine]:
    engine = await InterruptedEngine.start(settings, folder, MODEL_LEN)
    try:
        yield engine
    finally:
        await engine.stop()


async def _compare(
    engine: InterruptedEngine, row: SeamCase, prompts: Sequence[list[int]], rng: random.Random
) -> Result:
    """Whole answers first, then the same with cuts inside them."""
    whole = [
        InterruptedPrompt(prompt, row.sampling(at), (), row.checked) for at, prompt in enumerate(prompts)
    ]
    answers = await engine.answers(whole)
    if row.spans:
        whole = [_with_stop(engine, *each, rng) for each in zip(whole, answers, strict=True)]
        answers = await engine.answers(whole)
    cut = [
        msgspec.structs.replace(ask, cuts=_cuts(engine, row, ask, answer, rng))
        for ask, answer in zip(whole, answers, strict=True)
    ]
    again = await engine.answers(cut)
    progress(f"{row.name}: {len(again)} answers")
    pairs = list(zip(answers, again, strict=True))
    apart = [
        abs(one - other)
        for first, second in pairs
        if first.ids == second.ids
        for one, other in zip(first.logprobs, second.logprobs, strict=True)
    ]
    return Result(
        row,
        len(pairs),
        sum(len(ask.cuts) for ask in cut),
        [at for at, (first, second) in enumerate(pairs) if not _same(first, second)],
        max(apart, default=0.0),
    )


def _same(first: InterruptedAnswer, second: InterruptedAnswer) -> bool:
    proper = first.reason in ("stop", "length")
    return proper and (first.ids, first.text, first.reason) == (second.ids, second.text, second.reason)


def _with_stop(
    engine: InterruptedEngine, ask: InterruptedPrompt, answer: InterruptedAnswer, rng: random.Random
) -> InterruptedPrompt:
    """The same with a stop string: the text of three tokens in a row in the answer."""
    at = rng.randrange(2, max(3, len(answer.ids) - 4))
    text = engine.tokenizer.decode(answer.ids[at : at + 3]).strip("\N{REPLACEMENT CHARACTER}") or "."
    return msgspec.structs.replace(ask, sampling=msgspec.structs.replace(ask.sampling, stop=(text[:64],)))


def _cuts(
    engine: InterruptedEngine,
    row: SeamCase,
    ask: InterruptedPrompt,
    answer: InterruptedAnswer,
    rng: random.Random,
) -> tuple[int, ...]:
    """Any tokens, the last one among them; where the row says so, inside a stop string or a character."""
    length = len(answer.ids)
    places = list(range(1, length + 1))
    if row.spans:
        places = [at for at in places if at >= length - 3]
    if row.splits:
        texts = {at: engine.tokenizer.decode(answer.ids[:at]) for at in places}
        places = [at for at, text in texts.items() if text.endswith("\N{REPLACEMENT CHARACTER}")] or places
    return tuple(sorted(rng.sample(places, min(len(places), rng.randint(1, CUTS_MOST)))))
