"""Answers that have just ended."""

from engine.request import EndReason
from engine.worker.claimed_request import ClaimedRequest
from tests.engine.worker.claims import a_claim
from tests.engine.workers import open_answer


def an_ended_answer() -> ClaimedRequest:
    """With its end in the log."""
    answer = open_answer(a_claim())
    answer.end(EndReason.STOP)
    append = answer.append("default", 1)
    assert append is not None
    answer.appended(append)
    return answer
