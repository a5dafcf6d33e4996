"""Ready time: what heartbeats leave in Redis, against a plain reading of them."""

from dataclasses import dataclass, field

import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.dedicated_pools.hours import HOUR_MS, READY_GAP_MS_MAX, ReadyInterval, parse, ready_key
from core.redis.script_calls import arguments_of
from engine.node.reports import READY, ReadyCall, ReadyTime, WorkerProcessState
from engine.node.supervised_worker import gpu_type
from engine.queue import redis_keys

POOL = "metered"
START_MS = 500 * HOUR_MS - 200_000
LEASE_MS = 3_000


@dataclass(frozen=True)
class Beat:
    """A heartbeat of one worker, `after_ms` after the one before; `alive`: its lease runs."""

    after_ms: int
    worker: int
    state: str
    alive: bool
    busy: bool


beats = st.lists(
    st.builds(
        Beat,
        after_ms=st.one_of(st.integers(0, 3_000), st.integers(50_000, 70_000), st.integers(-90_000, 0)),
        worker=st.integers(0, 1),
        state=st.sampled_from(("ready", "ready", "ready", "draining", "starting", "alarm")),
        alive=st.sampled_from((True, True, True, False)),
        busy=st.booleans(),
    ),
    max_size=40,
)


@dataclass
class ReadyModel:
    """What is ready, and busy, by a plain reading: for each worker pieces of (from, to)."""

    last: dict[int, int] = field(default_factory=dict[int, int])
    open: dict[int, str] = field(default_factory=dict[int, str])
    ready: dict[int, list[tuple[int, int]]] = field(default_factory=dict[int, list[tuple[int, int]]])
    busy_ms: dict[int, int] = field(default_factory=dict[int, int])

    def beat(self, beat: Beat, now: int) -> None:
        """One more."""
        drains = beat.state == "draining"
        ready = beat.alive and (beat.state == "ready" or (drains and beat.busy))
        if not ready:
            self.open.pop(beat.worker, None)
            return
        if self.open.get(beat.worker) == beat.state:
            last = self.last[beat.worker]
            if now < last:
                return
            if now - last <= READY_GAP_MS_MAX:
                self.ready.setdefault(beat.worker, []).append((last, now))
                self.busy_ms[beat.worker] = self.busy_ms.get(beat.worker, 0) + (now - last) * beat.busy
        elif beat.worker in self.open and now < self.last[beat.worker]:
            return
        self.open[beat.worker] = beat.state
        self.last[beat.worker] = now


class ReadyPool:
    """The script on a real server, at given times."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.client.flushall()
        self.script = self.client.register_script(READY.source)

    def beat(self, beat: Beat, now: int) -> int:
        """Set what the pool knows of the worker, then its heartbeat."""
        name = f"node 0-{beat.worker}"
        claims = redis_keys.claims(POOL, name)
        self.client.zadd(redis_keys.workers(POOL), {name: now + (LEASE_MS if beat.alive else 0)})
        self.client.delete(claims)
        if beat.busy:
            self.client.sadd(claims, "t:r")
        return self.send(now, name, beat.state, f"GPU-{beat.worker}")

    def send(self, now: int, name: str, state: str, device: str, most: int = 1_000) -> int:
        """One heartbeat."""
        beat = ReadyTime(name, WorkerProcessState(state), 1, device, "h200")
        call = ReadyCall(now_ms=now, gap_ms_max=READY_GAP_MS_MAX, intervals_max=most, heartbeats=[beat])
        return int(str(self.script(keys=[redis_keys.system(POOL)], args=arguments_of(call))))

    def intervals(self) -> list[ReadyInterval]:
        """What a biller reads."""
        found: dict[bytes, bytes] = self.client.hgetall(ready_key(POOL))  # type: ignore[assignment]
        return sorted((parse(POOL, *entry) for entry in found.items()), key=lambda each: each.from_ms)


@settings(max_examples=80)
@given(history=beats)
def test_heartbeats_add_up_to_ready_time(redis_url: str, history: list[Beat]) -> None:
    """Gaps above a minute are no ready time, nor is what starts, failed, lost its lease or drains empty; a
    repeated heartbeat and a clock that goes back add nothing; every interval lies in one hour."""
    pool, model, now = ReadyPool(redis_url), ReadyModel(), START_MS
    for beat in history:
        now += beat.after_ms
        for _ in range(2):
            pool.beat(beat, now)
            model.beat(beat, now)
    for worker in (0, 1):
        own = [each for each in pool.intervals() if each.device == f"GPU-{worker}"]
        assert sum(each.to_ms - each.from_ms for each in own) == _total(model.ready.get(worker, []))
        assert sum(each.busy_ms for each in own) == model.busy_ms.get(worker, 0)
    pool.client.close()


def _total(pieces: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in pieces)


def test_time_is_cut_at_full_hours(redis_url: str) -> None:
    """So that an hour's bill needs no look at another's."""
    pool, hour = ReadyPool(redis_url), 500 * HOUR_MS
    for at in (hour - 1_500, hour - 500, hour + 500, hour + 1_500):
        pool.beat(Beat(0, 0, "ready", True, at > hour), at)
    assert [(each.from_ms - hour, each.to_ms - hour, each.busy_ms) for each in pool.intervals()] == [
        (-1_500, 0, 500),
        (0, 1_500, 1_500),
    ]
    pool.client.close()


def test_a_worker_that_was_told_to_drain_is_ready_only_while_it_works(redis_url: str) -> None:
    """Also where its supervisor has not seen it yet."""
    pool = ReadyPool(redis_url)
    pool.beat(Beat(0, 0, "ready", True, False), START_MS)
    pool.client.hset(redis_keys.worker(POOL, "node 0-0"), "state", "draining")
    pool.beat(Beat(0, 0, "ready", True, False), START_MS + 1_000)
    pool.beat(Beat(0, 0, "ready", True, True), START_MS + 2_000)
    pool.beat(Beat(0, 0, "ready", True, True), START_MS + 3_000)
    assert [(each.from_ms - START_MS, each.to_ms - START_MS, each.state) for each in pool.intervals()] == [
        (0, 0, "ready"),
        (2_000, 3_000, "draining"),
    ]
    pool.client.close()


def test_what_no_biller_takes_has_a_limit(redis_url: str) -> None:
    """Intervals beyond it are not kept, and the supervisor hears so."""
    pool = ReadyPool(redis_url)
    for at in range(3):
        pool.client.zadd(redis_keys.workers(POOL), {f"w{at}": START_MS + LEASE_MS})
        assert pool.send(START_MS, f"w{at}", "ready", f"GPU-{at}", most=2) == (at == 2)
    assert len(pool.intervals()) == 2
    pool.client.close()


def test_gpus_are_named_as_prices_name_them() -> None:
    """Without the maker, in one word."""
    assert gpu_type("NVIDIA H200") == "h200"
    assert gpu_type("NVIDIA A100-SXM4-80GB") == "a100-sxm4-80gb"
    assert gpu_type("Tesla T4") == "t4"
    assert gpu_type("") == "gpu"
