"""How long a token lets its client in."""

from server.session.access_timer import AccessTimer


def test_access_without_an_end_asks_for_nothing():
    """Nor does it end."""
    access = AccessTimer(60.0)
    assert access.due() == float("inf")
    assert access.notice(1e9) is None
    assert not access.over(1e9)
