"""Answers under a budget: what a worker samples, appends and asks for, grant by grant."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from engine.backends.base import Finish, Generation, StepOutput
from engine.queue.types import AppendCode, Appended, Claim
from engine.request import Control, EntryKind
from engine.scheduling.capacity import Capacity
from engine.worker.allowances import AllowanceRequest, Allowances
from engine.worker.claimed_request import ClaimedRequest, ClaimPhase
from engine.worker.continuation import pack_ids
from engine.worker.core import WorkerCore
from engine.worker.worker_calls import WorkerCalls
from tests.engine.builders import FINGERPRINT
from tests.engine.tokens import EOS, ids_of
from tests.engine.worker.claims import a_claim
from tests.engine.workers import LIMITS, PROMPT, open_answer

LONG = "Zażółć 日本語 👩‍👩‍👧 naïve. " * 40
NOW_MS = 1_000_000


@dataclass
class Play:
    """A workload with one answer, the engine's side of it and its log. The engine says `text`, one id a
    step."""

    text: str
    granted: int
    max_tokens: int = 5_000
    stop: tuple[str, ...] = ()
    now_ms: int = NOW_MS
    engine: dict[str, Generation] = field(default_factory=dict[str, Generation])
    asked: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    unparked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    released: list[str] = field(default_factory=list[str])
    logged: list[int] = field(default_factory=list[int])
    shown: str = ""
    offset: int = 2
    end: dict[str, object] | None = None
    claims: int = 0

    def __post_init__(self) -> None:
        self.script = [*ids_of(self.text), EOS]
        self.claim()

    def claim(self) -> None:
        """A worker that knows nothing goes on from the log."""
        self.claims += 1
        capacity = Capacity(slots=4, kv_tokens=100_000, step_tokens=256)
        self.load = WorkerCore("default", FINGERPRINT, capacity, open_answer, LIMITS, 256)
        self.engine, self.asked = {}, []
        fresh = a_claim(max_tokens=self.max_tokens, stop=self.stop, prompt=PROMPT)
        logged = {"n": len(self.logged), "tokens": pack_ids(self.logged), "o": self.offset}
        shown = {"raw": len(self.shown), "visible": len(self.shown), "granted": self.granted}
        names = {"ck": f"ck{self.claims}", "cn": self.claims}
        self.do(self.load.claimed([_changed(fresh, **logged, **shown, **names)], self.now_ms))

    @property
    def answer(self) -> ClaimedRequest | None:
        """The one in hand."""
        found = list(self.load.__dict__["_answers"].values())
        return found[0] if found else None

    def do(self, work: WorkerCalls) -> None:
        """What the worker would do, and the append that follows."""
        for key in work.abort:
            self.engine.pop(key, None)
        for generation in work.submit:
            assert generation.prompt == [*PROMPT, *self.script[: generation.tail_tokens]]
            self.engine[generation.id] = generation
        self.asked += [(ask.key, ask.tokens, ask.after_ms) for ask in work.extend]
        self.unparked += work.unpark
        self.released += [why for *_, why in work.release]
        self.flush()

    def flush(self) -> None:
        """Append what there is."""
        sent = self.load.appends(self.now_ms)
        replies: list[Appended] = []
        for _, append in sent:
            if append.n0 == len(self.logged) and append.o0 == self.offset:
                self.logged += [
                    int.from_bytes(append.tokens[at : at + 4], "little")
                    for at in range(0, len(append.tokens), 4)
                ]
                self.offset += len(append.entries)
                self.shown += "".join(entry.x for entry in append.entries if entry.k is EntryKind.TEXT)
                if append.end is not None:
                    self.end = json.loads(append.entries[-1].v)
            code = AppendCode.ENDED if append.end is not None else AppendCode.OK
            replies.append(Appended(code, len(self.logged), self.offset, Control(0), self.granted))
        if sent:
            self.load.appended(sent, replies, self.now_ms)
        work = self.load.departures()
        self.released += [why for *_, why in work.release]

    def step(self, times: int = 1) -> None:
        """The engine samples; it stops at its own end-of-sequence."""
        for _ in range(times):
            batch: list[StepOutput] = []
            for key, generation in list(self.engine.items()):
                token = self.script[len(generation.prompt) - len(PROMPT)]
                finish = Finish.STOP if token == EOS else None
                self.engine[key] = _longer(generation, token)
                if finish:
                    del self.engine[key]
                batch.append(StepOutput(key, [token], finish, 0, []))
            self.do(self.load.stepped(batch, self.now_ms))

    def grant(self, tokens: int, refused: bool = False) -> None:
        """The reply to the oldest ask."""
        key, _, _ = self.asked.pop(0)
        self.granted = max(self.granted, tokens)
        self.do(self.load.granted(key, tokens, refused))


def _changed(claim: Claim, **changes: object) -> Claim:
    return msgspec.structs.replace(claim, **changes)


def _longer(generation: Generation, token: int) -> Generation:
    return msgspec.structs.replace(generation, prompt=[*generation.prompt, token])


def visible(ids: Sequence[int]) -> str:
    """The characters that these bytes make up wholly."""
    return bytes(id for id in ids if id != EOS).decode(errors="ignore")


@pytest.mark.parametrize("n", [1, 2, 8, 63, 64, 65, 255, 256, 257, 300])
def test_a_refused_answer_ends_at_its_last_granted_token(n: int):
    """What was granted is used to its last token, cut inside a character too, and not
    one more."""
    play = Play(LONG, granted=n)
    play.step(max(0, n - 40))
    play.grant(n, refused=True)
    play.step(100)
    assert play.logged == play.script[:n]
    assert play.shown == visible(play.script[:n])
    assert play.end is not None
    assert (play.end["reason"], play.end["usage"]) == (
        "budget",
        {"input": len(PROMPT), "cached_input": 0, "output": n, "total": len(PROMPT) + n},
    )
    assert not play.engine


def test_nothing_runs_ahead_of_a_grant_for_long():
    """The engine drops who has no grant, and takes it up with all that was sampled, by a new name."""
    play = Play(LONG, granted=10)
    play.step(10 + 64 - 1)
    assert len(play.logged) == 10
    assert play.engine
    play.step()
    assert not play.engine
    assert play.answer is not None
    assert play.answer.phase is ClaimPhase.WAITING
    play.grant(30)
    assert (len(play.logged), play.engine) == (30, {})
    play.grant(200)
    assert len(play.logged) == 10 + 64
    (name,) = play.engine
    assert name == "ck1.1"
    late = StepOutput("ck1", [7], None, 0, [])
    play.do(play.load.stepped([late], play.now_ms))
    play.step(5)
    assert play.logged == play.script[: 15 + 64]


def test_who_is_granted_little_asks_seldom():
    """A budget's last tokens cost a call each 100 ms and answer, not a thousand a second."""
    play = Play(LONG, granted=256)
    play.step(192)
    assert play.asked == [("ck1", 512, 0)]
    play.grant(257)
    play.step()
    assert play.asked == [("ck1", 513, 100)]
    play.grant(600)
    play.step(400)
    assert play.asked == [("ck1", 856, 0)]


def test_it_is_asked_for_64_tokens_before_the_end_of_what_is_granted():
    """Not once all is granted that the answer may have, nor once it is refused."""
    play = Play(LONG, granted=256)
    play.step(191)
    assert play.asked == []
    play.step()
    assert [tokens for _, tokens, _ in play.asked] == [512]
    assert Play(LONG, granted=20, max_tokens=20).asked == []
    assert [tokens for _, tokens, _ in Play(LONG, granted=20, max_tokens=21).asked] == [21]
    refused = Play(LONG, granted=30)
    refused.step(10)
    refused.grant(30, refused=True)
    refused.step(5)
    assert refused.asked == []


def test_whoever_got_all_it_asked_for_is_not_short():
    """Neither is an answer of which nothing was asked."""
    play = Play(LONG, granted=256)
    play.step(192)
    play.grant(512)
    play.step(256)
    assert play.asked == [("ck1", 768, 0)]
    grants = Allowances(256)
    assert grants.answered("ck", 0) is None
    answer = open_answer(_changed(a_claim(max_tokens=5_000), granted=20))
    assert grants.ask(answer) == AllowanceRequest("ck", "t1", "r1", 276, 0)
    assert grants.ask(answer) is None, "once"


def test_who_is_short_stays_so_by_another_name():
    """Only the one that was renamed, and only while it is this worker's."""
    grants, answer = Allowances(256), open_answer(_changed(a_claim(max_tokens=5_000), granted=20))
    for name in ("ck", "other"):
        answer.key = name
        grants.ask(answer)
        grants.answered(name, 21 if name == "ck" else 276)
    grants.renamed("ck", "ck.1")
    grants.renamed("other", "other.1")
    after: dict[str, int] = {}
    for name in ("ck", "ck.1", "other.1"):
        answer.key = name
        found = grants.ask(answer)
        assert found is not None
        after[name] = found.after_ms
    assert after == {"ck": 0, "ck.1": 100, "other.1": 0}
    grants.forget_all(["ck", "ck.1"])
    assert [grants.wanted(name) for name in after] == [False, False, True]
    answer.key = "ck.1"
    found = grants.ask(answer)
    assert found is not None
    assert found.after_ms == 0


def test_only_some_are_kept_of_those_that_wait_in_the_pool():
    """And only those of which something is asked: nobody would bring the others back."""
    grants, answer = Allowances(256), open_answer(_changed(a_claim(max_tokens=5_000), granted=20))
    grants.parked(answer)
    assert grants.leave() == []
    for number in range(4_097):
        answer.key = str(number)
        grants.ask(answer)
        grants.parked(answer)
    grants.forget("0")
    assert grants.wanted("0"), "its reply brings it back"
    assert grants.leave() == [("t1", "r1")] * 4_096
    assert grants.leave() == []


def test_who_waits_for_long_makes_room():
    """The tenant's slot does not answer: the request is parked at its last granted token, not ended; once
    there is an answer it comes back."""
    play = Play(LONG, granted=5)
    play.step(100)
    play.do(play.load.tick(play.now_ms))
    play.now_ms += 5_000 - 1
    play.do(play.load.tick(play.now_ms))
    assert play.released == []
    play.now_ms += 1
    play.do(play.load.tick(play.now_ms))
    assert (play.released, play.answer, len(play.logged)) == (["grant"], None, 5)
    assert play.load.wants_allowance(play.asked[0][0])
    play.grant(300)
    assert play.unparked == [("t1", "r1")]
    play.claim()
    play.step(100)
    assert play.logged == play.script[:105]


def test_a_grant_that_comes_while_it_leaves_takes_it_back_in_line():
    """It is not parked yet: unparking it now would be too early, and then nobody would."""
    play = Play(LONG, granted=5)
    play.step(100)
    play.load.tick(play.now_ms)
    play.load.tick(play.now_ms + 5_000)
    key, _, _ = play.asked.pop(0)
    assert play.load.granted(key, 100, False).unpark == []
    play.flush()
    assert play.released == ["drain"]


def test_a_worker_that_ends_leaves_nothing_parked():
    """Others may ask for it."""
    play = Play(LONG, granted=5)
    play.step(100)
    for now_ms in (play.now_ms, play.now_ms + 5_000):
        play.do(play.load.tick(now_ms))
    assert play.released == ["grant"]
    assert play.load.leave("drain").unpark == [("t1", "r1")]


@pytest.mark.parametrize("how", ["cancel", "deadline", "drain"])
def test_who_waits_can_be_ended_and_given_back(how: str):
    """Waiting for a grant is no hiding place."""
    play = Play(LONG, granted=5)
    play.step(100)
    if how == "cancel":
        play.do(play.load.ordered("t1", "r1", Control.CANCEL))
    elif how == "drain":
        play.do(play.load.leave("drain"))
    else:
        play.now_ms = 1 << 60
        play.do(play.load.tick(play.now_ms))
    ended = None if play.end is None else play.end["reason"]
    assert ended == {"cancel": "cancelled", "deadline": "deadline", "drain": None}[how]
    assert play.released == (["drain"] if how == "drain" else [])
    assert (play.answer, len(play.logged)) == (None, 5)


def test_an_end_that_was_sampled_ahead_counts_once_it_is_granted():
    """The engine is done; the end-of-sequence is not paid for yet. Granted, the answer ends `stop`; refused,
    it ends `budget` before it."""
    for granted, refused, reason in ((20, False, "stop"), (8, True, "budget"), (11, True, "stop")):
        play = Play("0123456789", granted=5)
        play.step(20)
        assert (len(play.logged), play.end) == (5, None)
        play.grant(granted, refused)
        assert play.end is not None
        assert (play.end["reason"], len(play.logged)) == (reason, min(granted, 11))


def test_a_stop_string_behind_the_grant_is_found_when_it_is_granted():
    """The text of it is not shown, whether it was paid for wholly or in part."""
    for refused_at, reason, shown in ((4, "budget", "a ST"), (6, "stop", "a "), (None, "stop", "a ")):
        play = Play("a STOP and more", granted=3, stop=("STOP",))
        play.step(30)
        play.grant(refused_at or 100, refused=refused_at is not None)
        assert play.end is not None
        assert (play.end["reason"], play.shown) == (reason, shown)


@pytest.mark.parametrize("seed", range(60))
def test_any_course_of_grants_gives_the_same_text(seed: int):
    """INV-30: Grants of any size, late replies, takeovers at any moment: the log is a prefix of what an
    unlimited answer says, never beyond the grant, and exactly the grant where it ends `budget`."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    stop = ("👩‍👧",) if dice.random() < 0.3 else ()
    text = LONG[: dice.randrange(1, 400)]
    play = Play(text, granted=dice.choice((1, 5, 64, 256)), stop=stop)
    for _ in range(3_000):
        if play.end is not None:
            break
        chance = dice.random()
        if chance < 0.02:
            play.claim()
        elif chance < 0.3 and play.asked:
            more = dice.choice((1, 1, 2, 7, 64, 256))
            tokens = max(play.granted, len(play.logged)) + more * (dice.random() < 0.9)
            play.grant(tokens, refused=dice.random() < 0.05)
        else:
            play.step(dice.choice((1, 1, 3, 70)))
        assert play.logged == play.script[: len(play.logged)]
        assert len(play.logged) <= play.granted
    assert play.end is not None
    if play.end["reason"] == "budget":
        assert len(play.logged) == play.granted
        assert play.shown == visible(play.logged)
    else:
        assert play.end["reason"] == "stop"
