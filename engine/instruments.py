"""The engine's instruments. Labels come from enums, but for a GPU's number on its node.

States, unlike events, are updated here about once a second and read at each scrape.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from opentelemetry.metrics import CallbackOptions, Observation

from billing.usage import UsageEvent
from core.clock import monotonic
from core.observability.request_figures import FIGURES, outcome_of
from core.observability.telemetry import meter
from engine.backends.base import EngineStats, StepMeasurement, StepOutput
from engine.gpus import DeviceHealth

# Whoever sweeps next shows a pool; what this process saw before is no longer true.
WAITING_SECONDS_MAX = 25.0

_meter = meter("engine")

sampled_tokens = _meter.create_counter("parley_worker_sampled_tokens", description="Token ids sampled")
claimed_requests = _meter.create_counter(
    "parley_worker_claims", description="Claims, by whether they continue what another worker began"
)
ended_requests = _meter.create_counter(
    "parley_worker_requests_ended", description="Requests ended, by reason"
)
stale_admissions_released = _meter.create_counter(
    "parley_stale_admissions_released",
    description="Admissions that never reached their pool and were given back",
)
allowance_replies = _meter.create_counter(
    "parley_worker_allowance_replies",
    description="Answers to who asked for more tokens: granted, wait, refused",
)
unclaimed_requests = _meter.create_counter(
    "parley_worker_unclaimed", description="Requests given back, by reason"
)
appends = _meter.create_counter(
    "parley_worker_appends", description="Requests' parts of flushes, by what became of them"
)
leases_lost = _meter.create_counter(
    "parley_worker_leases_lost", description="Times that all work was gone because the lease had ended"
)
orphans = _meter.create_counter(
    "parley_worker_orphans", description="Generations that the engine ran for nobody"
)
reaper_ends = _meter.create_counter(
    "parley_reaper_ends", description="Ends written for requests that no worker had, by reason"
)
journal_written = _meter.create_counter(
    "parley_journal_written", description="Ends written to the journal on disk"
)
journal_failures = _meter.create_counter(
    "parley_journal_failures",
    description="Writes of the journal that failed, by reason: disk, or full (at its bound). Alert above 0",
)
journal_lost = _meter.create_counter(
    "parley_journal_lost",
    description="Ends that are in no journal: unbilled if Redis is lost before they are",
)
journal_damaged = _meter.create_counter(
    "parley_journal_damaged", description="Files of journals that held what nobody wrote so"
)
journal_replayed = _meter.create_counter(
    "parley_journal_replayed", description="Ends of a lost memory, by what became of them: put, known, open"
)
requeued_requests = _meter.create_counter(
    "parley_reaper_requeued", description="Requests taken from workers whose lease had ended"
)
flush_seconds = _meter.create_histogram(
    "parley_worker_flush_seconds", unit="s", description="One append call for all answers"
)
safety_verdicts = _meter.create_counter(
    "parley_safety_verdicts",
    description="What safety policies found in requests that ended, by category, action and side",
)
safety_failures = _meter.create_counter(
    "parley_safety_failures", description="Answers that ended because their filter failed. Alert above 0"
)
safety_unbilled = _meter.create_counter(
    "parley_safety_unbilled_tokens",
    description="Tokens of blocked answers whose text was held: sampled, and billed to nobody",
)
safety_held = _meter.create_histogram(
    "parley_safety_held_tokens",
    description="At each flush of an answer: its tokens whose text a pattern still holds",
    explicit_bucket_boundaries_advisory=[0, 1, 2, 4, 8, 16, 32, 64, 128, 256],
)
alarms = _meter.create_counter(
    "parley_supervisor_alarms", description="Somebody has to look: a model that does not load, a sick GPU"
)
worker_exits = _meter.create_counter("parley_supervisor_worker_exits", description="Worker exits, by outcome")
_prefill_tokens = _meter.create_counter(
    "parley_worker_prefill_tokens", description="Prompt tokens computed, those computed again too"
)
_cached_tokens = _meter.create_counter(
    "parley_worker_cached_tokens", description="Prompt tokens found in the engine's cache"
)
_step_seconds = _meter.create_histogram("parley_worker_step_seconds", unit="s", description="An engine step")

_worker: dict[str, float] = {}
_states: Counter[str] = Counter()
_devices: list[DeviceHealth] = []
_waiting: dict[str, tuple[float, dict[str, int]]] = {}  # by pool, and when it was looked at


def count_steps(batch: Sequence[StepOutput], cached: int, steps: Sequence[StepMeasurement]) -> None:
    """One step's outputs, its cached prompt tokens, and what the steps since the last call took."""
    sampled_tokens.add(sum(len(output.tokens) for output in batch))
    _cached_tokens.add(cached)
    for step in steps:
        _step_seconds.record(step.seconds)
        _prefill_tokens.add(step.prefill_tokens)


def count_end(event: UsageEvent, priority: str) -> None:
    """Count an end that this process wrote: its outcome and duration, and how long it waited where no worker
    ever had it."""
    took_ms = event.ended_ms - event.accepted_ms
    outcome = outcome_of(event.reason, event.code)
    FIGURES.ended(priority, outcome, took_ms)
    if not event.claimed_ms:
        FIGURES.series("queue_wait", priority, outcome).observe(took_ms)


def show_worker(stats: EngineStats, requests: int, claim_margin: float, predicted_ms: int) -> None:
    """Set the gauges of this process's worker."""
    _worker.update(
        running=stats.running,
        waiting=stats.waiting,
        kv_usage=stats.kv_usage,
        step_age_seconds=stats.step_age_ms / 1000,
        step_predicted_seconds=predicted_ms / 1000,
        preemptions=stats.preemptions,
        requests=requests,
        claim_margin=claim_margin,
    )


def show_workers(states: Iterable[str], devices: Sequence[DeviceHealth]) -> None:
    """Set the gauges of this process's supervisor: states of its workers, and its GPUs."""
    _states.clear()
    _states.update(states)
    _devices[:] = devices


def show_waiting(pool: str, waiting: Mapping[str, int]) -> None:
    """Set the gauges of a pool that this process has swept."""
    _waiting[pool] = monotonic(), dict(waiting)


def _of_pools(_: CallbackOptions) -> Iterable[Observation]:
    since = monotonic() - WAITING_SECONDS_MAX
    fresh = [(pool, waiting) for pool, (at, waiting) in list(_waiting.items()) if at >= since]
    return [
        Observation(count, {"pool": pool, "class": priority})
        for pool, waiting in fresh
        for priority, count in waiting.items()
    ]


def _of_worker(name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: [Observation(_worker[name])] if name in _worker else []


def _of_workers(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(count, {"state": state}) for state, count in list(_states.items())]


def _of_devices(name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        found = [(device.index, getattr(device, name)) for device in list(_devices)]
        return [Observation(int(value), {"gpu": index}) for index, value in found if value is not None]

    return read


for _name, _what in {
    "running": "Generations that the engine runs",
    "waiting": "Generations in the engine's own queue",
    "kv_usage": "Part of the engine's KV memory that is in use",
    "step_age_seconds": "Since the engine last made progress, 0 without work",
    "step_predicted_seconds": "What the running step is expected to take",
    "requests": "Requests in hand",
    "claim_margin": "Part of its room that the worker claims for; less after the engine queued or preempted",
}.items():
    _meter.create_observable_gauge(f"parley_worker_{_name}", [_of_worker(_name)], description=_what)
_meter.create_observable_counter(
    "parley_worker_preemptions",
    [_of_worker("preemptions")],
    description="Sequences put back by the engine itself, for lack of KV memory",
)
_meter.create_observable_gauge(
    "parley_queue_waiting", [_of_pools], description="Requests in line, by pool and class"
)
_meter.create_observable_gauge(
    "parley_supervisor_workers",
    [_of_workers],
    description="Workers that a supervisor keeps running, by state",
)
for _name, _what in {
    "temperature": "Degrees Celsius",
    "ecc_uncorrected": "Uncorrected memory errors since the driver was loaded",
    "lost": "1 where the driver has lost it",
    "memory_used_mib": "Memory in use",
}.items():
    _meter.create_observable_gauge(f"parley_gpu_{_name}", [_of_devices(_name)], description=_what)
