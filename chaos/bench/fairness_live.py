"""How evenly a real installation serves tenants by weight: gateway, worker and engine, all with a backlog.

Counted at the tenants' own sockets: prompt tokens of what began, and output tokens as they come.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.bench import load
from chaos.bench.engine_testbed import BenchEngine, BenchInstallation, bench_installation
from chaos.bench.load import Ask
from chaos.figures.figures import progress
from core.tasks import cancel_tasks
from engine.api import TenantTerms

PROMPT_TOKENS = 40  # about what load.prompt renders to
OUTPUT_WEIGHT = 2
ANSWER_TOKENS = 32
BACKLOG = 32
SETTLE_SECONDS = 5.0


@dataclass
class LoadedTenant:
    """Keeps a backlog, and counts what it is served."""

    weight: float
    ask: Ask
    service: float = 0.0
    number: int = 0

    async def caller(self) -> None:
        """One question after the other."""
        while True:
            self.number += 1
            prompt = load.prompt(int(100_000 * self.weight) + self.number)
            began = False
            async for count in self.ask(prompt, ANSWER_TOKENS):
                self.service += OUTPUT_WEIGHT * count + (0 if began else PROMPT_TOKENS)
                began = True


async def served(engine: BenchEngine, weights: Sequence[float], seconds: int, slots: int) -> dict[str, float]:
    """Weighted tokens by tenant, over so many seconds after all have a backlog."""
    async with bench_installation(engine, slots) as here:
        tenants = [await _tenant(here, weight) for weight in weights]
        callers = [asyncio.create_task(each.caller()) for each in tenants for _ in range(BACKLOG)]
        try:
            await asyncio.sleep(SETTLE_SECONDS)
            before = [each.service for each in tenants]
            for second in range(seconds):
                await asyncio.sleep(1)
                for caller in callers:
                    if caller.done():
                        caller.result()
                if second % 10 == 9:
                    progress(f"{second + 1} s")
            return {
                f"weight{each.weight:g}": each.service - was
                for each, was in zip(tenants, before, strict=True)
            }
        finally:
            await cancel_tasks(callers)


async def _tenant(here: BenchInstallation, weight: float) -> LoadedTenant:
    name = f"weight{weight:g}"
    ask = await here.asker(name, BACKLOG)
    await here.queue.set_tenant(here.tenants[name], TenantTerms(weight=weight))
    return LoadedTenant(weight, ask)
