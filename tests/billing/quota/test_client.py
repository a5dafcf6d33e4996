"""The tenant slot: one admission per request, settled once, on a real Valkey."""

import asyncio

import msgspec
import pytest
from redis.exceptions import OutOfMemoryError

from billing.quota.client import CANCEL_MARK_MS, SETTLED_KEEP_MS, Quota
from billing.quota.redis_keys import posted_key
from billing.quota.types import AdmissionState, Admitted, AllowanceExtension, Canceller
from core.configuration.settings import Settings
from core.errors import Refusal
from tests.billing.events import PRICES, an_event
from tests.billing.quota.admissions import an_admission
from tests.support.redis import Redis

RQ = "{t:t1}rq:r1"


@pytest.fixture
def quota(redis: Redis, settings: Settings) -> Quota:
    """The slot of any tenant in an empty Valkey."""
    return Quota(redis, settings)


async def admitted(quota: Quota, **changes: object) -> Admitted:
    """The answer to an admission that must not be refused."""
    answer = await quota.admit(an_admission(**changes))
    assert isinstance(answer, Admitted)
    return answer


async def test_the_first_admission_binds_pool_model_version_and_prices(quota: Quota) -> None:
    """A repeat with the same body gets the first binding, whatever routing says by then."""
    first = await admitted(quota)
    again = await admitted(quota, pool="B", fingerprint="f2")
    assert (first.dup, again.dup) == (False, True)
    for answer in (first, again):
        assert (answer.pool, answer.fingerprint) == ("A", "f1")
        assert (answer.prices, answer.price_version) == (PRICES, 1)
        assert (answer.cancelled, answer.state) == (False, AdmissionState.OPEN)
        assert answer.granted >= 1_000_000


@pytest.mark.parametrize(
    "change", [{"body_hash": "h2"}, {"owner_key": "k2"}, {"user": "u2"}, {"project": "p2"}]
)
async def test_an_id_with_another_body_or_owner_is_a_conflict(
    quota: Quota, change: dict[str, object]
) -> None:
    """Nobody reads a stranger's answer by guessing an id, and nothing is overwritten."""
    await admitted(quota)
    refusal = await quota.admit(an_admission(**change))
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.retry) == ("id_conflict", False)
    record = await quota.directory("t1", "r1")
    assert record is not None
    assert (record.body_hash, record.key, record.user, record.project) == ("h1", "k1", "u1", "p1")


@pytest.mark.parametrize(("from_ms", "then"), [(400_001, False), (400_000, True), (399_999, True)])
async def test_prices_that_begin_as_it_is_admitted_have_begun(quota: Quota, from_ms: int, then: bool) -> None:
    """The gateway looked a moment before: what the script's clock says by then holds."""
    coming = msgspec.structs.replace(PRICES, version=2)
    found = await admitted(quota, next_prices=coming, next_from_ms=from_ms)
    assert (found.prices, found.price_version) == ((coming, 2) if then else (PRICES, 1))


async def test_tenants_do_not_meet(quota: Quota) -> None:
    """The same id of another tenant is another request."""
    await admitted(quota)
    assert not (await admitted(quota, tenant="t2", body_hash="h2")).dup
    assert await quota.directory("t3", "r1") is None


async def test_of_many_admissions_at_once_one_is_the_first(quota: Quota) -> None:
    """The same send over fifty connections runs once."""
    answers = await asyncio.gather(*(admitted(quota) for _ in range(50)))
    assert sum(not answer.dup for answer in answers) == 1


async def test_the_directory_tells_all_that_was_bound(quota: Quota) -> None:
    """Attach, cancel and resume look here first."""
    assert await quota.directory("t1", "r1") is None
    await admitted(quota)
    record = await quota.directory("t1", "r1")
    assert record is not None
    assert (record.pool, record.fingerprint, record.model) == ("A", "f1", "smollm2")
    assert (record.input_tokens, record.deadline_ms, record.admitted_ms) == (12, 1_000_000, 400_000)
    assert (record.prices, record.state, record.cost_nano) == (PRICES, AdmissionState.OPEN, None)


async def test_a_request_is_settled_once(quota: Quota, redis: Redis) -> None:
    """The worker, the reaper and the biller all settle; the tenant is charged once."""
    await admitted(quota)
    assert await quota.open_requests("t1") == 1
    event = an_event()
    assert [await quota.settle(event) for _ in range(3)] == ["settled", "dup", "dup"]
    sums = await redis.hgetall(posted_key("t1"))
    assert int(sums.pop(b"began")) > 0
    assert sums == {
        b"cost_nano": b"%d" % event.cost_nano,
        b"input": b"12",
        b"output": b"7",
        b"requests": b"1",
    }
    assert await quota.open_requests("t1") == 0
    record = await quota.directory("t1", "r1")
    assert record is not None
    assert (record.state, record.cost_nano) == (AdmissionState.ENDED, event.cost_nano)


async def test_a_settled_request_is_known_for_a_while(quota: Quota, redis: Redis) -> None:
    """A second sending finds the end instead of running again; then the record goes by itself, once its lines
    are booked."""
    await admitted(quota)
    assert await redis.pttl(RQ) == -1
    await quota.settle(an_event())
    assert await redis.pttl(RQ) > 100 * SETTLED_KEEP_MS
    await quota.settle(an_event(), line_seq=3)
    assert SETTLED_KEEP_MS - 5_000 < await redis.pttl(RQ) <= SETTLED_KEEP_MS
    again = await admitted(quota)
    assert (again.dup, again.state) == (True, AdmissionState.ENDED)


async def test_a_late_settlement_of_a_forgotten_request_changes_nothing(quota: Quota, redis: Redis) -> None:
    """An event that is delivered again after the record's time was settled already."""
    assert await quota.settle(an_event()) == "unknown"
    assert await redis.keys("*") == []


async def test_amounts_beyond_what_a_double_holds_stay_exact(quota: Quota, redis: Redis) -> None:
    """2^53 and one: the smallest integer that a double cannot hold."""
    await redis.hset(posted_key("t1"), "cost_nano", str(2**53))
    await admitted(quota)
    await quota.settle(msgspec.structs.replace(an_event(), cost_nano=1))
    assert await redis.hget(posted_key("t1"), "cost_nano") == str(2**53 + 1).encode()


async def test_a_released_admission_can_be_made_anew(quota: Quota, redis: Redis) -> None:
    """The queue refused it: the same id may come again, also with another body and another pool."""
    await admitted(quota)
    assert [await quota.release("t1", "r1") for _ in range(2)] == [True, False]
    assert await quota.directory("t1", "r1") is None
    assert await quota.open_requests("t1") == 0
    assert await quota.mark_cancel("t1", "r1", Canceller()) is None
    answer = await admitted(quota, body_hash="h2", pool="B")
    assert (answer.dup, answer.pool, answer.cancelled) == (False, "B", True)
    assert await redis.pttl(RQ) == -1


async def test_a_request_that_ran_although_it_was_released_is_charged(quota: Quota, redis: Redis) -> None:
    """Two gateways sent it, one was refused and released, the other got it into the queue."""
    await admitted(quota)
    await quota.release("t1", "r1")
    assert await quota.settle(an_event()) == "settled"
    assert await redis.hget(posted_key("t1"), "requests") == b"1"


async def test_an_ended_request_is_not_released(quota: Quota) -> None:
    """A late release does not reopen what was settled."""
    await admitted(quota)
    await quota.settle(an_event())
    assert not await quota.release("t1", "r1")
    assert (await admitted(quota)).state is AdmissionState.ENDED


async def test_a_cancel_that_comes_first_is_met_by_the_admission(quota: Quota, redis: Redis) -> None:
    """Also by a retry and a second sending of it; another tenant's mark means nothing."""
    assert await quota.mark_cancel("t1", "r1", Canceller()) is None
    assert await quota.mark_cancel("t2", "r2", Canceller()) is None
    assert CANCEL_MARK_MS - 5_000 < await redis.pttl("{t:t1}cancel:r1") <= CANCEL_MARK_MS
    assert [(await admitted(quota)).cancelled for _ in range(2)] == [True, True]
    assert not (await admitted(quota, id="r2")).cancelled
    assert await redis.exists("{t:t1}cancel:r1") == 0


@pytest.mark.parametrize(
    ("canceller", "cancelled"),
    [
        (Canceller("p1", key="k1"), True),
        (Canceller("p1", user="u1"), True),
        (Canceller("p1", key="k2"), False),
        (Canceller("p1", user="u2"), False),
        (Canceller("p2", key="k1"), False),
    ],
)
async def test_a_stranger_s_cancel_means_nothing(quota: Quota, canceller: Canceller, cancelled: bool) -> None:
    """Before a request comes nobody knows whose it will be: the mark says who asked."""
    await quota.mark_cancel("t1", "r1", canceller)
    found = await admitted(quota, project="p1", owner_key="k1", user="u1")
    assert found.cancelled is cancelled


async def test_a_cancel_of_a_known_request_finds_its_pool(quota: Quota, redis: Redis) -> None:
    """One call decides, so no cancel falls between the look and the admission."""
    await admitted(quota)
    record = await quota.mark_cancel("t1", "r1", Canceller())
    assert record is not None
    assert (record.pool, record.state) == ("A", AdmissionState.OPEN)
    assert await redis.exists("{t:t1}cancel:r1") == 0


async def test_extending_is_absolute_and_only_rises(quota: Quota) -> None:
    """A repeated or late call takes nothing away."""
    start = (await admitted(quota)).granted
    assert await quota.extend("t1", "r1", start + 256) == AllowanceExtension(start + 256)
    assert await quota.extend("t1", "r1", start + 256) == AllowanceExtension(start + 256)
    assert await quota.extend("t1", "r1", 1) == AllowanceExtension(start + 256)
    await quota.settle(an_event())
    assert await quota.extend("t1", "r1", start + 512) == AllowanceExtension(start + 256)


async def test_extending_goes_on_after_redis_lost_the_admission(quota: Quota) -> None:
    """No answer is cut because of lost bookkeeping while no quota refuses."""
    assert await quota.extend("t1", "r1", 300) == AllowanceExtension(300)


async def test_an_open_request_counts_until_its_deadline_and_grace(quota: Quota) -> None:
    """Concurrency cannot leak: what nobody ever settles is dropped by the next admission."""
    await admitted(quota, id="r1", deadline_ms=1_000_000, now_ms=500_000)
    await admitted(quota, id="r2", deadline_ms=9_000_000, now_ms=1_060_000)
    assert await quota.open_requests("t1") == 2
    await admitted(quota, id="r3", deadline_ms=9_000_000, now_ms=1_060_001)
    assert await quota.open_requests("t1") == 2


async def test_ending_works_when_redis_is_full(quota: Quota, redis: Redis) -> None:
    """New work is refused; what ends, is released or cancelled gives memory back and always may."""
    await admitted(quota)
    await admitted(quota, id="r2")
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(OutOfMemoryError):
            await admitted(quota, id="r3")
        assert await quota.settle(an_event()) == "settled"
        assert await quota.release("t1", "r2")
        assert await quota.mark_cancel("t1", "r4", Canceller()) is None
    finally:
        await redis.config_set("maxmemory", 0)
