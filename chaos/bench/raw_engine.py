"""The baseline: AsyncLLM alone in a process, no network, no text. JSON lines: commands in, samples out.

Run by `python -m chaos bench stream` and others; needs the engine packages (`requirements/cpu.txt`).
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from chaos.bench import crowd, load
from chaos.figures.samples import Sample
from server.api import PromptRenderer


class RawEngine:
    """AsyncLLM as a library user would run it: token ids in, token ids out, no detokenizing."""

    def __init__(self, folder: Path, arguments: dict[str, object]) -> None:
        self._renderer = PromptRenderer.load(folder)
        self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(model=str(folder), **arguments))  # pyright: ignore
        self._serial = 0

    async def ask(self, prompt: str, max_tokens: int) -> AsyncIterator[int]:
        """One answer of exactly `max_tokens` tokens; yields tokens per arrival."""
        self._serial += 1
        ids = self._renderer.render([{"role": "user", "content": prompt}])
        sampling = SamplingParams(
            max_tokens=max_tokens,
            min_tokens=max_tokens,
            temperature=1.0,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        async for output in self._engine.generate({"prompt_token_ids": ids}, sampling, f"r{self._serial}"):
            yield len(output.outputs[0].token_ids)

    def stop(self) -> None:
        """End the engine's processes."""
        self._engine.shutdown()


async def obey(engine: RawEngine, command: str, **what: Any) -> list[Sample]:
    """`load`: a round of it (load.run); `probed` and `beside_prefill`: as in beside.py."""
    match command:
        case "probed":
            return await crowd.probed(engine.ask, engine.ask, crowd.CrowdSetting(**what))
        case "beside_prefill":
            return list(await crowd.beside_prefill(engine.ask, **what))
        case _:
            return await load.run(engine.ask, **what)


async def serve(folder: Path, arguments: dict[str, object]) -> None:
    """Answer each line {command, its arguments} with one line of samples."""
    engine = RawEngine(folder, arguments)
    print(json.dumps("ready"), flush=True)
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            samples = await obey(engine, **json.loads(line))
            print(json.dumps([astuple(sample) for sample in samples]), flush=True)
    finally:
        engine.stop()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), json.loads(sys.argv[2])))
