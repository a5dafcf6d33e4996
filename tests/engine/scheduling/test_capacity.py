"""What a worker claims: each bound by itself, all of them on random loads, and the packs of lower classes."""

import random

import pytest

from core.configuration.settings import Settings
from engine.request import PriorityClass
from engine.scheduling.capacity import (
    KV_WATERMARK,
    MARGIN_MIN,
    NO_ROOM,
    WAITING_MAX,
    AnswerLoad,
    Capacity,
    ClaimPlanner,
    ClaimRoom,
    ClassPacking,
    capacity_of,
    step_tokens_within,
)
from engine.scheduling.cost import StepLoad

SIZE = Capacity(slots=32, kv_tokens=20_000, step_tokens=256)
INTERACTIVE, STANDARD, BULK = PriorityClass
QUICK = (0.01, 0.0005, 0.001, 0.0)


def an_admission(capacity: Capacity = SIZE, coefficients: tuple[float, ...] = QUICK) -> ClaimPlanner:
    """One that knows its engine: a, b, c and d as given."""
    admission, chance = ClaimPlanner(capacity), random.Random(1)
    a, b, c, d = coefficients
    for _ in range(500):
        load = StepLoad(chance.randint(0, 256), chance.randint(1, 32), chance.randint(100, 20_000))
        took = a + b * load.prefill_tokens + c * load.sequences + d * load.context_tokens
        admission.cost.learn(load, took)
    return admission


def decoding(tokens: int = 10, prompt: int = 100, most: int = 200) -> AnswerLoad:
    """A running answer."""
    return AnswerLoad("t1", prompt, tokens, most, granted=most, prefilling=False)


def prefilling(prompt: int, most: int = 200) -> AnswerLoad:
    """An answer without a token yet."""
    return AnswerLoad("t1", prompt, 0, most, granted=most, prefilling=True)


def test_an_idle_worker_takes_what_it_can_hold_at_all():
    """Even where the model says that all is slow: a request larger than the watermark would never run."""
    slow = an_admission(coefficients=(5.0, 1.0, 1.0, 0.0))
    assert slow.room([], waiting=9) == ClaimRoom(32, 20_000, 256)
    assert ClaimPlanner(SIZE).room([], 0) == ClaimRoom(32, 20_000, 256)


def test_a_full_worker_takes_nothing():
    """All slots in use."""
    room = an_admission().room([decoding()] * 32, 0)
    assert (room.slots, room.full) == (0, True)
    room = an_admission().room([decoding()] * 31, 0)
    assert (room.slots, room.full) == (1, False)


@pytest.mark.parametrize(("prompt", "left"), [(18_900, 0), (18_899, 1)])
def test_the_last_token_of_kv_may_be_taken(prompt: int, left: int):
    """One that is left is room; none is not, until an answer leaves."""
    room = an_admission().room([decoding(prompt=prompt, most=100)], 0)
    assert (room.kv_tokens, room.full, room.slots > 0) == (left, not left, bool(left))


def test_kv_counts_what_running_answers_will_grow_by():
    """The tenant's q80 where it is known, what they are granted else; a rest stays free for surprises."""
    admission, held = an_admission(), [decoding(most=400)] * 4
    assert admission.room(held, 0).kv_tokens == 20_000 * KV_WATERMARK - 4 * 500
    for _ in range(10):
        admission.ended(decoding(tokens=50))
    assert admission.room(held, 0).kv_tokens == 20_000 * KV_WATERMARK - 4 * 150
    assert admission.room([decoding(tokens=20_000, most=20_000)], 0) == ClaimRoom(0, 0, 256, full=True)


def test_no_more_are_claimed_than_will_fit_when_they_have_grown():
    """The pool sees what a request is granted at first, not the 4,000 tokens that this tenant's take."""
    admission = an_admission(Capacity(32, 20_000, 4096))
    for _ in range(10):
        admission.ended(decoding(tokens=4000))
    admission.claimed(decoding(tokens=0, most=5000))
    assert admission.room([decoding(most=5000)], 0).slots == 3
    assert admission.room([decoding(most=5000)] * 4, 0).slots == 1, "one is tried where less is left"
    for _ in range(9):
        admission.claimed(decoding(tokens=0, most=5000))
    assert admission.room([decoding(most=5000)], 0).slots == 3, "all are of that size"


def test_prompts_in_prefill_are_bounded_by_the_first_tokens_target():
    """A full step of 256 takes 0.14 s, so 0.5 s are three steps and a half of prompts, at most."""
    target = Capacity(32, 20_000, 256, first_token_seconds=0.5)
    admission = an_admission(target)
    assert admission.room([prefilling(128)], 0).prefill_tokens == 128
    assert admission.room([prefilling(800)], 0).prefill_tokens > 0
    assert admission.room([prefilling(400), prefilling(400), prefilling(150)], 0) == NO_ROOM


def test_the_last_token_within_the_first_tokens_target_may_be_taken():
    """Of what fits it, shared by two prompts; a target that nothing fits lets one token in, so nothing waits
    for ever. A smaller margin lets in less."""
    admission = an_admission(Capacity(32, 20_000, 256, first_token_seconds=0.05))
    fits = admission.room([prefilling(1)], 0).prefill_tokens + 1
    half, other = fits // 2, fits - fits // 2
    assert admission.room([prefilling(half), prefilling(other - 1)], 0).prefill_tokens == 1
    assert admission.room([prefilling(half), prefilling(other)], 0) == NO_ROOM
    admission.stepped(0, preemptions=1)
    assert admission.room([prefilling(1)], 0).prefill_tokens + 1 == pytest.approx(0.8 * fits, abs=1)
    strict = an_admission(Capacity(32, 20_000, 256, first_token_seconds=0.0001))
    assert strict.room([prefilling(1)], 0) == NO_ROOM


def test_an_answer_that_goes_on_is_computed_anew_with_what_it_has():
    """Its tokens are prompt tokens to its new engine."""
    admission = an_admission()
    assert admission.room([AnswerLoad("t1", 50, 30, 200, 200, prefilling=True)], 0).prefill_tokens == 176


def test_where_nobody_decodes_no_step_is_too_long():
    """The time between tokens is nobody's: a step takes what it can."""
    admission = an_admission(Capacity(64, 20_000, 256, step_seconds=0.02))
    assert admission.room([prefilling(100)], 0).prefill_tokens == 156
    assert admission.room([prefilling(100), decoding()], 0) == NO_ROOM


def test_a_long_prompt_does_not_keep_others_out():
    """It gets half of each step at most, however long it is: what comes beside it starts at once. Two of them
    fill the steps."""
    admission = an_admission(Capacity(32, 20_000, 256, first_token_seconds=0.5))
    assert admission.room([prefilling(6000)], 0).prefill_tokens == 128
    assert admission.room([prefilling(6000), prefilling(6000)], 0) == NO_ROOM


def test_lower_classes_leave_slots_and_memory_to_interactive_work():
    """Two of 32 slots and as much of the memory; on a small worker, none."""
    size = Capacity(slots=32, kv_tokens=32_000, step_tokens=256)
    assert size.kept_for_interactive(ClaimRoom(12, 9_000, 200), 20, BULK) == (ClaimRoom(10, 7_000, 200), BULK)
    assert size.kept_for_interactive(ClaimRoom(3, 9_000, 200), 20, STANDARD) == (
        ClaimRoom(3, 7_000, 200),
        STANDARD,
    )
    assert size.kept_for_interactive(ClaimRoom(12, 2_001, 200), 29, BULK) == (ClaimRoom(1, 1, 200), BULK)
    for room, held in ((ClaimRoom(2, 9_000, 200), 30), (ClaimRoom(12, 2_000, 200), 20)):
        assert size.kept_for_interactive(room, held, BULK) == (room, INTERACTIVE)
    assert size.kept_for_interactive(ClaimRoom(32, 32_000, 256), 0, BULK)[0] == ClaimRoom(30, 32_000, 256)
    assert size.kept_for_interactive(ClaimRoom(12, 9_000, 200), 20, INTERACTIVE)[0] == ClaimRoom(
        12, 9_000, 200
    )
    assert [Capacity(slots, 1, 1).interactive_slots for slots in (1, 7, 8, 16, 64)] == [0, 0, 1, 1, 4]


def test_a_step_stays_under_the_time_between_tokens():
    """Beside ten answers a step of 50 ms has 30 ms for prompts: 60 tokens. And decoding counts as well."""
    target = Capacity(64, 20_000, 256, step_seconds=0.05)
    admission = an_admission(target)
    room = admission.room([decoding()] * 10, 0)
    assert room.prefill_tokens == pytest.approx(60, abs=3)
    assert room.slots == pytest.approx(30, abs=1)
    assert admission.room([decoding()] * 45, 0) == NO_ROOM


def test_the_engines_own_queue_stays_short():
    """What fits the next step, else one or two that wait for the one after; none where two wait."""
    admission = an_admission()
    assert admission.room([decoding()] * 6, 0).prefill_tokens == 250
    assert admission.room([prefilling(100)], 0).prefill_tokens == 156
    one_left = [*[decoding()] * 10, prefilling(128), prefilling(117)]
    assert (admission.room(one_left, 0).prefill_tokens, admission.room(one_left, 0).slots) == (1, 20)
    full = [prefilling(300), prefilling(300)]
    assert admission.room(full, 0) == ClaimRoom(2, admission.room(full, 0).kv_tokens, 1)
    assert admission.room([*full, prefilling(300)], 0).slots == 1
    assert admission.room([*full, prefilling(300), prefilling(300)], 0) == NO_ROOM
    assert admission.room([decoding()], waiting=WAITING_MAX) == NO_ROOM


@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_on_any_load(seed: int):
    """Whatever is claimed against the room: slots, KV that is promised, and at most two that wait."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    admission, held = an_admission(), list[AnswerLoad]()
    for _ in range(60):
        room = admission.room(held, 0)
        prefill, kv = room.prefill_tokens, room.kv_tokens
        for _ in range(min(room.slots, 16)):
            answer = prefilling(chance.randint(1, 400), most=chance.randint(1, 300))
            if prefill <= 0 or admission.kv_need(answer) > kv:
                break
            held.append(answer)
            admission.claimed(answer)
            prefill, kv = prefill - answer.prompt_tokens, kv - admission.kv_need(answer)
        assert len(held) <= SIZE.slots
        assert sum(map(admission.kv_need, held)) <= SIZE.kv_tokens
        assert _starved(held) <= WAITING_MAX
        held = [decoding(1, answer.prompt_tokens, answer.max_tokens) for answer in held]
        chance.shuffle(held)
        del held[: chance.randint(0, len(held))]


SMALL = Capacity(12, 6_000, 128, first_token_seconds=0.4, step_seconds=0.04)
ROOMS = [
    ("small", 11, 1, 130, 0, (0, 2229, 128, True)),
    ("wide", 3, 1, 130, 0, (28, 18157, 125, False)),
    ("small", 3, 2, 700, 0, (0, 0, 0, False)),
    ("wide", 0, 1, 130, 2, (0, 0, 0, False)),
    ("wide", 24, 1, 40, 0, (7, 10172, 192, False)),
    ("small", 2, 1, 40, 0, (9, 5125, 41, False)),
    ("wide", 13, 1, 130, 0, (18, 14768, 115, False)),
    ("small", 3, 3, 40, 0, (0, 0, 0, False)),
    ("wide", 24, 1, 130, 0, (7, 10082, 104, False)),
    ("small", 2, 1, 40, 1, (9, 5125, 41, False)),
    ("small", 4, 3, 700, 0, (0, 0, 0, False)),
    ("small", 1, 1, 130, 1, (10, 5206, 22, False)),
    ("small", 11, 1, 130, 0, (0, 2229, 128, True)),
    ("small", 11, 1, 130, 0, (0, 2229, 128, True)),
    ("wide", 22, 2, 700, 0, (2, 9526, 1, False)),
    ("small", 5, 2, 130, 0, (0, 0, 0, False)),
    ("wide", 11, 3, 40, 0, (18, 15136, 122, False)),
    ("wide", 29, 1, 700, 1, (2, 7102, 99, False)),
    ("small", 12, 2, 700, 0, (0, 381, 128, True)),
    ("small", 4, 0, 40, 2, (0, 0, 0, False)),
    ("wide", 21, 3, 40, 1, (8, 11051, 112, False)),
    ("small", 4, 3, 130, 0, (0, 0, 0, False)),
    ("small", 4, 1, 700, 0, (7, 4102, 9, False)),
    ("wide", 19, 2, 700, 0, (2, 10846, 1, False)),
]


def test_the_room_beside_what_is_in_hand():
    """As it was worked out when each bound was measured by itself: decoding and prefilling answers, the
    prompts' length, what waits in the engine; slots, KV, prompt tokens, and whether only leaving helps."""
    wide, small = an_admission(), an_admission(SMALL, (0.004, 0.0004, 0.0015, 0.000001))
    for admission in (wide, small):
        for more in range(6):
            admission.ended(decoding(tokens=60 + more))
        admission.claimed(prefilling(100))
        admission.claimed(prefilling(700))
    for name, running, starting, prompt, waiting, expected in ROOMS:
        held = [decoding(10 + at, 100 + 7 * at) for at in range(running)]
        held += [prefilling(prompt + at) for at in range(starting)]
        room = (wide if name == "wide" else small).room(held, waiting)
        assert (room.slots, room.kv_tokens, room.prefill_tokens, room.full) == expected


def _starved(held: list[AnswerLoad]) -> int:
    """Prompts that get nothing of vLLM's next step."""
    left = SIZE.step_tokens - sum(not answer.prefilling for answer in held)
    starved = 0
    for answer in held:
        if answer.prefilling:
            starved += left <= 0
            left -= min(answer.prompt_tokens, SIZE.step_tokens // 2)
    return starved


def test_the_margin_falls_fast_and_comes_back_slowly():
    """Three crowded steps in a row, or a preemption; then none for some steps: it must show first."""
    admission = ClaimPlanner(SIZE)
    for _ in range(2):
        admission.stepped(waiting=5, preemptions=0)
    admission.stepped(waiting=0, preemptions=0)
    assert admission.margin == 1.0
    for _ in range(3):
        admission.stepped(waiting=5, preemptions=0)
    assert admission.margin == pytest.approx(0.8)
    admission.stepped(waiting=0, preemptions=1)
    assert admission.margin == pytest.approx(0.8)
    for _ in range(200):
        admission.stepped(waiting=0, preemptions=1)
    assert admission.margin == 1.0
    admission.stepped(waiting=0, preemptions=2)
    assert admission.margin == pytest.approx(0.8)
    for _ in range(200):
        admission.stepped(waiting=5, preemptions=2)
    assert admission.margin == MARGIN_MIN


def test_how_fast_the_margin_moves():
    """Eight steps between two cuts; a fifth of a hundredth a step back. What waited longest is kept."""
    admission = ClaimPlanner(SIZE)
    assert admission.waiting_max == 0
    margins: list[float] = []
    for waiting in [3] * 19 + [2] * 2:
        admission.stepped(waiting, preemptions=0)
        margins.append(round(admission.margin, 4))
    assert margins == [1.0] * 2 + [0.8] * 8 + [0.64] * 8 + [0.512] + [0.514, 0.516]
    assert admission.waiting_max == 3
    fresh = ClaimPlanner(SIZE)
    fresh.stepped(0, preemptions=1)
    assert fresh.margin == 0.8, "its first preemption counts"


def test_a_workers_size_is_that_of_its_settings(settings: Settings):
    """Where nobody has chosen a step takes 256 tokens."""
    chosen = {"worker_slots": 5, "worker_first_token_target_ms": 15_500, "worker_step_target_ms": 5_250}
    for tokens, expected in ((0, 256), (64, 64)):
        asked = settings.model_copy(update={**chosen, "worker_batched_tokens": tokens})
        assert capacity_of(asked, 900) == Capacity(5, 900, expected, 15.5, 5.25)
    assert (Capacity(1, 1, 1).first_token_seconds, Capacity(1, 1, 1).step_seconds) == (2.0, 1.0)


def test_a_smaller_margin_leaves_more_free():
    """Of KV and of the prompts in prefill."""
    admission, held = an_admission(), [decoding()]
    wide = admission.room(held, 0)
    admission.stepped(0, preemptions=1)
    assert admission.room(held, 0).kv_tokens < wide.kv_tokens


def test_the_predicted_step_is_a_full_one_while_prompts_are_in_prefill():
    """That is what a lease must allow for; beside it, what all that decode have so far is read."""
    reads = an_admission(coefficients=(0.01, 0.0005, 0.001, 0.00001))
    assert reads.predicted_step([decoding(tokens=900)] * 10) == pytest.approx(0.12, rel=0.05)
    admission = an_admission()
    assert admission.predicted_step([decoding()] * 10) == pytest.approx(0.02, rel=0.1)
    assert admission.predicted_step([decoding()] * 10 + [prefilling(9)]) == pytest.approx(0.148, rel=0.1)
    assert ClaimPlanner(SIZE).predicted_step([prefilling(9)]) == pytest.approx(0.5)


def test_lower_classes_come_in_packs():
    """On a busy worker bulk is let through twice a second, standard every 50 ms, interactive always."""
    packing = ClassPacking()
    assert packing.lowest(1000, free_share=0.1) is PriorityClass.BULK
    packing.claimed(PriorityClass.BULK, 1000)
    assert packing.lowest(1001, 0.1) is PriorityClass.INTERACTIVE
    assert packing.lowest(1050, 0.1) is PriorityClass.STANDARD
    packing.claimed(PriorityClass.STANDARD, 1050)
    assert packing.lowest(1500, 0.1) is PriorityClass.BULK
    assert packing.lowest(1051, free_share=0.5) is PriorityClass.BULK
    assert packing.lowest(1051, free_share=0.25) is PriorityClass.BULK
    assert ClassPacking().lowest(0, 0.0) is PriorityClass.BULK, "nobody waits for the first pack"


def test_the_steps_size_is_chosen_so_that_a_full_prefill_step_stays_short():
    """The largest measured one within half a second, or on the line to the next; nothing is guessed."""
    measured = [(64, 0.1), (128, 0.2), (256, 0.4), (512, 0.8)]
    assert step_tokens_within(measured) == 320
    assert step_tokens_within(reversed(measured), seconds=0.2) == 128
    assert step_tokens_within(measured, seconds=0.05) is None
    assert step_tokens_within(measured, seconds=9.0) == 512
    assert step_tokens_within([]) is None
