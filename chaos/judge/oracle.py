"""Judges a chaos run from its facts: every answer whole and billed once, nothing left behind. Pure.

What an answer must say is computed here a second time, from the question and the engine's seed alone: from
the chat template's bytes, not from the product's renderer, and with no seam in it.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from chaos.bench.safety.oracle import default_rules, vetted
from chaos.injected.secrets import MARK, OFTEN, SECRETS, secret_next
from chaos.judge.allowed_losses import ended_forgotten, forgotten, suffered
from chaos.judge.bills import judge_bills
from chaos.observations import Answered, Finding, Observations, WorkloadRequest, WrongKind
from engine.api import Entry, EntryKind, visible_text

EOS, BEGIN = 256, 257  # the special tokens of the benchmarks' byte model, behind its 256 bytes
PLAIN = range(32, 127)  # what the scripted engine may say: the printable characters of ASCII


@dataclass(frozen=True)
class ExpectedAnswer:
    """What an answer of the scripted engine must be."""

    text: str
    reason: str
    input: int
    output: int


def expected(question: WorkloadRequest, seed: int, secrets: bool = False) -> ExpectedAnswer:
    """The uninterrupted answer; with secrets in it as the safety policy's definition shows it."""
    told = _said(question, seed, secrets)
    return replace(told, text=vetted(told.text, default_rules()).text) if secrets else told


def _said(question: WorkloadRequest, seed: int, secrets: bool) -> ExpectedAnswer:
    head = [BEGIN, *b"user\n", *question.content.encode(), EOS, *b"\n", BEGIN, *b"assistant\n"]
    check = zlib.crc32(struct.pack(f"<{len(head)}I", *head), seed)
    said = ""
    for _ in range(question.max_tokens):
        token = PLAIN[check % len(PLAIN)]
        if secrets:
            token = _with_secrets([*head, *said.encode()], token)
        check = zlib.crc32(struct.pack("<I", token), check)
        said += chr(token)
        if found := [stop for stop in question.stop if said.endswith(stop)]:
            cut = max(len(stop) for stop in found)
            return ExpectedAnswer(said[:-cut], "stop", len(head), len(said))
    return ExpectedAnswer(said, "length", len(head), len(said))


def _with_secrets(context: list[int], otherwise: int) -> int:
    begun = secret_next(context, ord(MARK), [list(each.encode()) for each in SECRETS])
    if begun is not None:
        return begun
    check = zlib.crc32(struct.pack(f"<{len(context)}I", *context))
    return ord(MARK) if check % OFTEN == 0 else otherwise


def judge(facts: Observations, scripted: bool = True) -> list[Finding]:
    """All that is wrong. `scripted`: what answers must say is known beforehand."""
    found: list[Finding] = []
    for answer in (answer for answer in facts.answers if not answer.refused):
        log = facts.logs.get(answer.id)
        if ended_forgotten(answer, facts.outages):
            found += judge_forgotten(answer, log)
            continue
        found += judge_text(
            answer, expected(answer.question, facts.seed, facts.secrets) if scripted else None
        )
        if log is not None or not forgotten(answer, facts.outages):
            found += judge_log(answer, log)
        found += judge_epoch(answer, suffered(answer, facts.outages))
    if wrong := facts.counters.get("mismatched", 0):
        found.append(
            Finding(WrongKind.DOUBLED, "", f"{wrong} answers did not have their hash at first reading")
        )
    found += judge_bills(facts)
    found += [Finding(WrongKind.LEAKED, "", place) for place in facts.leaks]
    return found + [Finding(WrongKind.LEFT, "", leftover) for leftover in facts.leftovers]


def judge_forgotten(answer: Answered, entries: Sequence[Entry] | None) -> Iterable[Finding]:
    """One that ended so is over: no log of it ends in another way."""
    if entries and entries[-1].k is EntryKind.END:
        yield Finding(WrongKind.DOUBLED, answer.id, f"ended {answer.code}, and its log has an end")


def judge_text(answer: Answered, right: ExpectedAnswer | None) -> Iterable[Finding]:
    """What the client read, beside its hash and beside what it must be."""
    if answer.problem:
        yield Finding(WrongKind.LOST, answer.id, answer.problem)
        return
    if answer.question.poison:
        if (answer.reason, answer.code, answer.text) != ("error", "engine_lost", ""):
            detail = f"poison ended {answer.reason} {answer.code} with {len(answer.text)} characters"
            yield Finding(WrongKind.DOUBLED, answer.id, detail)
        return
    if answer.reason not in ("stop", "length"):
        yield Finding(WrongKind.LOST, answer.id, f"ended {answer.reason} {answer.code}")
        return
    if not answer.verified:
        yield Finding(WrongKind.DOUBLED, answer.id, "the text does not have its hash")
    if right is None:
        return
    if answer.text != right.text:
        what = WrongKind.LOST if right.text.startswith(answer.text) else WrongKind.DOUBLED
        at = next((i for i, (a, b) in enumerate(zip(answer.text, right.text, strict=False)) if a != b), None)
        where = f"differs at {at}" if at is not None else "is cut or goes on"
        yield Finding(what, answer.id, f"text of {len(answer.text)} for {len(right.text)} characters {where}")
        return
    told = (answer.reason, answer.input, answer.output)
    if told != (right.reason, right.input, right.output):
        detail = f"{told} for {(right.reason, right.input, right.output)}"
        yield Finding(WrongKind.DOUBLED, answer.id, f"reason or counts: {detail}")


def judge_log(answer: Answered, entries: Sequence[Entry] | None) -> Iterable[Finding]:
    """Offsets dense from 1, text without a gap, one end and nothing behind it (INV-2, INV-5)."""
    if entries is None:
        yield Finding(WrongKind.LOST, answer.id, "there is no log")
        return
    if [entry.o for entry in entries] != list(range(1, len(entries) + 1)):
        yield Finding(WrongKind.LOST, answer.id, "the log's offsets are not dense")
    ends = [entry.o for entry in entries if entry.k is EntryKind.END]
    if ends != [len(entries)]:
        yield Finding(WrongKind.DOUBLED, answer.id, f"ends at {ends} in a log of {len(entries)} entries")
    position = 0
    for entry in entries:
        if entry.k is EntryKind.TEXT:
            if entry.p != position:
                yield Finding(
                    WrongKind.DOUBLED, answer.id, f"entry {entry.o} is at {entry.p}, not {position}"
                )
            position = entry.p + len(entry.x)
    if answer.problem:
        return
    if visible_text(list(entries)) != answer.text:
        yield Finding(WrongKind.DOUBLED, answer.id, "the client's text is not the log's")
    told = (answer.reason, answer.input, answer.output, answer.cost_nano)
    if ends and (logged := _end_of(entries[ends[-1] - 1])) != told:
        yield Finding(
            WrongKind.DOUBLED, answer.id, f"the log's end says {logged}, the client was told {told}"
        )


def judge_epoch(answer: Answered, outages: int) -> Iterable[Finding]:
    """A log begins again only where Redis was gone while the request was open (INV-7)."""
    if answer.epoch - 1 > outages:
        yield Finding(WrongKind.DOUBLED, answer.id, f"epoch {answer.epoch} after {outages} outages")


def _end_of(entry: Entry) -> tuple[str, int, int, int]:
    end: dict[str, Any] = msgspec.json.decode(entry.v)
    return end["reason"], end["usage"]["input"], end["usage"]["output"], end["cost"]["nano"]
