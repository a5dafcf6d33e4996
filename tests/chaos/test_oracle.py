"""The chaos oracle finds each thing that can be wrong, and nothing where all is well."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from billing.api import Check, Comparison, PinnedPrices, UsageEvent, UsageOwner
from chaos.judge.oracle import expected, judge
from chaos.judge.report import pauses
from chaos.observations import (
    Answered,
    DoneFault,
    Observations,
    Outage,
    Posted,
    Seam,
    TenantSums,
    WorkloadRequest,
    WrongKind,
)
from engine.api import Entry, EntryKind

SEED = 7
QUESTION = WorkloadRequest(0, "0 why?", max_tokens=12)
RIGHT = expected(QUESTION, SEED)
PRICES = PinnedPrices("book", 1, 500_000, 250_000, 2_000_000)
COST = RIGHT.input // 2 + 2 * RIGHT.output  # by hand: half a nano a token in, two a token out


def clean() -> Observations:
    """A round with one answer that is as it must be."""
    answer = Answered(
        "t",
        QUESTION,
        "r",
        sent_at=0.0,
        accepted_at=0.1,
        ended_at=2.0,
        text=RIGHT.text,
        reason=RIGHT.reason,
        verified=True,
        input=RIGHT.input,
        output=RIGHT.output,
        cost_nano=COST,
    )
    told = {"reason": RIGHT.reason, "usage": {"input": RIGHT.input, "output": RIGHT.output}}
    log = [
        Entry(1, EntryKind.RUNNING),
        Entry(2, EntryKind.TEXT, RIGHT.text[:5], 0),
        Entry(3, EntryKind.MOVED),
        Entry(4, EntryKind.TEXT, RIGHT.text[5:], 5),
        Entry(5, EntryKind.END, v=msgspec.json.encode(told | {"cost": {"nano": COST}})),
    ]
    return Observations(
        seed=SEED,
        answers=[answer],
        logs={"r": log},
        events=[usage_event()],
        events_added=1,
        posted=[Posted("t", "r", RIGHT.reason, RIGHT.input, RIGHT.output, COST)],
        settled={"t": TenantSums(1, RIGHT.input, RIGHT.output, COST)},
    )


def usage_event(**changes: Any) -> UsageEvent:
    """The right one, changed."""
    event = UsageEvent("t", "r", "p", "m", "f", UsageOwner("project", "key"), 0, 1, RIGHT.reason, PRICES)
    right = {"input_uncached": RIGHT.input, "output_text": RIGHT.output, "cost_nano": COST}
    return msgspec.structs.replace(event, **(right | changes))


def event(**changes: Any) -> Callable[[Observations], None]:
    """Plants a changed event in place of the right one."""

    def plant(facts: Observations) -> None:
        facts.events[0] = usage_event(**changes)

    return plant


def row(**changes: Any) -> Callable[[Observations], None]:
    """Plants a changed row."""

    def plant(facts: Observations) -> None:
        facts.posted[0] = replace(facts.posted[0], **changes)

    return plant


def seen(**changes: Any) -> Callable[[Observations], None]:
    """Plants a change of what the client saw."""

    def plant(facts: Observations) -> None:
        facts.answers[0] = replace(facts.answers[0], **changes)

    return plant


def sums(**changes: Any) -> Callable[[Observations], None]:
    """Plants a change of what the tenant's slot counted."""

    def plant(facts: Observations) -> None:
        facts.settled = {"t": replace(facts.settled["t"], **changes)}

    return plant


def no_event(facts: Observations) -> None:
    """Nothing was ever published."""
    facts.events.clear()
    facts.events_added = 0


def refused(facts: Observations) -> None:
    """The client was told no, and it ran all the same."""
    facts.answers[0] = replace(facts.answers[0], refused=True, ended_at=None)
    facts.settled = {}


def said_everywhere(facts: Observations) -> None:
    """Event, row, slot, log and client agree on a cost that the counts do not have."""
    seen(cost_nano=COST + 1)(facts)
    event(cost_nano=COST + 1)(facts)
    row(cost_nano=COST + 1)(facts)
    sums(cost_nano=COST + 1)(facts)
    end = msgspec.json.decode(facts.logs["r"][-1].v) | {"cost": {"nano": COST + 1}}
    facts.logs["r"] = [
        *facts.logs["r"][:-1],
        msgspec.structs.replace(facts.logs["r"][-1], v=msgspec.json.encode(end)),
    ]


def forget(facts: Observations) -> None:
    """As Redis leaves it that has forgotten the request after its end."""
    facts.logs.clear()
    no_event(facts)
    facts.posted.clear()
    facts.settled = {"t": TenantSums(0, 0, 0, 0)}


def log_lost(facts: Observations) -> None:
    """It ended for its client as a forgotten request does."""
    forget(facts)
    lost = {"ended_at": None, "reason": "", "verified": False, "cost_nano": 0}
    facts.answers[0] = replace(facts.answers[0], problem="log_lost: ...", code="log_lost", text="ab", **lost)


def wrongs(facts: Observations) -> set[WrongKind]:
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


PLANTED: list[tuple[str, Callable[[Observations], None], WrongKind]] = [
    ("no end", seen(problem="no end after 60 s"), WrongKind.LOST),
    ("an error", seen(reason="error", code="engine_lost"), WrongKind.LOST),
    ("a forgotten request without an outage", seen(problem="x", code="log_lost"), WrongKind.LOST),
    ("a text cut short", seen(text=RIGHT.text[:-1]), WrongKind.LOST),
    ("a text that goes on", seen(text=RIGHT.text + "x"), WrongKind.DOUBLED),
    ("a piece twice", seen(text=RIGHT.text[:6] + RIGHT.text[3:]), WrongKind.DOUBLED),
    ("a piece missing", seen(text=RIGHT.text[:3] + RIGHT.text[6:]), WrongKind.DOUBLED),
    ("another hash", seen(verified=False), WrongKind.DOUBLED),
    ("a token less told", seen(output=RIGHT.output - 1), WrongKind.DOUBLED),
    ("a log that began again", seen(epoch=2), WrongKind.DOUBLED),
    ("a hash at first reading", lambda f: setattr(f, "counters", {"mismatched": 1}), WrongKind.DOUBLED),
    ("no log", lambda f: f.logs.clear(), WrongKind.LOST),
    ("told more than billed", seen(cost_nano=COST + 1), WrongKind.UNBILLED),
    ("told less than billed", seen(cost_nano=COST - 1), WrongKind.DOUBLE_BILLED),
    ("no event", no_event, WrongKind.UNBILLED),
    ("an event that was trimmed unread", lambda f: setattr(f, "events_added", 2), WrongKind.DOUBLE_BILLED),
    ("two events", lambda f: f.events.append(usage_event()), WrongKind.DOUBLE_BILLED),
    ("an event of more tokens", event(output_text=RIGHT.output + 1), WrongKind.DOUBLE_BILLED),
    ("an event of fewer tokens", event(output_text=RIGHT.output - 1), WrongKind.UNBILLED),
    ("an event that costs one more", event(cost_nano=COST + 1), WrongKind.DOUBLE_BILLED),
    ("an event that costs one less", event(cost_nano=COST - 1), WrongKind.UNBILLED),
    ("a cost that all agree on and none should", said_everywhere, WrongKind.DOUBLE_BILLED),
    ("a stranger's event", lambda f: f.events.append(usage_event(request="x")), WrongKind.DOUBLE_BILLED),
    ("no row", lambda f: f.posted.clear(), WrongKind.UNBILLED),
    ("two rows", lambda f: f.posted.append(f.posted[0]), WrongKind.DOUBLE_BILLED),
    ("a row of more tokens", row(output=RIGHT.output + 1), WrongKind.DOUBLE_BILLED),
    ("a row that costs one less", row(cost_nano=COST - 1), WrongKind.UNBILLED),
    (
        "a stranger's row",
        lambda f: f.posted.append(replace(f.posted[0], request="x")),
        WrongKind.DOUBLE_BILLED,
    ),
    ("billed though refused", refused, WrongKind.DOUBLE_BILLED),
    ("a slot that counted nothing", sums(requests=0, input=0, output=0, cost_nano=0), WrongKind.UNBILLED),
    ("a slot that counted twice", sums(requests=2), WrongKind.DOUBLE_BILLED),
    ("a slot that counted a nano more", sums(cost_nano=COST + 1), WrongKind.DOUBLE_BILLED),
    ("an event held back", lambda f: f.quarantined.append(("r", "conflicting")), WrongKind.UNBILLED),
    (
        "books that differ",
        lambda f: f.compared.append(Comparison(Check.R4, "t", "cost", "nano", 5, 6)),
        WrongKind.DOUBLE_BILLED,
    ),
    ("a secret in a log file", lambda f: f.leaks.append("logs/worker.log: AKIA"), WrongKind.LEAKED),
    ("a claim left behind", lambda f: f.leftovers.append("{p:default}claims:w"), WrongKind.LEFT),
]


@pytest.mark.parametrize(("plant", "what"), [each[1:] for each in PLANTED], ids=[each[0] for each in PLANTED])
def test_a_planted_fault_is_found(plant: Callable[[Observations], None], what: WrongKind):
    """One thing is wrong in a clean round: it is found, as what it is."""
    facts = clean()
    plant(facts)
    assert what in wrongs(facts)


@pytest.mark.parametrize(
    "name", [name for name, _, what in PLANTED if what in (WrongKind.UNBILLED, WrongKind.DOUBLE_BILLED)]
)
def test_no_judge_of_the_bill_leans_on_another(name: str):
    """A planted fault of the bill is found although nothing is said of the text: the judgements are three."""
    facts = clean()
    next(plant for each, plant, _ in PLANTED if each == name)(facts)
    found = judge(facts, scripted=False)
    assert next(what for each, _, what in PLANTED if each == name) in {finding.what for finding in found}


@pytest.mark.parametrize(
    ("at", "entry", "what"),
    [
        (1, Entry(2, EntryKind.MOVED), WrongKind.DOUBLED),
        (2, Entry(4, EntryKind.MOVED), WrongKind.LOST),
        (2, Entry(3, EntryKind.END, v=clean().logs["r"][-1].v), WrongKind.DOUBLED),
        (4, Entry(5, EntryKind.MOVED), WrongKind.DOUBLED),
        (3, Entry(4, EntryKind.TEXT, "again", 0), WrongKind.DOUBLED),
        (3, Entry(4, EntryKind.TEXT, RIGHT.text[5:], 6), WrongKind.DOUBLED),
    ],
    ids=["entry dropped", "hole", "second end", "behind the end", "text twice", "gap in the text"],
)
def test_a_wrong_log_is_found(at: int, entry: Entry, what: WrongKind):
    """One entry of the log is another one."""
    facts = clean()
    facts.logs["r"] = [entry if here == at else each for here, each in enumerate(facts.logs["r"])]
    assert what in wrongs(facts)


def test_an_end_that_the_log_tells_otherwise_is_found():
    """The client and the log's last entry must say the same."""
    facts = clean()
    end = msgspec.json.decode(facts.logs["r"][-1].v) | {"reason": "cancelled"}
    facts.logs["r"] = [*facts.logs["r"][:-1], Entry(5, EntryKind.END, v=msgspec.json.encode(end))]
    assert wrongs(facts) == {WrongKind.DOUBLED}


def test_an_event_that_was_trimmed_before_it_was_read_is_not_missing():
    """By the pool's own count it was published."""
    facts = clean()
    facts.events.clear()
    assert facts.events_added == 1
    assert wrongs(facts) == set()


OUTAGE = Outage(lost_from=0.05, at=1.0, back_at=3.0)


def test_a_request_that_redis_forgot_is_excused():
    """Accepted in the time that was lost: it ends log_lost, or it ended and Redis knows nothing of it."""
    for plant in (forget, log_lost):
        facts = clean()
        plant(facts)
        assert wrongs(facts)
        facts.outages = [OUTAGE]
        assert wrongs(facts) == set()


@pytest.mark.parametrize(
    "outage",
    [Outage(0.2, 1.0, 3.0), Outage(-3.0, -2.0, -1.0), Outage(5.0, 6.0, 7.0)],
    ids=["accepted before what was lost", "asked after it", "over before it"],
)
def test_what_redis_knew_may_not_be_forgotten(outage: Outage):
    """The same is a finding where the request was accepted before or after the time that is lost."""
    for plant in (forget, log_lost):
        facts = clean()
        plant(facts)
        facts.outages = [outage]
        assert {WrongKind.LOST, WrongKind.UNBILLED} <= wrongs(facts)


def test_a_forgotten_request_may_not_go_on():
    """It ended log_lost, and its log has an end; or its text is another."""
    facts = clean()
    log = facts.logs["r"]
    log_lost(facts)
    facts.outages = [OUTAGE]
    facts.logs["r"] = log
    assert WrongKind.DOUBLED in wrongs(facts)
    facts = clean()
    facts.outages = [OUTAGE]
    seen(text="x" + RIGHT.text)(facts)
    assert WrongKind.DOUBLED in wrongs(facts)


def test_an_end_that_redis_lost_may_be_published_again():
    """And another worker's end of it is held back; but it is posted once, and only where the end was lost."""
    facts = clean()
    facts.events.append(usage_event(claims=2))
    facts.quarantined.append(("r", "conflicting"))
    facts.outages = [Outage(1.5, 2.5, 3.0)]
    assert wrongs(facts) == set()
    facts.posted.append(facts.posted[0])
    assert wrongs(facts) == {WrongKind.DOUBLE_BILLED}
    facts.posted.pop()
    facts.outages = [Outage(2.1, 2.5, 3.0)]
    assert wrongs(facts) == {WrongKind.DOUBLE_BILLED, WrongKind.UNBILLED}


def test_an_event_may_be_trimmed_unread_around_an_outage():
    """Where the row says that it was there; elsewhere, and without a row, it is missing."""
    facts = clean()
    no_event(facts)
    facts.outages = [Outage(0.2, 0.3, 0.5)]
    assert wrongs(facts) == set()
    facts.outages = [Outage(-0.9, -0.5, -0.2)]
    assert wrongs(facts) == {WrongKind.UNBILLED}
    facts.outages = [Outage(0.2, 0.3, 0.5)]
    facts.posted.clear()
    assert wrongs(facts) == {WrongKind.UNBILLED}


def test_a_log_may_begin_again_once_an_outage():
    """Epoch 2 after one outage, not 3."""
    facts = clean()
    facts.outages = [OUTAGE]
    seen(epoch=2)(facts)
    assert wrongs(facts) == set()
    seen(epoch=3)(facts)
    assert wrongs(facts) == {WrongKind.DOUBLED}


def test_poison_ends_as_poison_and_nothing_else_does():
    """A request that kills its workers ends engine_lost without a word; any other end of it is wrong."""
    facts = clean()
    poison = msgspec.structs.replace(QUESTION, poison=True)
    seen(question=poison)(facts)
    assert wrongs(facts) == {WrongKind.DOUBLED}
    end = {"reason": "error", "usage": {"input": 0, "output": 0}, "cost": {"nano": 0}}
    nothing = {"reason": "error", "input": 0, "output": 0, "cost_nano": 0}
    seen(code="engine_lost", text="", **nothing)(facts)
    row(**nothing)(facts)
    event(reason="error", input_uncached=0, output_text=0, cost_nano=0)(facts)
    sums(input=0, output=0, cost_nano=0)(facts)
    facts.logs["r"] = [Entry(1, EntryKind.RUNNING), Entry(2, EntryKind.END, v=msgspec.json.encode(end))]
    assert wrongs(facts) == set()
    seen(question=QUESTION)(facts)
    assert wrongs(facts) == {WrongKind.LOST}


def test_a_pause_is_from_the_fault_to_the_next_text():
    """Of the last fault that hit the request before its reader heard of it; other moves are not pauses."""
    facts = clean()
    seams = (Seam(10.2, "lost", 10.5), Seam(20.1, "drain", 20.2), Seam(30.1, "lost", None))
    answer = replace(facts.answers[0], seams=seams)
    hits = ((5, "r", False), (10, "r", True), (10.1, "x", False))
    strikes = [DoneFault(at, "kill", "w", frozenset({held}), warm) for at, held, warm in hits]
    assert pauses([answer], strikes) == [(pytest.approx(0.5), True)]
