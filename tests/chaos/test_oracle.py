"""The chaos oracle finds each thing that can be wrong, and nothing where all is well."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from billing.api import PinnedPrices, UsageEvent, UsageOwner
from chaos.facts import Answered, Facts, Posted, Question, Seam, Strike, Sums
from chaos.oracle import Wrong, expected, judge
from chaos.report import pauses
from engine.api import Entry, EntryKind

SEED = 7
QUESTION = Question(0, "0 why?", max_tokens=12)
PRICES = PinnedPrices("book", 1, 1, 1, 1)


def clean() -> Facts:
    """A round with one answer that is as it must be."""
    right = expected(QUESTION, SEED)
    answer = Answered(
        "t",
        QUESTION,
        "r",
        sent_at=0.0,
        ended_at=2.0,
        text=right.text,
        reason=right.reason,
        verified=True,
        input=right.input,
        output=right.output,
        cost_nano=5,
    )
    log = [
        Entry(1, EntryKind.RUNNING),
        Entry(2, EntryKind.TEXT, right.text[:5], 0),
        Entry(3, EntryKind.MOVED),
        Entry(4, EntryKind.TEXT, right.text[5:], 5),
        Entry(5, EntryKind.END),
    ]
    return Facts(
        seed=SEED,
        answers=[answer],
        logs={"r": log},
        events=[usage_event()],
        posted=[Posted("t", "r", right.reason, right.input, right.output, 5)],
        settled={"t": Sums(1, right.input, right.output, 5)},
    )


def usage_event() -> UsageEvent:
    """Its counts are judged by the row that it became."""
    return UsageEvent("t", "r", "p", "m", "f", UsageOwner("project", "key"), 0, 1, "length", PRICES)


def wrongs(facts: Facts) -> set[Wrong]:
    """What the oracle finds."""
    return {finding.what for finding in judge(facts)}


def test_a_clean_round_is_clean():
    """No finding where nothing is wrong."""
    assert judge(clean()) == []


def test_what_must_be_said_depends_on_everything_before():
    """Another seed, another question: another answer; a stop string ends it and is not part of it."""
    right = expected(QUESTION, SEED)
    assert len(right.text) == right.output == 12
    assert expected(QUESTION, SEED + 1).text != right.text
    assert expected(msgspec.structs.replace(QUESTION, content="0 why!"), SEED).text != right.text
    stop = right.text[4:6]
    cut = expected(msgspec.structs.replace(QUESTION, stop=(stop, "nowhere in it")), SEED)
    assert (cut.text, cut.reason, cut.output) == (right.text[:4], "stop", 6)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"problem": "no end after 60 s"}, Wrong.LOST),
        ({"reason": "error", "code": "engine_lost"}, Wrong.LOST),
        ({"text": expected(QUESTION, SEED).text[:-1]}, Wrong.LOST),
        ({"text": expected(QUESTION, SEED).text + "x"}, Wrong.DOUBLED),
        ({"text": expected(QUESTION, SEED).text[1:]}, Wrong.DOUBLED),
        ({"verified": False}, Wrong.DOUBLED),
        ({"output": 11}, Wrong.DOUBLED),
        ({"cost_nano": 6}, Wrong.UNBILLED),
        ({"cost_nano": 4}, Wrong.DOUBLE_BILLED),
    ],
)
def test_a_wrong_answer_is_found(change: dict[str, Any], what: Wrong):
    """Each change of what the client saw."""
    facts = clean()
    facts.answers = [replace(facts.answers[0], **change)]
    assert what in wrongs(facts)


def test_a_wrong_log_is_found():
    """A hole, a second end, something behind the end, text that is there twice, no log at all."""
    for at, entry, what in [
        (2, Entry(4, EntryKind.MOVED), Wrong.LOST),
        (2, Entry(3, EntryKind.END), Wrong.DOUBLED),
        (4, Entry(5, EntryKind.MOVED), Wrong.DOUBLED),
        (3, Entry(4, EntryKind.TEXT, "again", 0), Wrong.DOUBLED),
    ]:
        facts = clean()
        facts.logs["r"] = [entry if here == at else each for here, each in enumerate(facts.logs["r"])]
        assert what in wrongs(facts)
    facts = clean()
    facts.logs.clear()
    assert wrongs(facts) == {Wrong.LOST}


def test_wrong_billing_is_found():
    """No row, two events, a stranger's row, a slot that counted twice, an event held back."""
    facts = clean()
    facts.events.clear()
    assert wrongs(facts) == set()
    facts = clean()
    facts.posted.clear()
    assert Wrong.UNBILLED in wrongs(facts)
    facts = clean()
    facts.events.append(usage_event())
    assert wrongs(facts) == {Wrong.DOUBLE_BILLED}
    facts = clean()
    facts.posted.append(replace(facts.posted[0], request="nobody's"))
    assert Wrong.DOUBLE_BILLED in wrongs(facts)
    facts = clean()
    sums = facts.settled["t"]
    facts.settled = {"t": replace(sums, requests=2, output=2 * sums.output)}
    assert wrongs(facts) == {Wrong.DOUBLE_BILLED}
    facts = clean()
    facts.quarantined.append("r: conflicting")
    assert wrongs(facts) == {Wrong.UNBILLED}


def test_what_is_left_behind_is_found():
    """A claim or a slot that nobody gave back."""
    facts = clean()
    facts.leftovers.append("{p:default}claims:w")
    assert wrongs(facts) == {Wrong.LEFT}


def test_a_pause_is_from_the_fault_to_the_next_text():
    """Of the last fault that hit the request before its reader heard of it; other moves are not pauses."""
    facts = clean()
    seams = (Seam(10.2, "lost", 10.5), Seam(20.1, "drain", 20.2), Seam(30.1, "lost", None))
    answer = replace(facts.answers[0], seams=seams)
    strikes = [Strike(at, "kill", "w", frozenset({held})) for at, held in ((5, "r"), (10, "r"), (10.1, "x"))]
    assert pauses([answer], strikes) == [pytest.approx(0.5)]
