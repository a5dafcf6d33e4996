"""Counts a worker's answers: how long each waited, when its first token came, what lay between its tokens,
and how it ended.

Decides nothing. It runs at each flush, so what it does for an answer costs a fraction of a microsecond.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from core.observability.request_figures import CLAIMED, FIGURES
from engine import instruments
from engine.queue.types import Append, AppendCode, Appended
from engine.worker.claimed_request import ClaimedRequest

ARRIVED = (AppendCode.OK, AppendCode.DUP, AppendCode.ENDED)


def count_claims(opened: Iterable[ClaimedRequest]) -> None:
    """Count the waits of requests that were claimed for the first time."""
    for answer in opened:
        if answer.claim.cn == 1:
            waited_ms = answer.claim.claimed_ms - answer.request.accepted_ms
            FIGURES.series("queue_wait", answer.claim.priority, CLAIMED).observe(waited_ms)


def count_appends(
    sent: Sequence[tuple[ClaimedRequest, Append]], results: Sequence[Appended], tokens: int
) -> None:
    """Count what a flush wrote, `tokens` in all. The gap that a takeover makes is in no worker's sight."""
    FIGURES.add("output_tokens", tokens)
    for code, number in Counter(result.code for result in results).items():
        instruments.appends.add(number, {"code": code.value})
    gaps: dict[str, list[int]] = {}
    for (answer, append), result in zip(sent, results, strict=True):
        if answer.gaps_ms:
            gaps.setdefault(answer.claim.priority, []).extend(answer.gaps_ms)
            answer.gaps_ms.clear()
        if append.n0 == 0 and append.tokens and result.code in ARRIVED:
            _count_first(answer)
        if append.end and result.code is AppendCode.ENDED and answer.event is not None:
            instruments.count_end(answer.event, answer.claim.priority)
    for priority, some in gaps.items():
        series = FIGURES.series("between_tokens", priority)
        for gap_ms, number in Counter(some).items():
            series.observe(gap_ms, number)


def _count_first(answer: ClaimedRequest) -> None:
    """Count the first tokens that the log got."""
    took_ms = answer.first_token_ms - answer.request.accepted_ms
    FIGURES.series("first_token", answer.claim.priority).observe(took_ms)
    FIGURES.add("input_tokens", len(answer.prompt))
