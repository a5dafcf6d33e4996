"""When a worker asks for more tokens of an answer, and how often. Pure.

A budget that is nearly used up grants little at a time: who was granted less than asked asks again only after
a moment, so that many such answers cost Redis and the worker little.
"""

from collections.abc import Collection
from dataclasses import dataclass

from engine.worker.claimed_request import ClaimedRequest

EXTEND_AHEAD_TOKENS = 64
SHORT_GRANT_MS = 100
AWAY_MAX = 4_096


@dataclass(frozen=True)
class AllowanceRequest:
    """To be asked after `after_ms`: may this answer have `tokens` output tokens in all?"""

    key: str
    tenant: str
    id: str
    tokens: int
    after_ms: int


class Allowances:
    """What is asked for and not answered, by the answers' names in the engine."""

    def __init__(self, chunk_tokens: int) -> None:
        self._chunk_tokens = chunk_tokens
        self._asked: dict[str, int] = {}
        self._short: set[str] = set()
        self._away: dict[str, tuple[str, str]] = {}

    def ask(self, answer: ClaimedRequest) -> AllowanceRequest | None:
        """Once it is near the end of what is granted; None where nothing is to be asked now."""
        most = answer.request.sampling.max_tokens
        near = answer.sampled + EXTEND_AHEAD_TOKENS >= answer.granted
        if not near or answer.granted >= most or answer.final or answer.key in self._asked:
            return None
        target = min(most, answer.granted + self._chunk_tokens)
        self._asked[answer.key] = target
        after_ms = SHORT_GRANT_MS if answer.key in self._short else 0
        return AllowanceRequest(answer.key, answer.claim.tenant, answer.claim.id, target, after_ms)

    def answered(self, key: str, tokens: int) -> tuple[str, str] | None:
        """So many are granted in all. Tenant and id where the answer was parked while nobody knew."""
        short = tokens < self._asked.pop(key, 0)
        (self._short.add if short else self._short.discard)(key)
        return self._away.pop(key, None)

    def wanted(self, key: str) -> bool:
        """Whether the reply to what was asked under this name still matters."""
        return key in self._asked

    def renamed(self, before: str, after: str) -> None:
        """The engine knows the answer by another name now; nothing is asked for it."""
        if before in self._short:
            self._short.discard(before)
            self._short.add(after)

    def parked(self, answer: ClaimedRequest) -> None:
        """It waits in the pool until the reply to what was asked for it is there."""
        if answer.key in self._asked and len(self._away) < AWAY_MAX:
            self._away[answer.key] = (answer.claim.tenant, answer.claim.id)

    def leave(self) -> list[tuple[str, str]]:
        """This worker ends: the parked ones are others' to ask for."""
        away = list(self._away.values())
        self._away.clear()
        return away

    def forget(self, key: str) -> None:
        """It is not this worker's any more."""
        self._short.discard(key)
        if key not in self._away:
            self._asked.pop(key, None)

    def forget_all(self, keys: Collection[str]) -> None:
        """None of them is this worker's any more."""
        for key in keys:
            self.forget(key)
