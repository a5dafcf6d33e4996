"""How many bad messages within a minute end a connection."""

from dataclasses import replace

import pytest

from server.session.limits import BAD_MESSAGE_SECONDS
from server.session.violations import Violations
from tests.server.playbook import LIMITS


@pytest.mark.parametrize(("most", "ends"), [(0, [True, True]), (1, [True, True]), (3, [False, False, True])])
def test_so_many_within_a_minute_end_it(most: int, ends: list[bool]):
    """None allowed and one allowed are the same: the first one ends it."""
    violations = Violations(replace(LIMITS, bad_messages=most))
    assert [violations.add(float(at)) for at in range(len(ends))] == ends


def test_what_is_a_minute_old_does_not_count():
    """To the second."""
    violations = Violations(replace(LIMITS, bad_messages=2))
    assert [violations.add(at) for at in (0.0, BAD_MESSAGE_SECONDS + 0.1)] == [False, False]
    assert violations.add(2 * BAD_MESSAGE_SECONDS + 0.1)
