"""Installations of before the rooms (b50c75a) start with the settings that they have."""

from core.runtime.environment import unknown_settings

# Each setting that there was then.
THEN = """
access_seconds age_bulk_ms age_standard_ms alert_private_targets auth_notice_seconds
bad_messages_per_minute_max chunk_tokens claim_picks_max connection_lease_seconds connections_per_key_max
console_port control_frame_bytes_max cookie_seconds database_url deadline_bulk_ms deadline_interactive_ms
deadline_standard_ms deaths_max deflate delta_interval_ms drain_seconds_max entry_bytes_max
fair_delta_tokens fair_output_weight fair_prompt_weight frame_bytes_max gateway_lease_ms
heartbeat_interval_ms heartbeat_timeout_ms hello_seconds_max home host id_age_seconds_max
id_ahead_seconds_max installation key_check_seconds keys_per_tenant_max log_format log_keep_seconds
log_level maxmemory_fraction_max meter_cpu metrics_host metrics_port model no_worker_seconds_max node
noisy_check_seconds noisy_neighbours otlp_endpoint park_seconds_max paused_seconds poll_interval_seconds
pool port projects_per_tenant_max prompt_messages_max public_origins queue_requests_max
queue_requests_per_tenant_max readers_per_request_max reap_interval_ms redis_maxmemory_mib redis_url
requests_per_connection_max reserve_interactive_tokens reserve_standard_tokens resume_seconds secret
smtp_from smtp_host smtp_password smtp_port smtp_security smtp_user stuck_seconds stuck_tokens
tenant_reserves_max terms_seconds ticket_seconds unrecorded_log_keep_seconds users_per_tenant_max
window_bytes window_connection_bytes window_events worker_batched_tokens worker_dtype
worker_first_token_target_ms worker_flush_ms worker_kv_mib worker_lease_ms worker_max_model_len worker_slots
worker_start_seconds_max worker_step_target_ms worker_threads write_blocked_seconds_max
"""


def test_each_setting_that_there_was_is_one() -> None:
    """Who renames one takes the former name too: no start may ignore what an installation says."""
    assert unknown_settings(f"PARLEY_{name.upper()}" for name in THEN.split()) == []
