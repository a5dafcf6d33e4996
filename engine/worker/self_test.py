"""An engine's test before its worker claims anything: warms up, and gives a sound answer twice.

A device or a build that computes nonsense would otherwise be noticed by the people who read it.
"""

import asyncio
import math
from collections.abc import Sequence
from contextlib import aclosing

from core.errors import StartupError
from engine.backends.base import Engine, EngineDeadError, Finish, Generation, GenerationRefusedError

SECONDS_MAX = 300.0
WARM_UP_TOKENS = 2
WARM_UP_SEQUENCES = 3
ANSWER_TOKENS = 8
FULL_SHARE = 0.9  # of a step's tokens, from which it counts as full
TEXT = "Answer in one sentence: why does the moon show us one side only? "


async def warm_up(engine: Engine, text: Sequence[int], prefill_tokens: int) -> None:
    """Run a whole prefill step of `prefill_tokens`, then several sequences at once: the first steps of each
    shape load code and touch memory, and no request should wait for that. `text` is any non-empty prompt."""
    room = max(1, min(prefill_tokens, engine.max_model_len - WARM_UP_TOKENS))
    await _answers(engine, [_generation("warm-up", _filled(text, room), WARM_UP_TOKENS)])
    some = [_filled(text, min(len(text) + at, room)) for at in range(WARM_UP_SEQUENCES)]
    await _answers(
        engine, [_generation(f"warm-up-{at}", each, WARM_UP_TOKENS) for at, each in enumerate(some)]
    )
    engine.measured()  # forget these steps: they are slower than later ones


async def full_step(engine: Engine, text: Sequence[int], tokens: int) -> float | None:
    """Seconds of a step that computes `tokens` prompt tokens and nothing else; None where there was none.

    A prompt gets half of a step at most, and the first may be begun alone: hence four halves.
    """
    half = max(1, min(tokens // 2, engine.max_model_len - 1))
    await _answers(engine, [_generation(f"full-step-{at}", _filled(text, half), 1) for at in range(4)])
    took = [step.seconds for step in engine.measured() if step.prefill_tokens >= FULL_SHARE * tokens]
    return min(took, default=None)


async def check(engine: Engine, text: Sequence[int], vocabulary: int) -> None:
    """Answer `text` greedily, twice side by side, neither from the other's cache. Raises StartupError for
    log-probabilities that are no numbers, ids outside the vocabulary, or different answers."""
    prompt = list(text)[-max(1, engine.max_model_len - ANSWER_TOKENS) :]
    one, other, again, once_more = [_generation(f"self-test-{at}", prompt, ANSWER_TOKENS) for at in range(4)]
    first, second = await _answers(engine, [one, other])
    if first[0] != second[0]:  # rows of one batch may round differently; one after the other they may not
        first, second = [(await _answers(engine, [each]))[0] for each in (again, once_more)]
    for tokens, logprobs in (first, second):
        if not tokens or not all(0 <= token < vocabulary for token in tokens):
            raise StartupError("self-test failed: the engine answers with ids that are no tokens")
        if len(logprobs) != len(tokens) or not all(math.isfinite(each) for each in logprobs):
            raise StartupError("self-test failed: the engine's probabilities are not numbers")
    if first[0] != second[0]:
        raise StartupError("self-test failed: the engine gives different answers to the same greedy prompt")


def _generation(id: str, prompt: list[int], tokens: int) -> Generation:
    """A greedy generation of a fixed length. Its own salt: nothing comes from another one's cache."""
    return Generation(
        id=id,
        prompt=prompt,
        max_tokens=tokens,
        min_tokens=tokens,
        stop_ids=(),
        temperature=0.0,
        salt=id,
        checked=True,
    )


def _filled(text: Sequence[int], length: int) -> list[int]:
    return [text[at % len(text)] for at in range(length)]


async def _answers(engine: Engine, generations: Sequence[Generation]) -> list[tuple[list[int], list[float]]]:
    """Token ids and their log-probabilities of each, by the same calls that a worker makes."""
    tokens: dict[str, list[int]] = {each.id: [] for each in generations}
    logprobs: dict[str, list[float]] = {each.id: [] for each in generations}
    waiting = set(tokens)
    try:
        async with asyncio.timeout(SECONDS_MAX), aclosing(engine.steps()) as steps:
            for each in generations:
                await engine.submit(each)
            async for batch in steps:
                for output in batch:
                    tokens[output.id] += output.tokens
                    logprobs[output.id] += output.logprobs
                    if output.finish is Finish.ERROR:
                        raise StartupError("self-test failed: the engine refused to go on")
                    if output.finish:
                        waiting.discard(output.id)
                if not waiting:
                    break
    except TimeoutError as error:
        raise StartupError(f"self-test failed: the engine has not answered in {SECONDS_MAX:.0f} s") from error
    except (EngineDeadError, GenerationRefusedError) as error:
        raise StartupError(f"self-test failed: {error}") from error
    return [(tokens[each.id], logprobs[each.id]) for each in generations]
