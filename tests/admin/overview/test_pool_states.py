"""How workers and pools do, and what waits by class."""

import pytest

from admin.overview.answer import WaitingClass
from admin.overview.pool_states import SeenPool, cell_of, waiting_by_class
from engine.operations.live_pools import LiveWorker
from tests.admin.overview.platforms import a_pool, a_worker, waiting


@pytest.mark.parametrize(
    ("worker", "state", "why"),
    [
        (a_worker(), "serving", ""),
        (a_worker(step_age_ms=1_000), "slow", "its last step is 1.0 s old"),
        (a_worker(step_age_ms=1_000, predicted=400), "serving", ""),
        (a_worker(step_age_ms=None, predicted=None), "serving", ""),
        (a_worker(state="starting", why="ended with code 1"), "starting", "ended with code 1"),
        (a_worker(state="draining", step_age_ms=9_000), "draining", ""),
        (a_worker(state="lapsed"), "lost", "its heartbeats stopped"),
        (a_worker(state="restarting"), "lost", "its process ended"),
        (a_worker(state="sick", why="Xid 79"), "lost", "Xid 79"),
        (a_worker(state="alarm"), "lost", "its model does not load"),
    ],
)
def test_a_worker_has_one_state_and_a_reason(worker: LiveWorker, state: str, why: str) -> None:
    """Slow is who is far behind its own pace."""
    cell = cell_of(worker)
    assert (cell.state, cell.why) == (state, why)


def test_a_pool_counts_who_serves() -> None:
    """Slots and KV of those who take requests; what the others still have in hand runs too."""
    workers = [
        a_worker(running=3, kv_usage=0.9),
        a_worker("w2", "draining", running=2),
        a_worker("w3", kv_usage=0.1),
    ]
    shown = SeenPool(a_pool("eu-1", workers, waiting(1), bulk=waiting(4)), "acme").shown()
    assert (shown.running, shown.slots, shown.kv, shown.waiting) == (5, 32, 0.5, 5)
    assert (shown.model, shown.shared, shown.tenants) == ("qwen 4", False, ["acme"])
    assert [each.worker for each in shown.workers] == ["w1", "w2", "w3"]


def test_a_pool_that_has_nothing_is_shown_where_somebody_counts_on_it() -> None:
    """By a model's route, or as its own; an announced name alone is nothing."""
    empty = a_pool("old")
    assert not SeenPool(empty).is_shown
    assert SeenPool(empty, owner="acme").is_shown
    routed = SeenPool(empty, models=("qwen",))
    assert routed.is_shown
    assert (routed.shown().model, routed.shown().why) == ("qwen", "no worker serves it")


def test_what_waits_is_summed_over_pools() -> None:
    """The oldest of all, and when the next of its pool is taken: behind all of higher classes there."""
    slow = a_pool("a", [], waiting(3, 100), waiting(2, 9_800), pace_ms=2_000.0)
    fast = a_pool("b", [], waiting(1, 300), bulk=waiting(7, 684_000))
    assert waiting_by_class([SeenPool(slow), SeenPool(fast)]) == [
        WaitingClass("interactive", 4, 0.3, None),
        WaitingClass("standard", 2, 9.8, 8.0),
        WaitingClass("bulk", 7, 684.0, None),
    ]
    assert waiting_by_class([])[0] == WaitingClass("interactive")
