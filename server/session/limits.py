"""Limits of a session. Seconds; sizes in bytes."""

from dataclasses import dataclass

from core.configuration.settings import Settings

BAD_MESSAGE_SECONDS = 60.0
ACKS_BEYOND_SENT_MAX = 3
DELTA_BYTES_MAX = 16 * 1024
DELTA_BATCH_SECONDS = 0.04
BATCH_AFTER_SECONDS = 1.0
CATCH_UP_SECONDS = 0.25
PING_JITTER = 0.2


@dataclass(frozen=True)
class SessionLimits:
    """The settings that the session machine obeys."""

    hello_seconds: float
    heartbeat_interval: float
    heartbeat_timeout: float
    events: int
    bytes: int
    connection_bytes: int
    frame_bytes: int
    requests: int
    bad_messages: int
    delta_interval: float
    paused_seconds: float = 2.0
    stuck_seconds: float = 30.0
    stuck_tokens: int = 4096
    auth_notice_seconds: float = 60.0

    @staticmethod
    def of(settings: Settings) -> "SessionLimits":
        """The limits by the settings."""
        return SessionLimits(
            hello_seconds=settings.hello_seconds_max,
            heartbeat_interval=settings.heartbeat_interval_ms / 1000,
            heartbeat_timeout=settings.heartbeat_timeout_ms / 1000,
            events=settings.window_events,
            bytes=settings.window_bytes,
            connection_bytes=settings.window_connection_bytes,
            frame_bytes=settings.frame_bytes_max,
            requests=settings.requests_per_connection_max,
            bad_messages=settings.bad_messages_per_minute_max,
            delta_interval=settings.delta_interval_ms / 1000,
            paused_seconds=settings.paused_seconds,
            stuck_seconds=settings.stuck_seconds,
            stuck_tokens=settings.stuck_tokens,
            auth_notice_seconds=settings.auth_notice_seconds,
        )
