"""One claimed request in a worker: sampled ids, how much of them is in the log, and how it ends or leaves.
Pure.

Everything here follows from the ids. Nothing counts as logged before an append was answered, so what Redis
has lost can be appended again.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum, auto
from itertools import groupby
from typing import ParamSpec, Protocol

import msgspec
from tokenizers import Tokenizer

from billing import usage
from billing.usage import PhaseKind, UsageEvent
from core.redis.unreadable import Unreadable, read
from engine.lifecycle.finish import EndFacts, end_payload
from engine.queue.phases import KnownPhases
from engine.queue.request_log import text_pieces
from engine.queue.types import Append, Appended, Claim, ReleaseWhy
from engine.request import EndReason, Entry, EntryKind, RequestInput, input_decoder
from engine.safety.answer_views import view_for
from engine.safety.filter import Filter
from engine.safety.policy import UNFILTERED, CompiledPolicy, UnknownPolicyError
from engine.scheduling.capacity import AnswerLoad
from engine.text.transcript import Released, Transcript
from engine.worker.continuation import ModelLimits, completed, ids_from, pack_ids
from engine.worker.waiting_claims import MissingPolicyError

P = ParamSpec("P")
# Ends at which what was held back is text like any other. At others it is lost, with a worker or without.
WENT_ITS_WAY = (EndReason.STOP, EndReason.LENGTH, EndReason.BUDGET)


class KnownPolicies(Protocol):
    """Safety policies that are compiled."""

    def compiled(self, hash: str) -> CompiledPolicy:
        """Raises UnknownPolicyError where it has to be loaded."""
        ...


class UnreadableClaimError(Exception):
    """A claim that cannot be decoded, or whose answer cannot be filtered, so that this worker cannot go on
    with it. The message holds no text."""


class ClaimPhase(Enum):
    """RUNNING: the engine samples ids. WAITING: it left the engine until more is granted. ENDING: its end is
    to be logged. LEAVING: it goes back to the queue once all is logged."""

    RUNNING = auto()
    WAITING = auto()
    ENDING = auto()
    LEAVING = auto()


class ClaimedRequest:
    """One claim's state. `key` is its name in the engine, `ids` every id of the answer from its first, as far
    as it is granted; ids sampled beyond that are `ahead`, in no text and in no log. `final`: nothing more
    will be granted. `failure`: what went wrong with the filter, so that it ends. Raises
    UnreadableClaimError; MissingPolicyError where its policy has to be loaded first."""

    def __init__(
        self,
        claim: Claim,
        tokenizer: Tokenizer,
        limits: ModelLimits,
        entry_bytes_max: int,
        policies: KnownPolicies,
    ) -> None:
        self.claim = claim
        self.key = claim.ck
        self.request, self.prompt, logged = _read(claim)
        self.ids: list[int] = []
        self.phase = ClaimPhase.RUNNING
        self.why: ReleaseWhy = "drain"
        self.event: UsageEvent | None = None
        self.granted = max(claim.granted, claim.n)  # what is in the log was granted
        self.final = False
        self.ahead: list[int] = []
        self._waiting_since_ms: int | None = None
        self.prefilling = True
        self._finished: EndReason | None = None  # the engine's reason for the end of `ahead`
        self._submissions = 0
        self._limits = limits
        self._entry_bytes_max = entry_bytes_max
        self.failure = ""
        self._filter = _filter_for(self.request, policies)
        self._transcript = Transcript(tokenizer, self.prompt, self.request.sampling, self._filter)
        self._cached: int | None = None
        self.first_token_ms = claim.first_token_ms
        self._phases = KnownPhases(claim.phases, self.request.accepted_ms)
        self.gaps_ms: list[int] = []  # between its tokens, as far as nobody counted them
        self._sampled_ms = 0
        self._fresh: Released = []  # visible text and flags that no entry holds yet
        self._entries: list[Entry] = []  # every entry made here, those after offset claim.o
        self._position = claim.visible  # end of the text that entries hold
        self._logged_n, self._logged_o = claim.n, claim.o
        self._end: tuple[EndReason, str] | None = None
        self._replay(logged)

    def completed(self) -> EndReason | None:
        """The reason why the answer is complete, None where it is not."""
        if self.failure:
            return EndReason.ERROR
        if self._transcript.blocked:
            return EndReason.BLOCKED
        sampling, stopped = self.request.sampling, self._transcript.stopped
        if reason := completed(sampling, len(self.prompt), self.ids, stopped, self._limits):
            return reason
        if self._finished is not None and not self.ahead:
            return self._finished
        return EndReason.BUDGET if self.final and len(self.ids) >= self.granted else None

    @property
    def open(self) -> bool:
        """True while it goes on, in the engine or once more is granted."""
        return self.phase in (ClaimPhase.RUNNING, ClaimPhase.WAITING)

    @property
    def load(self) -> AnswerLoad:
        """What it takes of the engine's room."""
        return AnswerLoad(
            tenant=self.claim.tenant,
            prompt_tokens=len(self.prompt),
            tokens=len(self.ids),
            max_tokens=self.request.sampling.max_tokens,
            granted=self.granted,
            prefilling=self.prefilling,
        )

    @property
    def sampled(self) -> int:
        """Number of sampled ids, those that nobody has granted too."""
        return len(self.ids) + len(self.ahead)

    def take(self, ids: Sequence[int], cached: int, now_ms: int, finished: EndReason | None = None) -> None:
        """Take the ids of one step; those after the answer's end are dropped. `finished`: the reason why the
        engine samples no more."""
        if self.prefilling:
            self._phases.begin(PhaseKind.DECODE, now_ms)
        self.prefilling = False
        if self._cached is None:
            self._cached = cached
        self.first_token_ms = self.first_token_ms or now_ms
        if self._sampled_ms and ids:
            self.gaps_ms.append(now_ms - self._sampled_ms)
        self._sampled_ms = now_ms
        self.ahead += ids[: self.request.sampling.max_tokens - self.sampled]
        self._finished = finished
        self._advance()

    def grant(self, tokens: int, final: bool) -> None:
        """Allow `tokens` ids in all. `final`: never more."""
        if tokens > self.granted:
            self.granted, self._waiting_since_ms = tokens, None
        self.final = self.final or final
        self._advance()

    def wait(self) -> None:
        """Wait for a grant; the engine has dropped it."""
        self.phase, self._waiting_since_ms, self.prefilling = ClaimPhase.WAITING, None, False

    def waited_ms(self, now_ms: int) -> int:
        """Milliseconds without a grant, from the first call on."""
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
            self._phases.begin(PhaseKind.GRANT, now_ms)
        return now_ms - self._waiting_since_ms

    @property
    def may_go_on(self) -> bool:
        """True where the engine can work on it again after a wait."""
        idle = not self.ahead and self._finished is None
        return self.phase is ClaimPhase.WAITING and idle and self.granted > len(self.ids)

    def go_on(self) -> None:
        """Go back to the engine, under a new name, so that late ids of the old one are told apart."""
        self._submissions += 1
        self.key = f"{self.claim.ck}.{self._submissions}"
        self.phase, self.prefilling = ClaimPhase.RUNNING, True

    def end(self, reason: EndReason, code: str = "") -> None:
        """End it: no more ids will come, and the next append carries this end. The first call counts.

        What was held back is decided now, and may block."""
        if self.phase is ClaimPhase.ENDING:
            return
        self.phase = ClaimPhase.ENDING
        if self._filter is None or (reason in WENT_ITS_WAY and not self._transcript.blocked):
            self._fresh += self._guarded(self._transcript.finish)
        if self.failure:
            reason, code = EndReason.ERROR, "internal"
        elif self._transcript.blocked:
            reason, code = EndReason.BLOCKED, ""
        self._end = (reason, code)

    def leave(self, why: ReleaseWhy) -> None:
        """Leave: no more ids will come, and the request goes back once everything is logged."""
        if self.open:
            self.phase, self.why = ClaimPhase.LEAVING, why

    @property
    def logged(self) -> bool:
        """True where everything so far is in the log."""
        return (
            self._logged_n == len(self.ids)
            and self._logged_o == self.claim.o + len(self._entries)
            and not self._fresh
            and (self._end is None or self.event is not None)
        )

    @property
    def held(self) -> int | None:
        """Number of ids whose text the safety filter has not decided yet; None without a filter."""
        return None if self._filter is None else self._transcript.n - self._transcript.covered

    @property
    def unbilled(self) -> int:
        """Number of ids that its end does not bill: it is blocked, and their text was shown to nobody."""
        if self.event is None or self.event.reason != EndReason.BLOCKED:
            return 0
        return len(self.ids) - self.event.output_text

    @property
    def taken(self) -> int:
        """Number of ids in the log."""
        return self._logged_n

    def append(self, pool: str, now_ms: int) -> Append | None:
        """The part that the log does not have yet, None where there is none."""
        assert len(self.ids) <= self.granted, "no id is appended that was not granted"
        if self.logged:
            return None
        if self.event is None:
            self._write(pool, now_ms)
        n0, o0 = self._logged_n, self._logged_o
        if n0 == len(self.ids) and o0 == self.claim.o + len(self._entries):
            return None
        return Append(
            tenant=self.claim.tenant,
            id=self.claim.id,
            ck=self.claim.ck,
            n0=n0,
            o0=o0,
            raw=self._transcript.raw,
            visible=self._position,
            tokens=pack_ids(self.ids[n0:]),
            entries=self._entries[o0 - self.claim.o :],
            input_cached=self._cached,
            end=usage.encode(self.event) if self.event else None,
        )

    def question(self) -> Append:
        """An append without content: its reply tells whether the log still ends where it did."""
        claim, n, o = self.claim, self._logged_n, self._logged_o
        return Append(
            tenant=claim.tenant,
            id=claim.id,
            ck=claim.ck,
            n0=n,
            o0=o,
            raw=self._transcript.raw,
            visible=self._position,
        )

    def appended(self, sent: Append) -> None:
        """Note that an append of ours is in the log."""
        self._logged_n = sent.n0 + len(sent.tokens) // 4
        self._logged_o = sent.o0 + len(sent.entries)

    def rewind(self, answer: Appended) -> bool:
        """Go on from where the log ends: it lost its tail, or an append arrived whose reply did not. False
        where this claim cannot, because its first entry came after that point."""
        if not self.claim.o <= answer.o <= self.claim.o + len(self._entries) or answer.n > len(self.ids):
            return False
        self._logged_n, self._logged_o = answer.n, answer.o
        return True

    def _advance(self) -> None:
        """Move sampled ids into the answer, as far as it is granted."""
        room = max(0, self.granted - len(self.ids))
        granted, self.ahead = self.ahead[:room], self.ahead[room:]
        self._feed(granted)
        if self._transcript.stopped:
            self.ahead = []

    def _replay(self, logged: list[int]) -> None:
        """Feed the logged ids, at once. What they release has its entries, flags too: the log after these ids
        is the same whoever wrote it, which the counters of it must bear out."""
        self.ids += logged
        self._guarded(self._transcript.feed, logged)
        claim, transcript = self.claim, self._transcript
        if self._filter is None:
            self._fresh = [rest] if (rest := transcript.text[claim.visible :]) else []
        elif not self.failure and (transcript.raw, transcript.length) != (claim.raw, claim.visible):
            self.failure = "the log was written under another filter"

    def _feed(self, ids: Sequence[int]) -> None:
        for id in ids:
            if self._transcript.stopped or self.failure:
                return
            self.ids.append(id)
            self._fresh += self._guarded(self._transcript.feed, [id])

    def _guarded(self, release: Callable[P, Released], *args: P.args, **kwargs: P.kwargs) -> Released:
        """What a step of the transcript releases; nothing, where it fails: this answer ends, and no other."""
        try:
            return release(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  (any fault of a filter would end one worker after another)
            self.failure = f"{type(error).__name__} while filtering under policy {self.request.policy}"
            return []

    def _write(self, pool: str, now_ms: int) -> None:
        """Make entries of fresh text, of flags and of the end."""
        fresh, self._fresh = self._fresh, []
        for is_text, run in groupby(fresh, key=lambda each: isinstance(each, str)):
            if is_text:
                self._add_text("".join(map(str, run)))
            else:
                for flag in run:
                    self._add(EntryKind.FLAGGED, value=msgspec.json.encode(flag))
        if self._end:
            ending = end_payload(self._facts(pool, *self._end, now_ms), self.request)
            self.event = ending.event
            self._add(EntryKind.END, value=ending.payload)

    def _add_text(self, text: str) -> None:
        for piece in text_pieces(text, self._entry_bytes_max):
            start, self._position = self._position, self._position + len(piece)
            self._add(EntryKind.TEXT, piece, start)

    def _add(self, kind: EntryKind, text: str = "", start: int = 0, value: bytes = b"") -> None:
        covered = self._transcript.covered if kind is EntryKind.TEXT else len(self.ids)
        offset = self.claim.o + len(self._entries) + 1
        self._entries.append(Entry(offset, kind, text, start, self._position if text else 0, covered, value))

    def _facts(self, pool: str, reason: EndReason, code: str, now_ms: int) -> EndFacts:
        claim, block = self.claim, self._filter.blocked if self._filter else None
        return EndFacts(
            tenant=claim.tenant,
            request=claim.id,
            pool=pool,
            reason=reason,
            text=self._transcript.text,
            prompt_tokens=len(self.prompt),
            n=len(self.ids),
            covered=self._transcript.covered,
            input_cached=claim.input_cached if claim.cn > 1 else self._cached or 0,
            claims=claim.cn,
            claimed_ms=claim.claimed_ms,
            first_token_ms=self.first_token_ms,
            ended_ms=now_ms,
            recomputed_tokens=claim.recomputed_tokens,
            code=code,
            safety=(block.category, block.scope) if block and reason is EndReason.BLOCKED else None,
            verdicts=self._filter.counts if self._filter else Counter(),
            phases=self._phases.all,
        )


def _read(claim: Claim) -> tuple[RequestInput, list[int], list[int]]:
    """The request's input, its prompt, and its logged ids."""
    found = read("input", _parts, claim)
    if isinstance(found, Unreadable):
        raise UnreadableClaimError(found.why)
    request, prompt, logged = found
    if len(logged) != claim.n:
        raise UnreadableClaimError(f"{len(logged)} token ids where {claim.n} are logged")
    return request, prompt, logged


def _filter_for(request: RequestInput, policies: KnownPolicies) -> Filter | None:
    """The filter of the policy that it was admitted under; None where it was under none."""
    if request.policy == UNFILTERED:
        return None
    try:
        policy = policies.compiled(request.policy)
    except UnknownPolicyError as error:
        raise MissingPolicyError(request) from error
    try:
        return Filter(policy, view_for(request.sampling.response_format), request.seam)
    except Exception as error:
        why = f"{type(error).__name__}: no filter for policy {request.policy[:64]}"
        raise UnreadableClaimError(why) from error


def _parts(claim: Claim) -> tuple[RequestInput, list[int], list[int]]:
    request = input_decoder.decode(claim.input)
    return request, ids_from(request.prompt), ids_from(claim.tokens)
