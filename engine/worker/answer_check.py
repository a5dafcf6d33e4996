"""Answers with a version of a model by a real engine: `python -m engine.worker.answer_check`.

A process of its own, which reads the version as workers do (PARLEY_MODEL_RECORD) and serves nobody. It tests
the engine as a worker does before its first claim. Its last line of output is what was seen, or why not.
"""

import asyncio
import os
import sys

from core.configuration.settings import Settings
from engine.backends.base import Engine
from engine.backends.environment import restarted_with
from engine.models.known import RECORD, record_of
from engine.models.registry import ModelRecord
from engine.models.unchanged import check_runnable
from engine.models.vocabulary import load_tokenizer, stop_ids
from engine.worker import self_test

STEP_TOKENS = 256
SLOTS = 4


async def answer(settings: Settings, record: ModelRecord) -> str:
    """Load a version and answer with it; says how. Raises StartupError where it is not sound."""
    tokenizer = load_tokenizer(record.folder)
    stop_ids(record.folder, tokenizer)
    text = tokenizer.encode(self_test.TEXT, add_special_tokens=False).ids or [0]
    engine = _engine(settings, record)
    try:
        await engine.start()
        await self_test.warm_up(engine, text, STEP_TOKENS)
        await self_test.check(engine, text, tokenizer.get_vocab_size())
        return f"{self_test.ANSWER_TOKENS} tokens, twice the same"
    finally:
        await engine.stop()


def _engine(settings: Settings, record: ModelRecord) -> Engine:
    from engine.backends.vllm import VllmEngine  # imports torch

    few = {"worker_slots": SLOTS, "worker_batched_tokens": STEP_TOKENS}
    return VllmEngine(settings.model_copy(update=few), record.folder, record.max_model_len)


def main() -> None:
    """Check the version that the environment names."""
    settings = Settings()
    restarted_with(settings)
    record = record_of(os.environ.get(RECORD, ""))
    try:
        check_runnable(record, settings)
        told, code = asyncio.run(answer(settings, record)), 0
    except Exception as error:  # noqa: BLE001  (one line for the operator, whatever the engine raised)
        told, code = " ".join(str(error).split()) or type(error).__name__, 1
    print(told, flush=True)
    os._exit(code)  # an engine that hangs would not shut down in order


if __name__ == "__main__":
    sys.exit(main())
