"""The engine's instruments. Labels come from enums only."""

from core.telemetry import meter

_meter = meter("engine")

sampled_tokens = _meter.create_counter("parley_worker_sampled_tokens", description="Token ids sampled")
claimed_requests = _meter.create_counter(
    "parley_worker_claims", description="Claims, by whether they continue"
)
ended_requests = _meter.create_counter("parley_worker_ended", description="Requests ended, by reason")
released_requests = _meter.create_counter("parley_worker_released", description="Requests given back, by why")
orphans = _meter.create_counter(
    "parley_worker_orphans", description="Generations that the engine ran for nobody"
)
orphan_ends = _meter.create_counter(
    "parley_orphan_ends", description="Ends written for requests that no worker had, by reason"
)
flush_seconds = _meter.create_histogram(
    "parley_worker_flush_seconds", unit="s", description="One append call for all answers"
)
alarms = _meter.create_counter(
    "parley_supervisor_alarms", description="Somebody has to look: a model that does not load, a sick GPU"
)
worker_exits = _meter.create_counter("parley_supervisor_worker_exits", description="Worker exits, by outcome")
