"""What a worker offers to claim, and what it learns of what was claimed before."""

from typing import Any

import pytest

from engine.backends.base import Finish, StepMeasurement
from engine.request import PriorityClass
from engine.scheduling.capacity import WINDOW_MS, AnswerLoad, ClaimPlanner
from engine.scheduling.cost import OutputLengths, StepCost, StepLoad
from tests.engine.builders import FINGERPRINT, START_MS
from tests.engine.loads import a_load, claim, flush, holding, sampled
from tests.engine.workers import PROMPT


def test_claims_are_bounded_by_what_was_granted_to_those_before(monkeypatch: pytest.MonkeyPatch):
    """Each is counted once, as it is claimed."""
    counted: list[AnswerLoad] = []
    monkeypatch.setattr(ClaimPlanner, "claimed", lambda _, held: counted.append(held))
    load = holding("a", "b", granted=30)
    load.stepped([sampled("a", "x"), sampled("b", "x")], START_MS)
    assert counted == [AnswerLoad("t1", len(PROMPT), 0, 50, 30, True)] * 2


def test_the_engines_prefix_cache_is_counted_for_prompts_only():
    """An answer prefills until its first token."""
    load = holding("a")
    assert load.prefills("ck-a")
    assert not load.prefills("ck-b")
    load.stepped([sampled("a", "x")], START_MS)
    assert not load.prefills("ck-a")


def test_what_steps_take_is_learned_with_what_was_decoded_in_them(monkeypatch: pytest.MonkeyPatch):
    """Prompts that are still in prefill are no context; the engine's own queue moves the margin."""
    learned: list[tuple[StepLoad, float]] = []
    monkeypatch.setattr(StepCost, "learn", lambda _, load, seconds: learned.append((load, seconds)))
    load = holding("a", "b")
    load.stepped([sampled("a", "xyz")], START_MS)
    load.measured([StepMeasurement(0.5, 40, 1), StepMeasurement(0.25, 0, 2)], 1, 0)
    context = len(PROMPT) + 3
    assert learned == [(StepLoad(40, 1, context), 0.5), (StepLoad(0, 2, context), 0.25)]
    assert (load.waiting_max, load.margin) == (1, 1.0)
    load.measured([StepMeasurement(0.5, 0, 1)], 3, 1)
    assert (load.waiting_max, load.margin) == (3, 0.8)
    load.measured([], 9, 9)
    assert load.waiting_max == 3


def test_what_is_predicted_is_said_in_whole_units(monkeypatch: pytest.MonkeyPatch):
    """Milliseconds of the running step, and prompt tokens a second beside nothing else."""
    monkeypatch.setattr(StepCost, "predict", lambda _, load: load.prefill_tokens / 1000 + load.sequences / 4)
    monkeypatch.setattr(
        StepCost,
        "prefill_rate",
        lambda _, load: load.prefill_tokens * 2.0 + load.sequences + load.context_tokens,
    )
    load = holding("a", "b")
    load.stepped([sampled("a", "x")], START_MS)
    assert load.step_predicted_ms == 506
    assert load.prefill_tokens_per_second == 512


def test_what_has_ended_is_learned_from_and_no_other(monkeypatch: pytest.MonkeyPatch):
    """A length that nobody reached says nothing of lengths."""
    learned: list[Any] = []
    monkeypatch.setattr(OutputLengths, "learn", lambda _, *facts: learned.append(facts))
    load = holding("a", "b")
    load.stepped([sampled("a", "xyz", Finish.STOP), sampled("b", "x", Finish.ERROR)], START_MS)
    flush(load)
    load.departures()
    assert learned == [("t1", len(PROMPT), 3)]


def test_a_full_worker_says_so_and_offers_nothing():
    """Until something leaves."""
    load = a_load(slots=2)
    assert not load.full
    load.claimed([claim("a"), claim("b")], START_MS)
    load.stepped([sampled("a", "x"), sampled("b", "x")], START_MS)
    assert (load.offer(0, START_MS).slots, load.full) == (0, True)
    load.stepped([sampled("a", "x", Finish.STOP)], START_MS)
    flush(load)
    assert (load.offer(0, START_MS).slots, load.full) == (1, False)


def test_lower_classes_come_in_packs_where_little_is_free():
    """From the last claim on that let them through; with a quarter free they come at once."""
    standard = WINDOW_MS[PriorityClass.STANDARD]
    for held, gather in ((15, False), (16, True)):
        load = a_load(slots=20)
        load.claimed([claim(str(number)) for number in range(held)], START_MS)
        load.stepped([sampled(str(number), "x") for number in range(held)], START_MS)
        offer = load.offer(0, START_MS)
        assert (offer.lowest, offer.fingerprint) == (PriorityClass.BULK, FINGERPRINT)
        load.answered(offer, START_MS)
        soon, later = (load.offer(0, START_MS + ms).lowest for ms in (standard - 1, standard))
        bulk = PriorityClass.BULK
        gathered = (PriorityClass.INTERACTIVE, PriorityClass.STANDARD)
        assert (soon, later) == (gathered if gather else (bulk, bulk))
