"""Who asks during a chaos run: seeded questions, asked by Parley's own clients over real sockets.

Writes down what the clients saw; judges nothing.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from chaos.observations import Answered, Seam, WorkloadRequest
from parley_client import Answer, Client, Ended, Event, ProtocolError, Reset, Status, Text

# A busy machine on which workers are killed as fast as they start makes next to no tokens; that is no loss.
ANSWER_SECONDS_MAX = 300.0
REFUSED_SECONDS = 0.5
UNKNOWN_OUTCOME = "internal"
SENDS_MAX = 20
LETTERS = "abcdefghijklmnopqrstuvwxyz     ?!<>|é€"
STOP_SHARE = 0.25
STOP_LENGTHS = (1, 2, 2, 3)
PRINTABLE = [chr(code) for code in range(33, 127)]


@dataclass(frozen=True)
class Kind:
    """What questions are like: lengths are uniform between the two bounds."""

    characters: tuple[int, int] = (20, 400)
    tokens: tuple[int, int] = (80, 320)
    stops: bool = True


def questions(seed: int, kind: Kind) -> Iterator[WorkloadRequest]:
    """For ever the same sequence for the same seed."""
    chosen = random.Random(f"questions {seed}")
    number = 0
    while True:
        content = "".join(chosen.choices(LETTERS, k=chosen.randint(*kind.characters)))
        # The short one ends most answers; the others' beginnings come up now and then and are held back.
        stops = tuple("".join(chosen.choices(PRINTABLE, k=length)) for length in STOP_LENGTHS)
        stops = stops if kind.stops and chosen.random() < STOP_SHARE else ()
        yield WorkloadRequest(number, f"{number} {content}", chosen.randint(*kind.tokens), stops)
        number += 1


@dataclass
class WatchedAnswer:
    """One answer while it is read."""

    fact: Answered
    text_at: float | None = None
    moved: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    seams: list[Seam] = field(default_factory=list[Seam])
    frames: list[str] = field(default_factory=list[str])

    def see(self, event: Event, now: float) -> None:
        """One event of the answer."""
        match event:
            case Status("moved", detail):
                self.moved.append((now, str(detail["why"]) if isinstance(detail, dict) else ""))
            case Text(text) | Reset(text):
                self.frames += ["\n", text] if isinstance(event, Reset) else [text]
                self._text(now)
                self._close(now)
            case Ended():
                self._close(None)
                self.fact = _ended(self.fact, event, now)
            case _:
                pass

    def _text(self, now: float) -> None:
        silence = max(self.fact.silence, now - (self.text_at or now))
        self.fact = replace(self.fact, first_text_at=self.fact.first_text_at or now, silence=silence)
        self.text_at = now

    def _close(self, next_text_at: float | None) -> None:
        self.seams += [Seam(at, why, next_text_at) for at, why in self.moved]
        self.moved.clear()


async def ask(
    client: Client, tenant: str, question: WorkloadRequest, id: str, conversation: str | None = None
) -> Answered:
    """One question read to its end, however that is."""
    watched = WatchedAnswer(Answered(tenant, question, id, time.monotonic()))
    return await _to_its_end(_sent(client, question, id, conversation), watched)


async def _sent(client: Client, question: WorkloadRequest, id: str, conversation: str | None) -> Answer:
    """Accepted. Where the platform could not say (`internal`), sent again with the same id."""
    for attempt in range(SENDS_MAX):
        try:
            options = _options(question)
            return await client.send(question.content, conversation=conversation, options=options, id=id)
        except ProtocolError as error:
            if error.code != UNKNOWN_OUTCOME or attempt == SENDS_MAX - 1:
                raise
            await asyncio.sleep((error.after_ms or 0) / 1000)
    raise AssertionError("the last attempt returned or raised")


async def _to_its_end(opening: Coroutine[Any, Any, Answer], watched: WatchedAnswer) -> Answered:
    answer: Answer | None = None
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            answer = await opening
            watched.fact = replace(watched.fact, accepted_at=time.monotonic())
            await watch(answer, watched)
    except ProtocolError as error:
        refused = answer is None
        watched.fact = replace(watched.fact, problem=str(error), code=error.code, refused=refused)
    except TimeoutError:
        standing = answer.standing.value if answer else "not accepted"
        problem = f"no end after {ANSWER_SECONDS_MAX:.0f} s ({standing})"
        watched.fact = replace(watched.fact, problem=problem)
        if answer is not None:
            with suppress(Exception):
                await answer.detach()
    text, epoch = (answer.text, answer.epoch or 1) if answer else ("", 1)
    seen = {"frames": "".join(watched.frames), "seams": tuple(watched.seams)}
    return replace(watched.fact, text=text, epoch=epoch, **seen)


async def reread(client: Client, tenant: str, id: str, question: WorkloadRequest) -> Answered:
    """Somebody's answer read from its start, by attaching."""
    return await _to_its_end(
        client.attach(id), WatchedAnswer(Answered(tenant, question, id, time.monotonic()))
    )


async def watch(answer: Answer, watched: WatchedAnswer) -> None:
    """Read an answer to its end."""
    async for event in answer.events():
        watched.see(event, time.monotonic())


@dataclass
class Crowd:
    """Clients that ask one question after the other until told to stop.

    `stored`: each question begins a conversation. `answers` in the order they ended, `open` those that are
    under way by id; `counters` are the sums of what the clients counted."""

    url: str
    key: str
    tenant: str
    clients: int = 4
    at_once: int = 4
    stored: bool = False
    answers: list[Answered] = field(default_factory=list[Answered])
    open: dict[str, WorkloadRequest] = field(default_factory=dict[str, WorkloadRequest])
    counters: Counter[str] = field(default_factory=Counter[str])

    async def run(self, asks: Iterator[WorkloadRequest], stop: asyncio.Event) -> None:
        """Until `stop`; what was asked by then is read to its end."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self.clients):
                group.create_task(self._client(asks, stop))

    async def _client(self, asks: Iterator[WorkloadRequest], stop: asyncio.Event) -> None:
        async with Client(self.url, self.key, backoff_seconds=0.1) as client, asyncio.TaskGroup() as group:
            for _ in range(self.at_once):
                group.create_task(self._one_after_the_other(client, asks, stop))
        self.counters.update(asdict(client.counters))

    async def _one_after_the_other(
        self, client: Client, asks: Iterator[WorkloadRequest], stop: asyncio.Event
    ) -> None:
        while not stop.is_set():
            question, id = next(asks), client.new_id()
            self.open[id] = question
            conversation = client.new_id() if self.stored else None
            answer = await ask(client, self.tenant, question, id, conversation)
            self.answers.append(answer)
            del self.open[id]
            if answer.refused:
                await asyncio.sleep(REFUSED_SECONDS)


def _options(question: WorkloadRequest) -> dict[str, Any]:
    options: dict[str, Any] = {"max_tokens": question.max_tokens}
    if question.stop:
        options["stop"] = list(question.stop)
    return options


def _ended(fact: Answered, end: Ended, now: float) -> Answered:
    return replace(
        fact,
        ended_at=now,
        reason=end.reason,
        code=end.code or "",
        verified=end.verified,
        input=end.usage.input,
        output=end.usage.output,
        cached=end.usage.cached_input or 0,
        cost_nano=end.cost_nano or 0,
    )
