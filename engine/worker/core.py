"""A worker's answers, and its reaction to each event: claims, steps, orders, time, replies to appends. Pure.

Every method returns what the worker must do; it does that and reports the result. One task owns this.
"""

from collections.abc import Callable, Sequence

from engine.backends.base import Finish, StepMeasurement, StepOutput
from engine.queue.types import Append, AppendCode, Appended, Claim, ClaimOffer, ReleaseWhy
from engine.request import Control, EndReason
from engine.scheduling.capacity import Capacity, ClaimPlanner, ClassPacking
from engine.scheduling.cost import StepLoad
from engine.worker.allowances import Allowances
from engine.worker.claimed_request import ClaimedRequest, ClaimPhase, UnreadableClaimError
from engine.worker.continuation import ModelLimits, generation
from engine.worker.end_confirmation import EndedAnswers
from engine.worker.waiting_claims import MissingPolicyError, WaitingClaims
from engine.worker.worker_calls import WorkerCalls

UNGRANTED_TOKENS_MAX = 64  # sampled while a grant is pending, before the engine drops the answer
WAIT_MS_MAX = 5_000

ORDERS: tuple[tuple[Control, ReleaseWhy], ...] = (
    (Control.MIGRATE, "pool"),
    (Control.DRAIN, "drain"),
    (Control.PREEMPT, "preempt"),
    (Control.PARK, "park"),
)
ENDS = {Finish.STOP: EndReason.STOP, Finish.LENGTH: EndReason.LENGTH}


class WorkerCore:
    """All answers of one worker, by their name in the engine."""

    def __init__(
        self,
        pool: str,
        fingerprint: str,
        capacity: Capacity,
        open_answer: Callable[[Claim], ClaimedRequest],
        limits: ModelLimits,
        chunk_tokens: int,
    ) -> None:
        self._pool = pool
        self._fingerprint = fingerprint
        self.capacity = capacity
        self._admission = ClaimPlanner(capacity)
        self._packing = ClassPacking()
        self.full = False  # by the last offer: nothing is claimed until something leaves
        self._open = open_answer
        self._limits = limits
        self._allowances = Allowances(chunk_tokens)
        self._answers: dict[str, ClaimedRequest] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._ended = EndedAnswers()
        self._waiting = WaitingClaims()
        self._suspects: set[str] = set()

    def __len__(self) -> int:
        return len(self._answers) + len(self._waiting)

    @property
    def generating(self) -> set[str]:
        """Names of the answers that the engine works on."""
        return {key for key, answer in self._answers.items() if answer.phase is ClaimPhase.RUNNING}

    def prefills(self, key: str) -> bool:
        """True where nothing of this answer was sampled since it was claimed."""
        answer = self._answers.get(key)
        return answer is not None and answer.prefilling

    @property
    def margin(self) -> float:
        """Share of its room that the worker claims for."""
        return self._admission.margin

    def offer(self, waiting: int, now_ms: int) -> ClaimOffer:
        """Room for new claims. `waiting`: length of the engine's own queue."""
        held = [*(each.load for each in self._answers.values()), *self._waiting.loads]
        room = self._admission.room(held, waiting)
        self.full = room.full
        lowest = self._packing.lowest(now_ms, 1 - len(self) / self.capacity.slots)
        room, lowest = self.capacity.kept_for_interactive(room, len(self), lowest)
        return ClaimOffer(self._fingerprint, room.slots, room.kv_tokens, room.prefill_tokens, lowest)

    def answered(self, offer: ClaimOffer, now_ms: int) -> None:
        """Note that this offer was answered with claims: the next packs of its classes gather from now on."""
        self._packing.claimed(offer.lowest, now_ms)

    def measured(self, steps: Sequence[StepMeasurement], waiting: int, preemptions: int) -> None:
        """Learn from the engine's last steps, the length of its queue and its preemptions so far."""
        context = sum(len(a.prompt) + len(a.ids) for a in self._answers.values() if not a.prefilling)
        for step in steps:
            load = StepLoad(step.prefill_tokens, step.sequences, context)
            self._admission.cost.learn(load, step.seconds)
            self._admission.stepped(waiting, preemptions)

    @property
    def step_predicted_ms(self) -> int:
        """Expected milliseconds of the running step."""
        return round(self._admission.predicted_step(each.load for each in self._answers.values()) * 1000)

    @property
    def prefill_tokens_per_second(self) -> int:
        """Prompt tokens a second with nothing beside, by which the pool knows a warm cache's worth."""
        return round(self._admission.cost.prefill_rate(StepLoad(self.capacity.step_tokens, 0, 0)))

    @property
    def waiting_max(self) -> int:
        """The longest that the engine's own queue has been."""
        return self._admission.waiting_max

    def claimed(self, claims: Sequence[Claim], now_ms: int) -> WorkerCalls:
        """Take new claims, or ones to continue from their logs."""
        work = WorkerCalls()
        for claim in claims:
            try:
                answer = self._open(claim)
            except MissingPolicyError as missing:
                if self._waiting.add(claim, missing.request):
                    work.load.append(missing.request.policy)
                continue
            except UnreadableClaimError as error:
                work.unreadable.append((claim, str(error)))
                continue
            self._answers[answer.key] = answer
            self._keys[claim.tenant, claim.id] = answer.key
            self._admission.claimed(answer.load)
            work.opened.append(answer)
            self._start(answer, claim.control, now_ms, work)
        return work

    def policy_loaded(self, hash: str, problem: str, now_ms: int) -> WorkerCalls:
        """Open the claims that waited for this policy; with a `problem` it cannot be loaded, and they end."""
        claims = self._waiting.loaded(hash)
        if problem:
            return WorkerCalls(unreadable=[(claim, problem) for claim in claims])
        return self.claimed(claims, now_ms)

    def stepped(self, batch: Sequence[StepOutput], now_ms: int) -> WorkerCalls:
        """Take the output of one engine step."""
        work = WorkerCalls()
        for output in batch:
            answer = self._answers.get(output.id)
            if answer is None or answer.phase is not ClaimPhase.RUNNING:
                continue
            finished = ENDS.get(output.finish) if output.finish else None
            answer.take(output.tokens, output.cached, now_ms, finished)
            if self._ends(answer, work, in_engine=not output.finish):
                continue
            if output.finish is Finish.ERROR:
                answer.leave("error")
            elif output.finish is Finish.UNFIT:
                answer.end(EndReason.ERROR, "bad_request")
            else:
                if finished or len(answer.ahead) >= UNGRANTED_TOKENS_MAX:
                    if not finished:
                        self._stop(answer, work)
                    answer.wait()
                self._ask_for_grant(answer, work)
        return work

    def ordered(self, tenant: str, id: str, control: Control) -> WorkerCalls:
        """Obey the control flags of one request, new or repeated."""
        work = WorkerCalls()
        self._waiting.ordered(tenant, id, control)
        answer = self._answers.get(self._keys.get((tenant, id), ""))
        if answer is not None:
            self._obey(answer, control, work)
        return work

    def tick(self, now_ms: int) -> WorkerCalls:
        """End answers at their deadline; let those leave that waited long for a grant."""
        work = WorkerCalls()
        for answer in self._answers.values():
            if answer.open and now_ms >= answer.request.deadline_ms:
                self._stop(answer, work)
                answer.end(EndReason.DEADLINE)
            elif answer.phase is ClaimPhase.WAITING and answer.waited_ms(now_ms) >= WAIT_MS_MAX:
                self._allowances.parked(answer)
                answer.leave("grant")
        return work

    def refused(self, key: str) -> None:
        """End an answer that the engine refused: another engine would refuse it too."""
        answer = self._answers[key]
        answer.end(EndReason.ERROR, "bad_request" if answer.request.sampling.response_format else "internal")

    def wants_allowance(self, key: str) -> bool:
        """True where the reply to this name's `extend` still matters."""
        return self._allowances.wanted(key)

    def granted(self, key: str, tokens: int, refused: bool) -> WorkerCalls:
        """Take the reply to an `extend`. Refused: the answer ends at its last granted token."""
        work = WorkerCalls()
        away = self._allowances.answered(key, tokens)
        answer = self._answers.get(key)
        if answer is None or not answer.open:
            if away is not None and answer is None:
                work.unpark.append(away)
            elif away is not None and answer is not None:
                answer.why = "drain"  # not parked yet, and no need to
            return work
        answer.grant(tokens, final=refused)
        if self._ends(answer, work):
            return work
        if answer.may_go_on:
            self._go_on(answer, work)
        self._ask_for_grant(answer, work)
        return work

    def given_up(self, answer: ClaimedRequest) -> WorkerCalls:
        """Give back an answer whose log takes nothing; the queue counts the attempt."""
        claim = answer.claim
        work = WorkerCalls(release=[(claim.tenant, claim.id, claim.ck, "error")])
        self._forget(answer, work)
        return work

    def leave(self, why: ReleaseWhy) -> WorkerCalls:
        """Give everything back, once it is logged."""
        work = WorkerCalls(unpark=self._allowances.leave())
        for claim in self._waiting.forget(self._waiting.names):
            work.release.append((claim.tenant, claim.id, claim.ck, why))
        for answer in self._answers.values():
            if answer.open:
                self._stop(answer, work)
                answer.leave(why)
        return work

    def drop_all(self) -> WorkerCalls:
        """Drop everything, as the lease is lost and other workers get it."""
        work = WorkerCalls(abort=sorted(self.generating))
        self._allowances.forget_all(self._answers)
        self._waiting.forget(self._waiting.names)
        self._answers.clear()
        self._keys.clear()
        return work

    def reconcile(self, engine: set[str], queue: set[tuple[str, str]]) -> WorkerCalls:
        """Compare with the engine's work and with the queue's list of our claims; both ways.

        An answer that the engine lacks may just have finished, so it is given up only when missing twice.
        """
        work = WorkerCalls(abort=sorted(engine - self.generating))
        missing = self.generating - engine
        for key in missing & self._suspects:
            self._answers[key].leave("error")
        self._suspects = missing
        self._waiting.forget(self._waiting.names - queue)
        for who in self._keys.keys() - queue:
            answer = self._answers[self._keys[who]]
            if answer.event is None:
                self._forget(answer, work)
        return work

    @property
    def held(self) -> set[tuple[str, str]]:
        """Tenant and id of every claim in hand, and of those that ended a moment ago."""
        return set(self._keys) | self._waiting.names | self._ended.names

    def appends(self, now_ms: int) -> list[tuple[ClaimedRequest, Append]]:
        """Appends of what the log lacks, and questions whether it still has the ends of ended answers."""
        found = ((answer, answer.append(self._pool, now_ms)) for answer in self._answers.values())
        asked = [(answer, answer.question()) for answer in self._ended.due(now_ms)]
        return [(answer, append) for answer, append in found if append is not None] + asked

    def appended(
        self, sent: Sequence[tuple[ClaimedRequest, Append]], answers: Sequence[Appended], now_ms: int
    ) -> WorkerCalls:
        """Take the replies to a flush."""
        work = WorkerCalls()
        for (answer, append), result in zip(sent, answers, strict=True):
            if answer in self._ended:
                self._answered(answer, result, work)
            else:
                self._appended(answer, append, result, now_ms, work)
        return work

    def departures(self) -> WorkerCalls:
        """Give back and forget leaving answers that are logged to their last token."""
        work = WorkerCalls()
        for answer in [a for a in self._answers.values() if a.phase is ClaimPhase.LEAVING and a.logged]:
            claim = answer.claim
            work.release.append((claim.tenant, claim.id, claim.ck, answer.why))
            self._forget(answer, work)
        return work

    def _start(self, answer: ClaimedRequest, control: Control, now_ms: int, work: WorkerCalls) -> None:
        self._obey(answer, control, work)
        if answer.phase is not ClaimPhase.RUNNING:
            work.abort.remove(answer.key)
            return
        if self._ends(answer, work, in_engine=False):
            return
        if now_ms >= answer.request.deadline_ms:
            answer.end(EndReason.DEADLINE)
        else:
            if answer.granted > len(answer.ids):
                self._submit(answer, work)
            else:
                answer.wait()
            self._ask_for_grant(answer, work)

    def _ends(self, answer: ClaimedRequest, work: WorkerCalls, in_engine: bool = True) -> bool:
        """End an answer that is complete. What its filter holds is decided then, which may fail."""
        if (reason := answer.completed()) is None:
            return False
        if in_engine:
            self._stop(answer, work)
        answer.end(reason)
        if answer.failure:
            work.unfiltered.append((answer.claim, answer.failure))
        return True

    def _submit(self, answer: ClaimedRequest, work: WorkerCalls) -> None:
        tenant, request = answer.claim.tenant, answer.request
        work.submit.append(generation(answer.key, tenant, request, answer.prompt, answer.ids, self._limits))

    def _go_on(self, answer: ClaimedRequest, work: WorkerCalls) -> None:
        """Send the answer back to the engine, which may still bring ids under the old name."""
        before = answer.key
        answer.go_on()
        self._allowances.renamed(before, answer.key)
        self._answers[answer.key] = self._answers.pop(before)
        self._keys[answer.claim.tenant, answer.claim.id] = answer.key
        self._submit(answer, work)

    def _obey(self, answer: ClaimedRequest, control: Control, work: WorkerCalls) -> None:
        if not answer.open:
            return
        if Control.CANCEL in control:
            self._stop(answer, work)
            answer.end(EndReason.CANCELLED)
            return
        for flag, why in ORDERS:
            if flag in control:
                self._stop(answer, work)
                answer.leave(why)
                return

    def _stop(self, answer: ClaimedRequest, work: WorkerCalls) -> None:
        if answer.phase is ClaimPhase.RUNNING:
            work.abort.append(answer.key)

    def _answered(self, answer: ClaimedRequest, result: Appended, work: WorkerCalls) -> None:
        """Take the reply about an ended answer's log. Where its tail is lost, the end is appended again, or
        the request given back."""
        if result.code is AppendCode.ENDED:
            self._ended.confirmed(answer)
            return
        self._ended.forget(answer)
        if result.code is not AppendCode.GAP:
            return
        if answer.rewind(result):
            self._answers[answer.key] = answer
            self._keys[answer.claim.tenant, answer.claim.id] = answer.key
        else:
            self._give_back(answer, work)

    def _appended(
        self, answer: ClaimedRequest, append: Append, result: Appended, now_ms: int, work: WorkerCalls
    ) -> None:
        match result.code:
            case AppendCode.OK | AppendCode.DUP:
                answer.appended(append)
                self._obey(answer, result.control, work)
            case AppendCode.ENDED:
                if append.end is not None and answer.event is not None:
                    answer.appended(append)
                    work.settle.append(answer.event)
                    self._admission.ended(answer.load)
                    self._ended.keep(answer, now_ms)
                self._forget(answer, work)
            case AppendCode.GAP if answer.rewind(result):
                self._obey(answer, result.control, work)
            case AppendCode.GAP:
                self._give_back(answer, work)
                self._forget(answer, work)
            case AppendCode.FENCED | AppendCode.MISSING:
                self._forget(answer, work)

    def _give_back(self, answer: ClaimedRequest, work: WorkerCalls) -> None:
        claim = answer.claim
        work.release.append((claim.tenant, claim.id, claim.ck, "drain"))

    def _forget(self, answer: ClaimedRequest, work: WorkerCalls) -> None:
        self._stop(answer, work)
        self._answers.pop(answer.key, None)
        self._allowances.forget(answer.key)
        if self._keys.get((answer.claim.tenant, answer.claim.id)) == answer.key:
            del self._keys[answer.claim.tenant, answer.claim.id]

    def _ask_for_grant(self, answer: ClaimedRequest, work: WorkerCalls) -> None:
        """Ask for more tokens, off the decode path."""
        if ask := self._allowances.ask(answer):
            work.extend.append(ask)
