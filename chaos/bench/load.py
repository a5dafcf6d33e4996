"""A closed-loop load: `concurrency` callers, each sending its next prompt when its answer has ended."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from chaos.figures.samples import Sample

Ask = Callable[[str, int], AsyncIterator[int]]
"""Streams one answer to (prompt, max_tokens); yields the number of tokens of each arrival."""

TOPICS = ("rivers", "bread", "clocks", "bridges", "maps", "tides", "violins", "paper", "glass", "orchards")


def prompt(number: int) -> str:
    """The prompt of the number-th request: about 30 tokens, no two alike in their first words."""
    topic = TOPICS[number % len(TOPICS)]
    return (
        f"{number}. Write a long, detailed text about the history of {topic}, with names, dates and places."
    )


async def run(ask: Ask, concurrency: int, requests: int, max_tokens: int, first: int = 0) -> list[Sample]:
    """Run `requests` requests; an answer of other than `max_tokens` tokens is a RuntimeError."""
    samples: list[Sample] = []
    numbers = iter(range(first, first + requests))

    async def caller() -> None:
        for number in numbers:
            started = time.perf_counter()
            arrivals = [
                (time.perf_counter(), count) async for count in ask(prompt(number), max_tokens) if count
            ]
            sample = Sample(started, tuple(arrivals))
            if sample.tokens != max_tokens:
                raise RuntimeError(f"request {number} got {sample.tokens} tokens instead of {max_tokens}")
            samples.append(sample)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(caller())
    return samples
