"""The limits that settings name."""

from dataclasses import astuple

from core.configuration.settings import Settings
from server.session.limits import SessionLimits

SETTINGS = (
    "hello_seconds_max",
    "heartbeat_interval_ms",
    "heartbeat_timeout_ms",
    "window_events",
    "window_bytes",
    "window_connection_bytes",
    "frame_bytes_max",
    "requests_per_connection_max",
    "bad_messages_per_minute_max",
    "delta_interval_ms",
    "paused_seconds",
    "stuck_seconds",
    "stuck_tokens",
    "auth_notice_seconds",
)


def test_a_session_keeps_to_the_settings(settings: Settings):
    """Milliseconds there, seconds here."""
    given = (1.5, 2_500, 3_500, 4, 5, 6, 7, 8, 9, 10, 11.5, 12.5, 13, 14.5)
    changed = settings.model_copy(update=dict(zip(SETTINGS, given, strict=True)))
    assert astuple(SessionLimits.of(changed)) == (1.5, 2.5, 3.5, 4, 5, 6, 7, 8, 9, 0.01, 11.5, 12.5, 13, 14.5)
