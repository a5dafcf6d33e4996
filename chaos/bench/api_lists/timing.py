"""Times calls of the API, one by one or several at once."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from chaos.bench.api_lists.cases import ReadCase, has_pages, read_cases, values_of
from core.operations import Operation

PAGES_MAX = 40  # walked to a deep page
PAGE = 1000
WARM_ROUNDS = 1


@dataclass(frozen=True)
class Visit:
    """Somebody at one side, and the operations that they may read. `known`: values of fields there."""

    name: str
    client: httpx.AsyncClient
    operations: Sequence[Operation]
    known: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@dataclass
class TimedCase:
    """A call and how long each of its answers took, in ms."""

    visit: Visit
    case: ReadCase
    took_ms: list[float] = field(default_factory=list[float])
    bytes: int = 0

    async def call(self) -> None:
        """Once more."""
        began = time.perf_counter()
        reply = await self.visit.client.get(self.case.target)
        self.took_ms.append((time.perf_counter() - began) * 1000)
        assert reply.status_code == 200, f"{self.case.target}: {reply.status_code}: {reply.text[:500]}"
        self.bytes = len(reply.content)


async def cases_of(visit: Visit) -> tuple[list[TimedCase], list[str]]:
    """What is timed for a visitor, and the operations that cannot be called there, as nothing to name is
    known."""
    for declared in visit.operations:  # lists first, whose things others name
        for case in read_cases(declared, visit.known)[:1]:
            reply = await visit.client.get(case.target)
            if reply.status_code == 200:
                for name, value in values_of(declared.name, reply.json()):
                    visit.known.setdefault(name, []).append(value)
    cases: list[TimedCase] = []
    left: list[str] = []
    for declared in visit.operations:
        asked = read_cases(declared, visit.known)
        if asked and has_pages(declared):
            asked += [deep] if (deep := await _deep_page(visit, asked[0])) else []
        found = [TimedCase(visit, case) for case in asked if await _is_there(visit, case)]
        cases += found
        left += [] if found else [declared.name]
    return cases, left


async def _is_there(visit: Visit, case: ReadCase) -> bool:
    """False where there is none of what the call names, as nothing runs here, or what is named belongs with
    something else."""
    reply = await visit.client.get(case.target)
    assert reply.status_code in (200, 400, 404), f"{case.target}: {reply.status_code}: {reply.text[:500]}"
    return reply.status_code == 200


async def time_one_by_one(cases: Sequence[TimedCase], rounds: int) -> None:
    """Call each so often, in rounds, so that no call finds only what it just read itself."""
    for number in range(WARM_ROUNDS + rounds):
        for case in cases:
            await case.call()
        if number < WARM_ROUNDS:
            for case in cases:
                case.took_ms.clear()


async def time_at_once(cases: Sequence[TimedCase], clients: int, calls: int) -> list[float]:
    """Milliseconds of so many calls, any of these, by so many clients beside each other."""
    chance = random.Random("at once")
    waiting = [chance.choice(cases) for _ in range(calls)]
    took: list[float] = []

    async def work() -> None:
        while waiting:
            case = waiting.pop()
            timed = TimedCase(case.visit, case.case)
            await timed.call()
            took.extend(timed.took_ms)

    await asyncio.gather(*(work() for _ in range(clients)))
    return took


async def _deep_page(visit: Visit, first: ReadCase) -> ReadCase | None:
    """The last page that has another before it, or one far behind the first; None: all is one page."""
    cursor, deepest = "", None
    for _ in range(PAGES_MAX):
        query = (*first.query, ("limit", str(PAGE)), *((("after", cursor),) if cursor else ()))
        asked = ReadCase(first.operation, "", first.path, query)
        cursor = (await visit.client.get(asked.target)).json().get("next")
        if cursor is None:
            break
        deepest = first.page(cursor)
    if deepest is None:
        cursor = (await visit.client.get(first.target)).json().get("next")
        deepest = first.page(cursor) if cursor else None
    return deepest
