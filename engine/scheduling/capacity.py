"""Decides what a worker may claim now: as much as its engine takes without making anyone wait. Pure.

Four bounds, each from the cost model (`engine/scheduling/cost.py`): KV tokens under the watermark, counting
what running answers will grow by; prompt tokens in prefill under the time to the first token; a predicted
step under the time between tokens; and never more than `WAITING_MAX` generations in the engine's own queue,
which knows no fairness. An idle worker may always claim one request, so nothing waits for ever.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from core.configuration.settings import Settings
from engine.request import PriorityClass
from engine.scheduling.cost import OutputLengths, StepCost, StepLoad

WAITING_MAX = 2
KV_WATERMARK = 0.95
FULL_STEP_SECONDS = 0.5  # limit of a full prefill step, and its assumed time before the first measurement

STEP_TOKENS = 256  # used without a setting or a measurement
CROWDED_STEPS = 3
MARGIN_MIN = 0.25
MARGIN_DOWN = 0.8
MARGIN_UP = 0.002
STEPS_BETWEEN_CUTS = 8
NEED_SMOOTHING = 0.1

WINDOW_MS = {PriorityClass.INTERACTIVE: 0, PriorityClass.STANDARD: 50, PriorityClass.BULK: 500}
INTERACTIVE_SLOTS_FROM = 8
PACK_SHARE = 0.25  # a pack starts once this share of the worker is free


@dataclass(frozen=True)
class Capacity:
    """One worker's size and targets. `step_tokens`: the most one engine step computes; `first_token_seconds`:
    for prompts in prefill together; `step_seconds`: between two tokens of a running answer."""

    slots: int
    kv_tokens: int
    step_tokens: int
    first_token_seconds: float = 2.0
    step_seconds: float = 1.0

    @property
    def interactive_slots(self) -> int:
        """Slots that lower classes leave free, so that an interactive request does not wait for one: one of
        16, and one of 8 to 15; none of fewer, where it would cost the others more than it saves."""
        return self.slots // 16 or int(self.slots >= INTERACTIVE_SLOTS_FROM)

    def kept_for_interactive(
        self, room: "ClaimRoom", held: int, lowest: PriorityClass
    ) -> "tuple[ClaimRoom, PriorityClass]":
        """The room for classes down to `lowest` beside `held` answers, less the share of interactive work;
        where nothing else is left, all of it, for interactive work."""
        if lowest is PriorityClass.INTERACTIVE:
            return room, lowest
        slots = self.slots - held - self.interactive_slots
        kv = room.kv_tokens - (self.kv_tokens * self.interactive_slots // self.slots if held else 0)
        if slots <= 0 or kv <= 0:
            return room, PriorityClass.INTERACTIVE
        return replace(room, slots=min(room.slots, slots), kv_tokens=kv), lowest


def capacity_of(settings: Settings, kv_tokens: int) -> Capacity:
    """Capacity by the settings, for an engine with so many KV tokens."""
    return Capacity(
        slots=settings.worker_slots,
        kv_tokens=kv_tokens,
        step_tokens=settings.worker_batched_tokens or STEP_TOKENS,
        first_token_seconds=settings.worker_first_token_target_ms / 1000,
        step_seconds=settings.worker_step_target_ms / 1000,
    )


@dataclass(frozen=True)
class AnswerLoad:
    """A claimed answer. `tokens`: its output so far; `granted`: output tokens it may have at least."""

    tenant: str
    prompt_tokens: int
    tokens: int
    max_tokens: int
    granted: int
    prefilling: bool


@dataclass(frozen=True)
class ClaimRoom:
    """Room for new claims; none where any field is 0. The last prompt may exceed `prefill_tokens`.

    `full`: only an answer that leaves makes room, not a step.
    """

    slots: int
    kv_tokens: int
    prefill_tokens: int
    full: bool = False


NO_ROOM = ClaimRoom(0, 0, 0)


class ClaimPlanner:
    """Decides one worker's room, and learns from its steps."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.cost = StepCost(FULL_STEP_SECONDS / capacity.step_tokens)
        self.lengths = OutputLengths()
        self.margin = 1.0
        self.waiting_max = 0
        self._crowded = 0
        self._since_cut = STEPS_BETWEEN_CUTS
        self._preemptions = 0
        self._need = 0.0

    def room(self, held: Iterable[AnswerLoad], waiting: int) -> ClaimRoom:
        """Room for new claims beside `held`. `waiting`: length of the engine's own queue."""
        held = list(held)
        slots = self.capacity.slots - len(held)
        if not held:
            # Whatever the model believes: an idle worker takes what its engine can hold at all.
            return ClaimRoom(slots, self.capacity.kv_tokens, self.capacity.step_tokens)
        kv = int(self.capacity.kv_tokens * KV_WATERMARK * self.margin) - sum(map(self.kv_need, held))
        if slots <= 0 or kv <= 0:
            return ClaimRoom(0, max(0, kv), self.capacity.step_tokens, full=True)
        prefilling = [answer.prompt_tokens + answer.tokens for answer in held if answer.prefilling]
        load = self._decoding(held)
        in_step, queued = self._next_step(prefilling, int(load.sequences))
        queued = max(queued, waiting)
        until = self._until_first_token(load)
        # A longer one gets no more than half of each step, so it does not keep others from their first token.
        before = sum(min(tokens, -(-until // 2)) for tokens in prefilling)
        prefill = min(until - before, self._beside(load, prefilling))
        slots = min(slots, self._sequences(load), self._fitting(kv))
        if slots <= 0 or prefill <= 0 or queued >= WAITING_MAX:
            return NO_ROOM
        if in_step > 0:
            return ClaimRoom(slots, kv, min(prefill, in_step))
        return ClaimRoom(
            min(slots, WAITING_MAX - queued), kv, 1
        )  # 1: a single prompt, to wait for the next step

    def kv_need(self, answer: AnswerLoad) -> int:
        """KV tokens that the answer takes at its end, as far as can be told."""
        expected = self.lengths.expected(
            answer.tenant, answer.prompt_tokens, answer.max_tokens, answer.tokens, unknown=answer.granted
        )
        return answer.prompt_tokens + max(answer.tokens, expected)

    def claimed(self, answer: AnswerLoad) -> None:
        """Note an answer as claimed."""
        need = self.kv_need(answer)
        self._need += (NEED_SMOOTHING if self._need else 1.0) * (need - self._need)

    def ended(self, answer: AnswerLoad) -> None:
        """Learn from an answer whose output is complete."""
        self.lengths.learn(answer.tenant, answer.prompt_tokens, answer.tokens)

    def stepped(self, waiting: int, preemptions: int) -> None:
        """One engine step: its queue and its preemptions so far move the margin, down fast and up slowly."""
        self.waiting_max = max(self.waiting_max, waiting)
        self._crowded = self._crowded + 1 if waiting > WAITING_MAX else 0
        self._since_cut += 1
        preempted, self._preemptions = preemptions > self._preemptions, preemptions
        if (self._crowded >= CROWDED_STEPS or preempted) and self._since_cut >= STEPS_BETWEEN_CUTS:
            self.margin = max(MARGIN_MIN, self.margin * MARGIN_DOWN)
            self._since_cut = 0
        elif not self._crowded and not preempted:
            self.margin = min(1.0, self.margin + MARGIN_UP)

    def predicted_step(self, held: Iterable[AnswerLoad]) -> float:
        """Seconds that the running step takes at most; those of a full step where prompts are in prefill."""
        held = list(held)
        load, prefill = self._decoding(held), any(answer.prefilling for answer in held)
        full = self.capacity.step_tokens if prefill else 0.0
        return self.cost.predict(StepLoad(full, load.sequences, load.context_tokens))

    def _decoding(self, held: Iterable[AnswerLoad]) -> StepLoad:
        running = [answer for answer in held if not answer.prefilling]
        context = sum(answer.prompt_tokens + answer.tokens for answer in running)
        return StepLoad(0, len(running), context)

    def _until_first_token(self, load: StepLoad) -> int:
        """Prompt tokens that can be computed within the target, in full steps beside what is decoding."""
        step = StepLoad(self.capacity.step_tokens, load.sequences, load.context_tokens)
        return max(1, int(self.cost.prefill_rate(step) * self.capacity.first_token_seconds * self.margin))

    def _beside(self, load: StepLoad, prefilling: list[int]) -> int:
        """Prompt tokens that keep the next step under the target; a first prompt may always start."""
        most, per_token = self.capacity.step_tokens, self.cost.coefficients[1]
        spare = max(0.0, self.capacity.step_seconds - self.cost.predict(load))
        if not load.sequences or spare >= per_token * most:
            return most
        tokens = int(spare / per_token) - min(sum(min(tokens, most // 2) for tokens in prefilling), most)
        return tokens if prefilling else max(1, tokens)

    def _sequences(self, load: StepLoad) -> int:
        """Number of further sequences like these until decoding alone takes as long as a step may."""
        _, _, each, context = self.cost.coefficients
        each += context * load.context_tokens / max(1.0, load.sequences)
        spare = self.capacity.step_seconds - self.cost.predict(load)
        return int(min(self.capacity.slots, spare / max(each, 1e-9))) if spare > 0 else 0

    def _fitting(self, kv: int) -> int:
        """Number of answers of the usual size that fit; the pool knows only what they are granted."""
        return max(1, int(kv / self._need)) if self._need else self.capacity.slots

    def _next_step(self, prefilling: list[int], decoding: int) -> tuple[int, int]:
        """Prompt tokens that still fit the next step, and prompts that get nothing of it.

        The engine's own order: running answers first, then prompts as they came, at most half a step each.
        """
        left, starved = self.capacity.step_tokens - decoding, 0
        for tokens in prefilling:
            if left <= 0:
                starved += 1
            left -= min(tokens, max(1, self.capacity.step_tokens // 2))
        return max(0, left), starved


class ClassPacking:
    """Decides which classes may be claimed: lower ones come in packs, so that their prompts share steps."""

    def __init__(self) -> None:
        self._let_through = dict.fromkeys(PriorityClass, -max(WINDOW_MS.values()))

    def lowest(self, now_ms: int, free_share: float) -> PriorityClass:
        """The lowest class to be claimed now. `free_share`: free part of the worker's slots."""
        lowest = PriorityClass.INTERACTIVE
        for priority in PriorityClass:
            if free_share < PACK_SHARE and now_ms < self._let_through[priority] + WINDOW_MS[priority]:
                break
            lowest = priority
        return lowest

    def claimed(self, lowest: PriorityClass, now_ms: int) -> None:
        """Note that classes down to `lowest` were let through: the next pack of each gathers from now on."""
        for priority in PriorityClass:
            self._let_through[priority] = now_ms
            if priority is lowest:
                break


def step_tokens_within(
    measured: Iterable[tuple[int, float]], seconds: float = FULL_STEP_SECONDS
) -> int | None:
    """The largest of the measured prefill steps (tokens, seconds) that takes at most `seconds`, for
    `max_num_batched_tokens`. None where none does.

    Between two measured sizes it interpolates, in whole 64s: steps are not linear in their tokens (2-core
    CPU: 2,048 tokens 2.2 s, 4,096 tokens 6.3 s), so nothing beyond the largest is guessed.
    """
    best: int | None = None
    below: tuple[int, float] | None = None
    for tokens, took in sorted(measured):
        if took > seconds:
            if below is not None:
                share = (seconds - below[1]) / (took - below[1])
                best = max(below[0], int(below[0] + share * (tokens - below[0])) // 64 * 64)
            break
        best, below = tokens, (tokens, took)
    return best
