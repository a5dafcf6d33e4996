"""Answers under a safety policy: what is logged is a function of the ids, whoever writes which part of it."""

import json
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest

from chaos.bench.safety.documents import document, json_document
from chaos.bench.safety.oracle import vetted
from engine.backends.base import StepOutput
from engine.grammar.response_format import checked_format
from engine.queue.types import Append, Claim
from engine.request import EndReason, Entry, EntryKind, input_decoder, input_encoder
from engine.safety import cpu_budget
from engine.safety.answer_views import view_for
from engine.safety.documents import DEFAULT_POLICY, PolicyDetector, PolicyDocument, PolicyPattern, policy_hash
from engine.safety.filter import Filter
from engine.safety.policy import BuiltInPolicies, compiled
from engine.safety.verdicts import Flag
from engine.scheduling.capacity import Capacity
from engine.worker.claimed_request import ClaimedRequest, UnreadableClaimError
from engine.worker.continuation import ModelLimits, ids_from, pack_ids
from engine.worker.core import WorkerCore
from engine.worker.waiting_claims import MissingPolicyError
from tests.engine.builders import FINGERPRINT, START_MS
from tests.engine.safety.filters import shown
from tests.engine.tokens import EOS, ids_of
from tests.engine.worker.claims import a_claim
from tests.engine.workers import TOKENIZER
from tests.support.tiers import by_form

CARD = "4111 1111 1111 1111"
KEY = "AKIAIOSFODNN7EXAMPLE"
DOCUMENTS = by_form(150, 500)
ANY_OBJECT = checked_format({"type": "json_object"})
LIMITS = ModelLimits((EOS,), 10**6)


class Policies(BuiltInPolicies):
    """The default policy, one that blocks keys, and one whose matches overlap."""

    BLOCKING = PolicyDocument((PolicyDetector("api_key", "block"), PolicyDetector("email", "flag")))
    CHAINED = PolicyDocument(
        patterns=(PolicyPattern("link", "<a<", "redact"), PolicyPattern("end", "<KEY", "block"))
    )

    def __init__(self) -> None:
        super().__init__()
        self.blocking = policy_hash(self.BLOCKING)
        self._compiled[self.blocking] = compiled(self.BLOCKING)
        self.chained = policy_hash(self.CHAINED)
        self._compiled[self.chained] = compiled(self.CHAINED)


POLICIES = Policies()


@dataclass
class AnswerLog:
    """What Redis has of one answer."""

    policy: str = DEFAULT_POLICY
    sampling: dict[str, Any] = field(default_factory=dict[str, Any])
    ids: list[int] = field(default_factory=list[int])
    entries: list[Entry] = field(default_factory=list[Entry])
    raw: int = 0
    visible: int = 0
    answer: ClaimedRequest = field(init=False)

    def __post_init__(self) -> None:
        self.take_over()

    def claim(self) -> Claim:
        """As the next worker gets it."""
        claim = a_claim(max_tokens=100_000, **self.sampling)
        request = msgspec.structs.replace(input_decoder.decode(claim.input), policy=self.policy)
        return msgspec.structs.replace(
            claim,
            input=input_encoder.encode(request),
            tokens=pack_ids(self.ids),
            n=len(self.ids),
            o=len(self.entries),
            raw=self.raw,
            visible=self.visible,
            cn=2 if self.ids else 1,
            granted=100_000,
        )

    def take_over(self) -> None:
        """Another worker claims it."""
        self.answer = ClaimedRequest(self.claim(), TOKENIZER, LIMITS, 16 * 1024, POLICIES)

    def flush(self) -> None:
        """Append what the log lacks."""
        if append := self.answer.append("default", 9):
            self.commit(append)

    def commit(self, append: Append) -> None:
        """As append.lua does."""
        assert (append.n0, append.o0) == (len(self.ids), len(self.entries))
        self.ids += ids_from(append.tokens)
        self.entries += append.entries
        self.raw, self.visible = append.raw, append.visible
        self.answer.appended(append)

    def say(self, text: str) -> bool:
        """Sample this text; False where the answer ended in it."""
        self.answer.take(ids_of(text), 0, 1)
        return self.settle()

    def settle(self) -> bool:
        """End the answer where it is complete, as the worker's core does."""
        if reason := self.answer.completed():
            self.answer.end(reason)
        return reason is None

    @property
    def text(self) -> str:
        """The visible text of the log."""
        return "".join(entry.x for entry in self.entries if entry.k is EntryKind.TEXT)

    @property
    def flags(self) -> list[Flag]:
        """The flags of the log."""
        found = [entry.v for entry in self.entries if entry.k is EntryKind.FLAGGED]
        return sorted((msgspec.json.decode(each, type=Flag) for each in found), key=lambda flag: flag.p)

    @property
    def end(self) -> dict[str, object]:
        """The payload of the end."""
        assert self.entries[-1].k is EntryKind.END
        return json.loads(self.entries[-1].v)


def a_core(log: AnswerLog) -> tuple[WorkerCore, str]:
    """A worker's core that has claimed this answer, and the answer's name in the engine."""
    capacity = Capacity(slots=4, kv_tokens=10_000, step_tokens=256)

    def opened(claim: Claim) -> ClaimedRequest:
        return ClaimedRequest(claim, TOKENIZER, LIMITS, 16 * 1024, POLICIES)

    core = WorkerCore("default", FINGERPRINT, capacity, opened, LIMITS, 256)
    core.claimed([log.claim()], START_MS)
    [key] = core.generating
    return core, key


def course(log: AnswerLog, text: str, random: Random) -> None:
    """The whole answer, flushed and lost to other workers by chance; what no log had is sampled again."""
    ids = [*ids_of(text), EOS]
    going = True
    while going:
        log.answer.take([ids[len(log.answer.ids)]], 0, 1)
        going = log.settle()
        if not going or random.random() < 0.3:
            log.flush()
        if going and random.random() < 0.1:
            log.take_over()
            assert log.answer.completed() is None, log.answer.failure


def test_any_flush_and_any_takeover_leave_the_same_log():
    """INV-41: Random answers are what the definition makes of their text, whoever wrote which part."""
    policy = POLICIES.compiled(DEFAULT_POLICY)
    rules = [*policy.vetoes.rules, *policy.flags.rules]
    for seed in range(DOCUMENTS):
        random = Random(seed)
        text = document(random)
        log = AnswerLog()
        course(log, text, random)
        wanted = vetted(text, rules)
        assert log.text == wanted.text, seed
        assert log.flags == sorted(wanted.flags, key=lambda flag: flag.p), seed
        assert log.end["reason"] == "stop"


def test_json_answers_stay_json_over_takeovers():
    """With a shape the filter sees strings; what it lets through whole is JSON."""
    for seed in range(DOCUMENTS // 5):
        random = Random(seed)
        text = json_document(random)
        log = AnswerLog(sampling={"response_format": ANY_OBJECT})
        course(log, text, random)
        whole = Filter(POLICIES.compiled(DEFAULT_POLICY), view_for(ANY_OBJECT))
        assert log.text == shown(whole.feed(text, final=True)), seed
        assert log.end["reason"] == ("blocked" if whole.blocked else "stop")
        if not whole.blocked:
            json.loads(log.text)


def test_a_redaction_is_logged_behind_its_text():
    """Placeholder, then its flag; no entry, end or event has the card."""
    log = AnswerLog()
    log.say(f"Pay with {CARD} now. ")
    log.flush()
    assert [(entry.k, entry.x) for entry in log.entries] == [
        (EntryKind.TEXT, "Pay with [CARD_1]"),
        (EntryKind.FLAGGED, ""),
        (EntryKind.TEXT, " now. "),
    ]
    assert log.flags == [Flag("card", "redact", "platform", 9, 8)]
    log.say("\x00" + "bob@example.com ")
    log.answer.take([EOS], 0, 1)
    log.settle()
    log.flush()
    assert log.answer.event is not None
    assert log.answer.event.verdicts == {"card": {"redact": 1}, "email": {"flag": 1}}
    assert CARD[:9].encode() not in b"".join(entry.v for entry in log.entries)


def test_a_block_ends_the_answer_and_bills_what_was_shown():
    """Reason, code, whose rule; the ids whose text was released are billed, what was sampled after is not."""
    log = AnswerLog(POLICIES.blocking)
    assert not log.say(f"The key is {KEY}, and more")
    log.flush()
    assert log.text == "The key is "
    assert log.end["reason"] == "blocked"
    assert log.end["code"] == "safety_blocked"
    assert log.end["safety"] == {"category": "api_key", "scope": "platform"}
    assert log.answer.event is not None
    assert log.answer.event.output_text == len("The key is ")
    assert log.answer.event.verdicts == {"api_key": {"block": 1}}
    assert log.answer.unbilled == len(KEY + ",")


@pytest.mark.parametrize("links", [1, 40])
def test_what_a_chain_of_matches_held_is_counted(links: int):
    """Each begins in the one before, so all are one span: a block at its end shows and bills nothing of it.
    An answer that ends another way bills all."""
    log = AnswerLog(POLICIES.chained)
    log.say("so ")
    assert log.say("<" + "a<" * links)
    assert log.answer.held == 1 + 2 * links
    assert not log.say("KEY.")
    log.flush()
    assert (log.text, log.end["reason"]) == ("so ", "blocked")
    assert log.answer.event is not None
    assert (log.answer.event.output_text, log.answer.unbilled) == (3, len(log.answer.ids) - 3)
    other = AnswerLog(POLICIES.chained)
    other.say("so <a<a<")
    other.answer.end(EndReason.STOP)
    other.flush()
    assert other.answer.unbilled == 0


def test_the_engine_stops_in_the_step_that_blocks():
    """Its generation is aborted with the same call, and what it brings late is in no log."""
    core, key = a_core(AnswerLog(POLICIES.blocking))
    assert core.stepped([StepOutput(key, ids_of(f"A key: {KEY[:-1]}"), None, 0)], START_MS).abort == []
    assert core.stepped([StepOutput(key, ids_of(f"{KEY[-1]} "), None, 0)], START_MS).abort == [key]
    core.stepped([StepOutput(key, ids_of("late"), None, 0)], START_MS)
    [(_, append)] = core.appends(START_MS)
    assert [entry.x for entry in append.entries] == ["A key: ", ""]


def test_a_filter_that_fails_is_told_to_operators(monkeypatch: pytest.MonkeyPatch):
    """Once, with the claim and a reason without text."""
    core, key = a_core(AnswerLog())

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret text")

    monkeypatch.setattr(Filter, "feed", broken)
    work = core.stepped([StepOutput(key, ids_of("hi"), None, 0)], START_MS)
    assert [why for _, why in work.unfiltered] == [
        f"RuntimeError while filtering under policy {DEFAULT_POLICY}"
    ]
    assert work.abort == [key]


@pytest.mark.parametrize("reason", [EndReason.STOP, EndReason.LENGTH, EndReason.BUDGET])
def test_what_is_held_at_a_proper_end_is_decided(reason: EndReason):
    """A card whose last digit came last is replaced; a key there blocks, and the reason says so."""
    log = AnswerLog()
    log.say(CARD)
    log.answer.end(reason)
    log.flush()
    assert (log.text, log.end["reason"]) == ("[CARD_1]", reason.value)
    blocked = AnswerLog(POLICIES.blocking)
    blocked.say("see AKIAIOSFODNN7EXAMPL")
    blocked.answer.take(ids_of("E"), 0, 1)
    blocked.answer.end(reason)
    blocked.flush()
    assert (blocked.text, blocked.end["reason"]) == ("see ", "blocked")


@pytest.mark.parametrize("reason", [EndReason.CANCELLED, EndReason.DEADLINE, EndReason.ERROR])
def test_what_is_held_at_another_end_is_lost(reason: EndReason):
    """As it is where no worker is left to decide: 14 digits of a card are not shown."""
    log = AnswerLog()
    log.say("Card 4111 1111 1111 11")
    log.answer.end(reason)
    log.flush()
    assert (log.text, log.end["reason"]) == ("Card ", reason.value)


def test_a_block_is_found_by_whoever_completes_it():
    """Taken over in mid-key, the next worker blocks at the same place."""
    log = AnswerLog(POLICIES.blocking)
    log.say(f"The key is {KEY[:9]}")
    log.flush()
    assert log.text == "The key is "
    log.take_over()
    assert not log.say(f"{KEY[9:]}.")
    log.flush()
    assert (log.text, log.end["reason"]) == ("The key is ", "blocked")


def test_a_log_that_another_filter_wrote_ends_typed():
    """Counters that the replay does not reach: nothing more is shown, and the answer ends `internal`."""
    log = AnswerLog()
    log.say(f"Pay with {CARD} now. ")
    log.flush()
    log.visible += 1
    log.take_over()
    assert log.answer.completed() is EndReason.ERROR
    log.settle()
    log.flush()
    assert (log.end["reason"], log.end["code"]) == ("error", "internal")


def test_a_text_that_takes_too_much_cpu_ends_its_answer(monkeypatch: pytest.MonkeyPatch):
    """Typed, with the policy told to operators: the last line behind what is refused as a policy is saved."""
    monkeypatch.setattr(cpu_budget, "CHEAP_CLOCK", time.thread_time)
    log = AnswerLog()
    log.say("well ")
    monkeypatch.setattr(cpu_budget, "SECONDS_MIN", -1)
    assert not log.say("and bad")
    assert log.answer.failure == f"FilterTooDearError while filtering under policy {DEFAULT_POLICY}"
    log.flush()
    assert (log.text, log.end["reason"], log.end["code"]) == ("well ", "error", "internal")


def test_a_filter_that_throws_ends_its_answer_alone(monkeypatch: pytest.MonkeyPatch):
    """Nothing after the fault is shown, and the reason is told without text."""
    log = AnswerLog()
    log.say("well ")

    def broken(*_: object, **__: object) -> None:
        raise ValueError("secret text")

    monkeypatch.setattr(Filter, "feed", broken)
    assert not log.say("and bad")
    assert log.answer.failure == f"ValueError while filtering under policy {DEFAULT_POLICY}"
    log.flush()
    assert (log.text, log.end["reason"], log.end["code"]) == ("well ", "error", "internal")


@pytest.mark.parametrize("policy", ["0" * 64, "no hash"])
def test_an_unknown_policy_is_never_ignored(policy: str):
    """A worker that does not know it takes no step before it is loaded."""
    with pytest.raises(MissingPolicyError, match=policy):
        AnswerLog(policy)


def test_stop_strings_come_before_the_filter():
    """A stop string in mid-card ends the answer with what is before it."""
    log = AnswerLog(sampling={"stop": ("1111 1",)})
    assert not log.say(CARD)
    log.flush()
    assert (log.text, log.end["reason"]) == ("4111 ", "stop")


def test_a_shape_that_nobody_can_read_ends_the_claim():
    """Not unfiltered, and not as plain text."""
    with pytest.raises(UnreadableClaimError, match="no filter"):
        AnswerLog(sampling={"response_format": "{}"})
