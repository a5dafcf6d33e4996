"""Tokens by a worker's engine and by the worker itself, by the hour, for reconciliation.

The engine's counters and the worker's are kept apart, as reconciliation has to show that they agree.
"""

from collections.abc import Collection, Sequence

import msgspec

from billing.usage import EngineCounts, engine_hours
from core.redis.client import RedisClient
from engine.backends.base import EngineCounters, Generation, StepOutput

HOUR_MS = 3_600_000
UNSEEN_TOKENS_MAX = 64  # of one aborted generation: tokens that several steps may have made meanwhile


class EngineTokenCounts:
    """Counts of one worker. What its engine had counted before belongs to its self-test."""

    def __init__(self, before: EngineCounters) -> None:
        tested = {"prompt_test": before.prompt, "output_test": before.output}
        self._counts = EngineCounts(engine_prompt=before.prompt, engine_output=before.output, **tested)
        self._prompts: dict[str, tuple[int, bool]] = {}
        self._seen = 0
        self._hour_ms = 0
        self._at_hour = EngineCounts()
        self._last = EngineCounts()

    def submitted(self, generation: Generation) -> None:
        """Note a generation that the engine has; its prompt counts with its first token."""
        self._prompts[generation.id] = (len(generation.prompt), generation.tail_tokens > 0)

    def aborted(self, ids: Collection[str]) -> None:
        """Note aborted generations: the engine counts tokens of them that it never hands over."""
        for id in ids:
            tokens, _ = self._prompts.pop(id, (0, False))
            self._counts.prompt_unseen_max += tokens
            self._counts.output_unseen_max += UNSEEN_TOKENS_MAX

    def stepped(self, batch: Sequence[StepOutput], engine: EngineCounters) -> None:
        """Count a step's output; `engine`: the engine's own counters at this moment."""
        self._counts.engine_prompt, self._counts.engine_output = engine.prompt, engine.output
        for output in batch:
            self._seen += len(output.tokens)
            if output.tokens and output.id in self._prompts:
                tokens, again = self._prompts.pop(output.id)
                if again:
                    self._counts.prompt_again += tokens
                else:
                    self._counts.prompt_new += tokens

    def took(self, tokens: int) -> None:
        """Count ids that were logged; negative where a log had lost its end."""
        self._counts.output_taken += tokens

    def hours(self, now_ms: int) -> dict[int, EngineCounts]:
        """Counts of this hour, and of the one before where it has just ended, by Unix ms of the hour's
        beginning. Tokens on their way into a log count as dropped until they are there."""
        self._counts.output_dropped = self._seen - self._counts.output_taken
        hour = now_ms - now_ms % HOUR_MS
        found: dict[int, EngineCounts] = {}
        if hour != self._hour_ms:
            if self._hour_ms:
                found[self._hour_ms] = _less(self._last, self._at_hour)
                self._at_hour = self._last
            self._hour_ms = hour
        self._last = msgspec.structs.replace(self._counts)
        found[hour] = _less(self._last, self._at_hour)
        return found


async def publish(redis: RedisClient, pool: str, worker: str, hours: dict[int, EngineCounts]) -> None:
    """Send the counts to the biller; repeating it changes nothing."""
    fields = {f"{worker}:{hour}": msgspec.msgpack.encode(counts) for hour, counts in hours.items()}
    await redis.hset(engine_hours(pool), mapping=fields)


def _less(counts: EngineCounts, before: EngineCounts) -> EngineCounts:
    names = counts.__struct_fields__
    return EngineCounts(**{name: getattr(counts, name) - getattr(before, name) for name in names})
