"""When pings go."""

import random

import pytest

from server.session.heartbeat import Heartbeat
from tests.server.playbook import LIMITS


def test_pings_are_a_fifth_of_the_interval_apart_at_most():
    """From 80 to 120 % of it, each time anew, so that clients do not answer in step."""
    heartbeat, same = Heartbeat(LIMITS, random.Random(7)), random.Random(7)
    heartbeat.start(100.0)
    assert heartbeat.due() == pytest.approx(100 + 25 * same.uniform(0.8, 1.2))
    heartbeat.start(200.0)
    assert heartbeat.due() == pytest.approx(200 + 25 * same.uniform(0.8, 1.2))
