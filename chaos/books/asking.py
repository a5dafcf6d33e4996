"""Those who ask in a run of the books: customers' keys, each with a client of its own, at a steady pace."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from chaos.books.terms import ClientAnswer
from chaos.judge.allowed_losses import FORGOTTEN
from chaos.observations import Answered, WorkloadRequest
from chaos.workload import ask
from parley_client import Client

LETTERS = "abcdefghijklmnopqrstuvwxyz  ?!é€"
CHARACTERS, TOKENS = (20, 300), (4, 60)
ONCE = "how much is left?"
FRAME_TOKENS = 19  # of the template around a prompt
REFUSED_SECONDS = 2.0
CANCELLED_SHARE = 0.04
CANCEL_SECONDS = (0.0, 0.2)


@dataclass(frozen=True)
class Asker:
    """A key, and whose it is."""

    customer: str
    tenant: str
    secret: str
    project: str
    key: str
    user: str


def input_of(content: str) -> int:
    """The tokens of a prompt."""
    return len(content.encode()) + FRAME_TOKENS


def wall_ms(monotonic: float) -> int:
    """A moment of this process's monotonic clock as Unix time."""
    return round(time.time() * 1000 - (time.monotonic() - monotonic) * 1000)


def questions(seed: int) -> Iterator[WorkloadRequest]:
    """For ever the same sequence for the same seed; no stop strings, so that a token is a character."""
    chosen = random.Random(f"books {seed}")
    number = 0
    while True:
        content = "".join(chosen.choices(LETTERS, k=chosen.randint(*CHARACTERS)))
        yield WorkloadRequest(number, f"{number} {content}", chosen.randint(*TOKENS))
        number += 1


@dataclass
class Askers:
    """`told`: every answer that was accepted, in the order they ended; `forgotten`: those that Redis lost
    while they ran; `lost`: those that came to no end otherwise; `refused`: by customer
    and code. Nobody begins while `gate` is shut."""

    url: str
    model: str
    questions: Iterator[WorkloadRequest]
    told: list[ClientAnswer] = field(default_factory=list[ClientAnswer])
    forgotten: list[ClientAnswer] = field(default_factory=list[ClientAnswer])
    lost: list[Answered] = field(default_factory=list[Answered])
    refused: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    open: dict[str, str] = field(default_factory=dict[str, str])
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    _chosen: random.Random = field(default_factory=lambda: random.Random("cancels"))
    _next_at: float = 0.0
    _begun: int = 0

    @property
    def ended(self) -> int:
        """How many answers are over."""
        return len(self.told) + len(self.forgotten) + len(self.lost)

    async def run(self, askers: list[Asker], answers: int, per_second: float, at_once: int = 2) -> None:
        """Until so many more answers have ended."""
        wanted = self.ended + answers
        self._next_at = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for asker in askers:
                group.create_task(self._client(asker, wanted, per_second, at_once))

    @property
    def next_input(self) -> int:
        """How many tokens the prompt of `once` has."""
        return input_of(ONCE)

    async def once(self, asker: Asker, tokens: int) -> Answered:
        """One more send by itself, read to its end."""
        async with Client(self.url, asker.secret, backoff_seconds=0.1) as client:
            answer = await ask(client, asker.tenant, WorkloadRequest(0, ONCE, tokens), client.new_id())
        self._note(asker, answer)
        return answer

    async def _client(self, asker: Asker, wanted: int, per_second: float, at_once: int) -> None:
        async with (
            Client(self.url, asker.secret, backoff_seconds=0.1) as client,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(at_once):
                group.create_task(self._one_after_the_other(client, asker, wanted, per_second))

    async def _one_after_the_other(
        self, client: Client, asker: Asker, wanted: int, per_second: float
    ) -> None:
        while True:
            await self.gate.wait()
            if self.ended + self._begun >= wanted:
                return
            self._begun += 1
            self._next_at = max(self._next_at, time.monotonic() - 1) + 1 / per_second
            await asyncio.sleep(self._next_at - time.monotonic())
            await self.gate.wait()
            question, id = next(self.questions), client.new_id()
            self.open[id] = asker.tenant
            cancelling = asyncio.create_task(self._cancel(client, id))
            answer = await ask(client, asker.tenant, question, id)
            await cancelling
            self._note(asker, answer)
            del self.open[id]
            self._begun -= 1
            if answer.refused:
                await asyncio.sleep(REFUSED_SECONDS)

    async def _cancel(self, client: Client, id: str) -> None:
        if self._chosen.random() < CANCELLED_SHARE:
            await asyncio.sleep(self._chosen.uniform(*CANCEL_SECONDS))
            await client.cancel(id)

    def _note(self, asker: Asker, answer: Answered) -> None:
        if answer.refused:
            self.refused[asker.customer, answer.code] += 1
        elif answer.accepted_at is not None and answer.ended_at is not None:
            self.told.append(self._told(asker, answer, answer.accepted_at, answer.ended_at))
        elif answer.accepted_at is not None and answer.code in FORGOTTEN:
            self.forgotten.append(self._told(asker, answer, answer.accepted_at, time.monotonic()))
        else:
            self.lost.append(answer)

    def _told(self, asker: Asker, answer: Answered, accepted_at: float, ended_at: float) -> ClientAnswer:
        return ClientAnswer(
            tenant=asker.tenant,
            id=answer.id,
            project=asker.project,
            key=asker.key,
            user=asker.user,
            model=self.model,
            sent_ms=wall_ms(answer.sent_at),
            heard_ms=wall_ms(accepted_at),
            ended_ms=wall_ms(ended_at),
            reason=answer.reason,
            input=answer.input,
            cached=answer.cached,
            output=answer.output,
            cost=answer.cost_nano,
            characters=len(answer.text),
            asked_input=input_of(answer.question.content),
        )
