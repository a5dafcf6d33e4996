"""The small parts of a session: when pings go, and the limits that settings name."""

import random
from dataclasses import astuple

import pytest

from core.settings import Settings
from server.session.duties import AccessTimer, Heartbeat
from server.session.limits import SessionLimits
from server.session.pending import PendingRequests
from tests.server.playbook import LIMITS

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


def test_pings_are_a_fifth_of_the_interval_apart_at_most():
    """From 80 to 120 % of it, each time anew, so that clients do not answer in step."""
    heartbeat, same = Heartbeat(LIMITS, random.Random(7)), random.Random(7)
    heartbeat.start(100.0)
    assert heartbeat.due() == pytest.approx(100 + 25 * same.uniform(0.8, 1.2))
    heartbeat.start(200.0)
    assert heartbeat.due() == pytest.approx(200 + 25 * same.uniform(0.8, 1.2))


def test_access_without_an_end_asks_for_nothing():
    """Nor does it end."""
    access = AccessTimer(60.0)
    assert access.due() == float("inf")
    assert access.notice(1e9) is None
    assert not access.over(1e9)


def test_a_session_keeps_to_the_settings(settings: Settings):
    """Milliseconds there, seconds here."""
    given = (1.5, 2_500, 3_500, 4, 5, 6, 7, 8, 9, 10, 11.5, 12.5, 13, 14.5)
    changed = settings.model_copy(update=dict(zip(SETTINGS, given, strict=True)))
    assert astuple(SessionLimits.of(changed)) == (1.5, 2.5, 3.5, 4, 5, 6, 7, 8, 9, 0.01, 11.5, 12.5, 13, 14.5)


def test_a_detach_is_about_every_attach_before_it():
    """Two under way: neither reads; the next one does, and nothing of them is remembered."""
    underway = PendingRequests()
    underway.attach("r")
    underway.attach("r")
    underway.detach("r")
    assert (underway.attached("r"), underway.attached("r")) == (False, False)
    underway.attach("r")
    assert underway.attached("r")
    assert underway.attached("r"), "one that nobody counts is wanted"
    underway.detach("r")
    assert underway.attached("r"), "a detach after the answer is not about the next attach"


def test_a_send_is_under_way_until_each_of_its_kind_is_answered():
    """What was wished before is known to each answer."""
    underway = PendingRequests()
    underway.send("r")
    underway.send("r")
    underway.cancel("r")
    assert underway.answered("r").cancelled
    assert (underway.sent("r"), underway.ids()) == (True, ["r"])
    assert underway.answered("r").cancelled
    assert (underway.sent("r"), underway.ids()) == (False, [])
