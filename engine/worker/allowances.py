"""Decides when a worker asks for more tokens of an answer, and how often. Pure.

A budget that is nearly used up grants little at a time: an answer that got less than it asked for asks again
only after a moment, so that many such answers cost Redis and the worker little.
"""

from collections.abc import Collection
from dataclasses import dataclass

from engine.worker.claimed_request import ClaimedRequest

EXTEND_AHEAD_TOKENS = 64
SHORT_ALLOWANCE_MS = 100
PARKED_MAX = 4_096


@dataclass(frozen=True)
class AllowanceRequest:
    """A question to send after `after_ms`: may this answer have `tokens` output tokens in all?"""

    key: str
    tenant: str
    id: str
    tokens: int
    after_ms: int


class Allowances:
    """Pending questions for more tokens, by the answers' names in the engine."""

    def __init__(self, chunk_tokens: int) -> None:
        self._chunk_tokens = chunk_tokens
        self._asked: dict[str, int] = {}
        self._short: set[str] = set()
        self._parked: dict[str, tuple[str, str]] = {}

    def ask(self, answer: ClaimedRequest) -> AllowanceRequest | None:
        """The question of an answer near the end of its allowance; None where there is none to send now."""
        most = answer.request.sampling.max_tokens
        near = answer.sampled + EXTEND_AHEAD_TOKENS >= answer.granted
        if not near or answer.granted >= most or answer.final or answer.key in self._asked:
            return None
        target = min(most, answer.granted + self._chunk_tokens)
        self._asked[answer.key] = target
        after_ms = SHORT_ALLOWANCE_MS if answer.key in self._short else 0
        return AllowanceRequest(answer.key, answer.claim.tenant, answer.claim.id, target, after_ms)

    def answered(self, key: str, tokens: int) -> tuple[str, str] | None:
        """Take the reply: tokens granted in all. Returns tenant and id of an answer parked meanwhile."""
        short = tokens < self._asked.pop(key, 0)
        (self._short.add if short else self._short.discard)(key)
        return self._parked.pop(key, None)

    def wanted(self, key: str) -> bool:
        """True where the reply to this name's question still matters."""
        return key in self._asked

    def renamed(self, before: str, after: str) -> None:
        """Follow an answer that the engine now knows by another name; it has no pending question."""
        if before in self._short:
            self._short.discard(before)
            self._short.add(after)

    def parked(self, answer: ClaimedRequest) -> None:
        """Keep the question of an answer that is parked, so that the reply can unpark it."""
        if answer.key in self._asked and len(self._parked) < PARKED_MAX:
            self._parked[answer.key] = (answer.claim.tenant, answer.claim.id)

    def leave(self) -> list[tuple[str, str]]:
        """Return the parked answers, as this worker ends and others must ask for them."""
        parked = list(self._parked.values())
        self._parked.clear()
        return parked

    def forget(self, key: str) -> None:
        """Forget an answer that this worker no longer has."""
        self._short.discard(key)
        if key not in self._parked:
            self._asked.pop(key, None)

    def forget_all(self, keys: Collection[str]) -> None:
        """Forget answers that this worker no longer has."""
        for key in keys:
            self.forget(key)
