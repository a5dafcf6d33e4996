"""Settings of queue, log and workers. Part of `core.configuration.settings.Settings`.

A text under a setting is its sentence in docs/settings.md; a line of comment begins a section there.
"""

from core.configuration.bounds import (
    Fraction,
    Milliseconds,
    MillisecondsOrNone,
    Pause,
    Seconds,
    SecondsOrNone,
    Some,
    SomeOrNone,
    Weight,
)
from core.configuration.settings_part import SettingsPart


class QueueSettings(SettingsPart):
    """Lengths of queues, fairness, times for which logs and leases last, and work that a worker takes."""

    # Queue and log
    entry_bytes_max: Some = 16 * 1024
    """Bytes of text in one log entry; a longer one is split."""
    queue_requests_max: Some = 10_000
    """Requests that wait in a pool; one more is `overloaded`."""
    queue_requests_per_tenant_max: Some = 1_000
    """Requests of one tenant that wait in a pool; one more is `overloaded`."""
    maxmemory_fraction_max: Fraction = 0.85
    """Part of Redis' `maxmemory` above which new requests are `overloaded`, from above 0 to 1."""
    worker_lease_ms: Milliseconds = 3_000
    """Milliseconds after which a worker that does not renew its lease counts as dead, and its requests go to
    others."""
    gateway_lease_ms: Milliseconds = 3_000
    """Milliseconds after which a gateway that does not renew its lease counts as dead, and its readers as
    gone."""
    reap_interval_ms: Milliseconds = 250
    """Milliseconds between two looks of a supervisor for lapsed leases; gateways look at longer intervals."""
    claim_picks_max: Some = 16
    """Requests that a worker takes with one claim."""
    readers_per_request_max: Some = 8
    """Gateways that read one request at once."""
    log_keep_seconds: Seconds = 600
    """Seconds that a request's log is kept after its answer was stored."""
    unrecorded_log_keep_seconds: Seconds = 24 * 3600
    """Seconds that a request's log is kept after its end while its answer is not stored."""
    deadline_interactive_ms: Milliseconds = 600_000
    """Milliseconds from acceptance to the deadline of an interactive request that asks for none."""
    deadline_standard_ms: Milliseconds = 600_000
    """Milliseconds from acceptance to the deadline of a standard request that asks for none."""
    deadline_bulk_ms: Milliseconds = 24 * 3600 * 1000
    """Milliseconds from acceptance to the deadline of a bulk request that asks for none, and the latest one
    that any request may ask for."""
    no_worker_seconds_max: SecondsOrNone = 120
    """Seconds after the last worker of a model until what waits for one ends `engine_lost` and new requests
    are `overloaded`; 0: at once."""
    chunk_tokens: Some = 256
    """Output tokens that an answer under a budget, wallet or token rate is allowed at a time."""
    deaths_max: Some = 4
    """Engine deaths in a row without a token after which a request that died alone ends `engine_lost`."""

    # Fairness
    fair_prompt_weight: Weight = 1.0
    """Cost of a prompt token in a tenant's share of a pool; 0: nothing."""
    fair_output_weight: Weight = 2.0
    """Cost of an output token in a tenant's share of a pool; 0: nothing."""
    fair_delta_tokens: SomeOrNone = 0
    """Tokens of weight 1 by which a tenant may be ahead of the one that had least and still be picked in
    order of arrival; 0: only the one that had least is picked."""
    age_standard_ms: MillisecondsOrNone = 30_000
    """Milliseconds that standard work waits until one pick of eight may be of it; 0: always."""
    age_bulk_ms: MillisecondsOrNone = 120_000
    """Milliseconds that bulk work waits until one pick of eight may be of it; 0: always."""
    tenant_reserves_max: SomeOrNone = 64
    """Tenants of one pool that may have a reserve of KV tokens; 0: none."""
    reserve_interactive_tokens: SomeOrNone = 0
    """KV tokens of a pool that standard and bulk work leaves free for interactive work; 0: none."""
    reserve_standard_tokens: SomeOrNone = 0
    """KV tokens of a pool that bulk work leaves free for standard work; 0: none."""
    terms_seconds: Pause = 10.0
    """Seconds between two looks of a gateway at tenants' terms (weight, caps, reserve), which it tells the
    pools; an edit is news, which comes at once besides."""

    # Worker
    worker_slots: Some = 32
    """Requests that a worker's engine runs at once."""
    worker_threads: SomeOrNone | None = None
    """Threads of an engine on the CPU; 0 or unset: all cores that the process may use, of a supervisor's
    workers an even share."""
    worker_kv_mib: Some = 512
    """Memory in MiB of an engine's KV cache on the CPU; on a GPU vLLM takes what is free."""
    worker_max_model_len: SomeOrNone | None = None
    """Tokens of prompt and answer together, at most the model's own context; 0 or unset: that."""
    worker_batched_tokens: SomeOrNone = 0
    """Tokens that an engine computes in one step; 0: as many as take half a second on this machine, by
    measurement."""
    worker_dtype: str = "auto"
    """Number format of weights, as vLLM names it: `auto`, `bfloat16`, `float32` …; only `float32` continues
    greedy answers token by token as they would have been."""
    worker_flush_ms: MillisecondsOrNone = 20
    """Most milliseconds that a new token waits for others until they are logged; 0: none."""
    worker_start_seconds_max: Seconds = 1800
    """Seconds within which a worker is ready, else its supervisor ends it and starts another."""
    journal_mib_max: SomeOrNone = 64
    """Size in MiB of the journal of ends that one process keeps in `PARLEY_HOME`/ends; 0 keeps none."""
    worker_first_token_target_ms: Milliseconds = 2_000
    """Milliseconds within which a worker wants to have prefilled what it claims."""
    worker_step_target_ms: Milliseconds = 1_000
    """Milliseconds that a step of a worker's engine shall take at most with what it claims."""
    meter_cpu: bool = False
    """Count a worker without a GPU as one device of type `cpu`, to try dedicated pools."""
