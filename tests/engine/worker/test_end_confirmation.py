"""Ended answers are kept until their end has been asked for twice, and no longer."""

from engine.worker.claimed_request import ClaimedRequest
from engine.worker.end_confirmation import ASK_AFTER_MS, KEPT_MAX, EndedAnswers
from tests.engine.worker.ended_answers import an_ended_answer

FIRST, LAST = ASK_AFTER_MS


def test_each_end_is_asked_for_twice_and_kept_for_five_seconds():
    """Again and again while nobody answers: a Redis that is away for longer loses nothing either."""
    ended, answer = EndedAnswers(), an_ended_answer()
    ended.keep(answer, 1000)
    assert ended.due(999 + FIRST) == []
    assert ended.due(1000 + FIRST) == ended.due(60_000) == [answer]
    ended.confirmed(answer)
    assert ended.due(999 + LAST) == []
    assert ended.names == {("t1", "r1")}
    assert ended.due(1000 + LAST) == [answer]
    ended.confirmed(answer)
    assert answer not in ended
    assert LAST == 5000


def test_the_question_stands_behind_the_end():
    """It carries nothing; a log that lost its tail answers with a gap, and the rest goes there again."""
    answer = an_ended_answer()
    asked = answer.question()
    assert (asked.n0, asked.o0) == (0, 3)
    assert (asked.tokens, asked.entries, asked.end) == (b"", [], None)
    assert answer.append("default", 2) is None


def test_not_more_than_the_latest_are_kept():
    """Ends that come faster than they are confirmed do not fill the memory."""
    ended, answer = EndedAnswers(), an_ended_answer()
    for number in range(KEPT_MAX + 10):
        answer.key = str(number)
        ended.keep(answer, number)
        answer = _another(answer)
    assert len(ended.due(10**9)) == KEPT_MAX
    oldest = _another(answer)
    oldest.key = "9"
    assert oldest not in ended


def _another(answer: ClaimedRequest) -> ClaimedRequest:
    """A cheap copy under its own name."""
    copied = object.__new__(ClaimedRequest)
    copied.__dict__.update(answer.__dict__)
    return copied
