"""Judges a chaos run from its facts: every answer whole and billed once, nothing left behind. Pure.

What an answer must say is computed here a second time, from the question and the engine's seed alone: from
the chat template's bytes, not from the product's renderer, and with no seam in it.
"""

import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from chaos.facts import Answered, Facts, Posted, Question
from engine.api import Entry, EntryKind, visible_text

EOS, BEGIN = 256, 257  # the special tokens of the benchmarks' byte model, behind its 256 bytes
PLAIN = range(32, 127)  # what the scripted engine may say: the printable characters of ASCII


class Wrong(StrEnum):
    """What can be wrong with a request. `lost`: it did not come to its end whole; `doubled`: its text or its
    log says something twice or something else."""

    LOST = "lost"
    DOUBLED = "doubled"
    UNBILLED = "unbilled"
    DOUBLE_BILLED = "double-billed"
    LEFT = "left behind"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `request` is empty where it is about the whole run."""

    what: Wrong
    request: str
    detail: str


@dataclass(frozen=True)
class Expected:
    """What an answer of the scripted engine must be."""

    text: str
    reason: str
    input: int
    output: int


def expected(question: Question, seed: int) -> Expected:
    """The uninterrupted answer."""
    head = [BEGIN, *b"user\n", *question.content.encode(), EOS, *b"\n", BEGIN, *b"assistant\n"]
    check = zlib.crc32(struct.pack(f"<{len(head)}I", *head), seed)
    said = ""
    for _ in range(question.max_tokens):
        token = PLAIN[check % len(PLAIN)]
        check = zlib.crc32(struct.pack("<I", token), check)
        said += chr(token)
        if found := [stop for stop in question.stop if said.endswith(stop)]:
            cut = max(len(stop) for stop in found)
            return Expected(said[:-cut], "stop", len(head), len(said))
    return Expected(said, "length", len(head), len(said))


def judge(facts: Facts, scripted: bool = True) -> list[Finding]:
    """All that is wrong. `scripted`: what answers must say is known beforehand."""
    events = Counter((event.tenant, event.request) for event in facts.events)
    posted = {(row.tenant, row.request): row for row in facts.posted}
    found: list[Finding] = []
    for answer in (answer for answer in facts.answers if not answer.refused):
        key = (answer.tenant, answer.id)
        found += judge_text(answer, expected(answer.question, facts.seed) if scripted else None)
        found += judge_log(answer, facts.logs.get(answer.id))
        found += judge_billing(answer, events[key], posted.get(key))
    if wrong := facts.counters.get("mismatched", 0):
        found.append(Finding(Wrong.DOUBLED, "", f"{wrong} answers did not have their hash at first reading"))
    found += judge_strangers(facts)
    found += judge_sums(facts)
    found += [Finding(Wrong.LEFT, "", leftover) for leftover in facts.leftovers]
    found += [Finding(Wrong.UNBILLED, "", f"quarantined: {each}") for each in facts.quarantined]
    return found


def judge_text(answer: Answered, right: Expected | None) -> Iterable[Finding]:
    """What the client read, beside its hash and beside what it must be."""
    if answer.problem:
        yield Finding(Wrong.LOST, answer.id, answer.problem)
        return
    if answer.reason not in ("stop", "length"):
        yield Finding(Wrong.LOST, answer.id, f"ended {answer.reason} {answer.code}")
        return
    if not answer.verified:
        yield Finding(Wrong.DOUBLED, answer.id, "the text does not have its hash")
    if right is None:
        return
    if answer.text != right.text:
        what = Wrong.LOST if right.text.startswith(answer.text) else Wrong.DOUBLED
        at = next((i for i, (a, b) in enumerate(zip(answer.text, right.text, strict=False)) if a != b), None)
        where = f"differs at {at}" if at is not None else "is cut or goes on"
        yield Finding(what, answer.id, f"text of {len(answer.text)} for {len(right.text)} characters {where}")
        return
    told = (answer.reason, answer.input, answer.output)
    if told != (right.reason, right.input, right.output):
        detail = f"{told} for {(right.reason, right.input, right.output)}"
        yield Finding(Wrong.DOUBLED, answer.id, f"reason or counts: {detail}")


def judge_log(answer: Answered, entries: Sequence[Entry] | None) -> Iterable[Finding]:
    """Offsets dense from 1, text without a gap, one end and nothing behind it (INV-2, INV-5)."""
    if entries is None:
        yield Finding(Wrong.LOST, answer.id, "there is no log")
        return
    if [entry.o for entry in entries] != list(range(1, len(entries) + 1)):
        yield Finding(Wrong.LOST, answer.id, "the log's offsets are not dense")
    ends = [entry.o for entry in entries if entry.k is EntryKind.END]
    if ends != [len(entries)]:
        yield Finding(Wrong.DOUBLED, answer.id, f"ends at {ends} in a log of {len(entries)} entries")
    position = 0
    for entry in entries:
        if entry.k is EntryKind.TEXT:
            if entry.p != position:
                yield Finding(Wrong.DOUBLED, answer.id, f"entry {entry.o} is at {entry.p}, not {position}")
            position = entry.p + len(entry.x)
    if not answer.problem and visible_text(list(entries)) != answer.text:
        yield Finding(Wrong.DOUBLED, answer.id, "the client's text is not the log's")


def judge_billing(answer: Answered, events: int, row: Posted | None) -> Iterable[Finding]:
    """One usage event, one row, and it says what the client was told (INV-6, INV-9, INV-10).

    An event that was posted and trimmed before it was read here is no finding."""
    if row is None:
        missing = "its usage event was not posted" if events else "no usage event"
        yield Finding(Wrong.UNBILLED, answer.id, missing)
        return
    if events > 1:
        yield Finding(Wrong.DOUBLE_BILLED, answer.id, f"{events} usage events")
    if answer.ended_at is None:
        return
    told = (answer.reason, answer.input, answer.output, answer.cost_nano)
    billed = (row.reason, row.input, row.output, row.cost_nano)
    if told != billed:
        what = Wrong.DOUBLE_BILLED if billed[1:] > told[1:] else Wrong.UNBILLED
        yield Finding(what, answer.id, f"billed {billed}, told {told}")


def judge_strangers(facts: Facts) -> Iterable[Finding]:
    """Nothing is billed that nobody asked for."""
    asked = {(answer.tenant, answer.id) for answer in facts.answers}
    for row in facts.posted:
        if (row.tenant, row.request) not in asked:
            yield Finding(Wrong.DOUBLE_BILLED, row.request, "billed, and nobody asked it")


def judge_sums(facts: Facts) -> Iterable[Finding]:
    """The tenants' slots counted what the rows say, each request once."""
    for tenant, sums in facts.settled.items():
        rows = [row for row in facts.posted if row.tenant == tenant]
        billed = (len(rows), sum(r.input for r in rows), sum(r.output for r in rows))
        counted = (sums.requests, sums.input, sums.output)
        if billed != counted:
            what = Wrong.DOUBLE_BILLED if counted > billed else Wrong.UNBILLED
            yield Finding(what, "", f"the slot of {tenant} counted {counted}, rows say {billed}")
