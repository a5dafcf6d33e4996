"""Answers that ended a moment ago, kept until their end is safe in Redis. Pure.

A Redis that crashes within the second between two syncs, or fails over, comes back without the tail of a log
and does not know that it ended. Only its worker has that tail, so it asks after each end twice and appends
again what is missing (docs/continuation.md, "At another worker").
"""

from collections import OrderedDict
from dataclasses import dataclass

from engine.worker.claimed_request import ClaimedRequest

ASK_AFTER_MS = (1_500, 5_000)
KEPT_MAX = 4_096


@dataclass
class _UnconfirmedEnd:
    answer: ClaimedRequest
    ended_ms: int
    asked: int = 0


class EndedAnswers:
    """The latest `KEPT_MAX` ended answers, by their names in the engine."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _UnconfirmedEnd] = OrderedDict()

    def __contains__(self, answer: ClaimedRequest) -> bool:
        return answer.key in self._kept

    @property
    def names(self) -> set[tuple[str, str]]:
        """Tenant and id of each answer."""
        return {(kept.answer.claim.tenant, kept.answer.claim.id) for kept in self._kept.values()}

    def keep(self, answer: ClaimedRequest, now_ms: int) -> None:
        """Keep an answer whose end Redis has acknowledged."""
        self._kept[answer.key] = _UnconfirmedEnd(answer, now_ms)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)

    def due(self, now_ms: int) -> list[ClaimedRequest]:
        """Answers whose end is to be asked for now, again where no reply came."""
        return [kept.answer for kept in self._kept.values() if now_ms >= self._ask_ms(kept)]

    def confirmed(self, answer: ClaimedRequest) -> None:
        """Note that its end is still in the log; after the last time it is trusted."""
        kept = self._kept[answer.key]
        kept.asked += 1
        if kept.asked == len(ASK_AFTER_MS):
            self.forget(answer)

    def forget(self, answer: ClaimedRequest) -> None:
        """Stop tracking: the request resumed here or moved to another worker."""
        self._kept.pop(answer.key, None)

    def _ask_ms(self, kept: _UnconfirmedEnd) -> int:
        return kept.ended_ms + ASK_AFTER_MS[kept.asked]
