"""A move is told as it would be: what goes, what stays and why, what room there is. All of it pure."""

from typing import Any

import pytest

from engine.operations.migration_preview import (
    STAYING_SHOWN_MAX,
    DestinationFacts,
    MigrationPreview,
    MovingRequest,
    SourceFacts,
    previewed,
)
from engine.queue.types import WorkerView


def request(id: str = "r", status: str = "running", **changes: Any) -> MovingRequest:
    """An answer of 100 tokens so far, 500 at most."""
    facts: dict[str, Any] = {"tenant": "acme", "fingerprint": "m@1", "computed": 100, "need": 500}
    return MovingRequest(id=id, status=status, **(facts | changes))


def worker(name: str = "w", fingerprint: str = "m@1", *, claims: int = 1, **info: Any) -> WorkerView:
    """A living worker of 4 slots and 1,000 KV tokens, of which half are in use."""
    facts = {"slots": 4, "kv_tokens": 1000, "kv_usage": 0.5, **info}
    return WorkerView(name, fingerprint, True, 0, claims, facts)


def moved(*requests: MovingRequest, **facts: Any) -> MigrationPreview:
    """The preview of these requests into a pool with one such worker."""
    there: dict[str, Any] = {"known": True, "workers": [worker()], **facts}
    return previewed(SourceFacts("a", requests), DestinationFacts("b", **there))


def test_what_goes_and_what_room_there_is() -> None:
    """Running answers take a slot and are computed again; what waits is counted apart."""
    told = moved(request("1"), request("2"), request("3", "queued"), request("4", "parked"), waiting=7)
    assert (told.streams, told.streams_of, told.waiting, told.waiting_of) == (2, 2, 2, 2)
    assert (told.slots, told.free, told.without_slot, told.waiting_there) == (4, 3, 0, 7)
    assert (told.kv, told.kv_after, told.recomputed_tokens) == (0.5, 0.7, 200)
    assert (told.stay, told.stay_total) == ([], 0)


@pytest.mark.parametrize(
    ("asked", "facts", "reason"),
    [
        (request(fingerprint="m@2"), {}, "no_worker"),
        (request(), {"workers": []}, "no_worker"),
        (request(need=1001), {}, "too_large"),
        (request(), {"admitted": frozenset({"other"})}, "stranger"),
        (request(), {"known": False}, "unknown_pool"),
    ],
)
def test_what_does_not_fit_stays_and_says_why(asked: MovingRequest, facts: Any, reason: str) -> None:
    """As the migrator would refuse it; it takes no room there."""
    told = moved(asked, **facts)
    assert [(each.id, each.reason, each.moved) for each in told.stay] == [("r", reason, False)]
    assert (told.streams, told.streams_of, told.recomputed_tokens) == (0, 1, 0)


def test_the_pool_where_it_is_takes_nothing() -> None:
    """A move within a pool is none."""
    told = previewed(SourceFacts("a", [request()]), DestinationFacts("a", known=True, workers=[worker()]))
    assert [each.reason for each in told.stay] == ["same_pool"]


def test_of_large_ones_the_largest_worker_decides() -> None:
    """As any worker may take it; one that says no size takes all, and a request that says none goes."""
    both = [worker("s", kv_tokens=400), worker("l", kv_tokens=600)]
    assert moved(request(), workers=both).streams == 1
    assert moved(request(need=0), workers=[worker(kv_tokens=10)]).streams == 1
    assert moved(request(), workers=[worker(kv_tokens=None)]).stay == []


def test_more_than_there_are_slots_for_wait_there() -> None:
    """They move all the same; a worker that drains or runs another version has no room for them."""
    theirs = [worker(claims=2), worker("d"), worker("o", "m@2")]
    told = moved(*(request(str(at)) for at in range(5)), workers=theirs, draining=frozenset({"d"}))
    assert (told.streams, told.slots, told.free, told.without_slot) == (5, 4, 2, 3)
    assert told.kv_after == 1.0


def test_of_many_that_stay_the_first_are_shown() -> None:
    """And all are counted; of a pool whose workers have said nothing nobody knows the room."""
    many = [request(str(at), need=10_000) for at in range(STAYING_SHOWN_MAX + 5)]
    told = moved(*many)
    assert (len(told.stay), told.stay_total) == (STAYING_SHOWN_MAX, STAYING_SHOWN_MAX + 5)
    silent = WorkerView("w", "m@1", True, 0, 0, {})
    unknown = moved(request(), workers=[silent])
    assert (unknown.slots, unknown.free, unknown.kv, unknown.without_slot) == (None, None, None, 0)
