"""One answer as its reader sees it: text piece by piece, or everything that happens."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from parley_client.answer import Ended, Event, OpenAnswer, Reset, SafetyFlag, Standing, Text, TextTakenBack
from parley_client.prompts import KeptTurns, SafetyPromptFlag


class AnswerSource(Protocol):
    """The keeper of the connection."""

    async def apply(self, reading: OpenAnswer) -> Event:
        """Apply an answer's next frame, because its reader asked for it."""
        ...

    async def cancel(self, id: str) -> None:
        """Ask to stop a request."""
        ...

    async def detach(self, reading: OpenAnswer) -> None:
        """Stop reading an answer."""
        ...


class Answer:
    """One request as its reader sees it. Read it once: by iterating, by `events()`, or by `end()`.

    What is not read is not acknowledged: the server waits for a reader who is slow."""

    def __init__(self, session: AnswerSource, reading: OpenAnswer) -> None:
        self._session = session
        self._reading = reading
        self._changed = asyncio.Event()
        reading.notify = self._changed.set

    @property
    def id(self) -> str:
        """The request's id."""
        return self._reading.id

    @property
    def text(self) -> str:
        """The answer as far as it was read."""
        return self._reading.text

    @property
    def flags(self) -> tuple[SafetyFlag, ...]:
        """What safety marked in `text`: placeholders of redactions, and what was only flagged."""
        return tuple(self._reading.flags)

    @property
    def prompt_flags(self) -> tuple[SafetyPromptFlag, ...]:
        """What safety found in the prompt as it was sent: `redacted` puts the placeholders there."""
        return tuple(self._reading.prompt_flags)

    @property
    def context(self) -> KeptTurns | None:
        """What of its conversation its prompt has; None where that is not known: of no conversation, or only
        attached to."""
        return self._reading.context

    @property
    def max_tokens(self) -> int | None:
        """The most tokens that it may have; None where that is not known."""
        return self._reading.max_tokens

    @property
    def applied(self) -> int:
        """The highest log offset that is part of `text`."""
        return self._reading.applied

    @property
    def epoch(self) -> int | None:
        """The incarnation of the log that was read; None before the server accepted the request."""
        return self._reading.epoch

    @property
    def standing(self) -> Standing:
        """State of the request, as far as it was read."""
        return self._reading.standing

    @property
    def moved_because(self) -> str | None:
        """The reason of its last move to another worker: lost, drain, preempt or pool."""
        return self._reading.moved_because

    @property
    def paused(self) -> bool:
        """True while the server holds text back because this reader is slow."""
        return self._reading.paused

    async def events(self) -> AsyncIterator[Event]:
        """Everything that happens to the answer, `Ended` last. Raises ProtocolError where it is lost."""
        while self._reading.ended is None:
            if not self._reading.waiting:
                if self._reading.error is not None:
                    raise self._reading.error
                self._changed.clear()
                await self._changed.wait()
                continue
            yield await self._session.apply(self._reading)

    async def __aiter__(self) -> AsyncIterator[str]:
        """The answer's text piece by piece. Raises TextTakenBack where the server retracts some of it."""
        given = ""
        async for event in self.events():
            text = self._reading.text
            if not text.startswith(given):
                raise TextTakenBack(text)
            if isinstance(event, Text | Reset | Ended) and len(text) > len(given):
                yield text[len(given) :]
                given = text

    async def end(self) -> Ended:
        """Read to the end, and return it."""
        async for _ in self.events():
            pass
        assert self._reading.ended is not None
        return self._reading.ended

    async def cancel(self) -> None:
        """Ask to stop. The answer then ends with reason "cancelled" and keeps its text."""
        await self._session.cancel(self.id)

    async def detach(self) -> None:
        """Stop reading. The request goes on; `Client.attach` finds it again."""
        await self._session.detach(self._reading)

    async def accepted(self) -> None:
        """Wait until the server has it. Raises ProtocolError where the server refuses it."""
        while not self._reading.accepted:
            if self._reading.error is not None:
                raise self._reading.error
            self._changed.clear()
            await self._changed.wait()
