"""`python -m chaos bench fairness`: how evenly a full pool is shared by weight, by Jain's index.

The real scripts on a real Valkey serve scripted workers, whose steps take no time of their own: a minute of
theirs takes what the scripts cost. `--engine vllm` is a whole installation for a real minute.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import click
import uvloop

from chaos.bench import fairness_live
from chaos.bench.engine_testbed import BenchEngine, engine_option
from chaos.bench.queue import FINGERPRINT, PROMPT_TOKENS, lines, request_of
from chaos.figures.figures import Figure, json_option, progress, show
from engine.api import Append, Claim, ClaimOffer, Entry, EntryKind, PoolQueue, TenantTerms

JAIN_LEAST = 0.99
WEIGHTS = (1.0, 2.0, 4.0)
SLOTS = 8
STEP_MS = 100
LIVE_SLOTS = 16
START_MS = 1_800_000_000_000
BACKLOG = 24
OUTPUT_TOKENS_MAX = 120
OUTPUT_WEIGHT = 2


@dataclass
class BenchAnswer:
    """A running request and how far it is."""

    claim: Claim
    length: int
    n: int = 0
    o: int = 0


@dataclass
class FairnessWorker:
    """Claims while it has slots, and appends a token to each of its answers at every step."""

    name: str
    queue: PoolQueue
    answers: list[BenchAnswer] = field(default_factory=list[BenchAnswer])
    calls: int = 0

    async def step(self, rng: random.Random, service: dict[str, float]) -> list[Claim]:
        """One engine step: what ended with it."""
        await self.queue.renew(self.name, 0, {})
        if len(self.answers) < SLOTS:
            self.calls += 1
            offer = ClaimOffer(FINGERPRINT, SLOTS - len(self.answers), 1_000_000, 1_000_000)
            for claim in (await self.queue.claim(self.name, self.calls, offer)).claims:
                service[claim.tenant] += PROMPT_TOKENS
                self.answers.append(BenchAnswer(claim, rng.randint(1, OUTPUT_TOKENS_MAX), o=claim.o))
        await self.queue.append(self.name, [_token(answer) for answer in self.answers])
        for answer in self.answers:
            answer.n += 1
            service[answer.claim.tenant] += OUTPUT_WEIGHT
        ended = [answer for answer in self.answers if answer.n == answer.length]
        self.answers = [answer for answer in self.answers if answer.n < answer.length]
        return [answer.claim for answer in ended]


@click.command()
@click.option("--seconds", default=60, show_default=True, help="Of the scripted workers' own time.")
@click.option("--workers", default=2, show_default=True, help="Scripted ones; with vLLM it is one.")
@click.option("--seed", default=1, show_default=True)
@engine_option(BenchEngine.SCRIPTED)
@json_option
def fairness(seconds: int, workers: int, seed: int, engine: BenchEngine, as_json: bool) -> None:
    """How evenly tenants of weights 1, 2 and 4 are served.

    All three have a backlog all the time. Goal: Jain's index of service by weight >= 0.99.
    """
    if engine is BenchEngine.VLLM:
        service = asyncio.run(fairness_live.served(engine, WEIGHTS, seconds, LIVE_SLOTS))
    else:
        service = uvloop.run(_serve(seconds, workers, random.Random(seed)))
    facts = {"seed": seed, "workers": workers, "seconds": seconds, "engine": engine.value}
    show("fairness", _figures(service), as_json, facts)


def _figures(service: Mapping[str, float]) -> list[Figure]:
    """`service`: the weighted tokens of each tenant."""
    shares = [service[f"weight{weight:g}"] / weight for weight in WEIGHTS]
    figures = [Figure("Jain's index of service by weight", jain(shares), "", least=JAIN_LEAST)]
    figures += [
        Figure(f"weighted tokens served, weight {weight:g}", service[f"weight{weight:g}"], "")
        for weight in WEIGHTS
    ]
    return figures


def jain(shares: list[float]) -> float:
    """1 where all are equal, 1/n where one has all (Jain, Chiu and Hawe, 1984)."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


async def _serve(seconds: int, count: int, rng: random.Random) -> dict[str, float]:
    service = {f"weight{weight:g}": 0.0 for weight in WEIGHTS}
    now = [START_MS]
    async with lines() as (redis, settings):
        queue = PoolQueue(redis, "bench", settings, lambda: now[0])
        workers = [FairnessWorker(f"worker{at}", queue) for at in range(count)]
        for worker in workers:
            await queue.register(worker.name, FINGERPRINT, {"kv_tokens": 1_000_000})
        for weight in WEIGHTS:
            await queue.set_tenant(f"weight{weight:g}", TenantTerms(weight=weight))
            for _ in range(BACKLOG):
                await queue.enqueue(request_of(f"weight{weight:g}", now[0]))
        for step in range(seconds * 1000 // STEP_MS):
            for worker in workers:
                for ended in await worker.step(rng, service):
                    await queue.enqueue(request_of(ended.tenant, now[0]))
            now[0] += STEP_MS
            if step % 100 == 99:
                progress(f"{(step + 1) * STEP_MS // 1000} s")
    return service


def _token(answer: BenchAnswer) -> Append:
    """The next token; the last one with the end."""
    last = answer.n + 1 == answer.length
    end = Entry(o=answer.o + 1, k=EntryKind.END, i=answer.length, v=b'{"reason":"length"}')
    return Append(
        tenant=answer.claim.tenant,
        id=answer.claim.id,
        ck=answer.claim.ck,
        n0=answer.n,
        o0=answer.o,
        raw=0,
        visible=0,
        tokens=b"\x01\x00\x00\x00",
        entries=[end] if last else [],
        end=b"\x80" if last else None,
    )
